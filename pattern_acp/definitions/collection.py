"""All commands, skills and groups that hold in one folder.

Owns: the places they are looked for in, and which of two by one name counts. Must not know: what is trusted; those of a
project are parts that the user is asked about.
"""

import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from pattern_acp.definitions.commands import CommandDefinition, find_commands, inline_commands
from pattern_acp.definitions.files import DefinitionFiles
from pattern_acp.definitions.skills import SKILL_FILE, SkillDefinition, find_skills
from pattern_acp.domain.access import TrustTier
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.project_parts import PartKind, ProjectPart

if TYPE_CHECKING:
    from pattern_acp.definitions.groups import Groups

COMMANDS = "commands"
SKILLS = "skills"
LEARNED = "learned"
"""Folder in a project's `.pattern` for skills that the agent wrote."""
PROJECT_FOLDERS = (".pattern", ".claude")
"""Folders of a project that hold commands and skills; of two by one name the first counts."""

_Named = TypeVar("_Named", CommandDefinition, SkillDefinition)


def is_learned(path: str) -> bool:
    """Tell whether a path is that of a skill's text which the agent wrote, by its last names."""
    parts = Path(path).parts[-4:]
    return len(parts) == 4 and (parts[0], parts[1], parts[3]) == (PROJECT_FOLDERS[0], LEARNED, SKILL_FILE)


class Definitions(Struct, frozen=True):
    """Commands, skills and groups by name, the user's own before the project's, and what could not be used."""

    commands: tuple[CommandDefinition, ...] = ()
    skills: tuple[SkillDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    groups: "Groups | None" = None
    """The groups of the project; None where it has no file of them."""

    def with_others(self, bundled: "Iterable[Definitions]") -> "Definitions":
        """The same with those of the program or of bundles.

        Of two by one name the user's own counts, then the program's, a bundle's, and the project's.
        """
        more = tuple(bundled)
        if not more:
            return self
        commands = sorted((*self.commands, *(one for each in more for one in each.commands)), key=_rank)
        skills = sorted((*self.skills, *(one for each in more for one in each.skills)), key=_rank)
        return Definitions(_first(commands), _first(skills), self.problems, self.groups)

    def parts(self) -> Iterator[ProjectPart]:
        """Yield those that a project brings."""
        for command in self.commands:
            if command.of_project:
                runs = "".join(f"\nruns: {line}" for line in inline_commands(command.body))
                yield ProjectPart(PartKind.COMMAND, f"/{command.name}", command.body + runs, _digest(command.body))
        for skill in self.skills:
            if skill.of_project:
                yield ProjectPart(PartKind.SKILL, skill.name, skill.shown, skill.digest)
        for group in self.groups.usable if self.groups is not None else ():
            yield group.part


NO_DEFINITIONS = Definitions()
"""Neither commands nor skills."""


def find_definitions(project: str, own: Path) -> Definitions:
    """All for a session in the folder `project`; `own` is the folder of the user's config.toml. Reads files."""
    reading = DefinitionFiles()
    root = Path(project)
    commands: list[CommandDefinition] = []
    skills: list[SkillDefinition] = []
    # The user may keep their own behind links, wherever they like.
    anywhere = Path(own.anchor)
    commands += find_commands(own / COMMANDS, anywhere, reading)
    skills += find_skills(own / SKILLS, anywhere, reading)
    for name in PROJECT_FOLDERS:
        narrows = name != ".claude"
        place = root / name
        commands += find_commands(place / COMMANDS, root, reading, tier=TrustTier.PROJECT, narrows=narrows)
        skills += find_skills(place / SKILLS, root, reading, tier=TrustTier.PROJECT)
    skills += find_skills(root / PROJECT_FOLDERS[0] / LEARNED, root, reading, tier=TrustTier.AD_HOC)
    groups = _groups(root)
    problems = (*reading.problems, *(groups.problems if groups is not None else ()))
    return Definitions(_first(commands), _first(skills), problems, groups)


def _groups(root: Path) -> "Groups | None":
    if not os.path.isfile(root / PROJECT_FOLDERS[0] / "groups.toml"):  # noqa: PTH113  a Path raises where it may not look
        return None
    # Late: most projects have none.
    from pattern_acp.definitions.groups import find_groups

    return find_groups(root)


@cache
def built_in_definitions() -> Definitions:
    """The skills that come with the program. The user loads them by their names; no request lists them."""
    folder = Path(__file__).parent / "built_in"
    return Definitions(skills=tuple(find_skills(folder, folder, DefinitionFiles(), tier=TrustTier.BUILT_IN)))


def _rank(one: CommandDefinition | SkillDefinition) -> int:
    return (TrustTier.USER, TrustTier.BUILT_IN, TrustTier.BUNDLE, TrustTier.PROJECT, TrustTier.AD_HOC).index(one.tier)


def _first(found: Iterable[_Named]) -> tuple[_Named, ...]:
    chosen: dict[str, _Named] = {}
    for each in found:
        chosen.setdefault(each.name, each)
    return tuple(chosen.values())


def _digest(text: str) -> str:
    return sha256_hex(text.encode("utf-8", "surrogatepass"))
