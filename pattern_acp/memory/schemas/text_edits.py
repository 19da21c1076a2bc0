"""What an edit makes of a text.

Owns: the edits that act on text, for text blocks, text sections, and the text form of everything else. Must not know:
schemas.
"""

from msgspec import Struct

from pattern_acp.memory.edits import Append, Operation, Patch, Replace, Rewrite, plan_edit, storable_text
from pattern_acp.memory.errors import PassageError, UnusableEditError
from pattern_acp.memory.freshness import marked
from pattern_acp.memory.merging import Conflict, merge_texts
from pattern_acp.memory.schemas.edits import ContentEdit, InsertAfter, RemoveItem, RewriteFrom, Verify
from pattern_acp.memory.schemas.values import ContentError

_NO_LIMIT = 10**9


class EditedText(Struct, frozen=True):
    """The text afterwards, what the edit is called, and the conflicts it leaves."""

    operation: Operation
    text: str
    conflicts: tuple[Conflict, ...] = ()


def edited_text(edit: ContentEdit, before: str, *, label: str) -> EditedText:
    """What `edit` makes of `before`.

    Raises:
        PassageError: the passage is not there exactly once.
        UnusableEditError: there is nothing to do, or characters cannot be stored.
        ContentError: the edit is none for a text.
    """
    match edit:
        case RewriteFrom(text, base):
            merge = merge_texts(base, before, storable_text(text, label=label))
            return EditedText(Operation.REWRITE, merge.text, merge.conflicts)
        case InsertAfter(passage, text):
            return EditedText(Operation.INSERT, _with_lines_after(before, passage, text, label))
        case RemoveItem(item):
            return EditedText(Operation.REMOVE, _without(before, item, label))
        case Verify(passage, command, now_ms):
            return EditedText(Operation.VERIFY, _verified(before, passage, label, command, now_ms))
        case Append() | Replace() | Rewrite() | Patch():
            planned = plan_edit(edit, before, label=label, limit=_NO_LIMIT)
            return EditedText(planned.operation, planned.text)
        case _:
            raise ContentError("", "it is free text; use append, replace, insert_after, remove or rewrite")


def _place(passage: str, before: str, label: str) -> tuple[int, int]:
    passage = storable_text(passage, label=label).strip("\n")
    if not passage:
        raise UnusableEditError(label, "say in `old_text` which passage is meant, exactly as it stands there.")
    count = before.count(passage)
    if count != 1:
        raise PassageError(label, count=count)
    start = before.index(passage)
    return start, start + len(passage)


def _with_lines_after(before: str, passage: str, text: str, label: str) -> str:
    added = storable_text(text, label=label).strip("\n")
    if not added.strip():
        raise UnusableEditError(label, "there is no text to insert; give the lines to add.")
    _, end = _place(passage, before, label)
    line_end = before.find("\n", end)
    at = len(before) if line_end < 0 else line_end
    return f"{before[:at]}\n{added}{before[at:]}"


def _verified(before: str, passage: str, label: str, command: str, now_ms: int) -> str:
    _, end = _place(passage, before, label)
    start = before.rfind("\n", 0, end) + 1
    line_end = before.find("\n", end)
    line_end = len(before) if line_end < 0 else line_end
    return before[:start] + marked(before[start:line_end], command, now_ms=now_ms) + before[line_end:]


def _without(before: str, passage: str, label: str) -> str:
    start, end = _place(passage, before, label)
    starts_line = start == 0 or before[start - 1] == "\n"
    if starts_line and before[end : end + 1] == "\n":
        # Whole lines go with their line end, so that no empty line stays.
        return before[:start] + before[end + 1 :]
    if starts_line and end == len(before) and start > 0:
        return before[: start - 1]
    return before[:start] + before[end:]
