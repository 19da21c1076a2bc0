"""Edits of a text block: what each means, on plain strings.

Owns: the rules of append, replace, rewrite and patch, and the checks before anything is stored. Must not know: Loro,
SQL.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeAlias, assert_never

from msgspec import Struct

from pattern_acp.memory.errors import LimitExceededError, PassageError, UnusableEditError


class Operation(StrEnum):
    """Names of what changes a block, as stored and journaled."""

    CREATE = "create"
    APPEND = "append"
    REPLACE = "replace"
    REWRITE = "rewrite"
    INSERT = "insert"
    SET = "set"
    ADD = "add"
    MOVE = "move"
    REMOVE = "remove"
    ARCHIVE = "archive"
    VERIFY = "verify"
    EDIT = "edit"
    UNDO = "undo"
    REDO = "redo"
    ROLLBACK = "rollback"
    DELETE = "delete"
    RESTORE = "restore"
    FORGET = "forget"


class Append(Struct, frozen=True):
    """Add `text` at the end, on a line of its own."""

    text: str


class Replace(Struct, frozen=True):
    """Put `text` instead of `passage`, which is in the block exactly once. An empty `text` removes it."""

    passage: str
    text: str


class Rewrite(Struct, frozen=True):
    """Make the block read `text`. Stored line by line, so that lines which stay keep their authors."""

    text: str
    operation: Operation = Operation.REWRITE


class Splice(Struct, frozen=True):
    """At code point `at`, `removed` code points go and `inserted` comes."""

    at: int
    removed: int
    inserted: str


class Patch(Struct, frozen=True):
    """A change worked out from the history of a block, such as an undo.

    The places of `splices` are those in the text before; they ascend and do not overlap.
    """

    operation: Operation
    splices: tuple[Splice, ...]


BlockEdit: TypeAlias = Append | Replace | Rewrite | Patch


class PlannedEdit(Struct, frozen=True):
    """An edit that is known to work: `text` afterwards, and the splices that lead there (None: line by line)."""

    operation: Operation
    text: str
    splices: tuple[Splice, ...] | None


def plan_edit(edit: BlockEdit, before: str, *, label: str, limit: int) -> PlannedEdit:
    """Work out what `edit` makes of a block that reads `before` and may hold `limit` characters.

    Raises:
        UnusableEditError: the edit is empty, changes nothing, or holds characters that cannot be stored.
        PassageError: the passage is not in the block exactly once.
        LimitExceededError: the result would be too long.
    """
    planned = _plan(edit, before, label)
    if planned.text == before:
        raise UnusableEditError(label, "it reads like that already.")
    # A block that is over its limit already (the limit was lowered) may still be made shorter.
    if len(planned.text) > limit and len(planned.text) >= len(before):
        raise LimitExceededError(label, current=len(before), limit=limit, wanted=len(planned.text))
    return planned


def apply_splices(splices: Sequence[Splice], text: str) -> str:
    """Apply `splices`, whose places are those in `text` and ascend."""
    pieces: list[str] = []
    done = 0
    for splice in splices:
        pieces += (text[done : splice.at], splice.inserted)
        done = splice.at + splice.removed
    return "".join((*pieces, text[done:]))


def storable_text(text: str, *, label: str) -> str:
    r"""Give `text` with every line end as `\n`, which is the one form that passages are compared in.

    Raises:
        UnusableEditError: it holds a NUL or half of a surrogate pair, which no UTF-8 document can hold.
    """
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise UnusableEditError(label, "the text holds a NUL or a broken character; leave it out and try again.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _plan(edit: BlockEdit, before: str, label: str) -> PlannedEdit:
    match edit:
        case Append(text):
            return _plan_append(storable_text(text, label=label), before, label)
        case Replace(passage, text):
            return _plan_replace(storable_text(passage, label=label), storable_text(text, label=label), before, label)
        case Rewrite(text, operation):
            return PlannedEdit(operation, storable_text(text, label=label), None)
        case Patch(operation, splices):
            return PlannedEdit(operation, apply_splices(splices, before), splices)
        case _:
            assert_never(edit)


def _plan_append(text: str, before: str, label: str) -> PlannedEdit:
    if not text.strip():
        raise UnusableEditError(label, "there is no text to append; give the lines to add.")
    inserted = text if not before or before.endswith("\n") else "\n" + text
    return PlannedEdit(Operation.APPEND, before + inserted, (Splice(len(before), 0, inserted),))


def own_lines(before: str, after: str) -> tuple[Splice, ...]:
    """The line ends that a passage lacks which was appended elsewhere to what `before` was made of too.

    Two that append to an empty text at once each begin its first line, so that both would be on one.
    """
    pairs = enumerate(zip(before, after, strict=False))
    start = next((at for at, (one, other) in pairs if one != other), len(before))
    size = len(after) - len(before)
    if size <= 0 or before[start:] != after[start + size :]:
        return ()
    if 0 < start < len(before) and "\n" not in {before[start - 1], before[start]}:
        return ()
    end = start + size
    starts_line = start == 0 or "\n" in {after[start - 1], after[start]}
    ends_line = end == len(after) or "\n" in {after[end - 1], after[end]}
    splices = (*(() if starts_line else (start,)), *(() if ends_line else (end,)))
    return tuple(Splice(at, 0, "\n") for at in splices)


def _plan_replace(passage: str, text: str, before: str, label: str) -> PlannedEdit:
    if not passage:
        raise UnusableEditError(label, "the passage to replace is empty; give it exactly as it is there.")
    count = _count_overlapping(passage, before)
    if count != 1:
        raise PassageError(label, count=count)
    start = before.index(passage)
    after = before[:start] + text + before[start + len(passage) :]
    return PlannedEdit(Operation.REPLACE, after, (_smallest_splice(start, passage, text),))


def _count_overlapping(passage: str, text: str) -> int:
    # str.count skips overlaps, and "aa" in "aaa" is not unique.
    count, start = 0, text.find(passage)
    while start >= 0:
        count, start = count + 1, text.find(passage, start + 1)
    return count


def _smallest_splice(start: int, passage: str, text: str) -> Splice:
    # Characters that stay keep their author and merge with edits made elsewhere at the same time.
    head = _common_length(passage, text)
    tail = _common_length(passage[head:][::-1], text[head:][::-1])
    return Splice(start + head, len(passage) - head - tail, text[head : len(text) - tail])


def _common_length(first: str, second: str) -> int:
    length = 0
    for one, other in zip(first, second, strict=False):
        if one != other:
            break
        length += 1
    return length


class RewriteFrom(Struct, frozen=True):
    """Make the block read `text`, as worked out by someone who saw it reading `base`.

    What others changed since stays; where both changed the same lines, both stay and are marked as a conflict.
    """

    text: str
    base: str


class InsertAfter(Struct, frozen=True):
    """Put `text` on lines of its own behind the line that `passage` ends in, or the item that it is."""

    passage: str
    text: str


class SetField(Struct, frozen=True):
    """Give a field of a map a value; an empty text takes the value away."""

    text: str


class AddItem(Struct, frozen=True):
    """Add an item to a list or log, an entry to a tree below the entry `under`, or an amount to a counter."""

    text: str
    under: str = ""


class MoveItem(Struct, frozen=True):
    """Move an item of a list behind the item `to`, or an entry of a tree below the entry `to`.

    An empty `to` is the beginning of the list, or the top of the tree.
    """

    item: str
    to: str


class RemoveItem(Struct, frozen=True):
    """Take out an item of a list, an entry of a tree with all below it, or a passage of a text."""

    item: str


class Verify(Struct, frozen=True):
    """Mark the line that holds `passage` as found true at `now_ms`; `command` is how to find out again."""

    passage: str
    command: str
    now_ms: int


ContentEdit: TypeAlias = BlockEdit | RewriteFrom | InsertAfter | SetField | AddItem | MoveItem | RemoveItem | Verify


class Within(Struct, frozen=True):
    """`edit` inside the section, field, or field of a section (`section.field`) that `place` names."""

    place: str
    edit: ContentEdit


AnyEdit: TypeAlias = ContentEdit | Within


class Authoring(Struct, frozen=True):
    """Who edits, and when, in seconds since 1970-01-01 UTC.

    `trusted` is the user or the program, who may write read-only fields and change entries of a log.
    """

    at: int = 0
    by: str = "agent"
    trusted: bool = False
