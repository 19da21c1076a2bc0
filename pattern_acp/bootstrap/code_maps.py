"""The code maps of a process, as its sessions ask them.

Owns: opening them with the first question, how long a question waits for an index, and that a failure of an index ends
no session. Must not know: what is asked. `codemap` is imported with the first question.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec import Struct, field

from pattern_acp.domain.clock import Clock
from pattern_acp.domain.errors import DatabaseError, WorkspaceError, unwrap_exception_group
from pattern_acp.tools.base import CodeState

if TYPE_CHECKING:
    from pattern_acp.codemap.model import IndexProgress, Judgement
    from pattern_acp.codemap.service import CodeMaps, WorkspaceCodeMap
    from pattern_acp.db.transaction import Transaction
    from pattern_acp.workspace.git import FileDiff

logger = logging.getLogger(__name__)

FIRST_SECONDS = 5.0
"""Longest that the first question about a folder waits for its index to be built."""

BRIEF_SECONDS = 1.5
"""The same for a name, which is looked for by its text in three seconds more."""

NEXT_SECONDS = 2.0
"""Longest that a later question waits for what changed since."""

TELL_SECONDS = 0.4
"""Least time between two showings of progress."""

FoundT = TypeVar("FoundT")


class _Opened(Struct):
    """The indexes, once they are open; why they are not, when they could not be opened."""

    ready: anyio.Event = field(default_factory=anyio.Event)
    maps: "CodeMaps | None" = None
    problem: str = ""
    asked: "dict[str, WorkspaceCodeMap]" = field(default_factory=dict[str, "WorkspaceCodeMap"])
    """The code maps in use so far, by root."""


class ServedCode:
    """`tools.code_access.CodeAccess`. The indexes live in one task of `tasks`, from the first question on."""

    def __init__(self, tasks: TaskGroup, cache: Path, environment: Mapping[str, str], clock: Clock) -> None:
        self._tasks = tasks
        self._cache = cache
        self._environment = environment
        self._clock = clock
        self._opened: _Opened | None = None

    async def ask(
        self,
        root: str,
        question: "Callable[[Transaction], FoundT]",
        *,
        on_progress: "Callable[[IndexProgress], Awaitable[None]]",
        briefly: bool = False,
    ) -> tuple[FoundT | None, CodeState]:
        """See `CodeAccess.ask`."""
        opened = self._opened
        if opened is None:
            opened = self._opened = _Opened()
            self._tasks.start_soon(self._keep_open, opened, name="code maps")
        await opened.ready.wait()
        if opened.maps is None:
            raise WorkspaceError(f"The code map cannot be used: {opened.problem}", failure_code="codemap.unavailable")
        first = BRIEF_SECONDS if briefly else FIRST_SECONDS
        seconds = NEXT_SECONDS if root in opened.asked else first
        try:
            index = opened.asked[root] = await opened.maps.at(root)
            judgement = await _prepared(index, seconds, on_progress)
            found = await index.read(question)
        except DatabaseError as error:
            # An index that cannot be read must not end the turn, as a failure of the constellation does.
            raise WorkspaceError(
                f"The code map cannot be used: {error.sentence}", failure_code=error.failure_code
            ) from error
        return found, CodeState(judgement, building=index.is_refreshing)

    def note_changed(self, paths: Sequence[str]) -> None:
        """See `CodeAccess.note_changed`."""
        if self._opened is not None and self._opened.maps is not None:
            self._opened.maps.note_changed(paths)

    def note_command_ended(self) -> None:
        """See `CodeAccess.note_command_ended`."""
        if self._opened is not None and self._opened.maps is not None:
            for index in self._opened.asked.values():
                index.start_refresh()

    async def changed_files(self, root: str) -> "tuple[FileDiff, ...]":
        """See `CodeAccess.changed_files`."""
        from pattern_acp.workspace.git import changed_files

        return await changed_files(root, self._environment)

    async def _keep_open(self, opened: _Opened) -> None:
        from pattern_acp.bootstrap.source_files import list_source_files
        from pattern_acp.codemap.service import open_code_maps

        try:
            async with open_code_maps(self._cache, list_source_files, self._clock) as maps:
                opened.maps = maps
                opened.ready.set()
                await anyio.sleep_forever()
        except Exception:
            # The boundary of all indexes: sessions continue without them, and the next question opens them again.
            logger.exception("The code maps ended.")
            opened.problem = "it stopped unexpectedly; the log has details. Ask again, or use search_text."
        finally:
            opened.maps = None
            opened.ready.set()
            self._opened = None


async def _prepared(
    index: "WorkspaceCodeMap", seconds: float, on_progress: "Callable[[IndexProgress], Awaitable[None]]"
) -> "Judgement":
    """The index made as fresh as the time allows, with progress told meanwhile."""
    judged: list[Judgement] = []
    send, receive = anyio.create_memory_object_stream["IndexProgress"](1)

    def report(progress: "IndexProgress") -> None:
        with suppress(anyio.WouldBlock):
            send.send_nowait(progress)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_tell, receive, on_progress)
            with send:
                judged.append(await index.prepare(seconds, report))
    except BaseExceptionGroup as errors:
        raise unwrap_exception_group(errors) from errors
    return judged[0]


async def _tell(
    receive: "MemoryObjectReceiveStream[IndexProgress]", on_progress: "Callable[[IndexProgress], Awaitable[None]]"
) -> None:
    told_at = -TELL_SECONDS
    with receive:
        async for progress in receive:
            if anyio.current_time() - told_at >= TELL_SECONDS:
                told_at = anyio.current_time()
                await on_progress(progress)
