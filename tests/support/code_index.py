"""An index of code over small sources, for tests of questions about code.

Owns: writing the sources and reading them into an index in this process. Must not know: what is asked of it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pattern_acp.codemap.indexing import read_file
from pattern_acp.codemap.model import IndexProgress, Judgement
from pattern_acp.codemap.recording import add_listed, record_files
from pattern_acp.codemap.store import open_index
from pattern_acp.db.connection import Database
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.clock import SystemClock
from pattern_acp.tools.base import CodeState
from pattern_acp.workspace.git import FileDiff

FoundT = TypeVar("FoundT")


@dataclass(slots=True)
class FakeCode:
    """`CodeAccess` over an index that a test has made, with a freshness that it says."""

    index: Database
    state: CodeState = field(default_factory=lambda: CodeState(Judgement("fresh", 1, 1)))
    told: tuple[IndexProgress, ...] = ()
    """Progress that every question tells."""
    changes: tuple[FileDiff, ...] = ()
    others: Mapping[str, Database] = field(default_factory=dict[str, Database])
    """Indexes of further roots."""
    asked: list[str] = field(default_factory=list[str])
    """The roots of all questions, in order."""
    changed: list[str] = field(default_factory=list[str])
    commands_ended: int = 0

    async def ask(
        self,
        root: str,
        question: Callable[[Transaction], FoundT],
        *,
        on_progress: Callable[[IndexProgress], Awaitable[None]],
        briefly: bool = False,
    ) -> tuple[FoundT | None, CodeState]:
        """See `CodeAccess.ask`."""
        del briefly
        self.asked.append(root)
        for progress in self.told:
            await on_progress(progress)
        return await self.others.get(root, self.index).read(question), self.state

    def note_changed(self, paths: Sequence[str]) -> None:
        """See `CodeAccess.note_changed`."""
        self.changed += paths

    def note_command_ended(self) -> None:
        """See `CodeAccess.note_command_ended`."""
        self.commands_ended += 1

    async def changed_files(self, root: str) -> tuple[FileDiff, ...]:
        """See `CodeAccess.changed_files`."""
        del root
        return self.changes


@asynccontextmanager
async def code_index(root: Path, sources: Mapping[str, str]) -> AsyncGenerator[Database, None]:
    """The index of `sources`, texts by path, which are written below `root`; the index lies beside that folder."""
    for path, text in sources.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    async with open_index(root.parent / f"{root.name}-index.db", clock=SystemClock()) as index:
        read = [file for file in (read_file(str(root), path) for path in sources) if file is not None]

        def record(tx: Transaction) -> None:
            add_listed(tx, sources)
            record_files(tx, str(root), [file for file in read if file.language])

        await index.write(record)
        yield index
