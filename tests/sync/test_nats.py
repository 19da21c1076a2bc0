"""Memory goes through a real NATS server, whatever becomes of it."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import nats
import pytest

from pattern_acp.sync.nats_carrier import BUCKET, STREAM, NatsCarrier
from pattern_acp.sync.segments import SegmentName, SyncError
from tests.support.halting_proxy import HaltingProxy, halting_proxy
from tests.support.nats_server import NatsServer, nats_server
from tests.support.process import agent_environment

pytestmark = [pytest.mark.slow, pytest.mark.needs("nats-server")]

NAME = SegmentName("device_" + "1" * 32, 1, whole=True)


async def test_a_server_that_is_killed_is_named_and_used_again_once_it_is_back(tmp_path: Path):
    with nats_server(tmp_path / "server") as server:
        carrier = NatsCarrier(server.url)
        await carrier.put(NAME, b"first")
        server.kill()
        with pytest.raises(SyncError, match="cannot be used"):
            await carrier.names()
        with pytest.raises(SyncError):
            await carrier.put(NAME, b"again")
        await anyio.to_thread.run_sync(server.start)
        assert list(await carrier.names()) == [NAME]
        assert await carrier.fetch(NAME) == b"first"
        await carrier.close()


async def test_a_server_that_is_full_is_named_and_nothing_half_is_left(tmp_path: Path):
    folder = tmp_path / "server"
    folder.mkdir()
    server = NatsServer(folder)
    await anyio.to_thread.run_sync(server.start, "1MB")
    try:
        carrier = NatsCarrier(server.url)
        await carrier.put(NAME, b"small")
        with pytest.raises(SyncError, match="it is full"):
            await carrier.put(SegmentName(NAME.device, 2), bytes(4_000_000))
        assert list(await carrier.names()) == [NAME]
        await carrier.close()
    finally:
        server.kill()


async def pieces(server: NatsServer, device: str) -> int:
    """The messages of segments of a device that a server has, also of those that are not whole."""
    client = await nats.connect(server.url)  # pyright: ignore[reportUnknownMemberType]  its options are untyped
    stream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]  the same
    found = await stream.stream_info(STREAM, subjects_filter=f"$O.{BUCKET}.C.>")
    await client.close()
    return sum(number for subject, number in (found.state.subjects or {}).items() if device in subject)


async def test_what_was_left_half_written_goes_with_the_next_segment_of_the_same_device(tmp_path: Path):
    other = SegmentName("device_" + "2" * 32, 1, whole=True)

    async def cut_off(server: NatsServer, name: SegmentName) -> None:
        async with halting_proxy(server.port, 1_000_000) as proxy, anyio.create_task_group() as tasks:
            tasks.start_soon(NatsCarrier(proxy.url).put, name, bytes(4_000_000))
            await proxy.halted.wait()
            tasks.cancel_scope.cancel()

    with nats_server(tmp_path / "server") as server:
        for name in (NAME, other):
            await cut_off(server, name)
            assert await pieces(server, name.device) > 1
        carrier = NatsCarrier(server.url)
        assert list(await carrier.names()) == []
        await carrier.put(SegmentName(NAME.device, 2), b"next")
        assert await pieces(server, NAME.device) == 1
        # The other device may be writing just now.
        assert await pieces(server, other.device) > 1
        await carrier.put(SegmentName(NAME.device, 3), b"third")
        assert [await carrier.fetch(name) for name in await carrier.names()] == [b"next", b"third"]
        await carrier.close()


async def test_pieces_of_older_versions_that_name_no_device_go_once_nobody_can_be_writing_them(tmp_path: Path):
    with nats_server(tmp_path / "server") as server:
        carrier = NatsCarrier(server.url)
        await carrier.put(NAME, b"first")
        client = await nats.connect(server.url)  # pyright: ignore[reportUnknownMemberType]  its options are untyped
        stream = client.jetstream()  # pyright: ignore[reportUnknownMemberType]  the same
        left = "x" * 22
        for piece in (b"half", b"of it"):
            await stream.publish(f"$O.{BUCKET}.C.{left}", piece)
        whole = SegmentName("device_" + "3" * 32, 1, whole=True)
        await (await stream.object_store(BUCKET)).put(f"{whole.device}/{whole.file}", b"of an older version")
        await client.close()
        await carrier.put(SegmentName(NAME.device, 2), b"next")
        assert await pieces(server, left) == 2
        await carrier.close()
        later = NatsCarrier(server.url, nameless_seconds=0)
        await later.put(SegmentName(NAME.device, 3), b"third")
        assert await pieces(server, left) == 0
        assert await later.fetch(whole) == b"of an older version"
        assert await later.fetch(NAME) == b"first"
        await later.close()


def run(home: Path, *words: str, typed: str = "", code: int = 0) -> str:
    """What a command writes, to stderr too where it fails."""
    command = [sys.executable, "-m", "pattern_acp", *words]
    environment = agent_environment(home)
    done = subprocess.run(command, input=typed, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def homes_at(folder: Path, **urls: str) -> list[Path]:
    """Homes of devices with the same key, each with its address of the server."""
    homes = [folder / name for name in urls]
    for home in homes:
        home.mkdir()
        (home / "config.toml").write_text(f'[sync]\nurl = "{urls[home.name]}"\n', encoding="utf-8")
    first, *others = homes
    key = json.loads(run(first, "sync", "key", "new", "--file", "--json"))["sync_key"]
    for home in others:
        run(home, "sync", "key", "set", "--file", typed=key)
    return homes


@pytest.mark.e2e
async def test_a_server_that_does_not_answer_is_one_sentence_and_costs_time_alone(tmp_path: Path):
    def without_answer(desktop: Path) -> None:
        run(desktop, "memory", "decision", "Use tabs everywhere.")
        assert "cannot be used: it does not answer in time." in run(desktop, "sync", code=1)
        assert "does not answer in time." in run(desktop, "sync", "status")

    def with_answer(desktop: Path, laptop: Path, proxy: HaltingProxy) -> None:
        anyio.from_thread.run_sync(proxy.resume)
        run(desktop, "sync")
        assert "does not answer" not in run(desktop, "sync", "status")
        assert "1 fact came" in run(laptop, "sync")

    with nats_server(tmp_path / "server") as server:
        async with halting_proxy(server.port, 0) as proxy:
            desktop, laptop = await anyio.to_thread.run_sync(
                lambda: homes_at(tmp_path, desktop=proxy.url, laptop=server.url)
            )
            await anyio.to_thread.run_sync(without_answer, desktop)
            await anyio.to_thread.run_sync(with_answer, desktop, laptop, proxy)


@pytest.mark.e2e
def test_two_processes_on_two_homes_have_the_same_memory(tmp_path: Path):
    with nats_server(tmp_path / "server") as server:
        desktop, laptop = homes_at(tmp_path, desktop=server.url, laptop=server.url)
        run(desktop, "memory", "decision", "Use tabs everywhere.")
        run(desktop, "sync")
        assert "1 fact came" in run(laptop, "sync")
        assert "Use tabs everywhere." in run(laptop, "memory", "traps")
