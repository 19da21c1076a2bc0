"""Imports before the user: what another program remembers as an archive, proposals of one, and what was taken over.

Owns: which block, fact or event each thing of another program becomes; the words for proposals, how a choice is read,
and `/import` in the chat. Must not know: the forms of other programs (`foreign`), how a record is stored (`arrival`),
or a terminal (cli/carry.py). The same file of another program gives the same ids and hashes, so that importing it twice
is importing it once; where it came from is a constellation of its own, called by the hash of its first event.
"""

import shlex
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.carry.arrival import Conflicts, Proposal, accept, proposals
from pattern_acp.carry.car import ArchiveReader, read_archive
from pattern_acp.carry.export import Choice, ExportReport, export
from pattern_acp.carry.foreign import (
    Foreign,
    ForeignBlock,
    ForeignFact,
    ForeignMessage,
    ForeignSession,
    is_foreign,
    read_foreign,
)
from pattern_acp.carry.pattern_archives import is_pattern_export, read_pattern_export
from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, as_result, columns, markdown
from pattern_acp.commands.memory_results import SHOWN_STORE
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import BlockId, Clock, MessageId, SessionId, ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.paths import absolute_path
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import StopReason, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import (
    OWN_TURN,
    EntryArchived,
    Event,
    MessageRecorded,
    PermissionAnswered,
    PermissionAsked,
    SessionCreated,
    SessionTitled,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.sessions import NewSession, create_session, note_prompt, set_title, touch
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.archive import MOST_CHARACTERS, NewEntry, entry_facts, find_same, insert_entry
from pattern_acp.memory.blocks import DEFAULT_LIMIT, MOST_LIMIT, BlockKey, BlockSpec, Permission, Scope, Tier
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.commit import block_event
from pattern_acp.memory.store import WriteRecord, block_exists, propose_creation, store_change
from pattern_acp.policy.decision import UserQuestion
from pattern_acp.session.stored import project_of_folder
from pattern_acp.turn.recorder import CLEANUP_SECONDS, NewEvent

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
            f"Imported {plural(self.blocks, 'memory block')}, {plural(self.facts, 'fact')}, "
            f"{plural(self.tasks, 'task')} and {plural(self.sessions, 'session')}, "
            f"{plural(self.events, 'event')} in all."
        )
        if not (self.blocks or self.facts or self.tasks or self.sessions):
            what = "Nothing new was taken over."
        parts: list[Part] = [Paragraph(what)]
        if self.kept_mine:
            parts.append(Paragraph(f"{plural(self.kept_mine, 'block')} stayed as here.", "note"))
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
    """Compare an archive with what is here. Raises PatternError where it is damaged, or of a newer program."""
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


async def run_import(session: "Session", argument: str) -> Result:
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
            return found.unaccepted
        if len(words) > 1:
            choices: Choices | None = chosen(" ".join(words[1:]), found.found, conflicts or "both")
        else:
            found = await _of_this_project(session, found)
            choices = await asked(found.found, partial(_ask, session, markdown(listed(found.found))), conflicts)
        if choices is None:
            return as_result(*listed(found.found), f"Say what to take over: {_USAGE}.")
        return await found.take(choices, now_ms=shared.clock.now_ms())


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


_EARLIEST_MS = 1_577_836_800_000
"""The time of what says none: the beginning of 2020, the same whenever it is imported."""


class _Converter:
    """One file, inside the transaction of a constellation that it fills."""

    def __init__(self, tx: Transaction, found: Foreign, persona: str, project: str, folder: str) -> None:
        self._tx = tx
        self._found = found
        self._persona = persona
        self._project = project
        self._folder = folder
        self._has_several_agents = len(found.agents()) > 1

    def run(self) -> None:
        """Store all of it."""
        for block in self._found.blocks:
            self._block(block)
        for fact in self._found.facts:
            for text in _pieces(fact.text, MOST_CHARACTERS):
                self._fact(fact, text)
        for session in self._found.sessions:
            self._session(session)

    def _owner(self, agent: str) -> str:
        """Return the persona that memory of an agent goes to: the one in use, unless the file has several agents."""
        return agent if self._has_several_agents else self._persona

    def _id(self, prefix: str, *parts: str) -> str:
        named = "\n".join((self._found.program, *parts)).encode("utf-8", "surrogatepass")
        return f"{prefix}_{sha256_hex(named)[:32]}"

    def _append(self, stream: str, event: Event, at_ms: int) -> int:
        # Data of others, no matter who said it there. The salt follows from what is reported, as the hash has to.
        actor, origin = Actor.IMPORT, Origin.WORKSPACE
        return append(self._tx, stream, event, actor=actor, origin=origin, at_ms=at_ms, salt=_salt(event)).seq

    def _block(self, block: ForeignBlock) -> None:
        scope = Scope.PROJECT if block.place == "project" else Scope.PERSONA
        owner = self._project if scope is Scope.PROJECT else self._owner(block.agent)
        for number, text in enumerate(_pieces(block.text, MOST_LIMIT), 1):
            label = block.label if number == 1 else f"{block.label[:50]}-{number}"
            key = self._free(BlockKey(scope, owner, label))
            spec = BlockSpec(
                key,
                block.description,
                text,
                max(DEFAULT_LIMIT, min(MOST_LIMIT, len(text) * 5 // 4)),
                permission=Permission.READ_ONLY if block.read_only else Permission.READ_WRITE,
                tier=Tier.CORE if block.is_core else Tier.WORKING,
            )
            block_id = BlockId(self._id("block", scope, owner, label, text))
            # Another text is another document, which no peer may have written to before.
            peer = int.from_bytes(sha256(block_id.encode()).digest()[:7], "big") or 1
            change = propose_creation(spec, block_id, peer=peer)
            reason, at_ms = f"It was imported from {self._found.program}.", block.at_ms or _EARLIEST_MS
            seq = self._append(CONSTELLATION_STREAM, block_event(change, reason), at_ms)
            store_change(self._tx, change, WriteRecord(seq, Actor.IMPORT, Origin.WORKSPACE, reason, at_ms))

    def _free(self, key: BlockKey) -> BlockKey:
        number, found = 1, key
        while block_exists(self._tx, found):
            number += 1
            found = BlockKey(key.scope, key.owner, f"{key.label[:50]}-{number}")
        return found

    def _fact(self, fact: ForeignFact, text: str) -> None:
        owner, at_ms = self._owner(fact.agent), fact.at_ms or _EARLIEST_MS
        if find_same(self._tx, Scope.PERSONA, owner, text) is not None:
            return
        entry_id, reason = self._id("entry", owner, text), f"It was imported from {self._found.program}."
        new = NewEntry(entry_id, Scope.PERSONA, owner, text, Actor.IMPORT, Origin.WORKSPACE, reason)
        event = EntryArchived(
            entry_id,
            Scope.PERSONA.value,
            owner,
            sha256_hex(text.encode("utf-8", "surrogatepass")),
            reason,
            facts_hash=entry_facts(text, ""),
        )
        insert_entry(self._tx, new, at_ms=at_ms, seq=self._append(CONSTELLATION_STREAM, event, at_ms))

    def _session(self, session: ForeignSession) -> None:
        tx = self._tx
        session_id = SessionId(self._id("ses", self._folder, session.key))
        at_ms = session.at_ms or next((one.at_ms for one in session.messages if one.at_ms), 0) or _EARLIEST_MS
        model = "offline/offline"
        created = SessionCreated(self._folder, (), self._persona, "", model, "ask", thought_level="off")
        seq = self._append(session_id, created, at_ms)
        create_session(
            tx, NewSession(session_id, self._folder, (), self._persona, "", model, "ask"), seq=seq, at_ms=at_ms
        )
        seq = self._append(session_id, SessionTitled(session.title), at_ms)
        set_title(tx, session_id, session.title, seq=seq, at_ms=at_ms)
        turn = TurnId("")
        for number, message in enumerate(session.messages):
            said = _message(session_id, number, message)
            if message.is_user or not turn:
                # As it would be if nothing followed: a conversation that continued begins with the same events.
                self._end(session_id, turn, at_ms)
                at_ms = max(at_ms, message.at_ms)
                turn = TurnId(f"turn_{session_id[4:]}_{number}")
                first = said if message.is_user else Message(MessageId(f"{said.message_id}_0"), Role.USER, ())
                begun = TurnStarted(turn, first, "" if message.is_user else OWN_TURN)
                note_prompt(tx, session_id, seq=self._append(session_id, begun, at_ms), at_ms=at_ms)
            if not message.is_user:
                at_ms = max(at_ms, message.at_ms)
                seq = self._append(session_id, MessageRecorded(turn, said), at_ms)
                touch(tx, session_id, seq=seq, at_ms=at_ms)
        self._end(session_id, turn, at_ms)

    def _end(self, session_id: SessionId, turn: TurnId, at_ms: int) -> None:
        if turn:
            self._append(session_id, TurnEnded(turn, StopReason.END_TURN), at_ms)


@asynccontextmanager
async def as_archive(
    found: Foreign, *, persona: str, project: str, folder: str, clock: Clock
) -> AsyncGenerator[tuple[ArchiveReader, ExportReport], None]:
    """Convert what a file has into an archive, which is deleted at the end.

    Memory of agents goes to `persona`, or to one by the name of each where there are several; a memory file to the
    `project`, and conversations into the `folder`. What seems to hold a secret is left out, or masked in conversations.

    Raises:
        PatternError: something cannot be stored.
    """
    with tempfile.TemporaryDirectory(prefix="pattern-acp-import-") as name:
        path = Path(name) / "constellation.db"
        async with open_database(path, clock=clock, is_lean=True) as database:
            await database.write(lambda tx: _Converter(tx, found, persona, project, folder).run())
            with (Path(name) / "archive.car").open("w+b") as file:
                report = await database.read(lambda tx: export(tx, file, Choice(), SecretMask(), str))
                yield await anyio.to_thread.run_sync(read_archive, file), report


def _salt(event: Event) -> str:
    return sha256_hex(repr(event).encode("utf-8", "surrogatepass"))[:32]


def _message(session_id: SessionId, number: int, message: ForeignMessage) -> Message:
    role = Role.USER if message.is_user else Role.ASSISTANT
    return Message(MessageId(f"msg_{session_id[4:]}_{number}"), role, (TextPart(message.text),))


def _pieces(text: str, most: int) -> Iterator[str]:
    """Yield a text in pieces that can be stored, cut before a heading, or else at a paragraph or a line."""
    text = text.strip()
    while len(text) > most:
        window = text[:most]
        cut = max(window.rfind("\n#"), 0) or max(window.rfind("\n\n"), 0) or max(window.rfind("\n"), 0)
        cut = cut if cut > most // 4 else most
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text
