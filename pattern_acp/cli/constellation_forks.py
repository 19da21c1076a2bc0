"""`pattern-acp fork`, `merge` and `move-project`: from one constellation of the user into another.

Owns: the words of a terminal for them, and which file is read and which is written. Must not know: what an archive is
made of: a fork is an export of one constellation that another imports, and so is a merge (pattern_acp/carry).
docs/how-to/fork.md and carry.md have all three.
"""

import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.bootstrap.constellation_choice import constellation_of_folder
from pattern_acp.bootstrap.process import Process
from pattern_acp.bootstrap.syncing import sharing_of
from pattern_acp.carry.arrival import Conflicts
from pattern_acp.carry.export import Choice, ExportReport, export, store_id, stores_in
from pattern_acp.carry.moving import MoveReport, MovingProject, move, preview
from pattern_acp.carry.proposing import ImportedArchive, Importer, UnusableChoiceError, look_at, opened
from pattern_acp.cli.carry import choice_of, take_or_show
from pattern_acp.cli.command_runner import open_for_command, write_segments
from pattern_acp.commands.document import Paragraph, Part, Result
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.text_limits import plural
from pattern_acp.memory.blocks import Scope
from pattern_acp.session.stored import project_of_folder

UNCLEAN = (
    "Other pattern-acp processes prevented the file from being written again, so old bytes may be left in it; end them "
    "and run the command again."
)

SIDES: dict[str, Conflicts] = {"fork": "theirs", "target": "mine", "both": "both"}
"""The sides of a merge as the user calls them, and as an import does."""


class ForkDesk(Struct, frozen=True):
    """Dependencies of the commands."""

    process: Process
    is_program: bool
    """True when a program reads the answer, which is not asked anything."""

    def of(self, name: str) -> Process:
        """The process with another constellation. Raises ConfigError where none can be called so."""
        there = self.process.using(name)
        _ = there.constellation_path
        return there


@asynccontextmanager
async def open_forks(call: TypedCommand, process: Process) -> AsyncGenerator[ForkDesk, None]:
    """Open nothing yet: each command opens two files."""
    yield ForkDesk(process, call.json)


class ForkedConstellation(Result, frozen=True):
    """The content of a new fork, and what stayed where it was."""

    name: str
    new: str
    blocks: int
    facts: int
    sessions: int
    left_out: tuple[str, ...]

    @property
    def document(self) -> Sequence[Part]:
        """A sentence on each, and how the fork is used."""
        what = (
            f"{self.new} begins with {plural(self.blocks, 'memory block')}, {plural(self.facts, 'fact')} and "
            f"{plural(self.sessions, 'session')} of {self.name}. Use it with --constellation {self.new}; "
            f"pattern-acp merge {self.new} brings back what it learns."
        )
        return (Paragraph(what), *(Paragraph(sentence, "warning") for sentence in self.left_out))


async def fork_constellation(
    desk: ForkDesk, name: str, new: str, project: str = "", persona: str = "", history: str = ""
) -> ForkedConstellation:
    """Make a new constellation that begins with what another one has.

    Raises:
        PatternError: there is no such constellation, the new one is there already, or it cannot be written.
    """
    exported = _exported(desk, name, project, persona, history)
    async with exported as (file, report, _), open_for_command(desk.of(new)) as to:
        if await to.read(store_id):
            raise UnusableChoiceError(
                f"The constellation {new} is there already; choose another name, or merge into it."
            )
        done = await _take(desk, to, file, "all", "both")
    return ForkedConstellation(name, new, done.blocks, done.facts, done.sessions, tuple(report.left_out))


async def merge_constellation(
    desk: ForkDesk,
    name: str,
    accepts: str = "",
    conflicts: str = "",
    project: str = "",
    persona: str = "",
    history: str = "",
) -> ImportedArchive:
    """Show what a fork learned, and bring back what the user accepts.

    Raises:
        PatternError: there is no such constellation, or the choice means nothing.
    """
    if name == desk.process.constellation:
        raise UnusableChoiceError(f"{name} is the constellation to merge into; --constellation names another one.")
    exported = _exported(desk, name, project, persona, history)
    async with exported as (file, report, stores), open_for_command(desk.process) as to:
        is_fork = not stores.isdisjoint(await to.read(stores_in))
        target = desk.process.constellation
        unrelated = () if is_fork else (f"{name} is no fork of {target}; merging it does what importing it would do.",)
        done = await _take(desk, to, file, accepts, conflicts, unrelated)
    return replace(done, file=name, notes=(*done.notes, *report.left_out))


@asynccontextmanager
async def _exported(
    desk: ForkDesk, name: str, project: str, persona: str, history: str
) -> AsyncGenerator[tuple[Path, ExportReport, frozenset[str]], None]:
    """Write the chosen content of a constellation into a file beside it, which goes when the context ends.

    The last of it are the constellations that its events were recorded in.
    """
    path = desk.of(name).constellation_path
    if not await anyio.Path(path).exists():
        raise UnusableChoiceError(f"There is no constellation called {name}, or nothing was recorded in it yet.")
    choice = await choice_of(project, persona, history)
    with tempfile.TemporaryDirectory(prefix="fork-", dir=path.parent) as folder:
        file = Path(folder, "fork.car")
        async with open_database(path, clock=SystemClock()) as database:
            report = await database.read(partial(_write, file, choice))
            stores = await database.read(stores_in)
        yield file, report, stores


def _write(file: Path, choice: Choice, tx: Transaction) -> ExportReport:
    with file.open("w+b") as into:
        # Nothing leaves the user's own folder, so nothing is masked.
        return export(tx, into, choice, None, project_of_folder)


async def _take(
    desk: ForkDesk, to: Database, file: Path, accepts: str, conflicts: str, notes: tuple[str, ...] = ()
) -> ImportedArchive:
    """Take over what the user accepts, or show what there is."""
    importer = Importer(desk.process.loaded.settings.persona, "", SystemClock())
    async with opened(file, importer) as (archive, left_out):
        found = await look_at(to, archive, str(file), left_out=(*notes, *left_out))
        environ = None if desk.is_program else desk.process.environ
        return await take_or_show(found, accepts, SIDES.get(conflicts), environ)


class MovedProject(Result, frozen=True):
    """A project that was moved, or would be."""

    project: str
    source: str
    target: str
    is_moved: bool
    """False when there was nothing to move, or nothing was to be moved yet."""
    blocks: int
    facts: int
    tasks: int
    sessions: int
    jobs: int
    files: int
    """Contents of files that checkpoints need."""
    events: int
    same: int
    """Records that are in the other constellation exactly as they were in this one."""
    merged: int
    """Records that joined what was there."""
    notes: tuple[str, ...]
    copies: tuple[str, ...]
    """Backups and the like that still have what was moved."""

    @property
    def document(self) -> Sequence[Part]:
        """Sentences on what was moved and compared, and where it still is."""
        parts: list[Part] = [Paragraph(self._sentence)]
        if self.is_moved:
            merged = f", and {plural(self.merged, 'record')} joined what was there" if self.merged else ""
            checked = f"{plural(self.same, 'record')} have the same hash there as here{merged}; here they were removed."
            parts.append(Paragraph(checked))
        parts += [Paragraph(note, "note") for note in self.notes]
        if self.copies:
            parts.append(Paragraph(f"Still with all of it: {', '.join(self.copies)}. Delete what you do not need."))
        return parts

    @property
    def _sentence(self) -> str:
        things = (
            f"{plural(self.blocks, 'memory block')}, {plural(self.facts, 'fact')}, {plural(self.tasks, 'task')}, "
            f"{plural(self.sessions, 'session')}, {plural(self.jobs, 'job')} and {plural(self.files, 'saved file')}"
        )
        if self.is_moved:
            return f"{self.project} is in {self.target} now: {things}, with {plural(self.events, 'event')}."
        if self.sessions or self.blocks or self.facts or self.tasks:
            return f"{self.project} would move from {self.source} to {self.target}: {things}."
        return f"{self.source} has nothing of {self.project} to move."


async def move_project(desk: ForkDesk, folder: str = "", to: str = "", *, dry_run: bool = False) -> MovedProject:
    """Move what the constellation has of a project into another one.

    Raises:
        PatternError: there is nowhere to move it, or it cannot be moved now, and why.
    """
    place = str(await anyio.Path(folder or ".").absolute())
    source = desk.process.loaded.settings.constellation.name
    target = to or await anyio.to_thread.run_sync(constellation_of_folder, desk.process.loaded, place)
    if target == source:
        problem = f"{source} is where {place} is already" if to else "--to says into which constellation it is to move"
        raise UnusableChoiceError(f"{problem}; with per_project in [constellation], each project has its own.")
    sharing = await anyio.to_thread.run_sync(sharing_of, desk.process.loaded.settings.sync)
    key = await anyio.to_thread.run_sync(project_of_folder, place)
    if desk.process.loaded.settings.sync.url and not sharing.leaves_out(Scope.PROJECT, key):
        raise UnusableChoiceError(
            f"Sync would bring {place} back into {source}; add it to exclude in [sync] first, on every device."
        )
    if not await anyio.Path(desk.of(source).constellation_path).exists():
        raise UnusableChoiceError(f"There is no constellation called {source}, or nothing was recorded in it yet.")
    project, now_ms = MovingProject(key, place, target, project_of_folder), SystemClock().now_ms()
    there = desk.of(target)
    async with open_for_command(desk.of(source)) as here:
        if dry_run:
            moved = await preview(here, project, now_ms=now_ms)
            return _moved(project, source, MoveReport(moved), is_moved=False)
        async with open_for_command(there) as into:
            report = await move(here, into, project, now_ms=now_ms)
        if report.moved.is_empty and desk.process.loaded.settings.backup.segments:
            # Nothing was recorded, and yet the file may have been written again without them.
            await write_segments(here.path)
    return _moved(project, source, report, is_moved=not report.moved.is_empty)


def _moved(project: MovingProject, source: str, report: MoveReport, *, is_moved: bool) -> MovedProject:
    found, unclean = report.moved, () if report.is_clean else (UNCLEAN,)
    return MovedProject(
        project.name,
        source,
        project.target,
        is_moved,
        found.blocks,
        found.entries,
        found.tasks,
        found.sessions,
        found.jobs,
        found.files,
        found.events,
        report.same,
        report.merged,
        (*found.stays, *filter(None, (found.left,)), *report.notes, *unclean),
        report.copies,
    )
