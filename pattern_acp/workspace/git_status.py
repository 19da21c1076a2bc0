"""State of a working tree according to git.

Owns: asking git, within a time limit, without letting the repository run anything, and reading the answer. Must not
know: who reads it. The facts of `workspace.git` need no process; counts of changed files do.
"""

import shutil
import subprocess
from collections.abc import Mapping

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.domain.text_limits import one_line
from pattern_acp.processes.groups import quiet_creation_flags
from pattern_acp.workspace.git import git_facts

SECONDS = 0.2
"""Longest wait of a turn for git (issue 4, section 7)."""

_SAFE = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
"""A repository can name a program that `git status` starts; and a lock of ours would be in the user's way."""

_STATUS = ("status", "--porcelain=v2", "--branch", "-z")


class GitStatus(Struct, frozen=True):
    """A working tree: its branch (empty on a detached HEAD), and how many files are in which state.

    `paths` are absolute, of everything that differs from the last commit, untracked folders as one.
    """

    branch: str = ""
    ahead: int = 0
    behind: int = 0
    staged: int = 0
    changed: int = 0
    untracked: int = 0
    conflicts: int = 0
    paths: tuple[str, ...] = ()

    def sentence(self) -> str:
        """The state in a few words, as `branch main, 2 ahead, 1 staged, 3 changed`."""
        counts = (
            (self.ahead, "ahead of its upstream"),
            (self.behind, "behind it" if self.ahead else "behind its upstream"),
            (self.conflicts, "in conflict"),
            (self.staged, "staged"),
            (self.changed, "changed"),
            (self.untracked, "untracked"),
        )
        words = [f"branch {one_line(self.branch)}" if self.branch else "no branch (detached HEAD)"]
        words += [f"{count:,} {what}" for count, what in counts if count]
        return ", ".join(words if self.paths else [*words, "clean"])


async def git_status(cwd: str, environment: Mapping[str, str], *, seconds: float = SECONDS) -> GitStatus | None:
    """The state of the repository around `cwd`; None without one, without git, or when it takes longer."""

    def look() -> tuple[str | None, str]:
        root = git_facts(cwd).root
        # Every folder of PATH is searched, so only if there is something to ask git about.
        return (shutil.which("git", path=environment.get("PATH", "")) if root else None), root

    git, root = await anyio.to_thread.run_sync(look)
    if git is None:
        return None
    # GIT_* of the environment may be those of another repository, whose hook started the editor.
    own = {name: value for name, value in environment.items() if not name.upper().startswith("GIT_")}
    with anyio.move_on_after(seconds):
        try:
            done = await anyio.run_process(
                [git, *_SAFE, *_STATUS],
                cwd=root,
                env={**own, "LC_ALL": "C"},
                check=False,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                creationflags=quiet_creation_flags(),
            )
        except OSError:
            return None
        return read_status(done.stdout.decode("utf-8", "replace"), root) if done.returncode == 0 else None
    return None


def read_status(output: str, root: str) -> GitStatus:
    """Read `git status --porcelain=v2 --branch -z` (git-status(1), "Porcelain Format Version 2")."""
    branch, ahead, behind, staged, changed, untracked, conflicts = "", 0, 0, 0, 0, 0, 0
    paths: list[str] = []
    entries = iter(output.split("\0"))
    for entry in entries:
        kind, _, rest = entry.partition(" ")
        match kind:
            case "#" if rest.startswith("branch.head ") and not rest.endswith(" (detached)"):
                branch = rest.removeprefix("branch.head ")
            case "#" if rest.startswith("branch.ab "):
                ahead, behind = (abs(int(number)) for number in rest.split()[1:3])
            case "1" | "2":
                staged += rest[0] != "."
                changed += rest[1] != "."
                paths.append(rest.split(" ", 7 if kind == "1" else 8)[-1])
                if kind == "2":
                    next(entries, None)  # the name before the renaming
            case "u":
                conflicts += 1
                paths.append(rest.split(" ", 9)[-1])
            case "?":
                untracked += 1
                paths.append(rest)
            case _:
                pass
    absolute = tuple(f"{root.rstrip('/')}/{path}" for path in paths)
    return GitStatus(branch, ahead, behind, staged, changed, untracked, conflicts, absolute)
