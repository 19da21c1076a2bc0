"""An exchange that is killed at any of its steps loses nothing, and the next one goes on."""

import signal
import sys
from pathlib import Path

import anyio
import pytest

from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.ids import RandomIds, SessionId
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.secrets import SecretMask
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.scope import PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.recovery.checks import Health, check_rows
from pattern_acp.sync.exchange import MemoryExchange
from pattern_acp.sync.folder import FolderCarrier
from pattern_acp.sync.outgoing import Sharing
from pattern_acp.sync.segments import new_key
from tests.support.process import agent_environment

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


async def exchange(database: Database, folder: Path, key: bytes) -> None:
    carrier = FolderCarrier(folder)
    await MemoryExchange(database, carrier, key, Sharing(), SecretMask(), SystemClock(), RandomIds()).run()


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
        command = [sys.executable, "-m", "tests.support.killed_exchange"]
        words = [str(files[1]), str(folder), key.hex(), str(step)]
        root = Path(__file__).parents[2]
        done = await anyio.run_process([*command, *words], cwd=root, env=agent_environment(tmp_path), check=False)
        if done.returncode == 0:
            # It came to its end: it has no such step.
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
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
