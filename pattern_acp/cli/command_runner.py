"""Carrying out a command of the table in a terminal.

Owns: opening the constellation, what is said when it is gone, what a short form of a session's id (`ses_1a442a6f`, or
only `1a442a6f`) stands for, showing the result, and that what the command recorded
is in segments too before it ends. Must not know: what any command does.
"""

import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from pkgutil import resolve_name

import anyio

from pattern_acp.bootstrap.constellation_choice import is_per_project, note_of_others, process_of_command
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK
from pattern_acp.cli.command_table import GROUPS
from pattern_acp.cli.output import write_error, write_json, write_sentence
from pattern_acp.cli.rendering import plain, show_parts
from pattern_acp.commands.document import HtmlPage, PartsResult, Result
from pattern_acp.commands.parameters import HERE, Command, Group, TypedCommand
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.journal.codec import AmbiguousSessionError, MissingSessionError
from pattern_acp.journal.reader import newest_event
from pattern_acp.recovery.backups import lost_constellation

MARK, MARK_WITHIN = b'<meta name="generator" content="pattern-acp">', 2000
"""Tells a page of ours, which may be replaced, by its first bytes."""

HERE_SECONDS = 1.0
"""Longest that a command waits for what is new in the user's own memory."""

SEGMENT_SECONDS = 10.0
"""Longest that a command waits for its segments. Usually it is some milliseconds; after words were forgotten all are
written again, and what is not written then is added by the next command or session."""


def run_call(arguments: TypedCommand, process: Process) -> int:
    """Carry out a command and show its result; the exit code.

    Raises:
        PatternError: it could not be done, and why.
    """
    group, command = _row(arguments)
    if group.name != "sync":
        # Devices exchange what is in the user's constellation.
        folder = str(Path(str(arguments.shared.get("cwd") or ".")).absolute())
        process = process_of_command(process, folder, begins=command.begins)
    path = process.constellation_path
    try:
        if command.begins or path.exists():
            if not command.begins:
                refuse_if_lost(path)
            result = anyio.run(_result, group, command, arguments, process)
        else:
            refuse_if_lost(path)
            result = resolve_name(group.without)(arguments)
        if isinstance(result, int):
            return result
        code = show_result(result, arguments, process)
    except MissingSessionError as error:
        raise unknown_session(error) from error
    if group.name == "sessions" and command.name == "list" and arguments.shared["everywhere"] and not arguments.json:
        name_others(process)
    return code


def name_others(process: Process) -> None:
    """Write to stderr which constellations there are beside the one that a command was about, if there are any.

    Raises:
        OSError: the folder of constellations cannot be looked at.
    """
    if note := note_of_others(process):
        write_error(note)


def unknown_session(error: MissingSessionError) -> PatternError:
    """The error as a terminal shows it, with the command that lists the sessions."""
    sentence = f"There is no session {error.session_id}; `pattern-acp sessions list --all` lists them."
    return PatternError(sentence, failure_code=error.failure_code)


def show_result(result: Result, call: TypedCommand, process: Process) -> int:
    """Write a result to stdout, as JSON where a program reads it, or a page into its file; the exit code.

    Raises:
        OutputClosed: the reader went away.
    """
    if isinstance(result, HtmlPage):
        path = write_page(result, str(call.values["html"]))
        if call.json:
            write_json({"file": str(path)})
        else:
            write_sentence(f"The page is in {path}.")
        if call.values["html"] == HERE and sys.stdout.isatty():
            # Late: only somebody who looks needs it.
            import webbrowser

            webbrowser.open(path.as_uri())
        return EXIT_OK
    return show_answer(result, process, as_json=call.json, pager=not call.shared.get("no_pager", True))


def show_answer(result: Result, process: Process, *, as_json: bool, pager: bool = False) -> int:
    """Write a result to stdout, as JSON where a program reads it; the exit code.

    Raises:
        OutputClosed: the reader went away.
    """
    if as_json:
        # Words are reported to a program as they are to the user.
        write_json(
            {"answer": plain(result.document)}
            if isinstance(result, PartsResult) and result.facts is None
            else result.value
        )
    else:
        show_parts(result.document, process.environ, pager=pager)
    return EXIT_ERROR if result.is_failure else EXIT_OK


def write_page(page: HtmlPage, named: str) -> Path:
    """Write a page where only its owner can read it, in the current folder unless a file is named; its path.

    Raises:
        PatternError: something else is there, or it cannot be written.
    """
    path = Path(page.name if named == HERE else named).expanduser().absolute()
    try:
        if path.exists() and MARK not in path.read_bytes()[:MARK_WITHIN]:
            raise PatternError(f"{path} exists and is no page of ours; name another file.", failure_code="cli.usage")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(page.html)
    except OSError as error:
        sentence = f"The page cannot be written to {path}: {error.strerror}. Name another file."
        raise PatternError(sentence, failure_code="cli.usage") from error
    return path


def _row(call: TypedCommand) -> tuple[Group, Command]:
    group = next(group for group in GROUPS if group.name == call.group)
    return group, next(one for one in group.commands if one.name == call.command)


async def _result(group: Group, command: Command, call: TypedCommand, process: Process) -> "Result | int":
    """Run the command; a number is the exit code of one that showed everything itself."""
    values = {name: value for name, value in call.values.items() if name != "json"}
    async with resolve_name(group.opens)(call, process) as desk:
        return await command.run(desk, **values)


def refuse_if_lost(path: Path) -> None:
    """For a command that only reads: with what was recorded gone, it must not say that there is nothing.

    Raises:
        DatabaseError: the constellation is gone or empty, and how it is available back.
    """
    if lost := lost_constellation(path, begun=False):
        raise DatabaseError(lost, failure_code="database.lost")


@asynccontextmanager
async def open_for_command(process: Process, *, is_lean: bool = False) -> AsyncGenerator[Database, None]:
    """Open the constellation for a command that may write; it is made when there is none. See `open_database`."""
    path = process.constellation_path
    if lost := lost_constellation(path, begun=False):
        write_error(f"pattern-acp: {lost}")
    async with open_database(path, clock=SystemClock(), is_lean=is_lean) as database:
        await _exchange_users_memory(process, database, HERE_SECONDS)
        before = await database.read(newest_event)
        try:
            yield database
        finally:
            if await database.read(newest_event) != before:
                await _exchange_users_memory(process, database, SEGMENT_SECONDS)
            # A session would write them at some later time, and the disk may be lost before.
            if process.loaded.settings.backup.segments and await database.read(newest_event) != before:
                await write_segments(path)


async def _exchange_users_memory(process: Process, database: Database, seconds: float) -> None:
    """Have the user's own memory the same in a project's constellation and in the user's."""
    if not is_per_project(process.loaded):
        return
    from pattern_acp.bootstrap.replicas import exchange_once

    await exchange_once(process, database, seconds)


async def write_segments(path: Path) -> None:
    """Have what a command recorded in segments before it ends."""
    from pattern_acp.recovery.segment_export import export_last

    with anyio.move_on_after(SEGMENT_SECONDS):
        await export_last(path)


SHORTEST = 4
"""Digits that a short form has at least, so that a slip of the finger names nothing."""


async def full_id(database: "Database", given: str) -> str:
    """The id that `given` is the beginning of; `given` itself when it is one, or of none.

    Raises:
        AmbiguousSessionError: several ids begin like that.
    """
    beginning = beginning_of(given)
    if not beginning:
        return given
    from pattern_acp.journal.sessions import sessions_beginning

    return meant(given, await database.read(lambda tx: sessions_beginning(tx, beginning)))


def beginning_of(given: str) -> str:
    """Return the beginning of the ids that `given` may stand for; empty when it is no short form."""
    digits = given.removeprefix("ses_")
    return f"ses_{digits}" if len(digits) >= SHORTEST and digits.isalnum() else ""


def meant(given: str, found: Sequence[str]) -> str:
    """Return the one of the ids `found`, all with the same beginning, that is meant; `given` itself when there is none.

    Raises:
        AmbiguousSessionError: several match, and `given` is none of them in full.
    """
    if given in found or not found:
        return given
    if len(found) > 1:
        raise AmbiguousSessionError(given, found)
    return found[0]
