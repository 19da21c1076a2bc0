"""The tool skill.

Owns: how skills are listed to the model and loaded. Must not know: where they are found, or who trusts them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.definitions.skills import SkillDefinition, read_skill_file
from pattern_acp.domain.access import NoEffect, ReadPath
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import TextContent, ToolKind
from pattern_acp.policy.paths import protection
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolInputError, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import find_target

MOST_LISTED = 40
"""Skills that the prompt lists; /skills shows all."""

LINE_CHARACTERS = 240
"""Characters of one skill in the prompt: a description begins with its purpose."""


class SkillArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of skill."""

    name: Annotated[str, Meta(min_length=1)]
    file: Annotated[str, Meta(description="A file of the skill, as its instructions name it.")] = ""


class LoadSkill:
    """Loads the instructions of a skill. What it lists stays the same, so that the prompt's prefix does."""

    kind = ToolKind.READ
    changes_things = False

    def __init__(self, skills: Callable[[], Sequence[SkillDefinition]]) -> None:
        """`skills` gives those that may be used now."""
        self._skills = skills
        self.listed = tuple(skill.name for skill in skills())
        lines = [f"- {skill.name}: {one_line(skill.description, LINE_CHARACTERS)}" for skill in skills()[:MOST_LISTED]]
        more = len(self.listed) - len(lines)
        if more > 0:
            lines.append(f"- and {more} more: {one_line(', '.join(self.listed[MOST_LISTED:]), LINE_CHARACTERS)}")
        about = "Load a skill's instructions before a task that it is for, then follow them. Skills:"
        self.spec = ToolSpec("skill", "\n".join((about, *lines)), input_schema(SkillArguments))

    def notes(self) -> tuple[str, ...]:
        """Skills that were added since the prompt was fixed, for the part of a request that may change."""
        added = [skill for skill in self._skills() if skill.name not in self.listed]
        return tuple(
            f"There is a new skill, {skill.name}: {one_line(skill.description, LINE_CHARACTERS)}"
            for skill in added[:MOST_LISTED]
        )

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, SkillArguments)
        skill = next((each for each in self._skills() if each.name == asked.name), None)
        if skill is None:
            known = ", ".join(each.name for each in self._skills()) or "none"
            raise ToolInputError(f"There is no skill named {asked.name[:80]!r}; there are {one_line(known, 1000)}.")
        if asked.file and asked.file not in skill.files:
            raise ToolInputError(f"The skill {skill.name} has no file {asked.file[:80]!r}; it has {_files(skill)}.")
        title = f"Skill {skill.name}" + (f": {asked.file}" if asked.file else "")
        if not asked.file:
            return PreparedCall(title, (NoEffect(),), partial(_run, skill, asked.file))
        # Whoever wrote the skill need not have meant to give away a file of credentials beside it.
        target = await find_target(str(Path(skill.folder, asked.file)), context)
        guard = protection(target.resolved, context.roots)
        access = ReadPath(target.resolved) if guard is not None and guard.for_reading else NoEffect()
        return PreparedCall(title, (access,), partial(_run, skill, asked.file))


async def _run(skill: SkillDefinition, name: str, _progress: Progress) -> ToolOutcome:
    if name:
        text = await anyio.to_thread.run_sync(read_skill_file, skill, name)
        if text is None:
            return ToolOutcome(f"{name} is no text, or too large; it lies in {skill.folder}.", is_error=True)
        return ToolOutcome(text, content=(TextContent(text),))
    text = f"Instructions of the skill {skill.name}. Its folder is {skill.folder}; its files: {_files(skill)}.\n\n"
    return ToolOutcome(text + skill.body, content=(TextContent(skill.body),))


def _files(skill: SkillDefinition) -> str:
    return one_line(", ".join(skill.files), 2000) or "none"
