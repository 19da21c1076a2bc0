"""A second look at a job that is over: `/job review N [PERSONA]`.

Owns: what the reviewer reads, which is the job's numbered events as a bundle has them, and which of its lines count:
those that name such events. Must not know: how a subagent runs. A review is advice; the receipt stays as it is.
"""

import json
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, cast

import anyio.to_thread
from msgspec import Struct

from pattern_acp.db.connection import Transaction
from pattern_acp.definitions.personas import Persona
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.text_limits import cut_middle, plural
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.jobs import store
from pattern_acp.jobs.model import JobRow, JobTermsError
from pattern_acp.journal.bundle import bundled_streams
from pattern_acp.journal.events import JobMoved, ToolCallFinished, ToolCallStarted
from pattern_acp.session.ports import OptionUnusableError
from pattern_acp.session.subagents.subagent import Subagent
from pattern_acp.session.turn_tools import own_tools
from pattern_acp.tools.base import DELEGATE, DelegatedTask, NotAvailableError, SubagentKind
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.turn.tool_runner import CallProgress

if TYPE_CHECKING:
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.session import Session

EVENT_CHARACTERS = 1_500
EVENTS_CHARACTERS = 120_000
"""Most of one event, and of all, that the reviewer reads; the middle is left out."""

UNREAD = frozenset({"model_requested", "tools_offered", "instructions_compiled", "message_partial", "memory_shown"})
"""Events that say nothing about how a job went."""

NO_TOOL = "none"
"""Name of no tool, for one that judges by what it reads alone."""

TASK = """\
A job is over. Below are its events as they were recorded, each with its number. Judge whether it met its \
terms and reached its goal. Use these events alone. Begin with one line `Verdict: met`, `Verdict: not met` or \
`Verdict: unclear`, then give your reasons, one in a line, the weightiest first. Every line names the events \
that show it, as #12. A line without the number of an event below is left out."""

_NUMBER = re.compile(r"#(\d+)")


class _Record(Struct, frozen=True):
    text: str
    numbers: frozenset[int]


async def review_job(session: "Session", row: JobRow, name: str, turn_id: TurnId) -> str:
    """Have a persona judge a job, and return what it says as far as events show it.

    Raises:
        JobTermsError: the job is not over, or there is no such persona.
        DatabaseError: something could not be recorded.
    """
    if not row.state.is_over:
        raise JobTermsError(f"Job {row.number} is {row.state.value}; only a job that is over is reviewed.")
    persona = await _persona(session.dialogue, name)
    record = await session.constellation.database.read(lambda tx: _record_of(tx, row))
    parts = (await own_tools(session, turn_id)).parts
    if parts is None:
        raise NotAvailableError("Nothing can be delegated here, so no job can be reviewed.")
    who = persona.name if persona is not None else session.state.persona.name
    task = DelegatedTask(
        SubagentKind.EXPLORER, f"{TASK}\n\n{record.text}", f"review by {who}", tools=(NO_TOOL,), persona=persona
    )
    call_id = ToolCallId(session.constellation.ids.new("call"))
    view = ToolCallView(call_id, DELEGATE, f"Review of job {row.number} by {who}", ToolKind.THINK, {"job": row.number})
    await session.recorder.record(NewEvent(ToolCallStarted(turn_id, view), Actor.SYSTEM, Origin.AGENT))
    status, said = ToolCallStatus.FAILED, "It was stopped."
    try:
        subagent = Subagent(session, parts, task, call_id, CallProgress(call_id, session.recorder))
        await subagent.run()
        said = subagent.failure or shown_lines(subagent.last_words, record.numbers)
        status = ToolCallStatus.FAILED if subagent.failure else ToolCallStatus.COMPLETED
    finally:
        ended = ToolCallFinished(turn_id, call_id, status, said, (TextContent(said),))
        with anyio.CancelScope(shield=True):
            await session.recorder.record(NewEvent(ended, Actor.SYSTEM, Origin.AGENT))
    return f"**Job {row.number}, reviewed by {who}.** This is advice: the receipt stays as it is.\n\n{said}"


async def _persona(dialogue: "Dialogue", name: str) -> Persona | None:
    """The persona of a name, or the first other one than the session's; None where there is only that."""
    shared = dialogue.shared
    others = sorted(each for each in shared.personas if each != dialogue.state.persona.name)
    wanted = name or next(iter(others), "")
    if not wanted or shared.persona_named is None:
        return None
    if wanted not in shared.personas:
        known = ", ".join(sorted(shared.personas)) or "none"
        raise OptionUnusableError(f"There is no persona {wanted[:80]!r}; there are {known}.")
    return await anyio.to_thread.run_sync(shared.persona_named, wanted)


def _record_of(tx: Transaction, row: JobRow) -> _Record:
    moves = (one.event for one in store.events_of_job(tx, row))
    turns = {move.turn_id for move in moves if isinstance(move, JobMoved)}
    lines: list[str] = []
    numbers: list[int] = []
    for stream in bundled_streams(tx, row.session_id, None)[-1:]:
        for line in stream.lines:
            event = cast("JsonObject", json.loads(line))
            payload = event.get("payload")
            if payload is None:
                payload = cast("JsonObject", json.loads(stream.blobs[str(event["blob"])]))
            about = payload if isinstance(payload, dict) else {}
            if about.get("job_id") != row.id and (about.get("turn_id") not in turns or event["kind"] in UNREAD):
                continue
            shown = cut_middle(json.dumps(about, ensure_ascii=False), EVENT_CHARACTERS).text
            numbers.append(cast("int", event["seq"]))
            lines.append(f"#{event['seq']} {event['kind']} by {event['actor']}: {shown}")
    text = str(untrusted_block("events", cut_middle("\n".join(lines), EVENTS_CHARACTERS).text))
    return _Record(text, frozenset(numbers))


def shown_lines(words: str, numbers: Collection[int]) -> str:
    """The verdict, and the lines of a review that name events of the job and no others."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    verdict = next((line for line in lines if line.casefold().startswith("verdict:")), "Verdict: unclear")
    reasons = [line for line in lines if line != verdict]
    cited = [line for line in reasons if (named := _NUMBER.findall(line)) and all(int(one) in numbers for one in named)]
    left = len(reasons) - len(cited)
    more = [f"{plural(left, 'line')} left out: without the number of an event of the job."] if left else []
    if not cited:
        verdict = "Verdict: unclear, since no line names an event of the job."
    return "\n\n".join((verdict, *cited, *more))
