"""Carrying out an edit on a block's document.

Owns: the checks that make a bad write change nothing: the document is thrown away when one fails. Must not know: SQL,
permissions, events.
"""

from msgspec import Struct

from pattern_acp.memory.blocks import MOST_LIMIT, Block, BlockSpec
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.edits import Append, Operation, Patch, Replace, Rewrite, plan_edit, storable_text
from pattern_acp.memory.errors import LimitExceededError, UnusableEditError
from pattern_acp.memory.merging import Conflict, open_conflicts
from pattern_acp.memory.refusals import ContentRefusedError
from pattern_acp.memory.schemas.edits import AnyEdit, Authoring, Within
from pattern_acp.memory.schemas.forms import check
from pattern_acp.memory.schemas.types import TextSchema
from pattern_acp.memory.schemas.values import ContentError

LONGEST_LABEL = 64
"""Characters of a label: it stands in titles and file names."""


class Changed(Struct, frozen=True):
    """What was done to a document, and the double changes that are in it now."""

    operation: Operation
    conflicts: tuple[Conflict, ...]


def change_document(document: BlockDocument, block: Block, edit: AnyEdit, author: Authoring) -> Changed:
    """Carry `edit` out on the document of `block`.

    Raises:
        ContentRefusedError: the edit, or what it leads to, does not fit the schema; names the field.
        UnusableEditError: the edit is empty, changes nothing, or holds characters that cannot be stored.
        PassageError: the passage to replace is not there exactly once.
        LimitExceededError: the block would be too long.
    """
    label = block.key.label
    try:
        if isinstance(block.schema, TextSchema):
            operation, conflicts = _change_text(document, block, edit)
        else:
            operation, conflicts = _change_content(document, block, edit, author)
    except ContentError as error:
        raise ContentRefusedError(label, str(error), error.field) from error
    return Changed(operation, open_conflicts(document.text, (*block.conflicts, *conflicts)))


def new_document(spec: BlockSpec, *, peer: int) -> BlockDocument:
    """The document of a new block.

    Raises:
        UnusableEditError: the label, the description or the limit is none that a block can have, or the text cannot be
            stored.
        ContentRefusedError: the text does not fit the schema; names the field.
        LimitExceededError: the text is too long.
    """
    label = spec.key.label
    if not label.strip() or len(label) > LONGEST_LABEL or not label.isprintable():
        raise UnusableEditError(label, f"a label is one line of at most {LONGEST_LABEL} characters.")
    if not spec.description.strip():
        raise UnusableEditError(label, "it needs a description, which says what belongs there.")
    if not 1 <= spec.limit <= MOST_LIMIT:
        raise UnusableEditError(label, f"its limit must be from 1 to {MOST_LIMIT:,} characters.")
    try:
        document = BlockDocument.create(label, storable_text(spec.text, label=label), peer=peer, schema=spec.schema)
    except ContentError as error:
        raise ContentRefusedError(label, str(error), error.field) from error
    if len(document.text) > spec.limit:
        raise LimitExceededError(label, current=0, limit=spec.limit, wanted=len(document.text))
    return document


def _change_text(document: BlockDocument, block: Block, edit: AnyEdit) -> tuple[Operation, tuple[Conflict, ...]]:
    label = block.key.label
    if isinstance(edit, Within):
        raise ContentError("", f"it has no fields or sections, so leave out `field` (“{edit.place}”)")
    conflicts: tuple[Conflict, ...] = ()
    if not isinstance(edit, Append | Replace | Rewrite | Patch):
        from pattern_acp.memory.schemas.text_edits import edited_text

        changed = edited_text(edit, block.text, label=label)
        edit, conflicts = Rewrite(changed.text, changed.operation), changed.conflicts
    planned = plan_edit(edit, block.text, label=label, limit=block.limit)
    document.apply(planned)
    return planned.operation, conflicts


def _change_content(
    document: BlockDocument, block: Block, edit: AnyEdit, author: Authoring
) -> tuple[Operation, tuple[Conflict, ...]]:
    # Late: a start writes texts alone, and what plans changes of schemas is seven modules.
    from pattern_acp.memory.schemas.planning import plan_steps
    from pattern_acp.memory.schemas.read_only import changed_read_only

    label, before = block.key.label, document.content
    # Taking a write back, or going back to a version, writes nothing that was not there.
    reverts = isinstance(edit, Patch) or (isinstance(edit, Rewrite) and edit.operation is not Operation.REWRITE)
    plan = plan_steps(block.schema, before, edit, author, label=label)
    document.apply(plan.steps)
    after, text = document.content, document.text
    check(block.schema, after)
    if not (author.trusted or reverts):
        place = changed_read_only(block.schema, before, after)
        if place:
            raise ContentError(place, "is read-only; only the person and the program write it")
    if after == before:
        raise UnusableEditError(label, "it reads like that already.")
    if len(text) > block.limit and len(text) >= len(block.text):
        raise LimitExceededError(label, current=len(block.text), limit=block.limit, wanted=len(text))
    return plan.operation, plan.conflicts
