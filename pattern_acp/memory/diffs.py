"""Two versions of a text compared, by lines and by words.

Owns: the form of a comparison. Must not know: blocks, colours, Markdown.
"""

import difflib
import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import accumulate

from msgspec import Struct

from pattern_acp.memory.edits import Splice

_WORD = re.compile(r"\w+|\s+|[^\w\s]")

_LONGEST_BY_WORD = 4_000
"""Words of a changed passage up to which it is compared word by word: beyond, that takes seconds."""


_DEEPEST = 1_000_000
"""Stands for the indentation of an empty line, with which no item begins."""


class TextChange(StrEnum):
    """The change of a part of a text."""

    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


class DiffPart(Struct, frozen=True):
    """A part of the comparison."""

    change: TextChange
    text: str


def unified_diff(before: str, after: str, *, before_name: str, after_name: str, context: int = 3) -> str:
    """The lines that changed, in the unified format, without a line end at the end; empty when nothing did."""
    old, new = (text.split("\n") if text else [] for text in (before, after))
    lines = difflib.unified_diff(old, new, before_name, after_name, n=context, lineterm="")
    return "\n".join(lines)


def line_splices(before: str, after: str) -> tuple[Splice, ...]:
    """The lines that changed as splices of `before`.

    Lines that came or went among others like them are taken for those of whole items, which begin with the mark that
    stands farthest left, and not for the end of one item and the beginning of the next.
    """
    old, new = before.split("\n"), after.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in old)]
    splices: list[Splice] = []
    for old_start, old_end, new_start, new_end in _changed_runs(old, new):
        at, end = starts[old_start], starts[old_end]
        come = "".join(f"{line}\n" for line in new[new_start:new_end])
        if end <= len(before):
            splices.append(Splice(at, end - at, come))
        elif at > len(before):  # Behind the last line, which has no end so far.
            splices.append(Splice(len(before), 0, f"\n{come[:-1]}"))
        elif come or not at:
            splices.append(Splice(at, len(before) - at, come[:-1]))
        else:  # The last lines went, and with them the end of the line before.
            splices.append(Splice(at - 1, len(before) - at + 1, ""))
    return tuple(splices)


def word_diff(before: str, after: str) -> tuple[DiffPart, ...]:
    """Both texts as one: what stayed, what went, what came, in words and white space.

    Lines are compared first, so that a long text costs little when few of its lines changed.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    parts: list[DiffPart] = []
    for tag, old_start, old_end, new_start, new_end in _opcodes(old, new):
        gone, come = "".join(old[old_start:old_end]), "".join(new[new_start:new_end])
        if tag == "equal":
            parts.append(DiffPart(TextChange.SAME, gone))
        else:
            parts += _by_words(gone, come)
    return _joined(parts)


def mark_words(parts: tuple[DiffPart, ...]) -> str:
    """A comparison by words as plain text, in git's form: `[-gone-]` and `{+come+}`."""
    forms = {TextChange.SAME: "{}", TextChange.REMOVED: "[-{}-]", TextChange.ADDED: "{{+{}+}}"}
    return "".join(forms[part.change].format(part.text) for part in parts)


def _by_words(gone: str, come: str) -> list[DiffPart]:
    old, new = _WORD.findall(gone), _WORD.findall(come)
    if max(len(old), len(new)) > _LONGEST_BY_WORD:
        return [DiffPart(TextChange.REMOVED, gone), DiffPart(TextChange.ADDED, come)]
    parts: list[DiffPart] = []
    for tag, old_start, old_end, new_start, new_end in _opcodes(old, new):
        if tag == "equal":
            parts.append(DiffPart(TextChange.SAME, "".join(old[old_start:old_end])))
        else:
            parts.append(DiffPart(TextChange.REMOVED, "".join(old[old_start:old_end])))
            parts.append(DiffPart(TextChange.ADDED, "".join(new[new_start:new_end])))
    return parts


def _opcodes(old: list[str], new: list[str]) -> list[tuple[str, int, int, int, int]]:
    return list(difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes())


def _changed_runs(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """The lines of both that are not the same, with those that only came or only went moved to where items begin."""
    codes = _opcodes(old, new)
    free = 0  # The line from which on this change may begin: one that stays is left between two changes.
    for number, (tag, old_start, old_end, new_start, new_end) in enumerate(codes):
        if tag == "equal":
            continue
        shift = 0
        if tag != "replace":
            lines, start, end = (new, new_start, new_end) if tag == "insert" else (old, old_start, old_end)
            room = codes[number + 1][2] - old_end - (number + 2 < len(codes)) if number + 1 < len(codes) else 0
            shift = _to_an_item(lines, start, end, old_start - free, room)
        yield old_start + shift, old_end + shift, new_start + shift, new_end + shift
        free = old_end + shift + 1


def _to_an_item(lines: list[str], start: int, end: int, before: int, behind: int) -> int:
    """Distance by which the lines from `start` to before `end` move, through lines like them, to begin with an item."""
    first = 0
    while first > -before and lines[start + first - 1] == lines[end + first - 1]:
        first -= 1
    last = 0
    while last < behind and lines[start + last] == lines[end + last]:
        last += 1
    # The last of several such places: what is new in a list stands mostly at its end.
    return min(range(last, first - 1, -1), key=lambda shift: _indentation(lines[start + shift]))


def _indentation(line: str) -> int:
    if line.startswith("#"):
        return -1
    return len(line) - len(line.lstrip(" ")) if line else _DEEPEST


def _joined(parts: list[DiffPart]) -> tuple[DiffPart, ...]:
    joined: list[DiffPart] = []
    for part in parts:
        if not part.text:
            continue
        if joined and joined[-1].change is part.change:
            joined[-1] = DiffPart(part.change, joined[-1].text + part.text)
        else:
            joined.append(part)
    return tuple(joined)
