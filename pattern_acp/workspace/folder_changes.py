"""Changes of a command in folders: a look before, a look after, and the difference with the earlier states.

Owns: which files are inspected, and the source of an earlier state. Must not know: checkpoints, sessions. In a git
repository git names the differing files, so only those are read; clean ones come from git's own objects. Elsewhere the
folder is walked, up to a number of files and bytes. Ignored files and `.git` are skipped. A repository's settings start
nothing: status and objects are asked for without hooks, monitors and filters, and a file that git stores in another
form than on the disk is left out.
"""

import os
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import Clock, SystemClock
from pattern_acp.domain.tool_calls import MISSING, FileState
from pattern_acp.processes.groups import quiet_creation_flags
from pattern_acp.workspace.git import git_facts
from pattern_acp.workspace.snapshots import FILE_BYTES, TOO_LARGE, Captured, canonical_path, capture, capture_in_place
from pattern_acp.workspace.walk import in_thread, is_cache, walk_files

GIT_SECONDS = 2.0
"""Longest time for one question to git; then the folder counts as not inspected."""

WALKED_FILES = 5_000
"""Limit on inspected files in a folder without git."""

HELD_BYTES = 20_000_000
"""Limit on bytes in memory while a command runs, in case it changes their files."""

_TICK_NS = 100_000_000
"""Far more than the step of file systems' clocks: a file written so shortly before a look may be written again with the
same time."""

MOST_CHANGES = 500
"""Limit on recorded changes of one command."""

_SAFE = (
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.quotePath=false",
)
_CONVERTING = ("filter", "eol", "working-tree-encoding", "ident")
_NOT_HELD = f"the folder has no git, and more than {HELD_BYTES // 1_000_000} MB or {WALKED_FILES:,} files"
_CONVERTED = "git stores it in another form than it had on the disk"
_LINK, _PROGRAM = "120000", "100755"

Signature = tuple[int, int, int, int]
"""Mode, size, time of change and of the inode's change: a difference means that a file may be another."""


class FolderLook(Struct):
    """State of one root."""

    root: str
    repository: str = ""
    commit: str = ""
    signatures: dict[str, Signature] = field(default_factory=dict[str, Signature])
    held: dict[str, Captured] = field(default_factory=dict[str, Captured])
    at_ns: int = 0
    """Time of the look."""
    problem: str = ""
    """The reason why nothing is known of it; empty otherwise."""


class FoundChanges(Struct, frozen=True):
    """Changes: path, state before, state after; and paths with unknown changes, each with a clause.

    A path has the name of `canonical_path` at the look. A later link on the way to it does not change it.
    """

    files: tuple[tuple[str, Captured, Captured], ...] = ()
    problems: tuple[tuple[str, str], ...] = ()


class FolderChanges:
    """Inspects folders. `environment` is for git, `git_seconds` the limit for one question to it."""

    def __init__(
        self, environment: Mapping[str, str], *, git_seconds: float = GIT_SECONDS, clock: Clock | None = None
    ) -> None:
        # GIT_* may be those of another repository, whose hook started the editor.
        own = {name: value for name, value in environment.items() if not name.upper().startswith("GIT_")}
        self._environment = {**own, "LC_ALL": "C"}
        self._git = shutil.which("git", path=environment.get("PATH", ""))
        self._git_seconds = git_seconds
        self._clock = clock or SystemClock()

    async def look(self, roots: Sequence[str]) -> list[FolderLook]:
        """Inspect the folders as they are now; never raises."""
        return [await self._look_at(root, hold=True) for root in roots]

    async def compare(self, looks: Sequence[FolderLook]) -> FoundChanges:
        """Compare the folders with `looks`; never raises."""
        files: dict[str, tuple[Captured, Captured]] = {}
        problems: list[tuple[str, str]] = []
        for before in looks:
            after = await self._look_at(before.root, hold=False)
            problem = before.problem or after.problem
            if problem or before.repository != after.repository:
                problems.append(
                    (
                        before.root,
                        f"what a command changed there is not known: {problem or 'it is another repository now'}",
                    )
                )
                continue
            changed = await self._in_git(before, after) if before.repository else _in_walk(before, after)
            files |= changed
        if len(files) > MOST_CHANGES:
            problems.append(
                (looks[0].root, f"a command changed {len(files):,} files, of which {MOST_CHANGES} are saved")
            )
        kept = list(files.items())[:MOST_CHANGES]
        return FoundChanges(tuple((path, *states) for path, states in kept), tuple(problems))

    async def _look_at(self, root: str, *, hold: bool) -> FolderLook:
        repository = (await anyio.to_thread.run_sync(git_facts, root)).root if self._git else ""
        look = FolderLook(root, repository, at_ns=self._clock.now_ms() * 1_000_000)
        if not repository:
            return await in_thread(lambda stop: _walk(look, stop, hold=hold))
        status = await self._ask(
            repository, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--", root
        )
        if status is None:
            return replace(look, problem=f"git did not answer within {self._git_seconds:.0f} s")
        head = await self._ask(repository, "rev-parse", "-q", "--verify", "HEAD")
        look.commit = (head or b"").decode("ascii", "replace").strip()
        names = [entry[3:] for entry in status.split(b"\0") if entry]
        paths = _without_caches(root, repository, names)
        await anyio.to_thread.run_sync(_hold, look, paths)
        return look

    async def _in_git(self, before: FolderLook, after: FolderLook) -> dict[str, tuple[Captured, Captured]]:
        paths = dict.fromkeys([*before.held, *after.held])
        if before.commit and after.commit and before.commit != after.commit:
            moved = await self._ask(
                before.repository,
                "diff",
                "--name-only",
                "--no-renames",
                "--no-ext-diff",
                "-z",
                before.commit,
                after.commit,
            )
            names = [name for name in (moved or b"").split(b"\0") if name]
            paths |= dict.fromkeys(_without_caches(before.root, before.repository, names))
        changed: dict[str, tuple[Captured, Captured]] = {}
        clean: list[str] = []
        for path in paths:
            now = after.held.get(path) or await anyio.to_thread.run_sync(capture_in_place, path)
            was = before.held.get(path)
            if was is None:
                clean.append(path)
                changed[path] = (Captured(MISSING), now)
            elif was.state != now.state:
                changed[path] = (was, now)
        for path, was in (await self._from_commit(before, clean[: MOST_CHANGES + 1])).items():
            changed[path] = (_with_mode_of(was, changed[path][1]), changed[path][1])
        return {path: states for path, states in changed.items() if states[0].state != states[1].state}

    async def _from_commit(self, look: FolderLook, paths: Sequence[str]) -> dict[str, Captured]:
        """The states of clean files, from the commit; a path that is not there was missing."""
        if not paths or not look.commit:
            return {}
        names = [Path(path).relative_to(look.repository).as_posix() for path in paths]
        listed = await self._ask(look.repository, "ls-tree", "-z", "--full-tree", look.commit, "--", *names)
        entries: dict[str, tuple[str, str]] = {}
        for line in (listed or b"").split(b"\0"):
            about, _, name = line.decode("utf-8", "surrogateescape").partition("\t")
            if name and about.split()[1] == "blob":
                entries[name] = (about.split()[0], about.split()[2])
        converted = await self._converted(look.repository, list(entries))
        found: dict[str, Captured] = {}
        for path, name in zip(paths, names, strict=True):
            if name in entries:
                mode, blob = entries[name]
                found[path] = await self._object(look.repository, mode, blob, converted=name in converted)
        return found

    async def _object(self, repository: str, mode: str, blob: str, *, converted: bool) -> Captured:
        content = await self._ask(repository, "cat-file", "blob", blob)
        if content is None:
            return Captured(FileState("file", why_not="git did not give it"))
        if mode == _LINK:
            return Captured(FileState("link", digest=content.decode("utf-8", "surrogateescape")))
        bits = 0o755 if mode == _PROGRAM else 0o644
        if converted:
            return Captured(FileState("file", bits, len(content), why_not=_CONVERTED))
        if len(content) > FILE_BYTES:
            return Captured(FileState("file", bits, len(content), why_not=TOO_LARGE))
        return Captured(FileState("file", bits, len(content), sha256_hex(content)), content)

    async def _converted(self, repository: str, names: Sequence[str]) -> set[str]:
        """The files that git writes to the disk in another form than it stores."""
        if not names:
            return set()
        crlf = await self._ask(repository, "config", "--get", "core.autocrlf")
        if (crlf or b"").strip() in {b"true", b"1", b"yes", b"on"}:
            return set(names)
        told = await self._ask(repository, "check-attr", "-z", *_CONVERTING, "--", *names)
        if told is None:
            return set(names)
        fields = told.decode("utf-8", "surrogateescape").split("\0")
        triples = zip(fields[::3], fields[1::3], fields[2::3], strict=False)
        return {
            name
            for name, attribute, value in triples
            if value not in {"unspecified", "unset"} and (attribute, value) != ("eol", "lf")
        }

    async def _ask(self, repository: str, *arguments: str) -> bytes | None:
        """The answer of git; None when it fails or takes too long."""
        if self._git is None:
            return None
        with anyio.move_on_after(self._git_seconds):
            try:
                done = await anyio.run_process(
                    [self._git, *_SAFE, *arguments],
                    cwd=repository,
                    env=self._environment,
                    check=False,
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    creationflags=quiet_creation_flags(),
                )
            except OSError:
                return None
            return done.stdout if done.returncode == 0 else None
        return None


def _with_mode_of(was: Captured, now: Captured) -> Captured:
    """The stored content, with the permission bits that git does not store taken from the present file."""
    if was.state.kind != "file" or now.state.kind != "file" or not now.state.mode:
        return was
    runs = was.state.mode & 0o111
    bits = now.state.mode | (now.state.mode & 0o444) >> 2 if runs else now.state.mode & ~0o111
    return replace(was, state=replace(was.state, mode=bits))


def _hold(look: FolderLook, paths: Sequence[str]) -> None:
    held = 0
    for path in paths:
        if not path.endswith("/"):
            captured = capture_in_place(path)
            held += len(captured.content or b"")
            if held > HELD_BYTES:
                captured = Captured(replace(captured.state, digest="", why_not=_TOO_MANY_CHANGED))
            look.held[path] = captured


_TOO_MANY_CHANGED = f"more than {HELD_BYTES // 1_000_000} MB of files differ from the last commit"


def _without_caches(root: str, repository: str, names: Sequence[bytes]) -> list[str]:
    """Absolute paths of names in a repository, but for caches below a root."""
    paths = [str(Path(repository) / name.decode("utf-8", "surrogateescape")) for name in names]
    return [path for path in paths if not is_cache(os.path.relpath(path, root))]


def _walk(look: FolderLook, stop: threading.Event, *, hold: bool) -> FolderLook:
    held = 0
    work = (entry for entry in walk_files(look.root, stop) if not is_cache(entry.name))
    for number, entry in enumerate(work):
        if number >= WALKED_FILES:
            look.problem = f"it has no git, and more than {WALKED_FILES:,} files"
            return look
        path = canonical_path(entry.entry.path)
        try:
            found = Path(path).lstat()
        except OSError:
            continue
        look.signatures[path] = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        if hold and (entry.is_link or held + found.st_size <= HELD_BYTES):
            look.held[path] = capture(path)
            held += found.st_size
    return look


def _may_be_another(look: FolderLook, path: str) -> bool:
    """Return whether a file may have changed since the look although its size and times are the same."""
    return path in look.held and max(look.signatures[path][2:]) >= look.at_ns - _TICK_NS


def _in_walk(before: FolderLook, after: FolderLook) -> dict[str, tuple[Captured, Captured]]:
    changed: dict[str, tuple[Captured, Captured]] = {}
    for path in dict.fromkeys([*before.signatures, *after.signatures]):
        if before.signatures.get(path) == after.signatures.get(path) and not _may_be_another(before, path):
            continue
        now = after.held.get(path) or capture_in_place(path)
        if path not in before.signatures:
            was = Captured(MISSING)
        else:
            was = before.held.get(path) or Captured(FileState("file", why_not=_NOT_HELD))
        if was.state != now.state:
            changed[path] = (was, now)
    return changed
