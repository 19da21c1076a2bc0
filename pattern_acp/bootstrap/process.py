"""The starting point of a process."""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.load import Loaded, SettingsReader
from pattern_acp.config.settings import Flags


class Process(Struct, frozen=True):
    """Settings and environment of this process."""

    loaded: Loaded
    environ: Mapping[str, str]
    load_project: Callable[[str], Loaded]
    """The settings with a project's file taken in; reads files."""
    busy_seconds: float | None = None
    """Longest wait for another process's lock on the constellation; None is the database's own limit."""
    exact_model: bool = False
    """Sessions are refused when the model of the settings is not available; otherwise another one replaces it."""
    project_constellation: str = ""
    """The constellation of the project that is worked in; empty for the one that the settings name."""

    @property
    def constellation(self) -> str:
        """The name of the constellation that is used."""
        return self.project_constellation or self.loaded.settings.constellation.name

    @property
    def constellation_path(self) -> Path:
        """The file of the constellation that is used.

        Raises:
            ConfigError: no constellation can be called so.
        """
        return self.loaded.paths.constellation_path(self.constellation)

    def using(self, constellation: str) -> "Process":
        """The same process with another constellation, which need not be there."""
        return replace(self, project_constellation=constellation)


def start_process(flags: Flags, environ: Mapping[str, str]) -> Process:
    """Read the settings of this process, without any project's file."""
    reader = SettingsReader(flags, environ)
    return Process(reader.read(None), environ, reader.read, exact_model=flags.exact_model)
