"""Plain output of commands: lines, and tables whose columns fit the terminal.

Owns: writing to a terminal or pipe that may be gone, may not know every character, and must not be steered by what a
model or a file says. Must not know: what is written. The serving process never uses it: its stdout is the protocol's.
"""

import io
import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from msgspec import to_builtins

from pattern_acp.domain.errors import PatternError

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
    natural = [
        max(cells_of(line) for cell in column for line in cell.split("\n")) for column in zip(*rows, strict=True)
    ]
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
    folded = [
        [piece for line in cell.split("\n") for piece in fold(line, width)]
        for cell, width in zip(row, widths, strict=True)
    ]
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


class OutputClosed(Exception):  # noqa: N818 - an event of the other side, not a fault
    """Nobody reads stdout any more; all that writes there raises it, and the command ends quietly, as for `head`."""


def write_line(text: str = "") -> None:
    """Write one line, or several, to stdout. Raises OutputClosed where the reader went away."""
    _write(sys.stdout, text)


def write_screen(text: str) -> None:
    """Write `text` to a terminal instead of all that it shows. Raises OutputClosed where the reader went away."""
    # The cursor goes home, and what is right of each line and below the last is erased: nothing flickers.
    lines = text.split("\n")
    _write(sys.stdout, "\x1b[H" + "\x1b[K\n".join(lines) + "\x1b[K\x1b[J")


def write_json(value: object) -> None:
    """Write `value` as one line of JSON to stdout, flushed at once. Raises OutputClosed where the reader went away."""
    _write(sys.stdout, json.dumps(to_builtins(value), ensure_ascii=True, separators=(",", ":")))


def write_sentence(sentence: str) -> None:
    """Write a sentence to stdout: folded at blanks on a terminal, one line in a pipe."""
    _write(sys.stdout, _folded(sentence, sys.stdout))


def write_error(sentence: str) -> None:
    """Write a sentence to stderr, folded like `write_sentence`; a closed stderr is no reason to fail."""
    try:
        _write(sys.stderr, _folded(sentence, sys.stderr))
    except OutputClosed:
        return


def write_failure(code: str, sentence: str) -> None:
    """Say on stderr why a command failed, with the code that `pattern-acp explain` knows."""
    write_error(f"{sentence} [{code}]")


def write_failed(error: PatternError, *, as_json: bool) -> None:
    """Say why a command failed; with `as_json` a program gets it too, as a line on stdout."""
    write_failure(error.failure_code, f"pattern-acp: {error.sentence}")
    if as_json:
        write_json({"error": {"code": error.failure_code, "message": error.sentence}})


def confirmed(question: str, stream: TextIO | None = None) -> bool:
    """Ask on stdout, unless another stream is named; True for y and yes alone."""
    out = sys.stdout if stream is None else stream
    out.write(f"{printable(question)} [y/N] ")
    out.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def agreed(question: str, unasked: str, stream: TextIO | None = None, *, can_ask: bool = True) -> bool:
    """Ask as `confirmed` does; where nobody can be asked, say so with the sentence `unasked`, and take it for a no."""
    if can_ask and sys.stdin.isatty():
        return confirmed(question, stream)
    write_failure("cli.not-confirmed", unasked)
    return False


def finish_output() -> None:
    """Write out what stdout still holds; when nobody reads it any more, drop it, or Python would complain at its end.

    Python's own advice on SIGPIPE: what is held goes to the null device then.
    """
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError, AttributeError):
        with suppress(OSError, ValueError, AttributeError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)


def printable(text: str) -> str:
    """`text` without characters that steer a terminal; line ends and tabs stay."""
    return "".join(each for each in text if each in "\n\t" or each.isprintable())


def _folded(sentence: str, stream: TextIO) -> str:
    text = printable(" ".join(sentence.split()))
    if stream.closed or not stream.isatty():
        return text
    return "\n".join(fold(text, shutil.get_terminal_size().columns))


def _write(stream: TextIO, text: str) -> None:
    if isinstance(stream, io.TextIOWrapper) and stream.errors in {"strict", "surrogateescape"}:
        # A Windows console in a legacy code page, or LANG=C: show what it can, never fail.
        stream.reconfigure(errors="backslashreplace")
    try:
        stream.write(f"{text}\n")
        stream.flush()
    except (BrokenPipeError, ValueError) as error:
        # ValueError: the stream was closed on our side.
        raise OutputClosed from error
