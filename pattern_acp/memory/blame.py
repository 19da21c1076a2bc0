"""Who wrote each character and each line of a block.

Owns: finding the write that a character came from. Must not know: what is shown of that write.

Each character keeps the id of the operation that inserted it, and each write is the operations of one peer up to the
one that its frontiers name, so the write of a character is the first of its peer that ends at or after it. Where that
gives nothing (content with a schema, frontiers of a form that is not known), the updates are replayed one by one, with
the same result.
"""

from bisect import bisect_left
from itertools import groupby

from msgspec import Struct

from pattern_acp.memory.document import EMPTY_FRONTIERS, CharacterId, last_operation
from pattern_acp.memory.errors import DocumentError
from pattern_acp.memory.history import StoredHistory, changes_from, whole_document
from pattern_acp.memory.schemas.types import TextSchema


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
    """The same from the updates alone, which takes longer.

    Raises:
        BlockCorruptError: an update is damaged.
    """
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
            last = last_operation(history.label, write.frontiers)
        except DocumentError:
            return None
        if last is None:
            return None
        ends.setdefault(last[0], []).append((last[1], write.number))
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
