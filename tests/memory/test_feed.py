"""What waits for a subscriber."""

import anyio

from pattern_acp.memory.feed import BlockGone, Done, Known, Subscription, Watch


def gone(number: int) -> BlockGone:
    return BlockGone(f"b{number}", f"label{number}")


async def test_events_come_in_their_order_and_done_is_the_last():
    subscription = Subscription(Watch(()))
    subscription.put([gone(1), gone(2)], {})
    subscription.end("unsubscribed")
    subscription.end("shutdown")
    subscription.put([gone(3)], {})
    with anyio.fail_after(5):
        assert [await subscription.next() for _ in range(4)] == [gone(1), gone(2), Done("unsubscribed"), None]


async def test_a_subscriber_that_lags_loses_events_and_all_that_it_knew_counts_no_more():
    subscription = Subscription(Watch(()), capacity=3)
    subscription.put([gone(1), gone(2)], {"b9": Known(4, None)})
    subscription.put([gone(3), gone(4)], {"b9": Known(5, None)})
    assert subscription.has_lost
    assert subscription.known == {"b9": Known(-1, None)}
    subscription.put([gone(number) for number in range(10)], {"b9": Known(5, None)})
    assert not subscription.has_lost
    with anyio.fail_after(5):
        assert await subscription.next() == gone(0)


async def test_whoever_waits_is_woken():
    subscription = Subscription(Watch(()))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(subscription.next)
            await anyio.lowlevel.checkpoint()
            subscription.put([gone(1)], {})
