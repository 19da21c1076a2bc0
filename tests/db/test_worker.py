"""What `db.connection` relies on in aiosqlite beside its public interface."""

import threading
from collections.abc import Awaitable
from queue import SimpleQueue
from typing import cast

import aiosqlite
import anyio

CLOSED = "closed"


class Opened:
    """What a connector gives aiosqlite, as far as it is used."""

    def __init__(self, done: list[str]) -> None:
        self._done = done

    def close(self) -> None:
        self._done.append(CLOSED)


def a_connection(done: list[str]) -> aiosqlite.Connection:
    return aiosqlite.Connection(lambda: Opened(done), iter_chunk_size=64)  # pyright: ignore[reportArgumentType]


async def test_aiosqlite_runs_functions_without_a_future_in_their_order_until_it_is_stopped():
    done: list[str] = []
    connection = await a_connection(done)
    queue = connection._tx  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportUnknownVariableType]
    for name in ("a", "b"):
        cast("SimpleQueue[object]", queue).put_nowait((None, lambda name=name: done.append(name)))
    stopped = connection.stop()  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    with anyio.fail_after(30):
        await cast("Awaitable[object]", stopped)
    assert done == ["a", "b", CLOSED]


async def test_the_thread_of_aiosqlite_is_a_daemon_where_the_thread_that_makes_the_connection_is_one():
    made: list[aiosqlite.Connection] = []
    maker = threading.Thread(target=lambda: made.append(a_connection([])), daemon=True)
    maker.start()
    maker.join()
    before = set(threading.enumerate())
    async with made[0]:
        [thread] = set(threading.enumerate()) - before
        assert thread.daemon
