"""The key that names a project in memory.

Owns: which directories are the same project. Must not know: how git's common directory was found.
"""

import ntpath
import posixpath
import sys
import unicodedata
from pathlib import Path


def project_key(common_dir: str | None, cwd: str) -> str:
    """The key of the project that `cwd` (absolute) is in.

    `common_dir` is git's common directory, which all worktrees of a repository share: absolute, or relative to `cwd` as
    git prints it; None outside a repository. The key of a repository with a `.git` directory is the directory that
    holds it, so that a directory keeps its memory when it becomes a repository.
    """
    place = Path(cwd) if common_dir is None else Path(cwd, common_dir)
    key = normalise_path(str(place.resolve()), sys.platform)
    if common_dir is not None and posixpath.basename(key) == ".git":
        return posixpath.dirname(key)
    return key


def normalise_path(path: str, platform: str) -> str:
    """Spell an absolute path in the one way that compares, by the rules of a `sys.platform` name.

    Slashes everywhere; case is folded where file systems ignore it by default (Windows, macOS); macOS hands names out
    in either Unicode form.
    """
    if platform == "win32":
        return ntpath.normcase(ntpath.normpath(path)).replace("\\", "/")
    plain = posixpath.normpath(path)
    if platform == "darwin":
        return unicodedata.normalize("NFC", plain).casefold()
    return plain
