"""Cutting texts into the passages that are indexed, and hits into excerpts.

Owns: where a text may be cut. Must not know: SQL, scores.
"""

import re
from collections.abc import Sequence

from pattern_acp.domain.late_pattern import late_pattern

BLOCK_PASSAGE = 400
"""Characters of one passage of a block: a hit is shown whole."""

MESSAGE_PASSAGE = 1_600
"""Characters of one passage of a message: about one thought, so that BM25 compares like things."""

MESSAGE_INDEXED = 400_000
"""Characters of a message that can be found again: its beginning, some 250 passages. A log or a dump that was pasted
as a prompt of many megabytes would cost a minute and bury every other hit."""

EXCERPT = 400
"""Characters of an excerpt at most."""

_STARTS_ANEW = late_pattern(r"\s*(?:[-*+•#>|]|\d+[.)]\s|```)")
_WRAPPED_LINE = 55
"""Characters from which a line may have been broken for its length; shorter ones are facts of their own."""

_FAR_ENOUGH = 50
"""Lines that are gone back to find where a passage begins; a text of wrapped lines may have no such place."""

_ENDS_A_SENTENCE = (".", "!", "?", ":", ";")


def block_passages(text: str) -> tuple[str, ...]:
    """The passages of a block: paragraphs, list items, and lines that stand alone, each at most `BLOCK_PASSAGE`.

    An append puts a fact on a line of its own, so a line belongs to the one before only where it clearly continues.
    """
    passages: list[str] = []
    previous = ""
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped:
            if previous and _goes_on(previous, line):
                passages[-1] += f"\n{line}"
            else:
                passages.append(line)
        previous = stripped
    cut = [passage.strip() for passage in passages]
    if all(len(passage) <= BLOCK_PASSAGE for passage in cut):
        return tuple(cut)
    return tuple(piece for passage in cut for piece in _pieces(passage, BLOCK_PASSAGE))


def common_lines(before: str, after: str) -> int:
    """Number of characters in the lines that both texts begin with: 0, or just behind the end of a line."""
    low, high = 0, min(len(before), len(after))
    # Halving compares whole stretches at once, which is a hundred times faster than characters one by one.
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return before.rfind("\n", 0, low) + 1


def common_passages(before: str, after: str) -> int:
    """Number of characters in the passages that both texts begin with: the rest of each can be cut on its own."""
    end = common_lines(before, after)
    for _ in range(_FAR_ENOUGH):
        if end == 0:
            break
        # The last line of those may still be continued with, so what is common ends before it, where a passage begins.
        start = before.rfind("\n", 0, end - 1) + 1
        line = before[start : end - 1]
        previous = before[before.rfind("\n", 0, max(0, start - 1)) + 1 : max(0, start - 1)].strip()
        if line.strip() and not (previous and _goes_on(previous, line)):
            return start
        end = start
    return 0


def common_ending(before: str, after: str) -> int:
    """Number of characters in the lines that both texts end with; what comes before them ends with a line's end."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[len(before) - middle :] == after[len(after) - middle :]:
            low = middle
        else:
            high = middle - 1
    border = before.find("\n", len(before) - low)
    return 0 if border < 0 else len(before) - border - 1


def common_last_passages(before: str, after: str) -> int:
    """Number of characters in the passages that both texts end with: what comes before them can be cut on its own."""
    at = len(before) - common_ending(before, after)
    previous: str | None = None
    for _ in range(_FAR_ENOUGH):
        if at >= len(before):
            break
        end = before.find("\n", at)
        line = before[at:end] if end >= 0 else before[at:]
        # The first line that both have may continue with another one in each; every later one has the same before it.
        if previous is not None and line.strip() and not (previous and _goes_on(previous, line)):
            return len(before) - at
        previous = line.strip()
        at += len(line) + 1
    return 0


def message_passages(text: str) -> tuple[str, ...]:
    """The passages of the first `MESSAGE_INDEXED` characters: paragraphs gathered up to `MESSAGE_PASSAGE` each."""
    passages: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text[:MESSAGE_INDEXED]):
        for piece in _pieces(paragraph.strip(), MESSAGE_PASSAGE):
            if passages and len(passages[-1]) + len(piece) + 2 <= MESSAGE_PASSAGE:
                passages[-1] += "\n\n" + piece
            else:
                passages.append(piece)
    return tuple(passages)


def excerpt(text: str, terms: Sequence[str], size: int = EXCERPT) -> str:
    """At most `size` characters of `text` around the first of `terms`, with `…` where it was cut."""
    if len(text) <= size:
        return text
    room = size - 2
    hit = _first_hit(text, terms)
    start = max(0, min(hit - room // 3, len(text) - room))
    if start > 0:
        # Begin at a word, unless there is none near.
        border = text.find(" ", start, start + 30)
        start = border + 1 if 0 <= border < hit else start
    end = min(len(text), start + room)
    cut = text[start:end].strip()
    return ("…" if start > 0 else "") + cut + ("…" if end < len(text) else "")


def _goes_on(previous: str, line: str) -> bool:
    if not line[0].isspace():
        wrapped = len(previous) >= _WRAPPED_LINE and not previous.endswith(_ENDS_A_SENTENCE)
        if not (wrapped and line[0].islower()):
            return False
    return _STARTS_ANEW.match(line) is None


def _pieces(text: str, size: int) -> list[str]:
    pieces: list[str] = []
    at = 0
    while len(text) - at > size:
        ahead = text[at : at + size]
        if not (stripped := ahead.lstrip()):
            at += size
        elif len(stripped) < size:
            at += size - len(stripped)
        else:
            end = _cut_before(ahead, size)
            pieces.append(ahead[:end].strip())
            at += end
    return [piece for piece in (*pieces, text[at:].strip()) if piece]


def _cut_before(text: str, size: int) -> int:
    # The best border in the second half, so that no piece is tiny: a line's end, a sentence's, a word's.
    for border in ("\n", ". ", " "):
        end = text.rfind(border, size // 2, size)
        if end > 0:
            return end + len(border)
    return size


def _first_hit(text: str, terms: Sequence[str]) -> int:
    # Lower-casing may change a string's length (İ), which moves an excerpt by a few characters at most.
    lowered = text.lower()
    for form in (terms, [term[: max(4, len(term) - 3)] for term in terms]):
        places = [place for term in form if (place := lowered.find(term)) >= 0]
        if places:
            return min(places)
    return 0
