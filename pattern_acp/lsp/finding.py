"""Which language servers are installed.

Owns: looking for their programs: in the project's own folders while it is trusted, and on PATH. Must not know: how they
are run. Reads the disk, so it is called in a worker thread.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from pattern_acp.config.lsp import PROJECT_FOLDERS, can_serve
from pattern_acp.config.settings import LspServerSettings
from pattern_acp.lsp.languages import KNOWN, ServerKind


class FoundServer(Struct, frozen=True):
    """A server that can be started."""

    kind: ServerKind
    program: str
    """Its absolute path."""

    @property
    def command(self) -> tuple[str, ...]:
        """What starts it."""
        return (self.program, *self.kind.command[1:])


def configured_kind(settings: LspServerSettings) -> ServerKind:
    """A server of the person's file."""
    return ServerKind(settings.name, settings.command, settings.languages)


def kinds(configured: Sequence[ServerKind]) -> tuple[ServerKind, ...]:
    """All kinds: the person's first, which stand for known ones of the same name."""
    names = {kind.name for kind in configured}
    return (*configured, *(kind for kind in KNOWN if kind.name not in names))


def find_server(
    candidates: Sequence[ServerKind], language: str, root: str, environment: Mapping[str, str], *, trusted: bool
) -> FoundServer | None:
    """The first server for `language` that is installed and may run in the folder `root`."""
    for kind in candidates:
        if language in kind.languages and (trusted or not kind.runs_project_code):
            program = find_program(kind, root, environment, trusted=trusted)
            if program:
                return FoundServer(kind, program)
    return None


def find_program(kind: ServerKind, root: str, environment: Mapping[str, str], *, trusted: bool) -> str:
    """The absolute path of a server's program; empty when it is not installed.

    On PATH, a folder inside an untrusted `root` does not count: what a project brings along is not run unasked.
    """
    path = next((value for name, value in environment.items() if name.upper() == "PATH"), "")
    if Path(kind.command[0]).is_absolute():
        # Only the person's own file can name one.
        return _that_serves(shutil.which(kind.command[0]))
    folders = [folder for folder in path.split(os.pathsep) if folder and Path(folder).is_absolute()]
    if trusted:
        folders = [*(str(Path(root, folder)) for folder in PROJECT_FOLDERS), *folders]
    else:
        folders = [folder for folder in folders if not _is_inside(folder, root)]
    if not folders:
        return ""
    found = shutil.which(kind.command[0], path=os.pathsep.join(folders))
    return _that_serves(found) if found is not None and (trusted or not _is_inside(found, root)) else ""


def _that_serves(program: str | None) -> str:
    return program if program is not None and can_serve(Path(program)) else ""


def _is_inside(path: str, root: str) -> bool:
    try:
        return Path(path).resolve().is_relative_to(Path(root).resolve())
    except (OSError, RuntimeError):
        return True
