"""An import that is killed at any of its steps left everything or nothing, and is made good by importing again."""

import signal
import sys
from pathlib import Path

import anyio
import pytest

from tests.carry.test_archive import NOW, arrive, fill, home, is_sound, leave, state, text_of
from tests.carry.test_task_lists import add

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

KILLED = """
import os, signal, sys
from pathlib import Path

import anyio

from pattern_acp.carry.arrival import accept, proposals
from pattern_acp.carry.car import read_archive
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock


class Counting:
    def __init__(self, tx, left):
        self._tx, self._left, self.writes = tx, left, 0

    def __getattr__(self, name):
        found = getattr(self._tx, name)
        return found if name not in {"execute", "insert", "execute_each"} else lambda *a, **k: self._write(found, a, k)

    def _write(self, write, arguments, named):
        result = write(*arguments, **named)
        self.writes += 1
        if self.writes == self._left:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


async def main(home, archive, left, now_ms):
    async with open_database(Path(home) / "constellation.db", clock=SystemClock()) as database:
        with open(archive, "rb") as file:
            found = read_archive(file)

            def store(tx):
                choices = {one.number: "both" for one in proposals(tx, found, {}) if one.is_open}
                counting = Counting(tx, left)
                accept(counting, found, {}, choices, now_ms=now_ms)
                return counting.writes

            print(await database.write(store), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
"""


async def killed(script: Path, home_of: Path, file: Path, step: int) -> str:
    """Import in a process that is killed behind its write number `step`, or behind its commit; what it printed."""
    done = await anyio.run_process(
        [sys.executable, str(script), str(home_of), str(file), str(step), str(NOW)], check=False, stderr=None
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
async def test_an_import_that_is_killed_at_any_step_left_all_or_nothing(tmp_path: Path):
    file, script = tmp_path / "a.car", tmp_path / "killed.py"
    await anyio.Path(script).write_text(KILLED, encoding="utf-8")
    async with home(tmp_path / "one") as one:
        await fill(one)
        await add(one, "Parse it")
        await leave(one, file)
    async with home(tmp_path / "two") as two:
        before = await two.read(state)
    async with home(tmp_path / "three"):
        pass
    writes = int(await killed(script, tmp_path / "three", file, 0))
    for step in sorted({1, 2, *range(1, writes, writes // 6), writes - 1, writes}):
        assert await killed(script, tmp_path / "two", file, step) == ""
        async with home(tmp_path / "two") as two:
            assert await two.read(state) == before
            assert await is_sound(two) == []
    # Killed right behind its commit, it left all of it, and importing again changes nothing.
    assert await killed(script, tmp_path / "two", file, 0) == f"{writes}\n"
    async with home(tmp_path / "two") as two:
        assert await text_of(two) == "The port is 7433.\nBuild with make.\nTest with pytest."
        assert await is_sound(two) == []
        assert (await arrive(two, file)).events == 0
