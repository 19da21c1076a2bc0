"""The settings of a block: description, limit, permission, pinned, tier.

Owns: which settings there are and their values. Must not know: the journal; every write carries the number of its event
(rule R1). The schema is no setting: its kind never changes.
"""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import JsonObject, canonical_json, sha256_hex
from pattern_acp.memory.blocks import MOST_LIMIT, Block, Tier
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.permissions import Permission
from pattern_acp.memory.schemas.types import encode_schema

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


def _permission(block: Block, value: str) -> Block:
    try:
        return replace(block, permission=Permission(value.lower()))
    except ValueError:
        raise UnusableEditError(block.key.label, f"a permission is one of {', '.join(Permission)}.") from None


def _pinned(block: Block, value: str) -> Block:
    if value.lower() not in {"yes", "no"}:
        raise UnusableEditError(block.key.label, "pinned is yes or no.")
    return replace(block, pinned=value.lower() == "yes")


def _tier(block: Block, value: str) -> Block:
    try:
        return replace(block, tier=Tier(value.lower()))
    except ValueError:
        raise UnusableEditError(block.key.label, f"a tier is one of {', '.join(Tier)}.") from None


_SETTINGS: Mapping[str, Callable[[Block, str], Block]] = {
    "description": _description,
    "limit": _limit,
    "permission": _permission,
    "pinned": _pinned,
    "tier": _tier,
}
