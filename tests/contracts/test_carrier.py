"""Every carrier of segments keeps to the same contract."""

from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from pattern_acp.sync.segments import Carrier, FolderCarrier, SegmentName, SyncError
from tests.support.carriers import Depot, MemoryCarrier
from tests.support.nats_server import nats_server

ONE = SegmentName("device_" + "1" * 32, 1, whole=True)
NEXT = SegmentName(ONE.device, 2)
OTHER = SegmentName("device_" + "2" * 32, 1)


class Kind:
    """One kind of carrier, of which a device after another opens its own end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Carrier, None]:
        raise NotImplementedError
        yield


class InFolder(Kind):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Carrier, None]:
        carrier = FolderCarrier(self.folder)
        yield carrier
        await carrier.close()


class InMemory(Kind):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.depot = Depot()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Carrier, None]:
        carrier = MemoryCarrier(self.depot)
        yield carrier
        await carrier.close()


class OnServer(Kind):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Carrier, None]:
        from pattern_acp.sync.nats_carrier import NatsCarrier

        carrier = NatsCarrier((self.folder / "url").read_text("utf-8"))
        yield carrier
        await carrier.close()


SERVER = pytest.param(OnServer, marks=[pytest.mark.slow, pytest.mark.needs("nats-server")])


@pytest.fixture(params=[InFolder, InMemory, SERVER])
def kind(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Kind, None, None]:
    if request.param is not OnServer:
        yield request.param(tmp_path)
        return
    with nats_server(tmp_path / "server") as server:
        (tmp_path / "url").write_text(server.url, encoding="utf-8")
        yield OnServer(tmp_path)


async def test_what_one_puts_there_another_finds_and_fetches(kind: Kind):
    async with kind.open() as here, kind.open() as there:
        assert list(await there.names()) == []
        await here.put(ONE, b"first")
        await here.put(NEXT, b"second")
        await there.put(OTHER, b"third")
        assert sorted(await there.names()) == [ONE, NEXT, OTHER]
        assert [await there.fetch(name) for name in (ONE, NEXT)] == [b"first", b"second"]
        assert await here.fetch(OTHER) == b"third"


async def test_what_is_removed_is_gone_for_all_and_may_be_removed_again(kind: Kind):
    async with kind.open() as here, kind.open() as there:
        await here.put(ONE, b"first")
        await here.put(NEXT, b"second")
        await here.remove(ONE)
        await here.remove(ONE)
        assert list(await there.names()) == [NEXT]
        with pytest.raises(SyncError):
            await there.fetch(ONE)


async def test_what_is_put_there_again_is_the_later_one(kind: Kind):
    async with kind.open() as here, kind.open() as there:
        await here.put(ONE, b"first")
        await here.put(ONE, b"again")
        assert list(await there.names()) == [ONE]
        assert await there.fetch(ONE) == b"again"


async def test_it_tells_that_something_came(kind: Kind):
    async with kind.open() as here, kind.open() as there:
        await there.names()
        heard = anyio.Event()

        async def listen() -> None:
            await there.news()
            heard.set()

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(listen)
                await anyio.wait_all_tasks_blocked()
                await here.put(ONE, b"first")
                await heard.wait()
        assert list(await there.names()) == [ONE]


async def test_a_large_segment_is_carried_as_it_is(kind: Kind):
    content = bytes(range(256)) * 12_000
    async with kind.open() as here, kind.open() as there:
        await here.put(ONE, content)
        assert await there.fetch(ONE) == content
