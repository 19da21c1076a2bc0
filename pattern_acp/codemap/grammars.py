"""The languages of source files, and loading tree-sitter's grammars for them.

Owns: the table, the only import of tree-sitter and the grammars in the code map, each at its first use, and saying why
one cannot be used. Must not know: what is read with them. Grammars are loaded in the building process, since one can
end the process that it is loaded into.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct


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


if TYPE_CHECKING:
    from tree_sitter import Parser, Query

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
    """Load the grammar of a language of `LANGUAGES`.

    Raises:
        GrammarMissingError: it cannot be used.
    """
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
