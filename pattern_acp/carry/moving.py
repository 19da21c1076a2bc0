"""Moving a project from one constellation into another: writing it there, comparing it, and only then removing it here.

Owns: what belongs to a project beyond what an archive has, the order of the steps, and what removing is. Must not know:
how the user is asked, or which file belongs to which folder. Each step is one transaction of one file, and none depends
on anything but what the files say: a move that was cut off is finished by moving again.

What is written there is what an import of an archive writes, with deleted blocks, saved contents of files and jobs
besides. It is there when it makes the same records: the same CIDs. What is removed here loses its words in the journal,
as in a redaction, since the journal is append-only, and its rows altogether. A session's stream gets no further event
here, so that the session can come back with what was said elsewhere.
"""

import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import BinaryIO, LiteralString, cast

from msgspec import Struct
from msgspec.structs import asdict

from pattern_acp.carry.arrival import (
    Arrival,
    ArrivalSurroundings,
    ImportReport,
    Proposal,
    State,
    links_of,
    proposed,
    values_of,
)
from pattern_acp.carry.car import ArchiveReader, ArchiveWriter, cid_text, read_archive
from pattern_acp.carry.export import (
    BLOCK_KINDS,
    ENTRY_KINDS,
    NOT_OF_ROW,
    QUERIES,
    BlockRecord,
    Cells,
    ChainedEvent,
    Choice,
    Contents,
    EntryRecord,
    EventRecord,
    Export,
    SessionRecord,
    TaskListRecord,
    cells_of,
)
from pattern_acp.carry.task_lists import compare
from pattern_acp.db.backup import copies_of
from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import Database, Row, SqlValue, Transaction
from pattern_acp.db.table_rows import drop_rows
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import BlockId, SessionId
from pattern_acp.domain.errors import BlockError, PatternError
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.jobs.store import next_number
from pattern_acp.journal.codec import LeaseHeldError, kinds_of
from pattern_acp.journal.contents import read_content
from pattern_acp.journal.events import MOVE, EventsRedacted, MemoryForked, SessionCreated, TasksChanged
from pattern_acp.journal.leases import refuse_if_held, this_process
from pattern_acp.journal.reader import newest_event, redaction_digest, verify_stream
from pattern_acp.journal.redact import (
    PlannedRedaction,
    ReturnedEvent,
    digest_of,
    moved_events,
    plan_redaction,
    put_back,
    redact,
    was_moved,
)
from pattern_acp.journal.retention import blank, contents_of, drop_unnamed, plan_session
from pattern_acp.journal.sessions import mark_moved
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.archive import forget_entry
from pattern_acp.memory.blocks import BlockKey, Scope, fork_in, lasting_owner
from pattern_acp.memory.forget import clean_indexes
from pattern_acp.memory.forks import stored_block
from pattern_acp.memory.history import read_history
from pattern_acp.memory.recall import remove_source
from pattern_acp.memory.store import load_block
from pattern_acp.session.stored import index_session

_JOB_EVENTS = ("quoted_seq", "agreed_seq", "settled_seq", "last_seq")
"""Columns of a job that are events of its session."""

_ABOUT_ITEMS = (*BLOCK_KINDS, *ENTRY_KINDS, TasksChanged)
"""Events about a block, an entry or a list of tasks, which their `item` names."""

_OF_ANY_PROJECT = frozenset(kinds_of((SessionCreated, MemoryForked)))
"""Kinds of events that may be about a project though nothing of it is named by them."""

_ATTEMPTS = 8
"""Reads of a project that changes meanwhile."""

_SETTINGS = ("description", "char_limit", "permission", "pinned", "tier")

_OF_BLOCKS = (
    ("block_updates", "block_id"),
    ("block_archives", "block_id"),
    ("block_shares", "block_id"),
    ("memory_files", "block_id"),
    ("forked_blocks", "block_id"),
    ("forked_blocks", "origin"),
    ("blocks", "id"),
)
_OF_TASKS = (("task_files", "task_id"), ("task_turns", "task_id"), ("task_edges", "source"))
_OF_LISTS = (("tasks", "list_id"), ("task_updates", "list_id"), ("task_lists", "id"))
_OF_SESSIONS = (
    ("jobs", "session_id"),
    ("usage", "session_id"),
    ("claims", "session_id"),
    ("leases", "session_id"),
    ("task_turns", "session_id"),
    ("sync_sessions", "session_id"),
)
"""Tables with the column that names what is removed, in the order in which rows refer to each other."""


class MoveRefusedError(PatternError):
    """A project cannot be moved now. Nothing was removed."""

    failure_code = "carry.move-refused"


class JobRecord(Struct, frozen=True):
    """An agreed job of a session: its row and its holds, with the place of each event in the session."""

    row: Cells
    places: tuple[int | None, ...]
    """Those of `_JOB_EVENTS`."""
    holds: tuple[tuple[int, Cells], ...]


class SavedFileRecord(Struct, frozen=True):
    """A stored content of a file, as it is packed."""

    hash: str
    size: int
    encoding: str
    data: bytes


class ProjectContents(Contents, frozen=True):
    """The root of the archive of a project that moves: links to records beyond those of other archives, in pages."""

    deleted: tuple[bytes, ...] = ()
    """Deleted blocks that can be restored."""
    jobs: tuple[bytes, ...] = ()
    files: tuple[bytes, ...] = ()


class Moved(Struct):
    """The things of a project: how many of each kind there are, and the sessions that stay, with a sentence each."""

    root: str = ""
    blocks: int = 0
    entries: int = 0
    tasks: int = 0
    sessions: int = 0
    jobs: int = 0
    files: int = 0
    """Contents of files that checkpoints need."""
    events: int = 0
    stays: tuple[str, ...] = ()
    left: str = ""
    """A sentence on permissions, trust and shared blocks, which stay too."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to move."""
        return not (self.blocks or self.entries or self.tasks or self.sessions)


class MoveReport(Struct, frozen=True):
    """The outcome of a move.

    `same` counts the records that are there exactly as they were here, `merged` those that joined what was there.
    `is_clean` is False when other processes prevented the file from being written again, and `copies` are files beside
    it that still have what moved.
    """

    moved: Moved
    same: int = 0
    merged: int = 0
    notes: tuple[str, ...] = ()
    is_clean: bool = True
    copies: tuple[str, ...] = ()


class MovingProject(Struct, frozen=True):
    """The project to move: its key, the name of the constellation it goes to, and how a folder becomes a key."""

    key: str
    name: str
    target: str
    project_of: Callable[[str], str]


class ProjectExport(Export):
    """The writing of an archive with all of a project."""

    def __init__(self, tx: Transaction, file: BinaryIO, project: MovingProject) -> None:
        project_of = functools.cache(project.project_of)
        super().__init__(tx, ArchiveWriter(file), Choice(project=project.key), None, project_of)
        self.links: set[bytes] = set()
        """The CIDs of all records."""
        self.chosen: list[str] = []
        """The sessions."""
        self.moved = Moved()

    def export(self) -> Moved:
        """Write all of it; what there is.

        Raises:
            MoveRefusedError: something of it is damaged, or its memory is forked.
            JournalError: an event cannot be read.
        """
        self._refuse_forks()
        found, report = self.moved, self.run()
        if report.left_out:
            raise MoveRefusedError(
                f"The project cannot be moved as long as something of it is damaged: {report.left_out[0]} "
                "`pattern-acp doctor --verify` shows what can be repaired."
            )
        found.root, found.events = report.root, report.events
        found.blocks += report.blocks
        found.entries, found.tasks, found.sessions = report.entries, report.tasks, report.sessions
        found.left = "" if found.is_empty else self._left()
        return found

    def _refuse_forks(self) -> None:
        owners = [text(row[0]) for row in self._tx.all(QUERIES["owners_of_blocks"])]
        for fork in sorted({fork_in(owner) for owner in owners if lasting_owner(owner) == self._choice.project} - {""}):
            row = self._tx.one(QUERIES["beginning_of_fork"], {"fork": fork})
            if row is not None and row[1] == 0:
                raise MoveRefusedError(
                    f"A worker of session {text(row[0])} has learned something of the project that has not landed. "
                    "Open that session, let it land or end it with `/workers stop NAME`, close the session, and move "
                    "again."
                )
            where = "A session" if row is None else f"Session {text(row[0])}"
            raise MoveRefusedError(
                f"{where} has forked the memory of the project; /merge or /discard it there, and move again."
            )

    def _left(self) -> str:
        """Say what belongs to the project and does not move: it is an answer of the user in this constellation."""
        owned: dict[str, SqlValue] = {"project": self._choice.project}
        counts = [integer(cell) for cell in (self._tx.one(QUERIES["left_of_project"], owned) or (0, 0))]
        nouns = ("standing permission", "block that others share with it")
        left = [plural(count, noun) for count, noun in zip(counts, nouns, strict=True) if count]
        roots = [text(row[0]) for row in self._tx.all(QUERIES["trusted_folders"])]
        left += [f"the trust in {root}" for root in roots if self._project_of(root) == self._choice.project]
        return f"These stay; allow, share and trust again there: {', '.join(left)}." if left else ""

    def _put(self, record: Struct) -> bytes:
        link = super()._put(record)
        self.links.add(link)
        return link

    def _root(self, contents: Contents) -> Contents:
        deleted = [self._put(one) for one in self._blocks_in(QUERIES["deleted_blocks"])]
        jobs = [self._put(one) for session in self.chosen for one in self._jobs(session)]
        digests = {digest for session in self.chosen for digest in contents_of(self._tx, session)}
        files = [self._put(one) for digest in sorted(digests) for one in self._files(digest)]
        found = self.moved
        found.blocks, found.jobs, found.files = len(deleted), len(jobs), len(files)
        links = (self._pages(each) for each in (deleted, jobs, files))
        return ProjectContents(*asdict(contents).values(), *links)

    def _blocks(self) -> Iterator[BlockRecord]:
        return self._blocks_in(QUERIES["written_blocks"])

    def _blocks_in(self, query: LiteralString) -> Iterator[BlockRecord]:
        for row in self._tx.all(query, {"owner": self._choice.project}):
            stored = stored_block(self._tx, text(row[0]))
            if stored is None:
                continue
            key = stored.block.key
            try:
                # The text of a deleted one is checked by nobody else.
                block = stored.block if stored.deleted else load_block(self._tx, key)
                record = self._block(block.id, read_history(self._tx, block))
            except BlockError as error:
                self.report.left_out.append(f"The memory block {key.label}: {error.sentence}")
                continue
            if record is not None:
                yield record

    def _sessions(self) -> Iterator[SessionRecord]:
        rows = {text(row[0]): row for row in self._tx.all(QUERIES["sessions_with_deleted"])}
        families = _families(rows)
        stays: list[str] = []
        for session, row in rows.items():
            if not self._wants(row):
                continue
            other = next((one for one in families[session] if not self._wants(rows[one])), "")
            if other:
                stays.append(f"The session {session} stays: it shares history with {other} of another project.")
            else:
                self.chosen.append(session)
        self.moved.stays = tuple(stays)
        # Parents first: a fork is at an event of theirs.
        for session in sorted(self.chosen, key=lambda one: (_depth(one, rows), one)):
            yield self._session(session)

    def _jobs(self, session: str) -> Iterator[JobRecord]:
        for row in self._rows("jobs", "session_id", session):
            holds = self._rows("job_holds", "job_id", text(row["id"]))
            yield JobRecord(
                cells_of(row, frozenset(_JOB_EVENTS)),
                tuple(self._place(row[name]) for name in _JOB_EVENTS),
                tuple((self._place(hold["last_seq"]) or 0, cells_of(hold, NOT_OF_ROW)) for hold in holds),
            )

    def _place(self, seq: SqlValue) -> int | None:
        row = None if seq is None else self._tx.one(QUERIES["place_of"], {"seq": integer(seq)})
        return None if row is None else integer(row[0])

    def _files(self, digest: str) -> Iterator[SavedFileRecord]:
        for row in self._rows("file_contents", "hash", digest):
            yield SavedFileRecord(digest, integer(row["size"]), text(row["encoding"]), data(row["content"]))


def _families(rows: dict[str, Row]) -> dict[str, Sequence[str]]:
    """Return the sessions of each session that are forks of each other."""
    families: dict[str, list[str]] = {session: [session] for session in rows}
    for session, row in rows.items():
        if row[4] is not None and (parent := text(row[4])) in rows and families[parent] is not families[session]:
            families[parent] += families[session]
            for one in families[session]:
                families[one] = families[parent]
    return {session: tuple(family) for session, family in families.items()}


def _depth(session: str, rows: dict[str, Row]) -> int:
    depth = 0
    while session in rows and (parent := rows[session][4]) is not None:
        session, depth = text(parent), depth + 1
    return depth


class _ProjectSurroundings(ArrivalSurroundings):
    """The comparison of what moves with what is there: all of it is the user's, and nothing gives way to a likeness."""

    def of_moved(self, state: State, about: str) -> tuple[State, str]:
        return ("changed", "it comes back") if state == "known" else (state, about)

    def is_same_entry(self, scope: Scope, owner: str, said: str) -> bool:
        del scope, owner, said
        return False

    def apart(
        self, item: str, events: Sequence[EventRecord], kinds: Sequence[type]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """The hashes of the events about a block or entry that are not there, and of those that are only there."""
        asked = {"item": item, "kinds": _json(kinds_of(kinds)), "store": self.store}
        there = frozenset(text(row[3]) for row in self.tx.all(QUERIES["events_about"], asked))
        brought = frozenset(one.hash for one in events)
        return brought - there, there - brought

    def of_block_apart(self, record: BlockRecord) -> tuple[frozenset[str], frozenset[str]]:
        """The result of `apart` for a block."""
        return self.apart(str(record.row["id"]), [one.event for one in self.block_events(record)], BLOCK_KINDS)

    def of_entry_apart(self, record: EntryRecord) -> tuple[frozenset[str], frozenset[str]]:
        """The result of `apart` for an entry."""
        return self.apart(str(record.row["id"]), record.events, ENTRY_KINDS)


class _ProjectArrival(Arrival):
    """The writing of a project into its constellation, inside one transaction."""

    again = "move again"

    def __init__(
        self, tx: Transaction, archive: ArchiveReader, contents: ProjectContents, now_ms: int, report: ImportReport
    ) -> None:
        super().__init__(tx, archive, {}, {}, now_ms, report)
        self._here = _ProjectSurroundings(tx, archive, {})
        self._contents = contents
        self._found = proposed(self._here)
        self._chosen = {one.number: "both" for one in self._found}

    def run(self) -> None:
        """Write what is not there yet.

        Raises:
            MoveRefusedError: something is there in a state that it cannot join.
            ArchiveDamagedError: a record is not sound.
        """
        for one in self._found:
            if one.state == "gone":
                raise MoveRefusedError(f"The {one.kind} “{one.name}” cannot be moved: {one.about} there.")
        wanted = [one for one in self._found if one.is_open]
        if wanted or any(self._missing_records()):
            self.store(wanted)

    def _free_key(self, key: BlockKey, proposal: Proposal) -> BlockKey:
        free = super()._free_key(key, proposal)
        self._report.notes[-1] = f"The block {key.label} is {free.label} there, where another one has its label."
        return free

    def _missing_records(self) -> Iterator[bytes]:
        """Yield the links to deleted blocks, jobs and files that are not there."""
        archive, contents, tx = self._here.archive, self._contents, self._tx
        for cid in links_of(archive, contents.deleted):
            if not tx.one(QUERIES["block_of_id"], {"id": str(archive.read(cid, BlockRecord).row["id"])}):
                yield cid
        for cid in links_of(archive, contents.jobs):
            if not tx.one(QUERIES["is_job"], {"id": str(archive.read(cid, JobRecord).row["id"])}):
                yield cid
        for cid in links_of(archive, contents.files):
            if not tx.one(QUERIES["is_content"], {"hash": archive.read(cid, SavedFileRecord).hash}):
                yield cid

    def _finish(self) -> int:
        archive, contents, missing = self._here.archive, self._contents, set(self._missing_records())
        for cid in links_of(archive, contents.deleted):
            if cid in missing:
                record = archive.read(cid, BlockRecord)
                scope, owner = self._here.owner(record.row)
                block_id, key = BlockId(str(record.row["id"])), BlockKey(scope, owner, str(record.row["label"]))
                self._verbatim(key, block_id, record, deleted=True)
                self._blocks[block_id] = key.label
                self._report.blocks += 1
        seq = super()._finish()
        for cid in links_of(archive, contents.files):
            if cid in missing:
                one = archive.read(cid, SavedFileRecord)
                row: dict[str, SqlValue] = {
                    "hash": one.hash,
                    "size": one.size,
                    "encoding": one.encoding,
                    "content": one.data,
                    "last_seq": seq,
                }
                self._put("file_contents", [row], replace=False)
        for cid in links_of(archive, contents.jobs):
            if cid in missing:
                self._job(archive.read(cid, JobRecord))
        return seq

    def _job(self, record: JobRecord) -> None:
        row, session = values_of(record.row), str(record.row["session_id"])
        if self._tx.one(QUERIES["is_job_number"], {"number": row["number"]}):
            row["number"] = next_number(self._tx)
            self._report.notes.append(f"The job #{record.row['number']} is #{row['number']} there.")
        events = (None if place is None else self._seq_at(session, place) for place in record.places)
        self._put("jobs", [{**row, **dict(zip(_JOB_EVENTS, events, strict=True))}])
        # A part of a job refers to what it is a part of.
        for place, hold in sorted(record.holds, key=lambda one: (one[1]["parent"] is not None, str(one[1]["node"]))):
            self._put("job_holds", [{**values_of(hold), "last_seq": self._seq_at(session, place)}])

    def _seq_at(self, session: str, place: int) -> int:
        row = self._tx.one(QUERIES["event_at"], {"stream": session, "place": place})
        if row is None:
            raise LookupError(f"event {place} of session {session} is missing")
        return integer(row[0])

    def _store_session(self, record: SessionRecord, known: int) -> None:
        session, tx = str(record.row["id"]), self._tx
        gone = moved_events(tx, session) if known else {}
        blanked = self._here.is_moved(session)
        if blanked:
            digest = redaction_digest([(one.seq, sha256_hex(one.canonical)) for one in self._returned(record, gone)])
            event = EventsRedacted("They are back from another constellation.", len(gone), 0, digest, MOVE)
            audit = append(
                tx,
                CONSTELLATION_STREAM,
                event,
                actor=Actor.HUMAN,
                origin=Origin.PERSON,
                at_ms=self._now_ms,
            )
            put_back(tx, self._returned(record, gone), audit_seq=audit.seq, at_ms=self._now_ms)
        super()._store_session(record, known)
        if blanked:
            used = [(at, cells) for at, cells in record.usage if at <= known]
            self._put("usage", [{**values_of(cells), "last_seq": self._seq_at(session, at)} for at, cells in used])
        if record.row["deleted"]:
            remove_source(tx, session)

    def _returned(self, record: SessionRecord, gone: dict[int, int]) -> Iterator[ReturnedEvent]:
        for page in record.events:
            for one in self._here.archive.read(page, list[ChainedEvent]):
                if one.session_seq in gone:
                    yield ReturnedEvent(gone[one.session_seq], one.event.payload, one.salt)


def arrive(tx: Transaction, archive: ArchiveReader, *, now_ms: int) -> ImportReport:
    """Write a project into its constellation; nothing of it that is there already is written again.

    Raises:
        MoveRefusedError: something is there in a state that it cannot join.
        ArchiveDamagedError: a record is not sound; nothing was stored.
    """
    report, contents = ImportReport(cid_text(archive.root)), archive.read(archive.root, ProjectContents)
    _remove_older(tx, archive, contents, now_ms)
    _ProjectArrival(tx, archive, contents, now_ms, report).run()
    return report


def _remove_older(tx: Transaction, archive: ArchiveReader, contents: ProjectContents, now_ms: int) -> None:
    """Remove copies that a move which was cut off left, and that only the source changed since: they come again."""
    here = _ProjectSurroundings(tx, archive, {})
    blocks: list[str] = []
    entries: list[str] = []
    for cid in (*links_of(archive, contents.blocks), *links_of(archive, contents.deleted)):
        record = archive.read(cid, BlockRecord)
        block_id = str(record.row["id"])
        missing, only_there = here.of_block_apart(record)
        if missing and not only_there and tx.one(QUERIES["block_of_id"], {"id": block_id}):
            blocks.append(block_id)
    for cid in links_of(archive, contents.entries):
        record = archive.read(cid, EntryRecord)
        entry_id = str(record.row["id"])
        missing, only_there = here.of_entry_apart(record)
        if missing and not only_there and tx.one(QUERIES["is_entry"], {"id": entry_id}):
            entries.append(entry_id)
    if blocks or entries:
        tx.overwrite_deleted()
        older = _Owned(blocks, entries)
        removal = _Removal(tx, "A newer copy came from another constellation.", now_ms, older)
        removal.carry_out(_planned(tx, (), older), frozenset())
        clean_indexes(tx)
    for cid in links_of(archive, contents.jobs):
        _remove_older_job(tx, archive.read(cid, JobRecord))
    _forget_there(tx, archive, contents, now_ms)


def _forget_there(tx: Transaction, archive: ArchiveReader, contents: ProjectContents, now_ms: int) -> None:
    """Take out of copies of sessions the words that were forgotten in the source since."""
    planned: list[PlannedRedaction] = []
    sessions: dict[str, str] = {}
    for cid in links_of(archive, contents.sessions):
        record = archive.read(cid, SessionRecord)
        session = str(record.row["id"])
        for one in (one for page in record.events for one in archive.read(page, list[ChainedEvent]) if one.masked):
            asked: dict[str, SqlValue] = {"stream": session, "place": one.session_seq, "hash": one.hash}
            row = tx.one(QUERIES["whole_event_at"], asked)
            if row is not None:
                planned.append(PlannedRedaction(integer(row[0]), session, one.event.payload, None))
                sessions[session] = str(record.row["cwd"])
    if not planned:
        return
    tx.overwrite_deleted()
    event = EventsRedacted("They were forgotten where they came from.", len(planned), 0, digest_of(planned), "import")
    audit = append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now_ms)
    redact(tx, planned, audit_seq=audit.seq, at_ms=now_ms)
    for session, cwd in sessions.items():
        remove_source(tx, session)
        index_session(tx, session, cwd)
    clean_indexes(tx)


def _remove_older_job(tx: Transaction, record: JobRecord) -> None:
    """Remove a copy of a job of which the source has more; one that continued there stays."""
    job = str(record.row["id"])
    row = tx.one(QUERIES["place_of_job"], {"id": job})
    newest = max(place or 0 for place in (record.places[-1], *(place for place, _ in record.holds)))
    if row is not None and row[0] is not None and integer(row[0]) < newest:
        drop_rows(tx, "job_holds", "job_id", [job])
        drop_rows(tx, "jobs", "id", [job])


def compare_there(tx: Transaction, archive: ArchiveReader, project: MovingProject) -> tuple[int, int]:
    """Compare a project with the archive that brought it: how many records are the same, and how many were merged.

    Raises:
        MoveRefusedError: something is not there, or not as it was.
    """
    with open(os.devnull, "wb") as nowhere:
        there = ProjectExport(tx, nowhere, project)
        there.export()
    comparison = _Comparison(tx, archive)
    for session in there.chosen:
        chain = verify_stream(tx, session)
        if not chain.ok:
            raise MoveRefusedError(f"The session {session} did not arrive as it was: {chain.problem}.")
    same = merged = 0
    for cid, arrived in comparison.records():
        if cid in there.links:
            same += 1
        elif arrived():
            merged += 1
        else:
            raise MoveRefusedError(
                f"The record {cid_text(cid)} is not in {project.target} as it is here, so nothing was removed; "
                "move the project again."
            )
    return same, merged


class _Comparison:
    """Comparison of an archive with a constellation, which may have more."""

    def __init__(self, tx: Transaction, archive: ArchiveReader) -> None:
        self._tx = tx
        self._archive = archive
        self._here = _ProjectSurroundings(tx, archive, {})
        self._contents = archive.read(archive.root, ProjectContents)

    def records(self) -> Iterator[tuple[bytes, Callable[[], bool]]]:
        """Yield the link to each record, with what tells whether all it says is there."""
        contents = self._contents
        kinds: tuple[tuple[tuple[bytes, ...], Callable[[bytes], bool]], ...] = (
            (contents.blocks, self._has_block),
            (contents.deleted, partial(self._has_block, deleted=1)),
            (contents.entries, self._has_entry),
            (contents.tasks, self._has_tasks),
            (contents.sessions, self._has_session),
            (contents.sources, self._has_source),
            (contents.jobs, self._has_job),
            (contents.files, self._has_file),
        )
        for pages, arrived in kinds:
            for cid in links_of(self._archive, pages):
                yield cid, partial(arrived, cid)

    def _has_block(self, cid: bytes, deleted: int = 0) -> bool:
        record = self._archive.read(cid, BlockRecord)
        missing, _ = self._here.of_block_apart(record)
        if not missing:
            return True
        block_id = str(record.row["id"])
        writes = [one for one in self._here.block_events(record) if one.write is not None and one.write.get("data")]
        if not writes or not all(self._here.has_write(block_id, one) for one in writes):
            return False
        settings = self._tx.one(QUERIES["settings_of_block"], {"id": block_id})
        if settings != (*(record.row[name] for name in _SETTINGS), deleted):
            raise MoveRefusedError(
                f"The memory block {record.row['label']} was changed in both places, and its settings differ, or it is "
                "deleted in one of them. Make it the same in both, and move again; nothing was removed."
            )
        return True

    def _has_entry(self, cid: bytes) -> bool:
        record = self._archive.read(cid, EntryRecord)
        entry_id = str(record.row["id"])
        if not self._tx.one(QUERIES["is_entry"], {"id": entry_id}):
            return False
        missing, _ = self._here.of_entry_apart(record)
        status = self._tx.one(QUERIES["status_of_entry"], {"id": entry_id})
        if missing and record.bound is not None and status != (record.bound["status"],):
            raise MoveRefusedError(
                f"The {record.bound['kind']} “{one_line(str(record.row['text']), 60)}” was changed in both places, and "
                "its status differs. Give it the same in both, and move again; nothing was removed."
            )
        return True

    def _has_tasks(self, cid: bytes) -> bool:
        record = self._archive.read(cid, TaskListRecord)
        return not compare(self._tx, record.id, self._here.updates(record)).is_new

    def _has_session(self, cid: bytes) -> bool:
        return self._here.of_session(cid).state == "known"

    def _has_source(self, cid: bytes) -> bool:
        del cid
        # One that is there has the same identity, which is the hash of what it says; its note is the user's there.
        return True

    def _has_job(self, cid: bytes) -> bool:
        record = self._archive.read(cid, JobRecord)
        return self._tx.one(QUERIES["is_job"], {"id": str(record.row["id"])}) is not None

    def _has_file(self, cid: bytes) -> bool:
        return read_content(self._tx, self._archive.read(cid, SavedFileRecord).hash) is not None


def refuse_if_in_use(tx: Transaction, project: MovingProject, sessions: Sequence[str], now_ms: int) -> None:
    """Nothing, unless a session of the project is open somewhere. Raises MoveRefusedError where one is, and which."""
    holder = this_process("move")
    for session in sessions:
        try:
            refuse_if_held(tx, SessionId(session), holder, now_ms, remedy="close it there, and move again")
        except LeaseHeldError as error:
            raise MoveRefusedError(f"{project.name} cannot be moved now. {error.sentence}") from error


class Removable(Struct, frozen=True):
    """A project that can be removed: the root of its archive, and all that removing it needs to know.

    It was read without the lock of those who write; `upto` is the newest event at that moment.
    """

    root: str
    upto: int
    sessions: tuple[str, ...]
    named: frozenset[str]
    """Hashes of the contents of files that its sessions name."""
    planned: tuple[PlannedRedaction, ...]


def removable(tx: Transaction, project: MovingProject) -> Removable:
    """Read what there is to remove of a project, which takes as long as exporting it.

    Raises:
        MoveRefusedError: it cannot be moved now, and why.
    """
    with open(os.devnull, "wb") as nowhere:
        here = ProjectExport(tx, nowhere, project)
        root = here.export().root
    sessions = tuple(here.chosen)
    named = frozenset(digest for session in sessions for digest in contents_of(tx, session))
    return Removable(root, newest_event(tx), sessions, named, _planned(tx, sessions, _owned(tx, project)))


def remove(tx: Transaction, project: MovingProject, found: Removable, *, now_ms: int) -> bool:
    """Remove the project; False: something of it may have changed since it was read, and it is to be read again.

    Raises:
        MoveRefusedError: a session of it was opened.
        DatabaseError: the constellation cannot be written.
    """
    owned = _owned(tx, project)
    if _may_have_changed(tx, found, owned):
        return False
    refuse_if_in_use(tx, project, found.sessions, now_ms)
    tx.overwrite_deleted()
    reason = f"{project.name} was moved to the constellation {project.target}."
    _Removal(tx, reason, now_ms, owned, found.sessions).carry_out(found.planned, found.named)
    tx.execute(QUERIES["drop_cursors"], {"project": project.key})
    return True


class _Owned(Struct, frozen=True):
    """The ids of things of a project that are no sessions."""

    blocks: Sequence[str] = ()
    entries: Sequence[str] = ()
    lists: Sequence[str] = ()

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.blocks, *self.entries, *self.lists)


def _owned(tx: Transaction, project: MovingProject) -> _Owned:
    queries = (QUERIES["own_blocks"], QUERIES["own_entries"], QUERIES["own_lists"])
    return _Owned(*([text(row[0]) for row in tx.all(query, {"owner": project.key})] for query in queries))


def _may_have_changed(tx: Transaction, found: Removable, owned: _Owned) -> bool:
    """Tell whether an event since is about the project, or may be: those of other projects' sessions continue."""
    if newest_event(tx) == found.upto:
        return False
    if tx.one(QUERIES["redacted_since"], {"after": found.upto}):
        return True
    items, sessions, about = set(owned.all), set(found.sessions), set(kinds_of(_ABOUT_ITEMS))
    for row in tx.all(QUERIES["events_since"], {"after": found.upto}):
        stream, kind, item = text(row[0]), text(row[1]), text(row[2])
        if stream in sessions or kind in _OF_ANY_PROJECT:
            return True
        if item in items if kind in about else stream == CONSTELLATION_STREAM:
            return True
    return False


def _planned(tx: Transaction, sessions: Sequence[str], owned: _Owned) -> tuple[PlannedRedaction, ...]:
    """Return all events that lose their words: what sessions say, and what was done to memory and tasks."""
    planned = [one for session in sessions for one in plan_session(tx, session, after=0)]
    about = tx.all(QUERIES["all_about"], {"items": _json(owned.all), "kinds": _json(kinds_of(_ABOUT_ITEMS))})
    seqs = [integer(row[0]) for row in about]
    known = {one.seq for one in planned}
    return (*planned, *(one for one in plan_redaction(tx, seqs, blank) if one.seq not in known))


class _Removal:
    """The removal of things of a project, inside its transaction."""

    def __init__(self, tx: Transaction, reason: str, now_ms: int, owned: _Owned, sessions: Sequence[str] = ()) -> None:
        self._tx = tx
        self._reason = reason
        self._now_ms = now_ms
        self._owned = owned
        self._sessions = sessions

    def carry_out(self, planned: Sequence[PlannedRedaction], named: frozenset[str]) -> None:
        """Remove them; `named` are contents of files that go too if nothing else names them.

        `clean_indexes` has to follow.
        """
        tx, owned, sessions = self._tx, self._owned, self._sessions
        event = EventsRedacted(self._reason, len(planned), len(named), digest_of(planned), MOVE)
        seq = append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=self._now_ms).seq
        redact(tx, planned, audit_seq=seq, at_ms=self._now_ms)
        tasks = self._ids(QUERIES["tasks_of_list"], owned.lists)
        for source in (*owned.blocks, *tasks, *sessions):
            remove_source(tx, source)
        for entry in owned.entries:
            forget_entry(tx, entry, seq=seq)
        self._drop(_OF_BLOCKS, owned.blocks)
        self._drop(_OF_TASKS, tasks)
        self._drop(_OF_LISTS, owned.lists)
        self._drop((("job_holds", "job_id"),), self._ids(QUERIES["jobs_of"], sessions))
        self._drop(_OF_SESSIONS, sessions)
        for session in sessions:
            tx.execute(QUERIES["drop_session_grants"], {"id": session})
            mark_moved(tx, SessionId(session), seq=seq)
        drop_unnamed(tx, named)

    def _ids(self, query: LiteralString, of: Sequence[str]) -> list[str]:
        return [text(row[0]) for row in self._tx.all(query, {"ids": _json(of)})]

    def _drop(self, tables: Sequence[tuple[str, str]], values: Sequence[str]) -> None:
        for table, column in tables:
            drop_rows(self._tx, table, column, values)


def _json(values: Sequence[str]) -> str:
    return json.dumps(list(values))


async def preview(database: Database, project: MovingProject, *, now_ms: int) -> Moved:
    """The things of a project that would move. Raises MoveRefusedError where it cannot be moved now, and why."""
    return await database.read(lambda tx: _look(tx, project, now_ms))


def _look(tx: Transaction, project: MovingProject, now_ms: int) -> Moved:
    with open(os.devnull, "wb") as nowhere:
        return _export(nowhere, project, now_ms, tx)


def _export(file: BinaryIO, project: MovingProject, now_ms: int, tx: Transaction) -> Moved:
    writing = ProjectExport(tx, file, project)
    found = writing.export()
    refuse_if_in_use(tx, project, writing.chosen, now_ms)
    return found


async def move(source: Database, target: Database, project: MovingProject, *, now_ms: int) -> MoveReport:
    """Move a project from one constellation into another; one that was cut off before is finished.

    Raises:
        MoveRefusedError: it cannot be moved now, and why; what is in `source` is as it was.
        PatternError: a file cannot be read or written.
    """
    # A file without a name: nothing of it is left, however this ends.
    with tempfile.TemporaryFile(dir=source.path.parent) as file:
        found = await source.read(partial(_export, cast("BinaryIO", file), project, now_ms))
        if found.is_empty:
            return await _finished(source, MoveReport(found))
        archive = read_archive(cast("BinaryIO", file))
        report = await target.write(lambda tx: arrive(tx, archive, now_ms=now_ms))
        same, merged = await target.read(lambda tx: compare_there(tx, archive, project))
    await _remove(source, project, found.root, now_ms)
    return await _finished(source, MoveReport(found, same, merged, tuple(report.notes)))


async def _remove(source: Database, project: MovingProject, root: str, now_ms: int) -> None:
    """Remove the project, reading it in snapshots: other windows write meanwhile, and wait for the removal alone.

    Raises:
        MoveRefusedError: it was changed, or is being used.
        DatabaseError: the constellation cannot be read or written.
    """
    for _ in range(_ATTEMPTS):
        found = await source.read(partial(removable, project=project))
        if found.root != root:
            break
        if await source.write(partial(remove, project=project, found=found, now_ms=now_ms)):
            return
    raise MoveRefusedError(f"{project.name} was changed while it was moved, and is in both places now; move it again.")


async def _finished(source: Database, report: MoveReport) -> MoveReport:
    """Write the file again, from which something was moved now or before: a kill may have come in between."""
    if not await source.read(was_moved):
        return report
    await source.write(clean_indexes)
    is_clean = await source.rewrite()
    copies = tuple(str(one) for one in copies_of(source.path))
    return MoveReport(report.moved, report.same, report.merged, report.notes, is_clean, copies)
