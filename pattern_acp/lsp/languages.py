"""The languages of files, the servers known for them, and where those are installed.

Owns: the tables and the search. Must not know: how a server is run. Language ids are those of LSP 3.17, "Text Document
Language Identifiers".
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from pattern_acp.config.programs import PROJECT_FOLDERS, can_serve
from pattern_acp.config.settings import LspServerSettings

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
