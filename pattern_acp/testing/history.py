"""A block's history without a constellation, for tests of what is worked out from it.

Owns: writing to a document and keeping every write as the store does. Must not know: SQL.
"""

from pattern_acp.memory.document import EMPTY_FRONTIERS, BlockDocument
from pattern_acp.memory.edits import BlockEdit, Operation, Patch, Rewrite, plan_edit
from pattern_acp.memory.history import StoredHistory, WriteData
from pattern_acp.memory.undo import Plan

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

    def carry_out(self, plan: Plan) -> int:
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
