"""Slash commands that need only the session, and prompts that look like a command and are none.

Owns: /help, /status, /remember, /model, /thinking and /doctor, and telling a mistyped command from a path and
from prose: a model that is sent one guesses at its meaning and may act on the guess.
"""

from typing import TYPE_CHECKING

import anyio

from pattern_acp.commands.document import (
    SHOWN_TEXT,
    Column,
    ItemList,
    Paragraph,
    Result,
    Table,
    as_result,
    columns,
    one_line,
)
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.commands.slash import COMMANDS
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import canonical_json
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.messages import ImagePart, Message, ResourcePart, is_about_user
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import PromptRefused, SessionTitled
from pattern_acp.memory.errors import DuplicateFoundError
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.providers.base import ModelInfo, ThoughtLevel
from pattern_acp.session.context_usage import stable_part
from pattern_acp.session.definitions import written_commands
from pattern_acp.session.instructions import instructions_summary
from pattern_acp.session.jobs import jobs_summary
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import MODEL_OPTION, THOUGHT_OPTION, thought_level_of
from pattern_acp.session.ports import OptionUnusableError
from pattern_acp.turn.loop import TurnEnd
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.memory.service.session_memory import ConstellationMemory
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.mcp import SessionMcp
    from pattern_acp.session.ports import ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import FolderTrust


async def run_help(trust: "FolderTrust", mcp: "SessionMcp", *, name: str = "") -> Result:
    """List the commands, or the one with a name.

    Raises:
        CommandMisusedError: there is none with that name.
    """
    rows = (*COMMANDS.values(), *more_commands(trust, mcp))
    if name := name.removeprefix("/"):
        rows = tuple(row for row in rows if row.name == name)
        if not rows:
            raise CommandMisusedError(f"There is no command {one_line(f'/{name}', SHOWN_TEXT)}. /help lists all.")
    usages = tuple((f"/{row.name} {row.usage}".strip(), row.description) for row in rows)
    return as_result(Table(columns(Column("Command", code=True), "What it does"), usages))


async def run_status(session: "Session") -> Result:
    """Tell the session's state."""
    from pattern_acp.memory.blocks import Isolation, isolation_sentence
    from pattern_acp.providers.catalogue import assumed
    from pattern_acp.session.conversation_commands import place_rows, room_taken
    from pattern_acp.session.opening import refresh_grants
    from pattern_acp.session.state import sandbox_summary
    from pattern_acp.session.trust import reread_trust

    state, shared = session.state, session.constellation
    await refresh_grants(shared, state)
    await reread_trust(session.dialogue)
    isolation = Isolation(state.settings.memory.isolation)
    stable = stable_part(session.dialogue)
    tools = canonical_json(
        [{"name": t.name, "description": t.description, "schema": t.input_schema} for t in stable.tools]
    )
    size = len(stable.system.encode("utf-8", "surrogatepass")) + len(tools)
    rows = [
        ("Session", f"`{state.session_id}`"),
        ("Title", state.title or "(none yet)"),
        ("Model", f"`{state.model.qualified}`" + (f". {shared.model_reason}" if shared.model_reason else "")),
        *((("Assumed of it", taken),) if (taken := assumed(shared.models.resolve(state.model.qualified)[1])) else ()),
        *((("Key", key),) if (key := shared.models.key_in_use(state.model.qualified)) else ()),
        *((("Thinking", _thinking_of(state.model, state.thought_level)),) if state.model.thought_levels else ()),
        ("Mode", state.policy.mode.value),
        ("Sandbox", await sandbox_summary(session.constellation, session.state)),
        ("Folders", ", ".join(f"`{root}`" for root in state.policy.roots)),
        ("Constellation", f"{shared.name}, `{shared.database.path}`"),
        ("Disk usage", await room_taken(session.constellation)),
        ("Persona", state.persona.name),
        *((("Memory", isolated),) if (isolated := isolation_sentence(isolation)) else ()),
        ("Messages", str(len(state.history))),
        ("System prompt and tools", f"{size:,} bytes, {len(stable.tools)} tools"),
        ("Grants in this session", str(len(state.policy.grants))),
        *await place_rows(session),
        *((("Instructions", instructions_summary(session.state)),) if instructions_summary(session.state) else ()),
        *((("Folder", f"{session.trust.summary} (/trust)"),) if session.trust.summary else ()),
        *((("Background jobs", f"{jobs_summary(session.jobs)} (/background)"),) if jobs_summary(session.jobs) else ()),
        *((("MCP servers", f"{session.mcp.summary()} (/mcp)"),) if session.mcp.summary() else ()),
    ]
    problems = (Paragraph(problem, "warning") for problem in shared.problems)
    return as_result(Table(columns("", ""), tuple(rows)), *problems)


async def run_remember(memory: "ConstellationMemory", argument: str) -> Result:
    """Append the text as the user's own words: to `human` where it is about the user, otherwise to `project`.

    `me:` and `project:` in front choose.
    """
    label, text = "", argument
    for prefix, chosen in (("me", "human"), ("human", "human"), ("project", "project"), ("persona", "persona")):
        if argument.lower().startswith(f"{prefix}:"):
            label, text = chosen, argument[len(prefix) + 1 :].strip()
    if not text:
        raise CommandMisusedError("Say what to remember: /remember TEXT.")
    is_chosen = bool(label)
    label = label or ("human" if is_about_user(text) else "project")
    edit = MemoryEdit(label, "append", text, reason="The user asked to remember it.")
    try:
        change = await memory.commit(edit, None)
    except DuplicateFoundError as error:
        existing = one_line(error.existing, SHOWN_TEXT)
        return as_result(f"That is remembered already: “{existing}”. `/memory {label}` shows it.")
    added = len(change.after) - len(change.before)
    remembered = f"Remembered in `{change.label}` ({added:+,} characters): {text}"
    return as_result(remembered, "" if is_chosen else _how_to_move(label))


def _how_to_move(label: str) -> str:
    """Say who reads what was remembered in a block, and how to move it."""
    if label == "human":
        return (
            "It is about you, so every project sees it. To have it in this project alone: `/memory undo human`, then "
            "`/remember project: …`."
        )
    return "Only this project sees it. To have it in every project: `/memory undo project`, then `/remember me: …`."


async def run_model(session: "Session", argument: str) -> Result:
    """Show the models, or switch to the one that is named."""
    if argument:
        options = await session.set_option(MODEL_OPTION, argument, by="agent")
        await session.view.show_options(options)
        # Late, as all that only some commands need.
        from pattern_acp.session.context_usage import show_context

        await show_context(session.dialogue)
        return as_result(f"The model is now `{session.state.model.qualified}`.")
    current = session.state.model.qualified
    names = sorted({info.qualified for info in session.constellation.models.available()} | {current})
    lines = tuple(f"`{name}`{' ← in use' if name == current else ''}" for name in names)
    return as_result(ItemList(lines), "Switch with `/model PROVIDER/MODEL`.")


def _thinking_of(model: ModelInfo, chosen: ThoughtLevel) -> str:
    asked = thought_level_of(model, chosen)
    return asked if asked is chosen else f"{chosen} ({asked})"


async def run_thinking(session: "Session", argument: str) -> Result:
    """Show how much the model thinks, or choose it."""
    name = session.state.model.qualified
    option = next((option for option in session.options() if option.option_id == THOUGHT_OPTION), None)
    if option is None:
        raise OptionUnusableError(f"How much `{name}` thinks cannot be chosen; choose another model (/model).")
    if argument:
        level = argument.lower()
        if level not in (known := [choice.value for choice in option.choices]):
            raise OptionUnusableError(f"`{name}` has no level `{argument}`; choose one of {', '.join(known)}.")
        await session.view.show_options(await session.set_option(THOUGHT_OPTION, level, by="agent"))
        return as_result(f"Thinking of `{name}` is now `{level}`.")
    rows = tuple(
        f"`{choice.value}`{f': {choice.description}' if choice.description else ''}"
        f"{' ← in use' if choice.value == option.current else ''}"
        for choice in option.choices
    )
    return as_result(f"Thinking of `{name}`:", ItemList(rows), "Choose with `/thinking LEVEL`.")


async def run_doctor(shared: "Constellation") -> Result:
    """Check what this agent needs."""
    return (
        await shared.diagnose() if shared.diagnose is not None else as_result("Run `pattern-acp doctor` in a terminal.")
    )


def more_commands(trust: "FolderTrust", mcp: "SessionMcp") -> tuple[ServerCommand, ...]:
    """The commands beside ours: those that the user and the project wrote, and prompts of MCP servers."""
    definitions = trust.definitions
    written = written_commands(definitions, tuple(COMMANDS)) if definitions.commands or definitions.skills else ()
    return (*written, *mcp.commands())


_LOOKS_LIKE_ONE = late_pattern(r"/([A-Za-z][A-Za-z0-9_:-]{0,63})(?=\s|$)")
"""A name behind a slash; with another slash or a dot it is a path."""

NEAR = 0.6
"""Likeness from which on a name is offered; difflib's own."""


async def refuse_unknown(dialogue: "ExtendedDialogue", turn_id: TurnId) -> TurnEnd | None:
    """The end of a turn whose prompt is a command that there is not; None for anything else.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    prompt = dialogue.state.history[-1]
    found = _LOOKS_LIKE_ONE.match(prompt.typed_line)
    sentence = await _unknown(dialogue.trust, dialogue.mcp, found[1]) if found is not None else ""
    if not sentence:
        return None
    dialogue.state.history.remove(prompt)
    events = [NewEvent(PromptRefused(turn_id, sentence), Actor.SYSTEM)]
    if dialogue.state.title == title_of(prompt):
        # No session is about a slip; its next prompt gives the title.
        dialogue.state.title = ""
        events.append(NewEvent(SessionTitled(""), Actor.SYSTEM, Origin.PERSON))
    await dialogue.recorder.record(*events)
    return TurnEnd(StopReason.END_TURN, sentence)


async def _unknown(trust: "FolderTrust", mcp: "SessionMcp", name: str) -> str:
    import difflib

    names = [*COMMANDS, *(command.name for command in more_commands(trust, mcp))]
    # A name that is a path of this machine (`/tmp`) is taken for one.
    if name in names or await anyio.Path(f"/{name}").exists():
        return ""
    near = difflib.get_close_matches(name.lower(), names, 1, NEAR)
    meant = f" Did you mean /{near[0]}?" if near else ""
    advice = "/help lists all; with a blank in front, the text goes to the model as it is."
    return f"There is no command /{name}.{meant} {advice}"


TITLE_LENGTH = 60

PASTE_CHARACTERS = 2_000
"""From here on a text is taken for a paste, of which the title says how much it is."""


def title_of(message: Message) -> str:
    """The first line of the prompt, cut at a word, and of a paste how much follows it.

    At most 60 characters, never empty.
    """
    said = message.words
    lines = said.splitlines()
    for number, line in enumerate(lines, 1):
        words = line.strip().lstrip("#>*- ").strip()
        # A paste often begins with the fence of its code.
        if words and not words.startswith("```"):
            return _with_size(words, said, len(lines) - number)
    for part in message.parts:
        if isinstance(part, ResourcePart) and part.name:
            return _cut(part.name)
        if isinstance(part, ImagePart) and part.name:
            return _cut(part.name)
    return "Untitled"


def _with_size(words: str, text: str, lines_below: int) -> str:
    if len(text) < PASTE_CHARACTERS:
        return _cut(words)
    size = f" (+{plural(lines_below, 'line')})" if lines_below else f" ({len(text):,} characters)"
    return _cut(words, TITLE_LENGTH - len(size)) + size


def _cut(text: str, most: int = TITLE_LENGTH) -> str:
    if len(text) <= most:
        return text
    head = text[: most - 1]
    at_word = head.rsplit(" ", 1)[0]
    return (at_word if len(at_word) > most // 2 else head).rstrip(" ,.;:") + "…"
