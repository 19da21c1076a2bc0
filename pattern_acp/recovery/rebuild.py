"""Rebuilding a constellation from one generation of segments, with a report of what was missing or damaged.

Owns: the order in which lines become rows, and what happens to rows whose event is missing. Must not know: what tables
beyond its own mean; the search index, which is made from the texts afterwards by a caller. Everything here blocks.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct, field

from pattern_acp.db.backup import COMPANIONS, FOLDER, check_copy, put_in_place
from pattern_acp.db.columns import integer
from pattern_acp.db.connection import Row, Transaction, make_file, read_file
from pattern_acp.db.migrate import load_migrations
from pattern_acp.db.queries import load_queries
from pattern_acp.db.segment_files import (
    SegmentDamageError,
    SegmentReading,
    decode_row,
    generations,
    read_header,
    read_lines,
    read_tail,
    read_value,
    segments,
)
from pattern_acp.db.table_rows import clear_table, columns_of, count_rows, mend_references, put_rows
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal.codec import SegmentsError
from pattern_acp.journal.sessions import every_session
from pattern_acp.memory.indexing import count_blocks, index_memory
from pattern_acp.memory.service.recall_counts import count_again
from pattern_acp.recovery.backups import stamp
from pattern_acp.recovery.checks import Finding, Health, check_rows
from pattern_acp.recovery.segment_export import BLOBS, EVENTS, FORM, TABLES, StateTables
from pattern_acp.session.session_row_rebuild import mend_rows
from pattern_acp.session.stored import index_all
from pattern_acp.tasks.store import index_tasks

QUERIES = load_queries("pattern_acp.recovery")

_ROWS_AT_ONCE = 500


class Rebuilt(Struct):
    """The outcome of loading a generation."""

    events: int = 0
    rows: int = 0
    """State rows after the rebuild."""
    upto: int = 0
    """Number of the newest event."""
    at_ms: int = 0
    """The time of that event, in ms."""
    torn: int = 0
    """Lines that were cut off when they were written, which a crash explains."""
    damaged: tuple[str, ...] = ()
    """Locations of lines and files with unexplained damage."""
    missing_payloads: int = 0
    """Events whose large payload is gone; verifying their chains names them."""
    moved: int = 0
    """Rows whose event is missing; they count as changed by the event before."""
    dropped: int = 0
    """Rows that referred to something that is missing."""


class _Loading(Struct):
    tx: Transaction
    generation: Path
    allowed: dict[str, tuple[str, ...]]
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    waiting: list[Row] = field(default_factory=list[Row])
    table: str = ""

    def begin(self, header: JsonObject) -> None:
        """Take the columns of the lines that follow from the first line of a segment."""
        tables = header.get("tables")
        if not isinstance(tables, dict):
            return
        self.flush()
        for table, names in tables.items():
            if table in self.allowed and isinstance(names, list):
                found = tuple(str(name) for name in names)
                if set(found) <= set(self.allowed[table]):
                    self.columns[table] = found

    def put(self, table: str, row: Json) -> None:
        """Add a row, now or with the next ones."""
        if table not in self.columns:
            raise SegmentDamageError(f"a row is of {table[:40]!r}, which its segment does not describe")
        decoded = decode_row(row, partial(read_value, self.generation))
        if len(decoded) != len(self.columns[table]):
            raise SegmentDamageError("a row has not the columns of its table")
        if table != self.table or len(self.waiting) >= _ROWS_AT_ONCE:
            self.flush()
        self.table = table
        self.waiting.append(decoded)

    def flush(self) -> None:
        """Add the pending rows."""
        if self.waiting:
            put_rows(self.tx, self.table, self.columns[self.table], self.waiting, replace=self.table != EVENTS)
        self.waiting = []


def newest_schema(generation: Path) -> int:
    """The schema version that a generation was written with; the newest one when damage took every line that says it.

    Raises:
        SegmentsError: it has no sound segment, or a newer pattern-acp wrote it.
        OSError: it cannot be read.
    """
    header = read_header(generation)
    if not header and segments(generation):
        return load_migrations()[-1].version
    form, schema = header.get("segment"), header.get("schema")
    if not isinstance(form, int) or not isinstance(schema, int):
        raise SegmentsError(f"There is no segment in {generation} that can be read.")
    if form > FORM or schema > load_migrations()[-1].version:
        raise SegmentsError(f"The segments in {generation} are of a newer pattern-acp; upgrade this one.")
    return schema


def rebuild(
    generation: Path,
    target: Path,
    tables: StateTables,
    finish: Callable[[Transaction], object],
    *,
    now_ms: int,
    progress: Callable[[int, int], object] = lambda _done, _of: None,
) -> Rebuilt:
    """Make the new constellation `target` from a generation; `finish` adds what segments do not hold.

    `progress` is called before each segment with the number of segments read and their total.

    Raises:
        SegmentsError: nothing in it can be used.
        DatabaseError: `target` cannot be written.
        OSError: a segment cannot be read.
    """
    schema = newest_schema(generation)
    reading = SegmentReading()

    def fill(tx: Transaction) -> Rebuilt:
        tx.execute("PRAGMA defer_foreign_keys = ON")
        _load(tx, generation, tables, reading, progress)
        return _mend(tx, tables)

    rebuilt = make_file(target, schema, fill, finish, now_ms=now_ms)
    if not rebuilt.events:
        for ending in ("", *COMPANIONS):
            target.with_name(target.name + ending).unlink(missing_ok=True)
        raise SegmentsError(f"There is no event in {generation} that can be read.")
    rebuilt.torn, rebuilt.damaged = reading.torn, tuple(reading.damaged)
    return rebuilt


def _load(
    tx: Transaction,
    generation: Path,
    tables: StateTables,
    reading: SegmentReading,
    progress: Callable[[int, int], object],
) -> None:
    allowed = {table: columns_of(tx, table) for table in (EVENTS, BLOBS, *tables.by_row, *tables.whole)}
    # A segment that lost its first line is read as the others are; one that stands alone, as it would be written now.
    loading = _Loading(tx, generation, allowed, {table: names for table, names in allowed.items() if names})
    loading.begin(read_header(generation))
    every = segments(generation)
    for done, segment in enumerate(every):
        progress(done, len(every))
        for number, line in enumerate(read_lines(segment, reading)):
            try:
                _take(loading, line)
            except SegmentDamageError as error:
                reading.damaged.append(f"{segment.name}, line {number + 1}: {error}")
    loading.flush()


def _take(loading: _Loading, line: JsonObject) -> None:
    match line:
        case {"segment": int()}:
            loading.begin(line)
        case {"e": row}:
            loading.put(EVENTS, row)
        case {"t": str(table), "r": row}:
            loading.put(table, row)
        case {"w": str(table), "rows": list(rows)} if table in loading.columns:
            loading.flush()
            if "after" not in line:
                clear_table(loading.tx, table)
            for row in rows:
                loading.put(table, row)
        case _:
            raise SegmentDamageError("a line says nothing that is known")


def _mend(tx: Transaction, tables: StateTables) -> Rebuilt:
    found = Rebuilt()
    found.missing_payloads = tx.execute(QUERIES["stand_in_for_blobs"])
    # A file of an older schema has not all of them.
    state = [table for table in (*tables.by_row, *tables.whole) if columns_of(tx, table)]
    while True:
        outcomes = [mend_references(tx, table) for table in state]
        found.moved += sum(moved for moved, _ in outcomes)
        gone = sum(gone for _, gone in outcomes)
        found.dropped += gone
        if not gone:
            break
    row = tx.one(QUERIES["newest_event_time"])
    if row is not None:
        found.events, found.upto, found.at_ms = integer(row[0]), integer(row[1]), integer(row[2])
    found.rows = sum(count_rows(tx, table) for table in state)
    return found


Progress: TypeAlias = Callable[[str, int, int], object]
"""Receives the current step, the amount done, and the total."""


def _silent(_what: str, _done: int, _of: int) -> None:
    pass


class RebuildReport(Struct, frozen=True):
    """The rebuilt content, its generation, what is damaged in it, and its size."""

    generation: str
    rebuilt: Rebuilt
    sessions: int
    blocks: int
    problems: tuple[str, ...]
    longer: tuple[str, ...]
    """Other generations that go further than this one."""


def rebuild_into(path: Path, target: Path, *, number: int, now_ms: int, progress: Progress = _silent) -> RebuildReport:
    """Make the new file `target` from the segments of the constellation at `path`, and check it from end to end.

    `number` is that of the generation, 0 for the newest. Neither the constellation nor a segment is changed. `progress`
    receives the current step, the amount done, and the total.

    Raises:
        SegmentsError: there is no such generation, or nothing in it can be used.
        DatabaseError: `target` is there already, or cannot be written.
        OSError: a segment cannot be read.
    """
    if target.exists():
        raise DatabaseError(f"{target} exists already; choose another name.")
    known = generations(path)
    chosen = next((each for each in reversed(known) if number in {0, int(each.name)}), None)
    if chosen is None:
        which = f" number {number}" if number else ""
        raise SegmentsError(f"There are no segments{which} of {path}; `pattern-acp restore --latest` goes to a backup.")
    reading = partial(progress, "reading segments")
    try:
        rebuilt = rebuild(chosen, target, TABLES, partial(_finish, progress=progress), now_ms=now_ms, progress=reading)
        progress("checking what was rebuilt", 0, 1)
        findings, (sessions, blocks) = read_file(target, check_rows), read_file(target, _counts)
    except BaseException:
        # Half of it must not be taken for a constellation, nor be in the way of the next attempt.
        for ending in ("", *COMPANIONS):
            target.with_name(target.name + ending).unlink(missing_ok=True)
        raise
    tails = {each.name: read_tail(each).seq for each in known if each != chosen}
    return RebuildReport(
        chosen.name,
        rebuilt,
        sessions,
        blocks,
        tuple(_sentence(one) for one in findings if one.health is Health.BROKEN),
        tuple(name for name, seq in tails.items() if seq > rebuilt.upto),
    )


def take_place(path: Path, rebuilt: Path, *, now_ms: int) -> Path | None:
    """Put a rebuilt file instead of the constellation at `path`; the folder of the previous files, if any.

    Raises:
        DatabaseError: another process has it open, or a file cannot be written.
    """
    check_copy(rebuilt)
    safety = path.parent / FOLDER / f"before-rebuild-{stamp(now_ms)}"
    put_in_place(rebuilt, path, safety=safety)
    return safety if safety.exists() else None


def _finish(tx: Transaction, progress: Progress) -> None:
    # Where the end is missing, rows may be ahead of their events (rule R1).
    mend_rows(tx, partial(progress, "comparing sessions"))
    index_memory(tx)
    index_tasks(tx)
    count_again(tx)
    index_all(tx, partial(progress, "indexing sessions"))


def _counts(tx: Transaction) -> tuple[int, int]:
    sessions = sum(not deleted for _, _, deleted in every_session(tx))
    return sessions, count_blocks(tx)


def _sentence(finding: Finding) -> str:
    return f"{finding.name}: {finding.detail}"
