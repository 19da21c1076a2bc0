"""What git says about a folder, read from git's own files.

Owns: finding the repository around a folder, its shared directory and its branch. No git process is started, so it
also works where git is not installed. Must not know: what the facts are used for. The `GIT_*` variables are ignored,
since an editor may be started from a git hook of another repository.
"""

import os
from pathlib import Path

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern

_SMALL_FILE_BYTES = 4_096
"""Longer than any `.git`, `HEAD` or `commondir` file that git writes."""
_COMMIT = late_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NO_BRANCH = ".invalid"
"""What a repository with the reftable format keeps in HEAD for old readers."""


class GitFacts(Struct, frozen=True):
    """The repository around a folder; all fields are "" when there is none.

    `common_dir` is the same for all worktrees of a repository. `branch` is "" on a detached HEAD, and `commit` is only
    known there.
    """

    root: str = ""
    common_dir: str = ""
    branch: str = ""
    commit: str = ""


def git_facts(cwd: str) -> GitFacts:
    """Look for a repository at `cwd` and above. Blocks for a few small reads; never raises."""
    # In names and not in `Path`s, which take three times as long: every turn looks, and mostly in vain.
    try:
        candidate, parent = "", os.path.realpath(cwd)
    except OSError:
        return GitFacts()
    while candidate != parent:
        candidate, parent = parent, os.path.dirname(parent)
        git_dir = _git_dir(candidate)
        if git_dir:
            head = _small_text(os.path.join(git_dir, "HEAD"))
            branch = head.removeprefix("ref: refs/heads/") if head.startswith("ref: refs/heads/") else ""
            return GitFacts(
                root=candidate,
                common_dir=_common_dir(git_dir),
                branch="" if branch == _NO_BRANCH else branch,
                commit=head if _COMMIT.fullmatch(head) else "",
            )
    return GitFacts()


def _git_dir(folder: str) -> str:
    """The git directory of the working tree at `folder`, or "": `.git`, or what a worktree's file `.git` points at."""
    marker = os.path.join(folder, ".git")
    text = _small_text(marker)
    git_dir = os.path.join(folder, text.removeprefix("gitdir:").strip()) if text.startswith("gitdir:") else marker
    return git_dir if _small_text(os.path.join(git_dir, "HEAD")) else ""


def _common_dir(git_dir: str) -> str:
    # Only a linked worktree has this file; a submodule is a repository of its own.
    shared = _small_text(os.path.join(git_dir, "commondir"))
    return os.path.realpath(os.path.join(git_dir, shared) if shared else git_dir)


def _small_text(path: str) -> str:
    try:
        # Nearly always there is no such file, which this finds out in a third of the time that a Path takes.
        if not os.path.isfile(path):
            return ""
        with Path(path).open("rb") as file:
            return file.read(_SMALL_FILE_BYTES).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
