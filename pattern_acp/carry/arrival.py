"""Taking over what an archive brings: what of it is new here, and storing what the user accepted.

Owns: comparing records with this constellation, and storing them with where they came from. Must not know: how the user
is asked. All of an import is one transaction: it is here as a whole or not at all. What was stored is then checked by
what checks our own memory and sessions, so that an archive cannot bring anything that `doctor --verify` would complain
about.
"""

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Literal, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Struct, field

from pattern_acp.carry.car import ArchiveDamagedError, ArchiveReader, cid_text
from pattern_acp.carry.export import (
    BLOCK_KINDS,
    ENTRY_KINDS,
    FORM,
    FORMAT,
    QUERIES,
    BlockEvent,
    BlockRecord,
    Cells,
    ChainedEvent,
    Contents,
    EntryRecord,
    EventRecord,
    SessionRecord,
    SourceRecord,
    TaskListRecord,
    TaskUpdate,
    store_id,
)
from pattern_acp.carry.task_lists import check_updates, compare, merge_list, store_list
from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.migrate import load_migrations
from pattern_acp.db.table_rows import columns_of, put_rows
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject, sha256_hex
from pattern_acp.domain.clock import BlockId, SessionId
from pattern_acp.domain.errors import BlockError, DatabaseError, JournalError, PatternError, TaskError
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.journal.codec import EncodedEvent, decode, item_of
from pattern_acp.journal.events import ArchiveImported, BlockDeleted, Event, EventsRedacted
from pattern_acp.journal.history import read_history as read_session
from pattern_acp.journal.leases import refuse_if_held, this_process
from pattern_acp.journal.reader import newest_event, origins_digest, redaction_digest, verify_stream
from pattern_acp.journal.sessions import MOVED_AWAY, cwd_key
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append, append_copy, append_stored
from pattern_acp.memory.archive import find_same, index_copied
from pattern_acp.memory.block_loader import READING_PEER, text_hash
from pattern_acp.memory.blocks import Block, BlockKey, Permission, Scope, Tier
from pattern_acp.memory.configuring import propose_deletion, store_mark
from pattern_acp.memory.document import EMPTY_FRONTIERS, BlockDocument
from pattern_acp.memory.edits import Operation, Patch, Rewrite, own_lines
from pattern_acp.memory.errors import LimitExceededError
from pattern_acp.memory.history import read_history
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.integrity import damaged_parts
from pattern_acp.memory.recall import remove_source
from pattern_acp.memory.schemas.types import TextSchema, decode_schema
from pattern_acp.memory.service.commit import block_event
from pattern_acp.memory.service.provenance import archive_mismatches, mismatches
from pattern_acp.memory.store import (
    NewBase,
    ProposedChange,
    WriteRecord,
    changed_block,
    load_block,
    load_whole,
    propose,
    propose_merge,
    store_change,
)
from pattern_acp.policy.decision import Mode
from pattern_acp.session.session_row_rebuild import ROW_KINDS, row_differences
from pattern_acp.session.stored import index_session
from pattern_acp.tasks.store import TaskWriter, give_own_numbers

T = TypeVar("T")

Conflicts: TypeAlias = Literal["mine", "theirs", "both"]

_SETTLED = 20_000
"""Rows of origins that one statement changes."""

State: TypeAlias = Literal["new", "changed", "conflict", "known", "gone"]


class NewerArchiveError(PatternError):
    """A newer pattern-acp wrote the archive."""

    failure_code = "carry.newer"


class Proposal(Struct, frozen=True):
    """One thing that an archive brings. `new`, `changed` and `conflict` can be accepted."""

    number: int
    kind: Literal["memory", "fact", "tasks", "session"]
    name: str
    whose: str
    """Persona, project or folder."""
    state: State
    about: str
    """Description, or the reason why it cannot be accepted."""
    stores: tuple[str, ...]
    """The constellations that it was recorded in."""
    cid: bytes
    differs: bool = False
    """True when both sides have something that the other has not."""

    @property
    def is_open(self) -> bool:
        """True when it can be accepted."""
        return self.state in {"new", "changed", "conflict"}


class ImportReport(Struct):
    """The outcome of an import."""

    root: str
    blocks: int = 0
    facts: int = 0
    tasks: int = 0
    sessions: int = 0
    events: int = 0
    kept_mine: int = 0
    """Blocks that stayed as they are here, since they differ."""
    notes: list[str] = field(default_factory=list[str])


def read_contents(archive: ArchiveReader) -> Contents:
    """The root of an archive.

    Raises:
        ArchiveDamagedError: it is not of the form of ours.
        NewerArchiveError: a newer pattern-acp wrote it.
    """
    contents = archive.read(archive.root, Contents)
    if contents.format != FORMAT:
        raise ArchiveDamagedError("The file is not an archive that pattern-acp export wrote.")
    if contents.form > FORM or contents.schema > load_migrations()[-1].version:
        raise NewerArchiveError("The archive is of a newer pattern-acp; upgrade this one and import it again.")
    return contents


def proposals(tx: Transaction, archive: ArchiveReader, projects: Mapping[str, str]) -> tuple[Proposal, ...]:
    """The content of an archive, and what of it is here; `projects` gives other keys to projects (memory/blocks.py).

    Raises:
        ArchiveDamagedError: a record is not of the form that it should have.
        NewerArchiveError: a newer pattern-acp wrote it.
    """
    return proposed(ArrivalSurroundings(tx, archive, projects))


def proposed(here: "ArrivalSurroundings") -> tuple[Proposal, ...]:
    """The content of an archive as it compares with what is there.

    Raises:
        ArchiveDamagedError: a record is not of the form that it should have.
        NewerArchiveError: a newer pattern-acp wrote it.
    """
    archive, contents = here.archive, read_contents(here.archive)
    found = [
        *(here.of_block(cid) for cid in links_of(archive, contents.blocks)),
        *(here.of_entry(cid) for cid in links_of(archive, contents.entries)),
        *(here.of_tasks(cid) for cid in links_of(archive, contents.tasks)),
        *(here.of_session(cid) for cid in links_of(archive, contents.sessions)),
    ]
    return tuple(msgspec.structs.replace(one, number=number) for number, one in enumerate(found, 1))


def accept(
    tx: Transaction,
    archive: ArchiveReader,
    projects: Mapping[str, str],
    chosen: Mapping[int, Conflicts],
    *,
    now_ms: int,
) -> ImportReport:
    """Store the proposals with these numbers, each with what becomes of it where it differs here.

    `mine` leaves a block as it is, `theirs` makes it read like the one of the archive, and `both` merges what was
    written on both sides, or gives a block that only has the same label another one.

    Raises:
        ArchiveDamagedError: a record is not sound; nothing was stored.
    """
    wanted = [one for one in proposals(tx, archive, projects) if one.is_open and one.number in chosen]
    report = ImportReport(cid_text(archive.root))
    if wanted:
        Arrival(tx, archive, projects, chosen, now_ms, report).store(wanted)
    return report


class ArrivalSurroundings:
    """Comparing records with what is here."""

    def __init__(self, tx: Transaction, archive: ArchiveReader, projects: Mapping[str, str]) -> None:
        self.tx = tx
        self.archive = archive
        self.projects = projects
        self.store = store_id(tx)

    def owner(self, row: Cells) -> tuple[Scope, str]:
        """The owner of a block or entry here."""
        try:
            scope, owner = Scope(_word(row, "scope")), _word(row, "owner")
        except ValueError as error:
            raise ArchiveDamagedError(f"A record of the archive belongs to nobody that is known ({error}).") from error
        return scope, self.projects.get(owner, owner) if scope is Scope.PROJECT else owner

    def is_known(self, event: EventRecord) -> bool:
        """Tell whether an event was recorded here, or came here before."""
        asked = {"seq": event.seq, "hash": event.hash}
        if event.store == self.store and self.tx.one(QUERIES["is_own_event"], asked):
            return True
        return self.tx.one(QUERIES["is_copied_event"], {"hash": event.hash}) is not None

    def has_write(self, block_id: str, one: BlockEvent) -> bool:
        """Tell whether a block has a write, by its event or by what it brought."""
        data = (one.write or {}).get("data")
        if self.is_known(one.event):
            return True
        asked: dict[str, SqlValue] = {"id": block_id, "data": data if isinstance(data, bytes) else None}
        if self.tx.one(QUERIES["has_update"], asked) is not None:
            return True
        is_creation = (one.write or {}).get("operation") == Operation.CREATE.value
        return is_creation and isinstance(data, bytes) and self._has_content(block_id, data)

    def _has_content(self, block_id: str, base: bytes) -> bool:
        """Tell whether all of the version that a history was cut at is in a block here, which has the same id."""
        row = self.tx.one(QUERIES["block_of_id"], {"id": block_id})
        if row is None or row[3] != 0:
            return False
        key = BlockKey(Scope(text(row[0])), text(row[1]), text(row[2]))
        try:
            return propose_merge(self.tx, key, base, Operation.CREATE, peer=READING_PEER) is None
        except BlockError:
            return False

    def is_moved(self, session: str) -> bool:
        """Tell whether a session was here and moved to another constellation."""
        row = self.tx.one(QUERIES["state_of_session"], {"id": session})
        return row is not None and row[0] == MOVED_AWAY

    def of_moved(self, state: State, about: str) -> tuple[State, str]:
        """The state, and what to say, of a session that moved away from here."""
        del about
        return ("known", "it moved to another constellation") if state == "known" else ("gone", "it moved away")

    def block_events(self, record: BlockRecord) -> list[BlockEvent]:
        """All events of a block."""
        return [one for page in record.events for one in self.archive.read(page, list[BlockEvent])]

    def of_block(self, cid: bytes) -> Proposal:
        """The proposal of a block."""
        record = self.archive.read(cid, BlockRecord)
        events, row = self.block_events(record), record.row
        scope, owner = self.owner(row)
        label = _word(row, "label")
        writes = [one for one in events if one.write is not None and one.write.get("data")]
        state: State = "new"
        differs = False
        about = f"{len(_word(row, 'text')):,} characters, {plural(len(writes), 'write')}"
        there = self.tx.one(QUERIES["block_of_id"], {"id": _word(row, "id")})
        if there is not None:
            new = sum(not self.has_write(_word(row, "id"), one) for one in writes)
            if there[3] == 0 and new:
                known = sum(self.is_known(one.event) for one in events if one.write)
                state, about, differs = "changed", f"{plural(new, 'write')} more than here", integer(there[4]) > known
                about += ", and it continued here too" if differs else ""
            elif there[3] == 0:
                state, about = "known", "as it is here"
            elif new:
                state, about = "gone", "it was deleted here; restore it first" if there[3] == 1 else "it was forgotten"
            else:
                state, about = "known", "it was deleted here"
        else:
            other = self.tx.one(QUERIES["block_of_label"], {"scope": scope, "owner": owner, "label": label})
            # A block that the program made itself, and nobody wrote to, gives way, or has nothing to bring.
            if other is not None and all(one.event.actor == Actor.SYSTEM for one in events):
                state, about = "known", "nobody has written to it"
            elif other is not None and other[1] == 1:
                state, about, differs = "conflict", "another block has this label here", True
        stores = tuple(dict.fromkeys(one.event.store for one in events))
        return Proposal(0, "memory", label, _whose(scope, owner), state, about, stores, cid, differs)

    def of_entry(self, cid: bytes) -> Proposal:
        """The proposal of a fact."""
        record = self.archive.read(cid, EntryRecord)
        scope, owner = self.owner(record.row)
        said = _word(record.row, "text")
        state: State = "new"
        about = _word(record.bound, "kind") if record.bound else "fact"
        if self.tx.one(QUERIES["is_entry"], {"id": _word(record.row, "id")}):
            state = "known"
        elif self.is_same_entry(scope, owner, said):
            state, about = "known", "memory says the same"
        stores = tuple(dict.fromkeys(one.store for one in record.events))
        return Proposal(0, "fact", one_line(said, 60), _whose(scope, owner), state, about, stores, cid)

    def is_same_entry(self, scope: Scope, owner: str, said: str) -> bool:
        """Tell whether another entry says the same, so that this one adds nothing."""
        return find_same(self.tx, scope, owner, said) is not None

    def of_tasks(self, cid: bytes) -> Proposal:
        """The proposal of a list of tasks."""
        record = self.archive.read(cid, TaskListRecord)
        updates = self.updates(record)
        with refusing("A list of tasks"):
            found = compare(self.tx, record.id, updates)
        scope, owner = self.owner({"scope": record.scope, "owner": record.owner})
        state: State = "known" if not found.is_new else "changed" if found.is_here else "new"
        stores = tuple(dict.fromkeys(one.event.store for one in updates))
        name, about = plural(found.tasks, "task"), f"{found.open} open"
        return Proposal(0, "tasks", name, _whose(scope, owner), state, about, stores, cid)

    def updates(self, record: TaskListRecord) -> list[TaskUpdate]:
        """All updates of a list of tasks."""
        return [one for page in record.updates for one in self.archive.read(page, list[TaskUpdate])]

    def of_session(self, cid: bytes) -> Proposal:
        """The proposal of a session."""
        record = self.archive.read(cid, SessionRecord)
        row = record.row
        hashes = [text(found[0]) for found in self.tx.all(QUERIES["hashes_of_session"], {"stream": _word(row, "id")})]
        theirs, stores = list[str](), dict[str, None]()
        for page in record.events:
            for one in self.archive.read(page, list[ChainedEvent]):
                theirs.append(one.hash)
                stores[one.event.store] = None
        state: State = "new"
        about = f"{len(theirs)} events"
        if hashes[: len(theirs)] == theirs:
            state, about = "known", "it is here"
        elif hashes and theirs[: len(hashes)] == hashes:
            state, about = "changed", f"{len(theirs) - len(hashes)} events more than here"
        elif hashes:
            state, about = "gone", "it continued in both places, and a session has one history; fork one of them"
        if state != "new" and self.is_moved(_word(row, "id")):
            state, about = self.of_moved(state, about)
        name = one_line(_word(row, "title") or _word(row, "id"), 60)
        return Proposal(0, "session", name, _word(row, "cwd"), state, about, tuple(stores), cid)


class Arrival:
    """One import, inside its transaction."""

    again = "import again"
    """The last words of a refusal: the step to take once nothing is in the way any more."""

    def __init__(
        self,
        tx: Transaction,
        archive: ArchiveReader,
        projects: Mapping[str, str],
        chosen: Mapping[int, Conflicts],
        now_ms: int,
        report: ImportReport,
    ) -> None:
        self._tx = tx
        self._here = ArrivalSurroundings(tx, archive, projects)
        self._chosen = chosen
        # Another one for each import: two machines that write as the same peer would part for ever.
        self._peer = int(sha256_hex(f"{self._here.store} {report.root} {now_ms}".encode())[:15], 16) or 1
        self._now_ms = now_ms
        self._report = report
        self._before = newest_event(tx)
        self._stores: dict[str, None] = {}
        self._blocks: dict[str, str] = {}
        self._facts: set[str] = set()
        self._masked: list[tuple[int, str]] = []

    def store(self, wanted: Sequence[Proposal]) -> None:
        """Store what is wanted, where it came from, and check all of it."""
        archive, report = self._here.archive, self._report
        self._check_here([one for one in wanted if one.kind == "memory" and one.state == "changed"])
        work = {"memory": self._block, "fact": self._entry, "tasks": self._tasks, "session": self._session}
        for one in wanted:
            with refusing(one.name):
                work[one.kind](one)
        seq = self._finish()
        if report.sessions:
            with refusing("The source of a definition"):
                self._sources(archive, seq)
        self._redact()
        read = archive.read
        self._check([_word(read(one.cid, SessionRecord).row, "id") for one in wanted if one.kind == "session"])

    def _finish(self) -> int:
        """Record the import and where each of its events came from; the number of its event."""
        report = self._report
        digest = origins_digest(self._tx.each(QUERIES["origins_after"], {"before": self._before}))
        event = ArchiveImported(report.root, tuple(self._stores), report.blocks, report.facts, report.sessions, digest)
        seq = self._append(event)
        for before in range(self._before, seq, _SETTLED):
            # The pages that one statement changes are in memory, for the case that it fails.
            rows: dict[str, SqlValue] = {"before": before, "upto": before + _SETTLED, "last_seq": seq}
            self._tx.execute(QUERIES["settle_origins"], rows)
        return seq

    def _append(self, event: Event) -> int:
        actor, origin = Actor.HUMAN, Origin.EDITOR
        return append(self._tx, CONSTELLATION_STREAM, event, actor=actor, origin=origin, at_ms=self._now_ms).seq

    def _carry(self, event: EventRecord, payload: JsonObject, item: str) -> int:
        """Append an event as it was recorded elsewhere, and note where that was."""
        if item_of(decode(event.kind, event.version, payload)) != event.item or event.item != item:
            raise ArchiveDamagedError(f"An event of kind {event.kind!r} in the archive is about something else.")
        appended = append_stored(
            self._tx,
            CONSTELLATION_STREAM,
            EncodedEvent(event.kind, event.version, payload),
            event.item,
            actor=Actor(event.actor),
            origin=Origin(event.origin),
            at_ms=event.at_ms,
        )
        self._came(appended.seq, event)
        return appended.seq

    def _came(self, seq: int, event: EventRecord) -> None:
        # In the table at once: a large archive has millions of them.
        row: dict[str, SqlValue] = {"seq": seq, "hash": event.hash, "store": event.store, "store_seq": event.seq}
        self._tx.execute(QUERIES["note_origin"], row)
        self._stores[event.store] = None
        self._report.events += 1

    def _block(self, proposal: Proposal) -> None:
        record = self._here.archive.read(proposal.cid, BlockRecord)
        scope, owner = self._here.owner(record.row)
        key = BlockKey(scope, owner, _word(record.row, "label"))
        block_id, conflicts = BlockId(_word(record.row, "id")), self._chosen[proposal.number]
        if proposal.differs and conflicts == "mine":
            self._report.kept_mine += 1
            return
        if proposal.state == "changed":
            self._merge(key, record, conflicts)
        else:
            if proposal.state == "conflict" and conflicts == "both":
                key = self._free_key(key, proposal)
            else:
                self._make_room(key)
            if record.base is None:
                self._verbatim(key, block_id, record)
            else:
                self._from_base(key, block_id, record, record.base)
                self._merge(key, record, conflicts)
        self._blocks[block_id] = key.label
        self._report.blocks += 1

    def _free_key(self, key: BlockKey, proposal: Proposal) -> BlockKey:
        store = (proposal.stores or ("elsewhere",))[0][:6]
        number, label = 1, f"{key.label[:50]}-{store}"
        while self._tx.one(QUERIES["block_of_label"], {"scope": key.scope, "owner": key.owner, "label": label}):
            number += 1
            label = f"{key.label[:50]}-{store}-{number}"
        self._report.notes.append(f"The block {key.label} of the archive is {label} here.")
        return msgspec.structs.replace(key, label=label)

    def _make_room(self, key: BlockKey) -> None:
        if not self._tx.one(QUERIES["block_of_label"], {"scope": key.scope, "owner": key.owner, "label": key.label}):
            return
        mark, reason = propose_deletion(self._tx, key), "It makes space for the one that was imported."
        facts = mark.as_change(READING_PEER).facts_hash
        event = BlockDeleted(
            mark.block.id, key.scope, key.owner, key.label, reason, text_hash(mark.block.text), None, facts
        )
        record = WriteRecord(self._append(event), Actor.HUMAN, Origin.EDITOR, reason, self._now_ms)
        store_mark(self._tx, mark, record, peer=READING_PEER)
        remove_source(self._tx, mark.block.id)
        self._blocks[mark.block.id] = key.label

    def _verbatim(self, key: BlockKey, block_id: BlockId, record: BlockRecord, *, deleted: bool = False) -> None:
        """Store a block with every event and row as it was elsewhere, which makes the same archive again."""
        tx, updates = self._tx, list[bytes]()
        rows: list[dict[str, SqlValue]] = []
        base_at = last = 0
        history_from = _number(record.row, "history_from")
        for one in self._here.block_events(record):
            seq = self._carry(one.event, self._addressed(one.event, key, BLOCK_KINDS), block_id)
            if one.event.kind != "block_forgotten" or one.write is not None:
                last = seq
            if one.write is None:
                continue
            row = {**values_of(one.write), "block_id": block_id, "last_seq": seq}
            rows.append(row)
            if row.get("data") and integer(row["number"]) >= history_from:
                updates.append(cast("bytes", row["data"]))
                base_at = len(rows)
        schema = decode_schema(_word(record.row, "schema"))
        document = BlockDocument.load(key.label, updates, peer=READING_PEER, schema=schema)
        block = {
            **values_of(record.row),
            "scope": key.scope.value,
            "owner": key.owner,
            "label": key.label,
            "base": document.shallow_snapshot(),
            "base_update": base_at,
            "deleted": int(deleted),
            "last_seq": last,
        }
        self._put("blocks", [block])
        self._put("block_updates", rows)
        archive: dict[str, SqlValue] = {
            "block_id": block_id,
            "upto": base_at,
            "snapshot": document.full_snapshot(),
            "last_seq": rows[base_at - 1]["last_seq"],
        }
        self._put("block_archives", [archive])
        if not deleted:
            index_block(tx, load_whole(tx, key), at_ms=_number(record.row, "updated_ms"), seq=last)

    def _from_base(self, key: BlockKey, block_id: BlockId, record: BlockRecord, base: bytes) -> None:
        """Create a block from the version that its history was cut at."""
        row = record.row
        block = Block(
            block_id,
            key,
            _word(row, "description"),
            _number(row, "char_limit"),
            text="",
            updated_ms=0,
            head_update=0,
            schema=decode_schema(_word(row, "schema")),
            permission=Permission(_word(row, "permission")),
            pinned=_number(row, "pinned") == 1,
            tier=Tier(_word(row, "tier")),
        )
        document = BlockDocument.load(key.label, [base], peer=READING_PEER, schema=block.schema)
        change = ProposedChange(
            block,
            Operation.CREATE,
            document.text,
            base,
            READING_PEER,
            EMPTY_FRONTIERS,
            document.frontiers,
            NewBase(document.shallow_snapshot(), document.full_snapshot()),
        )
        reason = "What was written before stayed where it came from."
        self._commit(change, reason, Actor.IMPORT, Origin.WORKSPACE, self._now_ms, None)

    def _merge(self, key: BlockKey, record: BlockRecord, conflicts: Conflicts) -> None:
        """Take over the writes that are not here, each as a write of its own."""
        theirs = _word(record.row, "text")
        for one in self._here.block_events(record):
            if one.write is None or not one.write.get("data") or self._here.is_known(one.event):
                continue
            data, operation = cast("bytes", one.write["data"]), Operation(_word(one.write, "operation"))
            change = propose_merge(self._tx, key, data, operation, peer=int(_word(one.write, "peer")))
            if change is not None:
                reason = _word(one.write, "reason")
                actor, origin = Actor(one.event.actor), Origin(one.event.origin)
                self._commit(change, reason, actor, origin, one.event.at_ms, one.event)
        if conflicts == "theirs" and load_block(self._tx, key).text != theirs:
            change = propose(self._tx, key, Rewrite(theirs), peer=self._peer)
            reason = "It reads like the one that was imported."
            self._commit(change, reason, Actor.HUMAN, Origin.EDITOR, self._now_ms, None)

    def _commit(
        self,
        change: ProposedChange,
        reason: str,
        actor: Actor,
        origin: Origin,
        at_ms: int,
        came: EventRecord | None,
    ) -> None:
        event = block_event(change, reason)
        seq = append(self._tx, CONSTELLATION_STREAM, event, actor=actor, origin=origin, at_ms=at_ms).seq
        store_change(self._tx, change, WriteRecord(seq, actor, origin, reason, at_ms))
        block = changed_block(change, at_ms)
        index_block(self._tx, block, at_ms=at_ms, seq=seq, before=change.block.text)
        if came is not None:
            self._came(seq, came)
            self._keep_lines_apart(change)

    def _keep_lines_apart(self, change: ProposedChange) -> None:
        """Put what was appended in two places at once on lines of its own, where it came to be on one."""
        block = change.block
        if change.operation is not Operation.APPEND or not isinstance(block.schema, TextSchema):
            return
        splices = own_lines(block.text, change.text)
        if not splices:
            return
        # Each place that comes to this version makes the same operation, so that it is not there twice.
        version = f"{block.id} {change.frontiers_after.hex()}"
        peer = int(sha256_hex(version.encode())[:16], 16) >> 1 or 1
        try:
            apart = propose(self._tx, block.key, Patch(Operation.EDIT, splices), peer=peer)
        except LimitExceededError:
            return
        reason = "What two wrote at once is on lines of its own."
        self._commit(apart, reason, Actor.IMPORT, Origin.WORKSPACE, self._now_ms, None)

    def _entry(self, proposal: Proposal) -> None:
        record = self._here.archive.read(proposal.cid, EntryRecord)
        scope, owner = self._here.owner(record.row)
        key, entry_id = BlockKey(scope, owner, ""), _word(record.row, "id")
        last: dict[str, int] = {}
        for one in record.events:
            seq = self._carry(one, self._addressed(one, key, ENTRY_KINDS), entry_id)
            last["bound" if one.kind == "entry_status_changed" else "entry"] = seq
        row = {**values_of(record.row), "scope": scope.value, "owner": owner, "last_seq": last.get("entry", 0)}
        old = row.get("supersedes")
        if old is not None and not self._tx.one(QUERIES["is_entry"], {"id": old}):
            row["supersedes"] = None
        self._put("archival_entries", [row])
        if record.bound is not None:
            self._put(
                "bound_entries",
                [
                    {
                        **values_of(record.bound),
                        "scope": scope.value,
                        "owner": owner,
                        "last_seq": last.get("bound", last.get("entry", 0)),
                    }
                ],
            )
        index_copied(self._tx, entry_id)
        self._facts.add(entry_id)
        self._report.facts += 1

    def _tasks(self, proposal: Proposal) -> None:
        tx, record = self._tx, self._here.archive.read(proposal.cid, TaskListRecord)
        updates = self._here.updates(record)
        owner = self._here.owner({"scope": record.scope, "owner": record.owner})
        check_updates(updates, record.id)
        if proposal.state == "changed":
            for seq, event in merge_list(tx, record.id, updates):
                self._came(seq, event)
        else:
            self._adopt(record.id, owner, updates)
        writer = TaskWriter(CONSTELLATION_STREAM, self._peer, self._now_ms, Actor.IMPORT, Origin.MEMORY)
        for task in give_own_numbers(tx, record.id, owner, writer):
            self._report.notes.append(f"The task “{one_line(task.title, 60)}” is #{task.number} here.")
        self._report.tasks += compare(tx, record.id, updates).tasks

    def _adopt(self, list_id: str, owner: tuple[Scope, str], updates: Sequence[TaskUpdate]) -> None:
        """Store a list of tasks that is not here."""
        seqs = [self._carry(one.event, _payload(one.event), one.event.item) for one in updates]
        store_list(self._tx, list_id, owner, updates, seqs)

    def _session(self, proposal: Proposal) -> None:
        tx, record = self._tx, self._here.archive.read(proposal.cid, SessionRecord)
        session = _word(record.row, "id")
        known = len(tx.all(QUERIES["hashes_of_session"], {"stream": session}))
        if known:
            # A window that has it open would continue without what comes.
            holder = this_process(self._report.root)
            refuse_if_held(tx, SessionId(session), holder, self._now_ms, remedy=f"close it there, and {self.again}")
        self._store_session(record, known)

    def _store_session(self, record: SessionRecord, known: int) -> None:
        """Store the events of a session behind those that are known here, and its row."""
        tx, session = self._tx, _word(record.row, "id")
        # One that no version has could never be opened.
        Mode(_word(record.row, "mode"))
        places: dict[int, int] = {}
        for page in record.events:
            for one in self._here.archive.read(page, list[ChainedEvent]):
                if one.session_seq > known:
                    places[one.session_seq] = self._copy(session, one)
        newest = tx.one(QUERIES["last_of_stream"], {"stream": session})
        last = max(places.values(), default=0 if newest is None else integer(newest[0]))
        row: dict[str, SqlValue] = {
            **values_of(record.row),
            "cwd_key": cwd_key(_word(record.row, "cwd")),
            "fork_seq": self._seq_of(record.fork_hash),
            "last_seq": last,
        }
        self._put("sessions", [row])
        self._put(
            "usage",
            [{**values_of(used), "last_seq": places[at]} for at, used in record.usage if at in places],
        )
        index_session(tx, session, _word(record.row, "cwd"))
        self._report.sessions += 1

    def _copy(self, session: str, one: ChainedEvent) -> int:
        event = one.event
        decode(event.kind, event.version, _payload(event))
        seq = append_copy(
            self._tx,
            {
                "stream": session,
                "session_seq": one.session_seq,
                "at_ms": event.at_ms,
                "kind": event.kind,
                "version": event.version,
                "actor": Actor(event.actor).value,
                "origin": Origin(event.origin).value,
                "item": event.item,
                "payload_hash": one.payload_hash,
                "prev_hash": one.prev_hash,
                "hash": one.hash,
                "salt": one.salt,
                "chain": one.chain,
            },
            event.payload,
        )
        self._came(seq, event)
        if one.masked:
            self._masked.append((seq, sha256_hex(event.payload)))
        return seq

    def _seq_of(self, hashed: str) -> int | None:
        """The number that an event has here; None when it is not here."""
        if not hashed:
            return None
        row = self._tx.one(QUERIES["event_of_hash"], {"hash": hashed})
        if row is None:
            raise ArchiveDamagedError("The session that it was forked from is not here; accept that one too.")
        return integer(row[0])

    def _sources(self, archive: ArchiveReader, seq: int) -> None:
        for cid in links_of(archive, read_contents(archive).sources):
            row = {**values_of(archive.read(cid, SourceRecord).row), "last_seq": seq}
            self._put("definition_sources", [row], replace=False)

    def _redact(self) -> None:
        """Record which events came without some of their words, as a redaction here does."""
        if not self._masked:
            return
        reason = "Words were taken out of them before they were imported."
        digest = redaction_digest(self._masked)
        seq = self._append(EventsRedacted(reason, len(self._masked), 0, digest, "import"))
        for event_seq, hashed in self._masked:
            self._tx.execute(
                QUERIES["set_redacted"],
                {"event_seq": event_seq, "last_seq": seq, "payload_hash": hashed, "at_ms": self._now_ms},
            )

    def _addressed(self, event: EventRecord, key: BlockKey, kinds: Sequence[type[Event]]) -> JsonObject:
        """The payload of an event about memory, with the owner and label that it has here."""
        payload = _payload(event)
        if not isinstance(decode(event.kind, event.version, payload), tuple(kinds)):
            raise ArchiveDamagedError(f"An event of kind {event.kind!r} is not about memory.")
        named = {"owner": key.owner, **({"label": key.label} if "label" in payload else {})}
        return {**payload, **named}

    def _put(self, table: str, rows: Sequence[Mapping[str, SqlValue]], *, replace: bool = True) -> None:
        allowed = columns_of(self._tx, table)
        for row in rows:
            if unknown := sorted(set(row) - set(allowed)):
                raise NewerArchiveError(
                    f"The archive says {', '.join(unknown)[:80]!r}, which this pattern-acp does not know."
                )
            put_rows(self._tx, table, tuple(row), [tuple(row.values())], replace=replace)

    def _check_here(self, merged: Sequence[Proposal]) -> None:
        """Refuse to merge into a block that is damaged here, for which the archive is not to blame.

        Raises:
            PatternError: it is not what its events say.
        """
        ids = {_word(self._here.archive.read(one.cid, BlockRecord).row, "id") for one in merged}
        for one in mismatches(self._tx, ids) if ids else ():
            raise PatternError(
                f"The memory block {one.label} is damaged here ({one.problem}), so nothing was imported: repair it "
                "with `pattern-acp doctor --verify --repair`, or accept everything but this block.",
                failure_code="memory.block-corrupt",
            )

    def _check(self, sessions: Sequence[str]) -> None:
        """Refuse what our own checks would complain about, apart from facts that were damaged here before.

        Raises:
            ArchiveDamagedError: something is not what its events say.
        """
        problems = [f"{one.label}: {one.problem}" for one in mismatches(self._tx, set(self._blocks))]
        if self._facts:
            problems += [one.problem for one in archive_mismatches(self._tx) if one.block_id in self._facts]
        for label, key in self._keys():
            history = read_history(self._tx, load_block(self._tx, key))
            problems += [f"{label}: {problem}" for problem in damaged_parts(history)]
        for session in sessions:
            report = verify_stream(self._tx, session)
            problems += [f"session {session}: {report.problem}"] if not report.ok else []
            differences = row_differences(self._tx, session, read_session(self._tx, session, kinds=ROW_KINDS))
            problems += [f"session {session}: its {found.what} is not what its events say" for found in differences]
        if problems:
            raise ArchiveDamagedError(f"The archive is not sound, and nothing was imported: {problems[0]}.")

    def _keys(self) -> Iterator[tuple[str, BlockKey]]:
        for block_id, label in self._blocks.items():
            row = self._tx.one(QUERIES["block_of_id"], {"id": block_id})
            if row is not None and row[3] == 0:
                yield label, BlockKey(Scope(text(row[0])), text(row[1]), text(row[2]))


@contextmanager
def refusing(name: str) -> Generator[None, None, None]:
    """Turn what goes wrong with a record into an error that names it."""
    try:
        yield
    except (BlockError, TaskError, JournalError, DatabaseError, LookupError, TypeError, ValueError) as error:
        detail = error.sentence if isinstance(error, PatternError) else str(error)
        if isinstance(error, KeyError):
            detail = f"it lacks {detail}"
        raise ArchiveDamagedError(
            f"“{name}” of the archive cannot be taken over, and nothing was imported: {detail.rstrip('.')}."
        ) from error


def links_of(archive: ArchiveReader, pages: Sequence[bytes]) -> Iterator[bytes]:
    """Yield the links that pages of them hold. Raises ArchiveDamagedError where a page is missing, or is not one."""
    for page in pages:
        yield from archive.read(page, list[bytes])


def _payload(event: EventRecord) -> JsonObject:
    found = cast("object", json.loads(event.payload.decode("utf-8", "surrogatepass")))
    if not isinstance(found, dict):
        raise TypeError(f"an event of kind {event.kind!r} says nothing")
    return cast("JsonObject", found)


def values_of(cells: Cells) -> dict[str, SqlValue]:
    """The row that a record has the values of."""
    return {name: _value(cell) for name, cell in cells.items()}


def _value(cell: object) -> SqlValue:
    match cell:
        case None | int() | str() | bytes():
            return cell
        case ["hex", str(digits)]:
            return bytes.fromhex(digits)
        case _:
            raise TypeError("a row of it has a value that no column has")


def _cell(kind: type[T], row: Cells, name: str) -> T:
    value = row.get(name)
    if not isinstance(value, kind):
        raise ArchiveDamagedError(f"A record of the archive lacks its {name}.")
    return value


_word, _number = partial(_cell, str), partial(_cell, int)


def _whose(scope: Scope, owner: str) -> str:
    return "shared" if scope is Scope.SHARED else f"{scope.value} {owner}"
