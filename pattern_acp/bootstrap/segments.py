"""Segments of a constellation: which tables they hold, and keeping them up to date while sessions are served.

Owns: the list of tables, and when it is time to write. Must not know: the form of a segment (db/segment_files.py,
journal/segment_export.py).
"""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.from_thread
import anyio.to_thread

from pattern_acp.db.connection import Database
from pattern_acp.db.segment_lines import LineTooLongError
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal.redact import newest_event
from pattern_acp.journal.segment_export import Exported, SegmentExporter, StateTables

logger = logging.getLogger(__name__)

TABLES = StateTables(
    by_row=(
        "sessions",
        "redactions",
        "file_contents",
        "grants",
        "usage",
        "mcp_pins",
        "cursors",
        "blocks",
        "block_updates",
        "block_archives",
        "archival_entries",
        "bound_entries",
    ),
    whole=("block_shares", "folder_trust", "memory_files"),
)
"""What segments hold besides events and their large payloads. Rows of the last three are deleted when they no longer
hold; of the others only forgetting deletes any, and that begins the segments anew."""

MADE_AGAIN = ("recalls", "repeats", "search_entries", "vectors")
"""Tables of state that segments do not hold: the search index is made from the texts, vectors in the background, and
how often a passage was recalled, and which repeats were told, is counted anew from the events."""


async def keep_segments(database: Database, pause: Callable[[], Awaitable[None]]) -> None:
    """Bring the segments up to date after each `pause` in which something was committed, until cancelled.

    A failure is logged once, and tried again after each pause.
    """
    exporter, tried, problem = SegmentExporter(database.path, TABLES), -1, ""
    while True:
        await pause()
        newest = await database.read(newest_event)
        if newest == tried:
            continue
        # Between two pages the thread sees that its task was cancelled.
        done, found = await _export(exporter)
        if found and found != problem:
            logger.warning("Segments of the constellation could not be written: %s", found)
        problem = found
        if done is not None:
            tried = newest


async def export_last(path: Path) -> None:
    """Bring the segments of the constellation at `path` up to date once; cancelling it leaves them behind."""
    _, problem = await _export(SegmentExporter(path, TABLES))
    if problem:
        logger.warning("The last segments of the constellation could not be written: %s", problem)


async def _export(exporter: SegmentExporter) -> tuple[Exported | None, str]:
    """What was written, None when another process does it, and what went wrong."""
    work = partial(exporter.export, anyio.from_thread.check_cancelled)
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True), ""
    except (DatabaseError, LineTooLongError, OSError) as error:
        return None, str(error)
