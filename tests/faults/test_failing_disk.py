"""A disk that is full, or fails to read, write or sync, at every operation of a turn: a sentence, nothing half-written,
nothing acknowledged lost, and the session goes on once the disk works again."""

from collections.abc import Callable, Sequence
from pathlib import Path

import apsw
import pytest

from pattern_acp.domain.errors import DatabaseError
from pattern_acp.jsonrpc.messages import INTERNAL_ERROR, RemoteError
from tests.support.agent import RunningAgent, running_agent
from tests.support.faulty_disk import Fault, Kind, faulty_disk, left_by_kill
from tests.support.faulty_turns import AUTO, Witness, lost, provider
from tests.support.scripts import says

pytestmark = pytest.mark.slow

Few = Callable[[int, int], Sequence[int]]

FULL = apsw.FullError
BROKEN = apsw.IOError
WRITES: frozenset[Kind] = frozenset({"write", "truncate"})
READS: frozenset[Kind] = frozenset({"read"})
SYNCS: frozenset[Kind] = frozenset({"sync"})

FAULTS = {
    "a full disk": (WRITES, FULL, True, 8),
    "a disk that is full for a moment": (WRITES, FULL, False, 4),
    "writes that fail": (WRITES, BROKEN, True, 4),
    "a write that fails": (WRITES, BROKEN, False, 4),
    "syncs that fail": (SYNCS, BROKEN, True, 3),
    "a sync that fails": (SYNCS, BROKEN, False, 4),
    "reads that fail": (READS, BROKEN, True, 3),
    "a read that fails": (READS, BROKEN, False, 5),
}
"""What fails, how, whether it goes on, and how many moments an ordinary run tries."""

MORE = [says("Working again."), says("Working again."), says("Working again.")]


async def turn(agent: RunningAgent, witness: Witness, fault: Fault) -> int:
    """Run a turn with the fault, mend the disk, and run another; how often the fault struck."""
    witness.disk.fail(fault)
    assert (await agent.editor.prompt(witness.session, "Prompt 0"))["stopReason"] == "end_turn"
    hits = witness.disk.hits
    witness.disk.fail(None)
    said = agent.editor.said()
    assert "Traceback" not in said
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(witness.session, "Again"))["stopReason"] == "end_turn"
    assert "saved" not in agent.editor.said(), "the disk works again"
    return hits


async def one_run(folder: Path, fault: Fault, number: int) -> int:
    """An agent of its own whose first turn meets the fault; how often it struck."""
    with faulty_disk(folder) as disk:
        witness = Witness(disk)
        path = folder / "constellation.db"
        async with running_agent(provider(1, MORE), database=path, settings=AUTO) as agent:
            await witness.begin(agent)
            hits = await turn(agent, witness, fault)
        files = left_by_kill(disk, len(disk.operations))
    problems = await lost(files, folder.parent / f"{folder.name}-left", witness, witness.now)
    assert problems == [], f"{fault} {number}"
    return hits


async def count(folder: Path, kinds: frozenset[Kind]) -> int:
    """How many operations of these kinds a turn has."""
    with faulty_disk(folder) as disk:
        witness = Witness(disk)
        async with running_agent(provider(1, MORE), database=folder / "constellation.db", settings=AUTO) as agent:
            await witness.begin(agent)
            disk.fail(Fault(kinds, 1_000_000, None))
            await agent.editor.prompt(witness.session, "Prompt 0")
            return disk.seen


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", FAULTS)
async def test_a_turn_ends_with_a_sentence_and_the_session_goes_on_after(name: str, few: Few, tmp_path: Path):
    kinds, raises, lasts, most = FAULTS[name]
    total = await count(tmp_path / "count", kinds)
    moments = few(total, most)
    struck = [await one_run(tmp_path / str(n), Fault(kinds, n, raises, lasts=lasts), n) for n in moments]
    assert sum(map(bool, struck)) > len(moments) / 2, "the faults struck"


async def refused(agent: RunningAgent) -> str:
    """What the editor is told when it asks for a new session; empty when it gets one."""
    try:
        await agent.editor.open_session(str(agent.folder))
    except RemoteError as error:
        return error.message if error.code == INTERNAL_ERROR else repr(error)
    return ""


@pytest.mark.parametrize(("raises", "said"), [(FULL, "There is no disk space"), (BROKEN, "cannot be opened or read")])
async def test_a_session_that_cannot_be_recorded_is_refused_with_a_sentence(
    raises: type[apsw.Error], said: str, few: Few, tmp_path: Path
):
    with faulty_disk(tmp_path) as disk:
        path = tmp_path / "constellation.db"
        async with running_agent(provider(1), database=path, settings=AUTO) as agent:
            await agent.editor.open_session(str(agent.folder))
            for number in few(12, 4):
                disk.fail(Fault(WRITES, number, raises, lasts=True))
                message = await refused(agent)
                struck = disk.hits
                disk.fail(None)
                assert bool(message) == bool(struck)
                assert said in message or not struck
                assert await refused(agent) == ""


@pytest.mark.timeout(600)
async def test_a_first_start_on_a_failing_disk_leaves_nothing_that_a_later_start_minds(few: Few, tmp_path: Path):
    for number in few(140, 6):
        folder = tmp_path / str(number)
        with faulty_disk(folder) as disk:
            disk.fail(Fault(WRITES, number, FULL, lasts=True))
            await begin(folder)
            disk.fail(None)
            assert await begin(folder) == ""


async def begin(folder: Path) -> str:
    """Start an agent and a session; what was said instead."""
    try:
        async with running_agent(provider(1), database=folder / "constellation.db", settings=AUTO) as agent:
            return await refused(agent)
    except DatabaseError as error:
        return error.sentence
