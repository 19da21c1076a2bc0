"""Proposals of an archive before the user: the list, the questions, and what was taken over.

Owns: the words for it, how a choice is read, and `/import` in the chat. Must not know: how a record is stored
(`arrival`), or a terminal (cli/carry.py).
"""

import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.carry.arrival import Conflicts, Proposal, accept, proposals
from pattern_acp.carry.car import ArchiveReader, read_archive
from pattern_acp.carry.conversion import as_archive
from pattern_acp.carry.foreign import is_foreign, read_foreign
from pattern_acp.carry.pattern_archives import is_pattern_export, read_pattern_export
from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, columns, markdown
from pattern_acp.commands.memory_results import SHOWN_STORE
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import Clock, ToolCallId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import absolute_path
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked, ToolCallFinished, ToolCallStarted
from pattern_acp.policy.decision import UserQuestion
from pattern_acp.session.stored import project_of_folder
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

Answers: TypeAlias = Mapping[str, str]
"""The answers to a question: a word for each, as it is typed in a terminal, and its label, as an editor shows it."""

Ask: TypeAlias = Callable[[str, Answers], Awaitable[str | None]]
"""Asks the user; the word of the answer, or what they wrote, and None where they cannot be asked."""

IMPORT_CALL = "import"

_USAGE = "/import FILE [all | memory | facts | tasks | sessions | 1,3-5] [mine | theirs | both]"

_LISTED = 40
"""Proposals that are shown; a longer list says how many more there are."""

_KINDS = {"memory": "memory", "facts": "fact", "tasks": "tasks", "sessions": "session"}
_NOTHING = frozenset({"", "nothing", "none", "n", "no", "stop"})
_CONFLICTS: Answers = {
    "both": "Both: merge them, or let both stay side by side",
    "mine": "Mine: leave what is here",
    "theirs": "Theirs: make it read like theirs",
}


class UnusableChoiceError(PatternError):
    """The words that were typed choose nothing that there is."""

    failure_code = "cli.usage"


class Choices(Struct, frozen=True):
    """The proposals that the user accepts, by number, and what becomes of each that differs here."""

    numbers: Mapping[int, Conflicts]

    def __bool__(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self.numbers)


class ImportedArchive(Result, frozen=True):
    """The content of an archive, and what of it was taken over."""

    file: str
    proposals: tuple[Proposal, ...]
    accepted: bool = False
    blocks: int = 0
    facts: int = 0
    tasks: int = 0
    sessions: int = 0
    events: int = 0
    kept_mine: int = 0
    notes: tuple[str, ...] = ()

    @property
    def document(self) -> Sequence[Part]:
        """The list, or a sentence on what was taken over."""
        if not self.accepted:
            left_out = (Paragraph(note, "note") for note in self.notes)
            return (*listed(self.proposals), *left_out, Paragraph(_ending(self.proposals)))
        what = (
            f"Imported {counted(self.blocks, 'memory block')}, {counted(self.facts, 'fact')}, "
            f"{counted(self.tasks, 'task')} and {counted(self.sessions, 'session')}, "
            f"{counted(self.events, 'event')} in all."
        )
        if not (self.blocks or self.facts or self.tasks or self.sessions):
            what = "Nothing new was taken over."
        parts: list[Part] = [Paragraph(what)]
        if self.kept_mine:
            parts.append(Paragraph(f"{counted(self.kept_mine, 'block')} stayed as here.", "note"))
        return (*parts, *(Paragraph(note, "note") for note in self.notes))


class OpenImport(Struct, frozen=True):
    """A file that is being imported. `projects` gives other keys to projects."""

    database: Database
    archive: ArchiveReader
    file: str
    found: tuple[Proposal, ...]
    projects: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()

    @property
    def unaccepted(self) -> "ImportedArchive":
        """The list of what it brings."""
        return ImportedArchive(self.file, self.found, notes=self.left_out)

    async def take(self, choices: Choices, *, now_ms: int) -> ImportedArchive:
        """Store what the user accepts.

        Raises:
            PatternError: the archive is not sound, or the constellation cannot be written.
        """
        if not choices:
            return ImportedArchive(self.file, (), accepted=True, notes=self.left_out)
        report = await self.database.write(
            lambda tx: accept(tx, self.archive, self.projects, choices.numbers, now_ms=now_ms)
        )
        return ImportedArchive(
            self.file,
            (),
            accepted=True,
            blocks=report.blocks,
            facts=report.facts,
            tasks=report.tasks,
            sessions=report.sessions,
            events=report.events,
            kept_mine=report.kept_mine,
            notes=(*report.notes, *self.left_out),
        )


async def look_at(
    database: Database,
    archive: ArchiveReader,
    file: str,
    projects: Mapping[str, str] | None = None,
    left_out: tuple[str, ...] = (),
) -> OpenImport:
    """Compare an archive with what is here.

    Raises:
        PatternError: it is damaged, or of a newer program.
    """
    found = await database.read(lambda tx: proposals(tx, archive, projects or {}))
    return OpenImport(database, archive, file, found, projects or {}, left_out)


def projects_of(found: Sequence[Proposal]) -> tuple[str, ...]:
    """The keys of the projects that memory of an archive belongs to."""
    return tuple(sorted({one.whose.removeprefix("project ") for one in found if one.whose.startswith("project ")}))


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
    return "Nothing was taken over yet: --accept all, memory, facts, tasks, sessions, or numbers such as 1,3-5."


def counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def chosen(accepts: str, found: Sequence[Proposal], conflicts: Conflicts) -> Choices:
    """The proposals that words choose: all, a kind, numbers, or nothing.

    Raises:
        UnusableChoiceError: they name a number that there is not, or are no choice.
    """
    said = accepts.strip().lower()
    if said in _NOTHING:
        numbers = set[int]()
    elif said == "all" or said in _KINDS:
        numbers = {one.number for one in found if said == "all" or one.kind == _KINDS[said]}
    else:
        numbers = _numbers(said, found)
    return Choices({one.number: conflicts for one in found if one.is_open and one.number in numbers})


def _numbers(said: str, found: Sequence[Proposal]) -> set[int]:
    numbers = set[int]()
    for part in said.replace(" ", ",").split(","):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise UnusableChoiceError(
                f"{one_line(said, 60)!r} chooses nothing; say all, memory, facts, tasks, sessions, or numbers such as "
                "1,3-5."
            )
        begin = int(first)
        numbers |= {begin, *range(begin, min(int(last or first), len(found) + 1) + 1)}
    by_number = {one.number: one for one in found}
    for number in sorted(numbers):
        if number not in by_number:
            raise UnusableChoiceError(f"There is no number {number} in the list; it ends at {len(found)}.")
        # In a range some may be here already.
        if not by_number[number].is_open and "-" not in said:
            about = by_number[number].about
            raise UnusableChoiceError(f"Number {number} cannot be taken over: {about}.")
    return numbers


async def asked(found: Sequence[Proposal], ask: Ask, conflicts: Conflicts | None = None) -> Choices | None:
    """Ask the user what to take over, and where it differs here, what becomes of it unless `conflicts` says so.

    None where they cannot be asked.

    Raises:
        UnusableChoiceError: what they wrote chooses nothing.
    """
    is_open = [one for one in found if one.is_open]
    answers = {"all": f"All of it ({len(is_open)})"}
    for word, kind in _KINDS.items():
        of_kind = sum(one.kind == kind for one in is_open)
        if 0 < of_kind < len(is_open):
            answers[word] = f"Only {word} ({of_kind})"
    answers |= {"each": "Ask for each", "nothing": "Nothing"}
    said = await ask("Take over all of it, some of it (also by number: 1,3-5), or nothing?", answers)
    if said is None:
        return None
    if said.strip().lower() == "each":
        return await _one_by_one(is_open, ask, conflicts)
    choices = chosen(said, found, conflicts or "both")
    differing = [one for one in is_open if one.differs and one.number in choices.numbers]
    if conflicts is None and differing:
        names = one_line(", ".join(one.name for one in differing), 120)
        which = await ask(f"{names}: written to here as well. What is to stay?", _CONFLICTS)
        choices = chosen(said, found, _conflict(which))
    return choices


async def _one_by_one(is_open: Sequence[Proposal], ask: Ask, conflicts: Conflicts | None) -> Choices:
    numbers: dict[int, Conflicts] = {}
    for at, one in enumerate(is_open):
        differs = one.differs and conflicts is None
        answers = {
            **(_CONFLICTS if differs else {"take": "Take it over"}),
            "leave": "Leave it out",
            "rest": f"Take over this and all others ({len(is_open) - at})",
            "stop": "Take over no more",
        }
        said = await ask(f"{one.number}. {one.kind} “{one.name}” ({one.whose}): {one.about}.", answers) or "stop"
        if said == "stop":
            break
        if said == "rest":
            numbers |= {each.number: conflicts or "both" for each in is_open[at:]}
            break
        if said != "leave":
            numbers[one.number] = _conflict(said) if differs else conflicts or "both"
    return Choices(numbers)


def _conflict(said: str | None) -> Conflicts:
    """The answer as a rule; one that is none changes nothing of the user's."""
    return cast("Conflicts", said) if said in _CONFLICTS else "mine"


async def run_import(session: "Session", argument: str) -> str:
    """Show what a file brings, ask, and take over what the user accepts."""
    try:
        words = shlex.split(argument)
    except ValueError:
        words = argument.split()
    if not words:
        raise CommandMisusedError(f"Say which file: {_USAGE}.")
    conflicts = cast("Conflicts", words.pop()) if len(words) > 1 and words[-1] in _CONFLICTS else None
    shared = session.constellation
    if shared.elsewhere is not None:
        raise CommandMisusedError(
            "The files of this session are on another machine, where /import cannot read; run "
            "`pattern-acp import FILE` in a terminal here."
        )
    path = Path(absolute_path(words[0], session.state.cwd))
    importer = Importer(session.state.persona.name, session.state.cwd, shared.clock)
    # A way of its own to the file of the constellation: the session's maps as much of it as is read.
    lean = open_database(shared.database.path, clock=shared.clock, is_lean=True)
    async with opened(path, importer) as (archive, left_out), lean as database:
        found = await look_at(database, archive, str(path), left_out=left_out)
        if not any(one.is_open for one in found.found):
            return markdown(found.unaccepted.document)
        if len(words) > 1:
            choices: Choices | None = chosen(" ".join(words[1:]), found.found, conflicts or "both")
        else:
            found = await _of_this_project(session, found)
            choices = await asked(found.found, partial(_ask, session, markdown(listed(found.found))), conflicts)
        if choices is None:
            return markdown((*listed(found.found), Paragraph(f"Say what to take over: {_USAGE}.")))
        return markdown((await found.take(choices, now_ms=shared.clock.now_ms())).document)


class Importer(Struct, frozen=True):
    """Destination of what another program remembers: the persona of its agents, and the folder of the rest."""

    persona: str
    folder: str
    clock: Clock


@asynccontextmanager
async def opened(path: Path, importer: Importer) -> AsyncGenerator[tuple[ArchiveReader, tuple[str, ...]], None]:
    """Open an archive whose every block is compared with its hash, or a file of another program as one.

    The sentences say what of such a file stays out.

    Raises:
        ArchiveDamagedError: it is none, is cut short, or a block is not what its CID says.
        PatternError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            if is_foreign(path, file.read(64)):
                found = await anyio.to_thread.run_sync(read_foreign, path)
            else:
                archive = await anyio.to_thread.run_sync(read_archive, file)
                if not is_pattern_export(archive):
                    yield archive, ()
                    return
                found = await anyio.to_thread.run_sync(read_pattern_export, archive)
            project = await anyio.to_thread.run_sync(project_of_folder, importer.folder)
            async with as_archive(
                found, persona=importer.persona, project=project, folder=importer.folder, clock=importer.clock
            ) as (archive, report):
                yield archive, (*found.left_out, *report.left_out)
    except OSError as error:
        raise PatternError(
            f"{path} cannot be read: {error.strerror or error}.", failure_code="cli.file-unusable"
        ) from error


async def _of_this_project(session: "Session", found: OpenImport) -> OpenImport:
    """Ask whether the one project of an archive that is not known here is the one of the session."""
    keys = projects_of(found.found)
    here = await anyio.to_thread.run_sync(project_of_folder, session.state.cwd)
    if len(keys) != 1 or keys[0] == here:
        return found
    answers = {"yes": "Yes, it is this project", "no": "No, it is another one"}
    text = f"The memory in it belongs to the project {keys[0]}. Is that the project of this folder?"
    if await _ask(session, "", text, answers) != "yes":
        return found
    return await look_at(found.database, found.archive, found.file, {keys[0]: here}, found.left_out)


async def _ask(session: "Session", shown: str, text: str, answers: Answers) -> str | None:
    """Ask in the editor; question and answer are recorded as a call."""
    turn_id = session.turn_id
    labels = tuple(answers.values())
    call_id = ToolCallId(session.constellation.ids.new("call"))
    content = (TextContent(shown),) if shown else ()
    call = ToolCallView(call_id, IMPORT_CALL, text, ToolKind.OTHER, {}, (), content)
    question = PermissionAsked(turn_id, call_id, text, labels)
    await session.recorder.record(
        NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM), NewEvent(question, Actor.SYSTEM)
    )
    said: str | None = None
    try:
        said = await session.approver.put(UserQuestion(call, f"{shown}\n\n{text}".strip(), labels))
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
            told = said or "Nobody answered."
            status = ToolCallStatus.COMPLETED if said else ToolCallStatus.FAILED
            await session.recorder.record(
                NewEvent(PermissionAnswered(turn_id, call_id, told), Actor.HUMAN, Origin.PERSON),
                NewEvent(ToolCallFinished(turn_id, call_id, status, told), Actor.SYSTEM),
            )
    return next((word for word, label in answers.items() if label == said), said)
