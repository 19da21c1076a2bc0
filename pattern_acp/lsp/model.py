"""Diagnostics, locations and edits of language servers, in our own types.

Owns: the types and their positions. Must not know: the wire, or who asks. Lines and columns of `Diagnostic` and
`CodeLocation` count from 1 as people do; a `Span` counts as the protocol does: lines from 0, columns in UTF-16 units.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.domain.errors import PatternError


class LanguageServerError(PatternError):
    """A language server cannot be asked; the sentence says why and names an alternative."""

    failure_code = "lsp.failed"


class Span(Struct, frozen=True):
    """A range of a text in the protocol's counting."""

    line: int
    unit: int
    end_line: int
    end_unit: int


class Diagnostic(Struct, frozen=True):
    """One problem that a server reports."""

    span: Span
    message: str
    is_error: bool = True
    code: str = ""
    source: str = ""


class CodeLocation(Struct, frozen=True):
    """A range in a file."""

    path: str
    span: Span


class TextEdit(Struct, frozen=True):
    """One replacement."""

    span: Span
    new_text: str


class FileEdits(Struct, frozen=True):
    """The replacements of one file; none overlaps another."""

    path: str
    edits: tuple[TextEdit, ...]


class NewError(Struct, frozen=True):
    """An error that was not there before: the file, and the position in its present text."""

    path: str
    line: int
    column: int
    message: str
    code: str = ""
    source: str = ""


class Introduced(Struct, frozen=True):
    """New errors since files were last compared."""

    errors: tuple[NewError, ...] = ()
    waiting: tuple[str, ...] = ()
    """Servers that had not answered in time; their errors are reported later."""


_LINE_END = re.compile(r"\r\n|\n|\r")


def split_lines(text: str) -> list[str]:
    """The lines without their ends; a text that ends with a line end has an empty last line."""
    return _LINE_END.split(text)


def units(text: str) -> int:
    """Length of a text in UTF-16 code units: characters beyond U+FFFF have two."""
    return len(text) + sum(character > "\uffff" for character in text)


def column_of(line: str, unit: int) -> int:
    """The index in `line` of a UTF-16 column; one beyond the end is the end, one inside a character is before it."""
    if line.isascii():
        return min(max(unit, 0), len(line))
    passed = 0
    for index, character in enumerate(line):
        passed += 2 if character > "\uffff" else 1
        if passed > unit:
            return index
    return len(line)


def line_at(text: str, line: int) -> str:
    """A line by its number from 0; empty if there is none."""
    lines = split_lines(text)
    return lines[line] if 0 <= line < len(lines) else ""


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Make all replacements at once. Insertions at one position retain their order.

    Raises:
        LanguageServerError: two replacements overlap.
    """
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    lines = split_lines(text)

    def offset(line: int, unit: int) -> int:
        if line >= len(lines):
            return len(text)
        return starts[line] + column_of(lines[line], unit)

    def bounds(span: Span) -> tuple[int, int]:
        return offset(span.line, span.unit), offset(span.end_line, span.end_unit)

    done: list[str] = []
    at = 0
    for (start, end), edit in sorted(((bounds(edit.span), edit) for edit in edits), key=lambda item: item[0]):
        if start < at or end < start:
            raise LanguageServerError("The language server sent edits that overlap; nothing was changed.")
        done += [text[at:start], edit.new_text]
        at = end
    return "".join([*done, text[at:]])
