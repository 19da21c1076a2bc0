"""Languages of files, their servers, and what these report, in our own types.

Owns: the types and their positions, the table of known servers, and finding where those are installed. Must not know:
the wire, how a server is run, or who asks. Language ids are those of LSP 3.17, "Text Document Language Identifiers".
Lines and columns of `Diagnostic` and `CodeLocation` count from 1 as people do; a `Span` counts as the protocol does:
lines from 0, columns in UTF-16 units.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from pattern_acp.config.programs import PROJECT_FOLDERS, can_serve
from pattern_acp.config.settings import LspServerSettings
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


_ENDINGS = {
    "python": "py pyi",
    "typescript": "ts mts cts",
    "typescriptreact": "tsx",
    "javascript": "js mjs cjs",
    "javascriptreact": "jsx",
    "go": "go",
    "rust": "rs",
    "c": "c h",
    "cpp": "cc cpp cxx hh hpp hxx",
    "csharp": "cs",
    "java": "java",
    "ruby": "rb",
    "php": "php",
    "shellscript": "sh bash",
    "haskell": "hs",
    "kotlin": "kt kts",
    "elixir": "ex exs",
    "markdown": "md",
    "ocaml": "ml mli",
}
LANGUAGE_OF_ENDING = {ending: language for language, endings in _ENDINGS.items() for ending in endings.split()}


def language_of(path: str) -> str:
    """The language id of a file by its name: a known one, otherwise the ending itself; empty for a name without one."""
    ending = PurePath(path).suffix.removeprefix(".").lower()
    return LANGUAGE_OF_ENDING.get(ending, ending)


class ServerKind(Struct, frozen=True):
    """A kind of server: its command, and its languages."""

    name: str
    command: tuple[str, ...]
    languages: tuple[str, ...]
    runs_project_code: str = ""
    """The project code that it would run, as the middle of a sentence; empty when it only reads. Such a server is
    started in trusted folders only."""
    options: Mapping[str, object] | None = None
    """Its `initializationOptions`."""
    sections: Mapping[str, object] | None = None
    """The answers to its requests for settings, by section."""


_SCRIPTS = ("typescript", "typescriptreact", "javascript", "javascriptreact")

_WHOLE_RENAMES: Mapping[str, object] = {"preferences": {"useAliasesForRenames": False}}
"""Without it, a name that is renamed at a use keeps its old one in all other files, as `old as new`."""

KNOWN: tuple[ServerKind, ...] = (
    ServerKind("basedpyright", ("basedpyright-langserver", "--stdio"), ("python",)),
    ServerKind("pyright", ("pyright-langserver", "--stdio"), ("python",)),
    # TypeScript has its own server since version 7, which typescript-language-server cannot use
    # (`config.programs.can_serve`).
    ServerKind(
        "typescript",
        ("tsc", "--lsp", "--stdio"),
        _SCRIPTS,
        sections=dict.fromkeys(("typescript", "javascript", "js/ts"), _WHOLE_RENAMES),
    ),
    ServerKind(
        "typescript-language-server",
        ("typescript-language-server", "--stdio"),
        _SCRIPTS,
        "the TypeScript of its node_modules and the plugins that tsconfig.json names",
        options={"preferences": {"providePrefixAndSuffixTextForRename": False}},
    ),
    ServerKind("gopls", ("gopls",), ("go",)),
    ServerKind("rust-analyzer", ("rust-analyzer",), ("rust",), "build scripts and macros of its crates"),
    ServerKind("clangd", ("clangd",), ("c", "cpp")),
)
"""Among several for one language, the first installed one is used."""


class FoundServer(Struct, frozen=True):
    """A server that can be started."""

    kind: ServerKind
    program: str
    """Its absolute path."""

    @property
    def command(self) -> tuple[str, ...]:
        """The command that starts it."""
        return (self.program, *self.kind.command[1:])


def configured_kind(settings: LspServerSettings) -> ServerKind:
    """A server from the user's file."""
    return ServerKind(settings.name, settings.command, settings.languages)


def kinds(configured: Sequence[ServerKind]) -> tuple[ServerKind, ...]:
    """All kinds: the user's first, which replace known ones of the same name."""
    names = {kind.name for kind in configured}
    return (*configured, *(kind for kind in KNOWN if kind.name not in names))


def find_server(
    candidates: Sequence[ServerKind], language: str, root: str, environment: Mapping[str, str], *, trusted: bool
) -> FoundServer | None:
    """The first server for `language` that is installed and may run in the folder `root`."""
    for kind in candidates:
        if language in kind.languages and (trusted or not kind.runs_project_code):
            program = find_program(kind, root, environment, trusted=trusted)
            if program:
                return FoundServer(kind, program)
    return None


def find_program(kind: ServerKind, root: str, environment: Mapping[str, str], *, trusted: bool) -> str:
    """The absolute path of a server's program; empty when it is not installed.

    On PATH, a folder inside an untrusted `root` does not count: programs of a project do not run unasked.
    """
    path = next((value for name, value in environment.items() if name.upper() == "PATH"), "")
    if Path(kind.command[0]).is_absolute():
        # Only the user's own file can name one.
        return _that_serves(shutil.which(kind.command[0]))
    folders = [folder for folder in path.split(os.pathsep) if folder and Path(folder).is_absolute()]
    if trusted:
        folders = [*(str(Path(root, folder)) for folder in PROJECT_FOLDERS), *folders]
    else:
        folders = [folder for folder in folders if not _is_inside(folder, root)]
    if not folders:
        return ""
    found = shutil.which(kind.command[0], path=os.pathsep.join(folders))
    return _that_serves(found) if found is not None and (trusted or not _is_inside(found, root)) else ""


def _that_serves(program: str | None) -> str:
    return program if program is not None and can_serve(Path(program)) else ""


def _is_inside(path: str, root: str) -> bool:
    try:
        return Path(path).resolve().is_relative_to(Path(root).resolve())
    except (OSError, RuntimeError):
        return True
