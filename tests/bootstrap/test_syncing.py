"""Memory goes to other devices by itself while a session is open, and what is in the way is in the log."""

import logging
from pathlib import Path

import anyio
import pytest

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.bootstrap.syncing import KeyRing, carrier_of, keep_in_sync, sharing_of
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.config.settings import Flags, SyncSettings
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.service.access import ARCHIVE, MemoryEdit
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.sync.exchange import device_of, peers_of, revoke
from pattern_acp.sync.segments import FolderCarrier, SyncError, new_key


def machine(tmp_path: Path, name: str, key: bytes) -> Process:
    home = tmp_path / name
    home.mkdir()
    (home / "config.toml").write_text(f'[sync]\nurl = "folder:{tmp_path / "synced"}"\n', encoding="utf-8")
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(home), "PATTERN_ACP_MODEL": "offline/offline"})
    KeyRing.of(process).save(key, in_file=True)
    return process


async def say(database: Database, text: str) -> None:
    owner = MemoryScope("tester", "/project", SessionId(CONSTELLATION_STREAM))
    clock, ids = SystemClock(), RandomIds()
    memory = ConstellationMemory(
        database, owner, clock=clock, ids=ids, peer=ids.peer(), writer=PERSON, rules=MemoryRules()
    )
    await memory.commit(MemoryEdit(ARCHIVE, "append", text), None)


async def facts(database: Database) -> list[str]:
    rows = await database.read(lambda tx: tx.all("SELECT text FROM archival_entries ORDER BY text"))
    return [str(row[0]) for row in rows]


async def test_what_is_said_while_both_are_open_comes_to_the_other_by_itself(tmp_path: Path):
    key, answered = new_key(), anyio.Event()
    answered.set()
    (tmp_path / "synced").mkdir()
    desktop, laptop = (machine(tmp_path, name, key) for name in ("desktop", "laptop"))
    watched = FolderCarrier(tmp_path / "synced")
    async with (
        open_for_command(desktop) as here,
        open_for_command(laptop) as there,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(keep_in_sync, desktop, here, answered)
        tasks.start_soon(keep_in_sync, laptop, there, answered)
        with anyio.fail_after(90):
            for number in range(2):
                await say(here, f"Fact {number}.")
                await watched.names()
                # Whoever takes something over tells it on, which makes a file.
                while f"Fact {number}." not in await facts(there):
                    await watched.news()
                    await watched.names()
        tasks.cancel_scope.cancel()


async def test_a_revoked_device_stops_and_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    answered = anyio.Event()
    answered.set()
    (tmp_path / "synced").mkdir()
    desktop = machine(tmp_path, "desktop", new_key())
    async with open_for_command(desktop) as database:
        with caplog.at_level(logging.WARNING), anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:

                async def revoked() -> None:
                    carrier = FolderCarrier(tmp_path / "synced")
                    while not await carrier.names():
                        await carrier.news()
                    device = await database.read(device_of)
                    assert device is not None
                    await database.write(lambda tx: revoke(tx, device.name))
                    await say(database, "Something to tell.")

                tasks.start_soon(revoked)
                await keep_in_sync(desktop, database, answered)
        assert "was revoked" in caplog.text
        assert [peer.revoked for peer in await database.read(peers_of)] == [True]


def test_an_address_means_a_carrier_or_is_refused(tmp_path: Path):
    assert isinstance(carrier_of(f"folder:{tmp_path}"), FolderCarrier)
    with pytest.raises(SyncError, match="set url in"):
        carrier_of("")


def test_folders_of_the_settings_become_projects(tmp_path: Path):
    shop = tmp_path / "shop"
    shop.mkdir()
    sharing = sharing_of(SyncSettings(exclude=(str(tmp_path / "work"),), projects=(f"shop={shop}",)))
    assert sharing.leaves_out("project", f"{tmp_path.resolve()}/work/a")
    assert not sharing.leaves_out("project", str(shop.resolve()))
    assert sharing.name_of("project", str(shop.resolve())) == "project:shop"
    assert sharing.leaves_out("project", "project:other")
