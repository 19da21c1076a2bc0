"""Taking over what another device tells.

Owns: what becomes of a change that was made elsewhere, so that every device comes to the same whatever the order in
which it hears of them. Must not know: where a segment came from. It is the import of an archive (carry/arrival.py),
with nobody to ask:

- writes are merged by Loro, each with its author; a write that a deletion did not know of brings the block back;
- of settings, and of the state of facts, the later change counts;
- of two blocks with one label the older one has it, and the other is called `LABEL-xxxxxx` everywhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from pattern_acp.carry.arrival import (
    Arrival,
    ImportReport,
    links_of,
    read_contents,
    refusing,
)
from pattern_acp.carry.car import ArchiveReader, cid_text
from pattern_acp.carry.export import (
    BLOCK_KINDS,
    ENTRY_KINDS,
    BlockEvent,
    BlockRecord,
    Cells,
    ChainedEvent,
    EntryRecord,
    EventRecord,
    SessionRecord,
    TaskListRecord,
)
from pattern_acp.carry.export import QUERIES as OF_CARRY
from pattern_acp.carry.task_lists import check_updates, is_whole, merge_list
from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId, SessionId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.codec import decode
from pattern_acp.journal.events import (
    BlockCommitted,
    BlockConfigured,
    BlockDeleted,
    BlockForgotten,
    BlockRestored,
    EntryStatusChanged,
    EntryVerified,
    Event,
)
from pattern_acp.journal.leases import held_elsewhere, this_process
from pattern_acp.journal.reader import read_about
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.archive import NoteStatusChange, Status, bound_of, set_status, verify_entry
from pattern_acp.memory.block_loader import READING_PEER, text_hash
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.configuring import (
    ProposedMark,
    configured,
    propose_deletion,
    propose_restoration,
    setting_of,
    store_mark,
    store_settings,
)
from pattern_acp.memory.document import update_between
from pattern_acp.memory.edits import Operation
from pattern_acp.memory.errors import BlockCorruptError, DocumentError
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.recall import remove_source
from pattern_acp.memory.store import WriteRecord, load_block, load_whole, propose_merge
from pattern_acp.session.stored import project_of_folder
from pattern_acp.sync.outgoing import QUERIES, Sharing
from pattern_acp.tasks.model import NotATaskListError
from pattern_acp.tasks.store import TaskWriter, settle_numbers, updates_of

RELABELLED = "Another device has an older block of this label."
"""The reason of the deletion and the restoration between which a block takes another label; they stay here."""


def take_over(tx: Transaction, archive: ArchiveReader, sharing: Sharing, *, now_ms: int) -> ImportReport:
    """Store what an archive of another device brings and is not here.

    Raises:
        ArchiveDamagedError: a record is not sound; nothing was stored.
        NewerArchiveError: a newer pattern-acp wrote it.
    """
    report = ImportReport(cid_text(archive.root))
    _Following(tx, archive, sharing, now_ms, report).run()
    return report


class _Following(Arrival):
    """The taking over of one segment, inside its transaction."""

    def __init__(
        self, tx: Transaction, archive: ArchiveReader, sharing: Sharing, now_ms: int, report: ImportReport
    ) -> None:
        super().__init__(tx, archive, sharing.keys, {}, now_ms, report)
        self._archive = archive
        self._sharing = sharing
        self._is_changed = False
        self._sessions: list[str] = []

    def run(self) -> None:
        contents = read_contents(self._archive)
        for cid in links_of(self._archive, contents.blocks):
            record = self._archive.read(cid, BlockRecord)
            with refusing(str(record.row.get("label"))):
                self._follow_block(record)
        for cid in links_of(self._archive, contents.entries):
            with refusing("A fact"):
                self._follow_entry(cid)
        for cid in links_of(self._archive, contents.tasks):
            with refusing("A list of tasks"):
                self._follow_tasks(self._archive.read(cid, TaskListRecord))
        for cid in links_of(self._archive, contents.sessions):
            record = self._archive.read(cid, SessionRecord)
            with refusing(str(record.row.get("title"))):
                self._follow_session(record)
        if self._is_changed or self._report.events:
            seq = self._finish()
            if self._sessions:
                self._sources(self._archive, seq)
            self._redact()
            self._check(self._sessions)

    def _append(self, event: Event) -> int:
        actor, origin = Actor.IMPORT, Origin.WORKSPACE
        return append(self._tx, CONSTELLATION_STREAM, event, actor=actor, origin=origin, at_ms=self._now_ms).seq

    def _follow_block(self, record: BlockRecord) -> None:
        row, block_id = record.row, str(record.row["id"])
        if self._sharing.leaves_out(str(row["scope"]), str(row["owner"])):
            return
        scope, owner = self._here.owner(row)
        if self._sharing.leaves_out(scope.value, owner):
            return
        events = self._here.block_events(record)
        there = self._tx.one(OF_CARRY["block_of_id"], {"id": block_id})
        if there is None:
            self._begin(BlockKey(scope, owner, str(row["label"])), BlockId(block_id), record, events)
            return
        before = self._report.events
        new = [one for one in events if not self._here.is_known(one.event)]
        for one in _with_updates(new):
            self._follow(block_id, one)
        if self._report.events > before:
            self._touched(block_id)
            self._report.blocks += 1

    def _begin(self, key: BlockKey, block_id: BlockId, record: BlockRecord, events: Sequence[BlockEvent]) -> None:
        """Store a block that was never here."""
        marks = [one.event.kind for one in events if one.event.kind in {"block_deleted", "block_restored"}]
        if marks[-1:] == ["block_deleted"]:
            return
        first = next((one.write for one in events if one.write is not None), None)
        if first is None or first.get("number") != 1:
            raise BlockCorruptError(key.label, "what was written to it before did not come")
        if all(one.event.actor == Actor.SYSTEM for one in events if one.write is not None):
            other = self._at(key)
            if other and self._state(other)[2]:
                # What nobody has written to makes way for it there, too.
                return
        settled = self._settled(key, block_id, cast("int", record.row["created_ms"]))
        self._verbatim(settled, block_id, record)
        self._blocks[block_id] = settled.label
        self._report.blocks += 1

    def _key_of(self, block_id: str) -> tuple[BlockKey, int]:
        """The block's key here, and whether it is deleted."""
        row = self._tx.one(OF_CARRY["block_of_id"], {"id": block_id})
        if row is None:
            raise BlockCorruptError(block_id, "its row is gone")
        return BlockKey(Scope(text(row[0])), text(row[1]), text(row[2])), integer(row[3])

    def _touched(self, block_id: str) -> None:
        self._blocks[block_id] = self._key_of(block_id)[0].label
        self._is_changed = True

    def _follow(self, block_id: str, one: BlockEvent) -> None:
        """Take over one event about a block that is here."""
        key, deleted = self._key_of(block_id)
        if deleted == 2:
            return
        match decode(one.event.kind, one.event.version, self._addressed(one.event, key, BLOCK_KINDS)):
            case BlockCommitted() if one.write is not None and one.write.get("data"):
                self._follow_write(block_id, one.event, one.write)
            case BlockForgotten(whole=False) if one.write is not None and one.write.get("data") and not deleted:
                # Its text continues without the words, as by any other write; what is stored of them goes afterwards.
                self._follow_write(block_id, one.event, one.write)
            case BlockConfigured() as event if not deleted:
                self._follow_setting(block_id, key, one.event, event)
            case BlockDeleted(reason=reason) if reason != RELABELLED and not deleted and one.write is not None:
                frontiers = self._state(block_id)[0]
                # What was written here meanwhile is more than the deletion knew of.
                if _bytes(one.write["frontiers_after"]) == frontiers and self._is_later(block_id, one.event):
                    self._mark(propose_deletion(self._tx, key), reason, one.event)
            case BlockRestored(reason=reason) if reason != RELABELLED and deleted:
                if self._is_later(block_id, one.event):
                    self._restore(block_id, key, reason, one.event)
            case _:
                pass

    def _follow_write(self, block_id: str, event: EventRecord, write: Cells) -> None:
        key, deleted = self._key_of(block_id)
        if deleted:
            self._restore(block_id, key, "It was written to on another device.", None)
            key, _ = self._key_of(block_id)
        if _bytes(write["frontiers_before"]) != self._state(block_id)[0]:
            self._report.notes.append(f"{key.label} was written to on two devices at once; both are in it.")
        operation = Operation(str(write["operation"]))
        change = propose_merge(self._tx, key, cast("bytes", write["data"]), operation, peer=int(str(write["peer"])))
        if change is not None:
            actor, origin = Actor(event.actor), Origin(event.origin)
            self._commit(change, str(write["reason"]), actor, origin, event.at_ms, event)

    def _follow_setting(self, block_id: str, key: BlockKey, came: EventRecord, event: BlockConfigured) -> None:
        known = [
            (one.at_ms, one.event.after)
            for one in read_about(self._tx, (BlockConfigured,), (block_id,))
            if isinstance(one.event, BlockConfigured) and one.event.setting == event.setting
        ]
        if known and max(known) >= (came.at_ms, event.after):
            return
        block = load_block(self._tx, key)
        changed = configured(block, event.setting, event.after)
        here = replace(event, before=setting_of(block, event.setting), after=setting_of(changed, event.setting))
        store_settings(self._tx, changed, seq=self._record(here, came))

    def _record(self, event: Event, came: EventRecord) -> int:
        """Append an event in the name of the one who caused it elsewhere."""
        actor, origin = Actor(came.actor), Origin(came.origin)
        seq = append(self._tx, CONSTELLATION_STREAM, event, actor=actor, origin=origin, at_ms=came.at_ms).seq
        self._came(seq, came)
        return seq

    def _state(self, block_id: str) -> tuple[bytes, int, bool]:
        """The block's version, when it was made, and whether anybody but the program wrote to it."""
        row = self._tx.one(QUERIES["state_of_block"], {"id": block_id})
        if row is None:
            raise BlockCorruptError(block_id, "its row is gone")
        return data(row[0]), integer(row[1]), integer(row[2]) == 1

    def _is_later(self, block_id: str, event: EventRecord) -> bool:
        row = self._tx.one(QUERIES["marked_last"], {"item": block_id})
        return row is None or event.at_ms >= integer(row[0])

    def _restore(self, block_id: str, key: BlockKey, reason: str, came: EventRecord | None) -> None:
        settled = self._settled(key, block_id, self._state(block_id)[1])
        if settled != key:
            self._tx.execute(QUERIES["set_label"], {"id": block_id, "label": settled.label})
        self._mark(self._restoration(block_id, settled), reason, came)

    def _restoration(self, block_id: str, key: BlockKey) -> ProposedMark:
        skip = 0
        while (mark := propose_restoration(self._tx, key, skip)).block.id != block_id:
            skip += 1
        return mark

    def _mark(self, mark: ProposedMark, reason: str, came: EventRecord | None) -> None:
        """Delete or restore a block."""
        block, key = mark.block, mark.block.key
        facts = mark.as_change(READING_PEER).facts_hash
        about = (block.id, key.scope, key.owner, key.label, reason, text_hash(block.text), None, facts)
        is_deletion = mark.operation is Operation.DELETE
        event = BlockDeleted(*about, discarded=mark.discarded) if is_deletion else BlockRestored(*about)
        if came is None:
            record = WriteRecord(self._append(event), Actor.IMPORT, Origin.WORKSPACE, reason, self._now_ms)
        else:
            seq = self._record(event, came)
            record = WriteRecord(seq, Actor(came.actor), Origin(came.origin), reason, came.at_ms)
        store_mark(self._tx, mark, record, peer=READING_PEER)
        if is_deletion:
            remove_source(self._tx, block.id)
        else:
            index_block(self._tx, load_whole(self._tx, key), at_ms=record.at_ms, seq=record.seq)
        self._touched(block.id)

    def _at(self, key: BlockKey) -> str:
        """The block that has a label here; empty where none has."""
        row = self._tx.one(OF_CARRY["block_of_label"], {"scope": key.scope, "owner": key.owner, "label": key.label})
        return "" if row is None else text(row[0])

    def _settled(self, key: BlockKey, block_id: str, created_ms: int) -> BlockKey:
        """The key for a block that comes to life here, once whatever has its label there is older or out of its way."""
        other_id = self._at(key)
        if other_id in {"", block_id}:
            return key
        _, made_ms, is_written = self._state(other_id)
        if not is_written:
            reason = "It makes way for the one of another device."
            self._mark(replace(propose_deletion(self._tx, key), discarded=True), reason, None)
            return key
        if (made_ms, other_id) < (created_ms, block_id):
            return _relabelled(key, block_id)
        self._mark(propose_deletion(self._tx, key), RELABELLED, None)
        renamed = _relabelled(key, other_id)
        self._tx.execute(QUERIES["set_label"], {"id": other_id, "label": renamed.label})
        self._mark(self._restoration(other_id, renamed), RELABELLED, None)
        self._report.notes.append(f"{key.label} of this device is {renamed.label} now: another one has an older one.")
        return key

    def _follow_entry(self, cid: bytes) -> None:
        record = self._archive.read(cid, EntryRecord)
        row = record.row
        if self._sharing.leaves_out(str(row["scope"]), str(row["owner"])):
            return
        scope, owner = self._here.owner(row)
        if self._sharing.leaves_out(scope.value, owner):
            return
        if self._tx.one(OF_CARRY["is_entry"], {"id": str(row["id"])}):
            before = self._report.events
            for one in record.events:
                if one.kind in {"entry_verified", "entry_status_changed"} and not self._here.is_known(one):
                    self._follow_state(BlockKey(scope, owner, ""), one)
            self._report.facts += self._report.events > before
            return
        proposal = self._here.of_entry(cid)
        if proposal.is_open:
            self._entry(proposal)

    def _follow_tasks(self, record: TaskListRecord) -> None:
        """Take over what was written to a list of tasks."""
        if self._sharing.leaves_out(record.scope, record.owner):
            return
        scope, owner = self._here.owner({"scope": record.scope, "owner": record.owner})
        if self._sharing.leaves_out(scope.value, owner):
            return
        updates = self._here.updates(record)
        check_updates(updates, record.id)
        new = [one for one in updates if not self._here.is_known(one.event)]
        if not new:
            return
        if updates_of(self._tx, record.id):
            came = merge_list(self._tx, record.id, new)
            for seq, event in came:
                self._came(seq, event)
        elif new[0].number == 1 or is_whole(new[0]):
            self._adopt(record.id, (scope, owner), new)
            came = [(0, one.event) for one in new]
        else:
            raise NotATaskListError(record.id, "what was written to it before did not come")
        writer = TaskWriter(CONSTELLATION_STREAM, self._peer, self._now_ms, Actor.IMPORT, Origin.MEMORY)
        for task in settle_numbers(self._tx, writer):
            self._report.notes.append(f"The task “{one_line(task.title, 60)}” is #{task.number} now.")
        self._report.tasks += len(came)

    def _follow_session(self, record: SessionRecord) -> None:
        """Take over what was recorded of a session, if it continues from what is here."""
        session = str(record.row["id"])
        if self._sharing.leaves_out(Scope.PROJECT.value, project_of_folder(str(record.row["cwd"]))):
            return
        here = [text(row[0]) for row in self._tx.all(OF_CARRY["hashes_of_session"], {"stream": session})]
        theirs = [
            (one.session_seq, one.hash)
            for page in record.events
            for one in self._archive.read(page, list[ChainedEvent])
        ]
        if not theirs or theirs[-1][0] <= len(here):
            return
        holder = this_process(self._report.root)
        title = one_line(str(record.row.get("title") or session), 60)
        if any(number <= len(here) and here[number - 1] != hashed for number, hashed in theirs):
            self._report.notes.append(f"The session “{title}” continued on two devices; each has its own.")
        elif theirs[0][0] > len(here) + 1:
            self._report.notes.append(f"The session “{title}” lacks a part here, which comes with one of the next.")
        elif held_elsewhere(self._tx, SessionId(session), holder, self._now_ms) is not None:
            self._report.notes.append(f"The session “{title}” is open here; close it to have what came of it.")
        else:
            self._store_session(record, len(here))
            self._sessions.append(session)

    def _follow_state(self, key: BlockKey, came: EventRecord) -> None:
        """Take over what was found out about a fact that is here."""
        last = self._tx.one(QUERIES["last_of_kind"], {"item": came.item, "kind": came.kind})
        if last is not None and integer(last[0]) >= came.at_ms:
            return
        event = decode(came.kind, came.version, self._addressed(came, key, ENTRY_KINDS))
        if isinstance(event, EntryVerified):
            verify_entry(self._tx, event.entry_id, verified_ms=came.at_ms, seq=self._record(event, came))
        elif isinstance(event, EntryStatusChanged):
            bound = bound_of(self._tx, [event.entry_id]).get(event.entry_id)
            if bound is not None and bound.stored_status != event.status:
                seq = self._record(event, came)
                change = NoteStatusChange(Actor(came.actor), came.at_ms, event.reason)
                set_status(self._tx, event.entry_id, Status(event.status), change, seq=seq)
        self._facts.add(came.item)


def _relabelled(key: BlockKey, block_id: str) -> BlockKey:
    return replace(key, label=f"{key.label[:50]}-{block_id[-6:]}")


def _with_updates(events: Sequence[BlockEvent]) -> Iterator[BlockEvent]:
    """The events of one block; a write that a later forgetting emptied has what is left of it, and so its author."""
    snapshots = [one.write.get("data") for one in events if one.event.kind == "block_forgotten" and one.write]
    for one in events:
        is_text = one.event.kind in {"block_committed", "block_forgotten"}
        if snapshots and snapshots[-1] and one.write and is_text and not one.write.get("data"):
            before, after = _bytes(one.write["frontiers_before"]), _bytes(one.write["frontiers_after"])
            with suppress(DocumentError):
                data = update_between(one.event.item, cast("bytes", snapshots[-1]), before, after)
                yield replace(one, write={**one.write, "data": data})
                continue
        yield one


def _bytes(cell: object) -> bytes:
    """The value of a cell that is bytes."""
    match cell:
        case ["hex", str(digits)]:
            return bytes.fromhex(digits)
        case _:
            raise TypeError("a row of it lacks its version")
