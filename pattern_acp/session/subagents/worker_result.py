"""The result of a worker between its report and its landing: checked, shown to the user, and settled.

Owns: which checks have to succeed, the one question about a result, and what the worker or the model reads of both.
Must not know: how a worker runs, or how changes land.
"""

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import cut_middle, plural
from pattern_acp.domain.tool_calls import Location, TextContent, ToolCallView, ToolContent, ToolKind
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, Mode, PermissionAnswer, UserQuestion
from pattern_acp.session.subagents.memory import SubagentMemory, shown_memory
from pattern_acp.tools.base import DELEGATE, DelegatedTask, Progress
from pattern_acp.tools.file_changes import shown_change
from pattern_acp.turn.budget import UserWaitTimer
from pattern_acp.turn.checks import ConfiguredChecks
from pattern_acp.turn.recorder import NewEvent, ToolCallWaits, TurnRecorder
from pattern_acp.workspace.overlay import OverlayChange, OverlayFileSystem

if TYPE_CHECKING:
    from pattern_acp.memory.service.forking import MergeResult
    from pattern_acp.session.session import Session

MOST_FAILED_ROUNDS = 3
"""Times that checks may fail behind a report before nothing of it lands."""

FILES_SHOWN = 50
"""Most files whose diffs the question shows; the others are named."""

ACCEPT, SOME, CHANGES, DROP = "Accept", "Accept some files", "Ask for changes", "Drop it"
"""Answers about a result."""

_KINDS = {
    ACCEPT: PermissionAnswer.ALLOW_ONCE,
    SOME: PermissionAnswer.ALLOW_ALWAYS,
    DROP: PermissionAnswer.REJECT_ONCE,
    CHANGES: PermissionAnswer.REJECT_ALWAYS,
}

WITHOUT_MEMORY = "without memory"
"""Words behind `SOME` that leave out what the worker learned; `only memory` leaves out all files."""

_ABOUT_MEMORY = re.compile(r"\b(without|only) memory\b", re.IGNORECASE)

CHECKED_CHARACTERS = 4_000
"""Most characters of what checks said that the question shows."""


class CheckReport(Struct, frozen=True):
    """Results of the checks of one worker. `told` is for the model; empty when all passed."""

    lines: tuple[str, ...] = ()
    exit_code: int | None = None
    """0 when all lines succeeded, otherwise that of the first that did not."""
    output: str = ""
    """Hash of what they wrote; empty for no lines."""
    told: str = ""


class ResultPorts(Struct, frozen=True):
    """The parts of a subagent that its result uses. `interrupted` shows the question instead of the activity."""

    recorder: TurnRecorder
    progress: Progress
    waits: UserWaitTimer
    checks: ConfiguredChecks
    interrupted: Callable[[], AbstractAsyncContextManager[None]]
    memory: SubagentMemory


class WorkerResult:
    """The result of one worker, which may take several rounds."""

    def __init__(
        self,
        session: "Session",
        files: OverlayFileSystem,
        task: DelegatedTask,
        turn_id: TurnId,
        call_id: ToolCallId,
        ports: ResultPorts,
    ) -> None:
        self.files = files
        self._session, self._task, self._ports = session, task, ports
        self._turn_id, self._call_id = turn_id, call_id
        self._failed_rounds = 0
        self.asks = True
        """False for a result that becomes part of another one, about which the user is asked."""
        self.asks_later = False
        """True for a result in the background, which waits for `ask`."""
        self.is_settled = False
        """True once its changes may land."""
        self.takes_memory = True
        """False when the user left out what it learned."""
        self.wants_words = False
        """True when the user asked for changes and could not say there which: their next message does."""
        self.failed = False
        """True when checks prevented it from landing."""
        self.sentence = ""
        """Text for the model about it."""
        self.report = CheckReport()

    def shown_in(self, progress: Progress, turn_id: TurnId, call_id: ToolCallId) -> None:
        """Ask in another call from here on: that of a later turn."""
        self._ports = replace(self._ports, progress=progress, recorder=self._session.recorder)
        self._turn_id, self._call_id = turn_id, call_id

    @property
    def memory(self) -> SubagentMemory:
        """Its memory, which lands with its changes."""
        return self._ports.memory

    @property
    def waiting_changes(self) -> tuple[OverlayChange, ...]:
        """Changes that are to land, or that the user wants otherwise."""
        return self.files.changes() if self.is_settled or self.wants_words else ()

    async def settle(self) -> str:
        """Check the changes and ask the user; words with which the worker is to continue, empty when there are none.

        Raises:
            BlockError: what it learned cannot be read.
        """
        self.sentence, self.is_settled = "", False
        if not self.files.is_clean:
            self.report = await self._run_checks()
            if self.report.told:
                return self._refuse_unchecked()
        self.is_settled = True
        return "" if self.asks_later else await self.ask()

    async def ask(self) -> str:
        """Ask the user about checked changes, where they want to be asked; words with which the worker is to continue.

        Raises:
            BlockError: what it learned cannot be read.
        """
        if not self._must_ask():
            return ""
        learned = await self.memory.learned()
        if self.files.is_clean and learned is None:
            return ""
        before = len(self.files.changes())
        words = await self._ask(learned)
        left_out = before - len(self.files.changes())
        if self.is_settled and left_out and not self.files.is_clean:
            # What is left was never checked on its own.
            self.report = await self._run_checks()
            if self.report.told:
                self._failed_rounds = MOST_FAILED_ROUNDS
                return self._refuse_unchecked()
        return words

    def _refuse_unchecked(self) -> str:
        self.is_settled = False
        self._failed_rounds += 1
        if self._failed_rounds < MOST_FAILED_ROUNDS:
            told = self.report.told
            return f"Your changes did not land, since a check failed on them. Fix it, then report again.\n{told}"
        self.failed = True
        self.sentence = f"None of its changes landed, since a check failed on them.\n{self.report.told}"
        return ""

    def _must_ask(self) -> bool:
        review = self._session.state.settings.delegate.worker_review
        by_mode = self._session.state.policy.mode is not Mode.AUTO
        return self.asks and (review == "always" or (review == "by_mode" and by_mode))

    async def _run_checks(self) -> CheckReport:
        turn_id, checks = self._turn_id, self._ports.checks
        found = await checks.before_landing(turn_id, [change.path for change in self.files.changes()])
        told = [found.text] if found.failed else []
        exit_code: int | None = 0 if self._task.checks else None
        outputs: list[str] = []
        for line in self._task.checks:
            outcome, text = await checks.run_line(turn_id, f"of {self._task.name}", line, agreed=False)
            code = outcome.raw_output.get("exit_code")
            outputs.append(outcome.full_output or outcome.text)
            if outcome.is_error or code != 0:
                told.append(text or f"The check `{line}` failed.")
                exit_code = exit_code or (code if isinstance(code, int) else None)
        output = sha256_hex("\n".join(outputs).encode("utf-8", "surrogatepass")) if outputs else ""
        return CheckReport(self._task.checks, exit_code, output, "\n".join(told))

    async def _ask(self, learned: "MergeResult | None") -> str:
        """Put the question; words for the worker to continue with."""
        changes, name = self.files.changes(), self._task.name
        several = len(changes) + (learned is not None) > 1
        options = (ACCEPT, *((SOME,) if several else ()), CHANGES, DROP)
        view = self._view(changes, learned)
        recorder = self._ports.recorder
        asked = PermissionAsked(self._turn_id, self._call_id, view.title, options)
        await recorder.record(NewEvent(asked, Actor.SYSTEM))
        async with self._asking(view):
            answer = await self._session.approver.put(UserQuestion(view, _text_of(view), options, is_closed=True))
            if answer is None:
                answer = await self._by_buttons(view, options)
            label = next((each for each in sorted(options, key=len, reverse=True) if answer.startswith(each)), "")
            words = answer[len(label) :].lstrip(". ").strip()
            label = label or (CHANGES if words else DROP)
            if label == CHANGES and not words:
                words = await self._session.approver.put(UserQuestion(view, f"What should {name} change?", ())) or ""
            chosen, takes_memory = tuple(change.path for change in changes), True
            if label == SOME:
                chosen, takes_memory = await self._chosen(view, changes, learned, words)
        named = (display_path(path, self._cwd) for path in chosen) if label == SOME else ()
        without = (WITHOUT_MEMORY,) if learned is not None and not takes_memory else ()
        said = "; ".join((label, *((words,) if words else ()), *named, *without))
        answered = PermissionAnswered(self._turn_id, self._call_id, said)
        await recorder.record(NewEvent(answered, Actor.HUMAN, Origin.PERSON))
        return self._follow(label, words, chosen, learned, takes_memory=takes_memory)

    def _follow(
        self, label: str, words: str, chosen: Sequence[str], learned: "MergeResult | None", *, takes_memory: bool
    ) -> str:
        added = f" They said: {words}" if words else ""
        self.is_settled, self.takes_memory = False, takes_memory
        if label == CHANGES and words:
            return asked_for(words)
        if label == ACCEPT:
            self.is_settled, self.sentence = True, f"The user accepted it.{added}"
        elif label == SOME and (chosen or (takes_memory and learned is not None)):
            changes = self.files.changes()
            rest = [change.path for change in changes if change.path not in chosen]
            self.files.put_back(rest)
            left_out = [display_path(path, self._cwd) for path in rest]
            left_out += ["what it learned"] if learned is not None and not takes_memory else []
            names = ", ".join(left_out)
            self.is_settled, self.sentence = True, f"The user accepted it without {names}." if left_out else ""
        elif label == CHANGES:
            # Where nothing works behind a prompt the model has to delegate again.
            self.wants_words = self._session.constellation.background is not None
            self.sentence = (
                f"None of its changes landed: the user wants others first. Their next message says which, and "
                f"{self._task.name} continues with it in the background. Ask for it in one sentence, and end your turn."
            )
        else:
            self.sentence = f"None of its changes landed: the user dropped them.{added}"
        return ""

    async def _by_buttons(self, view: ToolCallView, options: Sequence[str]) -> str:
        """The answer of a client that shows one button of a kind."""
        buttons = tuple(ApprovalOption(kind, label) for label, kind in _KINDS.items() if label in options)
        answer = await self._session.approver.ask(ApprovalRequest(view, view.title, buttons))
        return next((each.name for each in buttons if each.answer is answer), DROP)

    async def _chosen(
        self, view: ToolCallView, changes: Sequence[OverlayChange], learned: "MergeResult | None", words: str
    ) -> tuple[tuple[str, ...], bool]:
        """The paths that the user named by words, or by one answer for each file; and whether what it learned lands."""
        paths, found = tuple(change.path for change in changes), _ABOUT_MEMORY.search(words)
        if learned is not None and found is not None and found[1].lower() == "only":
            return (), True
        takes_memory = found is None
        named = _named(_ABOUT_MEMORY.sub("", words), paths, self._cwd)
        if named or (learned is not None and not takes_memory):
            return named or paths, takes_memory
        take = ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Take it")
        leave = ApprovalOption(PermissionAnswer.REJECT_ONCE, "Leave it out")
        chosen: list[str] = []
        for change in changes:
            title = f"{self._task.name}: take {display_path(change.path, self._cwd)}?"
            content = _diffs((change,))
            each = ToolCallView(self._call_id, DELEGATE, title, view.kind, {}, (Location(change.path),), content)
            if (await self._session.approver.ask(ApprovalRequest(each, title, (take, leave)))).allows:
                chosen.append(change.path)
        if learned is not None:
            title = f"{self._task.name}: take what it learned?"
            content = tuple(map(TextContent, shown_memory(learned)))
            each = ToolCallView(self._call_id, DELEGATE, title, view.kind, {}, content=content)
            takes_memory = (await self._session.approver.ask(ApprovalRequest(each, title, (take, leave)))).allows
        return tuple(chosen), takes_memory

    def _view(self, changes: Sequence[OverlayChange], learned: "MergeResult | None") -> ToolCallView:
        name, files = self._task.name, plural(len(changes), "changed file")
        lines = [f"**{name}** has finished: {files}.", ""]
        lines += [f"- {display_path(change.path, self._cwd)}{_kind_of(change)}" for change in changes]
        memory, title = shown_memory(learned), f"{name}: accept {files}?"
        if learned is not None:
            lines += ["", memory[0]]
            lines += [f"- `{block.label}`" for block in learned.blocks]
            title = f"{name}: accept {files} and what it learned?" if changes else f"{name}: accept what it learned?"
        lines += ["", *(f"`{line}` succeeded." for line in self.report.lines)]
        text = cut_middle("\n".join(lines).strip(), CHECKED_CHARACTERS).text
        content = (TextContent(text), *_diffs(changes[:FILES_SHOWN]), *map(TextContent, memory[1:]))
        locations = tuple(Location(change.path) for change in changes)
        return ToolCallView(self._call_id, DELEGATE, title, ToolKind.EDIT, {}, locations, content)

    @asynccontextmanager
    async def _asking(self, view: ToolCallView) -> AsyncGenerator[None, None]:
        """The user is asked, alone, and sees the result in the call, until this context ends."""
        ports = self._ports
        with ports.waits.waiting():
            async with self._session.state.policy.asking, ports.interrupted():
                await ports.progress.show(view.content, title=view.title)
                await self._session.recorder.show(ToolCallWaits(self._call_id))
                yield

    @property
    def _cwd(self) -> str:
        return self._session.state.cwd


def asked_for(words: str) -> str:
    """Words of the user with which a worker continues."""
    return f"The user looked at your changes, which have not landed, and asks for this: {words}"


def _text_of(view: ToolCallView) -> str:
    return "".join(part.text for part in view.content[:1] if isinstance(part, TextContent))


def _kind_of(change: OverlayChange) -> str:
    if change.after is None:
        return " (removed)"
    return " (new)" if change.before is None else " (binary)" if isinstance(change.after, bytes) else ""


def _diffs(changes: Sequence[OverlayChange]) -> tuple[ToolContent, ...]:
    found: list[ToolContent] = []
    for change in changes:
        if not isinstance(change.before, bytes) and not isinstance(change.after, bytes):
            found += shown_change(change.path, change.before, change.after or "")
    return tuple(found)


def _named(words: str, paths: Sequence[str], cwd: str) -> tuple[str, ...]:
    """The paths that words name, by names or patterns."""
    chosen: dict[str, None] = {}
    for word in words.replace(",", " ").split():
        try:
            glob = compile_glob(word, cwd)
        except PatternError:
            continue
        chosen |= dict.fromkeys(path for path in paths if glob.matches(display_path(path, cwd).replace("\\", "/")))
    return tuple(path for path in paths if path in chosen)
