"""`pattern-acp export` and `import`: memory and sessions as one file (docs/how-to/carry.md).

Owns: the words of a terminal for them, and the question before anything is taken over. Must not know: what is in the
file (pattern_acp/carry).
"""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO, cast

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.carry.arrival import Conflicts
from pattern_acp.carry.export import Choice, History, export
from pattern_acp.carry.proposing import (
    Answers,
    Choices,
    ImportedArchive,
    Importer,
    OpenImport,
    UnusableChoiceError,
    asked,
    chosen,
    listed,
    look_at,
    opened,
    projects_of,
)
from pattern_acp.cli.command_runner import full_id, open_for_command
from pattern_acp.cli.rendering import show_parts
from pattern_acp.cli.usage import since_ms
from pattern_acp.commands.document import Paragraph, Part, Result, as_result
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.load import known_secrets
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.retention import size_text
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.session.stored import project_of_folder


class CarryDesk(Struct, frozen=True):
    """Dependencies of both commands."""

    database: Database
    process: Process
    is_program: bool
    """True when a program reads the answer, which is not asked anything."""


@asynccontextmanager
async def open_carry(call: TypedCommand, process: Process) -> AsyncGenerator[CarryDesk, None]:
    """Open the constellation. Raises PatternError where it cannot be used."""
    async with open_for_command(process, is_lean=True) as database:
        yield CarryDesk(database, process, call.json)


def nothing_yet(call: TypedCommand) -> Result:
    """The answer as long as nothing was recorded."""
    del call
    return as_result("There is nothing to export yet.")


class ExportedArchive(Result, frozen=True):
    """The content of an archive, and what stayed here."""

    file: str
    root: str
    bytes: int
    blocks: int
    facts: int
    tasks: int
    sessions: int
    events: int
    masked_events: int
    left_out: tuple[str, ...]

    @property
    def document(self) -> Sequence[Part]:
        """A sentence on each."""
        verb = f"{self.file} has" if self.file else "The archive would have"
        size = f" ({size_text(self.bytes)})" if self.file else ""
        what = (
            f"{verb} {plural(self.blocks, 'memory block')}, {plural(self.facts, 'fact')}, "
            f"{plural(self.tasks, 'task')} and {plural(self.sessions, 'session')} with "
            f"{plural(self.events, 'event')}{size}."
        )
        parts: list[Part] = [Paragraph(what)]
        if self.masked_events:
            parts.append(Paragraph(f"In {plural(self.masked_events, 'event')} secrets were masked.", "note"))
        parts += [Paragraph(sentence, "warning") for sentence in self.left_out]
        if self.root:
            parts.append(Paragraph(f"Its content is {self.root}.", "dim"))
        return parts


async def export_archive(
    desk: CarryDesk,
    file: str,
    project: str = "",
    persona: str = "",
    session: str = "",
    since: str = "",
    history: str = "",
    *,
    dry_run: bool = False,
) -> ExportedArchive:
    """Write memory and sessions into a new file, or show what would go into it.

    Raises:
        PatternError: the choice means nothing, or the file cannot be written.
    """
    now_ms = SystemClock().now_ms()
    try:
        begins = since_ms(since, now_ms)
    except ValueError as error:
        raise UnusableChoiceError(f"{since} is no day of the calendar.") from error
    choice = replace(
        await choice_of(project, persona, history),
        session=await full_id(desk.database, session) if session else "",
        since_ms=begins,
    )
    mask = SecretMask(known_secrets(desk.process.loaded.settings))
    path = Path(file)
    try:
        with tempfile.TemporaryFile() if dry_run else _new_file(path) as into:
            report = await desk.database.read(lambda tx: export(tx, into, choice, mask, project_of_folder))
            size = into.seek(0, os.SEEK_END)
    except FileExistsError as error:
        raise UnusableChoiceError(f"{path} exists; name another file.") from error
    except OSError as error:
        raise PatternError(
            f"{path} cannot be written: {error.strerror or error}.", failure_code="cli.file-unusable"
        ) from error
    return ExportedArchive(
        "" if dry_run else str(path),
        report.root,
        size,
        report.blocks,
        report.entries,
        report.tasks,
        report.sessions,
        report.events,
        report.masked,
        tuple(report.left_out),
    )


async def import_archive(
    desk: CarryDesk, file: str, accepts: str = "", conflicts: str = "", into: str = ""
) -> ImportedArchive:
    """Show what an archive brings, and take over what the user accepts.

    Raises:
        PatternError: the file cannot be read, is damaged, or the choice means nothing.
    """
    rule = cast("Conflicts | None", conflicts or None)
    folder = str(await anyio.Path(into).absolute())
    importer = Importer(desk.process.loaded.settings.persona, folder, SystemClock())
    async with opened(Path(file), importer) as (archive, left_out):
        found = await look_at(desk.database, archive, file, left_out=left_out)
        if into and projects_of(found.found) != (await anyio.to_thread.run_sync(_project_at, into),):
            projects = await anyio.to_thread.run_sync(_renamed, projects_of(found.found), into)
            found = await look_at(desk.database, archive, file, projects, left_out)
        return await take_or_show(found, accepts, rule, None if desk.is_program else desk.process.environ)


async def take_or_show(
    found: OpenImport, accepts: str, rule: Conflicts | None, asks_in: Mapping[str, str] | None
) -> ImportedArchive:
    """Take over what `accepts` says, else what the user says in a terminal of the environment `asks_in`, else nothing.

    Raises:
        PatternError: the choice means nothing, the archive is not sound, or the constellation cannot be written.
    """
    if accepts:
        choices = chosen(accepts, found.found, rule or "both")
    elif asks_in is None or not sys.stdin.isatty() or not any(one.is_open for one in found.found):
        return found.unaccepted
    else:
        notes = (Paragraph(note, "note") for note in found.left_out)
        show_parts((*listed(found.found), *notes), asks_in, pager=False)
        found = replace(found, left_out=())
        choices = await asked(found.found, _ask_in_terminal, rule) or Choices({})
    return await found.take(choices, now_ms=SystemClock().now_ms())


async def _ask_in_terminal(text: str, answers: Answers) -> str:
    """Ask in the terminal; the word of an answer, or what was typed."""
    sys.stdout.write("".join((*(f"  {word:<9} {label}\n" for word, label in answers.items()), f"{text} ")))
    sys.stdout.flush()
    return (await anyio.to_thread.run_sync(sys.stdin.readline)).strip().lower()


def _renamed(keys: Sequence[str], into: str) -> Mapping[str, str]:
    """Return the key of the one project of an archive with that of a folder here.

    Raises:
        UnusableChoiceError: the archive has memory of several projects, or of none.
    """
    if len(keys) != 1:
        named = ", ".join(keys) or "none"
        raise UnusableChoiceError(f"--into needs an archive of one project; this one has {named}.")
    return {keys[0]: _project_at(into)}


async def choice_of(project: str, persona: str, history: str) -> Choice:
    """Return the choice of what to export that words of a command mean; empty ones choose everything."""
    key = await anyio.to_thread.run_sync(_project_at, project) if project else ""
    return Choice(project=key, persona=persona, history=cast("History", history or "full"))


def _project_at(folder: str) -> str:
    return project_of_folder(str(Path(folder).absolute()))


def _new_file(path: Path) -> BinaryIO:
    """Open a new file that only its owner can read. Raises OSError where it is there already, or cannot be written."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")
