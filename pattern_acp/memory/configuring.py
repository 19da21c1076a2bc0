"""Changes to a block beside its text: its settings, its deletion, and its restoration.

Owns: which settings there are and their values, and the rows that change, among them a write in the log of a deleted
block, since its history continues. Must not know: the journal; every write carries the number of its event (rule R1).
The schema is no setting: its kind never changes. Damaged blocks can be deleted too, so the text is not looked at
before.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor
from pattern_acp.domain.canonical import JsonObject, canonical_json, sha256_hex
from pattern_acp.memory.block_loader import newest_number, read_row
from pattern_acp.memory.blocks import MOST_LIMIT, Block, BlockKey, Permission, Scope, Tier
from pattern_acp.memory.edits import Operation
from pattern_acp.memory.errors import (
    BlockMissingError,
    LabelTakenError,
    NothingDeletedError,
    StaleProposalError,
    UnusableEditError,
)
from pattern_acp.memory.schemas.types import encode_schema
from pattern_acp.memory.store import ProposedChange, WriteRecord, changed_block, insert_write, of_key

_QUERIES = load_queries("pattern_acp.memory")


def configured(block: Block, setting: str, value: str) -> Block:
    """The block with a setting changed, as text such as a command gives it.

    Raises:
        UnusableEditError: there is no such setting or value; names those there are.
    """
    change = _SETTINGS.get(setting)
    if change is None:
        raise UnusableEditError(block.key.label, f"there is no setting {setting!r}; use {', '.join(_SETTINGS)}.")
    return change(block, value.strip())


def setting_of(block: Block, setting: str) -> str:
    """A setting as text."""
    values = {
        "description": block.description,
        "limit": str(block.limit),
        "permission": block.permission.value,
        "pinned": "yes" if block.pinned else "no",
        "tier": block.tier.value,
    }
    return values[setting]


def settings_of(block: Block) -> JsonObject:
    """The settings of a block as text, and its schema, which never changes."""
    return {**{name: setting_of(block, name) for name in _SETTINGS}, "schema": encode_schema(block.schema)}


def settings_hash(settings: JsonObject) -> str:
    """The SHA-256 of settings that the event of a creation gives."""
    return sha256_hex(canonical_json(settings))


def store_settings(tx: Transaction, block: Block, *, seq: int) -> None:
    """Write the settings of `block`, whose event is `seq`."""
    tx.execute(
        _QUERIES["configure_block"],
        {
            "block_id": block.id,
            "description": block.description,
            "char_limit": block.limit,
            "permission": block.permission.value,
            "pinned": int(block.pinned),
            "tier": block.tier.value,
            "seq": seq,
        },
    )


def _description(block: Block, value: str) -> Block:
    if not value:
        raise UnusableEditError(block.key.label, "it needs a description, which says what belongs there.")
    return replace(block, description=value)


def _limit(block: Block, value: str) -> Block:
    digits = value.replace(",", "").replace("_", "")
    if not digits.isdecimal() or not 1 <= int(digits) <= MOST_LIMIT:
        raise UnusableEditError(block.key.label, f"its limit must be a number from 1 to {MOST_LIMIT:,}.")
    return replace(block, limit=int(digits))


def _pinned(block: Block, value: str) -> Block:
    if value.lower() not in {"yes", "no"}:
        raise UnusableEditError(block.key.label, "pinned is yes or no.")
    return replace(block, pinned=value.lower() == "yes")


def _one_of(name: str, values: type[StrEnum], block: Block, value: str) -> Block:
    try:
        return replace(block, **{name: values(value.lower())})
    except ValueError:
        raise UnusableEditError(block.key.label, f"a {name} is one of {', '.join(values)}.") from None


_SETTINGS: Mapping[str, Callable[[Block, str], Block]] = {
    "description": _description,
    "limit": _limit,
    "permission": partial(_one_of, "permission", Permission),
    "pinned": _pinned,
    "tier": partial(_one_of, "tier", Tier),
}


class ProposedMark(Struct, frozen=True):
    """A deletion or restoration that would work. `block` is the block as it is now."""

    block: Block
    operation: Operation
    frontiers: bytes
    discarded: bool = False
    """True when it makes space for another block and is not to be restored itself."""

    def as_change(self, peer: int) -> ProposedChange:
        """The write that it becomes in the block's log, which changes nothing of the text."""
        text, frontiers = self.block.text, self.frontiers
        return ProposedChange(self.block, self.operation, text, b"", peer, frontiers, frontiers, new_base=None)


def propose_deletion(tx: Transaction, key: BlockKey) -> ProposedMark:
    """Propose the deletion of the block with this key. Raises BlockMissingError where there is no such block."""
    row = tx.one(_QUERIES["find_block"], of_key(key))
    if row is None:
        raise BlockMissingError(key.label)
    return _mark(tx, row, Operation.DELETE)


def propose_restoration(tx: Transaction, key: BlockKey, skip: int = 0) -> ProposedMark:
    """Propose the restoration of the last deleted block of this key, once the label is free.

    `skip` is how many that were deleted after the wanted one are left where they are.

    Raises:
        NothingDeletedError: none was deleted, or what was deleted has been forgotten.
    """
    row = tx.one(_QUERIES["find_deleted_block"], {**of_key(key), "skip": skip})
    if row is None:
        raise NothingDeletedError(key.label)
    return _mark(tx, row, Operation.RESTORE)


def propose_making_room(tx: Transaction, key: BlockKey) -> ProposedMark | None:
    """Propose the deletion that frees the label for a restoration; None when the label is free.

    A block that the program made again and that nobody has written to since gives way.

    Raises:
        LabelTakenError: another block has the label, and somebody has written to it.
    """
    row = tx.one(_QUERIES["find_block"], of_key(key))
    if row is None:
        return None
    block, frontiers = read_row(row)
    # Late: few sessions delete a block.
    from pattern_acp.memory.history import read_write

    if block.head_update > 1 or read_write(tx, block, 1).actor is not Actor.SYSTEM:
        raise LabelTakenError(key.label)
    return ProposedMark(block, Operation.DELETE, frontiers, discarded=True)


def store_mark(tx: Transaction, mark: ProposedMark, record: WriteRecord, *, peer: int) -> Block:
    """Write a proposed deletion or restoration, whose event is `record.seq`, and give the block as it is then.

    Raises:
        StaleProposalError: the block changed after the proposal.
    """
    block = mark.block
    change = mark.as_change(peer)
    changed = tx.execute(
        _QUERIES["mark_block"],
        {
            "block_id": block.id,
            "number": change.number,
            "deleted": 0 if mark.operation is Operation.RESTORE else 2 if mark.discarded else 1,
            "at_ms": record.at_ms,
            "seq": record.seq,
        },
    )
    if changed != 1:
        raise StaleProposalError(block.key.label)
    insert_write(tx, change, record)
    return changed_block(change, record.at_ms)


def list_deleted(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> tuple[Block, ...]:
    """The blocks of these owners that can be restored, deleted last first; `updated_ms` is when."""
    rows = tx.all(_QUERIES["list_deleted_blocks"], {"owners": json.dumps(owners)})
    return tuple(read_row(row)[0] for row in rows)


def _mark(tx: Transaction, row: Row, operation: Operation) -> ProposedMark:
    block, frontiers = read_row(row)
    number = newest_number(tx, block) or block.head_update
    return ProposedMark(replace(block, head_update=number), operation, frontiers)
