"""Compares paths and knows the ones that always ask.

Owns: inside or outside, and protected names. Must not know: files. It is handed a `Resolver`, since what a path leads
to through symlinks is a fact of the disk; without one, paths are read by their text alone.
"""

import fnmatch
import ntpath
import posixpath
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import TypeAlias

from msgspec import Struct

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
_SOURCE_ENDINGS = (
    ".py", ".pyi", ".pyx", ".ipynb", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte",
    ".astro", ".go", ".rs", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".mm", ".swift", ".java", ".kt",
    ".kts", ".scala", ".groovy", ".clj", ".cljs", ".cs", ".fs", ".vb", ".rb", ".php", ".pl", ".pm", ".lua", ".jl",
    ".dart", ".ex", ".exs", ".erl", ".hs", ".ml", ".mli", ".elm", ".nim", ".zig", ".sol", ".f90", ".lisp", ".el",
    ".scm", ".rkt", ".proto", ".graphql", ".css", ".scss",
)  # fmt: skip
"""Files of code that are named after what they deal with. Shell scripts are none: they are used to set variables."""
_NAMED_ALIKE = re.compile(r"\.?credentials|id_(?:rsa|dsa|ecdsa|ed25519)")
_PROGRAM_FOLDERS = frozenset({".vscode", ".idea", ".zed", ".fleet", ".claude", ".cursor", ".devcontainer"})
"""Where editors and agents keep what they run by themselves: tasks when a folder is opened, hooks, containers."""
_EXAMPLES = (".env.example", ".env.sample", ".env.template", ".env.dist", ".env.test.example")
_SAMPLES = (
    ".git", ".pattern", ".vscode", ".claude", ".env", ".env.local", ".ssh", ".aws", ".bashrc", ".zshrc", ".profile",
    ".npmrc", ".netrc", ".pypirc", "id_rsa", "id_ed25519", "credentials", "server.pem", "server.key",
)  # fmt: skip
"""Names that stand for what a file pattern might find."""


class Protection(Struct, frozen=True):
    """Why a path asks in every mode. `for_reading` says that already reading it does."""

    reason: str
    for_reading: bool


_SECRETS = Protection("looks like credentials", for_reading=True)
_GIT = Protection("belongs to git's own files, where hooks and settings run programs", for_reading=False)
_PATTERN = Protection("is configuration of pattern-acp itself", for_reading=False)
_EDITOR = Protection("is configuration of an editor or agent, which can run programs", for_reading=False)
_SHELL = Protection("is read by shells or git when they start, and can run programs", for_reading=False)


def is_windows_path(path: str) -> bool:
    """Whether a path has a drive letter or names a share, whatever system this is."""
    return re.match(r"[A-Za-z]:|\\\\|//[^/]+/[^/]", path) is not None


def resolve_by_text(path: str, folder: str) -> str:
    """A `Resolver` that knows no disk: joins and takes out `.` and `..`."""
    if is_windows_path(folder):
        return ntpath.normpath(ntpath.join(folder, path))
    return posixpath.normpath(posixpath.join(folder, path))


def is_inside(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it; both absolute and resolved. Windows paths ignore case."""
    if is_windows_path(folder) != is_windows_path(path):
        return False
    here, there = _parts(path), _parts(folder)
    return ".." not in here and here[: len(there)] == there


def is_inside_any(path: str, folders: Sequence[str]) -> bool:
    """Whether `path` is in one of `folders`."""
    return any(is_inside(path, folder) for folder in folders)


def folder_of(path: str) -> str:
    """The folder that holds `path`."""
    return (ntpath if is_windows_path(path) else posixpath).dirname(path)


def name_of(path: str) -> str:
    """The last part of `path`."""
    return (ntpath if is_windows_path(path) else posixpath).basename(path)


def shown_path(path: str, roots: Sequence[str]) -> str:
    """`path` as a person reads it: from its root where it is in one, else whole."""
    for root in roots:
        if is_inside(path, root):
            rest = path[len(root.rstrip("/\\")) :].lstrip("/\\")
            return rest or name_of(root.rstrip("/\\")) or root
    return path


def protection(path: str, roots: Sequence[str]) -> Protection | None:
    """Why `path` asks in every mode; None when it does not. Only the part below a root counts."""
    root = max((root for root in roots if is_inside(path, root)), key=len, default="")
    below = _parts(path)[len(_parts(root)) if root else 0 :]
    return protection_of_names(below or _parts(path)[-1:])


def protection_of_names(names: Sequence[str]) -> Protection | None:
    """As `protection`, for the parts of a path. Parts with wildcards count as what they might find."""
    folded = [_folded(name) for name in names]
    reasons = [reason for reason in map(_protection_of_part, folded) if reason is not None]
    if folded and (of_file := _protection_of_file(folded[-1])) is not None:
        reasons.append(of_file)
    # Credentials in a folder that only guards writing are credentials all the same.
    return max(reasons, key=lambda reason: reason.for_reading, default=None)


def _protection_of_part(name: str) -> Protection | None:
    is_glob = any(char in name for char in "*?[")
    return _protection_of_glob(name) if is_glob else _protection_of_folder(name)


def _protection_of_folder(name: str) -> Protection | None:
    if name in {".git", "git~1"}:
        return _GIT
    if name == ".pattern":
        return _PATTERN
    if name in _PROGRAM_FOLDERS:
        return _EDITOR
    return _SECRETS if name in _SECRET_FOLDERS else None


def _protection_of_file(name: str) -> Protection | None:
    if name in _SHELL_FILES:
        return _SHELL
    if name in _EXAMPLES:
        return None
    if not _secret_names().match(name) or (name.endswith(_SOURCE_ENDINGS) and _NAMED_ALIKE.match(name)):
        return None
    return _SECRETS


@cache
def _secret_names() -> re.Pattern[str]:
    # A search of a folder asks for each of its files.
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in _SECRET_NAMES))


def _protection_of_glob(pattern: str) -> Protection | None:
    # A lone `*` finds no dot files and is too common to ask about; a pattern aimed at such a name is not.
    if not pattern.startswith(".") and len(re.sub(r"[*?\[\]]", "", pattern)) < 3:
        return None
    for sample in _SAMPLES:
        if fnmatch.fnmatchcase(sample, pattern):
            return _protection_of_folder(sample) or _protection_of_file(sample)
    return None


@lru_cache(maxsize=4_096)
def _folded(name: str) -> str:
    # Some file systems ignore case, trailing dots and spaces, invisible letters, and a stream's name after a colon.
    visible = name
    if not name.isascii():
        visible = "".join(char for char in unicodedata.normalize("NFKC", name) if unicodedata.category(char) != "Cf")
    return visible.casefold().split(":", 1)[0].rstrip(". ") or name


def _parts(path: str) -> list[str]:
    if is_windows_path(path):
        return [part.casefold() for part in re.split(r"[\\/]+", path) if part]
    return [part for part in path.split("/") if part]
