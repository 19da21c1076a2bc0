"""The summary that stands for what leaves the model's context.

Owns: the request for it, what came of it, and what that used. Must not know: what leaves, or where the summary goes
(`session/compacting.py`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.context.choosing import Choice
from pattern_acp.context.estimate import USUAL_WEIGHT, request_tokens, stable_weight, weight_per_token
from pattern_acp.context.summary import SummaryTask, read_summary, summary_request, summary_tokens
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.domain.ids import MessageId, TurnId
from pattern_acp.domain.origin import Actor
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import ModelRequested
from pattern_acp.providers.base import ModelInfo, ProviderStop
from pattern_acp.session.compaction_choice import Wanted
from pattern_acp.turn.digests import RequestDigests
from pattern_acp.turn.loop import BYTES_PER_TOKEN, ModelInUse, by_model, reported
from pattern_acp.turn.sink import Fact
from pattern_acp.turn.stream_reader import MessageAssembly

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

SUMMARY_SECONDS = 180.0
"""Longest that a summary may take before the conversation goes on without one."""

RECORD_SECONDS = 1.0
"""Longest that recording the end of a cancelled compaction may take (invariant 3)."""

TRANSCRIPT_SHARE = 0.8
"""Of the room beside the system prompt; estimates are not exact."""

Spend = Callable[[Usage, Cost | None], Cost | None]
"""Counts tokens and money; gives what the session has cost so far."""


class Summary(Struct, frozen=True):
    """What the model wrote, and what that used."""

    text: str = ""
    usage: Usage = Usage()
    cost: Cost | None = None
    problem: str = ""
    """Why there is none; the text is empty then."""
    estimated: bool = False
    """Whether the usage is our own estimate."""
    by: tuple[str, ModelInfo | None] = ("", None)
    """Who answered, as `by_model` takes it."""


async def write_summary(
    session: "Session", turn_id: TurnId, model: ModelInUse, wanted: Wanted, choice: Choice, wish: str, spend: Spend
) -> Summary:
    """Have the model sum up what leaves. Never fails for what the provider does: then there is a problem to tell."""
    messages = [message for unit in choice.removed for message in unit.messages]
    output = summary_tokens(wanted.limits.usable)
    ratio = session.state.window.calibration.known().get(model.info.name, 1.0)
    per_token = weight_per_token(model.info.name) / ratio
    weight = wanted.limits.usable * per_token - stable_weight(session.state.system, ())
    room = int(weight / USUAL_WEIGHT * TRANSCRIPT_SHARE) - 2_000
    task = SummaryTask(session.state.system, model.info, messages, max(room, 1_000), output, wish)
    request = summary_request(task)
    asked = session.state.window.calibration.tokens(model.info.name, request_tokens(request))
    if asked + output > wanted.limits.window:
        return Summary(problem="the model's window has no room to write one")
    digest, size = RequestDigests().of(request)
    requested = ModelRequested(turn_id, 0, model.provider.name, request.model, digest, len(request.messages), size)
    await session.sink.record(Fact(requested, Actor.SYSTEM))
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
            await session.sink.record(*usage_facts(turn_id, cut, model, spend, wanted.tokens))
        raise
    written = _judged(assembly, problem)
    has_begun = assembly.is_untold or bool(written.problem and assembly.written_bytes)
    return _counted(written, assembly, model, asked, has_begun=has_begun)


def usage_facts(turn_id: TurnId, written: Summary, model: ModelInUse, spend: Spend, used: int) -> list[Fact]:
    """What the journal is told of what it used, and `spend` too; `used` are the tokens in the window."""
    if written.usage == Usage():
        return []
    event = reported(turn_id, written.usage, written.cost, model.info, spend(written.usage, written.cost), used)
    return [Fact(replace(by_model(event, *written.by), estimated=written.estimated), Actor.SYSTEM)]


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
