"""Blocks that more than their owner uses.

Owns: the rows of `block_shares`, and which blocks an owner sees with which permission. Must not know: sessions, or
the journal; every write carries the number of its event (rule R1). Nothing is shared but by an explicit attachment, and
only those it is attached to hear of it.
"""

import json
from collections.abc import Callable, Sequence

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.clock import BlockId
from pattern_acp.journal.events import MemoryPoint
from pattern_acp.memory.block_loader import decode_block, read_row
from pattern_acp.memory.blocks import Block, Isolation, Permission, Scope, Tier, lasting_owner, shared_owner
from pattern_acp.memory.errors import BlockCorruptError

_QUERIES = load_queries("pattern_acp.memory")


class Attachment(Struct, frozen=True):
    """To whom a block is attached, and what they may do with it."""

    scope: Scope
    owner: str
    permission: Permission


class VisibleBlock(Struct, frozen=True):
    """A block in someone's sight: under which label, with which permission, and from whom when it is shared."""

    block: Block
    label: str
    permission: Permission
    shared_from: str = ""


class DamagedBlock(Struct, frozen=True):
    """A block in someone's sight that cannot be read: what its row says, unchecked, and a sentence about it."""

    visible: VisibleBlock
    sentence: str


def attach(tx: Transaction, block_id: BlockId, attachment: Attachment, *, at_ms: int, seq: int) -> None:
    """Share a block, or change what the other may do with it."""
    tx.execute(_QUERIES["attach_block"], {**_row(block_id, attachment), "at_ms": at_ms, "seq": seq})


def detach(tx: Transaction, block_id: BlockId, scope: Scope, owner: str) -> bool:
    """Share a block no longer with an owner; says whether it was."""
    asked = {"block_id": block_id, "scope": scope.value, "owner": owner}
    return tx.execute(_QUERIES["detach_block"], asked) == 1


def attachments(tx: Transaction, block_id: BlockId) -> tuple[Attachment, ...]:
    """To whom a block is attached, oldest first."""
    rows = tx.all(_QUERIES["list_shares"], {"block_id": block_id})
    return tuple(
        Attachment(Scope(columns.text(row[0])), columns.text(row[1]), Permission(columns.text(row[2]))) for row in rows
    )


def sound_blocks(
    tx: Transaction, owners: Sequence[tuple[Scope, str]], *, isolation: Isolation = Isolation.NONE
) -> tuple[tuple[VisibleBlock, ...], tuple[DamagedBlock, ...]]:
    """The blocks that these owners see: their own in the order of the owners, then those attached to them.

    A label that is taken already is distinguished by its scope, or by the owner that it is shared from. What is
    attached to the persona is under the project's isolation like the persona's own: hidden, or core blocks to read. Of
    two attachments of one block the wider permission counts. Blocks whose text cannot be read or rebuilt stand before
    no other: they are named apart.
    """
    errors: dict[str, BlockCorruptError] = {}

    def decode(tx: Transaction, row: Row) -> Block:
        try:
            return decode_block(tx, row)
        except BlockCorruptError as error:
            block = read_row(row)[0]
            errors[block.id] = error
            return block

    seen = _visible(tx, owners, isolation, decode)
    damaged = (DamagedBlock(one, errors[one.block.id].sentence) for one in seen if one.block.id in errors)
    return tuple(one for one in seen if one.block.id not in errors), tuple(damaged)


def visible_rows(
    tx: Transaction, owners: Sequence[tuple[Scope, str]], *, isolation: Isolation = Isolation.NONE
) -> tuple[VisibleBlock, ...]:
    """All blocks of `sound_blocks`, the damaged ones too, without a look at the texts."""
    return _visible(tx, owners, isolation, lambda _tx, row: read_row(row)[0])


def _visible(
    tx: Transaction,
    owners: Sequence[tuple[Scope, str]],
    isolation: Isolation,
    decode: Callable[[Transaction, Row], Block],
) -> tuple[VisibleBlock, ...]:
    seen: dict[str, VisibleBlock] = {}
    own: set[str] = set()
    attached: dict[str, str] = {}
    asked = {"owners": json.dumps(owners)}
    for row in tx.all(_QUERIES["list_blocks"], asked):
        block = decode(tx, row)
        if is_hidden(block, isolation):
            continue
        label = block.key.label if block.key.label not in seen else f"{block.key.scope}/{block.key.label}"
        seen[label] = VisibleBlock(block, label, block.permission)
        own.add(block.id)
    for row in tx.all(_QUERIES["list_shared_blocks"], asked):
        block = decode(tx, row)
        permission = Permission(columns.text(row[17]))
        if columns.text(row[18]) == Scope.PERSONA.value and isolation is not Isolation.NONE:
            if isolation is Isolation.FULL or block.tier is not Tier.CORE:
                continue
            permission = Permission.READ_ONLY
        if block.id in own:
            continue
        label = attached.setdefault(block.id, _free_label(block, set(seen)))
        known = seen.get(label)
        if known is None or permission.rank > known.permission.rank:
            seen[label] = VisibleBlock(block, label, permission, lasting_owner(block.key.owner))
    return tuple(seen.values())


def unattached(tx: Transaction, owners: Sequence[tuple[Scope, str]], seen: Sequence[VisibleBlock]) -> tuple[Block, ...]:
    """The shared blocks that are not among those which these owners have in sight, oldest first."""
    rows = tx.all(_QUERIES["list_blocks"], {"owners": json.dumps([(Scope.SHARED, shared_owner(owners))])})
    known = {one.block.id for one in seen}
    return tuple(block for row in rows if (block := read_row(row)[0]).id not in known)


def shared_sources(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> dict[str, str]:
    """The ids of blocks that are attached to these owners, with their own owners."""
    rows = tx.all(_QUERIES["list_shared_blocks"], {"owners": json.dumps(owners)})
    return {columns.text(row[0]): columns.text(row[2]) for row in rows}


def touched_by(tx: Transaction, session_id: str, blocks: Sequence[Block]) -> set[str]:
    """The ids of those working blocks that a session wrote to."""
    ids = [block.id for block in blocks if block.tier is Tier.WORKING]
    if not ids:
        return set()
    rows = tx.all(_QUERIES["list_touched"], {"ids": json.dumps(ids), "session_id": session_id})
    return {columns.text(row[0]) for row in rows}


def is_hidden(block: Block, isolation: Isolation) -> bool:
    """True when isolation keeps a block of the persona out of sight."""
    if block.key.scope is not Scope.PERSONA or isolation is Isolation.NONE:
        return False
    return isolation is Isolation.FULL or block.tier is not Tier.CORE


def _free_label(block: Block, taken: set[str]) -> str:
    if block.key.scope is Scope.SHARED:
        return block.key.label if block.key.label not in taken else f"{Scope.SHARED}/{block.key.label}"
    owner = lasting_owner(block.key.owner).replace("\\", "/").rstrip("/").rpartition("/")[2]
    wanted = (block.key.label, f"{owner}/{block.key.label}")
    free = next((label for label in wanted if label not in taken), None)
    return free or f"{block.key.owner}/{block.key.label}"


def _row(block_id: BlockId, attachment: Attachment) -> dict[str, SqlValue]:
    return {
        "block_id": block_id,
        "scope": attachment.scope.value,
        "owner": attachment.owner,
        "permission": attachment.permission.value,
    }


def block_points(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> tuple[MemoryPoint, ...]:
    """Points of all blocks that these owners see; texts are not read, so damage does no harm."""
    frontiers: dict[str, bytes] = {}

    def decode(_tx: Transaction, row: Row) -> Block:
        block, frontiers[columns.text(row[0])] = read_row(row)
        return block

    seen = _visible(tx, owners, Isolation.NONE, decode)
    return tuple(
        MemoryPoint(one.block.id, one.label, one.block.head_update, frontiers[one.block.id].hex()) for one in seen
    )
