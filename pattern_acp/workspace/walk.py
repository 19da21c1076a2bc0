"""Walking a folder as a user sees it, and listing it, by the rules of `.gitignore`.

Owns: visiting files in a stable order without ignored ones, `.git`, and linked folders; reading the rules for a folder,
and which of them decides on a name. Must not know: the purpose. Everything here blocks and belongs in a worker thread;
`in_thread` runs it there and stops it on cancellation.
"""

import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from anyio import to_thread
from msgspec import Struct

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.globs import glob_expression
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.paths import PLATFORM
from pattern_acp.workspace.errors import AccessDeniedError, FileMissingError, NotAFileError
from pattern_acp.workspace.git import git_facts

_RULES_BYTES = 1_000_000
"""A longer rules file is a mistake or an attack."""


_FLAGS = re.DOTALL if PLATFORM.case_sensitive else re.DOTALL | re.IGNORECASE


class _Rule(Struct, frozen=True):
    """One line of a rules file."""

    expression: str
    by_path: bool
    """True to match the whole path below the file's folder, rather than the last part alone."""
    folders_only: bool
    negated: bool


class _Level(Struct, frozen=True):
    """The rules of one file, last first; `base` is their folder, relative to the top, "" or with a final slash."""

    base: str
    rules: tuple[tuple[_Rule, re.Pattern[str]], ...]
    any_name: re.Pattern[str] | None
    """Matches when a rule by name may; most entries match no rule at all, and one expression rules them out quickly."""
    any_path: re.Pattern[str] | None

    def verdict(self, full: str, *, is_dir: bool) -> bool | None:
        """Return whether the last rule that matches ignores; None when none matches."""
        path = full[len(self.base) :]
        name = path.rpartition("/")[2]
        by_name = self.any_name is not None and self.any_name.fullmatch(name) is not None
        by_path = self.any_path is not None and self.any_path.fullmatch(path) is not None
        if not by_name and not by_path:
            return None
        for rule, pattern in self.rules:
            if (is_dir or not rule.folders_only) and pattern.fullmatch(path if rule.by_path else name):
                return not rule.negated
        return None


class IgnoreRules(Struct, frozen=True):
    """The rules in force in one folder. Names are relative to the walk's root, with forward slashes."""

    offset: str
    """Path of the walk's root below the repository's top, "" or with a final slash."""
    levels: tuple[_Level, ...] = ()
    inherits: bool = False
    """True if rules from above the walk's root apply."""

    def ignores(self, name: str, *, is_dir: bool) -> bool:
        """Return whether git leaves the entry out. Its folder must not be left out itself."""
        for level in reversed(self.levels):
            verdict = level.verdict(self.offset + name, is_dir=is_dir)
            if verdict is not None:
                return verdict
        return False

    def enter(self, folder: Path, name: str) -> "IgnoreRules":
        """The rules inside the sub-folder `name`, which lies at `folder`; a nested repository starts afresh."""
        base = f"{self.offset}{name}/"
        # A folder that may not be entered has no rules that we could see, and a Path would raise.
        if os.path.exists(folder / ".git"):  # noqa: PTH110
            return IgnoreRules(self.offset, _levels((base, _exclude_file(folder)), (base, folder / ".gitignore")))
        return IgnoreRules(self.offset, self.levels + _levels((base, folder / ".gitignore")), self.inherits)


def rules_for(root: Path) -> IgnoreRules:
    """The rules at the root of a walk: those of its repository from the top down to it, or only its own.

    A root that is itself ignored was asked for by name, so the rules that hide it do not count below it.
    """
    top = git_facts(str(root)).root
    own = IgnoreRules("", _levels(("", root / ".gitignore")))
    if not top or not root.is_relative_to(top):
        return own
    rules = IgnoreRules("", _levels(("", _exclude_file(Path(top))), ("", Path(top) / ".gitignore")))
    below = root.relative_to(top).parts
    for depth in range(len(below)):
        name = "/".join(below[: depth + 1])
        if rules.ignores(name, is_dir=True):
            return own
        rules = rules.enter(Path(top, *below[: depth + 1]), name)
    return IgnoreRules("".join(f"{part}/" for part in below), rules.levels, inherits=True)


def _exclude_file(top: Path) -> Path:
    return Path(git_facts(str(top)).common_dir) / "info" / "exclude"


def _levels(*files: tuple[str, Path]) -> tuple[_Level, ...]:
    found = ((base, [rule for line in _lines(path) if (rule := _rule(line)) is not None]) for base, path in files)
    return tuple(_level(base, rules) for base, rules in found if rules)


def _level(base: str, rules: Sequence[_Rule]) -> _Level:
    return _Level(
        base,
        tuple((rule, re.compile(rule.expression, _FLAGS)) for rule in reversed(rules)),
        _any_of([rule.expression for rule in rules if not rule.by_path]),
        _any_of([rule.expression for rule in rules if rule.by_path]),
    )


def _any_of(expressions: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(expressions), _FLAGS) if expressions else None


def _lines(path: Path) -> list[str]:
    try:
        if not path.is_file():
            return []
        with path.open("rb") as file:
            text = file.read(_RULES_BYTES).decode("utf-8-sig", "replace")
    except OSError:
        return []
    return [line.removesuffix("\r") for line in text.split("\n")]


def _rule(line: str) -> _Rule | None:
    """Parse a rule; None for a comment or an empty line."""
    if line.startswith("#"):
        return None
    text = re.sub(r"(?<!\\) +$", "", line)
    negated = text.startswith("!")
    text = text.removeprefix("!")
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    by_path = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    # Without a slash, `**` is a star like any other.
    expression = glob_expression(text if by_path else text.replace("**", "*"))
    return _Rule(expression, by_path, folders_only, negated)


T = TypeVar("T")

_CACHES = frozenset(
    {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".gradle", ".turbo"}
)


def is_cache(name: str) -> bool:
    """Tell whether a path below a root lies in a folder that tools fill by the way, and fill again when it is gone.

    What commands leave there is no work, also where git ignores none of it.
    """
    return not _CACHES.isdisjoint(Path(name).parts)


class WalkedEntry(Struct, frozen=True):
    """A file, link or folder. `name` is relative to the root, with forward slashes."""

    name: str
    entry: os.DirEntry[str]
    is_dir: bool
    is_link: bool
    ignored: bool = False


class WalkStoppedError(Exception):
    """The walk was asked to stop."""


class _Folder(Struct, frozen=True):
    path: str
    name: str
    """Path relative to the root, "" or with a final slash."""
    depth: int
    rules: IgnoreRules


def _pass_over(_name: str) -> None:
    """Do nothing about a folder that may not be listed."""


def walk_files(
    root: str, stop: threading.Event, on_unreadable: Callable[[str], None] = _pass_over
) -> Iterator[WalkedEntry]:
    """Yield files and links below `root`, folder by folder in byte order; linked folders count as links.

    `on_unreadable` is called with the name of a folder that may not be listed.

    Raises:
        WalkStoppedError: `stop` was set.
    """
    for entry in walk_entries(root, stop, on_unreadable=on_unreadable):
        if not entry.is_dir and not entry.ignored:
            yield entry


def walk_entries(
    root: str, stop: threading.Event, *, depth: int | None = None, on_unreadable: Callable[[str], None] = _pass_over
) -> Iterator[WalkedEntry]:
    """Yield everything below `root`, each folder before its contents; ignored folders appear but are not entered.

    Raises:
        WalkStoppedError: `stop` was set.
    """
    start = _Folder(root, "", 1, rules_for(Path(root).resolve()))
    pending: list[Iterator[tuple[WalkedEntry, _Folder | None]]] = [_visit(start, stop, on_unreadable)]
    while pending:
        step = next(pending[-1], None)
        if step is None:
            pending.pop()
            continue
        entry, below = step
        yield entry
        if below is not None and (depth is None or below.depth <= depth):
            pending.append(_visit(below, stop, on_unreadable))


def look_at(root: str, wanted: str = "file or folder") -> os.stat_result:
    """Return the status of `root`; errors call it `wanted` when it is missing.

    Raises:
        FileMissingError: there is nothing.
        AccessDeniedError: a folder above it may not be entered.
    """
    try:
        return Path(root).stat()
    except PermissionError as error:
        sentence = f"{root} lies in a folder that may not be entered; its owner has to allow it first."
        raise AccessDeniedError(sentence) from error
    except (OSError, ValueError) as error:
        raise FileMissingError(f"There is no {wanted} {root}; check the path.") from error


def require_folder(root: str) -> None:
    """Check that `root` can be walked.

    Raises:
        FileMissingError: there is nothing.
        WorkspaceError: it is a file, or may not be looked at.
    """
    if not stat.S_ISDIR(look_at(root, "folder").st_mode):
        raise NotAFileError(f"{root} is a file, not a folder; give the folder it is in.")


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a worker thread; when the caller is cancelled, its event is set and nobody waits for it."""
    stop = threading.Event()

    def run() -> T | WalkStoppedError:
        try:
            return work(stop)
        except WalkStoppedError as stopped:
            return stopped

    try:
        result = await to_thread.run_sync(run, abandon_on_cancel=True)
    finally:
        stop.set()
    if isinstance(result, WalkStoppedError):
        raise result
    return result


def _visit(
    folder: _Folder, stop: threading.Event, on_unreadable: Callable[[str], None]
) -> Iterator[tuple[WalkedEntry, _Folder | None]]:
    if stop.is_set():
        raise WalkStoppedError
    for entry in _sorted_entries(folder, on_unreadable):
        if entry.name == ".git":
            continue
        is_link = entry.is_symlink()
        is_dir = not is_link and entry.is_dir(follow_symlinks=False)
        name = folder.name + entry.name
        ignored = folder.rules.ignores(name, is_dir=is_dir)
        below = None
        if is_dir and not ignored:
            rules = folder.rules.enter(Path(entry.path), name)
            below = _Folder(entry.path, name + "/", folder.depth + 1, rules)
        yield WalkedEntry(name, entry, is_dir, is_link, ignored), below


def _sorted_entries(folder: _Folder, on_unreadable: Callable[[str], None]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder.path) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except FileNotFoundError:
        # Deleted meanwhile.
        return []
    except OSError:
        on_unreadable(folder.name.removesuffix("/"))
        return []


EntryKind: TypeAlias = Literal["file", "directory", "link", "other"]

MAX_COUNTED = 100_000
"""Entries after which counting stops."""


TOP_NAMES = 30
"""Names of a folder that a prompt lists."""

_PLAIN_NAME = late_pattern(r"[\w@+][\w.@+-]{0,39}")
"""Names that can be said to a model without a mark around them: no sentence is one."""


def top_names(root: str) -> tuple[str, ...]:
    """The entries of a folder that are neither hidden nor ignored, folders with a final slash; some of many.

    Blocks for a look at the folder; never raises.
    """
    try:
        names = [
            f"{each.name}/" if each.is_dir else each.name
            for each in walk_entries(root, threading.Event(), depth=1)
            if not each.ignored and _PLAIN_NAME.fullmatch(each.name)
        ]
    except (OSError, WorkspaceError):
        return ()
    more = len(names) - TOP_NAMES
    return (*names[:TOP_NAMES], f"and {more:,} more") if more > 0 else tuple(names)


class DirectoryEntry(Struct, frozen=True):
    """One entry; `name` is relative to the listed folder, with forward slashes. `size` is in bytes, 0 unless a file."""

    name: str
    kind: EntryKind
    size: int = 0
    ignored: bool = False
    """True if git ignores it; ignored folders are not entered."""


class Listing(Struct, frozen=True):
    """The first entries of `root`, each folder before its contents, and the number of all."""

    root: str
    entries: tuple[DirectoryEntry, ...]
    total: int


async def list_directory(path: str, *, limit: int, depth: int = 1) -> Listing:
    """List an absolute folder, hidden files included, `.git` left out; `depth` 1 lists only the folder itself.

    Raises:
        FileMissingError: there is no such folder.
        WorkspaceError: it is a file.
    """

    def work(stop: threading.Event) -> Listing:
        require_folder(path)
        shown: list[DirectoryEntry] = []
        total = 0
        for walked in walk_entries(path, stop, depth=depth):
            total += 1
            if len(shown) < limit:
                shown.append(_entry(walked))
            if total >= MAX_COUNTED:
                break
        return Listing(path, tuple(shown), total)

    return await in_thread(work)


def _entry(walked: WalkedEntry) -> DirectoryEntry:
    if walked.is_link:
        return DirectoryEntry(walked.name, "link", ignored=walked.ignored)
    if walked.is_dir:
        return DirectoryEntry(walked.name, "directory", ignored=walked.ignored)
    try:
        found = walked.entry.stat(follow_symlinks=False)
    except OSError:
        return DirectoryEntry(walked.name, "other", ignored=walked.ignored)
    kind: EntryKind = "file" if stat.S_ISREG(found.st_mode) else "other"
    return DirectoryEntry(walked.name, kind, found.st_size, walked.ignored)
