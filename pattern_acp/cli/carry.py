"""`pattern-acp export` and `import`: memory and sessions as one file (docs/how-to/carry.md).

Owns: the words of a terminal for them, and the question before anything is taken over. Must not know: what is in the
file (pattern_acp/carry).
"""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast

import anyio.to_thread
from msgspec import Struct

from pattern_acp.bootstrap.process import Process
from pattern_acp.carry.arrival import Conflicts, Proposal, accept, proposals
from pattern_acp.carry.car import ArchiveReader, open_archive
from pattern_acp.carry.export import Choice, History, export
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.cli.rendering import show_parts
from pattern_acp.cli.session_ids import full_id
from pattern_acp.cli.usage import since_ms
from pattern_acp.commands.document import Column, Paragraph, Part, Result, Said, Table, columns
from pattern_acp.commands.memory_results import SHOWN_STORE
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.load import known_secrets
from pattern_acp.config.logs import Redactor
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.disk_usage import size_text
from pattern_acp.memory.secrets import mask_secrets
from pattern_acp.session.stored import project_of_folder

_LISTED = 40
"""Proposals that are shown in a terminal; a longer list says how many more there are."""

_KINDS = {"memory": "memory", "facts": "fact", "sessions": "session"}


class CarryDesk(Struct, frozen=True):
    """Dependencies of both commands."""

    database: Database
    process: Process
    is_program: bool
    """True when a program reads the answer, which is not asked anything."""


class UnusableChoiceError(PatternError):
    """The words that were typed choose nothing that there is."""

    failure_code = "cli.usage"


@asynccontextmanager
async def open_carry(call: TypedCommand, process: Process) -> AsyncGenerator[CarryDesk, None]:
    """Open the constellation.

    Raises:
        PatternError: it cannot be used.
    """
    async with open_for_command(process) as database:
        yield CarryDesk(database, process, call.json)


def nothing_yet(call: TypedCommand) -> Result:
    """The answer as long as nothing was recorded."""
    del call
    return Said("There is nothing to export yet.")


class ExportedArchive(Result, frozen=True):
    """The content of an archive, and what stayed here."""

    file: str
    root: str
    bytes: int
    blocks: int
    facts: int
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
            f"{verb} {_count(self.blocks, 'memory block')}, {_count(self.facts, 'fact')} and "
            f"{_count(self.sessions, 'session')} with {_count(self.events, 'event')}{size}."
        )
        parts: list[Part] = [Paragraph(what)]
        if self.masked_events:
            parts.append(Paragraph(f"In {_count(self.masked_events, 'event')} secrets were masked.", "note"))
        parts += [Paragraph(sentence, "warning") for sentence in self.left_out]
        if self.root:
            parts.append(Paragraph(f"Its content is {self.root}.", "dim"))
        return parts


class ImportedArchive(Result, frozen=True):
    """The content of an archive, and what of it was taken over."""

    file: str
    proposals: tuple[Proposal, ...]
    accepted: bool = False
    blocks: int = 0
    facts: int = 0
    sessions: int = 0
    events: int = 0
    kept_mine: int = 0
    notes: tuple[str, ...] = ()

    @property
    def document(self) -> Sequence[Part]:
        """The list, or a sentence on what was taken over."""
        if not self.accepted:
            return (*listed(self.proposals), Paragraph(_ending(self.proposals)))
        what = (
            f"Imported {_count(self.blocks, 'memory block')}, {_count(self.facts, 'fact')} and "
            f"{_count(self.sessions, 'session')}, {_count(self.events, 'event')} in all."
        )
        parts: list[Part] = [Paragraph(what)]
        if self.kept_mine:
            parts.append(Paragraph(f"{_count(self.kept_mine, 'block')} stayed as here.", "note"))
        return (*parts, *(Paragraph(note, "note") for note in self.notes))


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
    choice = Choice(
        project=await anyio.to_thread.run_sync(_project_at, project) if project else "",
        persona=persona,
        session=await full_id(desk.database, session) if session else "",
        since_ms=begins,
        history=cast("History", history or "full"),
    )
    mask = partial(_masked, Redactor(known_secrets(desk.process.loaded.settings)))
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
    path = Path(file)
    try:
        with open_archive(path) as archive:
            return await _import(desk, archive, path, accepts, cast("Conflicts", conflicts or "both"), into)
    except OSError as error:
        raise PatternError(
            f"{path} cannot be read: {error.strerror or error}.", failure_code="cli.file-unusable"
        ) from error


async def _import(
    desk: CarryDesk, archive: ArchiveReader, path: Path, accepts: str, conflicts: Conflicts, into: str
) -> ImportedArchive:
    database = desk.database
    found = await database.read(lambda tx: proposals(tx, archive, {}))
    projects: Mapping[str, str] = await anyio.to_thread.run_sync(_renamed, found, into) if into else {}
    if projects:
        found = await database.read(lambda tx: proposals(tx, archive, projects))
    if not accepts:
        is_asked = not desk.is_program and sys.stdin.isatty() and any(one.is_open for one in found)
        if not is_asked:
            return ImportedArchive(str(path), found)
        show_parts(listed(found), desk.process.environ, pager=False)
        sys.stdout.write("Take over all of it, some by number (1,3), or nothing? [all/numbers/N] ")
        sys.stdout.flush()
        accepts = (await anyio.to_thread.run_sync(sys.stdin.readline)).strip() or "nothing"
    chosen = _chosen(accepts, found)
    if chosen is not None and not chosen:
        return ImportedArchive(str(path), (), accepted=True)
    now_ms = SystemClock().now_ms()
    report = await database.write(lambda tx: accept(tx, archive, projects, chosen, conflicts, now_ms=now_ms))
    return ImportedArchive(
        str(path),
        (),
        accepted=True,
        blocks=report.blocks,
        facts=report.facts,
        sessions=report.sessions,
        events=report.events,
        kept_mine=report.kept_mine,
        notes=tuple(report.notes),
    )


def listed(found: Sequence[Proposal]) -> tuple[Part, ...]:
    """The table of what an archive brings; what is known already is counted alone."""
    known = sum(one.state == "known" for one in found)
    shown = [one for one in found if one.state != "known"]
    rows = tuple(
        (
            str(one.number),
            one.kind,
            one.name,
            one.whose,
            {"gone": "cannot be taken over", "conflict": "differs here"}.get(one.state, one.state),
            one.about,
            ", ".join(store[:SHOWN_STORE] for store in one.stores),
        )
        for one in shown[:_LISTED]
    )
    headings = columns(
        Column("No.", right=True), "What", Column("Name", "cyan"), "Whose", "State", "About", Column("From", "dim")
    )
    parts: list[Part] = [Table(headings, rows)] if rows else []
    if len(shown) > _LISTED:
        parts.append(Paragraph(f"and {len(shown) - _LISTED} more; --json lists all.", "dim"))
    if known:
        parts.append(Paragraph(f"{known} of {len(found)} are here already."))
    return tuple(parts)


def _ending(found: Sequence[Proposal]) -> str:
    if not any(one.is_open for one in found):
        return "There is nothing to take over."
    return "Nothing was taken over yet: --accept all, memory, facts, sessions, or numbers such as 1,3-5."


def _chosen(accepts: str, found: Sequence[Proposal]) -> Collection[int] | None:
    """Return the numbers that are meant; None for all.

    Raises:
        UnusableChoiceError: it names a number that there is not, or is no choice.
    """
    said = accepts.lower()
    if said == "all":
        return None
    if said in {"nothing", "none", "n", "no"}:
        return ()
    if said in _KINDS:
        return {one.number for one in found if one.kind == _KINDS[said]}
    chosen = set[int]()
    for part in said.replace(" ", ",").split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UnusableChoiceError(
                f"{one_line(accepts, 60)!r} chooses nothing; say all, memory, facts, sessions, or numbers such as 1,3-5"
                "."
            )
        chosen |= set(range(int(first), int(last or first) + 1))
    by_number = {one.number: one for one in found}
    for number in sorted(chosen):
        if number not in by_number:
            raise UnusableChoiceError(f"There is no number {number} in the list; it ends at {len(found)}.")
        # In a range some may be here already.
        if not by_number[number].is_open and "-" not in said:
            about = by_number[number].about
            raise UnusableChoiceError(f"Number {number} cannot be taken over: {about}.")
    return chosen


def _renamed(found: Sequence[Proposal], into: str) -> Mapping[str, str]:
    """Return the key of the one project of an archive with that of a folder here.

    Raises:
        UnusableChoiceError: the archive has memory of several projects, or of none.
    """
    keys = sorted({one.whose.removeprefix("project ") for one in found if one.whose.startswith("project ")})
    if len(keys) != 1:
        named = ", ".join(keys) or "none"
        raise UnusableChoiceError(f"--into needs an archive of one project; this one has {named}.")
    return {keys[0]: _project_at(into)}


def _project_at(folder: str) -> str:
    return project_of_folder(str(Path(folder).absolute()))


def _new_file(path: Path) -> BinaryIO:
    """Open a new file that only its owner can read.

    Raises:
        OSError: it is there already, or cannot be written.
    """
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")


def _masked(known: Redactor, said: str) -> str:
    return mask_secrets(known.mask(said))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
