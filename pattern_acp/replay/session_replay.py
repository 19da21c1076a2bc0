"""Replaying the turns of a session: all of them, or one.

Owns: their order, and the sentences on what could not be compared. Must not know: how a turn is run.
"""

import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.ids import SessionId, ToolCallId
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.journal.events import ContextCompacted, SubagentRecorded
from pattern_acp.journal.reader import Recorded
from pattern_acp.providers.base import ToolSpec
from pattern_acp.replay.comparison import ShownAs, TurnDifference, compare
from pattern_acp.replay.recorded_ports import RecordedTool
from pattern_acp.replay.recorded_turns import Position, RecordedRequest, RecordedTurn, extra_tools, recorded_turns
from pattern_acp.replay.turn_replay import Composition, TurnReplay
from pattern_acp.tools.base import Tool
from pattern_acp.turn.tool_runner import CHANGED_BY_HOOK

_NO_TOOL = re.compile(
    r"(?:There is no tool named .*?|The tool '.*?' is not allowed in this command)"
    r"; the tools are .*?\.(?=\s|$)(?: Did you mean \S+\?)?",
    re.DOTALL,
)
"""The sentences of `turn.tool_runner.read_call`, in front of notes on the call."""


class TurnsReport(Struct, frozen=True):
    """The replayed turns, the first difference, and sentences on what was not compared."""

    turns: int
    requests: int
    calls: int
    difference: TurnDifference | None = None
    not_compared: tuple[str, ...] = ()


class ReplayServices(Struct, frozen=True):
    """The current tools, composition and client updates that a replay uses."""

    tools: tuple[Tool, ...]
    composition: Composition
    shown_as: ShownAs


async def replay_turns(
    session_id: str,
    recorded: Sequence[Recorded],
    services: ReplayServices,
    *,
    turn: int = 0,
    forgotten: Collection[int] = (),
) -> TurnsReport:
    """Replay the turns of a session, or the one of that number, in an empty constellation; stops at a difference.

    `recorded` is the history of the session (`journal.history.read_history`), `forgotten` are the numbers of those of
    its events that lost words: what follows from these is not compared.

    Raises:
        DatabaseError: the temporary constellation cannot be used.
    """
    every = list(recorded_turns(recorded, forgotten))
    asked = [one for one in every if turn in {0, one.number}]
    turns = [one for one in asked if not _is_swept(one)]
    own = {tool.spec.name: tool for tool in services.tools}
    extra = extra_tools(every, own)
    difference: TurnDifference | None = None
    done: list[RecordedTurn] = []
    lost = 0
    with tempfile.TemporaryDirectory(prefix="pattern-acp-replay-", ignore_cleanup_errors=True) as folder:
        async with open_database(Path(folder) / "constellation.db", clock=SystemClock()) as database:
            for one in turns:
                position = Position(one)
                tools = _tools(one, services.tools, extra, position)
                again = TurnReplay(SessionId(session_id), one, tools, position, services.composition, database)
                again.refuse(refusals_of(one))
                done.append(one)
                compared = compare(one, await again.run(), services.shown_as)
                difference, lost = compared.difference, lost + compared.forgotten
                if difference is not None:
                    break
    requests, calls = sum(len(one.requests) for one in done), sum(len(one.calls) for one in done)
    not_compared = tuple(_not_compared(done, swept=len(asked) - len(turns), lost=lost))
    return TurnsReport(len(done), requests, calls, difference, not_compared)


def has_turn(recorded: Sequence[Recorded], number: int) -> bool:
    """True when the session itself has a turn of this number that called a model."""
    return any(one.number == number for one in recorded_turns(recorded))


def _tools(
    turn: RecordedTurn, own: Sequence[Tool], extra: Sequence[ToolSpec], position: Position
) -> list[RecordedTool]:
    kinds = {call.started.call.name: call.started.call.kind for call in turn.calls.values() if call.started}
    tools = {tool.spec.name: RecordedTool(position, tool.spec, tool.kind, tool.changes_things) for tool in own}
    others = {spec.name: spec for spec in extra}
    # A mode hides tools of servers that can be called all the same, and of which only the call is recorded.
    called = {call.started.call.name for call in turn.calls.values() if call.started and call.decided}
    hidden = called - {*tools, *others}
    others |= {name: ToolSpec(name, "", {"type": "object"}) for name in hidden}
    for name, spec in others.items():
        tools[name] = RecordedTool(position, spec, kinds.get(name, ToolKind.OTHER), changes_things=True)
    return list(tools.values())


def refusals_of(turn: RecordedTurn) -> dict[ToolCallId, str]:
    """The answers to calls of tools that there were not, or that the turn's command did not allow."""
    results = {call_id: call.finished.result_text for call_id, call in turn.calls.items() if call.finished is not None}
    found = {call_id: _NO_TOOL.match(text) for call_id, text in results.items()}
    return {call_id: match[0] for call_id, match in found.items() if match is not None}


def _is_swept(turn: RecordedTurn) -> bool:
    """True when all words of a turn are gone because its session was deleted (`journal.retention`)."""
    return any(request.event.parts is not None and not request.event.parts.system for request in turn.requests)


def _not_compared(turns: Sequence[RecordedTurn], *, swept: int, lost: int) -> Iterator[str]:
    """Sentences on what the record lacks, or what is not repeated."""
    counted = Counter(word for turn in turns for request in turn.requests for word in _gaps(request))
    events = [event for turn in turns for event in turn.events]
    started = [call.started for turn in turns for call in turn.calls.values() if call.started is not None]
    found = {
        "requests of a version that recorded no parts of them, of which only the number of messages is compared": (
            counted["before"]
        ),
        "requests with words that were redacted or forgotten since, whose digests are gone": counted["redacted"],
        "turns of which `gc` took the words, since the session was deleted": swept,
        "what follows from events that lost words since, and is another without them": lost,
        "turns that the end of their process cut, compared up to their last request": sum(turn.died for turn in turns),
        "subagents, which are not run again": len(
            {event.thread_id for event in events if isinstance(event, SubagentRecorded)}
        ),
        "compactions, which are not chosen or summed up again": sum(
            isinstance(event, ContextCompacted) for event in events
        ),
        "calls with arguments that a hook changed": sum(CHANGED_BY_HOOK in one.repairs for one in started),
    }
    for sentence, count in found.items():
        if count:
            yield f"{sentence}: {count}"


def _gaps(request: RecordedRequest) -> Iterator[str]:
    if request.event.parts is None:
        yield "before" if request.event.digest else "redacted"
    elif None in request.sent.messages or request.sent.volatile is None:
        yield "redacted"
