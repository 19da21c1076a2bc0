"""A real folder that shows what an overlay shows, so that commands can run on it.

Owns: making the folder when the first command runs, carrying changes of the overlay in and those of commands out, and
taking it away, also after a kill. Must not know: who runs commands, policy, how an overlay lands.

Where Linux lets a command have mounts of its own, it is the user's folder itself, over which each command mounts what
the worker changed (overlayfs): nothing is copied, however large the folder, and what git ignores is there, too.

Where it does not, the folder of a git repository is a worktree at a temporary commit on a detached head: the user's
index is copied, so the state of the working tree, unsaved texts included, costs no more than what differs from the last
commit. Index, branches, stash and hooks of the user are not touched. Elsewhere the folder is copied, by reference where
the file system can, up to a number of files and bytes. Folders of dependencies are links to the user's own.
"""

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import is_within
from pattern_acp.processes.confinement import Confinement, Layers
from pattern_acp.processes.groups import quiet_creation_flags
from pattern_acp.workspace.errors import FileMissingError, GitFailedError, NotAFileError, TooLargeError
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.git import git_facts, program_setting
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.mounted_tree import (
    GIT_SECONDS,
    SAFE_GIT,
    SHARED,
    LaunchedGit,
    MountedTree,
    is_gone,
    mount_tree,
    names_in,
    remove_work,
)
from pattern_acp.workspace.overlay import Content, OverlayChange, OverlayFileSystem, content_of
from pattern_acp.workspace.snapshots import is_repository
from pattern_acp.workspace.walk import is_cache

PREFIX = "pattern-acp-worker-"
"""Start of the names of the folders, in the system's folder for temporary files."""

NOTE = "owner.json"
"""File beside a tree that names the process it belongs to."""

COPIED_FILES = 20_000
"""Most files of a folder without git that are copied."""

COPIED_BYTES = 500_000_000
"""Most bytes of a folder without git that are copied, and of changed files in a repository."""

BROUGHT_BACK_FILES = 2_000
"""Most changed files that are carried out of a tree."""

FILE_BYTES = 10_000_000
"""Largest file that is carried out of a tree; a landing keeps what was there before, as a checkpoint does."""

_IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "pattern-acp"), ("EMAIL", "pattern-acp@localhost"))
}

_CLONE = 0x40049409
"""`FICLONE` (ioctl_ficlonerange(2))."""


class TreeOwner(Struct, frozen=True):
    """The process that makes trees; the mark tells two uses of one id apart."""

    pid: int
    mark: str
    host: str


class _Note(Struct, frozen=True):
    owner: TreeOwner
    common_dir: str
    """The repository that has a worktree in the folder; empty for none."""


class WorkerTree:
    """The tree of one overlay. `root` is the folder that it shows, `environment` is for git."""

    def __init__(
        self,
        root: str,
        overlay: OverlayFileSystem,
        base: FileSystem,
        environment: Mapping[str, str],
        owner: TreeOwner,
        *,
        known: Iterable[str] = (),
        confinement: Confinement | None = None,
    ) -> None:
        """`known` are paths whose texts an editor may have changed and not saved, beside what the overlay read.

        `confinement` starts commands with mounts of their own, where that works.
        """
        self._root, self._overlay, self._base, self._owner = root, overlay, base, owner
        self._environment = {
            **{name: value for name, value in environment.items() if not name.upper().startswith("GIT_")},
            "LC_ALL": "C",
        }
        self._known = tuple(known)
        self._confinement = confinement
        self._lock = anyio.Lock()
        self._made: _Git | _Copy | MountedTree | None = None
        self._seen_ns = 0
        """Time from which on changes of the user's files are unknown to the commands."""
        self._carried: dict[str, Content] = {}
        """Files that the overlay has changed at some time, as they were before."""
        self._files = LocalFileSystem()

    @property
    def path(self) -> str:
        """The folder that shows `root` to commands; empty until one needed it."""
        if isinstance(self._made, MountedTree):
            return self._root
        return self._made.path if self._made is not None else ""

    @property
    def folder(self) -> str:
        """The folder that everything of the tree is in; empty until a command needed it."""
        return self._made.folder if self._made is not None else ""

    @property
    def layers(self) -> Layers | None:
        """Folders that commands mount to see the tree at `path`; None where it is there for everybody."""
        return self._made.layers if isinstance(self._made, MountedTree) else None

    def inside(self, path: str) -> str:
        """The place of a path below the root, as commands see it."""
        return os.path.normpath(os.path.join(self.path, os.path.relpath(path, self._root)))

    async def bring_in(self) -> str:
        """Make the tree show what the overlay shows, and return its path.

        Raises:
            WorkspaceError: the tree could not be made, and why.
        """
        async with self._lock:
            if self._made is None:
                unsaved = await self._unsaved()
                found = await self._confinement.find() if self._confinement is not None else None
                mounts = found is not None and found.namespaces
                self._made = await anyio.to_thread.run_sync(partial(self._make, unsaved, mounts=mounts))
                for path, text in unsaved.items():
                    await self._overlay.note_base(path, text)
                    if isinstance(self._made, MountedTree):
                        await self._write(path, text, 0)
            if not self._seen_ns or isinstance(self._made, MountedTree):
                self._seen_ns = await anyio.to_thread.run_sync(_now_ns, Path(self._made.folder, NOTE))
            shown = {change.path: change for change in self._overlay.all_changes()}
            # What the overlay no longer changes is as it was again.
            dropped = [(path, before) for path, before in self._carried.items() if path not in shown]
            shown |= {path: OverlayChange(path, None, before) for path, before in dropped}
            for change in shown.values():
                if is_within(change.path, [self._root]):
                    self._carried.setdefault(change.path, change.before)
                    await self._write(change.path, change.after, change.mode)
            return self.path

    async def bring_out(self) -> None:
        """Take what commands changed in the tree into the overlay.

        Raises:
            WorkspaceError: more was changed than can be taken; the overlay is as it was.
        """
        made = self._made
        if made is None:
            return
        async with self._lock:
            written = [change.path for change in self._overlay.all_changes() if is_within(change.path, [self._root])]
            found = await anyio.to_thread.run_sync(_read_changes, made, self._root, written)
            for path, (content, mode) in found.items():
                if path not in written:
                    # What the base has by now may be newer than what the command saw.
                    await self._overlay.note_base(path, await anyio.to_thread.run_sync(_seen, path, self._seen_ns))
                await self._overlay.put(path, content, mode)
            for change in self._overlay.all_changes():
                self._carried.setdefault(change.path, change.before)

    async def close(self) -> None:
        """Take the tree away; what cannot be removed now is found later (`leftovers`)."""
        made, self._made = self._made, None
        if made is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_tree, made.folder)

    async def _unsaved(self) -> dict[str, str]:
        """Texts of the base that differ from the disk, by paths below the root."""
        found: dict[str, str] = {}
        for path in dict.fromkeys((*self._overlay.reads(), *self._known)):
            if not is_within(path, [self._root]):
                continue
            with suppress(WorkspaceError):
                file = await self._base.read_text_file(path)
                if file.source == "editor" and file.text != await self._on_disk(path):
                    found[path] = file.text
        return found

    async def _on_disk(self, path: str) -> str | None:
        try:
            return (await self._files.read_text_file(path)).text
        except FileMissingError:
            return None

    def _make(self, unsaved: Mapping[str, str], *, mounts: bool) -> "_Git | _Copy | MountedTree":
        folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        facts = git_facts(self._root)
        (folder / NOTE).write_bytes(msgspec.json.encode(_Note(self._owner, facts.common_dir)))
        git = shutil.which("git", path=self._environment.get("PATH", ""))
        try:
            if mounts and self._confinement is not None and (git is not None or not facts.root):
                made = mount_tree(
                    folder, self._root, facts, LaunchedGit(self._confinement, git or "", self._environment)
                )
                if made is not None:
                    return made
            if facts.root and git is not None and not program_setting((self._root,)):
                run = _Runner(git, self._environment, folder)
                return _worktree(run, facts.root, self._root, unsaved)
            return _copy(folder, self._root, unsaved)
        except BaseException as error:
            remove_tree(str(folder))
            if isinstance(error, OSError):
                sentence = f"The folder for the worker's commands could not be made: {error.strerror or error}."
                raise WorkspaceError(sentence) from error
            raise

    async def _write(self, path: str, content: Content, mode: int) -> None:
        if self._made is None:
            return
        target = str(Path(self._made.path, Path(path).relative_to(self._root)))
        await anyio.to_thread.run_sync(self._unshare, target)
        if content is None:
            await anyio.to_thread.run_sync(self._made.remove, target)
            return
        if isinstance(self._made, MountedTree):
            await anyio.to_thread.run_sync(self._made.take_up, target)
        if isinstance(content, bytes):
            await anyio.to_thread.run_sync(_write_bytes, target, content)
        elif await self._on_disk(target) != content:
            await self._files.write_text_file(target, content)
        if mode:
            await anyio.to_thread.run_sync(lambda: Path(target).chmod(mode))

    def _unshare(self, target: str) -> None:
        """Replace a link to a folder of the user's on the way to `target` by a copy of the folder."""
        if self._made is None:
            return
        for link in self._made.shared:
            place = os.path.join(self._made.path, link)
            if Path(place).is_symlink() and is_within(target, [place]):
                source = os.path.realpath(place)
                Path(place).unlink()
                _copy_folder(source, place)


class _Git(Struct, frozen=True):
    """A tree that is a worktree. `shared` are names of links, relative to `path`."""

    folder: str
    path: str
    shared: tuple[str, ...]
    run: "_Runner"
    top: str
    commit: str

    def remove(self, target: str) -> None:
        """Let there be no file."""
        Path(target).unlink(missing_ok=True)

    def changed(self) -> Iterator[str]:
        """Names below `path` that differ from the commit."""
        run, here = self.run, os.path.relpath(self.path, self.top)
        compare = ("diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", "--ignore-submodules=all", self.commit)
        for words in (compare, ("ls-files", "-z", "--others", "--exclude-standard")):
            for name in names_in(run(self.top, *words, "--", here)):
                # Names of diff are the repository's, also below a folder; those of ls-files are the folder's.
                yield os.path.relpath(os.path.join(self.top, name), self.path)


class _Copy(Struct, frozen=True):
    """A tree that is a copy."""

    folder: str
    path: str
    shared: tuple[str, ...]
    signatures: dict[str, tuple[int, int, int]]

    def remove(self, target: str) -> None:
        """Let there be no file."""
        Path(target).unlink(missing_ok=True)

    def changed(self) -> Iterator[str]:
        """Names below `path` that differ from what was copied."""
        now = _signatures(self.path)
        yield from (name for name in now if self.signatures.get(name) != now[name])
        yield from (name for name in self.signatures if name not in now)


class _Runner(Struct, frozen=True):
    """Runs git for one tree; `index` is a copy of the user's."""

    git: str
    environment: Mapping[str, str]
    folder: Path

    @property
    def index(self) -> Path:
        """The file of the copy."""
        return self.folder / "index"

    def __call__(self, cwd: str, *words: str, stdin: bytes = b"", copied_index: bool = False) -> bytes:
        """Run git, and return its output. Raises GitFailedError where it failed, and its reason."""
        own = {**_IDENTITY, "GIT_INDEX_FILE": str(self.index)} if copied_index else {}
        try:
            done = subprocess.run(  # noqa: S603  # git, with names after `--` or on stdin
                (self.git, *SAFE_GIT, *words),
                cwd=cwd,
                env={**self.environment, **own},
                input=stdin,
                capture_output=True,
                timeout=GIT_SECONDS,
                check=False,
                creationflags=quiet_creation_flags(),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitFailedError(f"git could not {words[0]} for a worker's commands: {error}.") from error
        if done.returncode:
            reason = next(iter(done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]), "no reason given")
            raise GitFailedError(f"git could not {words[0]} for a worker's commands: {reason}.")
        return done.stdout


def _worktree(run: _Runner, repository: str, root: str, unsaved: Mapping[str, str]) -> _Git:
    head = _head(run, repository)
    index = Path(repository, os.fsdecode(run(repository, "rev-parse", "--git-path", "index").rstrip(b"\n")))
    if index.is_file():
        shutil.copyfile(index, run.index)
    status = ("status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
    entries = names_in(run(repository, *status, copied_index=True))
    # The second letter compares the working tree with the index, which was copied as it is. A nested repository ends
    # with a slash.
    changed = [name[3:] for name in entries if name[1] != " " and not name.endswith("/")]
    wanted = b"".join(os.fsencode(name) + b"\0" for name in _within_limits(repository, changed))
    run(repository, "update-index", "-z", "--add", "--remove", "--stdin", stdin=wanted, copied_index=True)
    for path, text in unsaved.items():
        name = os.path.relpath(path, repository)
        data = text.encode("utf-8", "surrogatepass")
        blob = run(repository, "hash-object", "-w", "--stdin", f"--path={name}", stdin=data).decode().strip()
        entry = f"{'100755' if os.access(path, os.X_OK) else '100644'},{blob},{name}"
        run(repository, "update-index", "--add", "--cacheinfo", entry, copied_index=True)
    tree = run(repository, "write-tree", copied_index=True).decode().strip()
    parent = ("-p", head) if head else ()
    words = ("commit-tree", tree, *parent, "-m", "State of the working tree")
    commit = run(repository, *words, copied_index=True).decode().strip()
    top = str(run.folder / Path(repository).name)
    run(repository, "worktree", "add", "--detach", "--force", top, commit)
    path = os.path.normpath(os.path.join(top, os.path.relpath(root, repository)))
    Path(path).mkdir(parents=True, exist_ok=True)
    modules = names_in(run(top, "ls-files", "-z", "--stage")) if Path(top, ".gitmodules").is_file() else ()
    submodules = [entry.partition("\t")[2] for entry in modules if entry.startswith("160000")]
    inside = [os.path.relpath(os.path.join(top, name), path) for name in submodules]
    shared = _share(root, path, (*SHARED, *(name for name in inside if not name.startswith(os.pardir))))
    return _Git(str(run.folder), path, shared, run, top, commit)


def _head(run: _Runner, repository: str) -> str:
    try:
        return run(repository, "rev-parse", "-q", "--verify", "HEAD^{commit}").decode().strip()
    except GitFailedError:
        # There is no commit yet.
        return ""


def _within_limits(repository: str, names: Sequence[str]) -> Iterator[str]:
    left = COPIED_BYTES
    for name in names:
        try:
            size = os.lstat(os.path.join(repository, name)).st_size
        except OSError:
            size = 0
        if size <= FILE_BYTES and size <= left:
            left -= size
            yield name


def _copy(folder: Path, root: str, unsaved: Mapping[str, str]) -> _Copy:
    path = str(folder / Path(root).name)
    _copy_folder(root, path)
    for each, text in unsaved.items():
        _write_bytes(os.path.join(path, os.path.relpath(each, root)), text.encode("utf-8", "surrogatepass"))
    shared = _share(root, path, SHARED)
    return _Copy(str(folder), path, shared, _signatures(path))


def _copy_folder(source: str, target: str) -> None:
    files, size = 0, 0
    for above, folders, names in os.walk(source):
        if above == source:
            folders[:] = [name for name in folders if name not in {*SHARED, ".git"}]
        place = os.path.normpath(os.path.join(target, os.path.relpath(above, source)))
        Path(place).mkdir(parents=True, exist_ok=True)
        for name in (*names, *(each for each in folders if Path(above, each).is_symlink())):
            from_, to = os.path.join(above, name), os.path.join(place, name)
            facts = os.lstat(from_)
            files, size = files + 1, size + facts.st_size
            if files > COPIED_FILES or size > COPIED_BYTES:
                raise TooLargeError(
                    f"{source} is in no git repository and has more than {COPIED_FILES:,} files or "
                    f"{COPIED_BYTES // 1_000_000} MB, so commands of a worker cannot run on a copy of it."
                )
            if stat.S_ISLNK(facts.st_mode):
                Path(to).symlink_to(Path(from_).readlink())
            elif stat.S_ISREG(facts.st_mode):
                _copy_file(from_, to)


def _copy_file(source: str, target: str) -> None:
    if os.name == "posix":
        import fcntl

        with suppress(OSError), Path(source).open("rb") as old, Path(target).open("wb") as new:
            fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
            shutil.copystat(source, target)
            return
    shutil.copy2(source, target)


def _share(root: str, path: str, names: Iterable[str]) -> tuple[str, ...]:
    """Link folders of the user's into a tree where it has none of that name, or an empty one; the names of links."""
    shared: list[str] = []
    for name in names:
        source, link = Path(root, name), Path(path, name)
        with suppress(OSError):
            if link.is_dir() and not link.is_symlink():
                link.rmdir()
            if source.is_dir() and not os.path.lexists(link):
                link.symlink_to(source, target_is_directory=True)
                shared.append(name)
    return tuple(shared)


def _signatures(path: str) -> dict[str, tuple[int, int, int]]:
    found: dict[str, tuple[int, int, int]] = {}
    for above, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not is_repository(os.path.join(above, name))]
        for name in names:
            whole = os.path.join(above, name)
            with suppress(OSError):
                facts = os.lstat(whole)
                found[os.path.relpath(whole, path)] = (facts.st_mode, facts.st_size, facts.st_mtime_ns)
    return found


def _read_changes(
    made: _Git | _Copy | MountedTree, root: str, written: Iterable[str]
) -> dict[str, tuple[Content, int]]:
    """Contents and permission bits of what commands changed, and of `written` files, by paths of the base."""
    shared = [os.path.join(made.path, name) for name in made.shared]
    left = (name for name in made.changed() if not is_cache(name))
    names = list(dict.fromkeys((*(os.path.relpath(path, root) for path in written), *left)))
    outside = [name for name in names if name.startswith(os.pardir)]
    if len(names) > BROUGHT_BACK_FILES:
        raise TooLargeError(
            f"The command left {len(names):,} changed files, and at most {BROUGHT_BACK_FILES:,} are taken over; remove "
            "what is not wanted, or have .gitignore name it."
        )
    found: dict[str, tuple[Content, int]] = {}
    for name in names:
        place = os.path.join(made.path, name)
        if name in outside or is_within(place, shared):
            continue
        path = os.path.normpath(os.path.join(root, name))
        try:
            facts = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            found[path] = None, 0
            continue
        if is_gone(place):
            found[path] = None, 0
            continue
        if not stat.S_ISREG(facts.st_mode):
            if os.path.lexists(path):
                continue
            raise NotAFileError(f"The command left {name}, which is no file; only files are taken over. Remove it.")
        if facts.st_size > FILE_BYTES:
            raise TooLargeError(
                f"The command left {name}, which is larger than {FILE_BYTES // 1_000_000} MB; remove it."
            )
        mode, before = stat.S_IMODE(facts.st_mode), _mode(path)
        found[path] = content_of(Path(place).read_bytes()), mode if (before ^ mode) & stat.S_IXUSR else 0
    return found


def _now_ns(file: Path) -> int:
    """The time as the file system writes it: its clock is coarser than others."""
    os.utime(file)
    return file.stat().st_mtime_ns


def _seen(path: str, seen_ns: int) -> Content:
    """The content of a file that commands saw; none for one that was changed since, so that it counts as a conflict."""
    try:
        if os.stat(path).st_mtime_ns > seen_ns:
            return None
        return content_of(Path(path).read_bytes())
    except OSError:
        return None


def _mode(path: str) -> int:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except OSError:
        return 0


def _write_bytes(target: str, data: bytes) -> None:
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_bytes(data)


class Leftover(Struct, frozen=True):
    """A folder of a worker whose process has ended."""

    path: str
    size: int
    """Bytes."""


def leftovers(is_running: Callable[[int, str], bool], host: str) -> list[Leftover]:
    """Find the folders that ended processes left; blocks."""
    found: list[Leftover] = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{PREFIX}*")):
        note = _note(folder)
        if note is None or note.owner.host != host or is_running(note.owner.pid, note.owner.mark):
            continue
        size = sum(mode_size_time[1] for mode_size_time in _signatures(str(folder)).values())
        found.append(Leftover(str(folder), size))
    return found


def _note(folder: Path) -> _Note | None:
    try:
        if folder.is_symlink() or (hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()):
            return None
        return msgspec.json.decode((folder / NOTE).read_bytes(), type=_Note)
    except (OSError, msgspec.DecodeError):
        return None


def remove_tree(folder: str) -> None:
    """Remove a folder of trees, and what its repository notes of it. Blocks; never raises."""
    note = _note(Path(folder))
    real = os.path.realpath(folder)
    if note is not None and note.common_dir:
        for administered in Path(note.common_dir, "worktrees").glob("*"):
            with suppress(OSError):
                named = (administered / "gitdir").read_text(encoding="utf-8", errors="surrogateescape").strip()
                if is_within(named, [real]):
                    shutil.rmtree(administered)
        with suppress(OSError):
            # Git removes the folder with the last worktree, too.
            Path(note.common_dir, "worktrees").rmdir()
    remove_work(Path(folder))
    shutil.rmtree(folder, ignore_errors=True)
