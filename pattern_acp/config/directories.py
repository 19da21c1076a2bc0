"""Directories that the platform gives us.

Owns: `$PATTERN_ACP_HOME`, the platform's own directories, and what to do where there is no home directory; all
differences between platforms in this matter. Must not know: what is put there.
"""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from pattern_acp.config.paths import Paths
from pattern_acp.config.problem import Problem

HOME_VARIABLE = "PATTERN_ACP_HOME"
_APPLICATION = "pattern-acp"


def find_paths(environ: Mapping[str, str]) -> tuple[Paths, tuple[Problem, ...]]:
    """The directories for this process, and a problem when they will not last.

    Some editors start the agent with PATH alone (reference/clients.md section 2, rule 6); the home directory then
    comes from the user database, so that the agent has the same memory in each of them. Without any usable home, a
    private directory under the system's temporary one is taken, and a problem says so.
    """
    home = environ.get(HOME_VARIABLE, "")
    if home:
        root = Path(home).expanduser() if home.startswith("~") and _home_directory() else Path(home)
        return _under(root.absolute(), f"${HOME_VARIABLE}"), ()
    paths = _platform_paths() if _home_directory() is not None else None
    if paths is not None and _can_write(paths.data):
        return paths, ()
    root = _temporary_root()
    sentence = (
        f"there is no home directory that can be written, so memory and sessions go to {root} and may not outlast "
        f"this machine's next start; set {HOME_VARIABLE} to a directory of yours."
    )
    return _under(root, "temporary"), (Problem(f"${HOME_VARIABLE}", None, "", sentence),)


def _under(root: Path, source: str) -> Paths:
    return Paths(data=root, config=root, state=root / "state", cache=root / "cache", source=source)


def _platform_paths() -> Paths:
    # Late: the import costs 9 ms, and $PATTERN_ACP_HOME makes it unnecessary.
    import platformdirs

    known = platformdirs.PlatformDirs(_APPLICATION, appauthor=False)
    return Paths(
        data=Path(known.user_data_dir),
        config=Path(known.user_config_dir),
        state=Path(known.user_state_dir),
        cache=Path(known.user_cache_dir),
        source="platform",
    )


def _home_directory() -> Path | None:
    """The user's home directory, if there is one or it can be made.

    The root directory, which `HOME=` yields, is nobody's home, and neither is one that would be made directly in it,
    such as the `/nonexistent` of services.
    """
    try:
        home = Path.home()
    except RuntimeError:
        return None
    root = Path(home.anchor)
    if not home.is_absolute() or home == root:
        return None
    try:
        return home if home.is_dir() or _nearest(home) != root else None
    except PermissionError:
        return None


def _nearest(path: Path) -> Path:
    """The nearest of `path` and the directories above it that exists."""
    while not path.exists():
        path = path.parent
    return path


def _can_write(path: Path) -> bool:
    """Return whether `path`, or the nearest directory above it that exists, can be written."""
    try:
        nearest = _nearest(path)
        return nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)
    except PermissionError:
        return False


def _temporary_root() -> Path:
    import tempfile

    base = Path(tempfile.gettempdir())
    if sys.platform == "win32":
        return base / _APPLICATION  # already the user's own directory
    root = base / f"{_APPLICATION}-{os.getuid()}"
    # Everyone may write to the temporary directory, so the name may have been taken by somebody else.
    return root if _is_free_or_ours(root) else Path(tempfile.mkdtemp(prefix=f"{_APPLICATION}-"))


def _is_free_or_ours(root: Path) -> bool:
    if sys.platform == "win32":
        return True
    try:
        found = root.lstat()
    except FileNotFoundError:
        return True
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
