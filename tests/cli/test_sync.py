"""`pattern-acp sync` in a terminal: a move to a new laptop through a folder."""

import json
import os
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from shutil import rmtree

import anyio
import anyio.to_thread
import pytest

from pattern_acp.bootstrap.constellation_choice import process_in
from pattern_acp.bootstrap.diagnosis import diagnose
from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.bootstrap.replicas import tell_projects
from pattern_acp.bootstrap.syncing import KeyRing, keep_in_sync, open_exchange, sync_finding
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.cli.main import run_with
from pattern_acp.config.settings import Flags
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.access import ARCHIVE, MemoryEdit
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.write_validation import SecretRule
from pattern_acp.recovery.checks import Health
from pattern_acp.sync.exchange import MemoryExchange
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import FolderCarrier, new_key, read_key
from tests.support.constellation import FakeClock
from tests.support.process import agent_environment, typed


def machine(tmp_path: Path, name: str, folder: Path, more: str = "") -> Process:
    home = tmp_path / name
    home.mkdir()
    (home / "config.toml").write_text(f'[sync]\nurl = "folder:{folder}"\n{more}', encoding="utf-8")
    environ = {"PATTERN_ACP_HOME": str(home), "PATTERN_ACP_MODEL": "offline/offline", "PATH": "/usr/bin:/bin"}
    return start_process(Flags(), environ)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "synced"
    found.mkdir()
    return found


@pytest.fixture
def desktop(tmp_path: Path, folder: Path) -> Process:
    return machine(tmp_path, "desktop", folder)


@pytest.fixture
def laptop(tmp_path: Path, folder: Path) -> Process:
    return machine(tmp_path, "laptop", folder)


def made_key(process: Process, capsys: pytest.CaptureFixture[str]) -> str:
    assert run_with(typed("sync", "key", "new", "--file", "--json"), process) == 0
    return json.loads(capsys.readouterr().out)["sync_key"]


def pipe_key(home: Path, key: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pattern_acp", "sync", "key", "set", "--file"]
    return subprocess.run(command, input=key, env=agent_environment(home), capture_output=True, text=True, check=False)


def test_memory_moves_to_a_new_laptop_through_a_folder(
    desktop: Process, laptop: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    key = made_key(desktop, capsys)
    assert run_with(typed("memory", "decision", "Use tabs everywhere."), desktop) == 0
    assert run_with(typed("sync"), desktop) == 0
    assert "what is new here went" in capsys.readouterr().out
    assert "is stored in" in pipe_key(tmp_path / "laptop", key).stdout
    assert run_with(typed("sync"), laptop) == 0
    assert "1 fact came" in capsys.readouterr().out
    assert run_with(typed("memory", "traps"), laptop) == 0
    assert "Use tabs everywhere." in capsys.readouterr().out
    assert run_with(typed("sync", "status", "--json"), laptop) == 0
    state = json.loads(capsys.readouterr().out)
    assert (state["key"], state["to_tell"], len(state["devices"])) == (True, 0, 1)
    assert run_with(typed("sync", "now"), desktop) == 0
    capsys.readouterr()
    assert run_with(typed("sync", "status"), desktop) == 0
    shown = capsys.readouterr().out
    assert "nothing to tell" in shown
    assert "yes" in shown


def test_each_thing_that_is_missing_is_named_with_what_to_do(
    home: Process, desktop: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_with(typed("sync"), home) == 1
    assert "set url in [sync]" in capsys.readouterr().err
    assert run_with(typed("sync", "status"), home) == 0
    assert "There is no key yet" in capsys.readouterr().out
    assert run_with(typed("sync", "key", "show"), home) == 1
    assert "sync key new" in capsys.readouterr().err
    assert run_with(typed("sync"), desktop) == 1
    assert "There is no key of sync" in capsys.readouterr().err
    key = made_key(desktop, capsys)
    assert run_with(typed("sync", "key", "new"), desktop) == 1
    assert "There is a key already" in capsys.readouterr().err
    assert run_with(typed("sync", "key", "show"), desktop) == 0
    assert capsys.readouterr().out.strip() == key
    assert "not a key of sync" in pipe_key(tmp_path / "desktop", "no key").stderr
    folder.rmdir()
    assert run_with(typed("sync"), desktop) == 1
    assert "is not there; make it" in capsys.readouterr().err


def test_a_lost_device_is_revoked_and_the_others_go_on_with_a_new_key(
    desktop: Process, laptop: Process, capsys: pytest.CaptureFixture[str]
):
    KeyRing.of(laptop).save(read_key(made_key(desktop, capsys)), in_file=True)
    for each in (laptop, desktop):
        assert run_with(typed("sync"), each) == 0
    capsys.readouterr()
    assert run_with(typed("sync", "status", "--json"), desktop) == 0
    (lost,) = json.loads(capsys.readouterr().out)["devices"]
    assert run_with(typed("sync", "revoke", "nobody"), desktop) == 1
    assert "No device is called nobody" in capsys.readouterr().err
    assert run_with(typed("sync", "revoke", lost["device"][:14], "--json"), desktop) == 0
    key = json.loads(capsys.readouterr().out)["sync_key"]
    assert run_with(typed("sync"), desktop) == 0
    KeyRing.of(laptop).save(read_key(key))
    assert run_with(typed("sync"), laptop) == 1
    assert "was revoked" in capsys.readouterr().err
    assert run_with(typed("sync", "status"), desktop) == 0
    assert "revoked" in capsys.readouterr().out
    assert run_with(typed("sync", "status"), laptop) == 0
    assert "This device was revoked by another one" in capsys.readouterr().out


def said_of(process: Process, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str]:
    """The sentences of an exchange, of its status, and of doctor."""
    assert run_with(typed("sync"), process) == 1
    exchange = capsys.readouterr().err
    assert run_with(typed("sync", "status", "--json"), process) == 0
    status = json.loads(capsys.readouterr().out)["problem"]

    async def finding() -> str:
        async with open_for_command(process) as database:
            return (await sync_finding(process, database)).detail

    return exchange, status, anyio.run(finding)


def test_a_server_that_is_not_there_is_named_at_once_by_all_that_tell_of_sync(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"nats://127.0.0.1:{free.getsockname()[1]}"
    alone = machine(tmp_path, "alone", tmp_path)
    (tmp_path / "alone" / "config.toml").write_text(f'[sync]\nurl = "{url}"\n', encoding="utf-8")
    alone = start_process(Flags(), dict(alone.environ))
    made_key(alone, capsys)
    for sentence in said_of(alone, capsys):
        assert f"The server {url} of sync cannot be used: nothing answers at this address" in sentence


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_can_only_be_read_is_named(desktop: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    made_key(desktop, capsys)
    assert run_with(typed("memory", "decision", "Use tabs everywhere."), desktop) == 0
    folder.chmod(0o500)
    capsys.readouterr()
    exchange, status, finding = said_of(desktop, capsys)
    folder.chmod(0o700)
    assert str(folder) in exchange
    assert status == finding
    assert "cannot be written to" in status


def test_a_folder_that_is_gone_and_a_clock_that_is_ahead_are_named(
    desktop: Process, laptop: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    KeyRing.of(laptop).save(read_key(made_key(desktop, capsys)), in_file=True)

    async def exchange() -> None:
        async with open_for_command(laptop) as database:
            key, clock = KeyRing.of(laptop).load() or b"", FakeClock()
            clock.advance(SystemClock().now_ms() - clock.now_ms() + 3_600_000)
            carrier = FolderCarrier(folder)
            await MemoryExchange(database, carrier, key, Sharing(), SecretMask(), clock, RandomIds(), host="fast").run()

    anyio.run(exchange)
    assert run_with(typed("sync"), desktop) == 0
    capsys.readouterr()
    assert run_with(typed("sync", "status", "--json"), desktop) == 0
    (device,) = json.loads(capsys.readouterr().out)["devices"]
    assert "minutes ahead of this one's" in device["problem"]
    rmtree(folder)
    for sentence in said_of(desktop, capsys):
        assert "is not there; make it" in sentence


async def test_doctor_says_what_keeps_memory_from_the_other_devices(
    desktop: Process, laptop: Process, capsys: pytest.CaptureFixture[str]
):
    async def found(process: Process) -> tuple[Health, str]:
        async with open_for_command(process) as database:
            finding = await sync_finding(process, database)
            assert finding in (await diagnose(process, database)).findings
            return finding.health, finding.detail

    assert (await found(desktop))[1].endswith("but there is no key yet.")
    for each in (desktop, laptop):
        KeyRing.of(each).save(new_key(), in_file=True)
        async with open_for_command(each) as database, open_exchange(each, database) as opened:
            await opened.exchange.run()
    health, detail = await found(laptop)
    assert health is Health.NOTE
    assert "writes with another key" in detail
    key = KeyRing.of(desktop).load()
    assert key is not None
    KeyRing.of(laptop).save(key)
    async with open_for_command(laptop) as database, open_exchange(laptop, database) as opened:
        await opened.exchange.run()
    health, detail = await found(laptop)
    assert health is Health.OK
    assert detail.startswith("1 other device at folder:")


def test_what_is_remembered_last_goes_while_the_process_ends(
    desktop: Process, laptop: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    key = made_key(desktop, capsys)
    pipe_key(tmp_path / "laptop", key)

    async def live() -> None:
        answered = anyio.Event()
        answered.set()
        async with open_for_command(desktop) as database, anyio.create_task_group() as tasks:
            tasks.start_soon(keep_in_sync, desktop, database, answered)
            # The first exchange tells all there is, which is nothing yet.
            carrier = FolderCarrier(folder)
            if not await carrier.names():
                await carrier.news()
            owner = MemoryScope("default", str(tmp_path), SessionId(CONSTELLATION_STREAM))
            memory = ConstellationMemory(
                database,
                owner,
                clock=SystemClock(),
                ids=RandomIds(),
                peer=7,
                writer=PERSON,
                rules=MemoryRules(secrets=SecretRule.ASK),
            )
            await memory.commit(MemoryEdit(ARCHIVE, "append", "The last word."), None)
            tasks.cancel_scope.cancel()

    anyio.run(live)
    capsys.readouterr()
    assert run_with(typed("sync"), laptop) == 0
    assert "1 fact came" in capsys.readouterr().out


async def test_what_another_device_forgets_is_noted_for_a_project_that_began_while_sync_was_open(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    desktop = machine(tmp_path, "desktop", folder, "[constellation]\nper_project = true\n")
    laptop = machine(tmp_path, "laptop", folder)
    key = await anyio.to_thread.run_sync(made_key, laptop, capsys)
    await anyio.to_thread.run_sync(pipe_key, tmp_path / "desktop", key)

    async def on_laptop(*words: str) -> None:
        assert await anyio.to_thread.run_sync(run_with, typed(*words), laptop) == 0

    await on_laptop("memory", "create", "about", "--text", "It is QUARTZ-7731.", "--scope", "persona", "Of a test.")
    await on_laptop("sync")
    telling = partial(tell_projects, desktop)
    async with open_for_command(desktop) as database, open_exchange(desktop, database, telling) as opened:
        await opened.run()
        shop = process_in(desktop, str(tmp_path))
        async with open_for_command(shop):
            pass
        await on_laptop("memory", "forget", "about", "QUARTZ-7731", "--yes")
        await on_laptop("sync")
        assert (await opened.run()).forgotten == 1
        noted = await database.read(lambda tx: tx.all("SELECT target FROM replica_forgettings"))
        assert noted == [(shop.constellation,)]
