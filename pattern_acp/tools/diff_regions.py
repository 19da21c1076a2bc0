"""The changed places of a large file: all that journal and editor are given of it.

Owns: finding them in time that grows with the file's length only, whatever was changed. Must not know: files, the wire.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

CONTEXT_LINES = 20
"""Unchanged lines shown at either side of a place."""


class Region(Struct, frozen=True):
    """One changed place with its surroundings: lines as they were and are; `line` is 1-based, in the new text."""

    old: str
    new: str
    line: int


class _Run(Struct, frozen=True):
    """Lines `old_from` to `old_to` became lines `new_from` to `new_to`, ends left out."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


def changed_regions(old: str, new: str) -> list[Region]:
    """The changed places in their order; those whose surroundings meet are one."""
    if old == new:
        return []
    start, old_end, new_end = _bounds(old, new)
    before, after = _lines(old[start:old_end]), _lines(new[start:new_end])
    first = new.count("\n", 0, start) + 1
    regions: list[Region] = []
    for run in _merged(_runs(before, after)):
        above = min(CONTEXT_LINES, run.old_from, run.new_from)
        below = min(CONTEXT_LINES, len(before) - run.old_to, len(after) - run.new_to)
        was = before[run.old_from - above : run.old_to + below]
        now = after[run.new_from - above : run.new_to + below]
        regions.append(Region("".join(was), "".join(now), first + run.new_from - above))
    return regions


def regions_within(old: str, new: str, characters: int) -> tuple[list[Region], int]:
    """The first changed places that together take at most so many characters, at least one; how many are left out."""
    regions = changed_regions(old, new)
    room, count = characters, 0
    for region in regions:
        room -= max(len(region.old), len(region.new))
        if count and room < 0:
            break
        count += 1
    return regions[:count], len(regions) - count


def more_places(count: int, path: str) -> str:
    """The sentence for changed places that are not shown."""
    return f"{count:,} more changed {'place' if count == 1 else 'places'} in {path}, too much to show here."


def _bounds(old: str, new: str) -> tuple[int, int, int]:
    """Where the differing middle starts, and where it ends in both, on line ends and with its surroundings."""
    head = _common(old, new, min(len(old), len(new)), from_end=False)
    tail = _common(old, new, min(len(old), len(new)) - head, from_end=True)
    start = head
    for _ in range(CONTEXT_LINES + 1):
        start = old.rfind("\n", 0, max(start - 1, 0)) + 1
    end = len(old) - tail
    for _ in range(CONTEXT_LINES + 1):
        end = old.find("\n", end) + 1 or len(old)
    return start, end, len(new) - (len(old) - end)


def _common(old: str, new: str, limit: int, *, from_end: bool) -> int:
    """How many characters both share at one end, at most `limit`; by comparing ever smaller pieces."""
    same, piece = 0, limit
    while piece:
        if from_end:
            at, there = len(old) - same, len(new) - same
            is_same = old[at - piece : at] == new[there - piece : there]
        else:
            is_same = old[same : same + piece] == new[same : same + piece]
        if is_same:
            same += piece
        piece = min(piece if is_same else piece // 2, limit - same)
    return same


def _lines(text: str) -> list[str]:
    lines = [f"{line}\n" for line in text.split("\n")]
    last = lines.pop().removesuffix("\n")
    return [*lines, last] if last else lines


def _runs(before: Sequence[str], after: Sequence[str]) -> Iterator[_Run]:
    """What differs between two lists of lines, aligned at lines that either has once."""
    once = _in_both_once(before, after)
    at, to = 0, 0
    while at < len(before) or to < len(after):
        if at < len(before) and to < len(after) and before[at] == after[to]:
            at += 1
            to += 1
            continue
        end, new_end = _next_meeting(before, once, at, to) or (len(before), len(after))
        # Lines that occur more often may be the same just before the meeting.
        while end > at and new_end > to and before[end - 1] == after[new_end - 1]:
            end -= 1
            new_end -= 1
        yield _Run(at, end, to, new_end)
        at, to = end, new_end


def _in_both_once(before: Sequence[str], after: Sequence[str]) -> dict[str, int]:
    """Lines that both have exactly once, with their place in `after`."""
    here, there = Counter(before), Counter(after)
    return {line: at for at, line in enumerate(after) if there[line] == 1 and here[line] == 1}


def _next_meeting(before: Sequence[str], once: dict[str, int], at: int, to: int) -> tuple[int, int] | None:
    for place in range(at, len(before)):
        there = once.get(before[place])
        if there is not None and there >= to:
            return place, there
    return None


def _merged(runs: Iterator[_Run]) -> Iterator[_Run]:
    last: _Run | None = None
    for run in runs:
        if last is None:
            last = run
        elif run.old_from - last.old_to <= 2 * CONTEXT_LINES:
            last = _Run(last.old_from, run.old_to, last.new_from, run.new_to)
        else:
            yield last
            last = run
    if last is not None:
        yield last
