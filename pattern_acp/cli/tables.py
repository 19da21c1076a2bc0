"""Tables and sentences that fit a terminal.

Owns: how wide columns are, and folding at blanks. Must not know: what a text says, or where it is written.
"""

import unicodedata
from collections.abc import Sequence

GAP = 2
"""Blanks between columns."""

NARROWEST = 20
"""Cells that one long word (a path, an id) may always have, however narrow the terminal is."""


def cells_of(text: str) -> int:
    """Count the cells of a terminal that `text` takes: two for a wide character, none for a combining one."""
    if text.isascii():
        return len(text)
    return sum(_cells_of_character(each) for each in text)


def lay_out(rows: Sequence[Sequence[str]], width: int | None = None) -> list[list[tuple[str, ...]]]:
    """The lines of each row, as cells that are padded to their columns; the last column is not padded.

    With a `width` in cells, what is wider is folded at blanks. A word is never cut, so that paths and ids can be
    copied: a row with too long a word stays wider than the terminal.
    """
    if not rows:
        return []
    natural = [max(cells_of(cell) for cell in column) for column in zip(*rows, strict=True)]
    widths = natural if width is None else _narrowed(natural, rows, width)
    return [_row_lines(row, widths) for row in rows]


def fold(text: str, width: int) -> list[str]:
    """The lines of `text`, cut at blanks to at most `width` cells each; a longer word has a line of its own."""
    if cells_of(text) <= width:
        return [text]
    lines: list[str] = []
    for word in text.split():
        if lines and cells_of(lines[-1]) + 1 + cells_of(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]


def _cells_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _narrowed(natural: Sequence[int], rows: Sequence[Sequence[str]], width: int) -> list[int]:
    longest_words = [
        max((cells_of(word) for cell in column for word in cell.split()), default=0)
        for column in zip(*rows, strict=True)
    ]
    least = [min(word, max(width // 2, NARROWEST)) for word in longest_words]
    widths = list(natural)
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0:
        widest = max(range(len(widths)), key=lambda column: widths[column] if widths[column] > least[column] else -1)
        if widths[widest] <= least[widest]:
            break
        widths[widest] -= 1
        excess -= 1
    return widths


def _row_lines(row: Sequence[str], widths: Sequence[int]) -> list[tuple[str, ...]]:
    folded = [fold(cell, width) for cell, width in zip(row, widths, strict=True)]
    last = len(widths) - 1
    return [
        tuple(
            _padded(parts[line] if line < len(parts) else "", 0 if column == last else widths[column] + GAP)
            for column, parts in enumerate(folded)
        )
        for line in range(max(map(len, folded)))
    ]


def _padded(text: str, width: int) -> str:
    # A word that is wider than its column keeps the gap behind it.
    return text + " " * max(width - cells_of(text), min(width, GAP))
