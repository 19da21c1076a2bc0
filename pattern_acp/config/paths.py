"""Places of our files.

Owns: the four directories by platform, the path of a constellation, and how a private directory is made. Must not know:
what is inside the files.
"""

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from pattern_acp.config.toml_file import NAME_RULE, Problem, is_valid_name
from pattern_acp.domain.errors import ConfigError

_CONSTELLATION_FILE = "constellation.db"
_CONFIG_FILE = "config.toml"
_PROJECT_CONFIG = (".pattern", "config.toml")
LOG_FILE = "pattern-acp.log"


class Paths(Struct, frozen=True):
    """The directories of one user. None of them need exist yet."""

    data: Path
    """Constellations."""
    config: Path
    """`config.toml`."""
    state: Path
    """Logs."""
    cache: Path
    """Files that can be fetched or computed again, such as model lists."""
    source: str = "default"
    """The source of the directories: `$PATTERN_ACP_HOME`, `platform` or `temporary`."""

    @property
    def config_file(self) -> Path:
        """The user's configuration."""
        return self.config / _CONFIG_FILE

    @property
    def log_file(self) -> Path:
        """The newest log; older ones carry `.1` and `.2`."""
        return self.state / LOG_FILE

    def constellation_path(self, name: str) -> Path:
        """The database of the constellation called `name`; deleting its directory deletes the constellation.

        Raises:
            ConfigError: the name could leave the directory or is a device on Windows.
        """
        if not is_valid_name(name):
            raise ConfigError(f"A constellation cannot be called {name[:80]!r}; use {NAME_RULE}.")
        return self.data / "constellations" / name / _CONSTELLATION_FILE


def project_config_file(project_dir: str) -> Path:
    """The configuration that a project may carry."""
    return Path(project_dir, *_PROJECT_CONFIG)


def make_private_directory(path: Path) -> None:
    """Create `path` and its missing parents, each readable by its owner alone (mode 0700 where modes exist).

    An existing directory keeps the mode that its owner gave it.

    Raises:
        OSError: the directory cannot be made, or a file is in its place.
    """
    missing: list[Path] = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    for directory in reversed(missing):
        # mkdir(parents=True) would give the mode to the last directory only.
        directory.mkdir(mode=0o700, exist_ok=True)


def open_private_append(path: str, flags: int) -> int:
    """An `opener` for `open()` that creates the file with mode 0600."""
    return os.open(path, flags, 0o600)


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
