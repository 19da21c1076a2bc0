"""What language servers say, in our own types.

Owns: diagnostics, places, and edits. Must not know: the wire, or who asks. Lines and columns of `Diagnostic` and
`Place` count from 1 as people do; a `Span` counts as the protocol does: lines from 0, columns in UTF-16 code units.
"""

from msgspec import Struct

from pattern_acp.domain.errors import PatternError


class LanguageServerError(PatternError):
    """A language server cannot be asked; the sentence says why and what else helps."""

    failure_code = "lsp.failed"


class Span(Struct, frozen=True):
    """A range of a text as the protocol counts."""

    line: int
    unit: int
    end_line: int
    end_unit: int


class Diagnostic(Struct, frozen=True):
    """One thing that a server finds wrong."""

    span: Span
    message: str
    is_error: bool = True
    code: str = ""
    source: str = ""


class Place(Struct, frozen=True):
    """Where something is."""

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
    """An error that was not there before: the file, and where in its present text."""

    path: str
    line: int
    column: int
    message: str
    code: str = ""
    source: str = ""


class Introduced(Struct, frozen=True):
    """What became wrong since files were last compared."""

    errors: tuple[NewError, ...] = ()
    waiting: tuple[str, ...] = ()
    """Servers that had not answered in time; what they find is told later."""
