"""Comparison of paths, and the paths that always ask.

Owns: inside or outside, and protected names. Must not know: files. The caller passes a `Resolver`, since the target of
a symlink is a fact of the disk; without one, paths are read by their text alone.
"""

import fnmatch
import ntpath
import posixpath
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern

Resolver: TypeAlias = Callable[[str, str], str]
"""`resolve(path, folder)`: the absolute path that `path`, as written in `folder`, leads to through symlinks.

It may raise a `PatternError` for a path that cannot be one; such a path counts as outside.
"""

_SHELL_FILES = frozenset(
    {
        ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
        ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".inputrc", ".envrc",
        "config.fish", ".gitconfig", ".gitmodules", ".condarc", "profile.ps1", "microsoft.powershell_profile.ps1",
    }
)  # fmt: skip
_SECRET_FOLDERS = frozenset({".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".docker"})
_SECRET_NAMES = (
    ".env", ".env.*", "*.pem", "*.p12", "*.pfx", "*.key", "*.jks", "*.keystore", "*.kdbx", "id_rsa*", "id_dsa*",
    "id_ecdsa*", "id_ed25519*", "credentials*", ".credentials*", ".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass",
    ".my.cnf", ".git-credentials", ".htpasswd", "*.tfvars", "service-account*.json",
)  # fmt: skip
_SECRET_WORDS = frozenset(each for each in _SECRET_NAMES if "*" not in each)
_SECRET_ENDINGS = tuple(each[1:] for each in _SECRET_NAMES if each.startswith("*"))
_SECRET_BEGINNINGS = tuple(each.partition("*")[0] for each in _SECRET_NAMES if "*" in each[1:])
_SOURCE_ENDINGS = (
    ".py", ".pyi", ".pyx", ".ipynb", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte",
    ".astro", ".go", ".rs", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".mm", ".swift", ".java", ".kt",
    ".kts", ".scala", ".groovy", ".clj", ".cljs", ".cs", ".fs", ".vb", ".rb", ".php", ".pl", ".pm", ".lua", ".jl",
    ".dart", ".ex", ".exs", ".erl", ".hs", ".ml", ".mli", ".elm", ".nim", ".zig", ".sol", ".f90", ".lisp", ".el",
    ".scm", ".rkt", ".proto", ".graphql", ".css", ".scss",
)  # fmt: skip
"""Endings of source files, named after their subject. Shell scripts are excluded: they often set variables."""
_NAMED_ALIKE = late_pattern(r"\.?credentials|id_(?:rsa|dsa|ecdsa|ed25519)")
_PROGRAM_FOLDERS = frozenset(
    {
        ".vscode", ".idea", ".zed", ".fleet", ".helix", ".nvim", ".vim", ".devcontainer", ".claude", ".cursor",
        ".codex", ".gemini", ".continue", ".windsurf", ".opencode", ".kiro", ".roo", ".amazonq", ".junie", ".qwen",
        ".trae", ".augment", ".goose",
    }
)  # fmt: skip
"""Folders from which editors and agents run things on their own: tasks when a folder is opened, hooks, containers."""
_PROGRAM_FILES = frozenset(
    {
        ".mcp.json", "opencode.json", "opencode.jsonc", ".aider.conf.yml", ".goosehints", ".exrc", ".vimrc", "_vimrc",
        ".gvimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".emacs", ".dir-locals.el", ".dir-locals-2.el", ".lldbinit",
        ".gdbinit", ".kakrc",
    }
)  # fmt: skip
_PROGRAM_ENDINGS = (".code-workspace", ".sublime-project", ".sublime-workspace")
_SERVICE_FOLDERS = frozenset(
    {".github", ".gitlab", ".gitea", ".forgejo", ".circleci", ".buildkite", ".woodpecker", ".husky", ".githooks"}
)
"""Folders of what a service, or git, runs of the project without being asked."""
_SERVICE_FILES = frozenset(
    {
        ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", ".drone.yml", ".woodpecker.yml", ".cirrus.yml",
        "azure-pipelines.yml", "azure-pipelines.yaml", "bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml",
        "jenkinsfile", ".pre-commit-config.yaml", ".pre-commit-config.yml", "lefthook.yml", ".lefthook.yml",
        "lefthook.yaml", ".huskyrc", ".lintstagedrc", ".mise.toml", "mise.toml", ".mise.local.toml",
        "mise.local.toml", ".tool-versions", ".gitattributes",
    }
)  # fmt: skip
_EXAMPLES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.test.example")
_SAMPLES = (
    ".git", ".pattern", ".vscode", ".claude", ".env", ".env.local", ".ssh", ".aws", ".bashrc", ".zshrc", ".profile",
    ".npmrc", ".netrc", ".pypirc", "id_rsa", "id_ed25519", "credentials", "server.pem", "server.key", ".mcp.json",
    ".github", ".husky", ".gitlab-ci.yml", ".pre-commit-config.yaml",
)  # fmt: skip
"""Sample names that a file pattern might match."""


class Protection(Struct, frozen=True):
    """The reason a path asks in every mode. `for_reading`: it already asks for reading."""

    reason: str
    for_reading: bool


_SECRETS = Protection("looks like credentials", for_reading=True)
_GIT = Protection("belongs to git's own files, where hooks and settings run programs", for_reading=False)
_PATTERN = Protection("is configuration of pattern-acp itself", for_reading=False)
_EDITOR = Protection("is configuration of an editor or agent, which can run programs", for_reading=False)
_SERVICE = Protection("tells a service or git which programs to run", for_reading=False)
_SHELL = Protection("is read by shells or git when they start, and can run programs", for_reading=False)


_WINDOWS = late_pattern(r"[A-Za-z]:|\\\\|//[^/]+/[^/]")


def is_windows_path(path: str) -> bool:
    """Return whether a path has a drive letter or names a share, regardless of this system."""
    return _WINDOWS.match(path) is not None


def resolve_by_text(path: str, folder: str) -> str:
    """Join a path and resolve `.` and `..` without the disk, as a `Resolver`."""
    if is_windows_path(folder):
        return ntpath.normpath(ntpath.join(folder, path))
    return posixpath.normpath(posixpath.join(folder, path))


def is_inside(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or below it; both absolute and resolved. Windows paths ignore case."""
    if is_windows_path(folder) != is_windows_path(path):
        return False
    here, there = _parts(path), _parts(folder)
    return ".." not in here and here[: len(there)] == there


def is_inside_any(path: str, folders: Sequence[str]) -> bool:
    """Return whether `path` is in one of `folders`."""
    return any(is_inside(path, folder) for folder in folders)


def folder_of(path: str) -> str:
    """The folder that contains `path`."""
    return (ntpath if is_windows_path(path) else posixpath).dirname(path)


def name_of(path: str) -> str:
    """The last part of `path`."""
    return (ntpath if is_windows_path(path) else posixpath).basename(path)


def shown_path(path: str, roots: Sequence[str]) -> str:
    """`path` as shown to the user: relative to its root if it is in one, else whole."""
    for root in roots:
        if is_inside(path, root):
            rest = path[len(root.rstrip("/\\")) :].lstrip("/\\")
            return rest or name_of(root.rstrip("/\\")) or root
    return path


def protection(path: str, roots: Sequence[str]) -> Protection | None:
    """Return why `path` asks in every mode, if it does. Only the part below a root counts."""
    root = max((root for root in roots if is_inside(path, root)), key=len, default="")
    below = _parts(path)[len(_parts(root)) if root else 0 :]
    return protection_of_names(below or _parts(path)[-1:])


def protection_of_names(names: Sequence[str]) -> Protection | None:
    """Check the parts of a path as `protection` does. Parts with wildcards count as the names they might match."""
    found: Protection | None = None
    folded = ""
    for name in names:
        folded = _folded(name)
        reason = _protection_of_part(folded)
        # Credentials in a folder that is protected only from writing are still credentials.
        if reason is not None and (found is None or (reason.for_reading and not found.for_reading)):
            found = reason
    if found is not None and found.for_reading:
        return found
    of_file = _protection_of_file(folded)
    return of_file if of_file is not None and (found is None or of_file.for_reading) else found


def _protection_of_part(name: str) -> Protection | None:
    is_glob = "*" in name or "?" in name or "[" in name
    return _protection_of_glob(name) if is_glob else _protection_of_folder(name)


def _protection_of_folder(name: str) -> Protection | None:
    if name in {".git", "git~1"}:
        return _GIT
    if name == ".pattern":
        return _PATTERN
    if name in _PROGRAM_FOLDERS:
        return _EDITOR
    if name in _SERVICE_FOLDERS:
        return _SERVICE
    return _SECRETS if name in _SECRET_FOLDERS else None


def _protection_of_file(name: str) -> Protection | None:
    if name in _SHELL_FILES:
        return _SHELL
    if name in _PROGRAM_FILES or name.endswith(_PROGRAM_ENDINGS):
        return _EDITOR
    if name in _SERVICE_FILES:
        return _SERVICE
    if name in _EXAMPLES:
        return None
    if not _is_secret_name(name) or (name.endswith(_SOURCE_ENDINGS) and _NAMED_ALIKE.match(name)):
        return None
    return _SECRETS


def _is_secret_name(name: str) -> bool:
    # A search of a folder asks for each of its files, and nearly all of them are ordinary.
    if name in _SECRET_WORDS or name.endswith(_SECRET_ENDINGS):
        return True
    return name.startswith(_SECRET_BEGINNINGS) and any(fnmatch.fnmatchcase(name, each) for each in _SECRET_NAMES)


def _protection_of_glob(pattern: str) -> Protection | None:
    # A lone `*` matches no dot files and is too common to ask about; a pattern aimed at such a name is not.
    if not pattern.startswith(".") and len(re.sub(r"[*?\[\]]", "", pattern)) < 3:
        return None
    for sample in _SAMPLES:
        if fnmatch.fnmatchcase(sample, pattern):
            return _protection_of_folder(sample) or _protection_of_file(sample)
    return None


def _folded(name: str) -> str:
    # Some file systems ignore case, trailing dots and spaces, invisible letters, and a stream's name after a colon.
    visible = name if name.isascii() else _visible(name)
    return visible.casefold().split(":", 1)[0].rstrip(". ") or name


@lru_cache(maxsize=4_096)
def _visible(name: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")


@lru_cache(maxsize=4_096)
def _parts(path: str) -> tuple[str, ...]:
    if is_windows_path(path):
        return tuple(part.casefold() for part in re.split(r"[\\/]+", path) if part)
    return tuple(part for part in path.split("/") if part)
