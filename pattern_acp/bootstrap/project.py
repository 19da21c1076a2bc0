"""The content of a project's folder, as sessions and `pattern-acp trust` need it.

Owns: putting together what several packages read of it. Must not know: who trusts it.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.definitions.collection import built_in_definitions, find_definitions
from pattern_acp.session.constellation import ProjectSettings
from pattern_acp.workspace.git import git_facts

if TYPE_CHECKING:
    from pattern_acp.definitions.bundles import Bundle


def read_project(process: Process, folder: str) -> ProjectSettings:
    """The settings with the project's file taken in, and its offer. Reads files."""
    loaded = process.load_project(folder)
    known = set(process.loaded.problems)
    problems = tuple(str(problem) for problem in loaded.problems if problem not in known)
    definitions = find_definitions(folder, process.loaded.paths.config)
    offer = replace(loaded.offer, parts=(*loaded.offer.parts, *definitions.parts()))
    bundles, bundle_problems = _bundles(process.loaded.paths.config)
    told = (*problems, *definitions.problems, *bundle_problems)
    definitions = definitions.with_others((built_in_definitions(),))
    return ProjectSettings(loaded.settings, told, offer, definitions, bundles, git_facts(folder).root)


def _bundles(config: Path) -> "tuple[tuple[Bundle, ...], tuple[str, ...]]":
    if not os.path.isdir(config / "bundles"):  # noqa: PTH112  a Path raises where it may not look
        return (), ()
    # Late: most users have none.
    from pattern_acp.definitions.bundles import installed_bundles

    return installed_bundles(config)
