"""A constellation for tests: a real database in a temporary folder, and a clock that tests turn themselves.

Owns: nothing that outlives its block. Must not know: what a test stores in it.
"""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pattern_acp.db.connection import Database, open_database


class FakeClock:
    """A `Clock` that moves only when told to."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms
        self._start_ms = now_ms

    def now_ms(self) -> int:
        """See `Clock.now_ms`."""
        return self._now_ms

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return (self._now_ms - self._start_ms) / 1000

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self._now_ms += milliseconds


@dataclass(frozen=True, slots=True)
class Constellation:
    """An open database, its file and its clock."""

    database: Database
    path: Path
    clock: FakeClock


@asynccontextmanager
async def temporary_constellation() -> AsyncGenerator[Constellation, None]:
    """An empty constellation that is deleted at the end."""
    clock = FakeClock()
    with tempfile.TemporaryDirectory(prefix="pattern-acp-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "constellation.db"
        async with open_database(path, clock=clock) as database:
            yield Constellation(database, path, clock)
