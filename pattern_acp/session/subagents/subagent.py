"""A subagent from its start to its end.

Owns: putting its parts together, its limits, its memory and window, and what it gives back. Must not know: the wire, or
how a turn runs.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import markdown
from pattern_acp.config.settings import CompactionStrategy
from pattern_acp.context import compaction
from pattern_acp.context.builder import MemoryView, Stable, build_request, long_text, result_text
from pattern_acp.context.compaction import SHORT_RESULT_CHARACTERS, Untouchable
from pattern_acp.context.instructions import subagent_prompt, with_persona
from pattern_acp.context.window import (
    MessageTokens,
    does_not_fit,
    messages_tokens,
    prompt_tokens,
    request_tokens,
    with_answer_in_window,
)
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.access import Access, Actor, Origin
from pattern_acp.domain.clock import Clock, MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.errors import BlockError, DatabaseError, PatternError, unwrap_exception_group
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import DiffContent, Location, StopReason, TextContent, ToolCallStatus
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.codec import item_of
from pattern_acp.journal.events import (
    ContextAdded,
    ContextCompacted,
    Event,
    GrantStored,
    JobReported,
    SubagentRecorded,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
    WorkerFile,
)
from pattern_acp.journal.turn_ends import TurnFailure, failure_of
from pattern_acp.policy.decision import ApprovalRequest, Approver, Mode, PermissionAnswer
from pattern_acp.policy.layers import SubagentLimits
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.rewind.landing import NotLandedError
from pattern_acp.session.budgets import USED_UP, BudgetGate
from pattern_acp.session.changed_files import ChangedFile, changed_files
from pattern_acp.session.checks import ChecksAndDiagnostics, checks_of
from pattern_acp.session.compaction import LAST_RESORT_CHARACTERS, CompactionRequest, choose_for
from pattern_acp.session.conversation_commands import run_diff
from pattern_acp.session.definition_pins import subagent_kind, use_definition
from pattern_acp.session.edit_warnings import EditWarnings
from pattern_acp.session.hooks import MOST_CONTINUATIONS, SessionToolHooks, after_report
from pattern_acp.session.instructions import add_waiting
from pattern_acp.session.memory_context import memory_view
from pattern_acp.session.options import level_after, thought_level_of
from pattern_acp.session.state import InjectionQueue
from pattern_acp.session.subagents.kinds import Nest, TurnParts, limits_of, model_for, tools_for
from pattern_acp.session.subagents.memory import SubagentMemory
from pattern_acp.session.subagents.worker_result import CheckReport, ResultPorts, WorkerResult
from pattern_acp.session.window import session_limits, tokens_in, without_messages
from pattern_acp.tools.base import DELEGATE, DelegatedTask, Progress, SubagentKind, ToolContext, ToolOutcome
from pattern_acp.turn.budget import Budget, Limits, RepeatGuard, RepeatLimits, UserWaitTimer
from pattern_acp.turn.loop import LIMIT_REACHED, CallIds, ModelInUse, StreamRetries, TurnEnd, TurnLoop, last_answer
from pattern_acp.turn.permissions import PermissionChecker, circumstances_of
from pattern_acp.turn.recorder import CLEANUP_SECONDS, NewEvent, ToolCallWaits, Transient, TurnRecorder, new_end_events
from pattern_acp.turn.tool_runner import FoundFiles, ToolRunner
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.overlay import OverlayChange

if TYPE_CHECKING:
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState


FOUND_AGAIN = "Look again at what you still need of it."
"""Advice about results that left: a search finds nothing of a subagent's own conversation."""


class SubagentWindow:
    """`TurnWindow` of one subagent. `history` is its conversation, and changes in place."""

    def __init__(
        self,
        dialogue: "Dialogue",
        turn_id: TurnId,
        model: ModelInUse,
        history: list[Message],
        recorder: TurnRecorder,
        compose: Callable[[], Awaitable[ProviderRequest]],
    ) -> None:
        """`compose` builds the request from `history` as it is; `recorder` is the one of its thread."""
        self._dialogue, self._turn_id, self._model, self._history = dialogue, turn_id, model, history
        self._recorder, self._compose = recorder, compose
        # What the counts of a model's answers taught holds for everything that it is sent.
        self._calibration = dialogue.state.window.calibration
        self._messages = MessageTokens()
        self._limits = session_limits(dialogue.state, model)
        self._estimate = 0
        self._task = history[0].message_id

    async def fitted(self) -> ProviderRequest:
        """The next request, with space made where that was needed.

        Raises:
            ContextFullError: it does not fit whatever is left out.
            DatabaseError: it could not be recorded what left.
        """
        request = await self._compose()
        tokens = self._tokens(request)
        if tokens > self._limits.trigger and await self._made_room(self._wanted("threshold", tokens)):
            request = await self._compose()
            tokens = self._tokens(request)
        for characters in LAST_RESORT_CHARACTERS:
            if tokens <= self._limits.usable:
                break
            if await self._made_room(self._wanted("threshold", tokens, last_resort=characters)):
                request = await self._compose()
                tokens = self._tokens(request)
        if tokens > self._limits.usable:
            raise does_not_fit(self._model.info, self._limits, tokens, self._tokens(without_messages(request)))
        return with_answer_in_window(request, self._model.info, tokens)

    def sending(self, request: ProviderRequest) -> int:
        """See `TurnWindow.sending`."""
        self._estimate = request_tokens(request, self._messages)
        return self._estimate

    def sent_tokens(self) -> int:
        """See `TurnWindow.sent_tokens`."""
        return self._calibration.tokens(self._model.info.name, self._estimate)

    def counted(self, usage: Usage) -> None:
        """See `TurnWindow.counted`."""
        self._calibration.learn(self._model.info.name, self._estimate, prompt_tokens(usage))

    async def too_long(self) -> bool:
        """See `TurnWindow.too_long`."""
        tokens = self._calibration.tokens(self._model.info.name, self._estimate)
        before, self._limits = self._limits, session_limits(self._dialogue.state, self._model, refused=tokens)
        if await self._made_room(self._wanted("provider", tokens)):
            self._dialogue.state.window.refused[self._model.info.name] = tokens
            return True
        self._limits = before
        return False

    def _tokens(self, request: ProviderRequest) -> int:
        return self._calibration.tokens(request.model, request_tokens(request, self._messages))

    def _tokens_of(self, messages: Sequence[Message]) -> int:
        name = self._model.info.name
        return self._calibration.tokens(name, messages_tokens(messages, name))

    def _wanted(self, trigger: str, tokens: int, *, last_resort: int = 0) -> CompactionRequest:
        configured = self._dialogue.state.settings.compaction.strategy
        strategy: CompactionStrategy = "truncate" if configured == "summarise" or last_resort else configured
        return CompactionRequest(
            trigger,
            strategy,
            tokens,
            self._limits.target,
            self._limits,
            is_last_resort=bool(last_resort),
            keep_characters=last_resort or SHORT_RESULT_CHARACTERS,
        )

    async def _made_room(self, wanted: CompactionRequest) -> bool:
        rules = Untouchable(prompts=frozenset({self._task}))
        choice = choose_for(self._history, rules, wanted, self._tokens_of)
        if not choice.freed:
            return False
        gone = compaction.left_out(message for unit in choice.removed for message in unit.messages)
        text = compaction.gap_text(gone, "", found_again=FOUND_AGAIN) if choice.removed else ""
        event = ContextCompacted(
            self._turn_id,
            wanted.strategy if choice.removed else "results",
            wanted.trigger,
            choice.message_ids,
            choice.shortened,
            wanted.keep_characters,
            compaction.note_id(self._dialogue.shared.ids.new("msg")),
            text,
            wanted.tokens,
            max(wanted.tokens - choice.freed, 0),
        )
        await self._recorder.record(NewEvent(event, Actor.SYSTEM, Origin.AGENT))
        self._history[:] = compaction.compacted(self._history, event)
        return True


SHOWN_CALLS = 5
"""Newest calls that are named."""

CALL_CHARACTERS = 100
"""Characters of a call's title among them."""

TITLE_CHARACTERS = 60
"""Characters of the current activity, in the title."""


class _Line(Struct):
    title: str
    state: str


class Activity:
    """Follows one subagent. `title` is the call's own."""

    def __init__(self, title: str, progress: Progress, clock: Clock) -> None:
        self._title = title
        self._progress = progress
        self._clock = clock
        self._began = clock.monotonic()
        self._is_interrupted = False
        self._calls: dict[ToolCallId, _Line] = {}

    @property
    def summary(self) -> str:
        """Work so far: calls and seconds."""
        seconds = round(self._clock.monotonic() - self._began)
        return f"{plural(len(self._calls), 'call')}, {seconds} s"

    @property
    def final_title(self) -> str:
        """The call's title once it has ended."""
        return f"{self._title} ({self.summary})"

    async def follow(self, event: Event) -> None:
        """Show what an event changes."""
        if isinstance(event, ToolCallStarted):
            self._calls[event.call.call_id] = _Line(one_line(event.call.title, CALL_CHARACTERS), " …")
        elif isinstance(event, ToolCallFinished) and event.call_id in self._calls:
            failed = event.shown_status is ToolCallStatus.FAILED
            self._calls[event.call_id].state = ": failed" if failed else ""
        else:
            return
        await self.show()

    @asynccontextmanager
    async def interrupted(self) -> AsyncGenerator[None, None]:
        """Something else is shown in the call until this context ends, such as a question."""
        self._is_interrupted = True
        try:
            yield
        finally:
            self._is_interrupted = False
        await self.show()

    async def show(self) -> None:
        """Show what it does now, how much it has done, and for how long."""
        if self._is_interrupted:
            return
        running = [line.title for line in self._calls.values() if line.state == " …"]
        now = one_line(running[-1], TITLE_CHARACTERS) if running else "thinking"
        newest = list(self._calls.values())[-SHOWN_CALLS:]
        lines = [f"{self.summary}", *(f"- {line.title}{line.state}" for line in newest)]
        content = (TextContent("\n".join(lines)),)
        await self._progress.show(content, title=f"{self._title} · {now} ({self.summary})")


FILES_SHOWN = 50
"""Most changed files whose diffs the call shows; `/diff` shows all."""

FILES_NAMED = 50
"""Most files that commands changed and that are named."""


class Work(Struct, frozen=True):
    """Changes by one subagent, from its edits and its commands. `cwd` is for names."""

    files: tuple[ChangedFile, ...]
    by_commands: tuple[str, ...]
    """Other files that changed while its commands ran, as the session's checkpoints saw it: absolute paths."""
    blocks: tuple[str, ...]
    """Labels of memory blocks."""
    cwd: str
    only_reads: bool

    @property
    def told(self) -> str:
        """The changes in words for the model; empty for one that could make none."""
        names = [display_path(file.path, self.cwd) for file in self.files]
        told = [f"Files changed: {', '.join(names)}."] if names else []
        others = [display_path(path, self.cwd) for path in self.by_commands]
        more = f" and {len(others) - FILES_NAMED} more" if len(others) > FILES_NAMED else ""
        told += [f"Changed by its commands: {', '.join(others[:FILES_NAMED])}{more}."] if others else []
        told += [f"Memory changed: {one_line(', '.join(self.blocks))}."] if self.blocks else []
        return "\n".join(told) or ("" if self.only_reads else "It changed no files and no memory.")


def outcome_of(
    history: Sequence[Message], sentence: str, work: Work, *, failed: bool, limit: int, title: str
) -> ToolOutcome:
    """The result: the last thing said, why it ended if that is not plain, and what it changed.

    Args:
        history: its conversation.
        sentence: why it ended; empty when it gave its report.
        work: what it changed.
        failed: whether it could not continue; without a report it counts as failed anyway.
        limit: characters that the model reads.
        title: the call's title at its end.
    """
    report = last_answer(history)
    said = "\n\n".join(part for part in (report, sentence, work.told) if part)
    cut = cut_middle(said, limit)
    diffs = tuple(
        DiffContent(file.path, passage.before, passage.after)
        for file in work.files[:FILES_SHOWN]
        for passage in file.passages
    )
    return ToolOutcome(
        cut.text,
        is_error=failed or not report,
        content=(TextContent(said), *diffs),
        locations=tuple(Location(path) for path in (*(file.path for file in work.files), *work.by_commands)),
        full_output=said if cut.text != said else "",
        origin=Origin.AGENT,
        title=title,
    )


class ThreadName(Struct, frozen=True):
    """Identity of a thread: the turn and call it belongs to, its id, and the subagent's name."""

    turn_id: TurnId
    call_id: ToolCallId
    thread_id: str
    name: str

    def recorded(self, event: Event) -> Event:
        """`event` as the journal has it. What the user allows always is the session's, for which it holds."""
        if isinstance(event, GrantStored):
            return event
        return SubagentRecorded(self.turn_id, self.call_id, self.thread_id, self.name, event)


class SubagentRecorder:
    """`turn.recorder.TurnRecorder` of a subagent, over that of its session."""

    def __init__(self, recorder: TurnRecorder, name: ThreadName, activity: Activity) -> None:
        self._recorder = recorder
        self._name = name
        self._activity = activity
        self.events: list[Event] = []
        """Events that were recorded so far."""

    @property
    def follows_text(self) -> bool:
        """See `TurnRecorder.follows_text`; nobody sees its text while it comes."""
        return False

    async def record(self, *events: NewEvent) -> None:
        """See `TurnRecorder.record`."""
        await self._recorder.record(*(replace(new, event=self._name.recorded(new.event)) for new in events))
        for new in events:
            self.events.append(new.event)
            await self._activity.follow(new.event)

    async def record_soon(self, *events: NewEvent) -> None:
        """See `TurnRecorder.record_soon`; at once, since it is shown what a subagent does."""
        await self.record(*events)

    async def show(self, event: Transient) -> None:
        """See `TurnRecorder.show`: what is not durable is not shown, since a client knows no calls of a subagent."""


class NotedEffects:
    """`turn.tool_runner.AroundEffects` over the session's checkpoints."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.changed: dict[str, None] = {}
        """Absolute paths of files that its commands changed, in order."""

    def around(self, turn_id: TurnId, accesses: Sequence[Access]) -> AbstractAsyncContextManager[FoundFiles | None]:
        """See `AroundEffects.around`."""
        return self._checkpoints.around(turn_id, accesses, found=self.changed)


class NamedApprover:
    """`Approver` that asks in the name of a subagent.

    The client knows no call of a subagent but the one that it runs for, so each question is about that one; two at a
    time would hide each other.
    """

    def __init__(
        self, approver: Approver, name: str, call_id: ToolCallId, recorder: TurnRecorder, activity: Activity
    ) -> None:
        """`recorder` is the session's."""
        self._approver = approver
        self._name = name
        self._call_id = call_id
        self._recorder = recorder
        self._activity = activity
        self._one_at_a_time = anyio.Lock()

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """See `Approver.ask`."""
        call = replace(request.call, call_id=self._call_id, title=f"{self._name}: {request.call.title}")
        async with self._one_at_a_time, self._activity.interrupted():
            await self._recorder.show(ToolCallWaits(self._call_id))
            return await self._approver.ask(replace(request, call=call))


if TYPE_CHECKING:
    from pattern_acp.session.session import Session
    from pattern_acp.session.subagents.graph import GraphNode
    from pattern_acp.session.subagents.worker import Landings, WorkerView

TICK_SECONDS = 2.0
"""Seconds between updates of the elapsed time while nothing else happens."""

STOPPED = "The user stopped it before its report."

NOT_LANDED = "None of its changes were made, since it did not come to its end."

LAST_SECONDS = 180
"""Time for the report of one whose limits are reached."""


def narrowed_to(state: "SessionState", task: DelegatedTask, *, lands: bool = False) -> SubagentLimits:
    """The limits of a subagent, with those of the job that its turn works on.

    `lands` is True for a worker that works on a view.
    """
    asks_to_land = lands and state.settings.delegate.worker_review != "never"
    limits = SubagentLimits(task.name, task.kind.only_reads, task.paths, asks_to_land)
    return limits if state.job is None else replace(limits, job=state.job.number, globs=state.job.limits.globs)


class Subagent:
    """One run."""

    has_failed = False
    """True when it could not continue, or its changes could not land."""
    has_landed = False
    """True once the changes of a worker that lands are there."""
    result: WorkerResult | None = None
    """The changes of a worker that lands, and what became of them."""
    _words = ""

    def __init__(
        self,
        session: "Session",
        parts: TurnParts,
        task: DelegatedTask,
        call_id: ToolCallId,
        progress: Progress,
        base: FileSystem | None = None,
    ) -> None:
        """`base` is what a worker whose changes land starts from; None for one whose changes are made at once."""
        shared, settings = session.constellation, session.state.settings.delegate
        self.edited: list[str] = []
        """Absolute paths of files that it edited."""
        self.reports: Mapping[str, str] = task.reports
        """Reports of those whose results it starts from, by their names."""
        self._end = TurnEnd(StopReason.CANCELLED, STOPPED)
        self._history: list[Message] = []
        self.scope = anyio.CancelScope()
        """Cancelled to end it alone, as the user wants; its turn continues."""
        self._session, self._parts, self._task, self._progress = session, parts, task, progress
        qualified, self._system = _answering(session.state, task.kind, task.persona)
        self._call_id = call_id
        self._missing = shared.models.missing_key(qualified)
        waits = UserWaitTimer(shared.clock, parts.budget.waits)
        self._gate = BudgetGate(session, parts.turn_id, waits, asks=parts.approver is None)
        self._model = _model_in_use(session.dialogue, qualified, self._gate)
        self._activity = Activity(f"{task.kind.capitalize()}: {task.name}", progress, shared.clock)
        nest = parts.nest
        # The client knows no call of a subagent.
        call_id, holder = nest.call_id if nest is not None else call_id, call_id
        self._recorder = SubagentRecorder(
            session.recorder,
            ThreadName(parts.turn_id, call_id, shared.ids.new("thread"), task.name),
            self._activity,
        )
        outer = nest.memory if nest is not None else None
        self.memory = SubagentMemory(session.dialogue, parts.turn_id, task.name, outer=outer, lands=base is not None)
        """Its memory. What it learned waits for its landing where its changes do."""
        self._budget = Budget(limits_of(settings), shared.clock, waits, outer=parts.budget)
        self._heard = InjectionQueue()
        self.hooks = SessionToolHooks(session.dialogue, self._heard)
        # Once its own limits are reached: one answer more, out of the turn's.
        self._last = Budget(Limits(1, LAST_SECONDS), shared.clock, waits, outer=parts.budget)
        # Nothing of what works in the background is shown between turns.
        shown = session.recorder if parts.approver is None else self._recorder
        permissions = PermissionChecker(
            session.state.policy,
            NamedApprover(parts.approver or session.approver, task.name, call_id, shown, self._activity),
            self._recorder,
            clock=shared.clock,
            waits=waits,
            circumstances=partial(circumstances_of, self._budget, session.state.cwd, shared.clock),
            narrowing=narrowed_to(session.state, task, lands=base is not None),
        )
        self._view: WorkerView | None = None
        self._tools = tuple(
            tool for tool in tools_for(task.kind, parts) if not task.tools or tool.spec.name in task.tools
        )
        context = self._context(base, Nest(task.name, parts.level, call_id, task.paths, None, None, holder))
        self._effects = NotedEffects(session.checkpoints)
        self._checks = checks_of(session.dialogue, session.checkpoints, permissions, context, self._recorder)
        self._runner = ToolRunner(
            self._tools,
            context,
            permissions,
            self._recorder,
            clock=shared.clock,
            after_edits=self,
            hooks=self.hooks,
            effects=self._effects,
        )
        self._edits = self._runner.before_edits = EditWarnings(
            session.dialogue, self._heard, task.name, lands=self._view is not None
        )
        limits = session.state.settings.turn
        self._runner.repeats = RepeatGuard(RepeatLimits(limits.repeats_noted, limits.repeats_asked))
        self._idle = ToolRunner((), context, permissions, self._recorder, clock=shared.clock)
        if self._view is not None:
            ports = ResultPorts(self._recorder, progress, waits, self._checks, self._activity.interrupted, self.memory)
            self.result = WorkerResult(session, self._view.files, task, parts.turn_id, call_id, ports)
            self.result.asks = nest is None

    def _context(self, base: FileSystem | None, below: Nest) -> ToolContext:
        """The context of its calls; `below` is its place for those that it delegates to."""
        parts, session = self._parts, self._session
        context = replace(
            parts.context,
            memory=self.memory,
            history=None,
            read_fingerprints={},
            jobs=None,
            keeps_slow_commands=False,
            long_text=self._long_text,
            delegation=None,
        )
        if base is not None:
            # Late: most subagents only read.
            from pattern_acp.session.subagents import worker

            self._view = worker.WorkerView(session, context, base)
            context, below = self._view.context, replace(below, files=self._view.files, memory=self.memory)
        if not any(tool.spec.name == DELEGATE for tool in self._tools):
            return context
        # Commands of those below run in a tree of their own.
        outer = replace(parts.context, files=context.files)
        nested = replace(parts, tools=self._tools, context=outer, hooks=self.hooks, budget=self._budget, nest=below)
        return replace(context, delegation=parts.below(nested))

    @property
    def last_words(self) -> str:
        """Its report, empty while there is none."""
        return last_answer(self._history)

    @property
    def failure(self) -> str:
        """The reason why nothing can start from what it did, in a sentence; empty when all can."""
        if self._missing:
            return self._missing
        if self.result is not None and self.result.sentence and not self.result.is_settled:
            return self.result.sentence
        is_report = self._end.stop_reason is StopReason.END_TURN and not self._end.sentence and not self.has_failed
        return "" if is_report else self._end.sentence or "It was stopped."

    @property
    def has_nothing(self) -> bool:
        """True for a worker that neither changed a file nor learned anything that waits for its landing."""
        return self.result is not None and self.result.files.is_clean and not self.memory.fork_id

    @property
    def is_over_budget(self) -> bool:
        """True when it ended at a budget."""
        return self._end.failure == USED_UP

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """See `turn.tool_runner.AfterEdits`."""
        self.edited += changed
        return await ChecksAndDiagnostics(self._session, self._checks, self._recorder).after_edits(turn_id, changed)

    async def run(self) -> None:
        """Run it to its end, but for the landing of what it changed.

        Raises:
            DatabaseError: something could not be recorded.
        """
        if self._missing:
            self.has_failed = True
            return
        await self._take_kind()
        history = self._history = self._heard.history = [self._message(*await self._opening())]
        await self._recorder.record(NewEvent(TurnStarted(self._parts.turn_id, history[0]), Actor.PERSONA, Origin.AGENT))
        await self._activity.show()
        await self._to_its_end()

    async def go_on(self, words: str) -> None:
        """Continue behind its report with words of the user.

        Raises:
            DatabaseError: something could not be recorded.
        """
        said = self._message(words)
        added = ContextAdded(self._parts.turn_id, said, ("result",))
        await self._recorder.record(NewEvent(added, Actor.SYSTEM, Origin.AGENT))
        self._history.append(said)
        await self._to_its_end()

    async def _take_kind(self) -> None:
        kind = await anyio.to_thread.run_sync(subagent_kind, self._task.kind, self._session.constellation)
        self._words = subagent_prompt(await use_definition(self._session.dialogue, kind), self._task.name)

    async def restore(self, reported: JobReported, changes: Iterable[OverlayChange]) -> None:
        """Be one of an earlier process, which has finished.

        Raises:
            WorkspaceError: a file that it changed could not be written now.
        """
        await self._take_kind()
        said = replace(self._message(reported.report), role=Role.ASSISTANT)
        self._history = self._heard.history = [self._message(self._task.task), said]
        self._end = TurnEnd(StopReason.END_TURN, reported.problem)
        self.has_failed = reported.failed
        await self.memory.restore(reported.memory)
        if self.result is not None:
            for change in changes:
                await self.result.files.note_base(change.path, change.before)
                await self.result.files.put(change.path, change.after, change.mode)
            self.result.is_settled, self.result.wants_words = reported.lands, reported.wants_words
            self.result.report = CheckReport(reported.checks, reported.exit_code, reported.output)

    def reported(self, job_id: str) -> JobReported:
        """Its result as it is recorded when it has to wait."""
        task, result = self._task, self.result
        changes = result.waiting_changes if result is not None else ()
        report = result.report if result is not None else CheckReport()
        problem = " ".join(part for part in (self._end.sentence, result.sentence if result is not None else "") if part)
        return JobReported(
            job_id,
            self._call_id,
            task.kind.value,
            task.name,
            task.task,
            self.last_words,
            task.paths,
            task.checks,
            tuple(WorkerFile(one.path, one.before_hash, one.after_hash, one.mode) for one in changes),
            result is not None and result.is_settled,
            problem,
            self.has_failed or (result is not None and result.failed),
            report.exit_code,
            report.output,
            result is not None and result.wants_words,
            self.memory.fork_id,
        )

    async def land(self, landings: "Landings", node: "GraphNode", call_id: ToolCallId) -> str:
        """Land what it changed and learned, once that is settled; a sentence about it, empty where it is not.

        Raises:
            DatabaseError: it could not be recorded.
        """
        if self.result is None or not self.result.is_settled:
            return ""
        try:
            sentence = await landings.land(node, call_id)
        except NotLandedError as error:
            self.has_failed = True
            return error.sentence
        self.has_landed = True
        return sentence

    def outcome(self, landed: str) -> ToolOutcome:
        """Its result; `landed` is a sentence about its changes."""
        if self._missing:
            return ToolOutcome(self._missing, is_error=True)
        if self.result is not None:
            unlanded = "" if self.has_landed or self.has_nothing or landed else NOT_LANDED
            landed = "\n".join(part for part in (self.result.sentence or unlanded, landed) if part)
        return outcome_of(
            self._history,
            "\n\n".join(part for part in (self._end.sentence, landed) if part),
            self._work(),
            failed=self.has_failed or (self.result is not None and self.result.failed),
            limit=self._parts.context.result_limit,
            title=self._activity.final_title,
        )

    async def close(self) -> None:
        """Remove what its commands ran in."""
        if self._view is not None:
            await self._view.close()

    async def _to_its_end(self) -> None:
        try:
            self._end = await self._watched(self._history)
        except anyio.get_cancelled_exc_class():
            self._progress.note(self._work().told)
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                await self._record_end(TurnEnd(StopReason.CANCELLED))
            raise
        finally:
            self._edits.end()
        await self._record_end(self._end)

    async def _watched(self, history: list[Message]) -> TurnEnd:
        end = TurnEnd(StopReason.CANCELLED, STOPPED)
        try:
            with self.scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._tick)
                    end = await self._run(history)
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group_error:
            raise unwrap_exception_group(group_error) from group_error
        return end

    async def _run(self, history: list[Message]) -> TurnEnd:
        turn_id, recorder = self._parts.turn_id, self._recorder
        window = SubagentWindow(
            self._session.dialogue, turn_id, self._model, history, recorder, partial(self._build, history)
        )
        try:
            end = await self._until_settled(history, window)
            reached = self._budget.used_up()
            if end.stop_reason is not StopReason.MAX_TURN_REQUESTS:
                return end
            said = self._message(f"You reached {reached}. No more calls run: write your report now from what you know.")
            added = ContextAdded(self._parts.turn_id, said, ("limit",))
            await self._recorder.record(NewEvent(added, Actor.SYSTEM, Origin.AGENT))
            history.append(said)
            await self._loop(self._idle, self._last, window).run(self._parts.turn_id, history)
            return TurnEnd(
                StopReason.MAX_TURN_REQUESTS, f"It was stopped: it reached {reached}.", failure=LIMIT_REACHED
            )
        except DatabaseError:
            raise
        except PatternError as error:
            self.has_failed = True
            return TurnEnd(StopReason.END_TURN, f"It could not continue: {error.sentence}", failure=failure_of(error))

    async def _until_settled(self, history: list[Message], window: SubagentWindow) -> TurnEnd:
        """Run it until its report, and on while its result is not agreed to."""
        while True:
            end = await self._until_hooks_agree(history, window)
            if self.result is None or end.stop_reason is not StopReason.END_TURN or end.sentence:
                return end
            words = await self.result.settle()
            if not words:
                return end
            said = self._message(words)
            added = ContextAdded(self._parts.turn_id, said, ("result",))
            await self._recorder.record(NewEvent(added, Actor.SYSTEM, Origin.AGENT))
            history.append(said)

    async def _until_hooks_agree(self, history: list[Message], window: SubagentWindow) -> TurnEnd:
        turn_id, kind = self._parts.turn_id, self._task.kind.value
        loop, active = self._loop(self._runner, self._budget, window), False
        for _ in range(MOST_CONTINUATIONS + 1):
            end = await loop.run(turn_id, history)
            is_report = end.stop_reason is StopReason.END_TURN and not end.sentence
            if not is_report or not await after_report(
                self._session.dialogue, turn_id, self._heard, kind=kind, active=active
            ):
                return end
            active = True
        sentence = f"Hooks let it continue {MOST_CONTINUATIONS} times; that is the limit."
        return TurnEnd(StopReason.END_TURN, sentence, failure=TurnFailure("turn.continued-too-often"))

    def _loop(self, runner: ToolRunner, budget: Budget, window: SubagentWindow) -> TurnLoop:
        async def build(_history: Sequence[Message]) -> ProviderRequest:
            await add_waiting(self._session.dialogue, self._parts.turn_id, self._heard, self._recorder)
            return await window.fitted()

        async def own_runner() -> ToolRunner:
            return runner

        loop = TurnLoop(
            model=self._model,
            build=build,
            new_runner=own_runner,
            recorder=self._recorder,
            ids=self._session.constellation.ids,
            budget=budget,
            call_ids=CallIds(self._session.state.used_calls, always_own=True),
        )
        loop.window = window
        loop.gate = self._gate
        shared = self._session.constellation
        loop.resumption = StreamRetries(self._session.state.settings.turn.stream_retries, shared.pauses)
        return loop

    async def _build(self, history: Sequence[Message]) -> ProviderRequest:
        state = self._session.state
        offered = {tool.spec.name for tool in self._parts.offered(self._model.info)}
        specs = tuple(tool.spec for tool in self._tools if tool.spec.name in offered)
        limited = (f"You may write only in {', '.join(self._task.paths)}.",) if self._task.paths else ()
        plan = ("Plan mode: nothing can be changed.",) if state.policy.mode is Mode.PLAN else ()
        return build_request(
            session_id=SessionId(f"{self._session.session_id}/{self._task.name}"),
            stable=Stable(f"{self._system}\n\n{self._words}", specs, state.tool_form),
            model=self._model.info,
            thought_level=thought_level_of(
                self._model.info, level_after(state.settings, state.thought_level, state.model, self._model.info)
            ),
            history=history,
            memory=await self._views(),
            notes=(*limited, *plan),
            max_output_tokens=state.settings.turn.max_output_tokens,
        )

    async def _views(self) -> list[MemoryView]:
        try:
            return [memory_view(block) for block in await self.memory.blocks()]
        except BlockError:
            # The user learned of it from the turn itself.
            return []

    async def _opening(self) -> tuple[str, ...]:
        reports = [str(untrusted_block("report", text, of=name)) for name, text in self.reports.items() if text]
        if self._task.kind is not SubagentKind.REVIEWER:
            return (self._task.task, *reports)
        changes = markdown((await run_diff(self._session.constellation, self._session.state, "")).document)
        return (self._task.task, *reports, str(untrusted_block("changes", changes)))

    async def _long_text(self, text_id: str) -> str | None:
        of_call = (event for event in self._recorder.events if item_of(event) == text_id)
        return result_text(of_call) or long_text(self._heard.history, text_id)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK_SECONDS)
            await self._activity.show()

    async def _record_end(self, end: TurnEnd) -> None:
        await self._recorder.record(*new_end_events(self._parts.turn_id, end.stop_reason, end.sentence, end.failure))

    def _message(self, *texts: str) -> Message:
        parts = tuple(TextPart(text) for text in texts)
        return Message(MessageId(self._session.constellation.ids.new("msg")), Role.USER, parts)

    def _work(self) -> Work:
        only_reads, cwd = self._task.kind.only_reads, self._parts.context.cwd
        if self._view is not None and not self.has_landed:
            return Work((), (), (), cwd, only_reads)
        # What was left out of the landing is no change.
        blocks = () if self.memory.fork_id else tuple(self.memory.changed)
        files = changed_files(self._recorder.events)
        others = [change.path for change in self._view.files.changes()] if self._view is not None else []
        by_commands = tuple(
            path for path in (*self._effects.changed, *others) if path not in {file.path for file in files}
        )
        return Work(files, by_commands, blocks, cwd, only_reads)


def _answering(state: "SessionState", kind: SubagentKind, persona: Persona | None) -> tuple[str, str]:
    """`PROVIDER/MODEL` and system prompt of a kind, or of the persona that does it."""
    own = model_for(kind, state.settings.delegate, state.model.qualified)
    if persona is None:
        return own, state.system
    return persona.model or own, with_persona(state.system, persona) or state.system


def _model_in_use(dialogue: "Dialogue", qualified: str, gate: BudgetGate) -> ModelInUse:
    """The model, with those that replace it as far as the budgets have space."""
    models = dialogue.shared.models
    provider, info = models.resolve(qualified)
    return ModelInUse(models.with_fallback(provider, info, tokens_in(dialogue.state), gate.refusal), info)
