"""Writing an archive: which blocks, facts, sessions and sources go into it, and their form.

Owns: the form of records (carry.md), the choice, and what is left out for a secret in it. Must not know: what an
import makes of it. The same choice over the same constellation gives the same bytes, wherever that is.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import BinaryIO, Literal, TypeAlias, cast

import msgspec
from msgspec import Struct, field

from pattern_acp.carry.car import ArchiveWriter, Node, cid_text
from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.migrate import load_migrations
from pattern_acp.db.queries import load_queries
from pattern_acp.db.table_rows import columns_of, rows_with
from pattern_acp.domain.canonical import JsonObject, canonical_json
from pattern_acp.domain.errors import BlockError, TaskError
from pattern_acp.journal.bundle import mask_texts
from pattern_acp.journal.codec import kinds_of
from pattern_acp.journal.events import (
    BlockCommitted,
    BlockConfigured,
    BlockDeleted,
    BlockForgotten,
    BlockHealed,
    BlockRestored,
    EntryArchived,
    EntryStatusChanged,
    EntryVerified,
)
from pattern_acp.journal.reader import stored_payload
from pattern_acp.memory.block_loader import READING_PEER
from pattern_acp.memory.blocks import BlockKey, Scope, fork_in, lasting_owner
from pattern_acp.memory.history import StoredHistory, document_at, read_history, texts_of_all_versions
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.store import load_block
from pattern_acp.tasks.document import TaskDocument

QUERIES = load_queries("pattern_acp.carry")

FORMAT = "pattern-acp/archive"
FORM = 2
"""The form of archives that is written; a reader refuses a newer one."""

History: TypeAlias = Literal["none", "recent", "full"]

RECENT_WRITES = 20
"""Writes of a block that `recent` carries."""

PAGE = 200
"""Events in one block of an archive: blocks stay small, and their number too."""

PAGE_BYTES = 1_000_000
"""Payload in one block of an archive; more is one event that is larger on its own."""

BLOCK_KINDS = (BlockCommitted, BlockDeleted, BlockRestored, BlockForgotten, BlockConfigured, BlockHealed)
ENTRY_KINDS = (EntryArchived, EntryVerified, EntryStatusChanged)

_NOT_OF_BLOCK = frozenset({"base", "base_update", "deleted", "last_seq"})
_NOT_OF_CUT = _NOT_OF_BLOCK | {"created_ms", "updated_ms", "head_update", "history_from"}
"""The same of a block whose history is cut: it begins one of its own where it comes to."""
_NOT_OF_WRITE = frozenset({"block_id", "last_seq"})
NOT_OF_ROW = frozenset({"last_seq"})
_NOT_OF_SESSION = frozenset({"fork_seq", "cwd_key", "last_seq"})
"""Columns that the constellation which an archive comes to works out again."""

Cells: TypeAlias = dict[str, object]
"""The values of a row. Bytes other than a Loro update are `["hex", "…"]`."""


class Choice(Struct, frozen=True):
    """The choice of what to export; empty values choose everything."""

    project: str = ""
    """Key of a project (memory/blocks.py): its memory, and the sessions in it."""
    persona: str = ""
    session: str = ""
    """One session, and those that it was forked from; no memory."""
    since_ms: int = 0
    history: History = "full"


class EventRecord(Struct, frozen=True):
    """An event as its constellation recorded it. `payload` is canonical JSON."""

    store: str
    seq: int
    hash: str
    at_ms: int
    kind: str
    version: int
    actor: str
    origin: str
    item: str
    payload: bytes


class ChainedEvent(Struct, frozen=True):
    """An event of a session with the rest of what its chain covers (journal/writer.py).

    One that lost words, there or for this archive, has no salt, and its payload another hash than the chain says.
    """

    event: EventRecord
    session_seq: int
    payload_hash: str
    prev_hash: str
    hash: str
    salt: str
    chain: int
    masked: bool


class BlockEvent(Struct, frozen=True):
    """An event about a block, with the row of the write that it is, if it is one."""

    event: EventRecord
    write: Cells | None = None


class BlockRecord(Struct, frozen=True):
    """A memory block. `base` is the Loro snapshot that `events` continue from, where older history is cut."""

    row: Cells
    events: tuple[bytes, ...]
    """Links to pages of `BlockEvent`."""
    base: bytes | None = None


class EntryRecord(Struct, frozen=True):
    """An archival entry; `bound` are its conditions, of a trap, constraint or decision."""

    row: Cells
    bound: Cells | None
    events: tuple[EventRecord, ...]


class TaskUpdate(Struct, frozen=True):
    """An update of a list of tasks, with the event of its write."""

    event: EventRecord
    number: int
    data: bytes


class TaskListRecord(Struct, frozen=True):
    """A list of tasks: all of it that a Loro document is made of."""

    id: str
    scope: str
    owner: str
    updates: tuple[bytes, ...]
    """Links to pages of `TaskUpdate`."""


class SessionRecord(Struct, frozen=True):
    """A session. `fork_hash` is the hash of the event of its parent that it was forked at."""

    row: Cells
    usage: tuple[tuple[int, Cells], ...]
    """The rows of what its requests used, with the place of the event of each."""
    events: tuple[bytes, ...]
    """Links to pages of `ChainedEvent`."""
    fork_hash: str = ""


class SourceRecord(Struct, frozen=True):
    """The stored source of a definition that sessions have."""

    row: Cells


class Contents(Struct, frozen=True):
    """The root of an archive: links to records of each kind, in pages."""

    format: str
    form: int
    schema: int
    blocks: tuple[bytes, ...] = ()
    entries: tuple[bytes, ...] = ()
    sessions: tuple[bytes, ...] = ()
    sources: tuple[bytes, ...] = ()
    tasks: tuple[bytes, ...] = ()
    """Lists of tasks; form 1 has none."""


class ExportReport(Struct):
    """The content of a written archive, and what stayed out, a sentence each."""

    root: str = ""
    blocks: int = 0
    entries: int = 0
    sessions: int = 0
    events: int = 0
    sources: int = 0
    tasks: int = 0
    masked: int = 0
    """Events of sessions in which secrets were masked."""
    left_out: list[str] = field(default_factory=list[str])


def store_id(tx: Transaction) -> str:
    """The name that tells this constellation from all others; empty for one without events."""
    row = tx.one(QUERIES["store_id"])
    return "" if row is None else text(row[0])


def stores_in(tx: Transaction) -> frozenset[str]:
    """The constellations that events of this one were recorded in: its own, and those that anything came from."""
    return frozenset({store_id(tx), *(text(row[0]) for row in tx.all(QUERIES["origin_stores"]))} - {""})


def export(
    tx: Transaction,
    file: BinaryIO,
    choice: Choice,
    mask: SecretMask | None,
    project_of: Callable[[str], str],
) -> ExportReport:
    """Write what is chosen; `mask` takes secrets out, `project_of` gives the project of a folder.

    Raises:
        JournalError: an event cannot be read.
        OSError: the file cannot be written.
    """
    return Export(tx, ArchiveWriter(file), choice, mask, project_of).run()


class Export:
    """One writing of an archive."""

    def __init__(
        self,
        tx: Transaction,
        writer: ArchiveWriter,
        choice: Choice,
        mask: SecretMask | None,
        project_of: Callable[[str], str],
    ) -> None:
        self._tx = tx
        self._writer = writer
        self._choice = choice
        self._secrets = mask
        self._project_of = project_of
        self._store = store_id(tx)
        self.report = ExportReport()

    def run(self) -> ExportReport:
        """Write all of it; what went into it."""
        report, with_memory = self.report, not self._choice.session
        blocks = [self._put(one) for one in self._blocks()] if with_memory else []
        entries = [self._put(one) for one in self._entries()] if with_memory else []
        lists = [self._put(one) for one in self._task_lists()] if with_memory else []
        sessions = [self._put(one) for one in self._sessions()]
        sources = [self._put(one) for one in self._sources()] if sessions else []
        if with_memory and any(self._is_forked(text(row[2])) for row in self._tx.all(QUERIES["blocks_there"])):
            report.left_out.append("What forked memory learned stays here until it is merged.")
        report.blocks, report.entries = len(blocks), len(entries)
        report.sessions, report.sources = len(sessions), len(sources)
        links = (self._pages(each) for each in (blocks, entries, sessions, sources, lists))
        contents = self._root(Contents(FORMAT, FORM, load_migrations()[-1].version, *links))
        report.root = cid_text(self._writer.finish(node_of(contents)))
        return report

    def _root(self, contents: Contents) -> Contents:
        return contents

    def _mask(self, said: str) -> str:
        return said if self._secrets is None else self._secrets.mask(said)

    def _put(self, record: Struct) -> bytes:
        return self._writer.add(node_of(record))

    def _pages(self, items: Sequence[Node]) -> tuple[bytes, ...]:
        return tuple(self._writer.add(list(items[at : at + PAGE])) for at in range(0, len(items), PAGE))

    def _is_chosen(self, scope: str, owner: str, at_ms: int) -> bool:
        choice = self._choice
        if fork_in(owner):
            return False
        if choice.project and (scope, owner) != (Scope.PROJECT.value, choice.project):
            return False
        if choice.persona and (scope, owner) != (Scope.PERSONA.value, choice.persona):
            return False
        return at_ms >= choice.since_ms

    def _is_forked(self, owner: str) -> bool:
        return bool(fork_in(owner)) and self._choice.project in {"", lasting_owner(owner)}

    def _blocks(self) -> Iterator[BlockRecord]:
        for row in self._tx.all(QUERIES["blocks_there"]):
            scope, owner, label = text(row[1]), text(row[2]), text(row[3])
            if not self._is_chosen(scope, owner, integer(row[4])):
                continue
            try:
                history = read_history(self._tx, load_block(self._tx, BlockKey(Scope(scope), owner, label)))
                record = self._block(text(row[0]), history)
            except BlockError as error:
                self.report.left_out.append(f"The memory block {label} stays here: {error.sentence}")
                continue
            if record is None:
                self.report.left_out.append(f"The memory block {label} seems to hold a secret, so it stays here.")
            else:
                yield record

    def _block(self, block_id: str, history: StoredHistory) -> BlockRecord | None:
        """Return the record of a block; None for one that seems to hold a secret."""
        cut = self._cut(history)
        events = [
            event
            for _, event in self._block_events(block_id)
            if cut == 0 or (event.write and cast("int", event.write["number"]) > cut and event.write["data"])
        ]
        said = [history.text, *(() if cut else texts_of_all_versions(history))]
        base = document_at(history, cut).shallow_snapshot() if cut else None
        return self._block_record(block_id, events, said, base)

    def _block_events(self, block_id: str) -> Iterator[tuple[int, BlockEvent]]:
        """Yield the events of a block with their numbers here."""
        rows = {integer(row["last_seq"]): row for row in self._rows("block_updates", "block_id", block_id)}
        for seq, record in self._events(block_id, BLOCK_KINDS):
            yield seq, BlockEvent(record, cells_of(rows[seq], _NOT_OF_WRITE) if seq in rows else None)

    def _block_record(
        self, block_id: str, events: Sequence[BlockEvent], said: Sequence[str], base: bytes | None = None
    ) -> BlockRecord | None:
        """Return the record of a block with these events; None where `said`, or a reason, seems to hold a secret."""
        reasons = [str(event.write["reason"]) for event in events if event.write]
        if any(self._mask(one) != one for one in (*said, *reasons)):
            return None
        row = next(self._rows("blocks", "id", block_id))
        self.report.events += len(events)
        cells = cells_of(row, _NOT_OF_BLOCK if base is None else _NOT_OF_CUT)
        return BlockRecord(cells, self._pages([node_of(event) for event in events]), base)

    def _cut(self, history: StoredHistory) -> int:
        """Return the number of the write up to which history is cut; 0 when all of it goes."""
        match self._choice.history:
            case "full":
                return 0
            case "none":
                return history.head
            case "recent":
                at = history.head - RECENT_WRITES
                return at if at > history.history_from else 0

    def _entries(self) -> Iterator[EntryRecord]:
        for row in self._tx.all(QUERIES["entries_there"]):
            entry_id = text(row[0])
            if not self._is_chosen(text(row[1]), text(row[2]), integer(row[3])):
                continue
            if record := self._entry(entry_id):
                yield record

    def _entry(self, entry_id: str) -> EntryRecord | None:
        """Return the record of an entry; None for one that seems to hold a secret."""
        entry = next(self._rows("archival_entries", "id", entry_id))
        if any(self._mask(str(entry[name])) != entry[name] for name in ("text", "reason")):
            self.report.left_out.append(f"The archival entry {entry_id} seems to hold a secret, so it stays here.")
            return None
        bound = next(self._rows("bound_entries", "entry", entry_id), None)
        events = tuple(record for _, record in self._events(entry_id, ENTRY_KINDS))
        self.report.events += len(events)
        return EntryRecord(cells_of(entry, NOT_OF_ROW), None if bound is None else cells_of(bound, NOT_OF_ROW), events)

    def _task_lists(self) -> Iterator[TaskListRecord]:
        for row in self._tx.all(QUERIES["task_lists_there"]):
            list_id, scope, owner = text(row[0]), text(row[1]), text(row[2])
            if not self._is_chosen(scope, owner, integer(row[3])):
                continue
            if record := self._task_list(list_id, scope, owner):
                yield record

    def _task_list(self, list_id: str, scope: str, owner: str, after: int = 0) -> TaskListRecord | None:
        """Return the record of a list with its updates behind an event; None for one that stays here."""
        found = self._tx.all(QUERIES["events_of_list"], {"id": list_id, "store": self._store})
        updates = [(integer(each[0]), TaskUpdate(_record(each), integer(each[13]), data(each[14]))) for each in found]
        try:
            document = TaskDocument.load(list_id, [one.data for _, one in updates], peer=READING_PEER)
            if self._holds_secret(json.loads(document.everything)):
                self.report.left_out.append(
                    f"A list of tasks of {owner} seems to hold a secret, now or in its history, so it stays here."
                )
                return None
            self.report.tasks += len(document.tasks)
        except TaskError as error:
            self.report.left_out.append(f"A list of tasks stays here: {error.sentence}")
            return None
        new = [node_of(one) for seq, one in updates if seq > after]
        self.report.events += len(new)
        return TaskListRecord(list_id, scope, owner, self._pages(new))

    def _holds_secret(self, value: object) -> bool:
        match value:
            case str():
                return self._mask(value) != value
            case dict():
                pairs = cast("dict[str, object]", value)
                return any(self._holds_secret(key) or self._holds_secret(item) for key, item in pairs.items())
            case list():
                return any(self._holds_secret(item) for item in cast("list[object]", value))
            case _:
                return False

    def _sessions(self) -> Iterator[SessionRecord]:
        rows = {text(row[0]): row for row in self._tx.all(QUERIES["sessions_there"])}
        chosen = {session for session, row in rows.items() if self._wants(row)}
        for session in tuple(chosen):
            # What a fork shares with its parent is in the stream of the parent alone.
            chosen |= {one for one in _ancestry(session, rows) if one in rows}
        ancestry = {session: _ancestry(session, rows) for session in chosen}
        # Parents first: a fork is at an event of theirs.
        for session in sorted(chosen, key=lambda one: (len(ancestry[one]), one)):
            if any(one not in rows for one in ancestry[session]):
                self.report.left_out.append(f"The session {session} shares history with a deleted one; it stays here.")
            else:
                yield self._session(session)

    def _wants(self, row: Row) -> bool:
        choice = self._choice
        if choice.session:
            return row[0] == choice.session
        if choice.persona and row[2] != choice.persona:
            return False
        if choice.project and self._project_of(text(row[1])) != choice.project:
            return False
        return integer(row[3]) >= choice.since_ms

    def _session(self, session: str, after: int = 0) -> SessionRecord:
        """Return the record of a session with its events behind one of them."""
        row = next(self._rows("sessions", "id", session))
        pages: list[bytes] = []
        places: dict[int, int] = {}
        while found := self._tx.all(
            QUERIES["events_of_session"], {"stream": session, "after": after, "limit": PAGE, "store": self._store}
        ):
            events = [self._chained(each) for each in found]
            places |= {integer(each[0]): event.session_seq for each, event in zip(found, events, strict=True)}
            pages += (self._writer.add(node_of(list(page))) for page in _by_size(events))
            after = events[-1].session_seq
        self.report.events += len(places)
        usage = tuple(
            (places[integer(each["last_seq"])], cells_of(each, NOT_OF_ROW))
            for each in self._rows("usage", "session_id", session)
            if integer(each["last_seq"]) in places
        )
        fork_hash = ""
        if row["fork_seq"] is not None:
            found_at = self._tx.one(QUERIES["hash_of_event"], {"seq": row["fork_seq"]})
            fork_hash = "" if found_at is None else text(found_at[0])
        shown = {**row, "title": self._mask(text(row["title"]))}
        return SessionRecord(cells_of(shown, _NOT_OF_SESSION), usage, tuple(pages), fork_hash)

    def _chained(self, row: Row) -> ChainedEvent:
        record = _record(row)
        session_seq, payload_hash, prev_hash, own, salt, chain, redacted = row[13:]
        said, masked = record.payload.decode("utf-8", "surrogatepass"), redacted == 1
        if self._secrets is not None and self._secrets.is_needed(said):
            payload = cast("JsonObject", json.loads(said))
            shown = mask_texts(record.kind, payload, self._secrets.mask)
            if shown != payload:
                self.report.masked += 1
                masked, record = True, msgspec.structs.replace(record, payload=canonical_json(shown))
        return ChainedEvent(
            record,
            integer(session_seq),
            text(payload_hash),
            text(prev_hash),
            text(own),
            # With the salt anybody could try out what stood there.
            "" if masked else text(salt),
            integer(chain),
            masked,
        )

    def _sources(self) -> Iterator[SourceRecord]:
        for row in self._tx.all(QUERIES["sources_there"]):
            found = next(self._rows("definition_sources", "identity", text(row[0])))
            if self._mask(str(found["source"])) == found["source"]:
                yield SourceRecord(cells_of(found, NOT_OF_ROW))

    def _rows(self, table: str, column: str, value: str) -> Iterator[Mapping[str, SqlValue]]:
        names = columns_of(self._tx, table)
        for row in rows_with(self._tx, table, names, column, value):
            yield dict(zip(names, row, strict=True))

    def _events(self, item: str, kinds: Sequence[type]) -> Iterator[tuple[int, EventRecord]]:
        asked = {"item": item, "kinds": json.dumps(kinds_of(kinds)), "store": self._store}
        for row in self._tx.all(QUERIES["events_about"], asked):
            yield integer(row[0]), _record(row)


def _by_size(events: Sequence[ChainedEvent]) -> Iterator[Sequence[ChainedEvent]]:
    """Yield the events in pages that a reader can hold in memory."""
    begin = size = 0
    for at, one in enumerate(events):
        if at > begin and size + len(one.event.payload) > PAGE_BYTES:
            yield events[begin:at]
            begin, size = at, 0
        size += len(one.event.payload)
    yield events[begin:]


def _record(row: Row) -> EventRecord:
    return EventRecord(
        text(row[1]),
        integer(row[2]),
        text(row[3]),
        integer(row[4]),
        text(row[5]),
        integer(row[6]),
        text(row[7]),
        text(row[8]),
        text(row[9]),
        stored_payload(row[10], row[11], row[12]),
    )


def _ancestry(session: str, rows: Mapping[str, Row]) -> list[str]:
    """Return the sessions that one was forked from, the nearest first, as far as they are there and the next one."""
    found: list[str] = []
    while session in rows and (parent := rows[session][4]) is not None:
        session = text(parent)
        found.append(session)
    return found


def cells_of(row: Mapping[str, SqlValue], without: frozenset[str]) -> Cells:
    """The values of a row but those of some columns, as a record has them."""
    return {name: _cell(name, value) for name, value in row.items() if name not in without}


def _cell(name: str, value: SqlValue) -> object:
    if isinstance(value, float):
        raise TypeError(f"{name} is a number with a fraction, which no column of an archive is.")
    if isinstance(value, bytes) and name != "data":
        # Frontiers may begin as a CID does, and would be taken for a link.
        return ["hex", value.hex()]
    return value


def node_of(records: Struct | Sequence[ChainedEvent]) -> Node:
    """Return the content of a block that has a record, or a page of events of a session."""
    plain = cast("object", msgspec.to_builtins(records, builtin_types=(bytes,)))
    # Such an event has no tuples, which the codec does not know; looking for them takes as long as all else.
    return cast("Node", plain if isinstance(plain, list) else _without_tuples(plain))


def _without_tuples(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_tuples(item) for key, item in cast("dict[str, object]", value).items()}
    return [*map(_without_tuples, cast("Sequence[object]", value))] if isinstance(value, list | tuple) else value
