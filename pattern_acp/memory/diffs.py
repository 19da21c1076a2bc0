"""Versions of a text compared, by lines and by words, and three-way merges of them.

Owns: the form of a comparison, how texts merge, and what a conflict is: places where two writers changed the same
lines. Must not know: Loro, blocks, colours, Markdown. Loro merges such a double change too, but by putting both texts
one behind the other without a word (reference: memory, section 1.3); here it is known and marked.
"""

import json
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import accumulate
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.memory.edits import Splice

_WORD = late_pattern(r"\w+|\s+|[^\w\s]")

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


def unified_diff(before: str, after: str, *, before_name: str, after_name: str) -> str:
    """The lines that changed, in the unified format, without a line end at the end; empty when nothing did."""
    import difflib

    old, new = (text.split("\n") if text else [] for text in (before, after))
    lines = difflib.unified_diff(old, new, before_name, after_name, n=3, lineterm="")
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
    import difflib

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


_Region: TypeAlias = tuple[int, int, int, int, int, int]
"""Start and end of the same lines in base, theirs and ours."""


Side: TypeAlias = Literal["both", "theirs", "ours"]
"""Whose lines a merge has where two writers changed the same ones."""


class Conflict(Struct, frozen=True):
    """Lines that two writers made of the same ones. Both are in the text until someone repairs it."""

    theirs: str
    ours: str


class Merge(Struct, frozen=True):
    """A merged text, and the places where both writers changed the same lines."""

    text: str
    conflicts: tuple[Conflict, ...] = ()


def merge_texts(base: str, theirs: str, ours: str, side: Side = "both") -> Merge:
    """Merge `theirs` and `ours`, which were both made from `base`; `side` is whose lines it has where they conflict."""
    if theirs in {base, ours}:
        return Merge(ours)
    if ours == base:
        return Merge(theirs)
    texts = [text.split("\n") for text in (base, theirs, ours)]
    merged: list[str] = []
    conflicts: list[Conflict] = []
    base_at = their_at = our_at = 0
    for base_from, base_to, their_from, their_to, our_from, our_to in _same_everywhere(*texts):
        old = texts[0][base_at:base_from]
        lines, conflict = _merge_region(old, texts[1][their_at:their_from], texts[2][our_at:our_from])
        if conflict is not None:
            conflicts.append(conflict)
            lines = lines if side == "both" else (conflict.ours if side == "ours" else conflict.theirs).split("\n")
        merged += lines
        merged += texts[0][base_from:base_to]
        base_at, their_at, our_at = base_to, their_to, our_to
    return Merge("\n".join(merged), tuple(conflicts))


def open_conflicts(text: str, conflicts: Sequence[Conflict]) -> tuple[Conflict, ...]:
    """The conflicts that are still in `text`: those of which both sides are there, line by line."""
    if not conflicts:
        return ()
    lines = set(text.split("\n"))
    return tuple(
        conflict
        for conflict in conflicts
        if set(conflict.theirs.split("\n")) <= lines and set(conflict.ours.split("\n")) <= lines
    )


def encode_conflicts(conflicts: Sequence[Conflict]) -> str:
    """The JSON that is stored beside the text; empty for none."""
    if not conflicts:
        return ""
    return json.dumps([[conflict.theirs, conflict.ours] for conflict in conflicts], ensure_ascii=False)


def decode_conflicts(stored: str) -> tuple[Conflict, ...]:
    """The conflicts of a stored JSON. What cannot be read is none: the text itself holds both sides."""
    try:
        pairs = cast("object", json.loads(stored or "[]"))
    except ValueError:
        return ()
    items = cast("list[object]", pairs) if isinstance(pairs, list) else []
    found: list[Conflict] = []
    for item in items:
        match item:
            case [str(theirs), str(ours)]:
                found.append(Conflict(theirs, ours))
            case _:
                pass
    return tuple(found)


def _merge_region(base: list[str], theirs: list[str], ours: list[str]) -> tuple[list[str], Conflict | None]:
    if theirs in (base, ours):
        return ours, None
    if ours == base:
        return theirs, None
    if not base:
        # Both only added lines at the same place: nothing was lost, so nothing is in conflict.
        return [*theirs, *(line for line in ours if line not in theirs)], None
    for first, second in ((theirs, ours), (ours, theirs)):
        # One only added lines before or after those that the other changed.
        if first[: len(base)] == base:
            return [*second, *first[len(base) :]], None
        if first[-len(base) :] == base:
            return [*first[: -len(base)], *second], None
    both = [*theirs, *(line for line in ours if line not in theirs)]
    if not theirs or not ours:
        # One removed what the other changed; the change stays, and the one who removed it learns of it.
        return both, None
    return both, Conflict("\n".join(theirs), "\n".join(ours))


def _same_everywhere(base: list[str], theirs: list[str], ours: list[str]) -> list[_Region]:
    """The runs of lines that all three have, in order, ending with an empty run at the ends."""
    from difflib import SequenceMatcher

    their_blocks = SequenceMatcher(a=base, b=theirs, autojunk=False).get_matching_blocks()
    our_blocks = SequenceMatcher(a=base, b=ours, autojunk=False).get_matching_blocks()
    regions: list[_Region] = []
    their_index = our_index = 0
    while their_index < len(their_blocks) and our_index < len(our_blocks):
        base_a, their_from, length_a = their_blocks[their_index]
        base_b, our_from, length_b = our_blocks[our_index]
        start, end = max(base_a, base_b), min(base_a + length_a, base_b + length_b)
        if start < end:
            their_at, our_at = their_from + start - base_a, our_from + start - base_b
            size = end - start
            regions.append((start, end, their_at, their_at + size, our_at, our_at + size))
        if base_a + length_a < base_b + length_b:
            their_index += 1
        else:
            our_index += 1
    regions.append((len(base), len(base), len(theirs), len(theirs), len(ours), len(ours)))
    return regions


_SHOWN = 200
"""Characters of each side of a double change."""


def conflict_note(conflict: Conflict) -> str:
    """A double change in words."""
    theirs, ours = (side if len(side) <= _SHOWN else side[:_SHOWN] + "…" for side in (conflict.theirs, conflict.ours))
    return (
        f"Two writers changed the same lines at once, and both are in the text: “{theirs}” and “{ours}”. "
        f"Replace them by what is right."
    )
