"""Opens the file of the constellation that the settings name.

Owns: which file that is, and what is known of one that was lost. Must not know: what sessions do with it, or anything
that takes long to import: the rest of the program is imported while the file is opened (`services`).
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec import Struct

from pattern_acp.bootstrap.process import Process
from pattern_acp.db.connection import Database, open_database
from pattern_acp.db.driver import BUSY_BUDGET_SECONDS
from pattern_acp.domain.clock import SystemClock


class OpenedConstellation(Struct, frozen=True):
    """The constellation's file."""

    database: Database
    lost: str
    """A report on an older file that is missing; empty when nothing is amiss."""


@asynccontextmanager
async def open_file(process: Process) -> AsyncGenerator[OpenedConstellation, None]:
    """Open the constellation's file; it is closed when the context ends.

    Raises:
        OSError: its folder cannot be looked at.
    """
    path = process.constellation_path
    lost = await anyio.to_thread.run_sync(_what_was_lost, path)
    busy_seconds = BUSY_BUDGET_SECONDS if process.busy_seconds is None else process.busy_seconds
    async with open_database(path, clock=SystemClock(), busy_seconds=busy_seconds) as database:
        yield OpenedConstellation(database, lost)


def _what_was_lost(path: Path) -> str:
    if not path.parent.is_dir() or (path.exists() and path.stat().st_size):
        return ""
    # Late: only a file that is missing where others were is looked for among backups.
    from pattern_acp.recovery.backups import lost_constellation

    return lost_constellation(path)
