"""The wire structs of `_pattern/memory/*`, our extension that lets an editor show memory live (docs/memory-context.md).

It only reads: there is no method by which a plugin could write, as the person or as anyone.
"""

from typing import TypeAlias

import msgspec

from pattern_acp.acp.schema_base import MetaWire, Wire

SUBSCRIBE = "_pattern/memory/subscribe"
UNSUBSCRIBE = "_pattern/memory/unsubscribe"
EVENT = "_pattern/memory/event"


class SubscribeRequest(MetaWire, frozen=True, kw_only=True):
    """Look on at the memory of a session. `since` holds the version that is known of blocks, by their id.

    Writes of `without_sessions` are left out: those of a session that shows them in another way.
    """

    session_id: str
    since: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    without_sessions: tuple[str, ...] = ()


class SubscribeResponse(Wire, frozen=True, kw_only=True):
    """The subscription; its events follow."""

    subscription_id: str


class UnsubscribeRequest(MetaWire, frozen=True, kw_only=True):
    """Look on no more; a `done` event still follows."""

    subscription_id: str


class BlockFacts(Wire, frozen=True, kw_only=True):
    """What a block is. The limit is in characters."""

    block_id: str
    label: str
    scope: str
    description: str
    permission: str
    limit: int
    tier: str
    pinned: bool = False


class BlockAvailable(Wire, frozen=True, kw_only=True, tag="block_available", tag_field="type"):
    """A block as it is now; it replaces what was known of it."""

    block: BlockFacts
    version: int
    text: str


class Delta(Wire, frozen=True, kw_only=True, tag="delta", tag_field="type"):
    """One write. `update` is Loro's update in base 64; `text` is the whole text, when this write is the newest."""

    block_id: str
    label: str
    version: int
    actor: str
    origin: str
    operation: str
    reason: str
    at_ms: int
    session_id: str
    update: str
    text: str | None = None


class MetadataChanged(Wire, frozen=True, kw_only=True, tag="metadata_changed", tag_field="type"):
    """What a block is has changed."""

    block: BlockFacts


class BlockGone(Wire, frozen=True, kw_only=True, tag="block_gone", tag_field="type"):
    """A block is no longer there, or no longer in sight."""

    block_id: str
    label: str


class Done(Wire, frozen=True, kw_only=True, tag="done", tag_field="type"):
    """The last event: `unsubscribed`, `session_closed` or `shutdown`."""

    reason: str


MemoryEvent: TypeAlias = BlockAvailable | Delta | MetadataChanged | BlockGone | Done


class EventNotification(Wire, frozen=True, kw_only=True):
    """The parameters of `_pattern/memory/event`."""

    subscription_id: str
    event: MemoryEvent
