"""The checks after edits and at a turn's end: formatters, linters, tests that the user or a trusted project set up.

Owns: which checks a batch of edits calls for, that they run once a batch and in which order, and what the model reads
of them. Must not know: where checks are configured, or how a command runs.

A check needs no answer of the user: they wrote it down, or trusted the folder that brings it. A refusal that they
gave in the session holds all the same. Each is recorded and shown as a tool call of its own, which the model did not
make.
"""

import shlex
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import CheckSettings
from pattern_acp.domain.access import Actor
from pattern_acp.domain.clock import Clock, IdFactory, ToolCallId, TurnId
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.domain.globs import compile_glob
from pattern_acp.domain.paths import PLATFORM, Flavour, display_path, resolve_path
from pattern_acp.domain.text_limits import cut_middle, one_line, short_diff
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolContent, ToolKind
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted
from pattern_acp.policy.decision import Decision, Verdict
from pattern_acp.tools.base import PreparedCall, ToolContext, ToolOutcome
from pattern_acp.tools.file_changes import shown_change
from pattern_acp.tools.run_command import RunCommandTool
from pattern_acp.turn.permissions import REFUSAL_ADVICE, PermissionChecker
from pattern_acp.turn.recorder import CLEANUP_SECONDS, NewEvent, ToolCallRunning, TurnRecorder
from pattern_acp.turn.tool_runner import (
    CANCELLED_SENTENCE,
    OUTSIDE,
    CallProgress,
    sandbox_of,
    shown_content,
)
from pattern_acp.workspace.files import fingerprint

CHECK_CALL = "check"
"""Name of the calls that show checks."""

TOLD_CHARACTERS = 8_000
"""Most characters of one check's output that the model reads; the first errors are what it can repair."""

_ORDER = ("formatter", "linter", "test")
"""Formatters go first, so that the others judge what they leave."""

LONGEST_SECONDS = 600
"""Time limit of a line that the user agreed to, which may be all the tests of a project."""

NEEDS_NO_QUESTION = "It is one of the checks that you set up or agreed to, or trusted with this folder."


class _Run(Struct, frozen=True):
    check: CheckSettings
    files: tuple[str, ...]
    """Those that the check is for, from the session's folder."""
    line: str
    agreed: bool = True
    """False for a line of the model's, on which policy decides as on any other command."""


class Found(Struct, frozen=True):
    """Findings of checks: the text for the model, and whether one failed."""

    text: str = ""
    failed: bool = False


class ConfiguredChecks:
    """The checks of one turn."""

    def __init__(
        self,
        checks: Sequence[CheckSettings],
        context: ToolContext,
        permissions: PermissionChecker,
        recorder: TurnRecorder,
        *,
        clock: Clock,
        ids: IdFactory,
        confirm: Callable[[], Awaitable[Sequence[CheckSettings]]] | None = None,
    ) -> None:
        """`confirm` gives the checks that may still run when one is about to; None: all of `checks` may."""
        self._confirm = confirm
        self._checks = sorted(checks, key=lambda check: _ORDER.index(check.kind))
        # A check ends at its time limit, also where a command of the model would continue in the background.
        self._context = replace(context, jobs=None)
        self._permissions = permissions
        self._recorder = recorder
        self._clock = clock
        self._ids = ids
        self._tool = RunCommandTool()
        self._since_stop: list[str] = []

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """Run every check that is for one of the `changed` files (absolute paths); what the model should read of them.

        Raises:
            DatabaseError: a check could not be recorded; the turn must stop.
        """
        self._since_stop += changed
        return (await self._run_all(turn_id, changed, "after_edit")).text

    def note_edited(self, paths: Sequence[str]) -> None:
        """Count files (absolute paths) for the checks of the turn's end, that a subagent edited and checked itself."""
        self._since_stop += paths

    async def on_stop(self, turn_id: TurnId) -> Found:
        """Run the checks of the turn's end for what was changed since they last ran; none when nothing was.

        Raises:
            DatabaseError: a check could not be recorded; the turn must stop.
        """
        changed, self._since_stop = self._since_stop, []
        return await self._run_all(turn_id, changed, "on_stop")

    async def before_landing(self, turn_id: TurnId, changed: Sequence[str]) -> Found:
        """Run every check that is for one of the files, whenever it usually runs.

        Raises:
            DatabaseError: a check could not be recorded; the turn must stop.
        """
        return await self._run_all(turn_id, changed, "")

    async def _run_all(self, turn_id: TurnId, changed: Sequence[str], when: str) -> Found:
        """`when` is empty for all checks."""
        told: list[str] = []
        failed = False
        runs = runs_for([check for check in self._checks if when in {"", check.when}], changed, self._context.cwd)
        if runs and self._confirm is not None:
            in_force = await self._confirm()
            runs = [run for run in runs if run.check in in_force]
        for run in runs:
            before = await self._texts(changed) if run.check.kind == "formatter" else {}
            texts, passed = await self._run(turn_id, run, before)
            told += texts
            failed = failed or not passed
        return Found("\n".join(text for text in told if text), failed)

    async def run_line(self, turn_id: TurnId, name: str, line: str, *, agreed: bool = True) -> tuple[ToolOutcome, str]:
        """Run one line, whatever was edited; its outcome, and what the model should read of it.

        `agreed`: the user agreed to the line; otherwise policy decides on it, and may ask.

        Raises:
            DatabaseError: it could not be recorded; the turn must stop.
        """
        ended: list[ToolOutcome] = []
        check = CheckSettings(name, line, when="on_stop", timeout_seconds=LONGEST_SECONDS)
        texts, _ = await self._run(turn_id, _Run(check, (), line, agreed), {}, ended.append)
        outcome = ended[0] if ended else ToolOutcome("\n".join(texts), is_error=True)
        return outcome, "\n".join(text for text in texts if text)

    async def _run(
        self,
        turn_id: TurnId,
        run: _Run,
        before: Mapping[str, str],
        note: Callable[[ToolOutcome], object] = lambda _: None,
    ) -> tuple[list[str], bool]:
        call_id = ToolCallId(self._ids.new("call"))
        arguments = {"command": run.line, "timeout_seconds": run.check.timeout_seconds}
        title = one_line(f"Check {run.check.name}: {run.line}")
        view = ToolCallView(call_id, CHECK_CALL, title, ToolKind.EXECUTE, {"check": run.check.name, **arguments})
        try:
            prepared = await self._tool.prepare(arguments, call_id, self._context)
        except PatternError as error:
            # A line that no shell takes: it never was a call.
            return [f"The check {run.check.name} did not run: {error.for_model}"], False
        started = self._clock.monotonic()
        progress = CallProgress(call_id, self._recorder)
        latest: list[Decision] = []

        def decide() -> Decision:
            if run.agreed:
                return self._permissions.decide_configured(prepared.accesses, NEEDS_NO_QUESTION)
            decided = self._permissions.decide(prepared.accesses, arguments)
            if decided.sandbox and prepared.run_confined is None:
                decided = Decision(Verdict.ASK, "outside_sandbox", OUTSIDE, basis=decided.basis)
            latest[:] = [decided]
            return decided

        decision = decide()
        await self._permissions.announce(
            turn_id, decision, prepared.accesses, call_id, NewEvent(ToolCallStarted(turn_id, view), Actor.SYSTEM)
        )
        try:
            denied = await self._permissions.authorize(turn_id, decision, prepared.accesses, view, again=decide)
            if denied is not None:
                # The model has not called it, so it needs no advice.
                refused = denied.for_model.removesuffix(REFUSAL_ADVICE)
                reason = decision.reason if decision.verdict is Verdict.DENY else refused
                outcome = ToolOutcome(f"It did not run: {reason}", is_error=True)
            else:
                await self._recorder.show(ToolCallRunning(call_id))
                is_confined = bool(latest) and bool(sandbox_of(latest[0]))
                outcome = await _effect(prepared, progress, confined=is_confined)
            changes = await self._changes(before)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                cancelled = ToolOutcome(CANCELLED_SENTENCE, is_error=True, content=progress.content)
                await self._finish(turn_id, call_id, cancelled, started, interrupted=True)
            raise
        shown = tuple(part for path, (old, new) in changes.items() for part in shown_change(path, old, new))
        await self._finish(turn_id, call_id, outcome, started, shown)
        note(outcome)
        return [_told(run, outcome), *await self._reformatted(run.check, changes)], _passed(outcome)

    async def _finish(
        self,
        turn_id: TurnId,
        call_id: ToolCallId,
        outcome: ToolOutcome,
        started: float,
        changes: tuple[ToolContent, ...] = (),
        *,
        interrupted: bool = False,
    ) -> None:
        finished = ToolCallFinished(
            turn_id,
            call_id,
            ToolCallStatus.COMPLETED if _passed(outcome) else ToolCallStatus.FAILED,
            outcome.text,
            (*(shown_content(outcome) or (TextContent(outcome.text),)), *changes),
            full_output=outcome.full_output,
            duration_ms=round((self._clock.monotonic() - started) * 1000),
            interrupted=interrupted,
        )
        await self._recorder.record(NewEvent(finished, Actor.TOOL, outcome.origin))

    async def _texts(self, paths: Iterable[str]) -> dict[str, str]:
        texts: dict[str, str] = {}
        for path in paths:
            try:
                texts[path] = (await self._context.files.read_text_file(path)).text
            except PatternError:
                continue
        return texts

    async def _changes(self, before: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        after = await self._texts(before)
        return {path: (text, after[path]) for path, text in before.items() if after.get(path, text) != text}

    async def _reformatted(self, check: CheckSettings, changes: Mapping[str, tuple[str, str]]) -> list[str]:
        """Describe a formatter's changes to the edited files; the model knows the new texts from here on."""
        told: list[str] = []
        for path, (old, new) in changes.items():
            resolved = await anyio.to_thread.run_sync(resolve_path, path)
            changed = f"The formatter {check.name} changed {display_path(path, self._context.cwd)} further"
            if not self._context.may_read(resolved):
                told.append(f"{changed}; read it again before you change more.")
                continue
            diff = await anyio.to_thread.run_sync(short_diff, old, new)
            told.append(f"{changed}:\n{diff}")
            known = self._context.read_fingerprints
            if known.get(resolved) == fingerprint(old):
                known[resolved] = fingerprint(new)
        return told


def runs_for(
    checks: Sequence[CheckSettings], changed: Sequence[str], cwd: str, *, flavour: Flavour = PLATFORM
) -> list[_Run]:
    """The checks that are for one of the changed files, with their lines; a pattern that is none matches nothing."""
    names = list(dict.fromkeys(display_path(path, cwd, flavour=flavour) for path in changed))
    runs: list[_Run] = []
    for check in checks:
        files = tuple(name for name in names if _is_for(check, name.replace("\\", "/"), cwd))
        if files:
            runs.append(_Run(check, files, check.command.replace("{files}", _quoted(files, flavour))))
    return runs


def _is_for(check: CheckSettings, name: str, cwd: str) -> bool:
    try:
        return not check.files or any(compile_glob(pattern, cwd).matches(name) for pattern in check.files)
    except PatternError:
        return False


def _quoted(files: Sequence[str], flavour: Flavour) -> str:
    # A name that begins with a hyphen would be read as an option.
    names = [f"./{name}" if name.startswith("-") else name for name in files]
    # No name has a double quote on Windows, whose shell would take other signs for its own outside of them.
    return " ".join(f'"{name}"' for name in names) if flavour.windows else shlex.join(names)


async def _effect(prepared: PreparedCall, progress: CallProgress, *, confined: bool) -> ToolOutcome:
    run = (prepared.run_confined if confined else None) or prepared.run
    try:
        return await run(progress)
    except DatabaseError:
        raise
    except PatternError as error:
        shown = (*progress.content, TextContent(error.sentence))
        return ToolOutcome(error.for_model, is_error=True, content=shown)


def _passed(outcome: ToolOutcome) -> bool:
    return not outcome.is_error and outcome.raw_output.get("exit_code") == 0


def _told(run: _Run, outcome: ToolOutcome) -> str:
    if _passed(outcome) and run.check.feed == "on_failure":
        return ""
    word = "passed" if _passed(outcome) else "failed"
    return f"The check {run.check.name} (`{run.line}`) {word}. {cut_middle(outcome.text, TOLD_CHARACTERS).text}"
