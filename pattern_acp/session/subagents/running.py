"""Running a subagent to its end.

Owns: putting its parts together, its limits, and what it gives back. Must not know: the wire, or how a turn runs.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.context.builder import MemoryView, Stable, build_request, long_text
from pattern_acp.context.history import result_text
from pattern_acp.context.instructions import subagent_prompt
from pattern_acp.domain.access import Access
from pattern_acp.domain.errors import BlockError, DatabaseError, PatternError, unwrap_exception_group
from pattern_acp.domain.ids import MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.domain.text_limits import cut_middle, one_line
from pattern_acp.domain.tool_calls import DiffContent, Location, TextContent
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.journal.codec import item_of
from pattern_acp.journal.events import ContextAdded, Event, GrantStored, SubagentRecorded, TurnStarted
from pattern_acp.journal.turn_ends import TurnFailure, failure_of
from pattern_acp.policy.approver import ApprovalRequest, Approver, PermissionAnswer
from pattern_acp.policy.decision import Mode
from pattern_acp.policy.subagent_policy import SubagentLimits
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.rewind.checkpoints import Checkpoints
from pattern_acp.session.added_context import add_waiting
from pattern_acp.session.budgets import BudgetGate
from pattern_acp.session.changed_files import ChangedFile, changed_files
from pattern_acp.session.checks import checks_of
from pattern_acp.session.conversation_commands import run_diff
from pattern_acp.session.edit_warnings import EditWarnings
from pattern_acp.session.hooks import MOST_CONTINUATIONS, SessionToolHooks, after_report
from pattern_acp.session.language import ChecksAndDiagnostics
from pattern_acp.session.memory_context import memory_view
from pattern_acp.session.options import level_after, thought_level_of
from pattern_acp.session.state import InjectionQueue
from pattern_acp.session.subagents.activity import Activity
from pattern_acp.session.subagents.kinds import TurnParts, limits_of, model_for, tools_for
from pattern_acp.session.subagents.memory import SubagentMemory
from pattern_acp.session.subagents.window import SubagentWindow
from pattern_acp.session.window import tokens_in
from pattern_acp.tools.base import DelegatedTask, Progress, SubagentKind, ToolOutcome
from pattern_acp.turn.budget import Budget, Limits, Waits
from pattern_acp.turn.events import ToolCallWaits, Transient
from pattern_acp.turn.gate import Gate
from pattern_acp.turn.loop import LIMIT_REACHED, CallIds, ModelInUse, StreamRetries, TurnEnd, TurnLoop, last_answer
from pattern_acp.turn.sink import Fact, TurnSink, end_facts
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS, ToolRunner

FILES_SHOWN = 50
"""Most changed files whose diffs the call shows; `/diff` shows all."""

FILES_NAMED = 50
"""Most files that commands changed and that are named."""


class Work(Struct, frozen=True):
    """What one changed, by its edits and by its commands. `cwd` is for names."""

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
        failed: whether it could not go on; without a report it counts as failed anyway.
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
    """Which thread: the turn and call it belongs to, its id, and the subagent's name."""

    turn_id: TurnId
    call_id: ToolCallId
    thread_id: str
    name: str

    def recorded(self, event: Event) -> Event:
        """`event` as the journal has it. What the person allows always is the session's, for which it holds."""
        if isinstance(event, GrantStored):
            return event
        return SubagentRecorded(self.turn_id, self.call_id, self.thread_id, self.name, event)


class ThreadSink:
    """`turn.sink.TurnSink` of a subagent, over that of its session."""

    def __init__(self, sink: TurnSink, name: ThreadName, activity: Activity) -> None:
        self._sink = sink
        self._name = name
        self._activity = activity
        self.events: list[Event] = []
        """What was recorded so far."""

    @property
    def follows_text(self) -> bool:
        """See `TurnSink.follows_text`; nobody sees its text while it comes."""
        return False

    async def record(self, *facts: Fact) -> None:
        """See `TurnSink.record`."""
        await self._sink.record(*(replace(fact, event=self._name.recorded(fact.event)) for fact in facts))
        for fact in facts:
            self.events.append(fact.event)
            await self._activity.follow(fact.event)

    async def record_soon(self, *facts: Fact) -> None:
        """See `TurnSink.record_soon`; at once, since it is shown what a subagent does."""
        await self.record(*facts)

    async def show(self, event: Transient) -> None:
        """See `TurnSink.show`: what is not durable is not shown, since a client knows no calls of a subagent."""


class NotedEffects:
    """`turn.tool_hooks.AroundEffects` over the session's checkpoints."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.changed: dict[str, None] = {}
        """Absolute paths of files that its commands changed, in order."""

    def around(self, turn_id: TurnId, accesses: Sequence[Access]) -> AbstractAsyncContextManager[None]:
        """See `AroundEffects.around`."""
        return self._checkpoints.around(turn_id, accesses, found=self.changed)


class NamedApprover:
    """`Approver` that asks in the name of a subagent.

    The client knows no call of a subagent but the one that it runs for, so each question is about that one; two at a
    time would hide each other.
    """

    def __init__(self, approver: Approver, name: str, call_id: ToolCallId, sink: TurnSink, activity: Activity) -> None:
        """`sink` is the session's."""
        self._approver = approver
        self._name = name
        self._call_id = call_id
        self._sink = sink
        self._activity = activity
        self._one_at_a_time = anyio.Lock()

    async def ask(self, request: ApprovalRequest) -> PermissionAnswer:
        """See `Approver.ask`."""
        call = replace(request.call, call_id=self._call_id, title=f"{self._name}: {request.call.title}")
        async with self._one_at_a_time, self._activity.interrupted():
            await self._sink.show(ToolCallWaits(self._call_id))
            return await self._approver.ask(replace(request, call=call))


if TYPE_CHECKING:
    from pattern_acp.session.session import Session

TICK_SECONDS = 2.0
"""How often the time that it has taken is shown anew while nothing else happens."""

STOPPED = "The person stopped it before its report."

LAST_SECONDS = 180
"""Time for the report of one whose limits are reached."""


class Subagent:
    """One run."""

    def __init__(
        self, session: "Session", parts: TurnParts, task: DelegatedTask, call_id: ToolCallId, progress: Progress
    ) -> None:
        shared, settings = session.constellation, session.state.settings.delegate
        self.edited: list[str] = []
        """Absolute paths of files that it edited."""
        self._failed, self._words = False, ""
        self.scope = anyio.CancelScope()
        """Cancelled to end it alone, as the person wants; its turn goes on."""
        self._session, self._parts, self._task, self._progress = session, parts, task, progress
        qualified = model_for(task.kind, settings, session.state.model.qualified)
        self._missing = shared.models.missing_key(qualified)
        waits = Waits(shared.clock, parts.budget.waits)
        self._gate = BudgetGate(session, parts.turn_id, waits)
        self._model = _model_in_use(session, qualified, self._gate)
        self._activity = Activity(f"{task.kind.capitalize()}: {task.name}", progress, shared.clock)
        thread = ThreadName(parts.turn_id, call_id, shared.ids.new("thread"), task.name)
        self._sink = ThreadSink(session.sink, thread, self._activity)
        self._memory = SubagentMemory(session.memory, task.name)
        self._budget = Budget(limits_of(settings), shared.clock, waits, outer=parts.budget)
        self._heard = InjectionQueue()
        self.hooks = SessionToolHooks(session, self._heard)
        # Once its own limits are reached: one answer more, out of the turn's.
        self._last = Budget(Limits(1, LAST_SECONDS), shared.clock, waits, outer=parts.budget)
        gate = Gate(
            session.state.policy,
            NamedApprover(session.approver, task.name, call_id, session.sink, self._activity),
            self._sink,
            clock=shared.clock,
            waits=waits,
            narrowing=SubagentLimits(task.name, task.kind.only_reads, task.paths),
        )
        context = replace(
            parts.context,
            memory=self._memory,
            history=None,
            read_fingerprints={},
            jobs=None,
            keeps_slow_commands=False,
            long_text=self._long_text,
            delegation=None,
        )
        self._tools = tuple(
            tool for tool in tools_for(task.kind, parts.tools) if not task.tools or tool.spec.name in task.tools
        )
        self._effects = NotedEffects(session.checkpoints)
        self._checks = checks_of(session, gate, context, self._sink)
        self._runner = ToolRunner(
            self._tools,
            context,
            gate,
            self._sink,
            clock=shared.clock,
            after_edits=self,
            hooks=self.hooks,
            effects=self._effects,
        )
        self._runner.before_edits = EditWarnings(session, self._heard)
        self._idle = ToolRunner((), context, gate, self._sink, clock=shared.clock)

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """See `turn.tool_hooks.AfterEdits`."""
        self.edited += changed
        return await ChecksAndDiagnostics(self._session, self._checks, self._sink).after_edits(turn_id, changed)

    async def run(self) -> ToolOutcome:
        """Run it to its end.

        Raises:
            DatabaseError: something could not be recorded.
        """
        if self._missing:
            return ToolOutcome(self._missing, is_error=True)
        self._words = await anyio.to_thread.run_sync(subagent_prompt, self._task.kind, self._task.name)
        history = self._heard.history = [self._message(*await self._opening())]
        await self._sink.record(Fact(TurnStarted(self._parts.turn_id, history[0]), Actor.PERSONA, Origin.AGENT))
        await self._activity.show()
        try:
            end = await self._watched(history)
        except anyio.get_cancelled_exc_class():
            self._progress.note(self._work().told)
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                await self._record_end(TurnEnd(StopReason.CANCELLED))
            raise
        await self._record_end(end)
        return outcome_of(
            history,
            end.sentence,
            self._work(),
            failed=self._failed,
            limit=self._parts.context.result_limit,
            title=self._activity.final_title,
        )

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
        turn_id, sink = self._parts.turn_id, self._sink
        window = SubagentWindow(self._session, turn_id, self._model, history, sink, partial(self._build, history))
        try:
            end = await self._until_hooks_agree(history, window)
            reached = self._budget.used_up()
            if end.stop_reason is not StopReason.MAX_TURN_REQUESTS:
                return end
            said = self._message(f"You reached {reached}. No more calls run: write your report now from what you know.")
            added = ContextAdded(self._parts.turn_id, said, ("limit",))
            await self._sink.record(Fact(added, Actor.SYSTEM, Origin.AGENT))
            history.append(said)
            await self._loop(self._idle, self._last, window).run(self._parts.turn_id, history)
            return TurnEnd(
                StopReason.MAX_TURN_REQUESTS, f"It was stopped: it reached {reached}.", failure=LIMIT_REACHED
            )
        except DatabaseError:
            raise
        except PatternError as error:
            self._failed = True
            return TurnEnd(StopReason.END_TURN, f"It could not go on: {error.sentence}", failure=failure_of(error))

    async def _until_hooks_agree(self, history: list[Message], window: SubagentWindow) -> TurnEnd:
        turn_id, kind = self._parts.turn_id, self._task.kind.value
        loop, active = self._loop(self._runner, self._budget, window), False
        for _ in range(MOST_CONTINUATIONS + 1):
            end = await loop.run(turn_id, history)
            is_report = end.stop_reason is StopReason.END_TURN and not end.sentence
            if not is_report or not await after_report(self._session, turn_id, self._heard, kind=kind, active=active):
                return end
            active = True
        sentence = f"Hooks let it go on {MOST_CONTINUATIONS} times; that is the limit."
        return TurnEnd(StopReason.END_TURN, sentence, failure=TurnFailure("turn.continued-too-often"))

    def _loop(self, runner: ToolRunner, budget: Budget, window: SubagentWindow) -> TurnLoop:
        async def build(_history: Sequence[Message]) -> ProviderRequest:
            await add_waiting(self._session, self._parts.turn_id, self._heard, self._sink)
            return await window.fitted()

        loop = TurnLoop(
            model=self._model,
            build=build,
            runner=runner,
            sink=self._sink,
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
            stable=Stable(f"{state.system}\n\n{self._words}", specs, state.tool_form),
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
            return [memory_view(block) for block in await self._memory.blocks()]
        except BlockError:
            # The person was told of it by the turn itself.
            return []

    async def _opening(self) -> tuple[str, ...]:
        if self._task.kind is not SubagentKind.REVIEWER:
            return (self._task.task,)
        changes = await run_diff(self._session, "")
        return self._task.task, str(untrusted_block("changes", changes))

    async def _long_text(self, text_id: str) -> str | None:
        of_call = (event for event in self._sink.events if item_of(event) == text_id)
        return result_text(of_call) or long_text(self._heard.history, text_id)

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK_SECONDS)
            await self._activity.show()

    async def _record_end(self, end: TurnEnd) -> None:
        await self._sink.record(*end_facts(self._parts.turn_id, end.stop_reason, end.sentence, end.failure))

    def _message(self, *texts: str) -> Message:
        parts = tuple(TextPart(text) for text in texts)
        return Message(MessageId(self._session.constellation.ids.new("msg")), Role.USER, parts)

    def _work(self) -> Work:
        only_reads, cwd = self._task.kind.only_reads, self._parts.context.cwd
        files = changed_files(self._sink.events)
        by_commands = tuple(path for path in self._effects.changed if path not in {file.path for file in files})
        return Work(files, by_commands, tuple(self._memory.changed), cwd, only_reads)


def _model_in_use(session: "Session", qualified: str, gate: BudgetGate) -> ModelInUse:
    """The model, with those that stand in for it as far as the budgets have room."""
    models = session.constellation.models
    provider, info = models.resolve(qualified)
    return ModelInUse(models.with_fallback(provider, info, tokens_in(session), gate.refusal), info)
