"""Reading many files into the index in another process.

Owns: portions, the process that reads them, what happens when a grammar ends or hangs that process, and that one agent
at a time builds an index. Must not know: which files have to be read, or who waits for them.
"""

import logging
import os
import time
from collections.abc import Callable, Sequence

import anyio
import anyio.to_process
from anyio import BrokenWorkerProcess

from pattern_acp.codemap.indexing import content_hash, index_files, read_bytes
from pattern_acp.codemap.languages import language_of
from pattern_acp.codemap.model import Progress
from pattern_acp.codemap.recording import ReadFile, record_files
from pattern_acp.db.columns import text
from pattern_acp.db.connection import Database
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import WorkspaceError

_LOGGER = logging.getLogger(__name__)

PORTION_FILES = 48
"""Files of one transaction: a third of a second, after which there is progress to show and the lock is free."""

PORTION_SECONDS = 30.0
"""Longest time for a portion; the process is ended then, and its files are read one by one."""

FILE_SECONDS = 10.0
"""Longest time for one file that is read alone."""

PROCESSES = max(1, min(4, (os.cpu_count() or 2) // 2))
"""How many read at the same time: half of the machine is left to the person."""

LEASE_MS = 20_000
"""How long an agent keeps the right to build after its last portion; another one goes on when it died."""

_LEASE_PAUSE_SECONDS = 0.25

Work = Callable[[str, str, Sequence[str], Sequence[str]], int]
"""What runs in the other process, see `index_files`."""

Report = Callable[[Progress], None]
"""What is told of progress."""


class BuildLease:
    """The right to build an index, which one agent has at a time; it is kept in the index itself."""

    def __init__(self, database: Database, owner: str, clock: Clock) -> None:
        self._database = database
        self._owner = owner
        self._clock = clock

    async def take(self) -> None:
        """Wait until no other agent builds.

        Raises:
            DatabaseError: the index cannot be written.
        """
        while True:
            if await self.renew():
                return
            await anyio.sleep(_LEASE_PAUSE_SECONDS)

    async def renew(self) -> bool:
        """Take the lease if it is free, or hold it for longer; False when another agent has it."""
        now = self._clock.now_ms()

        def work(tx: Transaction) -> bool:
            row = tx.one("SELECT value FROM meta WHERE name = 'builder'")
            owner, _, until = (text(row[0]) if row else "").partition(" ")
            if owner not in {"", self._owner} and int(until or 0) > now:
                return False
            tx.execute(
                "INSERT INTO meta (name, value) VALUES ('builder', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                (f"{self._owner} {now + LEASE_MS}",),
            )
            return True

        return await self._database.write(work)

    async def give_up(self) -> None:
        """Let the next agent build."""
        await self._database.write(
            lambda tx: tx.execute("DELETE FROM meta WHERE name = 'builder' AND value LIKE ? || ' %'", (self._owner,))
        )


async def read_in_process(
    database: Database,
    root: str,
    paths: Sequence[str],
    *,
    repeat: Sequence[str] = (),
    report: Report | None = None,
    lease: BuildLease | None = None,
    work: Work = index_files,
    seconds: tuple[float, float] = (PORTION_SECONDS, FILE_SECONDS),
) -> None:
    """Read the files at `paths` below `root` into the index, portion by portion, in other processes.

    A file that ends or hangs its process is recorded as unparsable. What was read stays when this is cancelled.
    `repeat` are files that came or went, see `index_files`; `lease` is held for longer after each portion.
    `work` and `seconds`, for a portion and for a file, are replaced by tests.

    Raises:
        DatabaseError: the index cannot be written; in an exception group when there is more than one portion.
        WorkspaceError: no process can be started; in an exception group likewise.
    """
    if repeat:
        await _run(database, root, (), repeat, work, seconds[0])
    portions = iter([paths[start : start + PORTION_FILES] for start in range(0, len(paths), PORTION_FILES)])
    done = 0

    async def take_portions() -> None:
        nonlocal done
        for portion in portions:
            await _read_portion(database, root, portion, work, seconds)
            done += len(portion)
            if report is not None:
                report(Progress(done, len(paths)))
            if lease is not None:
                await lease.renew()

    if len(paths) <= PORTION_FILES:
        await take_portions()  # without a task group, so that its one error is raised as it is
        return
    async with anyio.create_task_group() as workers:
        for _ in range(PROCESSES):
            workers.start_soon(take_portions)


async def _read_portion(
    database: Database, root: str, portion: Sequence[str], work: Work, seconds: tuple[float, float]
) -> None:
    if await _run(database, root, portion, (), work, seconds[0]):
        return
    for path in portion:
        if not await _run(database, root, (), (), work, PORTION_SECONDS):  # a start is not on a file's own time
            raise WorkspaceError(
                "The process that reads sources cannot be started, so the code map stays as it is.",
                failure_code="codemap.unavailable",
            )
        if not await _run(database, root, [path], (), work, seconds[1]):
            await database.write(lambda tx, path=path: _record_unparsable(tx, root, path))


async def _run(
    database: Database, root: str, paths: Sequence[str], repeat: Sequence[str], work: Work, seconds: float
) -> bool:
    """Whether the process lived through it."""
    try:
        with anyio.fail_after(seconds):
            await anyio.to_process.run_sync(
                work, str(database.path), root, tuple(paths), tuple(repeat), cancellable=True
            )
    except (BrokenWorkerProcess, TimeoutError) as error:
        _LOGGER.warning("The process that reads sources ended at one of %d files: %s", len(paths), type(error).__name__)
        return False
    return True


def _record_unparsable(tx: Transaction, root: str, path: str) -> None:
    read_ns = time.time_ns()
    found = read_bytes(root, path)
    if found is not None:
        # With its hash, so that it is not tried again before it changes.
        digest, note = content_hash(found[0]), "its grammar failed on it"
        record_files(tx, root, [ReadFile(path, language_of(path), "unparsable", found[1], read_ns, digest, note=note)])
