"""Compaction of a session's conversation.

Owns: what of a conversation must stay, which strategy is used, the request for a summary, and that a compaction is
recorded, counted and shown to the user. Must not know: when a compaction is needed (session/window.py).
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import CompactionStrategy
from pattern_acp.context import compaction
from pattern_acp.context.compaction import (
    LONG_RESULT_CHARACTERS,
    RESULTS_KEPT_WHOLE,
    SHORT_RESULT_CHARACTERS,
    CompactionPlan,
    SummaryTask,
    TokensOf,
    Untouchable,
    choose,
    long_results,
    read_summary,
    summary_request,
    summary_tokens,
    units_of,
)
from pattern_acp.context.instructions import system_in_window
from pattern_acp.context.window import (
    USUAL_WEIGHT,
    WindowLimits,
    messages_tokens,
    request_tokens,
    text_weight,
    weight_per_token,
)
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import COMPACT_CALL, Plan, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.hooks import HookVerdict
from pattern_acp.journal.events import (
    ContextCompacted,
    HistoryCleared,
    MessagePinned,
    ModelRequested,
    PlanUpdated,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
)
from pattern_acp.journal.history import active_events, read_history
from pattern_acp.providers.base import ModelInfo, ProviderStop
from pattern_acp.session.hooks import run_event
from pattern_acp.turn.loop import BYTES_PER_TOKEN, ModelInUse, by_model, reported
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.turn.request_fingerprints import RequestDigests
from pattern_acp.turn.stream_reader import MessageAssembly

LAST_RESORT_CHARACTERS = (SHORT_RESULT_CHARACTERS, 300)
"""Characters that stay of every result when nothing else frees enough."""


class CompactionRequest(Struct, frozen=True):
    """Request for a compaction."""

    trigger: str
    """`threshold`, `person` or `provider`."""
    strategy: CompactionStrategy
    tokens: int
    """Size of the whole request now."""
    target: int
    """Size that the request should have afterwards."""
    limits: WindowLimits
    wish: str = ""
    """The user's wish for the summary."""
    is_last_resort: bool = False
    """True when even the newest results are shortened, and earlier summaries may go."""
    keep_characters: int = SHORT_RESULT_CHARACTERS


def choose_for(
    history: Sequence[Message], rules: Untouchable, wanted: CompactionRequest, tokens_of: TokensOf
) -> CompactionPlan:
    """Choose what leaves a conversation; long results are shortened first."""
    free = max(wanted.tokens - wanted.target, 0)
    keep = wanted.keep_characters
    longer_than = keep if wanted.is_last_resort else LONG_RESULT_CHARACTERS
    keep_last = 0 if wanted.is_last_resort else RESULTS_KEPT_WHOLE
    results = long_results(history, free, tokens_of, longer_than=longer_than, to=keep, keep_last=keep_last)
    if results.freed >= free and wanted.trigger != "person":
        return results
    event = ContextCompacted(TurnId(""), "", "", shortened=results.shortened, keep_characters=keep)
    units = units_of(compaction.compacted(history, event), rules, tokens_of)
    note = summary_tokens(wanted.limits.usable) if wanted.strategy == "summarise" else 0
    removed = choose(units, free - results.freed + note, wanted.strategy, spare_notes=not wanted.is_last_resort)
    gone = {call.call_id for unit in removed.removed for call in unit.first.tool_calls}
    shortened = tuple(call_id for call_id in results.shortened if call_id not in gone)
    return CompactionPlan(removed.removed, shortened, results.freed + removed.freed)


if TYPE_CHECKING:
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.state import SessionState


SUMMARY_SECONDS = 180.0
"""Longest that a summary may take before the conversation continues without one."""

RECORD_SECONDS = 1.0
"""Longest that recording the end of a cancelled compaction may take (invariant 3)."""

TRANSCRIPT_SHARE = 0.8
"""Share of the window beside the system prompt; estimates are not exact."""

Spend = Callable[[Usage, Cost | None], Cost | None]
"""Counts tokens and money; gives what the session has cost so far."""


class Summary(Struct, frozen=True):
    """Text that the model wrote, and its usage."""

    text: str = ""
    usage: Usage = Usage()
    cost: Cost | None = None
    problem: str = ""
    """Why there is none; the text is empty then."""
    estimated: bool = False
    """True when the usage is our own estimate."""
    by: tuple[str, ModelInfo | None] = ("", None)
    """Who answered, as `by_model` takes it."""


async def write_summary(
    dialogue: "Dialogue",
    turn_id: TurnId,
    model: ModelInUse,
    wanted: CompactionRequest,
    choice: CompactionPlan,
    wish: str,
    spend: Spend,
) -> Summary:
    """Have the model sum up what leaves. Never fails for what the provider does: then there is a problem to tell."""
    messages = [message for unit in choice.removed for message in unit.messages]
    output = summary_tokens(wanted.limits.usable)
    ratio = dialogue.state.window.calibration.known().get(model.info.name, 1.0)
    per_token = weight_per_token(model.info.name) / ratio
    system = system_in_window(dialogue.state.system, model.info.context_window)
    weight = wanted.limits.usable * per_token - text_weight(system)
    room = int(weight / USUAL_WEIGHT * TRANSCRIPT_SHARE) - 2_000
    task = SummaryTask(system, model.info, messages, max(room, 1_000), output, wish)
    request = summary_request(task)
    asked = dialogue.state.window.calibration.tokens(model.info.name, request_tokens(request))
    if asked + output > wanted.limits.window:
        return Summary(problem="the model's window has no space to write one")
    digest, size = RequestDigests().of(request)
    requested = ModelRequested(turn_id, 0, model.provider.name, request.model, digest, len(request.messages), size)
    await dialogue.recorder.record(NewEvent(requested, Actor.SYSTEM))
    assembly = MessageAssembly(MessageId("msg_summary"), model.info.qualified)
    problem = f"the model took longer than {SUMMARY_SECONDS:.0f} seconds"
    try:
        with anyio.move_on_after(SUMMARY_SECONDS):
            try:
                async with model.provider.stream(request) as events:
                    async for event in events:
                        assembly.take(event)
                problem = ""
            except DatabaseError:
                raise
            except PatternError as error:
                problem = error.sentence.rstrip(".")
    except anyio.get_cancelled_exc_class():
        cut = _counted(_judged(assembly, "it was cancelled"), assembly, model, asked, has_begun=not assembly.is_waiting)
        with anyio.CancelScope(shield=True), anyio.move_on_after(RECORD_SECONDS):
            await dialogue.recorder.record(*usage_events(turn_id, cut, model, spend, wanted.tokens))
        raise
    written = _judged(assembly, problem)
    has_begun = assembly.is_untold or bool(written.problem and assembly.written_bytes)
    return _counted(written, assembly, model, asked, has_begun=has_begun)


def usage_events(turn_id: TurnId, written: Summary, model: ModelInUse, spend: Spend, used: int) -> list[NewEvent]:
    """Facts on the usage of a summary, which `spend` counts too; `used` are the tokens in the window."""
    if written.usage == Usage():
        return []
    event = reported(turn_id, written.usage, written.cost, model.info, spend(written.usage, written.cost), used)
    return [NewEvent(replace(by_model(event, *written.by), estimated=written.estimated), Actor.SYSTEM)]


def _counted(written: Summary, assembly: MessageAssembly, model: ModelInUse, asked: int, *, has_begun: bool) -> Summary:
    """With an estimate where the provider said nothing of what it used, although it has begun."""
    if written.usage != Usage() or not has_begun:
        return written
    from pattern_acp.providers.catalogue import cost_of

    usage = Usage(asked, assembly.written_bytes // BYTES_PER_TOKEN)
    return replace(written, usage=usage, cost=cost_of(assembly.info or model.info, usage), estimated=True)


def _judged(assembly: MessageAssembly, problem: str) -> Summary:
    answer = assembly.message(with_calls=False).text
    summary = read_summary(answer) if not problem else None
    if not problem and assembly.stop in {ProviderStop.REFUSAL, ProviderStop.CONTENT_FILTER}:
        problem = "the model refused"
    elif not problem and assembly.stop is ProviderStop.MAX_TOKENS:
        problem = "it was longer than it may be"
    elif not problem and assembly.stop is ProviderStop.INTERRUPTED:
        problem = "the answer broke off"
    elif not problem and summary is None:
        problem = "the answer was empty"
    return Summary(
        "" if problem else summary or "", assembly.usage, assembly.cost, problem, by=(assembly.provider, assembly.info)
    )


if TYPE_CHECKING:
    from pattern_acp.session.budgets import BudgetGate

logger = logging.getLogger(__name__)

OWN_WORDS_SHARE = 12
"""One part in so many of what a request may fill that the user's own prompts may take at most."""

LEAST_GAIN = 20
"""One part in so many of what a request may fill has to be gained, or compacting costs more than it brings."""


class Outcome(Struct, frozen=True):
    """Result of a compaction."""

    event: ContextCompacted
    problem: str = ""
    """Why there is no summary although one was wanted."""


class _Known(Struct, frozen=True):
    """Messages that must stay and the plan, from the journal."""

    rules: Untouchable
    plan: Plan | None
    said: tuple[tuple[MessageId, str], ...] = ()
    """The user's prompts since the conversation was cleared, in their own words."""


async def compact(
    dialogue: "ExtendedDialogue",
    turn_id: TurnId,
    model: ModelInUse,
    wanted: CompactionRequest,
    spend: Spend,
    gate: "BudgetGate",
) -> Outcome | None:
    """Make space in the conversation; None when too little would be gained, or a hook does not want it.

    `spend` counts what a summary used; `gate`, the one that the stand-ins of `model` ask, has space for it or not.

    Raises:
        DatabaseError: it could not be recorded, and was not done.
    """
    known = await _known(dialogue)

    def tokens_of(messages: Sequence[Message]) -> int:
        estimate = messages_tokens(messages, model.info.name)
        return dialogue.state.window.calibration.tokens(model.info.name, estimate)

    choice = choose_for(dialogue.state.history, known.rules, wanted, tokens_of)
    if wanted.trigger == "person" and not _gains(choice, known, tokens_of):
        return None
    is_needed = wanted.tokens > wanted.limits.usable or wanted.trigger != "threshold"
    if not choice.freed or (not is_needed and choice.freed < wanted.limits.usable // LEAST_GAIN):
        return None
    wish = await _ask_hooks(dialogue, turn_id, wanted, may_refuse=wanted.tokens <= wanted.limits.usable)
    if wish is None:
        return None
    call_id = ToolCallId(dialogue.shared.ids.new("call"))
    title = f"Compact the conversation: about {wanted.tokens:,} of {wanted.limits.usable:,} tokens are used"
    view = ToolCallView(call_id, COMPACT_CALL, title, ToolKind.OTHER, {"strategy": wanted.strategy})
    await dialogue.recorder.record(NewEvent(ToolCallStarted(turn_id, view), Actor.SYSTEM, Origin.AGENT))
    try:
        written = Summary()
        if wanted.strategy == "summarise" and choice.removed:
            if not await gate.has_room(model.info, wanted.tokens, summary_tokens(wanted.limits.usable)):
                written = Summary(problem="a budget has no space for one")
            else:
                written = await write_summary(dialogue, turn_id, model, wanted, choice, wish, spend)
        return await _record(dialogue, turn_id, call_id, _Plan(wanted, choice, known, written, model), spend)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True), anyio.move_on_after(RECORD_SECONDS):
            text = "Cancelled; the conversation is as it was."
            await dialogue.recorder.record(_ended(turn_id, call_id, text, failed=True))
        raise
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(RECORD_SECONDS):
            await gate.after_request()


def _gains(choice: CompactionPlan, known: _Known, tokens_of: TokensOf) -> bool:
    """True when something leaves besides notes of earlier compactions, and frees more than a note about it takes."""
    leaves = choice.shortened or any(not compaction.is_note(unit.first) for unit in choice.removed)
    return bool(leaves) and choice.freed > tokens_of([_note(_gap(choice, known))])


def _gap(choice: CompactionPlan, known: _Known) -> str:
    """Shortest text that can replace messages that are left out without a summary."""
    gone = compaction.left_out(message for unit in choice.removed for message in unit.messages)
    return compaction.gap_text(gone, compaction.open_steps(known.plan))


async def _known(dialogue: "Dialogue") -> _Known:
    await dialogue.recorder.commit_waiting()
    stream = await dialogue.shared.database.read(lambda tx: read_history(tx, dialogue.session_id))
    events = [item.event for item in active_events(stream)]
    prompts = frozenset(e.message.message_id for e in events if isinstance(e, TurnStarted) and not e.command)
    plan = next((event.plan for event in reversed(events) if isinstance(event, PlanUpdated)), None)
    pinned = pinned_of([e for e in events if isinstance(e, MessagePinned)])
    cleared = max((place for place, event in enumerate(events) if isinstance(event, HistoryCleared)), default=-1)
    said = [
        (e.message.message_id, e.message.words)
        for e in events[cleared + 1 :]
        if isinstance(e, TurnStarted) and not e.command
    ]
    return _Known(Untouchable(prompts, pinned), plan, tuple(said))


def pinned_of(events: Sequence[MessagePinned]) -> frozenset[MessageId]:
    """The messages that are pinned after these events."""
    pinned: set[MessageId] = set()
    for event in events:
        (pinned.add if event.pinned else pinned.discard)(event.message_id)
    return frozenset(pinned)


async def _ask_hooks(
    dialogue: "ExtendedDialogue", turn_id: TurnId, wanted: CompactionRequest, *, may_refuse: bool
) -> str | None:
    """Instructions for the summary, from the user and hooks; None when a hook refuses."""
    trigger = "manual" if wanted.trigger == "person" else "auto"
    told = {"trigger": trigger, "custom_instructions": wanted.wish}
    opinion = await run_event(dialogue, turn_id, "PreCompact", told, subject=trigger)
    if opinion.verdict is HookVerdict.DENY and may_refuse:
        logger.info("a hook did not want the conversation compacted")
        dialogue.state.notices.append(f"A hook did not want the conversation compacted: {opinion.reason}")
        return None
    return "\n".join(part for part in (wanted.wish, *opinion.contexts) if part)


class _Plan(Struct, frozen=True):
    wanted: CompactionRequest
    choice: CompactionPlan
    known: _Known
    written: Summary
    model: ModelInUse


async def _record(dialogue: "Dialogue", turn_id: TurnId, call_id: ToolCallId, plan: _Plan, spend: Spend) -> Outcome:
    wanted, choice, written = plan.wanted, plan.choice, plan.written
    text, strategy, problem = _words(plan, _own_words(dialogue.state, plan))
    after = max(wanted.tokens - choice.freed + (_tokens(dialogue.state, plan, text) if text else 0), 0)
    event = ContextCompacted(
        turn_id,
        strategy,
        wanted.trigger,
        choice.message_ids,
        choice.shortened,
        wanted.keep_characters,
        compaction.note_id(call_id),
        text,
        wanted.tokens,
        after,
    )
    events = [NewEvent(event, Actor.SYSTEM, Origin.AGENT)]
    events += usage_events(turn_id, written, plan.model, spend, after)
    events.append(_ended(turn_id, call_id, told(event, problem)))
    await dialogue.recorder.record(*events)
    dialogue.state.history[:] = compaction.compacted(dialogue.state.history, event)
    dialogue.state.window.breaks.expect("compaction")
    dialogue.state.window.has_left_out = True
    logger.info("Compacted by %s: %d tokens became about %d.", strategy, wanted.tokens, after)
    if problem:
        dialogue.state.notices.append(f"The conversation was shortened without a summary, since {problem}.")
    return Outcome(event, problem)


def _own_words(state: "SessionState", plan: _Plan) -> str:
    """The user's prompts that the conversation will no longer have, also those that left before."""
    stay = {message.message_id for message in state.history}.difference(plan.choice.message_ids)
    said = [words for message_id, words in plan.known.said if message_id not in stay]
    share = plan.wanted.limits.usable // OWN_WORDS_SHARE
    return compaction.own_words(said, min(compaction.OWN_WORDS_TOKENS, share))


def _words(plan: _Plan, said: str) -> tuple[str, str, str]:
    """Text instead of the removed messages, the strategy that was used in the end, and why no other.

    `said` is in it where that leaves it shorter than what it replaces.
    """
    if not plan.choice.removed:
        return "", "results", ""
    gone = compaction.left_out(message for unit in plan.choice.removed for message in unit.messages)
    steps = compaction.open_steps(plan.known.plan)
    strategy, problem = plan.wanted.strategy, plan.written.problem
    replaced = sum(unit.tokens for unit in plan.choice.removed)
    if plan.written.text:
        for words in dict.fromkeys((said, "")):
            text = compaction.summary_text(plan.written.text, gone, steps, words)
            if messages_tokens([_note(text)], plan.model.info.name) < replaced:
                return text, strategy, ""
        problem = "the summary was larger than what it would replace"
    text = compaction.gap_text(gone, steps, said=said)
    if messages_tokens([_note(text)], plan.model.info.name) >= replaced:
        text = _gap(plan.choice, plan.known)
    return text, "truncate" if strategy == "summarise" else strategy, problem


def _note(text: str) -> Message:
    event = ContextCompacted(TurnId(""), "", "", text=text)
    return compaction.note_message(event)


def _tokens(state: "SessionState", plan: _Plan, text: str) -> int:
    estimate = messages_tokens([_note(text)], plan.model.info.name)
    return state.window.calibration.tokens(plan.model.info.name, estimate)


def _ended(turn_id: TurnId, call_id: ToolCallId, text: str, *, failed: bool = False) -> NewEvent:
    status = ToolCallStatus.FAILED if failed else ToolCallStatus.COMPLETED
    event = ToolCallFinished(turn_id, call_id, status, text, content=(TextContent(text),), interrupted=failed)
    return NewEvent(event, Actor.SYSTEM, Origin.AGENT)


def told(event: ContextCompacted, problem: str = "") -> str:
    """Report of a compaction for the user."""
    parts = [f"About {event.tokens_before:,} tokens became {event.tokens_after:,}."]
    if event.shortened:
        parts.append(f"{plural(len(event.shortened), 'long result')} shortened to the two ends.")
    if event.removed:
        how = "summed up" if event.strategy == "summarise" else "left out of the model's context"
        parts.append(f"{plural(len(event.removed), 'message')} {how}; /recall finds them, and they stay above.")
    if problem:
        parts.append(f"There is no summary, since {problem}.")
    if event.text:
        parts.append(f"In their place the model reads:\n\n{event.text}")
    return " ".join(parts)
