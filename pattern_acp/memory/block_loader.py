"""Loading a block's document from its rows, and mending it from what else is stored.

Owns: which stored parts make a document, and when one counts as sound. Must not know: edits, events, search.

Three sources hold every block: its base with the updates since, its archive with the updates since, and the log of all
updates. They are tried in this order, so that one damaged row costs nothing; a document is only taken when its version
or the hash of its text is the stored one. The number of the newest update is in the log, too: where the block's row has
another, that of the log is tried.
"""

import logging
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import BlockId
from pattern_acp.memory.blocks import Block, BlockKey, Permission, Scope, Tier
from pattern_acp.memory.diffs import decode_conflicts
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.errors import BlockCorruptError, DocumentError, HistoryCorruptError
from pattern_acp.memory.schemas.types import (
    BlockSchema,
    ContentError,
    SchemaError,
    TextSchema,
    decode_schema,
    unfolded,
)

_QUERIES = load_queries("pattern_acp.memory")
_LOGGER = logging.getLogger(__name__)
_Word = TypeVar("_Word", bound=StrEnum)

ROWS_KEPT = 64
"""Rows whose block is stored as it was read: those that a few sessions see. Most are small, and the largest 20 kB."""

READING_PEER = 1
"""Peer of documents that are only read: nothing is ever exported from them."""


class OpenBlock(Struct, frozen=True):
    """A block with its document.

    `base_bytes` is the size of its base, `pending_updates` and `pending_bytes` came after that; `mended` tells that
    stored parts were damaged and should be written again.
    """

    block: Block
    document: BlockDocument
    base_bytes: int
    pending_updates: int
    pending_bytes: int
    mended: bool


class _Stored(Struct, frozen=True):
    block: Block
    text_hash: str
    frontiers: bytes


def text_hash(text: str) -> str:
    """The hash that is stored beside a block's text."""
    return sha256_hex(text.encode("utf-8"))


def decode_block(tx: Transaction, row: Row) -> Block:
    """The block of a `find_block` or `list_blocks` row, its text checked against its hash.

    Raises:
        BlockCorruptError: the text is wrong and no sound document is left to read it from.
    """
    sound = _sound_block(row)
    return sound if sound is not None else _open(tx, _decode(row, _schema(row)), READING_PEER).block


@lru_cache(maxsize=ROWS_KEPT)
def _sound_block(row: Row) -> Block | None:
    """The block of a row whose text has its hash. Each request reads all memory again, and little of it has changed."""
    stored = _decoded(row)
    return stored.block if text_hash(stored.block.text) == stored.text_hash else None


@lru_cache(maxsize=ROWS_KEPT)
def _decoded(row: Row) -> _Stored:
    """The content of a row, unchecked. Each turn reads the rows of all memory several times."""
    return _decode(row, _schema(row))


def open_block(tx: Transaction, row: Row, *, peer: int) -> OpenBlock:
    """The block of a `find_block` row with its document, for this process's `peer` to change.

    Raises:
        HistoryCorruptError: nothing that is stored gives the document, and the text has its hash: `from_text` takes it.
        BlockCorruptError: nothing that is stored gives the document or the text.
    """
    stored = _decode(row, _schema(row))
    try:
        return _open(tx, stored, peer)
    except BlockCorruptError as error:
        if _from_text(stored, peer) is None:
            raise
        raise HistoryCorruptError(stored.block.key.label, error.problem, only_text=True) from error


def from_text(row: Row, *, peer: int) -> OpenBlock:
    """The block of a `find_block` row with a new document, whose first change is the text.

    Raises:
        BlockCorruptError: the text has not its hash, or does not give the document.
    """
    stored = _decode(row, _schema(row))
    document = _from_text(stored, peer)
    if document is None:
        raise BlockCorruptError(stored.block.key.label, "its text is not the one stored last")
    return OpenBlock(stored.block, document, 0, 0, 0, mended=True)


def _from_text(stored: _Stored, peer: int) -> BlockDocument | None:
    block = stored.block
    if text_hash(block.text) != stored.text_hash:
        return None
    try:
        document = BlockDocument.create(block.key.label, block.text, peer=peer, schema=block.schema)
    except (ContentError, DocumentError):
        # The text of a log, for one, shows no more than its end.
        return None
    return document if document.text == block.text else None


def whole_block(tx: Transaction, key_row: Row) -> Block:
    """The block of a `find_block` row with every entry of its logs in its text, and a schema that shows them.

    Raises:
        BlockCorruptError: nothing that is stored gives the document.
    """
    opened = open_block(tx, key_row, peer=READING_PEER)
    schema = unfolded(opened.block.schema)
    opened.document.schema = schema
    return replace(opened.block, schema=schema, text=opened.document.text)


def load_history(tx: Transaction, block: Block, *, peer: int = READING_PEER) -> BlockDocument:
    """The document with all its history: from the archive and the updates after it, else from all updates.

    It is to read, unless another `peer` is named.

    Raises:
        BlockCorruptError: neither is whole.
    """
    first: BlockCorruptError | None = None
    for parts_of in (_archive_parts, _log_parts):
        try:
            return BlockDocument.load(block.key.label, parts_of(tx, block), peer=peer, schema=block.schema)
        except BlockCorruptError as error:
            first = first or error
    raise first or AssertionError("there is always a source")


def has_archive(tx: Transaction, block: Block) -> bool:
    """True when the archive and the updates after it give the block as it is."""
    try:
        parts = _archive_parts(tx, block)
        document = BlockDocument.load(block.key.label, parts, peer=READING_PEER, schema=block.schema)
    except BlockCorruptError:
        return False
    return document.text == block.text


def read_row(row: Row) -> tuple[Block, bytes]:
    """The block of a `find_block` row as it is stored, unchecked, and its frontiers: enough to delete a damaged one."""
    try:
        stored = _decoded(row)
    except BlockCorruptError:
        # Its scope stays checked: without one it has no name to be deleted by.
        sound = (*row[:13], Permission.READ_WRITE, row[14], Tier.CORE, *row[16:])
        stored = _decode(sound, TextSchema())
    return stored.block, stored.frontiers


def newest_number(tx: Transaction, block: Block) -> int:
    """The number of the last update in the log, 0 without one; `head_update` says the same unless one is damaged."""
    row = tx.one(_QUERIES["newest_update"], {"block_id": block.id})
    return 0 if row is None or row[0] is None else columns.integer(row[0])


def archived_number(tx: Transaction, block: Block) -> int:
    """The number of the last update in the archive, 0 without one."""
    row = tx.one(_QUERIES["read_archived_number"], {"block_id": block.id})
    return 0 if row is None else columns.integer(row[0])


def _decode(row: Row, schema: BlockSchema) -> _Stored:
    block = Block(
        id=BlockId(columns.text(row[0])),
        key=BlockKey(Scope(columns.text(row[1])), columns.text(row[2]), columns.text(row[3])),
        description=columns.text(row[4]),
        limit=columns.integer(row[5]),
        text=columns.text(row[6]),
        updated_ms=columns.integer(row[8]),
        head_update=columns.integer(row[9]),
        history_from=columns.integer(row[11]),
        schema=schema,
        permission=_one_of(Permission, "permission", row, 13),
        pinned=columns.integer(row[14]) == 1,
        tier=_one_of(Tier, "tier", row, 15),
        conflicts=decode_conflicts(columns.text(row[16])),
    )
    return _Stored(block, text_hash=columns.text(row[7]), frontiers=columns.data(row[10]))


def _one_of(words: type[_Word], name: str, row: Row, column: int) -> _Word:
    try:
        return words(columns.text(row[column]))
    except ValueError as error:
        raise BlockCorruptError(columns.text(row[3]), f"its {name} is {columns.text(row[column])!r}") from error


def _schema(row: Row) -> BlockSchema:
    try:
        return decode_schema(columns.text(row[12]))
    except SchemaError as error:
        raise BlockCorruptError(columns.text(row[3]), str(error)) from error


def _open(tx: Transaction, stored: _Stored, peer: int) -> OpenBlock:
    logged = newest_number(tx, stored.block)
    renumbered = replace(stored, block=replace(stored.block, head_update=logged))
    if logged > stored.block.head_update:
        return replace(_open_numbered(tx, renumbered, peer), mended=True)
    try:
        return _open_numbered(tx, stored, peer)
    except BlockCorruptError:
        # The row may count too many; the end of the log may as well be lost, and then this finds no document either.
        if not 0 < logged < stored.block.head_update:
            raise
    return replace(_open_numbered(tx, renumbered, peer), mended=True)


def _open_numbered(tx: Transaction, stored: _Stored, peer: int) -> OpenBlock:
    first: BlockCorruptError | None = None
    for parts_of in (_base_parts, _archive_parts, _log_parts):
        try:
            parts = parts_of(tx, stored.block)
            document = BlockDocument.load(stored.block.key.label, parts, peer=peer, schema=stored.block.schema)
            agrees = _agrees(stored, document)
        except BlockCorruptError as error:
            first = first or error
            continue
        mended = not agrees or first is not None or document.text != stored.block.text
        if mended:
            _LOGGER.warning(
                "Stored parts of memory block %s are damaged; it was read from sound ones.", stored.block.id
            )
        block = replace(stored.block, text=document.text)
        return OpenBlock(block, document, len(parts[0]), len(parts) - 1, sum(map(len, parts[1:])), mended)
    raise first or AssertionError("there is always a source")


def _agrees(stored: _Stored, document: BlockDocument) -> bool:
    """True when both the version and the text are the stored ones; one of them proves the document right."""
    same_version = document.frontiers == stored.frontiers
    same_text = text_hash(document.text) == stored.text_hash
    if not (same_version or same_text):
        raise BlockCorruptError(stored.block.key.label, "it is another version than the one stored last")
    return same_version and same_text


def _base_parts(tx: Transaction, block: Block) -> Sequence[bytes]:
    row = tx.one(_QUERIES["read_base"], {"block_id": block.id})
    if row is None:
        raise BlockCorruptError(block.key.label, "its row is gone")
    return (columns.data(row[0]), *_updates_after(tx, block, columns.integer(row[1])))


def _archive_parts(tx: Transaction, block: Block) -> Sequence[bytes]:
    row = tx.one(_QUERIES["read_archive"], {"block_id": block.id})
    if row is None:
        raise BlockCorruptError(block.key.label, "it has no archive")
    return (columns.data(row[0]), *_updates_after(tx, block, columns.integer(row[1])))


def _log_parts(tx: Transaction, block: Block) -> Sequence[bytes]:
    return _updates_after(tx, block, block.history_from - 1)


def _updates_after(tx: Transaction, block: Block, number: int) -> tuple[bytes, ...]:
    rows = tx.all(_QUERIES["read_updates"], {"block_id": block.id, "after": number})
    # The row may count any number of them.
    are_all = len(rows) == block.head_update - number
    if not are_all or [columns.integer(row[0]) for row in rows] != list(range(number + 1, block.head_update + 1)):
        raise BlockCorruptError(block.key.label, "an update is missing")
    # Deleting and restoring are writes without an update.
    return tuple(data for row in rows if (data := columns.data(row[1])))
