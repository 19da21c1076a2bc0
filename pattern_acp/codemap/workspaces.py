"""The code maps of all workspaces that this process has sessions in.

Owns: opening each at its first use, once, and closing them all. Must not know: sessions.
"""

from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from pattern_acp.codemap.model import ListFiles
from pattern_acp.codemap.service import CodeMap
from pattern_acp.codemap.store import index_path, open_index
from pattern_acp.domain.clock import Clock


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
        self._open: dict[str, CodeMap] = {}
        self._opening = anyio.Lock()

    async def at(self, root: str) -> CodeMap:
        """The code map of the workspace at the absolute path `root`; opening it builds nothing.

        Ask for it anew each time: when its index was deleted meanwhile, this gives one with an empty index.

        Raises:
            DatabaseError: its index can be neither opened nor made.
        """
        async with self._opening:
            path = index_path(self._cache, root)
            # Its index may be deleted at any time; what is open then can no longer be written.
            if root not in self._open or not await anyio.Path(path).exists():
                database = await self._indexes.enter_async_context(open_index(path, clock=self._clock))
                self._open[root] = CodeMap(root, database, self._list_files, self._clock, self._tasks)
            return self._open[root]

    def note_changed(self, paths: Iterable[str]) -> None:
        """Tell every open code map that the agent changed files at these absolute paths; see `CodeMap.note_changed`."""
        changed = list(paths)
        for code_map in self._open.values():
            code_map.note_changed(changed)


@asynccontextmanager
async def open_code_maps(cache: Path, list_files: ListFiles, clock: Clock) -> AsyncGenerator[CodeMaps, None]:
    """Code maps whose indexes lie below the directory `cache`. Leaving ends what is being read; what it wrote stays."""
    async with AsyncExitStack() as indexes, anyio.create_task_group() as tasks:
        try:
            yield CodeMaps(cache, list_files, clock, tasks, indexes)
        finally:
            tasks.cancel_scope.cancel()
