"""Tool calls of one message: read, decided, run and recorded.

Owns: the tool and arguments that a model's call means, and the ports of what is before, around and behind effects.
Must not know: which hooks there are, or who else is behind a port.

Every announced call reaches `completed` or `failed` exactly once, also on cancel; every call, announced or not, has
exactly one result for the model (invariant 4). Independent calls that change nothing run side by side, at most four,
and are announced in the order in which the model wrote them; anything else runs alone and in order.
"""

import difflib
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from typing import Protocol

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.access import Access, Actor, Origin
from pattern_acp.domain.argument_repair import fit_to_schema, meant_name, read_object, tool_elsewhere
from pattern_acp.domain.canonical import JsonObject, is_deeper
from pattern_acp.domain.clock import Clock, ToolCallId, TurnId
from pattern_acp.domain.errors import DatabaseError, PatternError, unwrap_exception_group
from pattern_acp.domain.messages import ToolCallPart, ToolResultPart
from pattern_acp.domain.text_limits import SHOWN_NAME, one_line
from pattern_acp.domain.tool_calls import (
    NOTHING_RAN,
    Advised,
    FilesChanged,
    Plan,
    TerminalContent,
    TextContent,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    ToolKind,
)
from pattern_acp.hooks import HookVerdict, Opinion
from pattern_acp.journal.events import PlanUpdated, ToolCallFinished, ToolCallStarted, ToolResultExtended
from pattern_acp.policy.decision import CLAIMED, ClaimElsewhere, Decision, Verdict
from pattern_acp.tools.base import (
    DELEGATE,
    PreparedCall,
    Progress,
    Tool,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.turn.budget import REPEAT_RULE, RepeatGuard
from pattern_acp.turn.permissions import GivesWay, LookedAt, PermissionChecker
from pattern_acp.turn.recorder import (
    CLEANUP_SECONDS,
    NewEvent,
    TerminalEnded,
    TerminalStreamed,
    ToolCallRunning,
    ToolCallShows,
    TurnRecorder,
)

_SENTENCE_ENDS = frozenset(".!?…")
"""A reason that ends otherwise gets a full stop, since sentences follow it."""


class ToolHooks(Protocol):
    """The hooks around tool calls."""

    @property
    def stop(self) -> str:
        """Why the turn is to end, as a hook wants it; empty when it may continue."""
        ...

    async def before(self, turn_id: TurnId, call: ToolCallView) -> Opinion:
        """Ask the hooks about a call that is understood and has not run."""
        ...

    async def after(self, turn_id: TurnId, call: ToolCallView, outcome: ToolOutcome) -> str:
        """Text from the hooks for the model, behind the result of a call that ran; empty when there is none."""
        ...


class AfterEdits(Protocol):
    """Action after a batch of calls that wrote files; `turn/checks.py` has the configured checks."""

    async def after_edits(self, turn_id: TurnId, changed: Sequence[str]) -> str:
        """Text for the model behind the last edit's result, empty for none; `changed` are absolute paths."""
        ...


class BeforeEdits(Protocol):
    """Preliminaries of calls that change files; `session/edit_warnings.py` has claims of others and memory."""

    async def claims(self, accesses: Sequence[Access]) -> tuple[ClaimElsewhere, ...]:
        """Claim what a call with these accesses changes; the claims of other open sessions that it meets."""
        ...

    async def gives_way(self, accesses: Sequence[Access], *, takes_over: bool) -> bool:
        """Hear that the user allowed a call that meets claims of others; whether it waits until they are returned."""
        ...

    async def before(self, accesses: Sequence[Access]) -> Advised | None:
        """Text instead of the effect of a call with these accesses; None to let the call run."""
        ...


class WorkAhead(Protocol):
    """Hears of much work before it is done; `session/job_offers.py` asks the user whether it becomes a job."""

    async def before(
        self,
        turn_id: TurnId,
        calls: Sequence[ToolCallPart],
        delegated: Sequence[JsonObject],
        plan: Plan | None,
    ) -> str:
        """Hear of the calls of an answer that are still to run, and of a plan that was written since.

        `delegated` are the arguments of those that start a subagent.

        Returns:
            The sentence with which the turn ends here; empty to continue.

        Raises:
            DatabaseError: a question or its answer could not be recorded.
        """
        ...


class FoundFiles(Protocol):
    """The files that a command was found to have changed."""

    def content(self) -> FilesChanged | None:
        """The changes to be shown; None of none."""
        ...


class AroundEffects(Protocol):
    """Observer of the state before and after every effect; `rewind/checkpoints.py` saves files."""

    def around(self, turn_id: TurnId, accesses: Sequence[Access]) -> AbstractAsyncContextManager[FoundFiles | None]:
        """Entered before a call with these accesses runs, left when it has ended, however it ended.

        What it gives knows then what a command changed.
        """
        ...


def held_back(view: ToolCallView, warning: Advised) -> ToolOutcome:
    """The result of a call that waits until the model has read what memory says about its files."""
    shown = (*view.content, TextContent(warning.shown))
    title = f"{view.title} (held: memory warns)"
    return ToolOutcome(
        warning.for_model, is_error=True, content=shown, origin=Origin.MEMORY, title=title, failure="memory.warned"
    )


def with_opinion(decision: Decision, opinion: Opinion) -> Decision:
    """The decision after the hooks were heard.

    A hook may refuse, may have the user asked, and may allow what policy would ask. It allows nothing that policy
    denies or asks each time, and the user's consent to a write of memory stays the user's.
    """
    # Late, as all of policy.
    from pattern_acp.policy.layers import combine

    ended = opinion.reason[-1:] in _SENTENCE_ENDS
    said = f": {opinion.reason}{'' if ended else '.'}" if opinion.reason else "."
    match opinion.verdict:
        case HookVerdict.DENY:
            heard = Decision(Verdict.DENY, "hook", f"A hook refused it{said}")
        case HookVerdict.ASK:
            heard = Decision(Verdict.ASK, "hook", f"A hook wants you to be asked{said}")
        case HookVerdict.ALLOW if decision.verdict is Verdict.ASK:
            heard = Decision(Verdict.ALLOW, "hook", f"A hook allowed it{said}")
        case _:
            return decision
    return replace(combine((decision, heard)), origin=decision.origin, basis=decision.basis)


MOST_LEVELS = 32
"""Deepest nesting of arguments. No tool needs more than a few, and clients whose parser stops at 128 levels (serde_json
does) refuse the whole line that shows them."""

NAMED_TOOLS = 40
"""Most tools that an error names; MCP servers may bring hundreds."""


CUT = "This call was cut at "
"""Beginning of the problem of a call that the answer's limit cut; a replay recognises it only by these words."""

NOTHING_OF_IT = "before it was complete, and nothing of it was done."
"""End of what the user is shown of such a problem."""

THE_TOOLS = "; the tools are "

WRITERS = ("write_file", "edit_file", "apply_patch")
"""The tools whose calls are long because a file is."""


class CallCutError(ToolInputError):
    """The answer reached its limit in the middle of the call."""

    failure_code = "tool.call-cut"


def cut_problem(name: str, tokens: int, offered: Collection[str], *, window_full: bool = False) -> str:
    """Explain to the model that its call of `name` was cut after so many tokens; `offered` are the tools it has.

    `window_full`: the context window was full.
    """
    limit = "where the context window was full" if window_full else "the limit of one answer"
    cut = f"{CUT}{tokens:,} tokens, {limit}, {NOTHING_OF_IT}"
    if name not in WRITERS:
        return f"{cut} Make the call shorter, or do the work in several smaller calls."
    edit = "apply_patch" if "edit_file" not in offered and "apply_patch" in offered else "edit_file"
    return (
        f"{cut} Write the file in smaller pieces: its first part with write_file, then append one part after the "
        f"other with {edit}, each in an answer of its own."
    )


def was_cut(call: ToolCallPart) -> bool:
    """True when the limit of its answer cut the call."""
    return call.problem.startswith(CUT)


class ReadCall(Struct, frozen=True):
    """A call as it was meant. `repairs` says in phrases what had to be repaired, without values."""

    tool: Tool
    arguments: JsonObject
    repairs: tuple[str, ...] = ()


def read_call(
    call: ToolCallPart,
    tools: Mapping[str, Tool],
    withheld: Collection[str] = (),
    offered: Collection[str] | None = None,
) -> ReadCall:
    """The tool that a call names and its arguments, near-valid ones repaired.

    `withheld` names the tools that the model knows and that the command of this turn does not allow, `offered` those
    that an error lists, all unless one is passed.

    Raises:
        ToolInputError: there is no such tool, it is withheld, or the arguments are no JSON object.
        CallCutError: the call was cut.
    """
    if was_cut(call):
        shown, advice = _two_readers(call.problem)
        raise CallCutError(shown, advice=advice)
    if call.problem:
        shown, advice = _two_readers(call.problem)
        raise ToolInputError(shown, advice=advice)
    tool = find_tool(call.name, tools)
    if tool is None:
        known = sorted(tools if offered is None else offered)
        names = ", ".join(known[:NAMED_TOOLS]) + (" and more" if len(known) > NAMED_TOOLS else "")
        shown = call.name if len(call.name) <= SHOWN_NAME else f"{call.name[:SHOWN_NAME]}…"
        if call.name in withheld or meant_name(call.name, withheld):
            # replay/comparison.py reads both sentences.
            raise ToolInputError(f"The tool {shown!r} is not allowed in this command", advice=f"the tools are {names}.")
        near = difflib.get_close_matches(call.name[:SHOWN_NAME].lower(), known, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise ToolInputError(f"There is no tool named {shown!r}", advice=f"the tools are {names}.{hint}")
    renamed = (f"read a misspelt name as the tool {tool.spec.name}",) if tool.spec.name != call.name else ()
    arguments, repairs = _arguments(call.arguments)
    fitted = fit_to_schema(arguments, tool.spec.input_schema)
    return ReadCall(tool, fitted.value, (*renamed, *repairs, *fitted.repairs))


def _two_readers(problem: str) -> tuple[str, str]:
    """A problem, recorded in the words that the model reads: what the user is shown of it, and the advice behind."""
    for end in (NOTHING_OF_IT, NOTHING_RAN):
        shown, _, advice = problem.partition(f"{end} ")
        if advice:
            return f"{shown}{end}", advice
    shown, names, advice = problem.partition(THE_TOOLS)
    return shown, names.removeprefix("; ") + advice


def find_tool(name: str, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool of a name, also of one in another case or of another agent; None when there is none, or several."""
    return tools.get(name) or tools.get(meant_name(name, tools)) or tools.get(tool_elsewhere(name, tools))


def lenient_arguments(text: str) -> JsonObject:
    """The argument object for showing, or the raw text under `arguments` when it is none."""
    try:
        return _arguments(text)[0]
    except ToolInputError:
        return {"arguments": text}


def _arguments(text: str) -> tuple[JsonObject, tuple[str, ...]]:
    try:
        read = read_object(text)
    except (ValueError, RecursionError) as error:
        raise ToolInputError(_problem(text), advice="send one JSON object that fits the tool's schema.") from error
    if is_deeper(read.value, MOST_LEVELS):
        raise ToolInputError(
            f"The arguments are nested in more than {MOST_LEVELS} levels",
            advice="send an object that fits the tool's schema.",
        )
    return read.value, read.repairs


def _problem(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return "The arguments are not valid JSON"
    return "The arguments are no JSON object"


logger = logging.getLogger(__name__)

SIDE_BY_SIDE = 4
"""Most calls that run at once (issue 2, section 5)."""

CHANGED_BY_HOOK = "a hook changed the arguments"
"""Recorded among the repairs of a call, since the journal has nothing else of the hook."""

OUTSIDE = "It would run outside the sandbox."

OUTSIDE_SANDBOX = "none"
"""Instead of a sandbox's name: the call might have run in one, and ran outside."""

RUN_OUTSIDE = "The sandbox stopped it, and it was run again outside, as the user allowed."

SUPERSEDED = "Not run, as the user wrote a message first."
SUPERSEDED_ADVICE = "Read it, and make this call again if it is still right."

CALL_CANCELLED = "The user cancelled this call before it ended, and wants the turn to continue."

CANCELLED_SENTENCE = "The user cancelled the turn before this call ended."


class CallProgress:
    """`tools.base.Progress` of one call."""

    def __init__(self, call_id: ToolCallId, recorder: TurnRecorder) -> None:
        self._call_id = call_id
        self._recorder = recorder
        self.content: tuple[ToolContent, ...] = ()
        self.is_retitled = False
        self._noted = ""

    def note(self, text: str) -> None:
        """See `Progress.note`."""
        self._noted = text

    def cancelled(self, view: ToolCallView, reason: str, *, failure: str = "tool.interrupted") -> ToolOutcome:
        """The result of a call that is cancelled now."""
        text = "\n\n".join(part for part in (reason, self._noted) if part)
        title = view.title if self.is_retitled else ""
        content = (*(self.content or view.content), TextContent(text))
        return ToolOutcome(text, is_error=True, content=content, title=title, failure=failure)

    async def show(self, content: tuple[ToolContent, ...], *, title: str = "") -> None:
        """See `Progress.show`."""
        self.content = content
        self.is_retitled = self.is_retitled or bool(title)
        await self._recorder.show(ToolCallShows(self._call_id, content, title))

    def final_title(self, outcome: ToolOutcome, view: ToolCallView) -> str:
        """Title to set at the end; empty when it is still the announced one."""
        return outcome.title or (view.title if self.is_retitled else "")

    async def terminal_output(self, terminal_id: str, data: str) -> None:
        """See `Progress.terminal_output`."""
        await self._recorder.show(TerminalStreamed(self._call_id, terminal_id, data))

    async def terminal_exit(self, terminal_id: str, exit_code: int | None, signal: str | None) -> None:
        """See `Progress.terminal_exit`."""
        await self._recorder.show(TerminalEnded(self._call_id, terminal_id, exit_code, signal))


def sandbox_of(decision: Decision) -> str:
    """Return the sandbox of a call that may run: what the user allowed runs outside.

    A question about repeating a call, or about the work of another session, is none about the sandbox.
    """
    return decision.sandbox if decision.verdict is Verdict.ALLOW or decision.rule in {REPEAT_RULE, CLAIMED} else ""


class _Place:
    """Position of a call among those that run side by side: it is announced after all before it."""

    def __init__(self, before: anyio.Event | None = None) -> None:
        self._before = before
        self.passed = anyio.Event()

    async def reached(self) -> None:
        """Wait for those before."""
        if self._before is not None:
            await self._before.wait()


class _Understood(Struct, frozen=True):
    """A call that is prepared: as it is shown, what hooks think of it, and what was looked at for it."""

    view: ToolCallView
    prepared: PreparedCall
    looked_at: LookedAt
    opinion: Opinion = Opinion()


class ToolRunner:
    """Runs calls of one turn."""

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        permissions: PermissionChecker,
        recorder: TurnRecorder,
        *,
        clock: Clock,
        after_edits: AfterEdits | None = None,
        hooks: ToolHooks | None = None,
        effects: AroundEffects | None = None,
    ) -> None:
        self.repeats = RepeatGuard()
        self.cancel_reason = CANCELLED_SENTENCE
        """Text for the model instead of the results of cancelled calls."""
        self.before_edits: BeforeEdits | None = None
        """Check that may defer a call."""
        self.work_ahead: WorkAhead | None = None
        """Asks about much work before it is done."""
        self.not_agreed = ""
        """The sentence with which the turn ends, as the user does not want the work ahead; empty when it continues."""
        self._plan: Plan | None = None
        self._delegated: dict[ToolCallId, JsonObject] = {}
        self.withheld: Collection[str] = ()  # tools that the model knows and this turn's command does not allow
        self.offered: Callable[[], Collection[str]] | None = None
        """Names the tools that the model has, where it may call others as well."""
        self.refusals: Mapping[ToolCallId, str] = {}
        """Answers to calls of tools that there are not, where a record has them: another version may know the name."""
        self._hooks = hooks
        self._effects = effects
        self._tools = {tool.spec.name: tool for tool in tools}
        self._context = context
        self._permissions = permissions
        self._recorder = recorder
        self._clock = clock
        self.running: dict[ToolCallId, Callable[[], None]] = {}
        """Functions that end the calls which run now, one by one, so that the turn continues."""
        self.hands_over: Callable[[ToolCallId], bool] = lambda _: False
        """Tells, behind each call but the last of an answer, whether the next is left out for a new prompt."""
        self._after_edits = after_edits
        self._changed: list[str] = []
        self._last_edit = ToolCallId("")

    @property
    def stop(self) -> str:
        """Why a hook wants the turn to end; empty when none does."""
        return self._hooks.stop if self._hooks is not None else ""

    async def run(self, turn_id: TurnId, calls: Sequence[ToolCallPart]) -> list[ToolResultPart]:
        """The results of `calls`, in their order.

        Raises:
            DatabaseError: a result could not be recorded; the turn must stop.
        """
        results: dict[int, ToolResultPart] = {}
        self._expect_subagents(calls)
        index = 0
        while index < len(calls):
            left_out = await self._left_out(turn_id, calls[index:], is_first=not index)
            if left_out:
                for position in range(index, len(calls)):
                    results[position] = await self._supersede(turn_id, calls[position], left_out)
                break
            batch = self._next_batch(calls, index)
            await self._run_batch(turn_id, calls, batch, results)
            index = batch[-1] + 1
        await self._follow_edits(turn_id, results)
        if not self.not_agreed:
            await self._ask_ahead(turn_id, ())
        return [results[position] for position in range(len(calls))]

    async def _left_out(self, turn_id: TurnId, calls: Sequence[ToolCallPart], *, is_first: bool) -> str:
        """The reason, for the model, why calls of an answer are not run; empty where they are."""
        if not is_first and self.hands_over(calls[0].call_id):
            return SUPERSEDED
        return await self._ask_ahead(turn_id, calls)

    async def _ask_ahead(self, turn_id: TurnId, calls: Sequence[ToolCallPart]) -> str:
        plan, self._plan = self._plan, None
        if self.work_ahead is not None and (calls or plan is not None):
            delegated = [self._delegated[call.call_id] for call in calls if call.call_id in self._delegated]
            self.not_agreed = await self.work_ahead.before(turn_id, calls, delegated, plan)
        return self.not_agreed

    async def _follow_edits(self, turn_id: TurnId, results: dict[int, ToolResultPart]) -> None:
        changed, self._changed = self._changed, []
        if not changed or self._after_edits is None:
            return
        text = await self._after_edits.after_edits(turn_id, changed)
        if not text:
            return
        added = f"\n{text}"
        # Recorded before it is reported, as the result itself was.
        await self._recorder.record(
            NewEvent(ToolResultExtended(turn_id, self._last_edit, added), Actor.TOOL, Origin.COMMAND)
        )
        for position, result in results.items():
            if result.call_id == self._last_edit:
                results[position] = replace(result, text=f"{result.text}{added}")

    def _next_batch(self, calls: Sequence[ToolCallPart], start: int) -> list[int]:
        batch = [start]
        if not self._only_reads(calls[start]):
            return batch
        for position in range(start + 1, len(calls)):
            if not self._only_reads(calls[position]):
                break
            batch.append(position)
        return batch

    def _only_reads(self, call: ToolCallPart) -> bool:
        tool = find_tool(call.name, self._tools)
        return tool is not None and not tool.changes_things

    def _expect_subagents(self, calls: Sequence[ToolCallPart]) -> None:
        expected = self._delegated = dict[ToolCallId, JsonObject]()
        for call in calls:
            # One that cannot be read is answered with the reason when it is its turn.
            with suppress(PatternError):
                if self._delegates(call):
                    expected[call.call_id] = self._read(call).arguments
        if expected and self._context.delegation is not None:
            self._context.delegation.expect(expected)

    def _delegates(self, call: ToolCallPart) -> bool:
        tool = find_tool(call.name, self._tools)
        return tool is not None and tool.spec.name == DELEGATE

    async def _run_batch(
        self, turn_id: TurnId, calls: Sequence[ToolCallPart], batch: list[int], results: dict[int, ToolResultPart]
    ) -> None:
        if len(batch) == 1:
            results[batch[0]] = await self._run_one(turn_id, calls[batch[0]], _Place())
            return
        limiter = anyio.CapacityLimiter(SIDE_BY_SIDE)

        async def one(position: int, place: _Place) -> None:
            try:
                results[position] = await self._run_one(turn_id, calls[position], place)
            finally:
                place.passed.set()
                if not self._delegates(calls[position]):
                    limiter.release_on_behalf_of(position)

        try:
            async with anyio.create_task_group() as group:
                before = None
                for position in batch:
                    # In order here, since a call waits for those before it, which must be among those that run.
                    if not self._delegates(calls[position]):
                        # Subagents wait for each other, and have a limit of their own.
                        await limiter.acquire_on_behalf_of(position)
                    place = _Place(before)
                    before = place.passed
                    group.start_soon(one, position, place)
        except BaseExceptionGroup as group_error:
            raise unwrap_exception_group(group_error) from group_error

    async def _run_one(self, turn_id: TurnId, call: ToolCallPart, place: _Place) -> ToolResultPart:
        tool = find_tool(call.name, self._tools) if call.call_id not in self.refusals else None
        try:
            read = self._read(call)
            understood = await self._understand(turn_id, call, read)
        except DatabaseError:
            raise
        except PatternError as error:
            await place.reached()
            return await self._fail_unprepared(turn_id, call, tool, error, place)
        except Exception:
            logger.exception("preparing a call of %s failed", call.name)
            await place.reached()
            failed = ToolFailedError(f"The tool {call.name} failed; the log has details.", failure_code="tool.fault")
            return await self._fail_unprepared(turn_id, call, tool, failed, place)
        if read.repairs:
            logger.info("a call of %s was repaired: %s", understood.view.name, "; ".join(read.repairs))
        changed = (CHANGED_BY_HOOK,) if understood.opinion.updated_input is not None else ()
        await place.reached()
        return await self._run_prepared(turn_id, understood, (*read.repairs, *changed), place)

    def _read(self, call: ToolCallPart) -> ReadCall:
        if refusal := self.refusals.get(call.call_id):
            shown, advice = _two_readers(refusal)
            raise ToolInputError(shown, advice=advice)
        offered = None if self.offered is None else set(self.offered()).intersection(self._tools)
        return read_call(call, self._tools, self.withheld, offered)

    async def _understand(self, turn_id: TurnId, call: ToolCallPart, read: ReadCall) -> _Understood:
        """The call as it will run, and what hooks think of it; a hook may have changed its arguments."""
        understood = await self._prepare(call, read.tool, read.arguments)
        if self._hooks is None:
            return understood
        opinion = await self._hooks.before(turn_id, understood.view)
        if opinion.updated_input is not None:
            understood = await self._prepare(call, read.tool, opinion.updated_input)
        return replace(understood, opinion=opinion)

    async def _prepare(self, call: ToolCallPart, tool: Tool, arguments: JsonObject) -> _Understood:
        looked_at = LookedAt(self._context, self._permissions)
        try:
            prepared = await tool.prepare(arguments, call.call_id, looked_at.context)
        except DatabaseError:
            raise
        except PatternError as error:
            withheld = looked_at.withheld(tool, error)
            if withheld is None:
                raise
            prepared = withheld
        return _Understood(view_of(call, tool, arguments, prepared), prepared, looked_at)

    async def _run_prepared(
        self, turn_id: TurnId, understood: _Understood, repairs: tuple[str, ...], place: _Place
    ) -> ToolResultPart:
        view, prepared, opinion = understood.view, understood.prepared, understood.opinion
        # None until it runs: the time that the user takes to allow it is not the call's.
        started: float | None = None
        sandbox = ""
        progress = CallProgress(view.call_id, self._recorder)

        latest: list[Decision] = []
        claims: list[ClaimElsewhere] = []

        def decide() -> Decision:
            decided = self._permissions.decide(prepared.accesses, view.raw_input, tuple(claims))
            decided = with_opinion(decided, opinion)
            if decided.sandbox and prepared.run_confined is None:
                decided = Decision(Verdict.ASK, "outside_sandbox", OUTSIDE, basis=decided.basis)
            decided = self.repeats.decide(view, decided)
            latest[:] = [decided]
            return decided

        decision, warning = await self._before(prepared, decide, claims)
        if view.content and (warning or decision.verdict is Verdict.DENY) and understood.looked_at.unreadable():
            # Nobody is asked about this call, so its preview must not show what reading would ask about.
            view = replace(view, content=())
        announced = NewEvent(ToolCallStarted(turn_id, view, repairs))
        if warning:
            await self._recorder.record(announced)
            return await self._finish(turn_id, view, held_back(view, warning), None)
        try:
            await self._permissions.announce(turn_id, decision, prepared.accesses, view.call_id, announced)
            place.passed.set()
            denied = await self._permissions.authorize(
                turn_id,
                decision,
                prepared.accesses,
                view,
                again=decide,
                wording=prepared.wording,
                gives_way=self._way(prepared, claims),
            )
            self.repeats.answered(view, decision, goes_on=denied is None)
            if denied is not None:
                shown = (*view.content, TextContent(denied.shown))
                outcome = ToolOutcome(denied.for_model, is_error=True, content=shown, failure="policy.refused")
            else:
                started = self._clock.monotonic()
                # What the user answered for may run outside.
                confined = sandbox_of(latest[0])
                sandbox = confined or (OUTSIDE_SANDBOX if prepared.run_confined is not None else "")
                await self._recorder.show(ToolCallRunning(view.call_id, sandbox))
                outcome = await self._cancellable_effect(turn_id, view, prepared, progress, confined=bool(confined))
                if outcome.stopped and confined:
                    outcome = await self._outside(turn_id, view, prepared, progress, outcome)
                    sandbox = sandbox if outcome.stopped else OUTSIDE_SANDBOX
                if self._hooks is not None and not outcome.is_error:
                    outcome = replace(outcome, text=outcome.text + await self._hooks.after(turn_id, view, outcome))
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
                cancelled = progress.cancelled(view, self.cancel_reason)
                await self._finish(turn_id, view, cancelled, started, interrupted=True, sandbox=sandbox)
            raise
        outcome = replace(outcome, title=progress.final_title(outcome, view))
        return await self._finish(turn_id, view, outcome, started, sandbox=sandbox)

    async def _before(
        self, prepared: PreparedCall, decide: Callable[[], Decision], claims: list[ClaimElsewhere]
    ) -> tuple[Decision, Advised | None]:
        """The decision, with the claims of others that it is made by, and the text that holds the call."""
        decision, edits = decide(), self.before_edits
        if edits is None or decision.verdict is Verdict.DENY:
            return decision, None
        claims += await edits.claims(prepared.accesses)
        if claims:
            decision = decide()
        return decision, await edits.before(prepared.accesses) if decision.verdict is not Verdict.DENY else None

    def _way(self, prepared: PreparedCall, claims: Sequence[ClaimElsewhere]) -> GivesWay | None:
        if self.before_edits is None or not claims:
            return None
        return partial(self.before_edits.gives_way, prepared.accesses)

    async def _outside(
        self,
        turn_id: TurnId,
        view: ToolCallView,
        prepared: PreparedCall,
        progress: CallProgress,
        outcome: ToolOutcome,
    ) -> ToolOutcome:
        """Offer the user to run a call outside the sandbox that stopped it; the result of the last run."""
        refused = await self._permissions.offer_outside(turn_id, prepared.accesses, view, outcome.stopped)
        if refused is not None:
            shown = (*outcome.content, TextContent(refused.shown))
            return replace(outcome, text=f"{outcome.text}\n{refused.for_model}", content=shown)
        again = await self._effect(turn_id, view, prepared, progress)
        return replace(again, text=f"{RUN_OUTSIDE}\n{again.text}", stopped="")

    async def _cancellable_effect(
        self, turn_id: TurnId, view: ToolCallView, prepared: PreparedCall, progress: CallProgress, *, confined: bool
    ) -> ToolOutcome:
        """The result of a call that the user may cancel on its own."""
        with anyio.CancelScope() as scope:
            self.running[view.call_id] = scope.cancel
            try:
                return await self._effect(turn_id, view, prepared, progress, confined=confined)
            finally:
                del self.running[view.call_id]
        return progress.cancelled(view, CALL_CANCELLED, failure="tool.cancelled")

    async def _effect(
        self,
        turn_id: TurnId,
        view: ToolCallView,
        prepared: PreparedCall,
        progress: CallProgress,
        *,
        confined: bool = False,
    ) -> ToolOutcome:
        run = (prepared.run_confined if confined else None) or prepared.run
        try:
            around = self._effects.around(turn_id, prepared.accesses) if self._effects is not None else nullcontext()
            async with around as found:
                outcome = await run(progress)
            changed = found.content() if found is not None else None
            return outcome if changed is None else replace(outcome, content=(*outcome.content, changed))
        except DatabaseError:
            raise
        except PatternError as error:
            shown = (*(progress.content or view.content), TextContent(error.sentence))
            return ToolOutcome(error.for_model, is_error=True, content=shown, failure=error.failure_code)
        except Exception:
            logger.exception("the tool %s failed", view.name)
            return ToolOutcome(
                f"The tool {view.name} failed unexpectedly; the log has details.", is_error=True, failure="tool.fault"
            )

    async def _finish(
        self,
        turn_id: TurnId,
        view: ToolCallView,
        outcome: ToolOutcome,
        started: float | None,
        *before: NewEvent,
        interrupted: bool = False,
        sandbox: str = "",
    ) -> ToolResultPart:
        duration_ms = 0 if started is None else round((self._clock.monotonic() - started) * 1000)
        text = outcome.text
        if not interrupted:
            tool = find_tool(view.name, self._tools)
            acted = tool is not None and tool.changes_things and not outcome.is_error
            # Recorded with the result, so that a reloaded conversation is the same to the byte.
            text += self.repeats.note(view, text, failed=outcome.is_error, changes=acted or bool(outcome.changed))
        finished = ToolCallFinished(
            turn_id,
            view.call_id,
            ToolCallStatus.FAILED if outcome.is_error else ToolCallStatus.COMPLETED,
            text,
            shown_content(outcome),
            outcome.locations,
            outcome.images,
            outcome.full_output,
            duration_ms,
            interrupted,
            one_line(outcome.title),
            failure_of_outcome(outcome),
            sandbox,
        )
        if finished.failure:
            logger.info("a call of %s failed (%s)", view.name, finished.failure)
        # An answer of the user is the user's, whatever tool asked for it.
        actor = Actor.HUMAN if outcome.origin is Origin.PERSON else Actor.TOOL
        events = [*before, NewEvent(finished, actor, outcome.origin)]
        if outcome.plan is not None:
            self._plan = outcome.plan
            events.append(NewEvent(PlanUpdated(turn_id, outcome.plan)))
        await self._recorder.record(*events)
        if outcome.changed:
            self._changed += outcome.changed
            self._last_edit = view.call_id
        return ToolResultPart(view.call_id, text, outcome.is_error, outcome.images)

    async def _supersede(self, turn_id: TurnId, call: ToolCallPart, reason: str) -> ToolResultPart:
        """Leave out a call: a new message of the user came before, or the user does not want the work ahead."""
        view = _unprepared(call, find_tool(call.name, self._tools))
        # A turn that ends with the call needs no advice.
        text = f"{reason} {SUPERSEDED_ADVICE}" if reason == SUPERSEDED else reason
        outcome = ToolOutcome(text, is_error=True, content=(TextContent(reason),), failure="tool.superseded")
        if self.not_agreed:
            outcome = replace(outcome, failure="tool.not-agreed")
        return await self._finish(
            turn_id, view, outcome, None, NewEvent(ToolCallStarted(turn_id, view)), interrupted=True
        )

    async def _fail_unprepared(
        self, turn_id: TurnId, call: ToolCallPart, tool: Tool | None, error: PatternError, place: _Place
    ) -> ToolResultPart:
        view = _unprepared(call, tool)
        title, arguments = view.title, view.raw_input
        if self.repeats.is_due(view.call_id, view.name, arguments):

            async def fail(_progress: Progress) -> ToolOutcome:
                raise error

            failing = PreparedCall(title, (), fail)
            looked_at = LookedAt(self._context, self._permissions)
            return await self._run_prepared(turn_id, _Understood(view, failing, looked_at), (), place)
        shown = (TextContent(error.sentence),)
        outcome = ToolOutcome(
            error.for_model, is_error=True, content=shown, origin=Origin.WORKSPACE, failure=error.failure_code
        )
        # In one transaction: a turn that is cancelled between the two would leave a call without an end.
        return await self._finish(turn_id, view, outcome, None, NewEvent(ToolCallStarted(turn_id, view)))


def _unprepared(call: ToolCallPart, tool: Tool | None) -> ToolCallView:
    """A call that was not prepared, as the user sees it."""
    # Late: most calls can be prepared.
    from pattern_acp.tools.schema import failed_title

    kind = tool.kind if tool is not None else ToolKind.OTHER
    arguments = lenient_arguments(call.arguments)
    title = failed_title(call.name if tool is None else tool.spec.name, arguments)
    return ToolCallView(call.call_id, call.name[:SHOWN_NAME], title, kind, arguments)


def failure_of_outcome(outcome: ToolOutcome) -> str:
    """The code of a result that is an error, also where no error stands for it, as for a command that failed."""
    return outcome.failure or (ToolFailedError.failure_code if outcome.is_error else "")


def view_of(call: ToolCallPart, tool: Tool, arguments: JsonObject, prepared: PreparedCall) -> ToolCallView:
    """A call as the user sees it before it runs."""
    return ToolCallView(
        call.call_id,
        tool.spec.name,
        one_line(prepared.title),
        prepared.kind or tool.kind,
        arguments,
        prepared.locations,
        prepared.preview,
    )


def shown_content(outcome: ToolOutcome) -> tuple[ToolContent, ...]:
    """The content to keep: terminals carry their output, so that a replay can show it as text."""
    if not outcome.is_error or any(not isinstance(item, FilesChanged) for item in outcome.content):
        return tuple(
            replace(item, output=item.output or outcome.full_output or outcome.text)
            if isinstance(item, TerminalContent)
            else item
            for item in outcome.content
        )
    return (TextContent(outcome.text), *outcome.content)
