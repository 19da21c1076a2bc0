"""The languages of the code map.

Owns: which file is of which language, which package has its grammar, and which files are tests. Must not know: how a
grammar is loaded (`grammars.py`) or what is read with it.
"""

import re

from msgspec import Struct


class Language(Struct, frozen=True):
    """One language. `package` is both the module that is imported and, with dashes, what is installed."""

    name: str
    package: str
    function: str
    """What the module calls the function that gives the grammar."""
    endings: tuple[str, ...]
    """Of file names, in lower case."""


_ALL = (
    Language("python", "tree_sitter_python", "language", (".py", ".pyi", ".pyw")),
    Language("javascript", "tree_sitter_javascript", "language", (".js", ".jsx", ".mjs", ".cjs")),
    Language("typescript", "tree_sitter_typescript", "language_typescript", (".ts", ".mts", ".cts")),
    Language("tsx", "tree_sitter_typescript", "language_tsx", (".tsx",)),
    Language("go", "tree_sitter_go", "language", (".go",)),
    Language("rust", "tree_sitter_rust", "language", (".rs",)),
    Language("java", "tree_sitter_java", "language", (".java",)),
    Language("c", "tree_sitter_c", "language", (".c", ".h")),
    Language("cpp", "tree_sitter_cpp", "language", (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp", ".inl")),
    Language("ruby", "tree_sitter_ruby", "language", (".rb", ".rake", ".gemspec")),
    Language("php", "tree_sitter_php", "language_php", (".php", ".phtml")),
    Language("csharp", "tree_sitter_c_sharp", "language", (".cs",)),
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
    """The language of a file by its name; "" when it is none that can be read. `.h` is C, but see `header_language`."""
    name = path.rpartition("/")[2].lower()
    dot = name.rfind(".")
    return _BY_NAME.get(name) or (_BY_ENDING.get(name[dot:], "") if dot > 0 else "")


def header_language(path: str, source: bytes) -> str:
    """Whether a header that `language_of` takes for C holds C++."""
    return "cpp" if path.lower().endswith(".h") and _CPP_HEADER.search(source) else "c"


def is_test(path: str) -> bool:
    """Whether a file holds tests, by the conventions of its language: its folder or its name says so."""
    *folders, name = path.split("/")
    return not _TEST_FOLDERS.isdisjoint(folders) or _TEST_NAME.fullmatch(name.rpartition(".")[0] or name) is not None
