"""Opening the constellation for a command of the terminal.

Owns: what is said when it is gone, and that what the command recorded is in segments too before it ends. Must not know:
what any command does.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.output import write_error
from pattern_acp.db.connection import Database, open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal.redact import newest_event
from pattern_acp.recovery.backups import lost_constellation

SEGMENT_SECONDS = 10.0
"""Longest that a command waits for its segments. Usually it is some milliseconds; after words were forgotten all are
written anew, and what is not written then is added by the next command or session."""


def constellation_path(process: Process) -> Path:
    """Where the constellation of the settings is."""
    return process.loaded.paths.constellation_path(process.loaded.settings.constellation)


def tell_if_lost(path: Path) -> None:
    """Say on standard error when there is no constellation though it can be had back."""
    if lost := lost_constellation(path, begun=False):
        write_error(f"pattern-acp: {lost}")


def refuse_if_lost(path: Path) -> None:
    """For a command that only reads: with what was recorded gone, it must not say that there is nothing.

    Raises:
        DatabaseError: the constellation is gone or empty, and how it can be had back.
    """
    if lost := lost_constellation(path, begun=False):
        raise DatabaseError(lost, failure_code="database.lost")


@asynccontextmanager
async def open_for_command(process: Process) -> AsyncGenerator[Database, None]:
    """Open the constellation for a command that may write; it is made when there is none.

    Raises:
        DatabaseError: it cannot be used.
    """
    path = constellation_path(process)
    tell_if_lost(path)
    async with open_database(path, clock=SystemClock()) as database:
        before = await database.read(newest_event)
        try:
            yield database
        finally:
            # A session would write them at some later time, and the disk may be lost before.
            if process.loaded.settings.backup.segments and await database.read(newest_event) != before:
                await write_segments(path)


async def write_segments(path: Path) -> None:
    """Have what a command recorded in segments before it ends."""
    from pattern_acp.recovery.segment_export import export_last

    with anyio.move_on_after(SEGMENT_SECONDS):
        await export_last(path)
