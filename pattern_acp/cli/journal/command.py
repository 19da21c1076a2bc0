"""Carrying out `pattern-acp journal`.

Owns: opening the constellation, and which module does what. Must not know: how any of it is done.
"""

from pathlib import Path

import anyio
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK, Journal
from pattern_acp.cli.command_runner import constellation_path, open_for_command, refuse_if_lost
from pattern_acp.cli.journal.checking import anchor_session, verify_file, verify_streams
from pattern_acp.cli.journal.exporting import export_session
from pattern_acp.cli.journal.rebuilding import rebuild_constellation
from pattern_acp.cli.journal.redacting import redact, report_redaction
from pattern_acp.cli.journal.replaying import replay_session
from pattern_acp.cli.journal.tailing import tail
from pattern_acp.cli.output import OutputClosed, write_failure, write_line
from pattern_acp.cli.session_ids import full_id
from pattern_acp.config.load import known_secrets
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.streams import is_stream
from pattern_acp.journal.verify_bundle import EVENTS


def run_journal(arguments: Journal, process: Process) -> int:
    """Do what was asked; 1 when something is not sound, or there is no such session.

    Raises:
        PatternError: it could not be done, and why.
    """
    path = constellation_path(process)
    try:
        if arguments.action == "verify" and _is_file(arguments.target):
            return anyio.run(verify_file, arguments)
        if arguments.action == "rebuild":
            return rebuild_constellation(arguments, path)
        refuse_if_lost(path)
        if path.exists():
            return anyio.run(_run, arguments, process, path)
        if arguments.target:
            return _no_such(arguments.target)
        write_line("Nothing was recorded yet.")
    except OutputClosed:
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    return EXIT_OK


async def _run(arguments: Journal, process: Process, path: Path) -> int:
    writes = arguments.action == "redact"
    opened = open_for_command(process) if writes else open_database(path, clock=SystemClock(), read_only=True)
    async with opened as database:
        arguments = replace(arguments, target=await full_id(database, arguments.target))
        if arguments.target and not await database.read(lambda tx: is_stream(tx, arguments.target)):
            return _no_such(arguments.target)
        if arguments.action != "redact":
            return await _act(database, arguments, process)
        redacted = await redact(database, arguments)
    # SQLite's locks of a process go when it closes any descriptor of the file, so it is read once nothing is open.
    log = process.loaded.paths.log_file
    logs = sorted(log.parent.glob(f"{log.name}*"))
    return EXIT_ERROR if redacted is None else report_redaction(redacted, arguments, path, logs)


async def _act(database: Database, arguments: Journal, process: Process) -> int:
    match arguments.action:
        case "verify":
            return await verify_streams(database, arguments)
        case "anchor":
            return await anchor_session(database, arguments)
        case "export":
            return await export_session(database, arguments, known_secrets(process.loaded.settings))
        case "tail":
            return await tail(database, arguments)
        case "replay":
            return await replay_session(database, arguments)
        case "redact" | "rebuild":
            raise ValueError(f"{arguments.action} is done elsewhere.")


def _is_file(target: str) -> bool:
    """Tell whether it names a bundle; ids of sessions contain neither separators nor dots."""
    return bool(target) and (Path(target).is_file() or target.endswith(".zip") or target == EVENTS)


def _no_such(target: str) -> int:
    write_failure(
        "session.unknown", f"pattern-acp: there is no session {target}; `pattern-acp sessions list --all` lists them."
    )
    return EXIT_ERROR
