"""The commands, skills and personas that people write, in one session.

Owns: which commands and skills may be used now, how they are shown, and a command's way to the model; the choice of
another persona, and `/persona`. Must not know: their files (`definitions/`, `context/instructions.py`). What is built
in wins over a definition by the same name. With a persona the prompt, the memory, the tools, the standing permissions
and the model that its file names change from the next request on; the conversation stays.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio.to_thread

from pattern_acp.commands.document import Column, ItemList, Result, Table, as_result, columns
from pattern_acp.commands.parameters import first_word
from pattern_acp.context.instructions import with_persona
from pattern_acp.definitions.collection import NO_DEFINITIONS, Definitions
from pattern_acp.definitions.commands import CommandDefinition, expanded, inline_commands
from pattern_acp.definitions.personas import INLINE, Persona, lower_mode, typed_persona
from pattern_acp.definitions.skills import SKILL_FILE, SKILL_TOOL, SkillDefinition, framed
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.errors import ConfigError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.hooks import matches
from pattern_acp.journal.events import InstructionsCompiled, PromptRefused, SessionConfigured
from pattern_acp.journal.turn_ends import TurnFailure
from pattern_acp.policy.grants import GrantOwner, load_grants
from pattern_acp.session.attachments import with_files
from pattern_acp.session.definition_pins import keeping, sources_to_keep
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import MODE_OPTION, MODEL_OPTION, PERSONA_OPTION
from pattern_acp.session.ports import OptionUnusableError
from pattern_acp.session.state import Addition
from pattern_acp.session.trust import HOW_TO_TRUST, agree_to_skill, ensure_trust
from pattern_acp.turn.loop import TurnEnd
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.db.connection import Database
    from pattern_acp.definitions.personas import PersonaRef
    from pattern_acp.domain.clock import IdFactory
    from pattern_acp.providers.base import ModelInfo
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue, Workbench
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import FolderTrust, SessionState
    from pattern_acp.tools.base import Tool
    from pattern_acp.tools.skill import WriteSkill
    from pattern_acp.turn.recorder import JournalRecorder
    from pattern_acp.turn.tool_runner import ToolRunner


_TYPED = late_pattern(r"/([A-Za-z0-9][A-Za-z0-9_:-]*)(?:\s+(.*))?", re.DOTALL)


def clashes(definitions: Definitions, built_in: "tuple[str, ...]") -> tuple[str, ...]:
    """Sentences about commands that have the name of a built-in one; a skill is loaded by the model all the same."""
    return tuple(
        f"The command /{command.name} of {command.path} has the name of a built-in one, which counts; rename the file."
        for command in definitions.commands
        if command.name in built_in
    )


def written_commands(definitions: Definitions, built_in: "tuple[str, ...]") -> tuple[ServerCommand, ...]:
    """The commands as they are advertised, and the skills that the user may load by their names."""
    written = {
        command.name: ServerCommand(command.name, command.description, command.hint) for command in definitions.commands
    }
    for skill in definitions.skills:
        if skill.for_user:
            written.setdefault(skill.name, ServerCommand(skill.name, one_line(skill.description, 200), skill.hint))
    return tuple(command for name, command in written.items() if name not in built_in)


def usable_skills(trust: "FolderTrust") -> tuple[SkillDefinition, ...]:
    """The user's skills, and those of a project that they trust."""
    return tuple(skill for skill in trust.definitions.skills if trust.may_use(skill))


def fix_skills(dialogue: "ExtendedDialogue") -> None:
    """Decide once a session's process whether the prompt offers skills, and which it lists."""
    is_open = dialogue.state.skill_tool is None and dialogue.trust.definitions.skills
    if is_open and any(skill.for_model for skill in usable_skills(dialogue.trust)):
        dialogue.state.skill_writer = dialogue.state.skill_writer or _writer(dialogue)
        from pattern_acp.tools.skill import LoadSkill

        dialogue.state.skill_tool = LoadSkill(
            lambda: usable_skills(dialogue.trust), partial(_uses, dialogue.shared.database)
        )


def _writer(dialogue: "ExtendedDialogue") -> "WriteSkill":
    from pattern_acp.tools.skill import WriteSkill

    return WriteSkill(lambda: dialogue.trust.definitions.skills, partial(agree_to_skill, dialogue))


async def _uses(database: "Database") -> Mapping[tuple[str, str], int]:
    from pattern_acp.journal.usage import skill_uses

    return await database.read(skill_uses)


async def run_skills(session: "Session", argument: str) -> Result:
    """List the skills, search them, or tell all about the one that is named."""
    if argument.strip() == "learn":
        session.state.skill_writer = session.state.skill_writer or _writer(session.dialogue)
        return as_result(
            "From the next prompt on I can propose skills. Say what is worth saving, such as “Make a skill of how we "
            "fixed the build”; you see each before it is written, and `/rewind` takes it back."
        )
    skills, uses = session.trust.definitions.skills, await _uses(session.constellation.database)
    if not skills:
        return as_result(
            "There are no skills. A skill is a folder with a SKILL.md, below `.pattern/skills` of the project; "
            "`/skills learn` lets me propose some."
        )
    named = next((skill for skill in skills if skill.name == argument.strip()), None)
    from pattern_acp.tools.skill import about, find_by_words

    if named is not None:
        return as_result(about(named, uses))
    if argument.strip():
        found = dict(await anyio.to_thread.run_sync(find_by_words, skills, argument))
        if not found:
            return as_result(f"No skill has any of these words; there are {len(skills)}.")
        skills = tuple(skill for name in found for skill in skills if skill.name == name)
    usable = usable_skills(session.trust)
    rows: list[tuple[str, ...]] = []
    for skill in skills:
        where = f"`{skill.folder}`" + ("" if skill in usable else " (not trusted: /trust)")
        count = str(uses.get((skill.source, skill.name), 0) or "")
        rows.append((skill.name, skill.description, skill.source, count, where))
    heads = columns(Column("Skill", code=True), Column("What it is for", limit=300), "Source", "Loaded", "Where")
    return as_result(Table(heads, tuple(rows)))


def command_typed(trust: "FolderTrust", message: Message) -> tuple[CommandDefinition, str] | None:
    """The written command that the last text of a message names, with what was typed behind it."""
    if not trust.definitions.commands:
        return None
    match = _TYPED.fullmatch(message.typed_line.strip())
    if match is None:
        return None
    found = next((each for each in trust.definitions.commands if each.name == match[1]), None)
    return (found, (match[2] or "").strip()) if found is not None else None


def skill_typed(trust: "FolderTrust", message: Message) -> tuple[SkillDefinition, str] | None:
    """The skill that the last text of a message names as a command, with what was typed behind it."""
    match = _TYPED.fullmatch(message.typed_line.strip()) if trust.definitions.skills else None
    if match is None:
        return None
    found = next((each for each in trust.definitions.skills if each.name == match[1] and each.for_user), None)
    return (found, (match[2] or "").strip()) if found is not None else None


def names_written(trust: "FolderTrust", message: Message) -> bool:
    """True when a message names a command or a skill that somebody wrote."""
    return command_typed(trust, message) is not None or skill_typed(trust, message) is not None


async def _load_typed(
    dialogue: "ExtendedDialogue", turn_id: TurnId, skill: SkillDefinition, typed: str
) -> TurnEnd | None:
    if skill.of_project:
        await ensure_trust(dialogue, turn_id, used=bool(dialogue.trust.offer.parts))
        # As the user has just agreed to it, if it was asked about.
        skill = next((each for each in dialogue.trust.definitions.skills if each.name == skill.name), skill)
        if not dialogue.trust.may_use(skill):
            return await _refuse(
                dialogue.state, dialogue.recorder, turn_id, f"/{skill.name} is a skill of this project"
            )
    asked = f"The user typed /{skill.name}{f' {typed}' if typed else ''}: follow the skill's instructions now."
    text = f"{framed(skill, typed)}\n\n{asked}"
    path = str(Path(skill.folder, SKILL_FILE))
    dialogue.state.waiting.append(Addition(SKILL_TOOL, f"Skill {skill.name}", text, f"skill {skill.name}", path))
    return None


async def _refuse(state: "SessionState", recorder: "JournalRecorder", turn_id: TurnId, what: str) -> TurnEnd:
    """Take the prompt back: it names something of a folder that is not trusted."""
    state.history.pop()
    sentence = f"{what}, and the folder is not trusted. {HOW_TO_TRUST}"
    await recorder.record(NewEvent(PromptRefused(turn_id, sentence), Actor.SYSTEM, Origin.WORKSPACE))
    return TurnEnd(StopReason.END_TURN, sentence, failure=TurnFailure("trust.undecided"))


async def expand_command(
    dialogue: "ExtendedDialogue",
    workbench: "Workbench",
    turn_id: TurnId,
    new_runner: "Callable[[], Awaitable[ToolRunner]]",
) -> TurnEnd | None:
    """Put what a typed command stands for beside the prompt; the turn's end when its folder is not trusted.

    `new_runner` makes what runs the lines of a command, which hardly a prompt is.

    Raises:
        DatabaseError: something could not be recorded; the turn stops.
    """
    prompt = dialogue.state.history[-1]
    typed = command_typed(dialogue.trust, prompt)
    if typed is None:
        named = skill_typed(dialogue.trust, prompt)
        return await _load_typed(dialogue, turn_id, *named) if named is not None else None
    command, arguments = typed
    if command.of_project:
        await ensure_trust(dialogue, turn_id, used=bool(dialogue.trust.offer.parts))
        command = next((each for each in dialogue.trust.definitions.commands if each.name == command.name), command)
        if not dialogue.trust.may_use(command):
            return await _refuse(
                dialogue.state, dialogue.recorder, turn_id, f"/{command.name} is a command of this project"
            )
    lines, runner = inline_commands(command.body, arguments), await new_runner()
    outputs = {line: await _output(dialogue.shared.ids, turn_id, runner, filled) for line, filled in lines.items()}
    text = expanded(command.body, arguments, outputs)
    # What a line printed may look like a mention; only the file and the user name files.
    named = expanded(command.body, arguments, {})
    seen = await with_files(dialogue.state, workbench, Message(MessageId("command"), Role.USER, (TextPart(named),)))
    dialogue.state.waiting.append(
        Addition(
            "command",
            f"Command /{command.name}",
            f"The user typed /{command.name}, which stands for this:\n\n{text}",
            f"command /{command.name}",
            command.path,
            seen.parts[1:],
        )
    )
    return None


def allowed_by_command(state: "SessionState", trust: "FolderTrust", names: "tuple[str, ...]") -> "tuple[str, ...]":
    """Tools among `names` that the command of this turn allows; it narrows and never grants."""
    typed = command_typed(trust, state.history[-1]) if state.history else None
    if typed is None or not typed[0].tools:
        return names
    return named_tools(typed[0].tools, names)


def named_tools(written: "tuple[str, ...]", names: "tuple[str, ...]") -> "tuple[str, ...]":
    """The tools among `names` that a head names, by our names or those of hooks.md; `*` stands for any letters."""
    # `Bash(git log:*)` means the tool; which lines it may run is for policy to say.
    patterns = [re.escape(tool.partition("(")[0].strip()).replace(r"\*", ".*") for tool in written]
    return tuple(name for name in names if any(matches(pattern, name) for pattern in patterns))


def tools_of_persona(persona: "PersonaRef", tools: "Sequence[Tool]") -> "tuple[Tool, ...]":
    """Those of some tools that a persona has."""
    written = persona.tools
    if not written:
        return tuple(tools)
    names = frozenset(named_tools(written, tuple(tool.spec.name for tool in tools)))
    return tuple(tool for tool in tools if tool.spec.name in names)


async def _output(ids: "IdFactory", turn_id: TurnId, runner: "ToolRunner", line: str) -> str:
    """Output of a line of a command's file, run like any command of the model: policy, questions and hooks apply."""
    call_id = ToolCallId(ids.new("call"))
    arguments = json.dumps({"command": line, "description": "Part of a slash command"})
    (result,) = await runner.run(turn_id, [ToolCallPart(call_id, "run_command", arguments)])
    # Late, as all that only commands and skills of users need.
    from pattern_acp.tools.run_command import printed_by

    return printed_by(result.text)


ModelNamed: TypeAlias = "Callable[[str], tuple[ModelInfo, list[str]]]"
"""Finds a model by its name; sentences say why it is another one."""


async def change_persona(session: "Session", name: str, model_named: ModelNamed, *, by: str = "client") -> None:
    """Continue as another persona.

    Raises:
        OptionUnusableError: its file cannot be read, or the session's prompt is of an earlier release.
        DatabaseError: it could not be recorded.
    """
    persona = await become_named(session.dialogue, name, by)
    if persona is not None:
        await _take_preferences(session, persona, model_named, by)


async def become_named(dialogue: "Dialogue", name: str, by: str) -> Persona | None:
    """Continue as another persona, with the models of now; None where that is the persona already.

    Raises:
        OptionUnusableError: its file cannot be read, or the session's prompt is of an earlier release.
        DatabaseError: it could not be recorded.
    """
    shared = dialogue.shared
    if name == dialogue.state.persona.name or shared.persona_named is None:
        return None
    try:
        persona = await anyio.to_thread.run_sync(shared.persona_named, name)
    except ConfigError as error:
        raise OptionUnusableError(error.sentence) from error
    await _become(dialogue, persona, by)
    return persona


async def _become(dialogue: "Dialogue", persona: Persona, by: str) -> None:
    """Record another persona, and continue as it.

    Raises:
        OptionUnusableError: the session's prompt is of an earlier release.
        DatabaseError: it could not be recorded.
    """
    state, shared, name = dialogue.state, dialogue.shared, persona.name
    system = with_persona(state.system, persona)
    if system is None:
        raise OptionUnusableError(
            "The prompt of this session was made by an earlier release, so its persona stays; start a new session."
        )
    sources = await sources_to_keep(shared.database, NO_DEFINITIONS, state.cwd, (persona.sources,))
    await dialogue.recorder.record(
        NewEvent(SessionConfigured(PERSONA_OPTION, name, by), Actor.HUMAN, Origin.EDITOR),
        NewEvent(
            InstructionsCompiled(system, persona.identity, state.instructions, state.pins, persona.symbol), Actor.SYSTEM
        ),
        behind=keeping(sources),
    )
    state.system, state.persona = system, persona.ref
    state.policy.owner = GrantOwner(state.policy.owner.project, persona.identity)
    state.shown = None
    dialogue.memory.follow_persona()
    state.policy.grants[:] = await shared.database.read(
        lambda tx: load_grants(tx, dialogue.session_id, state.policy.owner)
    )


async def _take_preferences(session: "Session", persona: Persona, model_named: ModelNamed, by: str) -> None:
    """Continue with the persona's model, and in its mode where that may do less than the one of now."""
    state = session.state
    if persona.model and persona.model != state.model.qualified:
        model, notices = model_named(persona.model)
        state.notices += notices
        if not notices and model.qualified != state.model.qualified:
            await session.set_option(MODEL_OPTION, model.qualified, by=by)
    mode = lower_mode(state.policy.mode, persona.mode)
    if mode != state.policy.mode:
        await session.set_option(MODE_OPTION, mode, by=by)


async def run_persona(session: "Session", argument: str) -> Result:
    """List the personas, or continue as another one."""
    state, known = session.state, session.constellation.personas
    verb, words = first_word(argument)
    if verb == INLINE and words.strip():
        persona = typed_persona(words.strip())
        await _become(session.dialogue, persona, by="agent")
        await session.view.show_options(session.options())
        return as_result(
            "From the next prompt on, this text is the persona, with a memory of its own, and without the standing "
            "permissions of the earlier one. It counts until this session is closed: to open the session again with "
            f"it, save the text as personas/{persona.name}.md beside your config.toml."
        )
    if argument:
        if argument not in known:
            names = ", ".join(known) or "none"
            raise OptionUnusableError(f"There is no persona {argument[:80]!r}; there are {names}.")
        before = (state.model.qualified, state.policy.mode)
        await session.view.show_options(await session.set_option(PERSONA_OPTION, argument, by="agent"))
        sentences = [f"From the next prompt on, {argument} answers, with its own memory and standing permissions."]
        if state.model.qualified != before[0]:
            sentences.append(f"Its model is {state.model.qualified}.")
        if state.policy.mode != before[1]:
            sentences.append(f"The mode is {state.policy.mode} now, as its file says.")
        if state.persona.tools:
            sentences.append(f"It has these tools alone: {', '.join(state.persona.tools)}.")
        return as_result(" ".join(sentences))
    names = {state.persona.name: "", **known}
    rows = tuple(
        f"`{name}`{': ' if words else ''}{words}{' ← answers' if name == state.persona.name else ''}"
        for name, words in names.items()
    )
    how = "Choose with `/persona NAME`, or type one for this session: `/persona inline TEXT`."
    return as_result(ItemList(rows), how)
