"""`pattern-acp sessions`: list, show and delete sessions from the terminal."""

import json
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import anyio

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Sessions
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.messages import ResourcePart, TextPart
from pattern_acp.journal import sessions as store
from pattern_acp.journal.events import Event, MessageRecorded, ToolCallFinished, ToolCallStarted, TurnStarted
from pattern_acp.journal.reader import read_stream
from pattern_acp.session.registry import delete_session

PAGE = 200


def run_sessions(arguments: Sessions, process: Process) -> int:
    """List, show or delete; 1 when the named session does not exist."""
    path = process.loaded.paths.constellation_path(process.loaded.settings.constellation)
    if not path.exists():
        if arguments.action == "list":
            _print_rows((), as_json=arguments.json)
            return EXIT_OK
        return _no_such(arguments.session)
    return anyio.run(_run, arguments, path)


async def _run(arguments: Sessions, path: Path) -> int:
    read_only = arguments.action != "delete"
    async with open_database(path, clock=SystemClock(), read_only=read_only) as database:
        if arguments.action == "list":
            cwd = None if arguments.everywhere else str(Path.cwd())
            rows, _ = await database.read(lambda tx: store.list_sessions(tx, cwd=cwd, cursor=None, limit=PAGE))
            _print_rows(rows, as_json=arguments.json)
            return EXIT_OK
        if arguments.action == "delete":
            deleted = await delete_session(database, arguments.session, now=SystemClock().now_ms())
            if deleted:
                sys.stdout.write(f"Deleted {arguments.session}.\n")
            return EXIT_OK if deleted else _no_such(arguments.session)
        return await _show(database, arguments)


async def _show(database: Database, arguments: Sessions) -> int:
    session_id = SessionId(arguments.session)
    row = await database.read(lambda tx: store.get_session(tx, session_id))
    if row is None:
        return _no_such(arguments.session)
    recorded = await database.read(lambda tx: read_stream(tx, session_id))
    if arguments.json:
        for item in recorded:
            line = {"seq": item.seq, "at_ms": item.at_ms, "actor": item.actor, "event": type(item.event).__name__}
            sys.stdout.write(json.dumps(line) + "\n")
        return EXIT_OK
    _print_transcript(row, (item.event for item in recorded))
    return EXIT_OK


def _print_rows(rows: Iterable[store.SessionRow], *, as_json: bool) -> None:
    if as_json:
        listed = [
            {"id": row.session_id, "title": row.title, "cwd": row.cwd, "updated": _moment(row.updated_ms)}
            for row in rows
        ]
        sys.stdout.write(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("Session", "Updated", "Title", "Folder"):
        table.add_column(name, overflow="fold", no_wrap=name == "Updated")
    for row in rows:
        table.add_row(row.session_id, _moment(row.updated_ms), row.title, row.cwd)
    console = Console()
    if table.row_count:
        console.print(table)
    else:
        console.print("No sessions here yet. `pattern-acp sessions list --all` lists those of every folder.")


def _print_transcript(row: store.SessionRow, events: Iterable[Event]) -> None:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.rule import Rule
    from rich.text import Text

    console = Console()
    console.print(Rule(f"{row.title or 'Untitled'} · {row.cwd}"))
    titles: dict[str, str] = {}
    for event in events:
        match event:
            case TurnStarted(message=message):
                shown = [p.text if isinstance(p, TextPart) else p.name for p in message.parts if _is_shown(p)]
                console.print(Text(f"\n❯ {' '.join(shown)}", style="bold cyan"))
            case MessageRecorded(message=message) if message.text.strip():
                console.print(Markdown(message.text))
            case ToolCallStarted(call=call):
                titles[call.call_id] = call.title
            case ToolCallFinished(call_id=call_id, status=status):
                style = "green" if status == "completed" else "red"
                console.print(Text(f"  {status}  {titles.get(call_id, call_id)}", style=style))
            case _:
                pass


def _is_shown(part: object) -> bool:
    return isinstance(part, TextPart | ResourcePart)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _no_such(session: str) -> int:
    sys.stderr.write(f"pattern-acp: there is no session {session}; `pattern-acp sessions list --all` lists them.\n")
    return EXIT_ERROR
