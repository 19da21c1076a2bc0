"""The tools skill and skill_write.

Owns: how skills are listed to the model, searched and loaded, and how one is proposed. Must not know: who trusts them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct
from msgspec.structs import replace

from pattern_acp.definitions.collection import LEARNED, PROJECT_FOLDERS
from pattern_acp.definitions.skills import (
    SKILL_FILE,
    SKILL_TOOL,
    SkillDefinition,
    framed,
    read_skill_file,
    written_skill,
)
from pattern_acp.domain.access import NoEffect, ReadPath, TrustTier
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import TextContent, ToolKind
from pattern_acp.policy.paths import protection
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NothingChangedError,
    PreparedCall,
    Progress,
    ToolContext,
    ToolInputError,
    ToolOutcome,
    find_target,
    shown_name,
)
from pattern_acp.tools.file_changes import PlannedFileChange, prepared_change, read_if_there
from pattern_acp.tools.schema import input_schema, parse_arguments

LISTED_BYTES = 2_900
"""Bytes of the list in a request: with the schema, and notes on new skills, skills take less than 4 kB of it."""

LINE_CHARACTERS = 240
"""Most characters of one skill in the list: a description begins with its purpose."""

SHORT_LINE = 90
"""Characters of one skill where the list would be too long otherwise."""

MOST_NEW = 5
"""New skills that a request names one by one."""

MOST_FOUND = 8
"""Results of a search."""

SEARCHED = (8.0, 4.0, 6.0, 1.0)
"""Weights of name, description, keywords and body."""


class SkillOperation(StrEnum):
    """The things that can be done with skills."""

    LOAD = "load"
    SEARCH = "search"
    LIST = "list"
    ABOUT = "about"


class SkillArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of skill."""

    name: str = ""
    file: Annotated[str, Meta(description="A file of the skill, as its instructions name it.")] = ""
    arguments: Annotated[str, Meta(description="For a skill that takes arguments.")] = ""
    query: Annotated[str, Meta(description="For search.")] = ""
    operation: SkillOperation = SkillOperation.LOAD


async def _unused() -> Mapping[tuple[str, str], int]:
    return {}


class LoadSkill:
    """Loads the instructions of a skill. What it lists stays the same, so that the prompt's prefix does."""

    kind = ToolKind.READ
    changes_things = False

    def __init__(
        self,
        skills: Callable[[], Sequence[SkillDefinition]],
        uses: Callable[[], Awaitable[Mapping[tuple[str, str], int]]] = _unused,
    ) -> None:
        """`skills` gives those that may be used now, `uses` how often each was loaded, by source and name."""
        self._all = skills
        self._uses = uses
        self.listed = tuple(skill.name for skill in self._skills())
        about = "Load a skill's instructions before a task that it is for, then follow them. Skills:"
        self.spec = ToolSpec(SKILL_TOOL, "\n".join((about, *_listed(self._skills()))), input_schema(SkillArguments))

    def notes(self) -> tuple[str, ...]:
        """Skills that were added since the prompt was fixed, for the part of a request that may change."""
        added = [skill for skill in self._skills() if skill.name not in self.listed]
        notes = [
            f"There is a new skill, {skill.name}: {one_line(skill.description, SHORT_LINE)}"
            for skill in added[:MOST_NEW]
        ]
        if len(added) > MOST_NEW:
            left = plural(len(added) - MOST_NEW, "more new skill")
            notes.append(f"The tool skill searches {left}.")
        return tuple(notes)

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, SkillArguments)
        if asked.operation is SkillOperation.SEARCH or (asked.query and not asked.name):
            if not asked.query.strip():
                raise ToolInputError("A search needs `query`, a few words of the task.")
            return PreparedCall(f"Skills about {one_line(asked.query, 60)}", (NoEffect(),), partial(self._find, asked))
        if asked.operation is SkillOperation.LIST or not asked.name:
            return PreparedCall("Skills", (NoEffect(),), self._list)
        skill = next((each for each in self._skills() if each.name == asked.name), None)
        if skill is None:
            known = ", ".join(each.name for each in self._skills()) or "none"
            raise ToolInputError(f"There is no skill named {asked.name[:80]!r}; there are {one_line(known, 1000)}.")
        if asked.operation is SkillOperation.ABOUT:
            return PreparedCall(f"About the skill {skill.name}", (NoEffect(),), partial(self._about, skill))
        if asked.file and asked.file not in skill.files:
            raise ToolInputError(f"The skill {skill.name} has no file {asked.file[:80]!r}; it has {_files(skill)}.")
        title = f"Skill {skill.name}" + (f": {asked.file}" if asked.file else "")
        if not asked.file:
            return PreparedCall(title, (NoEffect(),), partial(_load, skill, asked.arguments))
        # The one who wrote the skill need not have meant to give away a file of credentials beside it.
        target = await find_target(str(Path(skill.folder, asked.file)), context)
        guard = protection(await anyio.to_thread.run_sync(shown_name, target.resolved), context.roots)
        access = ReadPath(target.resolved) if guard is not None and guard.for_reading else NoEffect()
        return PreparedCall(title, (access,), partial(_read, skill, asked.file))

    def _skills(self) -> tuple[SkillDefinition, ...]:
        return tuple(skill for skill in self._all() if skill.for_model)

    async def _find(self, asked: SkillArguments, _progress: Progress) -> ToolOutcome:
        skills = {skill.name: skill for skill in self._skills()}
        found = await anyio.to_thread.run_sync(find_by_words, tuple(skills.values()), asked.query)
        if not found:
            text = f"No skill has any of these words; there are {len(skills)}."
            return ToolOutcome(f"{text} Try others, or list them.", content=(TextContent(text),))
        uses = await self._uses()
        lines = [f"{_line(skills[name], uses)}\n  {one_line(passage)}" for name, passage in found]
        text = "\n".join(("Skills that fit best, the best first; load one by its name.", *lines))
        return ToolOutcome(text, content=(TextContent("\n".join(lines)),))

    async def _list(self, _progress: Progress) -> ToolOutcome:
        uses = await self._uses()
        text = "\n".join(_line(skill, uses) for skill in self._skills()) or "There are no skills."
        return ToolOutcome(text, content=(TextContent(text),))

    async def _about(self, skill: SkillDefinition, _progress: Progress) -> ToolOutcome:
        text = about(skill, await self._uses())
        return ToolOutcome(text, content=(TextContent(text),))


class SkillWriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of skill_write."""

    name: Annotated[str, Meta(min_length=1)]
    description: Annotated[str, Meta(min_length=1, description="For which tasks it is, in one line.")]
    body: Annotated[str, Meta(min_length=1)]
    keywords: tuple[str, ...] = ()


class WriteSkill:
    """Proposes a skill: a file of the project, which the user is asked about with its difference in every mode.

    It lies in `.pattern`, whose files always ask, and goes the way of every changed file: journal, checkpoints, rewind.
    """

    spec = ToolSpec(
        "skill_write",
        "Propose a skill from what this session learned (a procedure that worked, and its traps), or a better text of "
        "one that you wrote; the user sees the difference and decides. Instructions in general words, no secrets.",
        input_schema(SkillWriteArguments),
    )
    kind = ToolKind.EDIT
    changes_things = True

    def __init__(
        self, skills: Callable[[], Sequence[SkillDefinition]], agreed: Callable[[str], Awaitable[None]]
    ) -> None:
        """`skills` gives all there are; `agreed` is called with the name of one that the user agreed to."""
        self._skills = skills
        self._agreed = agreed

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, SkillWriteArguments)
        other = next(
            (each for each in self._skills() if each.name == asked.name and each.tier is not TrustTier.AD_HOC), None
        )
        if other is not None:
            sentence = f"There is a skill {asked.name} in {other.folder}, which the agent did not write"
            raise ToolInputError(sentence, advice="choose another name.")
        path = Path(PROJECT_FOLDERS[0], LEARNED, Path(asked.name).name, SKILL_FILE)
        target = await find_target(str(path), context)
        before = await read_if_there(target, context)
        try:
            text = written_skill(
                before.text if before is not None else None, asked.name, asked.description, asked.keywords, asked.body
            )
        except ValueError as error:
            raise ToolInputError(f"The skill cannot be written: {error}.") from error
        if before is not None and before.text == text:
            raise NothingChangedError(f"{target.shown} already has exactly this text; nothing was written.")
        summary = f"Wrote the skill {asked.name} to {target.shown}; it can be loaded from the next prompt on."
        change = PlannedFileChange(target, before, text, summary, knows_text=True)
        prepared = prepared_change(f"Propose the skill {asked.name}", change, context)
        return replace(prepared, run=partial(self._write, asked.name, prepared))

    async def _write(self, name: str, prepared: PreparedCall, progress: Progress) -> ToolOutcome:
        outcome = await prepared.run(progress)
        if not outcome.is_error:
            await self._agreed(name)
        return outcome


def find_by_words(skills: Sequence[SkillDefinition], query: str) -> tuple[tuple[str, str], ...]:
    """The skills that fit `query` best, by name, each with a passage of its text. Any query is safe."""
    from pattern_acp.db.text_ranking import rank_texts
    from pattern_acp.memory.search_terms import match_expression, query_terms, split_identifiers

    texts = {
        skill.name: (
            f"{skill.name} {split_identifiers(skill.name)}",
            skill.description,
            " ".join(skill.keywords),
            skill.body or skill.description,
        )
        for skill in skills
    }
    expression = match_expression(query_terms(query))
    ranked = rank_texts(texts, SEARCHED, expression, MOST_FOUND) if expression and texts else ()
    return tuple((each.key, each.passage) for each in ranked)


def about(skill: SkillDefinition, uses: Mapping[tuple[str, str], int]) -> str:
    """All that is known of a skill besides its instructions."""
    facts = {
        "description": skill.description,
        "source": f"{skill.source}, {skill.folder}",
        "identity": skill.digest,
        "keywords": ", ".join(skill.keywords),
        "arguments": ", ".join(skill.arguments) or skill.hint,
        "says that it uses": ", ".join(skill.tools),
        **skill.more,
        "claims to be": skill.claim if skill.claim != skill.tier else "",
        "files": _files(skill),
        "loaded": _count(skill, uses) or "never",
    }
    return "\n".join((skill.name, *(f"- {key}: {one_line(value, 2000)}" for key, value in facts.items() if value)))


def _listed(skills: Sequence[SkillDefinition]) -> list[str]:
    """A line for each skill, shorter ones where there are many, and how to find those that no line has."""
    for characters in (LINE_CHARACTERS, SHORT_LINE):
        lines = [f"- {skill.name}: {one_line(skill.description, characters)}" for skill in skills]
        if _bytes(lines) <= LISTED_BYTES:
            return lines
    most = [line for at, line in enumerate(lines) if _bytes(lines[: at + 1]) <= LISTED_BYTES]
    return [*most, f"- and {len(lines) - len(most)} more: search with `query` and operation `search`."]


def _bytes(lines: Sequence[str]) -> int:
    return sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in lines)


def _line(skill: SkillDefinition, uses: Mapping[tuple[str, str], int]) -> str:
    count = _count(skill, uses)
    notes = "; ".join(filter(None, (skill.source, f"loaded {count}" if count else "")))
    return f"- {skill.name} ({notes}): {one_line(skill.description, LINE_CHARACTERS)}"


def _count(skill: SkillDefinition, uses: Mapping[tuple[str, str], int]) -> str:
    number = uses.get((skill.source, skill.name), 0)
    return "" if not number else "once" if number == 1 else f"{number} times"


async def _load(skill: SkillDefinition, typed: str, _progress: Progress) -> ToolOutcome:
    return ToolOutcome(framed(skill, typed), content=(TextContent(skill.body),))


async def _read(skill: SkillDefinition, name: str, _progress: Progress) -> ToolOutcome:
    text = await anyio.to_thread.run_sync(read_skill_file, skill, name)
    if text is None:
        return ToolOutcome(f"{name} is no text, or too large; it lies in {skill.folder}.", is_error=True)
    return ToolOutcome(text, content=(TextContent(text),))


def _files(skill: SkillDefinition) -> str:
    return one_line(", ".join(skill.files), 2000) or "none"
