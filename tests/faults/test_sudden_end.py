"""A process that ends without a word in the middle of a write: what it had told its editor is there."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support.faulty_disk import FaultyDisk
from tests.support.faulty_turns import Witness, problems_of

pytestmark = pytest.mark.slow

_CHILD = """
import json, sys
from pathlib import Path
import anyio
from tests.support.agent import running_agent
from tests.support.faulty_disk import Fault, faulty_disk
from tests.support.faulty_turns import AUTO, Witness, provider

async def main(folder, after):
    with faulty_disk(folder) as disk:
        witness = Witness(disk)
        async with running_agent(provider(1), database=folder / "constellation.db", settings=AUTO) as agent:
            await witness.begin(agent)
            print(json.dumps(witness.session), flush=True)
            agent.editor.watch = lambda update: print(json.dumps(update["update"]), flush=True)
            disk.fail(Fault(frozenset({"write", "sync"}), after, None))
            await agent.editor.prompt(witness.session, "Prompt 0")
            disk.fail(None)

anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
"""

OPERATIONS = 280
"""Writes and syncs of the turn, about."""


@pytest.mark.e2e
@pytest.mark.timeout(900)
async def test_what_was_told_is_there_after_a_sudden_end_in_a_write(
    few: Callable[[int, int], Sequence[int]], tmp_path: Path
):
    ended: list[int] = []
    for after in few(OPERATIONS, 4):
        folder = tmp_path / str(after)
        child = subprocess.run(  # noqa: ASYNC221  # nothing else runs
            [sys.executable, "-c", _CHILD, str(folder), str(after)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        ended.append(child.returncode)
        whole = [line for line in child.stdout.splitlines(keepends=True) if line.endswith("\n")]
        session, *updates = map(json.loads, whole)
        witness = Witness(FaultyDisk(folder, {}), session, updates=[(0, update) for update in updates])
        assert await problems_of(folder / "constellation.db", witness, 0) == [], after
    assert set(ended) <= {0, 9}
    assert ended.count(9) > len(ended) / 2
