"""The content of a project's folder, as sessions and `pattern-acp trust` need it.

Owns: putting together what several packages read of it. Must not know: who trusts it.
"""

from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.definitions.collection import find_definitions
from pattern_acp.session.constellation import ProjectSettings


def read_project(process: Process, folder: str) -> ProjectSettings:
    """The settings with the project's file taken in, and its offer. Reads files."""
    loaded = process.load_project(folder)
    known = set(process.loaded.problems)
    problems = tuple(str(problem) for problem in loaded.problems if problem not in known)
    definitions = find_definitions(folder, process.loaded.paths.config)
    offer = replace(loaded.offer, parts=(*loaded.offer.parts, *definitions.parts()))
    return ProjectSettings(loaded.settings, (*problems, *definitions.problems), offer, definitions)
