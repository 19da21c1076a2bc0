"""`pattern-acp sessions`: list, show and delete sessions from the terminal."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Sessions
from pattern_acp.cli.output import OutputClosed, format_table, printable, write_error, write_json, write_line
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.ids import RandomIds, SessionId
from pattern_acp.journal import sessions as store
from pattern_acp.journal.ancestry import read_history
from pattern_acp.journal.events import Event
from pattern_acp.journal.kept import kept_events
from pattern_acp.journal.leases import this_process
from pattern_acp.session.stored import delete_session

if TYPE_CHECKING:
    from rich.console import Console

PAGE = 200
"""Sessions that are listed: the newest; older ones are found by /recall."""


def run_sessions(arguments: Sessions, process: Process) -> int:
    """List, show or delete; 1 when the named session does not exist."""
    path = process.loaded.paths.constellation_path(process.loaded.settings.constellation)
    try:
        if path.exists():
            return anyio.run(_run, arguments, path)
        if arguments.action == "list":
            print_sessions((), arguments)
            return EXIT_OK
        return _no_such(arguments.session)
    except OutputClosed:
        return EXIT_OK


async def _run(arguments: Sessions, path: Path) -> int:
    read_only = arguments.action != "delete"
    async with open_database(path, clock=SystemClock(), read_only=read_only) as database:
        if arguments.action == "list":
            cwd = None if arguments.everywhere else str(Path.cwd())
            rows, _ = await database.read(lambda tx: store.list_sessions(tx, cwd=cwd, cursor=None, limit=PAGE))
            print_sessions(rows, arguments)
            return EXIT_OK
        if arguments.action == "delete":
            holder = this_process(RandomIds().new("cli"))
            deleted = await delete_session(database, arguments.session, holder, now=SystemClock().now_ms())
            if deleted:
                write_line(f"Deleted {arguments.session}.")
            return EXIT_OK if deleted else _no_such(arguments.session)
        return await _show(database, arguments)


async def _show(database: Database, arguments: Sessions) -> int:
    session_id = SessionId(arguments.session)
    row = await database.read(lambda tx: store.get_session(tx, session_id))
    if row is None:
        return _no_such(arguments.session)
    recorded = await database.read(lambda tx: read_history(tx, session_id))
    events = [item.event for item in kept_events(recorded)]
    if arguments.json:
        print_updates(events)
    else:
        print_transcript(row, events)
    return EXIT_OK


def print_sessions(rows: Sequence[store.SessionRow], arguments: Sessions) -> None:
    """The list: as JSON, as a table for a terminal, or with every column for a pipe."""
    if arguments.json:
        listed = [
            {"id": row.session_id, "title": row.title, "cwd": row.cwd, "updated": moment(row.updated_ms, UTC)}
            for row in rows
        ]
        write_line(json.dumps(listed, indent=2))
    elif not rows:
        here = "anywhere" if arguments.everywhere else "here"
        more = "" if arguments.everywhere else " `pattern-acp sessions list --all` lists those of every folder."
        write_line(f"No sessions {here} yet.{more}")
    elif sys.stdout.isatty():
        from rich.console import Console

        print_table(rows, Console(), everywhere=arguments.everywhere)
    else:
        cells = [(row.session_id, moment(row.updated_ms), row.title, row.cwd) for row in rows]
        write_line(format_table(("SESSION", "UPDATED", "TITLE", "FOLDER"), cells))


def print_table(rows: Sequence[store.SessionRow], console: "Console", *, everywhere: bool) -> None:
    """One line a session; with `everywhere`, a heading for every run of sessions of one folder."""
    from rich.text import Text

    for index, (cwd, group) in enumerate(groupby(rows, key=lambda row: row.cwd)):
        if everywhere:
            if index:
                console.print()
            console.print(Text(printable(cwd), style="bold"))
        for row in group:
            title = " ".join(printable(row.title).split()) or "untitled"
            line = Text.assemble((row.session_id, "cyan"), "  ", (moment(row.updated_ms), "dim"), f"  {title}")
            console.print(line, no_wrap=True, overflow="ellipsis")


def print_updates(events: Iterable[Event]) -> None:
    """A session as JSON lines: the updates of session/update that a replay of it sends."""
    import msgspec

    from pattern_acp.acp.updates import replay_updates

    for update in replay_updates(events):
        write_json(cast("JsonObject", msgspec.to_builtins(update)))


def print_transcript(row: store.SessionRow, events: Iterable[Event]) -> None:
    """A session as `pattern-acp chat` shows it."""
    from rich.rule import Rule
    from rich.text import Text

    from pattern_acp.acp.updates import replay_updates
    from pattern_acp.cli.chat.known import Known
    from pattern_acp.cli.chat.stage import reading_stage
    from pattern_acp.cli.chat.transcript import Transcript

    stage = reading_stage()
    heading = f"{printable(row.title) or 'Untitled'} {stage.marks.dot} {printable(row.cwd)}"
    stage.screen.print(Rule(Text(" ".join(heading.split()), style="bold")))
    transcript = Transcript(
        stage.screen, stage.answer, stage.marks, Known(row.cwd), lambda _: "", SystemClock().monotonic
    )
    for update in replay_updates(events):
        transcript.show(update)
    transcript.settle()


def moment(at_ms: int, zone: tzinfo | None = None) -> str:
    """A moment to the minute, in the person's own time zone unless one is given."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def _no_such(session: str) -> int:
    write_error(f"pattern-acp: there is no session {session}; `pattern-acp sessions list --all` lists them.")
    return EXIT_ERROR
