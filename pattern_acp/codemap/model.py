"""The values of the code map, the languages of source files, and loading tree-sitter's grammars for them.

Owns: the facts on a file, a symbol, an import and a reference, how fresh an answer is, and the port through which the
workspace is listed; the table of languages, the only import of tree-sitter and the grammars in the code map, each at
its first use, and saying why one cannot be used. Must not know: how facts are found or stored. Grammars are loaded in
the building process.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from tree_sitter import Parser, Query


class Language(Struct, frozen=True):
    """One language. `package` is the module to import and, with dashes, the distribution to install.

    `is_optional`: it comes with the extra `[languages]`.
    """

    name: str
    package: str
    function: str
    """Name of the module's function that returns the grammar."""
    endings: tuple[str, ...]
    """Endings of file names, in lower case."""
    is_optional: bool = False


_ALL = (
    Language("python", "tree_sitter_python", "language", (".py", ".pyi", ".pyw")),
    Language("javascript", "tree_sitter_javascript", "language", (".js", ".jsx", ".mjs", ".cjs")),
    Language("typescript", "tree_sitter_typescript", "language_typescript", (".ts", ".mts", ".cts")),
    Language("tsx", "tree_sitter_typescript", "language_tsx", (".tsx",)),
    Language("go", "tree_sitter_go", "language", (".go",)),
    Language("rust", "tree_sitter_rust", "language", (".rs",)),
    Language("java", "tree_sitter_java", "language", (".java",)),
    Language("c", "tree_sitter_c", "language", (".c", ".h")),
    Language(
        "cpp",
        "tree_sitter_cpp",
        "language",
        (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp", ".inl"),
        is_optional=True,
    ),
    Language("ruby", "tree_sitter_ruby", "language", (".rb", ".rake", ".gemspec"), is_optional=True),
    Language("php", "tree_sitter_php", "language_php", (".php", ".phtml"), is_optional=True),
    Language("csharp", "tree_sitter_c_sharp", "language", (".cs",), is_optional=True),
    Language("bash", "tree_sitter_bash", "language", (".sh", ".bash")),
)
LANGUAGES = {language.name: language for language in _ALL}
"""Every language that can be read, by name."""

_BY_ENDING = {ending: language.name for language in _ALL for ending in language.endings}
_BY_NAME = {"rakefile": "ruby", "gemfile": "ruby", ".bashrc": "bash", ".bash_profile": "bash", ".profile": "bash"}
_CPP_HEADER = re.compile(
    rb"^\s*(?:class\s+\w|namespace\b|template\s*<|using\s+\w|(?:public|private|protected):)", re.MULTILINE
)

_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing", "testdata"})
_TEST_NAME = re.compile(
    r"test_.*|.*_test|.*[._](?:test|spec)s?|conftest|.*[A-Za-z0-9]Tests?|.*_spec|.*[A-Za-z0-9]Spec|tests?"
)


def language_of(path: str) -> str:
    """The language of a file by its name; "" if it cannot be read. `.h` is C, but see `header_language`."""
    name = path.rpartition("/")[2].lower()
    dot = name.rfind(".")
    return _BY_NAME.get(name) or (_BY_ENDING.get(name[dot:], "") if dot > 0 else "")


def header_language(path: str, source: bytes) -> str:
    """Return the language of a header that `language_of` takes for C: C or C++."""
    return "cpp" if path.lower().endswith(".h") and _CPP_HEADER.search(source) else "c"


def is_test(path: str) -> bool:
    """Return whether a file contains tests, by its language's conventions on folders and names."""
    *folders, name = path.split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or _TEST_NAME.fullmatch(name.rpartition(".")[0] or name) is not None


_SCRIPT_USES = """
[(identifier) (shorthand_property_identifier)] @use
(member_expression object: (identifier) @object property: (property_identifier))
"""
_USES = {
    "python": "(identifier) @use (attribute object: (identifier) @object attribute: (identifier))",
    "javascript": _SCRIPT_USES,
    "typescript": _SCRIPT_USES,
    "tsx": _SCRIPT_USES,
    "go": "(identifier) @use (selector_expression operand: (identifier) @object field: (field_identifier))",
    "rust": "(identifier) @use (scoped_identifier path: (identifier) @object name: (identifier))",
    "java": "(identifier) @use (field_access object: (identifier) @object field: (identifier))",
}


class Grammar(Struct, frozen=True):
    """A parser for the files of one language, with its queries."""

    parser: Parser
    query: Query
    uses: Query | None
    """Every plain name, and every one whose member is accessed; None for languages whose imports name no names."""


class GrammarMissingError(Exception):
    """A grammar is not installed, or does not fit the installed tree-sitter; the message says which and why."""


@cache
def load_grammar(name: str) -> Grammar:
    """Load the grammar of a language of `LANGUAGES`. Raises GrammarMissingError where it cannot be used."""
    language = LANGUAGES[name]
    try:
        from tree_sitter import Language, Parser, Query

        capsule: object = getattr(importlib.import_module(language.package), language.function)()
        loaded = Language(capsule)
        queries = Path(__file__).with_name("queries")
        # TSX is TypeScript with elements; one text for both keeps them from diverging.
        files = ("typescript", "tsx") if name == "tsx" else (name,)
        statements = "\n".join(queries.joinpath(f"{file}.scm").read_text(encoding="utf-8") for file in files)
        uses = _USES.get(name)
        return Grammar(Parser(loaded), Query(loaded, statements), None if uses is None else Query(loaded, uses))
    except ImportError as error:
        raise GrammarMissingError(f"{language.package.replace('_', '-')} is not installed ({error.name})") from error
    except (ValueError, AttributeError, SyntaxError) as error:
        # tree-sitter's QueryError, for a node that the grammar no longer has, is a ValueError.
        raise GrammarMissingError(f"{language.package.replace('_', '-')} does not fit ({error})") from error


def absent_grammars() -> dict[str, str]:
    """Languages whose grammar is not installed, with the package that has it. Imports nothing."""
    return {
        name: language.package.replace("_", "-")
        for name, language in LANGUAGES.items()
        if find_spec(language.package) is None or find_spec("tree_sitter") is None
    }


SymbolKind: TypeAlias = Literal[
    "function", "method", "class", "interface", "type", "enum", "constant", "variable", "field", "module", "macro"
]
"""`type` is a type alias, struct, union or trait-less type; a struct with methods of its own language is a `class`."""

ReferenceKind: TypeAlias = Literal["call", "inherit", "type", "use"]
"""`call`: called or instantiated; `inherit`: named as a base or an implemented interface; `type`: named as a type;
`use`: named in any other way, of names that the file imports or defines at its top level only."""

FileStatus: TypeAlias = Literal["parsed", "pending", "listed", "no_grammar", "skipped", "unparsable"]
"""`pending`: not read yet; `listed`: no source file, known by name only; `no_grammar`: its grammar is not installed;
`skipped`: too large, binary or generated; `unparsable`: the grammar failed on it."""

Freshness: TypeAlias = Literal["fresh", "stale", "partial", "missing"]
"""`fresh`: the index matches the disk; `stale`: it was complete once and some files differ from it; `partial`: it was
never complete so far; `missing`: there is no index."""


class Stamp(Struct, frozen=True):
    """Fingerprint of a file that shows a change without reading it. Times are nanoseconds since 1970."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int


def stamp_of(found: os.stat_result) -> Stamp:
    """The stamp of a file; identities of more than 63 bits, as on Windows, are cut to fit the index."""
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino & 0x7FFF_FFFF_FFFF_FFFF)


class ListedFile(Struct, frozen=True):
    """A file of the workspace on disk. `path` is relative to the root, with forward slashes."""

    path: str
    stamp: Stamp


ListFiles: TypeAlias = Callable[[str, threading.Event], list[ListedFile]]
"""The port that lists regular files below an absolute root that Git does not ignore, no links. Blocks, so it is called
in a thread; it stops with any exception of its own once the event is set."""


class FileRecord(Struct, frozen=True):
    """One file of the index."""

    id: int
    path: str
    """Relative to the root, with forward slashes."""
    language: str
    """A name of `grammars.LANGUAGES`; "" for a file that is no source."""
    status: FileStatus
    size: int
    lines: int
    content_hash: str
    """BLAKE2b of the bytes, in hex; "" for a file that was not read."""
    is_test: bool
    note: str = ""
    """The reason why it was not read, in a few words; "" if it was."""


class Symbol(Struct, frozen=True):
    """A definition in a file. `id` lasts until its file is read again. Lines and columns count from 1."""

    id: int
    path: str
    name: str
    qualified_name: str
    """The name with those of its enclosing symbols: `Store.append`."""
    kind: SymbolKind
    line: int
    end_line: int
    column: int
    signature: str
    """Its first line or lines without the body, whitespace collapsed, at most 200 characters."""
    exported: bool
    """True if other files can use it, by its language's rules (by its conventions if there are none)."""
    parent_id: int | None


class Import(Struct, frozen=True):
    """One imported name; a statement that imports three names yields three."""

    path: str
    """The importing file."""
    module: str
    """The module as written: `pattern_acp.db`, `../store`, `<stdio.h>`, `crate::a::b`."""
    name: str
    """The imported name; "" for the module as a whole, `*` for everything in it."""
    local: str
    """The importing file's name for it; "" when it has none of its own."""
    line: int
    resolved_path: str | None
    """The imported file, by a rule that leaves no choice; a folder, with a final slash, in languages that import
    folders (Go); None when it is outside the workspace or not certain."""


class Reference(Struct, frozen=True):
    """A use of a name.

    One for each name, receiver, kind and enclosing symbol of a file, with the first position and the number.
    """

    path: str
    name: str
    """The last part alone: `append` for `store.append()`."""
    receiver: str
    """The text before it: `store`, `self`, `a.b`; "" for a plain name, at most 80 characters."""
    kind: ReferenceKind
    line: int
    column: int
    symbol_id: int | None
    """The innermost symbol of the file around it; None at the top level."""
    count: int


class Judgement(Struct, frozen=True):
    """Freshness of the index, and the reason for it."""

    freshness: Freshness
    listed: int
    """Number of files in the workspace now."""
    indexed: int
    """Number of indexed files that are up to date."""
    changed: tuple[str, ...] = ()
    """Files that differ from the index or are missing in it, deleted ones included; in the order of paths."""
    missing_languages: tuple[str, ...] = ()
    """Languages of the workspace whose grammar is not installed, with the reason."""


class IndexProgress(Struct, frozen=True):
    """Progress of a build or a refresh."""

    done: int
    total: int
