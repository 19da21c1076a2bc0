"""The languages of files, and the servers that are known for them.

Owns: both tables. Must not know: which servers are installed. Language ids are those of LSP 3.17, "Text Document
Language Identifiers".
"""

from collections.abc import Mapping
from pathlib import PurePath

from msgspec import Struct

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
    """A server: what it is started with, and for which languages."""

    name: str
    command: tuple[str, ...]
    languages: tuple[str, ...]
    runs_project_code: str = ""
    """What of a project it would run, as the middle of a sentence; empty when it only reads. Such a server is started
    in trusted folders only."""
    options: Mapping[str, object] | None = None
    """Its `initializationOptions`."""
    sections: Mapping[str, object] | None = None
    """What it is answered when it asks for its settings, by section."""


_SCRIPTS = ("typescript", "typescriptreact", "javascript", "javascriptreact")

_WHOLE_RENAMES: Mapping[str, object] = {"preferences": {"useAliasesForRenames": False}}
"""Otherwise a name that is renamed where it is used keeps its old one in all other files, as `old as new`."""

KNOWN: tuple[ServerKind, ...] = (
    ServerKind("basedpyright", ("basedpyright-langserver", "--stdio"), ("python",)),
    ServerKind("pyright", ("pyright-langserver", "--stdio"), ("python",)),
    # TypeScript serves by itself since version 7, which typescript-language-server cannot use (`config.lsp.can_serve`).
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
"""Of several for one language the first that is installed is used."""
