"""Kills and power cuts at every write of two turns, from the making of the file to its closing: nothing that the editor
was told is lost, everything is sound, and the session goes on."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest

from pattern_acp.db.connection import read_file
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import load_migrations, migrate
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.faulty_disk import (
    SECTOR,
    FaultyDisk,
    Files,
    Operation,
    any_of,
    everything,
    faulty_disk,
    left_by_kill,
    left_by_power_cut,
    nothing,
    put,
    the_first,
    torn,
)
from tests.support.faulty_turns import AUTO, Witness, lost, provider
from tests.support.scripts import says

pytestmark = pytest.mark.slow

Few = Callable[[int, int], Sequence[int]]
Crash = Callable[[FaultyDisk, int], Files]

CRASHES: dict[str, tuple[Crash, int]] = {
    "a kill": (left_by_kill, 20),
    "a power cut that keeps only what was synced": (lambda disk, done: left_by_power_cut(disk, done, nothing), 20),
    "a power cut that keeps everything": (lambda disk, done: left_by_power_cut(disk, done, everything), 4),
    "a power cut that keeps the first writes": (
        lambda disk, done: left_by_power_cut(disk, done, the_first(random.Random(done))),
        8,
    ),
    "a power cut that keeps any writes": (
        lambda disk, done: left_by_power_cut(disk, done, any_of(random.Random(done))),
        12,
    ),
    "a power cut that keeps any sectors": (
        lambda disk, done: left_by_power_cut(disk, done, torn(random.Random(done))),
        16,
    ),
}
"""What is left, and at how many moments it is looked at in an ordinary run."""


@pytest.fixture(scope="module")
def witness(tmp_path_factory: pytest.TempPathFactory) -> Witness:
    """Two turns on a recording disk, from the first start on a machine to the end of the process."""

    # Not a coroutine: tests without a loop use it too, and which test of the module comes first is xdist's choice.
    async def two_turns() -> None:
        async with running_agent(provider(), database=folder / "constellation.db", settings=AUTO) as agent:
            await seen.watch(agent)

    folder = tmp_path_factory.mktemp("disk")
    with faulty_disk(folder) as disk:
        seen = Witness(disk)
        anyio.run(two_turns)
    return seen


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CRASHES)
async def test_nothing_acknowledged_is_lost_and_all_is_sound_after(
    name: str, witness: Witness, few: Few, tmp_path: Path
):
    crash, most = CRASHES[name]
    for done in few(witness.now + 1, most):
        problems = await lost(crash(witness.disk, done), tmp_path / str(done), witness, done)
        assert problems == [], f"after {done} of {witness.now} operations"


def test_the_turns_write_and_are_acknowledged_often_enough_to_prove_something(witness: Witness):
    kinds = [operation.kind for operation in witness.disk.operations]
    assert kinds.count("sync") > 30
    assert kinds.count("write") > 500
    told = witness.until(witness.now)
    assert (len(told.finished), len(told.facts), told.plans, told.ended) == (10, 2, 2, 2)


@pytest.mark.parametrize("share", [0.5, 0.75, 1.0])
async def test_a_session_goes_on_after_a_power_cut(share: float, witness: Witness, tmp_path: Path):
    # From the moment on when the editor knew the session.
    done = int(witness.opened + share * (witness.now - witness.opened))
    put(left_by_power_cut(witness.disk, done, nothing), tmp_path / "disk")
    path = tmp_path / "disk" / "constellation.db"
    async with running_agent(ScriptedProvider([says("Here again.")]), database=path, settings=AUTO) as agent:
        opening: JsonDict = {"sessionId": witness.session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", opening)
        shown = [*agent.editor.of_kind("tool_call"), *agent.editor.of_kind("tool_call_update")]
        statuses = {str(each["toolCallId"]): str(each["status"]) for each in shown if "status" in each}
        assert witness.until(done).finished.items() <= statuses.items()
        assert set(statuses.values()) <= {"completed", "failed"}
        assert await agent.editor.prompt(witness.session, "Go on") == {"stopReason": "end_turn"}
        assert "Here again." in agent.editor.said()


def add(driver: ApswConnection, name: str) -> None:
    driver.write(lambda tx: tx.execute("INSERT INTO blobs VALUES (?, 1, 'raw', x'00')", (name,)))


@pytest.mark.parametrize(("mode", "kept"), [("FULL", 1), ("NORMAL", 0), ("OFF", 0)])
def test_this_disk_loses_what_a_database_does_not_sync(mode: str, kept: int, tmp_path: Path):
    folder = tmp_path / "disk"
    folder.mkdir()
    with faulty_disk(folder) as disk:
        driver = ApswConnection(folder / "constellation.db", read_only=False, busy_seconds=1)
        driver.open()
        migrate(driver, load_migrations(), now_ms=1)
        driver.checkpoint()
        driver.raw.pragma("synchronous", mode)
        add(driver, "acknowledged")
        left = left_by_power_cut(disk, len(disk.operations), nothing)
        driver.close()
    put(left, tmp_path / "left")
    found = read_file(tmp_path / "left" / "constellation.db", lambda tx: tx.one("SELECT count(*) FROM blobs"))
    assert found == (kept,)


def test_sectors_of_a_write_that_was_cut_are_those_of_the_file():
    written = Operation("write", "a", at=SECTOR - 12, data=bytes(range(250)) * 4)
    pieces = [each for seed in range(20) for each in torn(random.Random(seed))([written])]
    assert {(each.at, len(each.data)) for each in pieces} == {(SECTOR - 12, 12), (SECTOR, SECTOR), (2 * SECTOR, 476)}
    for each in pieces:
        start = each.at - written.at
        assert each.data == written.data[start : start + len(each.data)]
