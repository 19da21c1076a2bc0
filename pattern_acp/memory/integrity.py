"""Checking what is stored of memory: one block against itself, and all of it for `doctor --verify`.

Owns: comparing a block's text with base, updates and archive, and the search index with the texts. Must not know: who
asks, or what follows from damage (`repair`). A block's own check is pure, so that a long history can be looked at in
another process.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.errors import DatabaseCorruptError
from pattern_acp.db.queries import load_queries
from pattern_acp.db.table_rows import columns_of
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.memory.block_loader import (
    OpenBlock,
    from_text,
    has_archive,
    load_history,
    open_block,
    read_row,
    text_hash,
)
from pattern_acp.memory.blocks import Block, Scope
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.errors import BlockCorruptError, HistoryCorruptError
from pattern_acp.memory.forget import every_block
from pattern_acp.memory.history import (
    READING_PEER,
    BlameSpan,
    StoredHistory,
    archived_document,
    based_document,
    blame,
    blame_by_replay,
    document_at,
    read_history,
)
from pattern_acp.memory.schemas.types import TextSchema


def problems_of(history: StoredHistory) -> tuple[str, ...]:
    """Contradictions, a clause each: the text with base, updates and archive, and two ways to tell who wrote it.

    Authors come from the ids of characters, and from replaying every write; both have to give the same.
    """
    problems = damaged_parts(history)
    if (
        not problems
        and isinstance(history.schema, TextSchema)
        and _known_to_replay(history) != blame_by_replay(history)
    ):
        return ("its ids and a replay disagree about who wrote its characters",)
    return problems


def damaged_parts(history: StoredHistory) -> tuple[str, ...]:
    """Those of base, updates and archive that do not give the text, or not its version, a clause each."""
    problems = (
        _base_problem(history),
        _problem("its updates", "give", history, lambda: document_at(history, history.head)),
        _archive_problem(history),
    )
    return tuple(problem for problem in problems if problem)


def _base_problem(history: StoredHistory) -> str:
    problem = _problem("its base", "gives", history, lambda: based_document(history))
    return problem or _snapshot_problem("its base", history, history.base, history.base_update)


def _archive_problem(history: StoredHistory) -> str:
    problem = _problem("its archive", "gives", history, lambda: archived_document(history))
    return problem or _snapshot_problem("its archive", history, history.archive, history.archive_upto)


def _problem(name: str, gives: str, history: StoredHistory, read: Callable[[], BlockDocument]) -> str:
    try:
        document = read()
    except BlockCorruptError as error:
        return f"{name} cannot be read ({error.problem})"
    if document.text != history.text:
        return f"{name} {gives} another text"
    return "" if document.frontiers == history.frontiers else f"{name} {gives} another version"


def _snapshot_problem(name: str, history: StoredHistory, snapshot: bytes, number: int) -> str:
    """Fault of a snapshot that should be that of write `number`; the updates after it may hide it."""
    alone = BlockDocument.load(history.label, [snapshot], peer=READING_PEER, schema=history.schema)
    if 1 <= number <= history.head and alone.frontiers == history.write(number).frontiers:
        return ""
    return f"{name} is not that of write {number}"


def _known_to_replay(history: StoredHistory) -> tuple[BlameSpan, ...]:
    """Authors by the ids of characters, as far as a replay can know them.

    After a forgetting it begins with the text that was left, so all that is older is one write to it.
    """
    spans: list[BlameSpan] = []
    for span in blame(history):
        number = max(span.number, history.history_from)
        start = spans.pop().start if spans and spans[-1].number == number else span.start
        spans.append(BlameSpan(start, span.end, number))
    return tuple(spans)


_QUERIES = load_queries("pattern_acp.memory")
_READING_PEER = 1


def damaged_blocks(tx: Transaction) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """Number of blocks, the labels of those that can be repaired, and a sentence for each that is lost.

    Those whose text is sound while their history is lost are not among them: `damaged_histories` has them.
    """
    owners = _owners(tx)
    mendable = [damage.block.key.label for damage in find_damage(tx, owners, peer=_READING_PEER)]
    rows = tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)})
    lost: list[str] = []
    for row in rows:
        try:
            opened = open_block(tx, row, peer=_READING_PEER)
        except HistoryCorruptError:
            continue
        except BlockCorruptError as error:
            lost.append(error.sentence)
            continue
        try:
            history = load_history(tx, opened.block)
        except BlockCorruptError:
            continue
        if text_hash(history.text) != text_hash(opened.block.text):
            lost.append(f"the history of {read_row(row)[0].key.label} ends in another text than the block has")
    return len(rows), tuple(mendable), tuple(lost)


def damaged_histories(
    tx: Transaction, *, peer: int = _READING_PEER
) -> tuple[tuple[OpenBlock, HistoryCorruptError], ...]:
    """The blocks whose text is sound, and whose older versions nothing that is stored gives; and what is wrong."""
    return lost_histories(tx, _owners(tx), peer=peer)


def _owners(tx: Transaction) -> list[tuple[Scope, str]]:
    return [(Scope(columns.text(row[0])), columns.text(row[1])) for row in tx.all(_QUERIES["block_owners"])]


def damaged_snapshots(tx: Transaction) -> Iterator[tuple[str, str]]:
    """The labels of blocks, also of those that are deleted, with what is wrong with base, updates or archive."""
    for block, _ in every_block(tx):
        try:
            problems = damaged_parts(read_history(tx, block))
        except BlockCorruptError as error:
            problems = (error.problem,)
        yield from ((block.key.label, problem) for problem in problems)


class StoredRows(Struct, frozen=True):
    """Every column of the rows of a block, by its name. In writes `data` is the SHA-256 of the update, or empty."""

    block: Mapping[str, SqlValue]
    writes: tuple[Mapping[str, SqlValue], ...]
    archive: Mapping[str, SqlValue] | None

    @property
    def id(self) -> str:
        """The block's id."""
        return columns.text(self.block["id"])

    @property
    def label(self) -> str:
        """The block's label."""
        return columns.text(self.block["label"])


def stored_rows(tx: Transaction, only: Collection[str] | None = None) -> Iterator[StoredRows]:
    """The rows of every block, or of those with the ids `only`, oldest first, one after the other."""
    for block in _named(tx, "blocks", tx.all(_QUERIES["all_of_blocks"])):
        if only is None or block["id"] in only:
            asked = {"block_id": block["id"]}
            writes = _named(tx, "block_updates", tx.all(_QUERIES["all_of_writes"], asked))
            archives = _named(tx, "block_archives", tx.all(_QUERIES["all_of_archive"], asked))
            hashed = ({**write, "data": _hashed(columns.data(write["data"]))} for write in writes)
            yield StoredRows(block, tuple(hashed), next(iter(archives), None))


def _named(tx: Transaction, table: str, rows: Sequence[Row]) -> list[dict[str, SqlValue]]:
    names = columns_of(tx, table)
    return [dict(zip(names, row, strict=True)) for row in rows]


def _hashed(update: bytes) -> str:
    return sha256_hex(update) if update else ""


def search_problem(tx: Transaction) -> str:
    """Fault of the search index; empty when it matches the stored texts. Needs a transaction that writes."""
    try:
        tx.execute(_QUERIES["check_search"])
    except DatabaseCorruptError:
        return "The search index is not that of the stored texts, so searches find too little."
    return ""


def rebuild_search(tx: Transaction) -> None:
    """Write the search index again from the stored texts."""
    tx.execute(_QUERIES["rebuild_search"])


class Damage(Struct, frozen=True):
    """A block of which stored parts are damaged while others are sound."""

    opened: OpenBlock

    @property
    def block(self) -> Block:
        """The block as the sound parts give it."""
        return self.opened.block


def find_damage(tx: Transaction, owners: Sequence[tuple[Scope, str]], *, peer: int) -> tuple[Damage, ...]:
    """The blocks of these owners that can be repaired; those of which nothing is sound are not among them.

    Nor are those whose text is sound while their history is lost: `lost_histories` has them.
    """
    found: list[Damage] = []
    for row in tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)}):
        try:
            opened = open_block(tx, row, peer=peer)
            hurt = opened.mended or text_hash(columns.text(row[6])) != row[7]
            if hurt or (not has_archive(tx, opened.block) and load_history(tx, opened.block)):
                found.append(Damage(opened))
        except BlockCorruptError:
            continue
    return tuple(found)


def lost_histories(
    tx: Transaction, owners: Sequence[tuple[Scope, str]], *, peer: int
) -> tuple[tuple[OpenBlock, HistoryCorruptError], ...]:
    """The blocks of these owners whose text is sound, and whose history nothing that is stored gives; and why.

    Of a block whose document is lost, too, it is a new one with the text.
    """
    found: list[tuple[OpenBlock, HistoryCorruptError]] = []
    for row in tx.all(_QUERIES["list_blocks"], {"owners": json.dumps(owners)}):
        with suppress(BlockCorruptError):
            try:
                opened = open_block(tx, row, peer=peer)
            except HistoryCorruptError as error:
                found.append((from_text(row, peer=peer), error))
                continue
            try:
                load_history(tx, opened.block)
            except BlockCorruptError as error:
                found.append((opened, HistoryCorruptError(opened.block.key.label, error.problem)))
    return tuple(found)


def heal(tx: Transaction, damage: Damage, *, seq: int) -> None:
    """Write the block's text, base and, where its history is whole, its archive again; its event is `seq`."""
    opened, block = damage.opened, damage.block
    tx.execute(
        _QUERIES["heal_block"],
        {
            "block_id": block.id,
            "text": block.text,
            "text_hash": text_hash(block.text),
            "base": opened.document.shallow_snapshot(),
            "frontiers": opened.document.frontiers,
            "number": block.head_update,
            "seq": seq,
        },
    )
    try:
        history = load_history(tx, block)
    except BlockCorruptError:
        # The text is sound again; `lost_histories` names the block.
        return
    archive = {"block_id": block.id, "upto": block.head_update, "snapshot": history.full_snapshot(), "seq": seq}
    tx.execute(_QUERIES["store_archive"], archive)
