"""Plain output of commands that draw nothing.

Owns: writing lines to a terminal or pipe that may be gone, may not know every character, and must not be steered by
what a model or a file says. Must not know: what is written. The serving process never uses it: its stdout is the
protocol's (jsonrpc/stdio.py).
"""

import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from msgspec import to_builtins

from pattern_acp.cli.tables import fold, lay_out
from pattern_acp.domain.errors import PatternError


class OutputClosed(Exception):  # noqa: N818 - an event of the other side, not a fault
    """Nobody reads stdout any more; the command ends quietly, as `head` expects."""


def write_line(text: str = "") -> None:
    """Write one line, or several, to stdout.

    Raises:
        OutputClosed: the reader went away.
    """
    _write(sys.stdout, text)


def write_screen(text: str) -> None:
    """Write `text` to a terminal in the place of all that it shows.

    Raises:
        OutputClosed: the reader went away.
    """
    # The cursor goes home, and what is right of each line and below the last is erased: nothing flickers.
    lines = text.split("\n")
    _write(sys.stdout, "\x1b[H" + "\x1b[K\n".join(lines) + "\x1b[K\x1b[J")


def write_json(value: object) -> None:
    """Write `value` as one line of JSON to stdout, flushed at once.

    Raises:
        OutputClosed: the reader went away.
    """
    _write(sys.stdout, json.dumps(to_builtins(value), ensure_ascii=True, separators=(",", ":")))


def write_sentence(sentence: str) -> None:
    """Write a sentence to stdout: folded at blanks on a terminal, one line in a pipe.

    Raises:
        OutputClosed: the reader went away.
    """
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
    """Say why a command failed; with `as_json` a program is told too, by a line on stdout.

    Raises:
        OutputClosed: the reader went away.
    """
    write_failure(error.failure_code, f"pattern-acp: {error.sentence}")
    if as_json:
        write_json({"error": {"code": error.failure_code, "message": error.sentence}})


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


def format_table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Left-aligned columns two blanks apart, without trailing blanks; with a `width`, folded at blanks to fit it."""
    cells = [tuple(headings), *(tuple(printable(cell).replace("\n", " ") for cell in row) for row in rows)]
    return "\n".join("".join(line).rstrip() for lines in lay_out(cells, width) for line in lines)


def write_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write a table to stdout: one that fits the terminal, or one line a row in a pipe.

    Raises:
        OutputClosed: the reader went away.
    """
    write_line(format_table(headings, rows, shutil.get_terminal_size().columns if sys.stdout.isatty() else None))


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
