"""What language servers say, in our own types.

Owns: diagnostics, places, and edits. Must not know: the wire, or who asks. Lines and columns of `Diagnostic` and
`Place` count from 1 as people do; a `Span` counts as the protocol does: lines from 0, columns in UTF-16 code units.
"""

from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.lazy_dataclass import dataclass


class LanguageServerError(PatternError):
    """A language server cannot be asked; the sentence says why and what else helps."""

    failure_code = "lsp.failed"


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a text as the protocol counts."""

    line: int
    unit: int
    end_line: int
    end_unit: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that a server finds wrong."""

    span: Span
    message: str
    is_error: bool = True
    code: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is."""

    path: str
    span: Span


@dataclass(frozen=True, slots=True)
class TextEdit:
    """One replacement."""

    span: Span
    new_text: str


@dataclass(frozen=True, slots=True)
class FileEdits:
    """The replacements of one file; none overlaps another."""

    path: str
    edits: tuple[TextEdit, ...]


@dataclass(frozen=True, slots=True)
class NewError:
    """An error that was not there before: the file, and where in its present text."""

    path: str
    line: int
    column: int
    message: str
    code: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Introduced:
    """What became wrong since files were last compared."""

    errors: tuple[NewError, ...] = ()
    waiting: tuple[str, ...] = ()
    """Servers that had not answered in time; what they find is told later."""
