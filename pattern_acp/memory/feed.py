"""Memory as it changes: for the one who looks on, and for a persona that was away.

Owns: the events of the one notification channel, what a subscriber knows already, and how changes are noticed; the
writes of a block after a number, and the rows of `cursors`: up to which event a persona learned of what happened in a
project, and when it was last at work there. Must not know: who looks on, how events get to them, how anything is
reported. Every row carries the number of the event that moved it (rule R1); nothing else is written.

Changes are found in the constellation itself, so those of other processes are seen like our own: while somebody looks
on, `PRAGMA data_version` is asked four times a second (3 µs), and only when another connection has committed are the
blocks compared with what each subscriber knows. A subscriber that does not keep up loses events, never truth: what it
knows is dropped, and it learns all of it again.
"""

import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import anyio
from msgspec import Struct, field

from pattern_acp.db import columns
from pattern_acp.db.connection import Database, Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.errors import PatternError
from pattern_acp.memory.blocks import Isolation, Scope
from pattern_acp.memory.sharing import VisibleBlock, sound_blocks

_QUERIES = load_queries("pattern_acp.memory")
_LOGGER = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""Between two looks: a user takes what comes within this for at once."""

QUEUE_EVENTS = 256
"""Events that wait for one subscriber."""

LOST = -1
"""The version of a block of which a subscriber may have missed something."""

MOST_DELTAS = 64
"""Writes of one block that are reported one by one; beyond them the block is reported again."""


class BlockInfo(Struct, frozen=True):
    """The facts of a block besides its text."""

    block_id: str
    label: str
    scope: str
    description: str
    permission: str
    limit: int
    tier: str
    pinned: bool


class BlockAvailable(Struct, frozen=True):
    """A block is in sight, or what a subscriber knew of it does not count any more. `version` numbers its writes."""

    info: BlockInfo
    version: int
    text: str


class Delta(Struct, frozen=True):
    """One write. `update` is Loro's, empty for one that has none; `text` is the block's text when this is its newest.

    `session` is the session that wrote, or `constellation`.
    """

    block_id: str
    label: str
    version: int
    actor: Actor
    origin: Origin
    operation: str
    reason: str
    at_ms: int
    session: str
    update: bytes
    text: str | None


class MetadataChanged(Struct, frozen=True):
    """A block is described, limited or permitted differently now."""

    info: BlockInfo


class BlockGone(Struct, frozen=True):
    """A block was deleted, or is no longer in sight."""

    block_id: str
    label: str


class Done(Struct, frozen=True):
    """The last event of a subscription, so that an end differs from a loss."""

    reason: str


FeedEvent: TypeAlias = BlockAvailable | Delta | MetadataChanged | BlockGone | Done


class Watch(Struct, frozen=True):
    """The blocks that a subscriber watches, and the author whose writes it skips as its own."""

    owners: tuple[tuple[Scope, str], ...]
    isolation: Isolation = Isolation.NONE
    without_sessions: frozenset[str] = frozenset()


class Known(Struct, frozen=True):
    """A subscriber's knowledge of a block: its version and facts (None: not sent yet)."""

    version: int
    info: BlockInfo | None


def news(tx: Transaction, watch: Watch, known: Mapping[str, Known]) -> tuple[tuple[FeedEvent, ...], dict[str, Known]]:
    """Events for a subscriber that knows `known`, and its knowledge after them.

    Of a block that is damaged nothing is reported, not even that it is gone.
    """
    events: list[FeedEvent] = []
    sound, damaged = sound_blocks(tx, watch.owners, isolation=watch.isolation)
    there = {one.visible.block.id for one in damaged}
    now = {block_id: was for block_id, was in known.items() if block_id in there}
    for visible in sound:
        info = _info(visible)
        before = known.get(info.block_id)
        events += _news_of(tx, visible, info, before, watch)
        now[info.block_id] = Known(visible.block.head_update, info)
    gone = [
        BlockGone(block_id, was.info.label if was.info else "")
        for block_id, was in known.items()
        if block_id not in now
    ]
    return (*events, *gone), now


def _news_of(
    tx: Transaction, visible: VisibleBlock, info: BlockInfo, before: Known | None, watch: Watch
) -> list[FeedEvent]:
    block = visible.block
    behind = 0 if before is None else block.head_update - before.version
    # Behind less than nothing: the subscriber has seen another file, such as one that a backup has replaced since.
    if (
        before is None
        or before.version == LOST
        or not 0 <= behind <= MOST_DELTAS
        or block.history_from > before.version
    ):
        return [BlockAvailable(info, block.head_update, block.text)]
    events: list[FeedEvent] = [] if before.info in {None, info} else [MetadataChanged(info)]
    if behind:
        asked = {"block_id": block.id, "after": before.version, "head": block.head_update}
        deltas = (_delta(row, visible) for row in tx.all(_QUERIES["updates_since"], asked))
        events += [delta for delta in deltas if delta.session not in watch.without_sessions]
    return events


def _info(visible: VisibleBlock) -> BlockInfo:
    block = visible.block
    return BlockInfo(
        block.id,
        visible.label,
        block.key.scope.value,
        block.description,
        visible.permission.value,
        block.limit,
        block.tier.value,
        block.pinned,
    )


def _delta(row: Row, visible: VisibleBlock) -> Delta:
    version = columns.integer(row[0])
    return Delta(
        visible.block.id,
        visible.label,
        version,
        Actor(columns.text(row[1])),
        Origin(columns.text(row[2])),
        columns.text(row[3]),
        columns.text(row[4]),
        columns.integer(row[5]),
        columns.text(row[6]),
        columns.data(row[7]),
        visible.block.text if version == visible.block.head_update else None,
    )


class Subscription(Struct):
    """One subscriber's events, in order."""

    watch: Watch
    known: dict[str, Known] = field(default_factory=dict[str, Known])
    capacity: int = QUEUE_EVENTS
    _waiting: deque[FeedEvent] = field(default_factory=deque[FeedEvent])
    _changed: anyio.Event = field(default_factory=anyio.Event)
    _ended: bool = False
    has_lost: bool = False
    """True when events were dropped, so that all has to be reported again."""

    def put(self, events: Sequence[FeedEvent], known: dict[str, Known]) -> None:
        """Let events wait. When too many do, they and all that is known are dropped: all is reported again next time.

        That a block is gone is stored, since nothing tells it again.
        """
        if self._ended:
            return
        if self._waiting and len(self._waiting) + len(events) > self.capacity:
            gone = [event for event in (*self._waiting, *events) if isinstance(event, BlockGone)]
            self._waiting.clear()
            self._waiting.extend(gone)
            self.has_lost = True
            self.known = {block_id: Known(LOST, was.info) for block_id, was in known.items()}
            return
        self.has_lost = False
        self.known = known
        self._waiting.extend(events)
        self._wake()

    def end(self, reason: str) -> None:
        """Let `Done` be the last event. Harmless when it has ended."""
        if not self._ended:
            self._ended = True
            self._waiting.append(Done(reason))
            self._wake()

    async def next(self) -> FeedEvent | None:
        """The next event; None after the last."""
        while not self._waiting:
            if self._ended:
                return None
            await self._changed.wait()
        return self._waiting.popleft()

    def _wake(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()


class MemoryFeed:
    """All subscriptions of a process to one constellation."""

    def __init__(self, database: Database, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._database = database
        self._poll_seconds = poll_seconds
        self._subscriptions: list[Subscription] = []
        self._wanted = anyio.Event()
        self._seen = -1

    async def subscribe(self, watch: Watch, since: Mapping[str, int] | None = None) -> Subscription:
        """Begin to look on. What is there comes first; of blocks that `since` names, the writes after that version."""
        subscription = Subscription(watch)
        before = {block_id: Known(version, None) for block_id, version in (since or {}).items()}
        events, known = await self._database.read(lambda tx: news(tx, watch, before))
        subscription.put(events, known)
        self._subscriptions.append(subscription)
        self._wanted.set()
        return subscription

    def unsubscribe(self, subscription: Subscription, reason: str = "unsubscribed") -> None:
        """End a subscription; `Done` still comes. Harmless when it has ended."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
        subscription.end(reason)

    async def run(self) -> None:
        """Look for changes while somebody looks on, until cancelled; then every subscription ends."""
        try:
            while True:
                while not self._subscriptions:
                    self._wanted = anyio.Event()
                    await self._wanted.wait()
                try:
                    await self.look()
                except PatternError as error:
                    # A file that cannot be read now may be readable again at the next look.
                    _LOGGER.warning("Changes of memory could not be looked for: %s", type(error).__name__)
                await anyio.sleep(self._poll_seconds)
        finally:
            for subscription in tuple(self._subscriptions):
                self.unsubscribe(subscription, "shutdown")

    async def look(self) -> None:
        """Look once, and let every subscriber know what it does not."""
        subscriptions = tuple(self._subscriptions)
        asked = [(one, one.watch, dict(one.known)) for one in subscriptions]
        seen, has_lost = self._seen, any(one.has_lost for one in subscriptions)

        def read(tx: Transaction) -> tuple[int, list[tuple[tuple[FeedEvent, ...], dict[str, Known]]]]:
            version = _data_version(tx)
            if version == seen and not has_lost:
                return version, []
            return version, [news(tx, watch, known) for _, watch, known in asked]

        self._seen, found = await self._database.read(read)
        for (subscription, _, _), (events, known) in zip(asked, found, strict=False):
            subscription.put(events, known)


def _data_version(tx: Transaction) -> int:
    row = tx.one("PRAGMA data_version")
    return -1 if row is None else columns.integer(row[0])


MOST_WRITES = 50
"""Writes of one block that are looked at; who wrote earlier ones is not told."""


class LaterWrite(Struct, frozen=True):
    """One write: its number in the block, when, by whom, why, and the stream (session) whose journal holds it."""

    number: int
    at_ms: int
    actor: Actor
    reason: str
    stream: str


class UnseenChange(Struct, frozen=True):
    """One write as it learns of later: the block's label, who, why, when, in which stream, and what was done."""

    label: str
    actor: Actor
    reason: str
    at_ms: int
    stream: str
    lines_added: int = 0
    lines_removed: int = 0
    operation: str = ""


class Cursor(Struct, frozen=True):
    """Up to which event a persona learned of a project, and when it was last at work there."""

    told_seq: int
    active_ms: int


def read_cursor(tx: Transaction, persona: str, project: str) -> Cursor | None:
    """The cursor of a persona in a project; None before its first turn there."""
    row = tx.one(_QUERIES["read_cursor"], {"persona": persona, "project": project})
    return None if row is None else Cursor(columns.integer(row[0]), columns.integer(row[1]))


def note_activity(tx: Transaction, persona: str, project: str, *, at_ms: int, seq: int) -> None:
    """A turn of the persona in the project ended, as the event `seq` says."""
    tx.execute(_QUERIES["note_activity"], {"persona": persona, "project": project, "at_ms": at_ms, "seq": seq})


def move_cursor(tx: Transaction, persona: str, project: str, *, seq: int) -> None:
    """The persona learned all that happened before the event `seq`, which says so."""
    tx.execute(_QUERIES["move_cursor"], {"persona": persona, "project": project, "seq": seq})


def changes_since(
    tx: Transaction, block_ids: Sequence[str], after: int, *, not_in: str, limit: int
) -> tuple[UnseenChange, ...]:
    """The newest writes into some blocks after an event, newest first, without those of the stream `not_in`."""
    asked = {"ids": json.dumps(list(block_ids)), "after": after, "stream": not_in, "limit": limit}
    return tuple(
        UnseenChange(
            columns.text(row[0]),
            Actor(columns.text(row[1])),
            columns.text(row[2]),
            columns.integer(row[3]),
            columns.text(row[4]),
            0 if row[5] is None else columns.integer(row[5]),
            0 if row[6] is None else columns.integer(row[6]),
            columns.text(row[7]),
        )
        for row in tx.all(_QUERIES["changes_since"], asked)
    )


def writes_since(tx: Transaction, block_id: str, after: int) -> tuple[LaterWrite, ...]:
    """The newest writes of a block above the number `after`, oldest first."""
    rows = tx.all(_QUERIES["writes_since"], {"block_id": block_id, "after": after, "limit": MOST_WRITES})
    return tuple(
        LaterWrite(
            columns.integer(row[0]),
            columns.integer(row[1]),
            Actor(columns.text(row[2])),
            columns.text(row[3]),
            columns.text(row[4]),
        )
        for row in reversed(rows)
    )
