"""Facts of git about a folder: its repository, branch, state and changes; and running a program for its lines.

Owns: finding the repository around a folder from git's own files, which also works without git installed, and asking
git for the rest; starting such a program, feeding it, stopping it early, and never leaving it behind. Must not know:
what the facts or lines are used for. The `GIT_*` variables are ignored, since an editor may be started from a git hook
of another repository.
"""

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from subprocess import DEVNULL, PIPE

import anyio
import anyio.to_thread
from anyio.abc import Process
from msgspec import Struct, field

from pattern_acp.domain.errors import WorkspaceError, unwrap_exception_group
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.text_limits import one_line
from pattern_acp.processes.groups import quiet_creation_flags
from pattern_acp.workspace.errors import GitFailedError, SearchFailedError

_SMALL_FILE_BYTES = 4_096
"""Longer than any `.git`, `HEAD` or `commondir` file that git writes."""
_COMMIT = late_pattern(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_NO_BRANCH = ".invalid"
"""HEAD's content for old readers in a repository with the reftable format."""


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
    """The git directory of the working tree at `folder`, or "": `.git`, or the target of a worktree's file `.git`."""
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


_SETTINGS_BYTES = 1_000_000
_RUNS = late_pattern(
    r"^\s*(?:\[[^\]\n]*\]\s*)?(external|textconv|command|clean|smudge|process|fsmonitor|showsignature|program|"
    r"alternaterefscommand|sshcommand|worktree|hookspath|attributesfile)\s*=\s*(\S.*)|^\s*\[\s*(include)",
    re.IGNORECASE | re.MULTILINE,
)
_HARMLESS_VALUE = late_pattern(r"git-lfs\s|(?:true|false|yes|no|on|off|0|1)\s*$", re.IGNORECASE)


def program_setting(folders: Sequence[str]) -> str:
    """Name the first setting by which git's reading commands in these folders would run a program; "" for none.

    Only files of repositories count: the user's own settings are the user's. Blocks for a few small reads.
    """
    for folder in folders:
        common = git_facts(folder).common_dir
        for name in (*_settings_files(common),) if common else ():
            text = _settings_text(name)
            if text is None:
                return "its settings, which cannot be read"
            for match in _RUNS.finditer(text):
                if match[3] or not _HARMLESS_VALUE.match(match[2]):
                    return (match[1] or match[3]).lower()
    return ""


def _settings_files(common: str) -> list[str]:
    found = [os.path.join(common, "config"), os.path.join(common, "config.worktree")]
    for below in ("modules", "worktrees"):
        for folder, _, names in os.walk(os.path.join(common, below)):
            found += [os.path.join(folder, name) for name in names if name in {"config", "config.worktree"}]
    return found


def _settings_text(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        return ""
    except OSError:
        return None
    return text.decode("utf-8", "surrogateescape") if len(text) <= _SETTINGS_BYTES else None


_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "--no-optional-locks")
"""A repository's own settings must not start programs, and names are needed as they are."""

_DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--relative", "--unified=0",
    "--src-prefix=a/", "--dst-prefix=b/", "HEAD", "--",
)  # fmt: skip
_UNTRACKED = ("ls-files", "--others", "--exclude-standard", "--")
_HUNK = late_pattern(rb"@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = late_pattern(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class FileDiff(Struct, frozen=True):
    """One file that differs from the last commit. `path` has forward slashes and is relative to the folder."""

    path: str
    lines: tuple[tuple[int, int], ...] = ()
    """First and last line of each change, in the present text; deleted lines count as the line before them. Empty for a
    new or deleted file, which changed as a whole."""
    is_new: bool = False
    is_deleted: bool = False


class _Diff(Struct):
    """The parts of a diff that were read so far."""

    files: list[FileDiff] = field(default_factory=list[FileDiff])
    path: str = ""
    is_new: bool = False
    is_deleted: bool = False
    lines: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])

    def take(self, line: bytes) -> bool:
        """Read one line; always True, since all are needed. Lines of a file start with `+`, `-` or a backslash."""
        if line.startswith(b"diff --git "):
            self.end_file()
            self.path = _path_of_header(line[11:])
        elif line.startswith(b"new file mode"):
            self.is_new = True
        elif line.startswith(b"deleted file mode"):
            self.is_deleted = True
        elif (hunk := _HUNK.match(line)) is not None:
            first, count = int(hunk[1]), int(hunk[2] or 1)
            self.lines.append((max(first, 1), max(first + count - 1, first, 1)))
        return True

    def end_file(self) -> None:
        """Record the finished file."""
        if self.path:
            lines = () if self.is_new or self.is_deleted else tuple(self.lines)
            self.files.append(FileDiff(self.path, lines, self.is_new, self.is_deleted))
        self.path, self.is_new, self.is_deleted, self.lines = "", False, False, []


async def changed_files(folder: str, environment: Mapping[str, str]) -> tuple[FileDiff, ...]:
    """Return the files below `folder` that differ from the last commit, including those that git does not know yet.

    `environment` is for git; its `GIT_*` variables are left out, since an editor may be started from a git hook of
    another repository.

    Raises:
        WorkspaceError: git is not there, `folder` is in no repository, or the repository has no commit yet.
    """
    clean = {name: value for name, value in environment.items() if not name.upper().startswith("GIT_")}
    diff, unknown = _Diff(), list[FileDiff]()

    def take_unknown(line: bytes) -> bool:
        unknown.append(FileDiff(_unquoted(line), is_new=True))
        return True

    await _git(_DIFF, folder, clean, diff.take)
    diff.end_file()
    await _git(_UNTRACKED, folder, clean, take_unknown)
    return (*diff.files, *unknown)


async def _git(
    arguments: Sequence[str], folder: str, environment: Mapping[str, str], take: Callable[[bytes], bool]
) -> None:
    try:
        end = await run_lines(("git", *_SAFE, *arguments), folder, None, take, environment=environment)
    except WorkspaceError as error:
        raise GitFailedError("git could not be started, so it is not known what changed; name a path.") from error
    if end.exit_code != 0:
        if not (await anyio.to_thread.run_sync(git_facts, folder)).root:
            raise GitFailedError("This folder is in no git repository, so name a path or symbol instead.")
        first = next(iter(end.stderr.strip().splitlines()), "no reason given")
        raise GitFailedError(f"git could not say what changed ({first}); name a path or symbol instead.")


def _path_of_header(names: bytes) -> str:
    """The path in `a/PATH b/PATH`; both are the same without renames, so a space in it is not the one between them."""
    half = names[: (len(names) - 1) // 2]
    return _unquoted(half).removeprefix("a/")


def _unquoted(name: bytes) -> str:
    """Unquote a name as git writes it: with escapes, when it contains a quote, backslash or control character."""
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(_unescaped, name[1:-1])
    return name.decode("utf-8", "surrogateescape")


def _unescaped(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return bytes((int(code, 8) & 0xFF,)) if len(code) == 3 else _LETTERS.get(code, code)


MAX_LINE_BYTES = 64_000_000
"""A line of this length is a file of the largest size that is searched, escaped as JSON."""

_STOP_SECONDS = 2.0


class ProcessEnd(Struct, frozen=True):
    """The end of the program; `exit_code` is None when it was stopped because enough was read."""

    exit_code: int | None
    stderr: str = ""


async def run_lines(
    command: Sequence[str],
    cwd: str,
    stdin: AsyncIterator[bytes] | None,
    take: Callable[[bytes], bool],
    *,
    environment: Mapping[str, str] | None = None,
) -> ProcessEnd:
    """Run `command`, feed it `stdin` and pass every line of its output to `take`, until that returns False.

    It runs in this process's environment unless another one is passed.

    Raises:
        WorkspaceError: the program could not be started.
    """
    try:
        process = await anyio.open_process(
            command,
            stdin=DEVNULL if stdin is None else PIPE,
            cwd=cwd if await anyio.to_thread.run_sync(os.path.isdir, cwd) else None,
            env=environment,
            creationflags=quiet_creation_flags(),
        )
    except OSError as error:
        raise SearchFailedError(f"The search program could not be started: {error.strerror}.") from error
    try:
        return await _talk(process, stdin, take)
    finally:
        await _stop(process)


async def _talk(process: Process, stdin: AsyncIterator[bytes] | None, take: Callable[[bytes], bool]) -> ProcessEnd:
    is_whole = False
    try:
        async with anyio.create_task_group() as feeding:
            if stdin is not None:
                feeding.start_soon(_feed, process, stdin)
            is_whole = await _read_lines(process, take)
            # A program that has ended, or has said enough, wants no more.
            feeding.cancel_scope.cancel()
    except BaseExceptionGroup as errors:
        raise unwrap_exception_group(errors) from errors
    if not is_whole:
        return ProcessEnd(None)
    stderr = b""
    if process.stderr is not None:
        async for chunk in process.stderr:
            stderr = (stderr + chunk)[:10_000]
    return ProcessEnd(await process.wait(), stderr.decode("utf-8", "replace"))


async def _feed(process: Process, stdin: AsyncIterator[bytes]) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        # Where it died before it read everything, its exit code says so.
        async for data in stdin:
            await process.stdin.send(data)
        await process.stdin.aclose()


async def _read_lines(process: Process, take: Callable[[bytes], bool]) -> bool:
    """Read lines; return whether the output was read to its end."""
    if process.stdout is None:
        return True
    buffer = bytearray()
    async for chunk in process.stdout:
        buffer += chunk
        if b"\n" not in chunk:
            if len(buffer) > MAX_LINE_BYTES:
                return False
            continue
        *lines, rest = buffer.split(b"\n")
        buffer = rest
        if not all(take(bytes(line)) for line in lines):
            return False
    return True


async def _stop(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    with anyio.move_on_after(_STOP_SECONDS, shield=True):
        await process.aclose()


SECONDS = 0.2
"""Longest wait of a turn for git (issue 4, section 7)."""

_SAFE_STATUS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
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
                [git, *_SAFE_STATUS, *_STATUS],
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
