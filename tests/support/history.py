"""Histories of blocks for tests: one without a constellation, and writes into a constellation with their events.

Owns: nothing that a test does not hand in. Must not know: sessions.
"""

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.blocks import Block, BlockKey, BlockSpec
from pattern_acp.memory.document import EMPTY_FRONTIERS, BlockDocument
from pattern_acp.memory.edits import AnyEdit, BlockEdit, Operation, Patch, Rewrite, plan_edit
from pattern_acp.memory.history import StoredHistory, WriteData
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.service.commit import block_event
from pattern_acp.memory.store import (
    ProposedChange,
    WriteRecord,
    block_exists,
    changed_block,
    propose,
    propose_creation,
    store_change,
)
from pattern_acp.memory.undo import RevertPlan

LABEL = "notes"


class RecordedBlock:
    """A block that is written to in this process; `peer` of a write makes it another process's."""

    def __init__(self, text: str = "", *, limit: int = 10_000) -> None:
        self._document = BlockDocument.create(LABEL, text, peer=11)
        self._limit = limit
        update = self._document.export_update(EMPTY_FRONTIERS)
        self._writes = [WriteData(1, Operation.CREATE.value, None, update, self._document.frontiers)]

    @property
    def text(self) -> str:
        """What the block reads now."""
        return self._document.text

    @property
    def head(self) -> int:
        """The number of the newest write."""
        return len(self._writes)

    def write(self, edit: BlockEdit | str, *, peer: int = 11, target: int | None = None) -> int:
        """Make an edit, or make the block read a text; the number of the write.

        Raises:
            BlockError: it cannot be made.
        """
        asked = Rewrite(edit) if isinstance(edit, str) else edit
        before = self._document
        planned = plan_edit(asked, before.text, label=LABEL, limit=self._limit)
        document = BlockDocument.load(LABEL, [before.full_snapshot()], peer=peer)
        document.apply(planned)
        update = document.export_update(before.frontiers)
        self._document = document
        number = self.head + 1
        self._writes.append(WriteData(number, planned.operation.value, target, update, document.frontiers))
        return number

    def carry_out(self, plan: RevertPlan) -> int:
        """Make a planned change; the number of the write."""
        edit = plan.edit
        if not isinstance(edit, Patch | Rewrite):
            raise TypeError("A plan from a history is a patch or a rewrite.")
        return self.write(edit, target=plan.target)

    def history(self) -> StoredHistory:
        """All of it, with an archive of the newest version."""
        return StoredHistory(
            label=LABEL,
            text=self.text,
            head=self.head,
            history_from=1,
            writes=tuple(self._writes),
            archive=self._document.full_snapshot(),
            archive_upto=self.head,
        )


def record_creation(tx: Transaction, spec: BlockSpec, block_id: str) -> Block:
    """Make a block, with its event and its index rows."""
    return _record(tx, propose_creation(spec, BlockId(block_id), peer=11), at_ms=1, reason="a test")


def record_edit(
    tx: Transaction, key: BlockKey, edit: AnyEdit, *, at_ms: int = 2, reason: str = "a test", peer: int = 11
) -> Block:
    """Edit a block, which is made first when there is none, with the event and the index rows."""
    if not block_exists(tx, key):
        record_creation(tx, BlockSpec(key, "For tests."), f"block_{key.owner}_{key.label}")
    return _record(tx, propose(tx, key, edit, peer=peer), at_ms=at_ms, reason=reason)


def _record(tx: Transaction, change: ProposedChange, *, at_ms: int, reason: str) -> Block:
    event = block_event(change, reason)
    appended = append(tx, CONSTELLATION_STREAM, event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=at_ms)
    store_change(tx, change, WriteRecord(appended.seq, Actor.PERSONA, Origin.MODEL, reason, at_ms))
    block = changed_block(change, at_ms)
    index_block(tx, block, at_ms=at_ms, seq=appended.seq)
    return block
