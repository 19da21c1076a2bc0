"""Three-way merges of texts by lines, with the places where two writers changed the same lines.

Owns: how texts merge and what a conflict is. Must not know: Loro, blocks. Loro merges such a double change too, but by
putting both texts one behind the other without a word (reference: memory, section 1.3); here it is known and marked.
"""

import json
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Literal, TypeAlias, cast

from msgspec import Struct

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
