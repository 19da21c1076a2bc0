"""A process that moves a project and kills itself at a step: `python -m tests.support.killed_move FROM TO FOLDER STEP`.

A step is a statement that writes, a commit, or the beginning or end of writing the file again, in either constellation.
With 0 it says how many there are.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import LiteralString, TypeVar

import anyio

from pattern_acp.carry.moving import MovingProject, move
from pattern_acp.db.connection import Database, Transaction, open_database
from pattern_acp.db.raw import Params
from pattern_acp.domain.clock import SystemClock
from pattern_acp.session.stored import project_of_folder

T = TypeVar("T")


class Steps:
    """The steps so far, and the one that kills."""

    def __init__(self, kill_at: int) -> None:
        self.done = 0
        self._kill_at = kill_at

    def step(self) -> None:
        """Count a step, or end at it."""
        self.done += 1
        if self.done == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class KillingTransaction(Transaction):
    """A transaction whose statements that write are steps."""

    def __init__(self, inner: Transaction, steps: Steps) -> None:
        super().__init__(inner._handle, inner._path)
        self._steps = steps

    def execute(self, sql: LiteralString, params: Params = ()) -> int:
        """See `Transaction.execute`."""
        self._steps.step()
        return super().execute(sql, params)

    def insert(self, sql: LiteralString, params: Params = ()) -> int:
        """See `Transaction.insert`."""
        self._steps.step()
        return super().insert(sql, params)


class KillingDatabase(Database):
    """A constellation whose commits are steps, too."""

    def __init__(self, inner: Database, steps: Steps) -> None:
        super().__init__(inner._writer, inner._reader, inner.facts)
        self._steps = steps

    async def write(self, function: Callable[[Transaction], T], *, quietly: bool = False) -> T:
        """See `Database.write`."""
        written = await super().write(lambda tx: function(KillingTransaction(tx, self._steps)), quietly=quietly)
        self._steps.step()
        return written

    async def rewrite(self) -> bool:
        """See `Database.rewrite`."""
        self._steps.step()
        is_clean = await super().rewrite()
        self._steps.step()
        return is_clean


async def main(source: str, target: str, folder: str, kill_at: int) -> None:
    """Move a project, and end at the step `kill_at`, or say how many there were."""
    steps, clock = Steps(kill_at), SystemClock()
    project = MovingProject(project_of_folder(folder), folder, "own", project_of_folder)
    async with open_database(Path(source), clock=clock) as one, open_database(Path(target), clock=clock) as two:
        here, there = KillingDatabase(one, steps), KillingDatabase(two, steps)
        await move(here, there, project, now_ms=clock.now_ms())
    sys.stdout.write(f"{steps.done}\n")


if __name__ == "__main__":
    _, here_of, there_of, project_folder, number = sys.argv
    anyio.run(main, here_of, there_of, project_folder, int(number))
