"""What waits for a subscriber, and what those hear of whom a block is attached to."""

from collections.abc import AsyncGenerator

import anyio
import pytest

from pattern_acp.domain.clock import RandomIds, SessionId
from pattern_acp.memory.blocks import Permission, Scope
from pattern_acp.memory.feed import (
    BlockAvailable,
    BlockGone,
    BlockInfo,
    Delta,
    Done,
    FeedEvent,
    Known,
    MemoryFeed,
    MetadataChanged,
    Subscription,
    Watch,
)
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.scope import PERSON, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.share import MemorySetup
from pattern_acp.memory.sharing import Attachment
from tests.support.constellation import Constellation, temporary_constellation

IDS = RandomIds()
ADA = MemoryScope("ada", "/repo", SessionId("s1"))
EVE = MemoryScope("eve", "/other", SessionId("s2"))


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as opened:
        yield opened


async def heard(feed: MemoryFeed, subscription: Subscription) -> list[FeedEvent]:
    """What a subscriber is told now."""
    await feed.look()
    feed.unsubscribe(subscription)
    events: list[FeedEvent] = []
    while (event := await subscription.next()) is not None:
        events.append(event)
    return events[:-1]


async def since_now(feed: MemoryFeed, owner: MemoryScope) -> Subscription:
    """A subscriber that knows all that is there."""
    subscription = await feed.subscribe(Watch(owner.owners))
    known = {block_id: known.version for block_id, known in subscription.known.items()}
    feed.unsubscribe(subscription)
    return await feed.subscribe(Watch(owner.owners), known)


async def shared_rules(constellation: Constellation) -> tuple[ConstellationMemory, MemorySetup]:
    """A shared block `rules`, attached to Ada's project."""
    memory = ConstellationMemory(
        constellation.database, ADA, clock=constellation.clock, ids=IDS, peer=IDS.peer(), writer=PERSON
    )
    await memory.commit(MemoryEdit("rules", "create", "Tabs.", description="Rules.", scope="shared"), None)
    return memory, MemorySetup(constellation.database, ADA, clock=constellation.clock)


async def test_a_shared_block_is_told_of_to_those_it_is_attached_to_and_to_nobody_else(constellation: Constellation):
    memory, setup = await shared_rules(constellation)
    feed = MemoryFeed(constellation.database)
    ada, eve = await since_now(feed, ADA), await since_now(feed, EVE)
    await memory.commit(MemoryEdit("rules", "append", "No blanks."), None)
    (delta,) = await heard(feed, ada)
    assert isinstance(delta, Delta)
    assert (delta.label, delta.text, delta.session) == ("rules", "Tabs.\nNo blanks.", "s1")
    assert await heard(feed, eve) == []

    eve = await since_now(feed, EVE)
    await setup.share("rules", Attachment(Scope.PERSONA, "eve", Permission.APPEND))
    (there,) = await heard(feed, eve)
    assert isinstance(there, BlockAvailable)
    assert (there.info.label, there.info.scope, there.info.permission) == ("rules", "shared", "append")

    eve = await since_now(feed, EVE)
    await setup.share("rules", Attachment(Scope.PERSONA, "eve", Permission.READ_ONLY))
    (changed,) = await heard(feed, eve)
    assert isinstance(changed, MetadataChanged)
    assert changed.info.permission == "read_only"

    eve = await since_now(feed, EVE)
    await setup.unshare("rules", Scope.PERSONA, "eve")
    (gone,) = await heard(feed, eve)
    assert isinstance(gone, BlockGone)


async def test_a_subscriber_keeps_up_with_an_attached_block_over_several_looks(constellation: Constellation):
    memory, _ = await shared_rules(constellation)
    feed = MemoryFeed(constellation.database)
    subscription = await since_now(feed, ADA)
    for text in ("One.", "Two."):
        await memory.commit(MemoryEdit("rules", "append", text), None)
        await feed.look()
    told = await heard(feed, subscription)
    assert [event.text for event in told if isinstance(event, Delta)] == ["Tabs.\nOne.", "Tabs.\nOne.\nTwo."]


async def test_blocks_of_one_label_have_the_shared_one_told_apart(constellation: Constellation):
    memory, _ = await shared_rules(constellation)
    await memory.commit(MemoryEdit("rules", "create", "Blanks.", description="Of this project."), None)
    assert [block.label for block in await memory.blocks()][-2:] == ["rules", "shared/rules"]
    change = await memory.commit(MemoryEdit("shared/rules", "append", "No blanks."), None)
    assert change.after == "Tabs.\nNo blanks."


INFO = BlockInfo("b9", "notes", "project", "What to keep.", "read_write", 8_000, "core", pinned=False)


def gone(number: int) -> BlockGone:
    return BlockGone(f"b{number}", f"label{number}")


async def test_events_come_in_their_order_and_done_is_the_last():
    subscription = Subscription(Watch(()))
    subscription.put([gone(1), gone(2)], {})
    subscription.end("unsubscribed")
    subscription.end("shutdown")
    subscription.put([gone(3)], {})
    with anyio.fail_after(30):
        assert [await subscription.next() for _ in range(4)] == [gone(1), gone(2), Done("unsubscribed"), None]


async def test_a_subscriber_that_lags_loses_events_and_all_that_it_knew_counts_no_more():
    subscription = Subscription(Watch(()), capacity=3)
    subscription.put([MetadataChanged(INFO)] * 2, {"b9": Known(4, None)})
    subscription.put([MetadataChanged(INFO)] * 2, {"b9": Known(5, None)})
    assert subscription.has_lost
    assert subscription.known == {"b9": Known(-1, None)}
    subscription.put([gone(number) for number in range(10)], {"b9": Known(5, None)})
    assert not subscription.has_lost
    with anyio.fail_after(30):
        assert await subscription.next() == gone(0)


async def test_a_subscriber_that_lags_still_hears_that_a_block_is_gone():
    subscription = Subscription(Watch(()), capacity=2)
    subscription.put([gone(1), MetadataChanged(INFO)], {})
    subscription.put([MetadataChanged(INFO), gone(2)], {})
    assert subscription.has_lost
    with anyio.fail_after(30):
        assert [await subscription.next() for _ in range(2)] == [gone(1), gone(2)]


async def test_whoever_waits_is_woken():
    subscription = Subscription(Watch(()))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(subscription.next)
            await anyio.lowlevel.checkpoint()
            subscription.put([gone(1)], {})
