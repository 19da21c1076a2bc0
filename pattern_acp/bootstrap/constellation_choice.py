"""The choice of the constellation that a folder uses: with `[constellation] per_project`, one for each project.

Owns: the name of a project's constellation, and finding those that are there. Must not know: what is in them. The name
is all there is: the file is where that of any constellation is, and `--constellation NAME` uses it from anywhere.
"""

from posixpath import basename

from pattern_acp.bootstrap.process import Process
from pattern_acp.config.load import Loaded
from pattern_acp.domain.late_pattern import late_pattern

_DIGITS = 12
"""Hexadecimal digits of the project's key in a name."""

_LONGEST = 23
"""Characters that the name of the user's constellation and that of the project have at most in the name of both."""

_NAMED = 20
"""Most constellations that a note names."""

_OTHER = late_pattern(r"[^a-z0-9]+")


def is_per_project(loaded: Loaded) -> bool:
    """Tell whether each project has a constellation; one that a flag or variable names is used for all of them."""
    return loaded.settings.constellation.per_project and "constellation.name" not in loaded.settings.fixed


def constellation_of_project(loaded: Loaded, project: str) -> str:
    """The name of the constellation that a project uses, by its key (`memory.blocks.project_key`)."""
    name = loaded.settings.constellation.name
    if not is_per_project(loaded):
        return name
    slug = _OTHER.sub("-", basename(project).lower())[:_LONGEST].strip("-")
    return f"{_beginning(name)}{slug or 'project'}-{_hash(name, project)}"


def constellation_of_folder(loaded: Loaded, folder: str) -> str:
    """The name of the constellation that sessions and commands in a folder use; all worktrees share one.

    Blocking: looks which repository the folder is of. A folder of none is a project of its own, and may be gone.
    """
    if not is_per_project(loaded):
        return loaded.settings.constellation.name
    # Late: without per_project nothing of it is wanted.
    from pattern_acp.session.stored import project_of_folder

    return constellation_of_project(loaded, project_of_folder(folder))


def process_in(process: Process, folder: str) -> Process:
    """The process with the constellation of a folder. Blocking, as `constellation_of_folder`."""
    return process.using(constellation_of_folder(process.loaded, folder))


def process_of_command(process: Process, folder: str, *, begins: bool) -> Process:
    """The process with the constellation that a command in a folder uses. Blocking.

    A project of which nothing was recorded yet has none; only a command that `begins` one makes it, and any other is
    about the user's, which has what was recorded before each project had one.

    Raises:
        ConfigError: no constellation can be called so.
    """
    here = process_in(process, folder)
    return here if begins or here.constellation_path.parent.is_dir() else process


def is_replica(process: Process) -> bool:
    """Tell whether the process uses the constellation of a project, which has a copy of the user's memory."""
    loaded = process.loaded
    return is_per_project(loaded) and process.constellation != loaded.settings.constellation.name


def project_constellations(loaded: Loaded) -> tuple[str, ...]:
    """The names of the projects' constellations that are there, without the one of the user's own memory. Blocking.

    Raises:
        OSError: the folder of constellations cannot be looked at.
    """
    import re

    name = re.compile(rf"{re.escape(_beginning(loaded.settings.constellation.name))}[a-z0-9-]+-[0-9a-f]{{{_DIGITS}}}")
    folder = loaded.paths.data / "constellations"
    found = folder.iterdir() if is_per_project(loaded) and folder.is_dir() else ()
    return tuple(sorted(one.name for one in found if name.fullmatch(one.name)))


def note_of_others(process: Process) -> str:
    """A sentence that names the constellations beside the one that a command was about; empty where it is the only one.

    Blocking, as `project_constellations`.
    """
    names = (process.loaded.settings.constellation.name, *project_constellations(process.loaded))
    others = [name for name in names if name != process.constellation]
    if not others or not is_per_project(process.loaded):
        return ""
    more = f", and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return (
        f"This is of {process.constellation}. There are also {', '.join(others[:_NAMED])}{more}: --constellation NAME "
        "uses one of them."
    )


def _beginning(name: str) -> str:
    """The beginning of the names of the projects whose user's memory is in `name`."""
    if len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 9].rstrip('.')}-{_hash(name)[:8]}"
    return f"{name}."


def _hash(*parts: str) -> str:
    # Late: a start without such constellations needs none of it.
    from hashlib import sha256

    return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]
