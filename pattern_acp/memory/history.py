"""The history of a block: its log, its versions, and what later work is done on.

Owns: what a write tells of itself, and how a version is made from what is stored. Must not know: the journal, and who
asks. A version is the number of the write that made it. Everything below `read_history` is pure, so that a long history
can be worked on in another process (`run_on_history`).
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import anyio.to_thread
from anyio import BrokenWorkerProcess
from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Database, Row, SqlValue, Transaction, read_file
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.errors import PatternError
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.diffs import line_splices
from pattern_acp.memory.document import EMPTY_FRONTIERS, BlockDocument, CharacterId, last_operations
from pattern_acp.memory.edits import Splice
from pattern_acp.memory.errors import BlockCorruptError, DocumentError, HistoryCorruptError, VersionError
from pattern_acp.memory.schemas.types import TEXT, BlockSchema, TextSchema

_QUERIES = load_queries("pattern_acp.memory")

READING_PEER = 1
"""Peer of documents that are only read: nothing is ever exported from them."""


MISSING_WRITES = 1_000
"""Writes that may be missing from a history that is still read as far as it goes."""

UNREADABLE = b"\0"
"""The update of a write that is missing: no document takes it."""


class Write(Struct, frozen=True):
    """One entry of a block's log: who wrote, when, from what, why, and what it did.

    `seq` is its event, `stream` the session whose journal holds that (or `constellation`), `target` the write that an
    undo or redo takes back or the version that a rollback went back to, `size` the characters afterwards. What was not
    counted when it was written is None.
    """

    number: int
    at_ms: int
    actor: Actor
    origin: Origin
    operation: str
    reason: str
    seq: int
    stream: str
    target: int | None
    size: int | None
    lines_added: int | None
    lines_removed: int | None
    title: str = ""
    """Title of the session, as far as it has one and is not deleted."""
    store: str = ""
    """The constellation that recorded it, where that is another one (docs/how-to/carry.md)."""
    store_seq: int = 0
    """The number of its event there."""


class WriteData(Struct, frozen=True):
    """Input for a history: one write with its update, which is empty where there is none."""

    number: int
    operation: str
    target: int | None
    update: bytes
    frontiers: bytes


class StoredHistory(Struct, frozen=True):
    """All that is stored of a block's history, as it was in one transaction."""

    label: str
    text: str
    head: int
    history_from: int
    writes: tuple[WriteData, ...]
    archive: bytes
    archive_upto: int
    schema: BlockSchema = TEXT
    base: bytes = b""
    base_update: int = 0
    frontiers: bytes = b""
    """Those of the block's row; empty where it was not read."""

    def write(self, number: int) -> WriteData:
        """One write. Raises VersionError where there is none with this number."""
        if not 1 <= number <= self.head:
            raise VersionError(self.label, f"its versions are 1 to {self.head}; give one of them.")
        return self.writes[number - 1]


def list_writes(tx: Transaction, block: Block, *, before: int | None = None, limit: int = 50) -> tuple[Write, ...]:
    """The log of a block, newest first: at most `limit` writes, those below the number `before`."""
    below = block.head_update + 1 if before is None else before
    rows = tx.all(_QUERIES["list_writes"], {"block_id": block.id, "before": below, "limit": limit})
    return tuple(_write(row) for row in rows)


def read_write(tx: Transaction, block: Block, number: int) -> Write:
    """One entry of the log.

    Raises:
        VersionError: the block has no such write.
        HistoryCorruptError: it is missing.
    """
    row = tx.one(_QUERIES["read_write"], {"block_id": block.id, "number": number})
    if row is None:
        if 1 <= number <= block.head_update:
            raise HistoryCorruptError(block.key.label, f"write {number} is missing")
        raise VersionError(block.key.label, f"its versions are 1 to {block.head_update}; give one of them.")
    return _write(row)


def newest_write(tx: Transaction, block: Block) -> Write:
    """The newest entry of the log; where it is missing, one that says so."""
    try:
        return read_write(tx, block, block.head_update)
    except HistoryCorruptError:
        missing = "Its row is missing; who wrote it is in the journal."
        return Write(
            number=block.head_update,
            at_ms=block.updated_ms,
            actor=Actor.SYSTEM,
            origin=Origin.MEMORY,
            operation="missing",
            reason=missing,
            seq=0,
            stream="",
            target=None,
            size=None,
            lines_added=None,
            lines_removed=None,
        )


def read_history(tx: Transaction, block: Block) -> StoredHistory:
    """Everything that is stored of the block's history up to `block` as it was read.

    A write that is missing is like one whose update is damaged.

    Raises:
        BlockCorruptError: more than `MISSING_WRITES` are.
    """
    rows = tx.all(_QUERIES["read_history"], {"block_id": block.id, "head": block.head_update})
    writes = _without_gaps(block, [_write_data(row) for row in rows])
    archive = tx.one(_QUERIES["read_archive"], {"block_id": block.id})
    if archive is not None and columns.integer(archive[1]) > block.head_update:
        # Made after the block was read; the updates hold all of it too.
        archive = None
    base = tx.one(_QUERIES["read_base"], {"block_id": block.id})
    return StoredHistory(
        label=block.key.label,
        text=block.text,
        head=block.head_update,
        history_from=block.history_from,
        writes=writes,
        archive=b"" if archive is None else columns.data(archive[0]),
        archive_upto=0 if archive is None else columns.integer(archive[1]),
        schema=block.schema,
        base=b"" if base is None else columns.data(base[0]),
        base_update=0 if base is None else columns.integer(base[1]),
        frontiers=b"" if base is None else columns.data(base[2]),
    )


def _without_gaps(block: Block, stored: Sequence[WriteData]) -> tuple[WriteData, ...]:
    known = {write.number: write for write in stored}
    # The row may count any number of them.
    if block.head_update - len(known) > MISSING_WRITES:
        raise BlockCorruptError(block.key.label, "writes are missing from its history")
    writes: list[WriteData] = []
    for number in range(1, block.head_update + 1):
        before = writes[-1].frontiers if writes else EMPTY_FRONTIERS
        writes.append(known.get(number) or WriteData(number, "", None, UNREADABLE, before))
    return tuple(writes)


def text_of_version(history: StoredHistory, number: int) -> str:
    """The text of the block as write `number` left it.

    Raises:
        VersionError: there is no such version, or its words were forgotten.
        BlockCorruptError: neither the updates nor the archive give it.
    """
    frontiers = history.write(number).frontiers
    _refuse_forgotten(history, number)
    if number == history.head:
        return history.text
    try:
        return document_at(history, number).text
    except BlockCorruptError:
        return archived_document(history).text_at(frontiers)


def document_at(history: StoredHistory, number: int) -> BlockDocument:
    """The document as write `number` left it, made from the updates alone.

    Raises:
        VersionError: its words were forgotten.
        BlockCorruptError: an update is damaged.
    """
    _refuse_forgotten(history, number)
    updates = [write.update for write in history.writes[history.history_from - 1 : number] if write.update]
    return BlockDocument.load(history.label, updates, peer=READING_PEER, schema=history.schema)


def archived_document(history: StoredHistory) -> BlockDocument:
    """The document of the newest version with its history, from the archive and the updates after it.

    Raises:
        BlockCorruptError: one of them is missing or damaged.
    """
    if not history.archive:
        raise BlockCorruptError(history.label, "it has no archive")
    return _document_after(history, history.archive, history.archive_upto)


def _document_after(history: StoredHistory, snapshot: bytes, number: int) -> BlockDocument:
    """The document of the newest version from the one that write `number` left, and the updates after it."""
    later = [write.update for write in history.writes[number:] if write.update]
    return BlockDocument.load(history.label, [snapshot, *later], peer=READING_PEER, schema=history.schema)


def based_document(history: StoredHistory) -> BlockDocument:
    """The document of the newest version, from the base and the updates after it.

    Raises:
        BlockCorruptError: one of them is damaged.
    """
    return _document_after(history, history.base, history.base_update)


def texts_of_all_versions(history: StoredHistory) -> Iterator[str]:
    """Every text that the block had since its words were last forgotten, oldest first.

    Raises:
        BlockCorruptError: an update is damaged.
    """
    document = document_at(history, history.history_from)
    yield document.text
    for write in history.writes[history.history_from :]:
        if write.update:
            document.merge(write.update)
            yield document.text


def whole_document(history: StoredHistory) -> BlockDocument:
    """The document of the newest version, from whichever source is sound. Raises BlockCorruptError where none is."""
    try:
        return archived_document(history)
    except BlockCorruptError:
        return document_at(history, history.head)


def changes_from(history: StoredHistory, number: int) -> tuple[str, tuple[tuple[Splice, ...], ...]]:
    """The text before write `number`, and what it and every later write changed, each in the text before itself.

    Raises:
        VersionError: its words were forgotten.
        BlockCorruptError: an update is damaged.
    """
    try:
        document = document_at(history, number - 1)
        before = document.text
        later = history.writes[number - 1 :]
        return before, tuple(_change(document, write.update) if write.update else () for write in later)
    except BlockCorruptError:
        # The archive may still have every version.
        return _archived_changes(history, number)


def _archived_changes(history: StoredHistory, number: int) -> tuple[str, tuple[tuple[Splice, ...], ...]]:
    archived = archived_document(history)
    texts = [archived.text_at(write.frontiers) for write in history.writes[number - 2 :]]
    return texts[0], tuple(line_splices(before, after) for before, after in pairwise(texts))


def _change(document: BlockDocument, update: bytes) -> tuple[Splice, ...]:
    if document.is_text:
        return document.merge_watched(update)
    # Content with a schema changes in its fields and items; what is followed is the text that it reads.
    before = document.text
    document.merge(update)
    return line_splices(before, document.text)


def _refuse_forgotten(history: StoredHistory, number: int) -> None:
    if number < history.history_from:
        problem = f"its words were forgotten with write {history.history_from}; only who wrote it and when is left."
        raise VersionError(history.label, problem)


def _write_data(row: Row) -> WriteData:
    return WriteData(
        number=columns.integer(row[0]),
        operation=columns.text(row[1]),
        target=_number(row[2]),
        update=columns.data(row[3]),
        frontiers=columns.data(row[4]),
    )


def _write(row: Row) -> Write:
    return Write(
        number=columns.integer(row[0]),
        at_ms=columns.integer(row[1]),
        actor=Actor(columns.text(row[2])),
        origin=Origin(columns.text(row[3])),
        operation=columns.text(row[4]),
        reason=columns.text(row[5]),
        seq=columns.integer(row[6]),
        stream=columns.text(row[7]),
        target=_number(row[8]),
        size=_number(row[9]),
        lines_added=_number(row[10]),
        lines_removed=_number(row[11]),
        title=columns.text(row[12]),
        store=columns.text(row[13]),
        store_seq=columns.integer(row[14]),
    )


def _number(value: SqlValue) -> int | None:
    return None if value is None else columns.integer(value)


class BlameSpan(Struct, frozen=True):
    """The characters from `start` to before `end` came with write `number`."""

    start: int
    end: int
    number: int


class LineBlame(Struct, frozen=True):
    """A line (1-based), without its end, and the newest write that put characters into it."""

    line: int
    text: str
    number: int


def blame(history: StoredHistory) -> tuple[BlameSpan, ...]:
    """The writes that the text as it reads now came from, span by span, without a gap.

    Raises:
        BlockCorruptError: the document cannot be made from what is stored.
    """
    authors = _authors_by_id(history)
    return _spans(_authors_by_replay(history) if authors is None else authors)


def blame_by_replay(history: StoredHistory) -> tuple[BlameSpan, ...]:
    """The same from the updates alone, which takes longer. Raises BlockCorruptError where an update is damaged."""
    return _spans(_authors_by_replay(history))


def blame_lines(history: StoredHistory) -> tuple[LineBlame, ...]:
    """The newest write in each line of the text as it reads now.

    A line end belongs to the line that it ends, but tells who wrote that line only where the line is empty: an append
    puts one behind the line before.

    Raises:
        BlockCorruptError: see `blame`.
    """
    numbers = [span.number for span in blame(history) for _ in range(span.start, span.end)]
    lines: list[LineBlame] = []
    at = 0
    for count, text in enumerate(history.text.split("\n"), start=1):
        own = numbers[at : at + len(text)] or numbers[at : at + 1] or numbers[-1:]
        at += len(text) + 1
        if text or at <= len(history.text):
            lines.append(LineBlame(count, text, max(own, default=history.head)))
    return tuple(lines)


def blame_range(history: StoredHistory, start: int, end: int) -> tuple[BlameSpan, ...]:
    """The writes of the characters from `start` to before `end`, cut to that range.

    Raises:
        BlockCorruptError: see `blame`.
    """
    return tuple(
        BlameSpan(max(span.start, start), min(span.end, end), span.number)
        for span in blame(history)
        if span.start < end and span.end > start
    )


def _authors_by_id(history: StoredHistory) -> list[int] | None:
    if not isinstance(history.schema, TextSchema):
        return None
    ends: dict[int, list[tuple[int, int]]] = {}
    for write in history.writes:
        if write.frontiers == EMPTY_FRONTIERS:
            continue
        try:
            for peer, operation in last_operations(history.label, write.frontiers):
                ends.setdefault(peer, []).append((operation, write.number))
        except DocumentError:
            return None
    for of_peer in ends.values():
        of_peer.sort()
    authors = [_author(ends, one) for one in whole_document(history).character_ids()]
    return None if 0 in authors else authors


def _author(ends: dict[int, list[tuple[int, int]]], character: CharacterId) -> int:
    of_peer = ends.get(character[0], [])
    at = bisect_left(of_peer, (character[1], 0))
    return of_peer[at][1] if at < len(of_peer) else 0


def _authors_by_replay(history: StoredHistory) -> list[int]:
    first = history.history_from
    text, changes = changes_from(history, first + 1)
    authors = [first] * len(text)
    for number, change in enumerate(changes, start=first + 1):
        for splice in reversed(change):
            authors[splice.at : splice.at + splice.removed] = [number] * len(splice.inserted)
    return authors


def _spans(authors: list[int]) -> tuple[BlameSpan, ...]:
    spans: list[BlameSpan] = []
    at = 0
    for number, group in groupby(authors):
        end = at + len(list(group))
        spans.append(BlameSpan(at, end, number))
        at = end
    return tuple(spans)


_LOGGER = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

WORKER_WRITES = 10_000
"""Writes above which a history is worked on in another process: up to here it takes about 0.2 s, in steps of 20 µs
between which other threads run; starting a process costs about as much."""


class _Failure(Struct, frozen=True):
    """An error on its way between processes: ours take other arguments than pickle would give them."""

    kind: type[PatternError]
    message: str
    fields: dict[str, object]


async def run_on_history(
    database: Database,
    block: Block,
    work: Callable[Concatenate[StoredHistory, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Run `work(history, …)` on the history of `block` up to the version that was read.

    `work` must be pure and can be pickled: a function of a module, or a `functools.partial` of one.

    Raises:
        BlockError: what `work` raises, or the history is damaged. The text of `block` was read, so it is sound.
    """
    try:
        if block.head_update > WORKER_WRITES:
            try:
                return await _in_process(database.path, block, work, args, kwargs)
            except BrokenWorkerProcess:
                _LOGGER.warning("A history could not be read in a process of its own; it is read here.", exc_info=True)
        history = await database.read(lambda tx: read_history(tx, block))
        return await anyio.to_thread.run_sync(lambda: work(history, *args, **kwargs))
    except BlockCorruptError as error:
        raise HistoryCorruptError(block.key.label, error.problem) from error


async def _in_process(
    path: Path, block: Block, work: Callable[..., T], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> T:
    # Late: most sessions ask for no history.
    import anyio.to_process

    outcome = await anyio.to_process.run_sync(_attempt, path, block, work, args, kwargs, cancellable=True)
    if isinstance(outcome, _Failure):
        error = outcome.kind.__new__(outcome.kind, outcome.message)
        error.__dict__.update(outcome.fields)
        raise error
    return outcome


def _attempt(
    path: Path, block: Block, work: Callable[..., T], args: tuple[object, ...], kwargs: Mapping[str, object]
) -> T | _Failure:
    """Runs in the other process."""
    try:
        history = read_file(path, lambda tx: read_history(tx, block))
        return work(history, *args, **kwargs)
    except PatternError as error:
        return _Failure(type(error), str(error), dict(error.__dict__))
