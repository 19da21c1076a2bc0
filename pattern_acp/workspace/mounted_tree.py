"""A worker's tree as a mount over the user's own folder: nothing is copied, however large the folder is.

Owns: the two folders that overlayfs needs, writing into them as it would, and reading what commands changed out of
them. Each command mounts them in namespaces of its own (`processes.confine_launcher`), so nobody else sees the tree.
Must not know: the overlay that the tree shows, or who runs commands.
"""

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.paths import is_within
from pattern_acp.processes.confinement import Confinement, Layers, Profile
from pattern_acp.workspace.errors import GitFailedError
from pattern_acp.workspace.git import GitFacts
from pattern_acp.workspace.snapshots import is_repository

SHARED = ("node_modules", ".venv", "venv", "vendor")
"""Folders of dependencies, which a tree links to when the repository does not have them itself."""

GIT_SECONDS = 120.0
"""Longest time for one step of git: to write a very large repository takes that long."""

SAFE_GIT = (
    "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false",
    "-c", "checkout.workers=0", "-c", "submodule.recurse=false", "-c", "advice.detachedHead=false",
)  # fmt: skip
"""Nothing of the user's starts with a tree, and files are written by several processes."""

OPAQUE = "user.overlay.opaque"
"""Attribute of a changed folder that hides all of the folder below it (overlayfs, `userxattr`)."""


class MountedTree(Struct, frozen=True):
    """A tree that commands mount over the user's folder. `path` has what differs from there."""

    folder: str
    path: str
    shared: tuple[str, ...]
    layers: Layers
    ignored: "LaunchedGit"

    def below(self, target: str) -> str:
        """The place in the user's folder of one in ours."""
        return os.path.join(self.layers.lower, os.path.relpath(target, self.layers.upper))

    def take_up(self, target: str) -> None:
        """Make a place for a file, as overlayfs does before it writes: folders on the way, and the file as it was."""
        shown = self._shows(target)
        self.make_way(target)
        if is_gone(target):
            Path(target).unlink()
        elif shown and not os.path.lexists(target):
            shutil.copy2(self.below(target), target)

    def remove(self, target: str) -> None:
        """Let there be no file, as overlayfs does."""
        if not self._shows(target):
            return
        self.make_way(target)
        Path(target).unlink(missing_ok=True)
        if self._shows(target):
            os.mknod(target, stat.S_IFCHR, 0)

    def make_way(self, target: str) -> None:
        """Make the folders on the way to a place, like those below them."""
        for parent in reversed(Path(target).relative_to(self.layers.upper).parents):
            place = os.path.join(self.layers.upper, parent)
            hides = is_gone(place)
            if hides:
                Path(place).unlink()
            if not os.path.isdir(place):
                Path(place).mkdir()
                with suppress(OSError):
                    shutil.copystat(self.below(place), place)
            if hides:
                os.setxattr(place, OPAQUE, b"y")

    def _shows(self, target: str) -> bool:
        """Tell whether commands see a file at a place."""
        if os.path.lexists(target):
            return not is_gone(target)
        parents = [
            os.path.join(self.layers.upper, each) for each in Path(target).relative_to(self.layers.upper).parents
        ]
        return os.path.lexists(self.below(target)) and not any(is_gone(each) or _is_opaque(each) for each in parents)

    def changed(self) -> Iterator[str]:
        """Names below `path` that commands or the overlay changed, but for what git ignores and other repositories."""
        names = list(dict.fromkeys(self._touched()))
        ignored = self.ignored(self.layers, os.path.relpath(self.path, self.layers.upper), names)
        yield from (name for name in names if name not in ignored)

    def _touched(self) -> Iterator[str]:
        for above, folders, names in os.walk(self.path):
            here = os.path.relpath(above, self.path)
            left = {".git", *(SHARED if here == "." else ())}
            nested = {name for name in folders if is_repository(self.below(os.path.join(above, name)))}
            folders[:] = [name for name in folders if name not in left | nested]
            gone = [name for name in names if is_gone(os.path.join(above, name))]
            yield from (os.path.normpath(os.path.join(here, name)) for name in names if name not in gone)
            if _is_opaque(above):
                gone += [name for name in _listed(self.below(above)) if not os.path.lexists(os.path.join(above, name))]
            for name in gone:
                if name not in left:
                    yield from self._were_there(os.path.join(above, name))

    def _were_there(self, target: str) -> Iterator[str]:
        """Names of what the user's folder has at a place and below it."""
        source = self.below(target)
        if not os.path.isdir(source) or Path(source).is_symlink():
            yield os.path.relpath(target, self.path)
        elif not is_repository(source):
            for above, folders, names in os.walk(source):
                folders[:] = [name for name in folders if not is_repository(os.path.join(above, name))]
                for name in names:
                    place = os.path.normpath(os.path.join(target, os.path.relpath(above, source), name))
                    yield os.path.relpath(place, self.path)


class LaunchedGit(Struct, frozen=True):
    """Runs a program that sees a mounted tree; called, it tells what git ignores there."""

    confinement: Confinement
    git: str
    """Empty outside of a repository."""
    environment: Mapping[str, str]

    def __call__(self, layers: Layers, folder: str, names: Sequence[str]) -> set[str]:
        """The names in `folder` that git ignores.

        Raises:
            GitFailedError: git could not say so.
        """
        if not self.git or not names:
            return set()
        words = (self.git, *SAFE_GIT, "check-ignore", "-z", "--stdin")
        stdin = b"".join(os.fsencode(name) + b"\0" for name in names)
        done = self.run(layers, words, os.path.join(layers.lower, folder), stdin)
        if done.returncode not in {0, 1}:
            raise GitFailedError("git could not say which files of a worker's commands it ignores.")
        return set(names_in(done.stdout))

    def run(
        self, layers: Layers, words: Sequence[str], cwd: str, stdin: bytes = b""
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a program. Raises GitFailedError where it could not be started, or takes too long."""
        profile = Profile(confines=False, network=True, layers=layers)
        try:
            command = self.confinement.prepare(profile, words, in_group=False)
            try:
                return subprocess.run(  # noqa: S603  # our launcher, with git
                    command.arguments,
                    cwd=cwd,
                    env=self.environment,
                    input=stdin,
                    capture_output=True,
                    timeout=GIT_SECONDS,
                    check=False,
                )
            finally:
                command.remove()
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitFailedError(f"A worker's changes could not be looked at: {error}.") from error


def mount_tree(folder: Path, root: str, facts: GitFacts, launched: LaunchedGit) -> MountedTree | None:
    """A tree that is mounted; None where that does not work here."""
    top = facts.root or root
    if facts.root and not is_within(facts.common_dir, [top]):
        # What git notes would be the user's.
        return None
    layers = Layers(top, str(folder / "upper"), str(folder / "work"))
    place = os.path.normpath(os.path.join(layers.upper, os.path.relpath(root, top)))
    mount = MountedTree(str(folder), place, (), layers, launched if facts.root else replace(launched, git=""))
    Path(layers.upper).mkdir()
    Path(layers.work).mkdir()
    shutil.copystat(top, layers.upper)
    mount.make_way(f"{place}/file")
    with suppress(GitFailedError):
        if launched.run(layers, ("/bin/sh", "-c", ":"), root).returncode == 0:
            return mount
    shutil.rmtree(layers.upper)
    remove_work(folder)
    return None


def is_gone(place: str) -> bool:
    """Tell whether a place says that what lies below it is gone."""
    try:
        facts = os.lstat(place)
    except OSError:
        return False
    return stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0


def _is_opaque(folder: str) -> bool:
    try:
        return os.getxattr(folder, OPAQUE) == b"y"
    except OSError:
        return False


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def remove_work(folder: Path) -> None:
    """Remove what overlayfs left: the kernel makes a folder that nobody may list. Never raises."""
    with suppress(OSError):
        (folder / "work" / "work").chmod(0o700)
    shutil.rmtree(folder / "work", ignore_errors=True)


def names_in(output: bytes) -> list[str]:
    """The names that git wrote with `-z`."""
    return [os.fsdecode(name) for name in output.split(b"\0") if name]
