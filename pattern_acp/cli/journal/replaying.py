"""`pattern-acp journal replay`: says whether a session's events still make what was recorded of them.

Owns: what is printed. Must not know: what is compared (session/replaying.py, replay).
"""

import difflib
from collections.abc import Iterator

import msgspec
from msgspec import to_builtins

from pattern_acp.acp.updates import EditorAbilities, agent_chunks, live_updates
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Journal
from pattern_acp.cli.output import printable, write_failure, write_json, write_line
from pattern_acp.db.connection import Database
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.events import Event, MessageRecorded
from pattern_acp.journal.history import read_history
from pattern_acp.journal.redact import redacted_among
from pattern_acp.replay.comparison import ReplayServices, TurnDifference, TurnsReport, has_turn, replay_turns
from pattern_acp.replay.turn_replay import CurrentComposition
from pattern_acp.session.session_row_rebuild import ReplayReport, replay
from pattern_acp.tools.registry import default_tools

AROUND = 3
"""Lines around each changed one of a difference."""

MOST_LINES = 200
"""Lines of a difference that are printed; --json has all of it."""

ABILITIES = EditorAbilities(terminal_meta=True, embeds_terminals=True)
"""A client that is shown everything."""


async def replay_session(database: Database, arguments: Journal) -> int:
    """Replay a session; 1 at a difference."""
    report = await database.read(lambda tx: replay(tx, arguments.target))
    recorded = await database.read(lambda tx: read_history(tx, arguments.target))
    if arguments.turn and not has_turn(recorded, arguments.turn):
        sentence = f"pattern-acp: the session has no turn {arguments.turn} of its own that asked a model."
        write_failure("session.turn-unknown", sentence)
        return EXIT_ERROR
    forgotten = await database.read(lambda tx: redacted_among(tx, [entry.seq for entry in recorded]))
    turns = await replay_turns(arguments.target, recorded, current_means(), turn=arguments.turn, forgotten=forgotten)
    if arguments.json:
        write_json({**to_builtins(report), "turns": to_builtins(turns)})
    else:
        for line in lines_of(arguments.target, report, turns):
            write_line(printable(line))
    return EXIT_OK if report.difference is None and turns.difference is None else EXIT_ERROR


def current_means() -> ReplayServices:
    """Return the services that replay a session: this program as it is."""
    tools = default_tools()
    return ReplayServices(tools, CurrentComposition(tools), shown_as)


def shown_as(event: Event) -> Json:
    """The session updates of a recorded event; the text of a message comes in pieces while it streams, here whole."""
    updates = agent_chunks(event.message) if isinstance(event, MessageRecorded) else live_updates(event, ABILITIES)
    return msgspec.to_builtins(updates)


def lines_of(session_id: str, report: ReplayReport, turns: TurnsReport) -> Iterator[str]:
    """Yield the lines printed for a replay."""
    found = report.difference
    if found is not None:
        where = f"event {found.index}" if found.index else "the list of sessions"
        yield (f"{session_id}  DIFFERS at {where}: {found.what} was {found.recorded}, replayed it is {found.replayed}.")
    else:
        counts = ", ".join(
            (
                plural(report.events, "event"),
                plural(report.checkpoints, "checkpoint"),
                plural(report.requests, "model request"),
            )
        )
        yield f"{session_id}  replayed the same: {counts}"
    if turns.difference is not None:
        yield from _difference(session_id, turns.difference)
    else:
        counts = ", ".join(
            (plural(turns.turns, "turn"), plural(turns.requests, "model request"), plural(turns.calls, "tool call"))
        )
        yield f"{session_id}  run again the same: {counts}"
    for sentence in turns.not_compared:
        yield f"  not compared: {sentence}"


def _difference(session_id: str, found: TurnDifference) -> Iterator[str]:
    yield f"{session_id}  DIFFERS in turn {found.turn}, request {found.request}: {found.part}"
    before, now = found.recorded.splitlines(), found.replayed.splitlines()
    lines = list(difflib.unified_diff(before, now, "recorded", "replayed", lineterm="", n=AROUND))
    yield from (f"  {line}" for line in lines[:MOST_LINES])
    if len(lines) > MOST_LINES:
        yield f"  and {len(lines) - MOST_LINES:,} more lines; --json has all of it"
