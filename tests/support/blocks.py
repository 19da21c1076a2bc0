"""A block's document for tests of schemas: edits go the way they go in the store, without one.

Owns: planning, performing and checking an edit. Must not know: SQL, permissions.
"""

from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.edits import AnyEdit, Authoring
from pattern_acp.memory.schemas.forms import check
from pattern_acp.memory.schemas.planning import plan_steps
from pattern_acp.memory.schemas.types import BlockSchema, State


class SchemaBlock:
    """A document of a schema, edited by one peer."""

    def __init__(self, schema: BlockSchema, text: str = "", *, peer: int = 1) -> None:
        self.schema = schema
        self.document = BlockDocument.create("test", text, peer=peer, schema=schema)

    @property
    def text(self) -> str:
        """What the block reads."""
        return self.document.text

    @property
    def state(self) -> State:
        """What the block holds."""
        return self.document.content

    def edit(self, edit: AnyEdit, *, at: int = 1_800_000_000, by: str = "tester", trusted: bool = False) -> bytes:
        """Apply an edit and give its update. A refused one leaves a document that is not to be used again.

        Raises:
            ContentError: the edit, or what it leads to, does not fit the schema.
            BlockError: a passage is not there exactly once.
        """
        before = self.document.frontiers
        plan = plan_steps(self.schema, self.document.content, edit, Authoring(at, by, trusted), label="test")
        self.document.apply(plan.steps)
        check(self.schema, self.document.content)
        return self.document.export_update(before)

    def copy(self, peer: int) -> "SchemaBlock":
        """The same block in another process."""
        copied = SchemaBlock.__new__(SchemaBlock)
        copied.schema = self.schema
        snapshot = self.document.full_snapshot()
        copied.document = BlockDocument.load("test", [snapshot], peer=peer, schema=self.schema)
        return copied
