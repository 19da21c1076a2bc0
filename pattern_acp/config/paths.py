"""Places of our files.

Owns: the four directories, the path of a constellation, and how a private directory is made. Must not know: what is
inside the files, or how the platform's directories are found (config/directories.py).
"""

import os
import re
from pathlib import Path

from msgspec import Struct

from pattern_acp.domain.errors import ConfigError
from pattern_acp.domain.late_pattern import late_pattern

_CONSTELLATION_FILE = "constellation.db"
_CONFIG_FILE = "config.toml"
_PROJECT_CONFIG = (".pattern", "config.toml")
LOG_FILE = "pattern-acp.log"

NAME_RULE = "1 to 64 letters, digits, dots, hyphens or underscores, not starting or ending with a dot"
_NAME = late_pattern(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_RESERVED = late_pattern(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
"""Windows treats these as devices in every directory, with any extension."""


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


def is_valid_name(name: str) -> bool:
    """Return whether `name` may become a directory on every platform (`NAME_RULE`)."""
    return _NAME.fullmatch(name) is not None and ".." not in name and _RESERVED.fullmatch(name) is None


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
