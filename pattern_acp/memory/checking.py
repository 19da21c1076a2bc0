"""Checking all of memory, for `doctor --verify`.

Owns: rebuilding every block from what is stored of it, and comparing the search index with its texts. Must not know:
who asks, or what follows from damage.
"""

import json
from collections.abc import Iterator

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import DatabaseCorruptError
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.errors import BlockCorruptError
from pattern_acp.memory.healing import find_damage
from pattern_acp.memory.stored import load_history, open_block, read_row, text_hash

_QUERIES = load_queries("pattern_acp.memory")
_READING_PEER = 1

_UPDATES = 500
"""Writes that are read at a time."""


def damaged_blocks(tx: Transaction) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """How many blocks there are, the labels of those that can be mended, and a sentence for each that is lost.

    Raises:
        DatabaseError: the file cannot be read.
    """
    owners = [(Scope(columns.text(row[0])), columns.text(row[1])) for row in tx.all(_QUERIES["block_owners"])]
    mendable = [damage.block.key.label for damage in find_damage(tx, owners, peer=_READING_PEER)]
    rows = tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)})
    lost: list[str] = []
    for row in rows:
        try:
            opened = open_block(tx, row, peer=_READING_PEER)
            history = load_history(tx, opened.block)
        except BlockCorruptError as error:
            lost.append(error.sentence)
            continue
        if text_hash(history.text) != text_hash(opened.block.text):
            lost.append(f"the history of {read_row(row)[0].key.label} ends in another text than the block has")
    return len(rows), tuple(mendable), tuple(lost)


def update_hashes(tx: Transaction) -> Iterator[tuple[int, str, int, str]]:
    """Of every write whose words are still there: its event, its block's label, its number, and its update's SHA-256.

    Raises:
        DatabaseError: the file cannot be read.
    """
    after = 0
    while rows := tx.all(_QUERIES["every_update"], {"after": after, "limit": _UPDATES}):
        for seq, label, number, update in rows:
            after = columns.integer(seq)
            yield after, columns.text(label), columns.integer(number), sha256_hex(columns.data(update))


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
