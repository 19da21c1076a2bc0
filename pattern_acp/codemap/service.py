"""The code maps of the workspace's folders, as the rest of the program uses them.

Owns: opening them, judging their freshness, refreshing before an answer as far as the time allows, reading the agent's
own changes at once, and reporting progress. Must not know: what is asked of the index, nor how the workspace is listed.
"""

import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from pattern_acp.codemap.indexing import (
    BuildLease,
    IndexDifference,
    Report,
    compare,
    known_files,
    read_in_process,
    word_for,
)
from pattern_acp.codemap.model import IndexProgress, Judgement, ListFiles, absent_grammars, language_of
from pattern_acp.codemap.recording import add_listed, confirm_files, remove_files
from pattern_acp.codemap.store import index_path, open_index
from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Database
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import PatternError

_LOGGER = logging.getLogger(__name__)

T = TypeVar("T")

LEASED_FILES = 200
"""Number of files above which a refresh is a build, which one agent does at a time; any agent reads fewer."""

_GIVE_UP_SECONDS = 1.0

MOST_ROUNDS = 3
"""Limit on rounds in which a refresh looks for new changes before it leaves the rest to the next one."""


class _State(Struct):
    """The result of one comparison."""

    difference: IndexDifference
    judgement: Judgement


class WorkspaceCodeMap:
    """The index of one workspace, from `CodeMaps.at`."""

    def __init__(self, root: str, database: Database, list_files: ListFiles, clock: Clock, tasks: TaskGroup) -> None:
        self.root = root
        self._database = database
        self._list_files = list_files
        self._lease = BuildLease(database, f"{id(self):x}-{time.time_ns():x}", clock)
        self._tasks = tasks
        self._refreshing: anyio.Event | None = None
        self._again = False
        self._changed: set[str] = set()
        self._reports: list[Report] = []
        self.progress: IndexProgress | None = None
        """Progress of the running refresh; None when none runs."""

    @property
    def is_refreshing(self) -> bool:
        """True while the index is brought up to date, listing the workspace included."""
        return self._refreshing is not None

    async def read(self, function: Callable[[Transaction], T]) -> T:
        """Run `function` on one snapshot of the index."""
        return await self._database.read(function)

    async def judge(self) -> Judgement:
        """Judge the freshness of the index now. Lists the workspace; reads only files whose stamps are unsure.

        Raises:
            DatabaseError: the index cannot be read.
        """
        return (await self._look()).judgement

    async def prepare(self, seconds: float, report: Report | None = None) -> Judgement:
        """Refresh the index for up to `seconds` and judge it; the rest continues in the background.

        `report` receives the progress meanwhile.

        Raises:
            DatabaseError: the index cannot be read.
        """
        if seconds <= 0:
            judgement = await self.judge()
            if judgement.freshness != "fresh":
                self.start_refresh()
            return judgement
        if report is not None:
            self._reports.append(report)
        try:
            # The looks count, too: to list a hundred thousand files takes a second or more.
            with anyio.move_on_after(seconds):
                judgement = await self.judge()
                if judgement.freshness == "fresh":
                    return judgement
                await self.start_refresh().wait()
                return await self.judge()
        finally:
            if report is not None:
                self._reports.remove(report)
        self.start_refresh()
        return await self._judged_while_built() or await self.judge()

    async def _judged_while_built(self) -> Judgement | None:
        """Judge an index that was never complete by its rows alone; None for one that was."""
        counted = await self._database.read(lambda tx: None if _is_complete(tx) else count_files(tx))
        if counted is None:
            return None
        listed, indexed = counted
        return Judgement("partial" if indexed else "missing", listed, indexed)

    def note_changed(self, paths: Iterable[str]) -> None:
        """Read files again at once, since the agent changed them. Absolute paths, or relative to the root.

        Returns at once; the reading continues in the background. Paths outside the workspace are ignored.
        """
        for path in paths:
            below = self._below(path)
            if below:
                self._changed.add(below)
        if self._changed:
            if self._refreshing is not None:
                # A build may take a minute, and the agent's own changes are asked for earlier than that.
                self._tasks.start_soon(self._read_noted_beside)
            self.start_refresh()

    def start_refresh(self) -> anyio.Event:
        """Refresh in the background, unless that is under way; the event is set when it has ended, also in failure."""
        if self._refreshing is None:
            self._refreshing = anyio.Event()
            self._tasks.start_soon(self._refresh, self._refreshing)
        else:
            self._again = True
        return self._refreshing

    def _below(self, path: str) -> str:
        """The path relative to the root with forward slashes; "" when it is outside."""
        try:
            full = Path(self.root, path)
            return full.relative_to(self.root).as_posix() if full.is_relative_to(self.root) else ""
        except (ValueError, OSError):
            return ""

    async def _look(self) -> _State:
        stop = threading.Event()
        known = await self._database.read(lambda tx: (known_files(tx), _is_complete(tx)))

        def work() -> tuple[IndexDifference, dict[str, str]]:
            absent = absent_grammars()
            return compare(self.root, self._list_files(self.root, stop), known[0], absent), absent

        try:
            difference, absent = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        finally:
            stop.set()
        languages = {row.language for row in known[0].values()} | {language_of(path) for path in difference.added}
        differing = difference.all_paths
        judgement = Judgement(
            freshness=word_for(difference, known=len(known[0]), complete=known[1]),
            listed=difference.listed,
            indexed=max(0, difference.listed - len(differing) + len(difference.removed)),
            changed=differing,
            missing_languages=tuple(
                f"{name}: {package} is not installed" for name, package in sorted(absent.items()) if name in languages
            ),
        )
        return _State(difference, judgement)

    async def _refresh(self, done: anyio.Event) -> None:
        try:
            while True:
                self._again = False
                await self._read_noted()
                await self._read_differences()
                if not self._again and not self._changed:
                    break
        except* (PatternError, OSError):
            _LOGGER.warning("The code map could not be refreshed.", exc_info=True)
        finally:
            self.progress = None
            self._refreshing = None
            done.set()

    async def _read_noted_beside(self) -> None:
        try:
            await self._read_noted()
        except* (PatternError, OSError):
            _LOGGER.warning("A changed file could not be read into the code map.", exc_info=True)

    async def _read_noted(self) -> None:
        """Read the files that `note_changed` named and the index has, without listing the whole workspace first."""
        changed, self._changed = sorted(self._changed), set[str]()
        if not changed:
            return

        def known(tx: Transaction) -> list[str]:
            return [
                path for path in changed if tx.one("SELECT 1 FROM files WHERE path = ? AND status <> 'listed'", (path,))
            ]

        await read_in_process(self._database, self.root, await self._database.read(known))

    async def _read_differences(self) -> None:
        for _ in range(MOST_ROUNDS):
            state = await self._look()
            if not await self._settle(state.difference):
                return

    async def _settle(self, difference: IndexDifference) -> bool:
        """Apply a difference to the index; return whether anything was read, which makes another look worthwhile."""
        to_read = difference.to_read
        lease = self._lease if len(to_read) > LEASED_FILES else None
        if lease is not None:
            await lease.take()
            # Another agent may have built it while this one waited.
            difference = (await self._look()).difference
            to_read = difference.to_read
        now = time.time_ns()
        came_or_went = (*difference.added, *difference.removed)

        def sync(tx: Transaction) -> None:
            add_listed(tx, difference.added)
            remove_files(tx, difference.removed)
            confirm_files(tx, [(path, stamp, now) for path, stamp in difference.confirmed])
            if not to_read:
                tx.execute("INSERT INTO meta (name, value) VALUES ('complete', '1') ON CONFLICT DO NOTHING")

        try:
            if difference.all_paths or difference.confirmed or not await self._database.read(_is_complete):
                await self._database.write(sync)
            await read_in_process(
                self._database, self.root, to_read, repeat=came_or_went, report=self._report, lease=lease
            )
        finally:
            if lease is not None:
                with anyio.move_on_after(_GIVE_UP_SECONDS, shield=True):
                    await lease.give_up()
        return bool(to_read)

    def _report(self, progress: IndexProgress) -> None:
        self.progress = progress
        for report in list(self._reports):
            report(progress)


def count_files(tx: Transaction) -> tuple[int, int]:
    """The files that the index lists, and those that it has read."""
    row = tx.one("SELECT count(*), count(*) FILTER (WHERE status <> 'listed') FROM files")
    return (0, 0) if row is None else (integer(row[0]), integer(row[1]))


def _is_complete(tx: Transaction) -> bool:
    return tx.one("SELECT 1 FROM meta WHERE name = 'complete'") is not None


class CodeMaps:
    """A code map for each workspace. Use `open_code_maps`."""

    def __init__(
        self, cache: Path, list_files: ListFiles, clock: Clock, tasks: TaskGroup, indexes: AsyncExitStack
    ) -> None:
        self._cache = cache
        self._list_files = list_files
        self._clock = clock
        self._tasks = tasks
        self._indexes = indexes
        self._open: dict[str, WorkspaceCodeMap] = {}
        self._opening = anyio.Lock()

    async def at(self, root: str) -> WorkspaceCodeMap:
        """Return the code map of the workspace at the absolute path `root`; opening it builds nothing.

        Call it again each time: after its index was deleted, this returns one with an empty index.

        Raises:
            DatabaseError: its index can be neither opened nor made.
        """
        async with self._opening:
            path = index_path(self._cache, root)
            # Its index may be deleted at any time; an open one can no longer be written then.
            if root not in self._open or not await anyio.Path(path).exists():
                database = await self._indexes.enter_async_context(open_index(path, clock=self._clock))
                self._open[root] = WorkspaceCodeMap(root, database, self._list_files, self._clock, self._tasks)
            return self._open[root]

    def note_changed(self, paths: Iterable[str]) -> None:
        """Notify every open code map of changes by the agent at these absolute paths."""
        changed = list(paths)
        for code_map in self._open.values():
            code_map.note_changed(changed)


@asynccontextmanager
async def open_code_maps(cache: Path, list_files: ListFiles, clock: Clock) -> AsyncGenerator[CodeMaps, None]:
    """Open code maps with indexes below the directory `cache`. Leaving stops the reading; finished portions stay."""
    async with AsyncExitStack() as indexes, anyio.create_task_group() as tasks:
        try:
            yield CodeMaps(cache, list_files, clock, tasks, indexes)
        finally:
            tasks.cancel_scope.cancel()
