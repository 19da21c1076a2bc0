"""Writing segments: what was committed since, appended to files from which a destroyed constellation can be rebuilt.

Owns: which rows go into which line, and when a generation begins again. Must not know: what tables beyond its own mean,
or when it is time to write. Everything here blocks: call it on a worker thread.

A page is some events with all that follows from them. Its lines are, in this order: the rows of state that one of its
events changed last, the large payloads, and the events. The last event is what a later page continues behind, so that a
page of which the end was cut off is written again; rows that come twice are the same, or newer. The first line of a
segment names its columns and the schema. Rows that can be deleted without a trace in another are in tables that are
small, and are written as a whole whenever one of them changed.
"""

import logging
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import anyio
import anyio.from_thread
import anyio.to_thread
from msgspec import Struct

from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Database, FileReader, Row, Transaction, reading_file
from pattern_acp.db.migrate import load_migrations
from pattern_acp.db.queries import load_queries
from pattern_acp.db.segment_files import (
    SEGMENT_BYTES,
    LineTooLongError,
    SegmentPosition,
    SegmentWriter,
    Tail,
    encode_rows,
    generations,
    has_lines,
    next_generation,
    only_writer,
    read_header,
    read_tail,
    segments,
)
from pattern_acp.db.table_rows import all_rows, columns_of, rows_between
from pattern_acp.domain.canonical import Json, JsonObject, sha256_hex
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal.reader import newest_event

QUERIES = load_queries("pattern_acp.recovery")

logger = logging.getLogger(__name__)

FORM = 1
"""The form of segments that is written; a reader refuses a newer one."""

EVENTS, BLOBS = "events", "blobs"

FORGETTING = frozenset({"block_forgotten", "events_redacted"})
"""Events that take something out of rows which were written before."""

PAGE_EVENTS = 400
WHOLE_ROWS = 50
"""Rows of a table that is written as a whole, in one line."""

PAGE_BYTES = 4_000_000
"""Payloads of a page, which are in memory at once."""


class Exported(Struct, frozen=True):
    """The outcome of one export. `upto` is the newest event in the segments."""

    events: int
    upto: int
    generation: Path | None
    began: str = ""
    """Reason for a new generation: `first`, `schema`, `forgotten`, `swept` or `diverged`; empty when there is none."""


class StateTables(Struct, frozen=True):
    """The tables besides the events: those written row by row, and those written as a whole."""

    by_row: Sequence[str]
    whole: Sequence[str]


class _Page(Struct, frozen=True):
    blobs: list[Row]
    events: list[Row]
    upto: int
    forgets: int
    """The newest event that takes something out of earlier rows, 0 without one."""


class _Left(Struct, frozen=True):
    """The position where the last export ended, valid while no other process writes."""

    place: SegmentPosition
    header: JsonObject
    tail: Tail

    def is_end_of(self, generation: Path) -> bool:
        return self.place.is_unchanged and segments(generation)[-1:] == [self.place.segment]


class SegmentExporter:
    """Brings the segments of one constellation up to date, again and again."""

    def __init__(self, path: Path, tables: StateTables, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._path = path
        self._tables = tables
        self._segment_bytes = segment_bytes
        self._whole: dict[str, str] = {}
        self._left: _Left | None = None

    def export(self, between: Callable[[], object] = lambda: None) -> Exported | None:
        """Append the missing events; None when another process does it, or uses a newer schema.

        `between` is called after every page; an exception of it ends the writing, and the next call continues behind
        it.

        Raises:
            OSError: a segment cannot be written.
        """
        with only_writer(self._path) as locked:
            if not locked:
                return None
            with reading_file(self._path, is_lean=True) as file:
                if file.read(_schema) != load_migrations()[-1].version:
                    return None
                return self._export(file, between)

    def _export(self, file: FileReader, between: Callable[[], object]) -> Exported:
        columns = file.read(self._columns)
        current, tail, began = self._current(file, columns)
        watermark = tail.seq
        born = _number(current[1], "upto")
        count = 0
        writer = SegmentWriter(*current, segment_bytes=self._segment_bytes)
        try:
            while (
                page := file.read(partial(self._write_page, columns=columns, after=watermark, born=born, writer=writer))
            ).events:
                if page.forgets > born:
                    writer.close()
                    began = "forgotten" if file.read(_newest_words_forgotten) > born else "swept"
                    current = self._begin(file, columns, began)
                    watermark, born, count = 0, _number(current[1], "upto"), 0
                    writer = SegmentWriter(*current, segment_bytes=self._segment_bytes)
                    continue
                tail = Tail(page.upto, cast("tuple[Json, ...]", page.events[-1]))
                watermark, count = page.upto, count + len(page.events)
                between()
            if count or began:
                self._write_whole(file, columns, writer, watermark)
            self._left = _Left(writer.place, current[1], tail)
        finally:
            writer.close()
        self._drop_replaced(current[1])
        return Exported(count, watermark, current[0], began)

    def _current(
        self, file: FileReader, columns: dict[str, tuple[str, ...]]
    ) -> tuple[tuple[Path, JsonObject], Tail, str]:
        """The current generation and its header, its last event, and the reason if it was begun just now."""
        known = generations(self._path)
        while known and not has_lines(known[-1]):
            # Its first line did not fit on the disk. Otherwise, a full disk would get one more every few seconds.
            shutil.rmtree(known.pop())
        if not known:
            return self._begin(file, columns, "first"), Tail(), "first"
        if self._left is not None and self._left.is_end_of(known[-1]):
            header, tail = self._left.header, self._left.tail
        else:
            header, tail = read_header(known[-1]), read_tail(known[-1])
        if not header:
            return self._begin(file, columns, "diverged"), Tail(), "diverged"
        if header.get("segment") != FORM or header.get("schema") != load_migrations()[-1].version:
            return self._begin(file, columns, "schema"), Tail(), "schema"
        if tail.seq:
            place = columns[EVENTS].index("hash")
            row = file.read(lambda tx: tx.one(QUERIES["hash_of_event"], {"seq": tail.seq}))
            if row is None or len(tail.row) <= place or tail.row[place] != row[0]:
                return self._begin(file, columns, "diverged"), Tail(), "diverged"
        return (known[-1], header), tail, ""

    def _begin(self, file: FileReader, columns: dict[str, tuple[str, ...]], because: str) -> tuple[Path, JsonObject]:
        known = [each.name for each in generations(self._path)]
        replaced: list[Json] = [
            *(known if because == "forgotten" else known[-1:] if because in {"schema", "swept"} else ())
        ]
        newest = file.read(lambda tx: tx.one(QUERIES["newest_event"]))
        tables: JsonObject = {table: list(names) for table, names in columns.items()}
        header: JsonObject = {
            "segment": FORM,
            "schema": load_migrations()[-1].version,
            "because": because,
            "replaces": replaced,
            "upto": 0 if newest is None else integer(newest[0]),
            "tables": tables,
        }
        self._whole.clear()
        generation = next_generation(self._path)
        logger.info("the segments of the constellation begin again as %s: %s", generation.name, because)
        return generation, header

    def _columns(self, tx: Transaction) -> dict[str, tuple[str, ...]]:
        return {table: columns_of(tx, table) for table in (EVENTS, BLOBS, *self._tables.by_row, *self._tables.whole)}

    def _write_page(
        self, tx: Transaction, *, columns: dict[str, tuple[str, ...]], after: int, born: int, writer: SegmentWriter
    ) -> _Page:
        """Write the next page unless it takes something out of rows that were written before."""
        page = self._page(tx, columns=columns, after=after)
        if page.events and page.forgets <= born:
            writer.write(integer(page.events[0][0]), self._lines(tx, columns, after, page, writer))
        return page

    def _lines(
        self, tx: Transaction, columns: dict[str, tuple[str, ...]], after: int, page: _Page, writer: SegmentWriter
    ) -> Iterator[bytes]:
        for table in self._tables.by_row:
            # One at a time: an import is one event, and changed a row for each of those that it brought.
            for row in rows_between(tx, table, columns[table], after, page.upto):
                yield _row_line(table, row, writer)
        for row in page.blobs:
            yield _row_line(BLOBS, row, writer)
        for row in page.events:
            yield encode_rows(lambda values: {"e": values[0]}, [row], writer.keep)

    def _page(self, tx: Transaction, *, columns: dict[str, tuple[str, ...]], after: int) -> _Page:
        blobs: list[Row] = []
        upto, size, forgets = after, 0, 0
        for seq, kind, blob, length in tx.all(QUERIES["events_after"], {"after": after, "limit": PAGE_EVENTS}):
            upto, size = integer(seq), size + integer(length)
            if kind in FORGETTING:
                forgets = upto
            if blob is not None and (row := tx.one(QUERIES["read_blob"], {"hash": blob})) is not None:
                blobs.append(row)
                size += len(row[3]) if isinstance(row[3], bytes) else 0
            if size > PAGE_BYTES:
                break
        return _Page(blobs, _events(tx, columns[EVENTS], after, upto), upto, forgets)

    def _write_whole(
        self, file: FileReader, columns: dict[str, tuple[str, ...]], writer: SegmentWriter, watermark: int
    ) -> None:
        for table in self._tables.whole:
            rows = file.read(partial(all_rows, table=table, columns=columns[table]))
            lines = _whole_lines(table, rows, writer)
            digest = sha256_hex(b"".join(lines))
            if self._whole.get(table) != digest:
                writer.write(watermark + 1, lines)
                self._whole[table] = digest

    def _drop_replaced(self, header: JsonObject) -> None:
        """Delete the generations that this one, now complete, replaces."""
        replaced = header.get("replaces")
        for each in generations(self._path):
            if isinstance(replaced, list) and each.name in replaced:
                logger.info("the segments %s were rewritten and are deleted", each.name)
                shutil.rmtree(each)


def _events(tx: Transaction, columns: Sequence[str], after: int, upto: int) -> list[Row]:
    return list(rows_between(tx, EVENTS, columns, after, upto, by="seq"))


def _row_line(table: str, row: Row, writer: SegmentWriter) -> bytes:
    return encode_rows(lambda values: {"t": table, "r": values[0]}, [row], writer.keep)


def _whole_lines(table: str, rows: list[Row], writer: SegmentWriter) -> list[bytes]:
    lines: list[bytes] = []
    for first in range(0, max(1, len(rows)), WHOLE_ROWS):
        some = rows[first : first + WHOLE_ROWS]
        form = {"w": table} if not first else {"w": table, "after": first}
        lines.append(encode_rows(lambda values, form=form: {**form, "rows": values}, some, writer.keep))
    return lines


def _newest_words_forgotten(tx: Transaction) -> int:
    row = tx.one(QUERIES["newest_words_forgotten"])
    return 0 if row is None else integer(row[0])


def _schema(tx: Transaction) -> int:
    row = tx.one("PRAGMA user_version")
    return 0 if row is None else integer(row[0])


def _number(header: JsonObject, name: str) -> int:
    value = header.get(name)
    return value if isinstance(value, int) else 0


TABLES = StateTables(
    by_row=(
        "sessions",
        "redactions",
        "origins",
        "file_contents",
        "grants",
        "usage",
        "mcp_pins",
        "thinking_choices",
        "skill_uses",
        "definition_sources",
        "cursors",
        "blocks",
        "block_updates",
        "block_archives",
        "memory_forks",
        "forked_sessions",
        "forked_blocks",
        "archival_entries",
        "bound_entries",
        "task_lists",
        "task_updates",
        "tasks",
        "jobs",
        "job_holds",
    ),
    whole=("block_shares", "folder_trust", "memory_files", "task_edges", "task_files", "task_turns"),
)
"""The tables that segments contain besides events and their large payloads. Rows of the last six are deleted when
they no longer apply, or added; of the others only forgetting deletes any, and that begins the segments again."""

MADE_AGAIN = ("recalls", "repeats", "search_entries", "vectors")
"""Tables of state that segments do not contain: the search index is made from the texts, vectors in the background, and
the counts of recalls and repeats are counted again from the events."""


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
    """The export, None when another process runs it, and the problem."""
    work = partial(exporter.export, anyio.from_thread.check_cancelled)
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True), ""
    except (DatabaseError, LineTooLongError, OSError) as error:
        return None, str(error)
