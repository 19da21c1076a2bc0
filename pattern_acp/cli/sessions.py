"""`pattern-acp sessions`: lists, shows, searches and changes sessions in the terminal."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import anyio
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Sessions
from pattern_acp.cli.opening import constellation_path, open_for_command, refuse_if_lost
from pattern_acp.cli.output import (
    OutputClosed,
    printable,
    write_failure,
    write_json,
    write_line,
    write_sentence,
    write_table,
)
from pattern_acp.cli.session_ids import full_id
from pattern_acp.db.connection import Database, Transaction, open_for_reading
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.domain.ids import RandomIds, SessionId
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.journal import sessions as store
from pattern_acp.journal.errors import UnknownSessionError
from pattern_acp.journal.events import Event
from pattern_acp.journal.history import active_events, read_history, readable_history
from pattern_acp.journal.leases import this_process
from pattern_acp.journal.session_lists import ListedSession, SessionStatus, with_details
from pattern_acp.journal.sessions import cwd_key
from pattern_acp.rewind.forks import fork_session
from pattern_acp.session.searching import search_sessions
from pattern_acp.session.stored import DAY_MS, archive_session, delete_session, rename_session, restore_session
from pattern_acp.tools.base import SessionHit


async def change_session(database: Database, arguments: Sessions, *, days: int) -> int:
    """Do it and say so; 1 with a sentence when it cannot be done.

    `days` is how long a deleted session can be brought back.

    Raises:
        UnknownSessionError: there is no such session.
    """
    try:
        done, facts = await _change(database, arguments, days)
    except UnknownSessionError:
        raise
    except PatternError as error:
        write_failure(error.failure_code, f"pattern-acp: {error.sentence}")
        return EXIT_ERROR
    if arguments.json:
        write_json(dict(facts))
    else:
        write_line(done)
    return EXIT_OK


async def _change(database: Database, arguments: Sessions, days: int) -> tuple[str, Mapping[str, Json]]:
    session_id, clock = arguments.session, SystemClock()
    now = clock.now_ms()
    facts: dict[str, Json] = {"id": session_id, "done": arguments.action}
    match arguments.action:
        case "rename":
            title = await rename_session(database, session_id, arguments.text, now=now)
            return f"{session_id} is now called “{title}”.", {**facts, "title": title}
        case "archive" | "unarchive":
            away = arguments.action == "archive"
            await archive_session(database, session_id, archived=away, now=now)
            return f"{session_id} is {'put away' if away else 'back in the list'}.", facts
        case "undelete":
            await restore_session(database, session_id, now=now, days=days)
            return f"{session_id} is back in the list.", facts
        case "fork":
            fork = await fork_session(database, session_id, arguments.text, clock=clock, ids=RandomIds())
            made: dict[str, Json] = {**facts, "fork": fork.session_id, "title": fork.title, "turns": fork.turns}
            return f"{fork.session_id} “{fork.title}” begins with {plural(fork.turns, 'turn')} of {session_id}.", made
        case _:
            if not await delete_session(database, session_id, this_process(RandomIds().new("cli")), now=now):
                raise UnknownSessionError(session_id)
            return f"Deleted {session_id}; `pattern-acp sessions undelete {session_id}` brings it back.", facts


if TYPE_CHECKING:
    from rich.console import Console

SEARCH_HITS = 30

SEARCH_TEXT = 120
"""Characters of a passage that a line shows."""

PAGE = 200
"""Sessions that are listed: the newest; older ones are found by `search`."""


def run_sessions(arguments: Sessions, process: Process) -> int:
    """Do what was asked; 1 when the named session does not exist.

    Raises:
        PatternError: it could not be done, and why.
    """
    path = constellation_path(process)
    try:
        refuse_if_lost(path)
        if path.exists() and arguments.action == "rewind":
            return anyio.run(_rewind, arguments, process, path)
        if path.exists():
            return anyio.run(_run, arguments, process, path)
        if not arguments.session:
            print_sessions((), arguments)
            return EXIT_OK
        return _no_such(arguments.session)
    except OutputClosed:
        return EXIT_OK


async def _run(arguments: Sessions, process: Process, path: Path) -> int:
    read_only = arguments.action in ("list", "show", "search") or not arguments.session
    days = process.loaded.settings.retention.deleted_days
    opened = open_for_reading(path, clock=SystemClock()) if read_only else open_for_command(process)
    async with opened as database:
        arguments = replace(arguments, session=await full_id(database, arguments.session))
        match arguments.action:
            case "list":
                return await _list(database, arguments)
            case "show":
                return await _show(database, arguments)
            case "search":
                return await _search(database, arguments)
            case "undelete" if not arguments.session:
                return await _list_deleted(database, arguments, days)
            case _:
                try:
                    return await change_session(database, arguments, days=days)
                except UnknownSessionError:
                    return _no_such(arguments.session)


async def _rewind(arguments: Sessions, process: Process, path: Path) -> int:
    from pattern_acp.cli.rewinding import run_rewind

    async with open_for_reading(path, clock=SystemClock()) as database:
        arguments = replace(arguments, session=await full_id(database, arguments.session))
        row = await database.read(lambda tx: store.get_session(tx, SessionId(arguments.session)))
    return _no_such(arguments.session) if row is None else await run_rewind(arguments, process, row.cwd)


async def _list(database: Database, arguments: Sessions) -> int:
    cwd = None if arguments.everywhere else str(Path.cwd())
    holder, now = this_process(RandomIds().new("cli")), SystemClock().now_ms()

    def read(tx: Transaction) -> list[ListedSession]:
        rows, _ = store.list_sessions(tx, cwd=cwd, cursor=None, limit=PAGE, archived=arguments.archived)
        return with_details(tx, rows, holder, now)

    print_sessions(await database.read(read), arguments)
    return EXIT_OK


async def _list_deleted(database: Database, arguments: Sessions, days: int) -> int:
    since = SystemClock().now_ms() - days * DAY_MS
    rows = await database.read(lambda tx: store.deleted_sessions(tx, since_ms=since, limit=PAGE))
    listed = [ListedSession(row, SessionStatus.IDLE, "") for row in rows]
    if rows or arguments.json:
        print_sessions(listed, replace(arguments, everywhere=True))
    else:
        write_line(f"No session was deleted in the last {days} days.")
    return EXIT_OK


async def _search(database: Database, arguments: Sessions) -> int:
    now = SystemClock().now_ms()
    hits = await search_sessions(database, arguments.text, SEARCH_HITS, now=now)
    if not arguments.everywhere:
        here = cwd_key(str(Path.cwd()))
        hits = tuple(hit for hit in hits if cwd_key(hit.cwd) == here)
    if arguments.json:
        found = [{"id": h.session_id, "title": h.title, "turn": h.turn, "at": h.day, "text": h.text} for h in hits]
        write_line(json.dumps(found, indent=2))
    elif not hits:
        more = "" if arguments.everywhere else "; `--all` searches those of every folder"
        write_sentence(f"No session here has anything about “{printable(arguments.text)}”{more}.")
    elif sys.stdout.isatty():
        from rich.console import Console

        print_hits(hits, Console())
    else:
        cells = [(h.session_id, str(h.turn), h.day, h.title, one_line(h.text, SEARCH_TEXT)) for h in hits]
        write_table(("SESSION", "TURN", "DAY", "TITLE", "TEXT"), cells)
    return EXIT_OK


async def _show(database: Database, arguments: Sessions) -> int:
    session_id = SessionId(arguments.session)
    row = await database.read(lambda tx: store.get_session(tx, session_id))
    if row is None:
        return _no_such(arguments.session)
    try:
        recorded = await database.read(lambda tx: read_history(tx, session_id))
    except DatabaseError as error:
        if not database.damage:
            raise
        write_failure(error.failure_code, f"pattern-acp: only a part can be read. {error.sentence}")
        recorded = await database.read(lambda tx: readable_history(tx, session_id))
    events = [item.event for item in active_events(recorded)]
    if arguments.json:
        print_updates(events)
    else:
        print_transcript(row, events)
    return EXIT_OK


def print_sessions(listed: Sequence[ListedSession], arguments: Sessions) -> None:
    """The list: as JSON, as a table for a terminal, or with every column for a pipe."""
    if arguments.json:
        write_line(json.dumps([_facts(one) for one in listed], indent=2))
    elif not listed:
        here = "anywhere" if arguments.everywhere else "here"
        more = "" if arguments.everywhere else " `pattern-acp sessions list --all` lists those of every folder."
        write_sentence(f"No sessions {here} yet.{more}")
    elif sys.stdout.isatty():
        from rich.console import Console

        print_table(listed, Console(), everywhere=arguments.everywhere)
    else:
        cells = [
            (one.row.session_id, moment(one.row.updated_ms), one.status.value, one.row.title, one.row.cwd)
            for one in listed
        ]
        write_table(("SESSION", "UPDATED", "STATUS", "TITLE", "FOLDER"), cells)


def _facts(one: ListedSession) -> dict[str, object]:
    row = one.row
    return {
        "id": row.session_id,
        "title": row.title,
        "cwd": row.cwd,
        "updated": moment(row.updated_ms, UTC),
        "status": one.status.value,
        "messages": row.message_count,
        "preview": one.preview,
        "archived": row.archived,
        "parent": row.parent,
    }


STATUS_COLOURS = {SessionStatus.RUNNING: "green", SessionStatus.OPEN: "blue", SessionStatus.INTERRUPTED: "yellow"}


def print_table(listed: Sequence[ListedSession], console: "Console", *, everywhere: bool) -> None:
    """One line a session; with `everywhere`, a heading for every run of sessions of one folder."""
    from rich.text import Text

    for index, (cwd, group) in enumerate(groupby(listed, key=lambda one: one.row.cwd)):
        if everywhere:
            if index:
                console.print()
            console.print(Text(printable(cwd), style="bold"))
        for one in group:
            row = one.row
            title = " ".join(printable(row.title).split()) or "untitled"
            line = Text.assemble((row.session_id, "cyan"), "  ", (moment(row.updated_ms), "dim"))
            if one.status is not SessionStatus.IDLE:
                line.append(f"  {one.status.value}", STATUS_COLOURS[one.status])
            line.append(f"  {title}")  # last, since a narrow terminal cuts the end
            console.print(line, no_wrap=True, overflow="ellipsis")


def print_hits(hits: Sequence[SessionHit], console: "Console") -> None:
    """Two lines a hit: where it is, and what was said there."""
    from rich.text import Text

    for hit in hits:
        title = " ".join(printable(hit.title).split()) or "untitled"
        head = Text.assemble((hit.session_id, "cyan"), f"  turn {hit.turn}  ", (hit.day, "dim"), f"  {title}")
        console.print(head, no_wrap=True, overflow="ellipsis")
        said = printable(one_line(hit.text, SEARCH_TEXT))
        console.print(Text(f"    {said}"), no_wrap=True, overflow="ellipsis")


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
    from pattern_acp.cli.chat.output import reading_stage
    from pattern_acp.cli.chat.session_info import SessionInfo
    from pattern_acp.cli.chat.transcript import Transcript

    stage = reading_stage()
    heading = f"{printable(row.title) or 'Untitled'} {stage.marks.dot} {printable(row.cwd)}"
    stage.screen.print(Rule(Text(" ".join(heading.split()), style="bold")))
    transcript = Transcript(
        stage.screen, stage.answer, stage.marks, SessionInfo(row.cwd), lambda _: "", SystemClock().monotonic
    )
    for update in replay_updates(events):
        transcript.show(update)
    transcript.settle()


def moment(at_ms: int, zone: tzinfo | None = None) -> str:
    """A moment to the minute, in the person's own time zone unless one is given."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).strftime("%Y-%m-%d %H:%M")


def _no_such(session: str) -> int:
    write_failure(
        "session.unknown", f"pattern-acp: there is no session {session}; `pattern-acp sessions list --all` lists them."
    )
    return EXIT_ERROR
