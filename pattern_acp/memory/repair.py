"""Writing a damaged block anew from what is sound.

Owns: telling that stored parts of a block are damaged, and the rows that mend them. Must not know: the journal; the
caller appends the event that says so. `block_loader` already reads a damaged block from its sound parts;
this makes the damage go away, so that the next damage finds three sources again.
"""

import json
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.memory.block_loader import OpenBlock, has_archive, load_history, open_block, text_hash
from pattern_acp.memory.blocks import Block, Scope
from pattern_acp.memory.errors import BlockCorruptError

_QUERIES = load_queries("pattern_acp.memory")


class Damage(Struct, frozen=True):
    """A block of which stored parts are damaged while others are sound."""

    opened: OpenBlock

    @property
    def block(self) -> Block:
        """The block as the sound parts give it."""
        return self.opened.block


def find_damage(tx: Transaction, owners: Sequence[tuple[Scope, str]], *, peer: int) -> tuple[Damage, ...]:
    """The blocks of these owners that can be mended; those of which nothing is sound are not among them.

    Nor are those whose text is sound while their history is lost: `lost_histories` has them.
    """
    found: list[Damage] = []
    for row in tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)}):
        try:
            opened = open_block(tx, row, peer=peer)
            hurt = opened.mended or text_hash(columns.text(row[6])) != row[7]
            if hurt or (not has_archive(tx, opened.block) and load_history(tx, opened.block)):
                found.append(Damage(opened))
        except BlockCorruptError:
            continue
    return tuple(found)


def lost_histories(
    tx: Transaction, owners: Sequence[tuple[Scope, str]], *, peer: int
) -> tuple[tuple[OpenBlock, str], ...]:
    """The blocks of these owners whose text is sound, and whose history nothing that is stored gives; and why."""
    found: list[tuple[OpenBlock, str]] = []
    for row in tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)}):
        with suppress(BlockCorruptError):
            opened = open_block(tx, row, peer=peer)
            try:
                load_history(tx, opened.block)
            except BlockCorruptError as error:
                found.append((opened, error.problem))
    return tuple(found)


def heal(tx: Transaction, damage: Damage, *, seq: int) -> None:
    """Write the block's text, base and, where its history is whole, its archive anew; its event is `seq`."""
    opened, block = damage.opened, damage.block
    tx.execute(
        _QUERIES["heal_block"],
        {
            "block_id": block.id,
            "text": block.text,
            "text_hash": text_hash(block.text),
            "base": opened.document.shallow_snapshot(),
            "frontiers": opened.document.frontiers,
            "number": block.head_update,
            "seq": seq,
        },
    )
    try:
        history = load_history(tx, block)
    except BlockCorruptError:
        # The text is sound again; `lost_histories` names the block.
        return
    archive = {"block_id": block.id, "upto": block.head_update, "snapshot": history.full_snapshot(), "seq": seq}
    tx.execute(_QUERIES["store_archive"], archive)
