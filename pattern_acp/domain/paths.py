"""Resolving a path that a model or an editor wrote.

Owns: turning it into one absolute path, following symbolic links, and saying whether a path lies inside a folder. Must
not know: what is done with the path, nor whether it is allowed.

Everything except `resolve_path` is pure and takes a `Flavour`, so Windows rules are tested everywhere.
"""

import errno
import ntpath
import os
import posixpath
import re
import sys
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from pattern_acp.domain.errors import PathUnusableError
from pattern_acp.domain.late_pattern import late_pattern


class Flavour(Struct, frozen=True):
    """A platform's rules for path names."""

    windows: bool
    """Drive letters, UNC shares, both slashes as separators."""
    case_sensitive: bool
    """True when names that differ only in case are different files."""


POSIX = Flavour(windows=False, case_sensitive=True)
MACOS = Flavour(windows=False, case_sensitive=False)
"""macOS volumes ignore case unless formatted otherwise."""
WINDOWS = Flavour(windows=True, case_sensitive=False)


PLATFORM = {"win32": WINDOWS, "darwin": MACOS}.get(sys.platform, POSIX)
"""The flavour of the machine that this runs on."""


_DRIVE = late_pattern(r"[A-Za-z]:")
_SHARE = late_pattern(r"\\\\[^\\.?][^\\]*\\[^\\]+")
_DRIVE_AFTER_SLASH = late_pattern(r"[/\\][A-Za-z]:(?:[/\\]|$)")
_EXTENDED = late_pattern(r"\\\\\?\\(UNC\\)?", re.IGNORECASE)
_WINDOWS_DEVICES = late_pattern(r"(?:CON|PRN|AUX|NUL|COM[0-9¹²³]|LPT[0-9¹²³])(?:\..*)?", re.IGNORECASE)
_SHOWN_OF_LONG = 60
"""Characters of a path that is too long which a sentence about it repeats."""

_LOOP_ON_WINDOWS = 1921
"""ERROR_CANT_RESOLVE_FILENAME."""


def absolute_path(raw: str, cwd: str, *, flavour: Flavour = PLATFORM, home: str | None = None) -> str:
    """The absolute path that `raw` names, with `.` and `..` folded by their spelling.

    `raw` may be relative to `cwd` (which is absolute), start with `~`, or be a `file://` URI; on Windows it may mix
    separators. `home` is what `~` stands for, by default the user's home folder. The disk is not looked at.

    Raises:
        WorkspaceError: no file can have this name.
    """
    name = _from_uri(raw, flavour) if raw[:5].lower() == "file:" else raw
    _refuse_unusable(name)
    if re.match(r"~(?:[/\\]|$)" if flavour.windows else r"~(?:/|$)", name):
        name = (home if home is not None else _home()) + name[1:]
    return _join_windows(name, cwd) if flavour.windows else _join_posix(name, cwd)


def normal_path(path: str) -> str:
    """Return an absolute path without `.`, `..` and doubled slashes; the disk is not asked."""
    return os.path.normpath(path)


def resolve_path(path: str) -> str:
    """The real place of an absolute path: every symbolic link followed, also those that point at nothing yet.

    For a file that does not exist, the folders that do exist are resolved and the rest stays.

    Raises:
        WorkspaceError: the links lead in a circle.
    """
    real = os.path.realpath(path)
    try:
        os.stat(real)  # noqa: PTH116  # several times for each call of a tool: a Path costs as much as the look
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            message = f"The path {path[:_SHOWN_OF_LONG]!r}… is longer than any file's here can be; give a shorter one."
            raise PathUnusableError(message) from error
        # A missing file is a fine answer; only a circle means that nothing was resolved.
        if error.errno == errno.ELOOP or getattr(error, "winerror", None) == _LOOP_ON_WINDOWS:
            message = f"The path {path!r} cannot be followed; its symbolic links lead in a circle."
            raise PathUnusableError(message) from error
    return real


def is_within(path: str, roots: Sequence[str], *, flavour: Flavour = PLATFORM) -> bool:
    """Return whether `path` is one of `roots` or below one. All are absolute and resolved; case as on the disk."""
    parts = _compared_parts(path, flavour)
    return any(parts[: len(root)] == root for root in (_compared_parts(root, flavour) for root in roots))


def display_path(path: str, cwd: str, *, flavour: Flavour = PLATFORM) -> str:
    """`path` relative to `cwd` with forward slashes when it lies inside, else as it is."""
    if not is_within(path, [cwd], flavour=flavour):
        return path
    below = _parts(path, flavour)[len(_parts(cwd, flavour)) :]
    return "/".join(below) or "."


def _refuse_unusable(name: str) -> None:
    if not name.strip():
        raise PathUnusableError("The path is empty; name a file or folder.")
    if "\0" in name:
        raise PathUnusableError("The path holds a NUL character, which no file name can.")
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise PathUnusableError("The path holds half of a surrogate pair, which no file name can.") from error


def _from_uri(uri: str, flavour: Flavour) -> str:
    try:
        split = urlsplit(uri)
    except ValueError as error:
        raise PathUnusableError(f"{uri!r} is not a usable file URI; give a path.") from error
    name = unquote(split.path, errors="surrogateescape")
    if split.netloc.lower() in {"", "localhost"}:
        return name
    if not flavour.windows:
        raise PathUnusableError(f"The URI {uri!r} names a file on another host; give a path on this machine.")
    if _DRIVE.fullmatch(split.netloc):
        return split.netloc + name
    return f"//{split.netloc}{name}"


def _home() -> str:
    try:
        return str(Path.home())
    except RuntimeError as error:
        raise PathUnusableError("There is no home folder here; give the whole path instead of '~'.") from error


def _join_posix(name: str, cwd: str) -> str:
    joined = posixpath.normpath(posixpath.join(cwd, name))
    if not joined.startswith("/"):
        raise PathUnusableError(f"The working folder {cwd!r} is not absolute; give the whole path.")
    # POSIX leaves the meaning of exactly two leading slashes open; every system here reads them as one.
    return "/" + joined.lstrip("/")


def _join_windows(name: str, cwd: str) -> str:
    if _DRIVE_AFTER_SLASH.match(name):
        name = name[1:]
    joined = ntpath.normpath(ntpath.join(_without_extended_prefix(cwd), _without_extended_prefix(name)))
    drive, rest = ntpath.splitdrive(joined)
    if not (_DRIVE.fullmatch(drive) or _SHARE.fullmatch(drive)):
        raise PathUnusableError(f"{name!r} does not name a file below a drive or share; give the whole path.")
    if _DRIVE.fullmatch(drive) and not rest.startswith("\\"):
        # `C:name` is relative to that drive's own folder, which only a process knows; its root is the nearest answer.
        rest = "\\" + rest
    for part in rest.split("\\"):
        if ":" in part or part.endswith((" ", ".")) or _WINDOWS_DEVICES.fullmatch(part):
            raise PathUnusableError(f"Windows cannot have a file named {part!r}; choose another name.")
    return drive[:1].upper() + drive[1:] + (rest or "\\")


def _without_extended_prefix(name: str) -> str:
    r"""`\\?\C:\x` is `C:\x` and `\\?\UNC\host\share` is `\\host\share` (Windows: naming files, paths)."""
    name = name.replace("/", "\\")
    match = _EXTENDED.match(name)
    if match is None:
        return name
    return ("\\\\" if match.group(1) else "") + name[match.end() :]


def _parts(path: str, flavour: Flavour) -> list[str]:
    if not flavour.windows:
        return [part for part in path.split("/") if part]
    drive, rest = ntpath.splitdrive(_without_extended_prefix(path))
    return [drive, *(part for part in rest.split("\\") if part)]


def _compared_parts(path: str, flavour: Flavour) -> list[str]:
    parts = _parts(path, flavour)
    if flavour.case_sensitive:
        return parts
    # macOS also treats composed and decomposed accents as one name.
    return [unicodedata.normalize("NFC", part).lower() for part in parts]
