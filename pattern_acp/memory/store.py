"""Blocks in the constellation: reading, and changing one in two steps.

Owns: the rows of `blocks`, `block_updates` and `block_archives`. Must not know: the journal. A change is first proposed
(which writes nothing), then its event is appended by the one who composes both, and then it is stored with the number
of that event (rule R1), all in one transaction.

Updates are append-only and never deleted. The base is a shallow snapshot that is made again when the updates after it
are many, so that loading a block costs the same however long its history is; the archive keeps a full snapshot, so
that history loads fast.
"""

import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject, canonical_json, sha256_hex
from pattern_acp.domain.clock import BlockId
from pattern_acp.memory.block_loader import (
    READING_PEER,
    OpenBlock,
    archived_number,
    decode_block,
    load_history,
    newest_number,
    open_block,
    text_hash,
    whole_block,
)
from pattern_acp.memory.blocks import MOST_LIMIT, Block, BlockKey, BlockSpec, Scope, peer_in
from pattern_acp.memory.diffs import Conflict, encode_conflicts, open_conflicts
from pattern_acp.memory.document import EMPTY_FRONTIERS, BlockDocument, CreatedDocument, create_document
from pattern_acp.memory.edits import (
    AnyEdit,
    Append,
    Authoring,
    Operation,
    Patch,
    Replace,
    Rewrite,
    Within,
    plan_edit,
    storable_text,
)
from pattern_acp.memory.errors import (
    BlockCorruptError,
    BlockMissingError,
    ContentRefusedError,
    LimitExceededError,
    StaleProposalError,
    UnusableEditError,
)
from pattern_acp.memory.schemas.forms import check
from pattern_acp.memory.schemas.types import ContentError, TextSchema, encode_schema
from pattern_acp.memory.search_terms import common_ending, common_lines

_QUERIES = load_queries("pattern_acp.memory")
_LOGGER = logging.getLogger(__name__)

SMALL_BASE_BYTES = 32 * 1024
"""Bases up to this size are made again by every write: 20 KB of text load in 0.1 ms, with two updates behind them in
1.6 and with eight in 2.2, while a base is made in 0.1 ms. SQLite writes all of a block's row with every new text
anyway.
"""

REBASE_UPDATES = 8
"""Updates after a larger base that make a new one due."""

REBASE_BYTES = 16 * 1024
"""Bytes of updates after the base that make a new base due."""

_NOBODY = Authoring()

ARCHIVE_SHARE = 4
"""The archive is made again once the updates since are a quarter of those in it, so that its cost, which grows with the
history, is spread over ever more writes."""


class NewBase(Struct, frozen=True):
    """Rows to write when a base is due: the shallow snapshot, and the full one unless the archive is recent."""

    snapshot: bytes
    archive: bytes | None


class ProposedChange(Struct, frozen=True):
    """A change that would work. `block` is the block before it (for a creation: without text)."""

    block: Block
    operation: Operation
    text: str
    update: bytes
    peer: int
    frontiers_before: bytes
    frontiers_after: bytes
    new_base: NewBase | None
    target: int | None = None
    """Number of the write that this one takes back, or of the version that it goes back to."""
    conflicts: tuple[Conflict, ...] = ()
    """Double changes that are in the text afterwards."""

    @property
    def before_hash(self) -> str:
        """SHA-256 of the text before."""
        return text_hash(self.block.text)

    @property
    def after_hash(self) -> str:
        """SHA-256 of the text after."""
        return text_hash(self.text)

    @property
    def update_hash(self) -> str:
        """SHA-256 of the update."""
        return sha256_hex(self.update)

    @property
    def facts_hash(self) -> str:
        """SHA-256 of what the row of the write says beside what its event names on its own."""
        return facts_hash(self.facts)

    @property
    def facts(self) -> dict[str, SqlValue]:
        """The columns of the row of the write that the change itself decides, but for the update."""
        start = common_lines(self.block.text, self.text)
        rests = self.block.text[start:], self.text[start:]
        ending = common_ending(*rests)
        before, after = (Counter(rest[: len(rest) - ending].splitlines()) for rest in rests)
        return {
            "number": self.number,
            "frontiers_before": self.frontiers_before,
            "frontiers_after": self.frontiers_after,
            "peer": str(self.peer),
            "operation": self.operation.value,
            "target": self.target,
            "size": len(self.text),
            "lines_added": (after - before).total(),
            "lines_removed": (before - after).total(),
        }

    @property
    def number(self) -> int:
        """The number of the update that the change becomes."""
        return self.block.head_update + 1


def facts_hash(facts: Mapping[str, SqlValue]) -> str:
    """SHA-256 of columns of a row of `block_updates`, which the event of the write gives."""
    values = {name: value.hex() if isinstance(value, bytes) else value for name, value in facts.items()}
    return sha256_hex(canonical_json(cast("JsonObject", values)))


class WriteRecord(Struct, frozen=True):
    """Who changed a block, from what, why and when, and the number of the event that says so."""

    seq: int
    actor: Actor
    origin: Origin
    reason: str
    at_ms: int


def load_block(tx: Transaction, key: BlockKey) -> Block:
    """The block with this key.

    Raises:
        BlockMissingError: there is none.
        BlockCorruptError: its text cannot be read or rebuilt.
    """
    return decode_block(tx, _find(tx, key))


def load_numbered(tx: Transaction, key: BlockKey) -> Block:
    """The block with this key, its number of writes compared with the log, which those who ask for versions need.

    Raises:
        BlockMissingError: there is none.
        BlockCorruptError: its text cannot be read or rebuilt.
    """
    row = _find(tx, key)
    block = decode_block(tx, row)
    if newest_number(tx, block) == block.head_update:
        return block
    return open_block(tx, row, peer=READING_PEER).block


def load_whole(tx: Transaction, key: BlockKey) -> Block:
    """The block with every entry of its logs in its text, as the search index has it.

    Raises:
        BlockMissingError: there is no such block.
        BlockCorruptError: its document cannot be read or rebuilt.
    """
    return whole_block(tx, _find(tx, key))


def block_exists(tx: Transaction, key: BlockKey) -> bool:
    """True when there is a block with this key."""
    return tx.one(_QUERIES["block_exists"], of_key(key)) is not None


def list_blocks(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> tuple[Block, ...]:
    """All blocks of these owners: in the order of the owners, then oldest first.

    Raises:
        BlockCorruptError: the text of one cannot be read or rebuilt.
    """
    rows = tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)})
    return tuple(decode_block(tx, row) for row in rows)


def missing_blocks(tx: Transaction, wanted: Sequence[BlockSpec]) -> tuple[BlockSpec, ...]:
    """Those of `wanted` that do not exist."""
    return tuple(spec for spec in wanted if not block_exists(tx, spec.key))


def propose_creation(spec: BlockSpec, block_id: BlockId, *, peer: int) -> ProposedChange:
    """Propose the creation of a block; the caller has made sure that its label is free.

    Raises:
        UnusableEditError: the text holds characters that cannot be stored, or the label, description or limit is wrong.
        ContentRefusedError: the text does not fit the schema.
        LimitExceededError: the text is too long.
    """
    peer = peer_in(spec.key.owner, peer)
    created = _create_document(spec, peer=peer)
    block = Block(
        block_id,
        spec.key,
        spec.description,
        spec.limit,
        text="",
        updated_ms=0,
        head_update=0,
        schema=spec.schema,
        permission=spec.permission,
        pinned=spec.pinned,
        tier=spec.tier,
    )
    return ProposedChange(
        block=block,
        operation=Operation.CREATE,
        text=created.text,
        update=created.update,
        peer=created.peer,
        frontiers_before=EMPTY_FRONTIERS,
        frontiers_after=created.frontiers,
        new_base=NewBase(created.base, created.archive),
    )


def propose(
    tx: Transaction,
    key: BlockKey,
    edit: AnyEdit,
    *,
    peer: int,
    head: int | None = None,
    target: int | None = None,
    author: Authoring = _NOBODY,
) -> ProposedChange:
    """Propose `edit`. Writes nothing; store it in the same transaction or not at all.

    `head` is the number of the newest write that `edit` was worked out for; None for any. `target` is the write that
    it takes back, or goes back to. `author` is in entries of logs.

    Raises:
        BlockMissingError: there is no such block.
        StaleProposalError: there are writes after `head`.
        BlockCorruptError: its document cannot be read or rebuilt.
        UnusableEditError: the edit is empty, changes nothing, or holds characters that cannot be stored.
        PassageError: the passage to replace is not there exactly once.
        ContentRefusedError: the edit does not fit the block's schema.
        LimitExceededError: the block would be too long.
    """
    peer = peer_in(key.owner, peer)
    opened = open_block(tx, _find(tx, key), peer=peer)
    block, document = opened.block, opened.document
    if head not in {None, block.head_update}:
        raise StaleProposalError(key.label)
    before = document.frontiers
    changed = change_document(document, block, edit, author)
    update = document.export_update(before)
    return ProposedChange(
        block=block,
        operation=changed.operation,
        text=document.text,
        update=update,
        peer=peer,
        frontiers_before=before,
        frontiers_after=document.frontiers,
        new_base=_new_base(tx, opened, update),
        target=target,
        conflicts=changed.conflicts,
    )


def propose_merge(
    tx: Transaction, key: BlockKey, update: bytes, operation: Operation, *, peer: int
) -> ProposedChange | None:
    """Propose to take in an update that was made elsewhere; None when all of it is here.

    `peer` is that of the update. Nothing of the text is refused: it was accepted where it was written.

    Raises:
        BlockMissingError: there is no such block.
        BlockCorruptError: its document cannot be read, or the update builds on one that is missing.
    """
    block = open_block(tx, _find(tx, key), peer=peer).block
    # All of its history: what was written elsewhere may build on a version from before the base.
    document = load_history(tx, block)
    before = document.frontiers
    document.merge_from_elsewhere(update)
    if document.frontiers == before:
        return None
    return ProposedChange(
        block=block,
        operation=operation,
        text=document.text,
        update=document.export_update(before),
        peer=peer,
        frontiers_before=before,
        frontiers_after=document.frontiers,
        new_base=NewBase(document.shallow_snapshot(), document.full_snapshot()),
        conflicts=open_conflicts(document.text, block.conflicts),
    )


def changed_block(change: ProposedChange, at_ms: int) -> Block:
    """The block as it is once the change is stored at `at_ms`."""
    return replace(
        change.block, text=change.text, updated_ms=at_ms, head_update=change.number, conflicts=change.conflicts
    )


def store_change(tx: Transaction, change: ProposedChange, record: WriteRecord) -> None:
    """Write a proposed change, whose event is `record.seq`.

    Raises:
        StaleProposalError: the block changed after the proposal.
    """
    if change.operation is Operation.CREATE:
        _insert_block(tx, change, record)
    else:
        _advance_block(tx, change, record)
    insert_write(tx, change, record)
    if change.new_base is not None and change.new_base.archive is not None:
        tx.execute(
            _QUERIES["store_archive"],
            {
                "block_id": change.block.id,
                "upto": change.number,
                "snapshot": change.new_base.archive,
                "seq": record.seq,
            },
        )


def insert_write(tx: Transaction, change: ProposedChange, record: WriteRecord) -> None:
    """Write the row of a change in the log of its block; `store_change` does it for changes of text."""
    tx.execute(
        _QUERIES["insert_update"],
        {
            **change.facts,
            "block_id": change.block.id,
            "data": change.update,
            "actor": record.actor.value,
            "origin": record.origin.value,
            "reason": storable(record.reason),
            "at_ms": record.at_ms,
            "seq": record.seq,
        },
    )


def _insert_block(tx: Transaction, change: ProposedChange, record: WriteRecord) -> None:
    block = change.block
    tx.execute(
        _QUERIES["insert_block"],
        {
            "id": block.id,
            "scope": block.key.scope.value,
            "owner": block.key.owner,
            "label": block.key.label,
            "description": block.description,
            "char_limit": block.limit,
            "text": change.text,
            "text_hash": change.after_hash,
            "base": change.update if change.new_base is None else change.new_base.snapshot,
            "frontiers": change.frontiers_after,
            "schema": encode_schema(block.schema),
            "permission": block.permission.value,
            "pinned": int(block.pinned),
            "tier": block.tier.value,
            "at_ms": record.at_ms,
            "seq": record.seq,
        },
    )


def _advance_block(tx: Transaction, change: ProposedChange, record: WriteRecord) -> None:
    changed = tx.execute(
        _QUERIES["advance_block"],
        {
            "block_id": change.block.id,
            "number": change.number,
            "text": change.text,
            "text_hash": change.after_hash,
            "frontiers": change.frontiers_after,
            "conflicts": encode_conflicts(change.conflicts),
            "at_ms": record.at_ms,
            "seq": record.seq,
            "base": None if change.new_base is None else change.new_base.snapshot,
        },
    )
    if changed != 1:
        raise StaleProposalError(change.block.key.label)


def _new_base(tx: Transaction, opened: OpenBlock, update: bytes) -> NewBase | None:
    many = opened.pending_updates + 1 >= REBASE_UPDATES
    large = opened.pending_bytes + len(update) >= REBASE_BYTES
    small = opened.base_bytes <= SMALL_BASE_BYTES
    if not (small or many or large or opened.mended):
        return None
    return NewBase(opened.document.shallow_snapshot(), _new_archive(tx, opened, update, is_due=many or large))


def _new_archive(tx: Transaction, opened: OpenBlock, update: bytes, *, is_due: bool) -> bytes | None:
    archived = archived_number(tx, opened.block)
    added = opened.block.head_update + 1 - archived
    # Not with each write of a small block: one whose history is damaged would be tried, and reported, each time.
    recent = not (is_due or added % REBASE_UPDATES == 0) or added * ARCHIVE_SHARE < archived
    if recent and not opened.mended:
        return None
    try:
        history = load_history(tx, opened.block)
        history.merge(update)
    except BlockCorruptError:
        # The write itself is sound; what is left of the history stays where it is for a user to look at.
        _LOGGER.warning("The history of memory block %s is damaged; its archive was left as it is.", opened.block.id)
        return None
    return history.full_snapshot()


def _find(tx: Transaction, key: BlockKey) -> Row:
    row = _row(tx, key)
    if row is None:
        raise BlockMissingError(key.label)
    return row


def _row(tx: Transaction, key: BlockKey) -> Row | None:
    return tx.one(_QUERIES["find_block"], of_key(key))


def of_key(key: BlockKey) -> dict[str, SqlValue]:
    """The parameters that name a block in a statement."""
    return {"scope": key.scope.value, "owner": key.owner, "label": storable(key.label)}


LONGEST_LABEL = 64
"""Characters of a label: it is in titles and file names."""


class AppliedEdit(Struct, frozen=True):
    """The edit of a document, and the double changes that are in it now."""

    operation: Operation
    conflicts: tuple[Conflict, ...]


def change_document(document: BlockDocument, block: Block, edit: AnyEdit, author: Authoring) -> AppliedEdit:
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
    return AppliedEdit(operation, open_conflicts(document.text, (*block.conflicts, *conflicts)))


def _create_document(spec: BlockSpec, *, peer: int) -> CreatedDocument:
    label = spec.key.label
    if not label.strip() or len(label) > LONGEST_LABEL or not label.isprintable():
        raise UnusableEditError(label, f"a label is one line of at most {LONGEST_LABEL} characters.")
    if not spec.description.strip():
        raise UnusableEditError(label, "it needs a description, which says what belongs there.")
    if not 1 <= spec.limit <= MOST_LIMIT:
        raise UnusableEditError(label, f"its limit must be from 1 to {MOST_LIMIT:,} characters.")
    try:
        created = create_document(label, storable_text(spec.text, label=label), peer=peer, schema=spec.schema)
    except ContentError as error:
        raise ContentRefusedError(label, str(error), error.field) from error
    if len(created.text) > spec.limit:
        raise LimitExceededError(label, current=0, limit=spec.limit, wanted=len(created.text))
    return created


def _change_text(document: BlockDocument, block: Block, edit: AnyEdit) -> tuple[Operation, tuple[Conflict, ...]]:
    label = block.key.label
    if isinstance(edit, Within):
        raise ContentError("", f"it has no fields or sections, so leave out `field` (“{edit.place}”)")
    conflicts: tuple[Conflict, ...] = ()
    if not isinstance(edit, Append | Replace | Rewrite | Patch):
        from pattern_acp.memory.schemas.planning import edited_text

        changed = edited_text(edit, block.text, label=label)
        edit, conflicts = Rewrite(changed.text, changed.operation), changed.conflicts
    planned = plan_edit(edit, block.text, label=label, limit=block.limit)
    document.apply(planned)
    return planned.operation, conflicts


def _change_content(
    document: BlockDocument, block: Block, edit: AnyEdit, author: Authoring
) -> tuple[Operation, tuple[Conflict, ...]]:
    # Late: a start writes texts alone, and what plans changes of schemas is seven modules.
    from pattern_acp.memory.schemas.planning import changed_read_only, plan_steps

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
            raise ContentError(place, "is read-only; only the user and the program write it")
    if after == before:
        raise UnusableEditError(label, "it reads like that already.")
    if len(text) > block.limit and len(text) >= len(block.text):
        raise LimitExceededError(label, current=len(block.text), limit=block.limit, wanted=len(text))
    return plan.operation, plan.conflicts
