"""An exchange that is killed at any of its steps loses nothing, and the next one goes on."""

import signal
import sys
from functools import partial
from pathlib import Path

import anyio
import pytest

from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.forget import MemoryForgetting, Tell
from pattern_acp.memory.service.history import HistoryScope
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.recovery.checks import Health, check_rows
from pattern_acp.sync.exchange import ExchangeReport, MemoryExchange
from pattern_acp.sync.forgetting import note_forgetting
from pattern_acp.sync.nats_carrier import NatsCarrier
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import FolderCarrier, new_key
from pattern_acp.tools.registry import parameter_names
from tests.support.nats_server import nats_server
from tests.support.process import agent_environment
from tests.sync.test_forgetting import files_with

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

STEPS = 6
"""Before and after listing, fetching and putting: the fewest of an exchange in which something comes and goes."""


async def say(database: Database, text: str) -> None:
    owner = MemoryScope("tester", "/project", SessionId(CONSTELLATION_STREAM))
    clock, ids = SystemClock(), RandomIds()
    memory = ConstellationMemory(
        database, owner, clock=clock, ids=ids, peer=ids.peer(), writer=PERSON, rules=MemoryRules()
    )
    await memory.commit(MemoryEdit("project", "append", text), None)


async def exchange(database: Database, there: Path | str, key: bytes) -> ExchangeReport:
    carrier = FolderCarrier(there) if isinstance(there, Path) else NatsCarrier(there)
    try:
        return await MemoryExchange(database, carrier, key, Sharing(), SecretMask(), SystemClock(), RandomIds()).run()
    finally:
        await carrier.close()


async def forget(database: Database, words: str, key: bytes) -> None:
    clock, ids = SystemClock(), RandomIds()
    scope = HistoryScope(((Scope.PROJECT, "/project"),), CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, ids.peer())

    async def telling() -> Tell:
        return partial(note_forgetting, key=key, ids=ids)

    forgetting = MemoryForgetting(database, scope, clock=clock, parameters=parameter_names, telling=telling)
    await forgetting.forget("project", words)


async def test_what_was_forgotten_elsewhere_is_forgotten_after_a_kill_at_any_step(tmp_path: Path):
    folder, key = tmp_path / "synced", new_key()
    folder.mkdir()
    one, two = (tmp_path / name / "constellation.db" for name in ("one", "two"))
    for file in (one, two):
        file.parent.mkdir()
    step = 0
    for step in range(4 * STEPS):
        words = f"quartzvejle-{step:03}-vault"
        async with open_database(one, clock=SystemClock()) as database:
            await say(database, f"At {step} it is {words}.")
            await exchange(database, folder, key)
        async with open_database(two, clock=SystemClock()) as database:
            await exchange(database, folder, key)
        async with open_database(one, clock=SystemClock()) as database:
            await exchange(database, folder, key)
            await forget(database, words, key)
            await exchange(database, folder, key)
        if await killed_exchange(tmp_path, two, folder, key, step):
            # It came to its end: it has no such step.
            break
    assert step >= STEPS
    for _ in range(2):
        for file in (two, one):
            async with open_database(file, clock=SystemClock()) as database:
                await exchange(database, folder, key)
                findings = await database.write(lambda tx: list(check_rows(tx)))
                assert [found.detail for found in findings if found.health is Health.BROKEN] == []
    assert files_with(tmp_path, "quartzvejle") == []


async def killed_exchange(home: Path, file: Path, there: Path | str, key: bytes, step: int | str) -> bool:
    """Exchange in a process that is killed at a step; True where it has no such step."""
    command = [sys.executable, "-m", "tests.support.killed_exchange", str(file), str(there), key.hex(), str(step)]
    root = Path(__file__).parents[2]
    done = await anyio.run_process(command, cwd=root, env=agent_environment(home), check=False)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode == 0


async def test_a_kill_at_any_step_loses_nothing_and_both_devices_come_to_the_same(tmp_path: Path):
    folder, key = tmp_path / "synced", new_key()
    folder.mkdir()
    files = [tmp_path / name / "constellation.db" for name in ("one", "two")]
    for file in files:
        file.parent.mkdir()
    said, step = list[str](), 0
    for step in range(4 * STEPS):
        for number, file in enumerate(files):
            async with open_database(file, clock=SystemClock()) as database:
                said.append(f"Device {number} at step {step}.")
                await say(database, said[-1])
                if number == 0:
                    await exchange(database, folder, key)
        if await killed_exchange(tmp_path, files[1], folder, key, step):
            # It came to its end: it has no such step.
            break
    assert step >= STEPS
    texts: list[list[str]] = []
    for _ in range(2):
        texts.clear()
        for file in files:
            async with open_database(file, clock=SystemClock()) as database:
                await exchange(database, folder, key)
                findings = await database.write(lambda tx: list(check_rows(tx)))
                assert [one.detail for one in findings if one.health is Health.BROKEN] == []
                rows = await database.read(
                    lambda tx: tx.all("SELECT text FROM blocks WHERE deleted = 0 AND owner = '/project' ORDER BY label")
                )
                texts.append(sorted(line for row in rows for line in str(row[0]).splitlines() if line in said))
    assert texts == [sorted(said), sorted(said)]


async def texts_of(database: Database) -> str:
    rows = await database.read(lambda tx: tx.all("SELECT text FROM blocks WHERE deleted = 0 AND owner = '/project'"))
    return "\n".join(str(row[0]) for row in rows)


async def test_a_segment_that_a_kill_left_half_written_is_no_segment_and_goes(tmp_path: Path):
    folder, key = tmp_path / "synced", new_key()
    folder.mkdir()
    one, two = (tmp_path / name / "constellation.db" for name in ("one", "two"))
    for file in (one, two):
        file.parent.mkdir()
    async with open_database(one, clock=SystemClock()) as database:
        await say(database, "The port is 7433.")
    assert not await killed_exchange(tmp_path, one, folder, key, "writing")
    (left,) = (file for file in folder.rglob("*") if file.is_file())
    content = await anyio.Path(left).read_bytes()
    await anyio.Path(left).write_bytes(content[: len(content) // 2])
    async with open_database(two, clock=SystemClock()) as database:
        report = await exchange(database, folder, key)
        assert (report.received, report.waiting, report.notes) == (0, 0, [])
    async with open_database(one, clock=SystemClock()) as database:
        await exchange(database, folder, key)
    assert [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".segment"] == []
    async with open_database(two, clock=SystemClock()) as database:
        await exchange(database, folder, key)
        assert "The port is 7433." in await texts_of(database)


@pytest.mark.needs("nats-server")
async def test_a_kill_while_a_segment_goes_to_a_server_loses_nothing(tmp_path: Path):
    key = new_key()
    one, two = (tmp_path / name / "constellation.db" for name in ("one", "two"))
    for file in (one, two):
        file.parent.mkdir()
    with nats_server(tmp_path / "server") as server:
        for words in ("The port is 7433.", "The host is called quartz."):
            async with open_database(one, clock=SystemClock()) as database:
                await say(database, words)
            assert not await killed_exchange(tmp_path, one, server.url, key, "sending")
            async with open_database(two, clock=SystemClock()) as database:
                await exchange(database, server.url, key)
                assert words not in await texts_of(database)
            async with open_database(one, clock=SystemClock()) as database:
                await exchange(database, server.url, key)
            async with open_database(two, clock=SystemClock()) as database:
                await exchange(database, server.url, key)
                assert words in await texts_of(database)
