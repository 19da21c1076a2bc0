"""Checking all of memory, for `doctor --verify`.

Owns: rebuilding every block from what is stored of it, and comparing the search index with its texts. Must not know:
who asks, or what follows from damage.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.errors import DatabaseCorruptError
from pattern_acp.db.queries import load_queries
from pattern_acp.db.table_rows import columns_of
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.memory.forget import every_block
from pattern_acp.memory.healing import find_damage, lost_histories
from pattern_acp.memory.history import read_history
from pattern_acp.memory.stored import OpenBlock, load_history, open_block, read_row, text_hash
from pattern_acp.memory.verifying import damaged_parts

_QUERIES = load_queries("pattern_acp.memory")
_READING_PEER = 1


def damaged_blocks(tx: Transaction) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """How many blocks there are, the labels of those that can be mended, and a sentence for each that is lost.

    Those whose text is sound while their history is lost are not among them: `damaged_histories` has them.

    Raises:
        DatabaseError: the file cannot be read.
    """
    owners = _owners(tx)
    mendable = [damage.block.key.label for damage in find_damage(tx, owners, peer=_READING_PEER)]
    rows = tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)})
    lost: list[str] = []
    for row in rows:
        try:
            opened = open_block(tx, row, peer=_READING_PEER)
        except BlockCorruptError as error:
            lost.append(error.sentence)
            continue
        try:
            history = load_history(tx, opened.block)
        except BlockCorruptError:
            continue
        if text_hash(history.text) != text_hash(opened.block.text):
            lost.append(f"the history of {read_row(row)[0].key.label} ends in another text than the block has")
    return len(rows), tuple(mendable), tuple(lost)


def damaged_histories(tx: Transaction, *, peer: int = _READING_PEER) -> tuple[tuple[OpenBlock, str], ...]:
    """The blocks whose text is sound, and whose older versions nothing that is stored gives; and what is wrong.

    Raises:
        DatabaseError: the file cannot be read.
    """
    return lost_histories(tx, _owners(tx), peer=peer)


def _owners(tx: Transaction) -> list[tuple[Scope, str]]:
    return [(Scope(columns.text(row[0])), columns.text(row[1])) for row in tx.all(_QUERIES["block_owners"])]


def damaged_snapshots(tx: Transaction) -> Iterator[tuple[str, str]]:
    """The labels of blocks, also of those that are deleted, with what is wrong with base, updates or archive.

    Raises:
        DatabaseError: the file cannot be read.
    """
    for block, _ in every_block(tx):
        try:
            problems = damaged_parts(read_history(tx, block))
        except BlockCorruptError as error:
            problems = (error.problem,)
        yield from ((block.key.label, problem) for problem in problems)


class StoredRows(Struct, frozen=True):
    """Every column of the rows of a block, by its name. In writes `data` is the SHA-256 of the update, or empty."""

    block: Mapping[str, SqlValue]
    writes: tuple[Mapping[str, SqlValue], ...]
    archive: Mapping[str, SqlValue] | None

    @property
    def id(self) -> str:
        """The block's id."""
        return columns.text(self.block["id"])

    @property
    def label(self) -> str:
        """The block's label."""
        return columns.text(self.block["label"])


def stored_rows(tx: Transaction, only: Collection[str] | None = None) -> Iterator[StoredRows]:
    """The rows of every block, or of those with the ids `only`, oldest first, one after the other.

    Raises:
        DatabaseError: the file cannot be read.
    """
    for block in _named(tx, "blocks", tx.all(_QUERIES["all_of_blocks"])):
        if only is None or block["id"] in only:
            asked = {"block_id": block["id"]}
            writes = _named(tx, "block_updates", tx.all(_QUERIES["all_of_writes"], asked))
            archives = _named(tx, "block_archives", tx.all(_QUERIES["all_of_archive"], asked))
            hashed = ({**write, "data": _hashed(columns.data(write["data"]))} for write in writes)
            yield StoredRows(block, tuple(hashed), next(iter(archives), None))


def _named(tx: Transaction, table: str, rows: Sequence[Row]) -> list[dict[str, SqlValue]]:
    names = columns_of(tx, table)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _hashed(update: bytes) -> str:
    return sha256_hex(update) if update else ""


def search_problem(tx: Transaction) -> str:
    """What is wrong with the search index; empty when it is that of the stored texts. Needs a transaction that writes.

    Raises:
        DatabaseError: the file cannot be read.
    """
    try:
        tx.execute(_QUERIES["check_search"])
    except DatabaseCorruptError:
        return "The search index is not that of the stored texts, so searches find too little."
    return ""


def rebuild_search(tx: Transaction) -> None:
    """Write the search index anew from the stored texts.

    Raises:
        DatabaseError: the file cannot be written.
    """
    tx.execute(_QUERIES["rebuild_search"])
