"""Memory goes through a real NATS server, whatever becomes of it."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pattern_acp.sync.nats_carrier import NatsCarrier
from pattern_acp.sync.segments import SegmentName, SyncError
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


@pytest.mark.e2e
def test_two_processes_on_two_homes_have_the_same_memory(tmp_path: Path):
    with nats_server(tmp_path / "server") as server:
        homes = [tmp_path / name for name in ("desktop", "laptop")]
        for home in homes:
            home.mkdir()
            (home / "config.toml").write_text(f'[sync]\nurl = "{server.url}"\n', encoding="utf-8")

        def run(home: Path, *words: str, typed: str = "") -> str:
            command = [sys.executable, "-m", "pattern_acp", *words]
            environment = agent_environment(home)
            done = subprocess.run(command, input=typed, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
            return done.stdout

        desktop, laptop = homes
        key = json.loads(run(desktop, "sync", "key", "new", "--file", "--json"))["sync_key"]
        run(laptop, "sync", "key", "set", "--file", typed=key)
        run(desktop, "memory", "decision", "Use tabs everywhere.")
        run(desktop, "sync")
        assert "1 fact came" in run(laptop, "sync")
        assert "Use tabs everywhere." in run(laptop, "memory", "traps")
