"""Slash commands. They arrive as the prompt's text, `/name argument`; the model never sees them."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.domain.action_lines import split_action
from pattern_acp.domain.canonical import canonical_json
from pattern_acp.domain.messages import Message
from pattern_acp.memory.refusals import DuplicateFoundError
from pattern_acp.session.definitions import run_skills, written_commands
from pattern_acp.session.errors import CommandMisusedError, OptionUnusableError
from pattern_acp.session.instructions import instructions_summary
from pattern_acp.session.jobs import jobs_summary, run_jobs
from pattern_acp.session.late_commands import (
    run_archive,
    run_budget,
    run_checkpoint,
    run_checkpoints,
    run_clear,
    run_code,
    run_compact,
    run_diff,
    run_export,
    run_fork,
    run_handoff,
    run_memory,
    run_pin,
    run_recall,
    run_rename,
    run_rewind,
    run_search,
    run_tools,
    run_trust,
    run_undelete,
    run_usage,
)
from pattern_acp.session.mcp import ServerCommand
from pattern_acp.session.options import MODEL_OPTION, THOUGHT_OPTION, thought_level_of
from pattern_acp.tools.base import MemoryEdit

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

Run = Callable[["Session", str], Awaitable[str]]
"""Answers in Markdown."""


class Command(Struct, frozen=True):
    """A command as it was typed."""

    name: str
    argument: str


class CommandSpec(Struct, frozen=True):
    """A command as it is advertised; `hint` tells what to type behind it, empty when it takes nothing."""

    name: str
    description: str
    hint: str
    run: Run


def command_in(text: str) -> Command | None:
    """The command that `text` is, or None; only known names count, so that a path like /etc stays a prompt."""
    found = split_action(text.strip())
    return Command(*found) if found is not None and found[0] in COMMANDS else None


def command_of(message: Message) -> Command | None:
    """The command that the user typed, or None, whatever a client put around it."""
    return command_in(message.typed_line)


async def run_help(session: "Session", argument: str) -> str:
    """List the commands."""
    del argument
    lines = ["| Command | What it does |", "| --- | --- |"]
    for spec in (*COMMANDS.values(), *more_commands(session)):
        usage = f"/{spec.name} {spec.hint}".strip().replace("|", "\\|")  # a bar would end the cell, even in code
        lines.append(f"| `{usage}` | {spec.description} |")
    return "\n".join(lines)


async def run_status(session: "Session", argument: str) -> str:
    """Tell the session's state."""
    del argument
    from pattern_acp.memory.permissions import Isolation, isolation_sentence
    from pattern_acp.providers.model_figures import assumed
    from pattern_acp.session.conversation_commands import place_rows, room_taken

    state, shared = session.state, session.constellation
    isolation = Isolation(state.settings.memory.isolation)
    stable = session.stable()
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
        *((("Thinking", thought_level_of(state.model, state.thought_level)),) if state.model.thought_levels else ()),
        ("Mode", state.policy.mode.value),
        ("Folders", ", ".join(f"`{root}`" for root in state.policy.roots)),
        ("Constellation", f"{shared.name}, `{shared.database.path}`"),
        ("Room taken", await room_taken(session)),
        ("Persona", shared.persona.name),
        *((("Memory", isolated),) if (isolated := isolation_sentence(isolation)) else ()),
        ("Messages", str(len(state.history))),
        ("System prompt and tools", f"{size:,} bytes, {len(stable.tools)} tools"),
        ("Grants in this session", str(len(state.policy.grants))),
        *await place_rows(session),
        *((("Instructions", instructions_summary(session)),) if instructions_summary(session) else ()),
        *((("Folder", f"{session.trust.summary} (/trust)"),) if session.trust.summary else ()),
        *((("Background jobs", f"{jobs_summary(session.jobs)} (/jobs)"),) if jobs_summary(session.jobs) else ()),
        *((("MCP servers", f"{session.mcp.summary()} (/mcp)"),) if session.mcp.summary() else ()),
    ]
    lines = ["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in rows)]
    lines += [f"\n> {problem}" for problem in shared.problems]
    return "\n".join(lines)


async def run_remember(session: "Session", argument: str) -> str:
    """Append the text to the `human` block as the person's own words; `project:` in front chooses the project."""
    label, text = "human", argument
    for prefix in ("persona", "human", "project"):
        if argument.lower().startswith(f"{prefix}:"):
            label, text = prefix, argument[len(prefix) + 1 :].strip()
    if not text:
        raise CommandMisusedError("Say what to remember: /remember TEXT.")
    edit = MemoryEdit(label, "append", text, reason="The person asked to remember it.")
    try:
        change = await session.person_memory.commit(edit, None)
    except DuplicateFoundError as error:
        return f"That is remembered already: “{one_line(error.existing)}”. `/memory {label}` shows it."
    added = len(change.after) - len(change.before)
    return f"Remembered in `{change.label}` ({added:+,} characters): {text}"


async def run_model(session: "Session", argument: str) -> str:
    """Show the models, or switch to the one that is named."""
    if argument:
        options = await session.set_option(MODEL_OPTION, argument, by="agent")
        await session.view.show_options(options)
        # Late, as all that only some commands need.
        from pattern_acp.session.context_figure import show_context

        await show_context(session)
        return f"The model is now `{session.state.model.qualified}`."
    current = session.state.model.qualified
    names = sorted({info.qualified for info in session.constellation.models.available()} | {current})
    lines = [f"- `{name}`{' ← in use' if name == current else ''}" for name in names]
    return "\n".join([*lines, "", "Switch with `/model PROVIDER/MODEL`."])


async def run_thinking(session: "Session", argument: str) -> str:
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
        return f"Thinking of `{name}` is now `{level}`."
    rows = [
        f"- `{choice.value}`{f': {choice.description}' if choice.description else ''}"
        f"{' ← in use' if choice.value == option.current else ''}"
        for choice in option.choices
    ]
    return "\n".join([f"Thinking of `{name}`:", "", *rows, "", "Choose with `/thinking LEVEL`."])


async def run_mcp(session: "Session", argument: str) -> str:
    """List the MCP servers."""
    del argument
    return session.mcp.report()


async def run_doctor(session: "Session", argument: str) -> str:
    """Check what this agent needs."""
    del argument
    diagnose = session.constellation.diagnose
    return await diagnose() if diagnose is not None else "Run `pattern-acp doctor` in a terminal."


def one_line(text: str, limit: int = 240) -> str:
    """`text` on one line, cut to `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def more_commands(session: "Session") -> tuple[ServerCommand, ...]:
    """The commands beside ours: those that the person and the project wrote, and prompts of MCP servers."""
    return (*written_commands(session.trust.definitions, tuple(COMMANDS)), *session.mcp.commands())


COMMANDS: dict[str, CommandSpec] = {
    spec.name: spec
    for spec in (
        CommandSpec("help", "List the commands", "", run_help),
        CommandSpec("status", "Model, mode, folders, memory file, prompt size", "", run_status),
        CommandSpec(
            "memory", "What is remembered: show, compare, undo, edit", "[LABEL | VERB LABEL | help]", run_memory
        ),
        CommandSpec("remember", "Remember something for every later session", "[project:] TEXT", run_remember),
        CommandSpec("recall", "Search memory and past sessions", "[--kind K] [--since DAY] QUERY", run_recall),
        CommandSpec("code", "Find code: a name, or brief, outline, callers, importers, impact", "FIND", run_code),
        CommandSpec("model", "Show the models, or switch", "[PROVIDER/MODEL]", run_model),
        CommandSpec("thinking", "How much the model thinks, or choose it", "[LEVEL]", run_thinking),
        CommandSpec("tools", "The model's tools; native calls or text", "[native | text | auto]", run_tools),
        CommandSpec("usage", "Tokens and money: this session, its turns, and today", "", run_usage),
        CommandSpec("budget", "What may be spent: show, or set one", "[turn | session | day AMOUNT]", run_budget),
        CommandSpec("search", "Find what was said in any session", "WORDS", run_search),
        CommandSpec("rename", "Give this session another title", "TITLE", run_rename),
        CommandSpec("fork", "Begin another session with this one's history", "[TURN]", run_fork),
        CommandSpec("archive", "Put this session away until its next prompt", "", run_archive),
        CommandSpec("undelete", "Bring a deleted session back", "[ID]", run_undelete),
        CommandSpec("handoff", "Tell the next session where this one stands; show the last", "[list]", run_handoff),
        CommandSpec("clear", "Start the model's context anew; memory and transcript stay", "", run_clear),
        CommandSpec(
            "compact", "Sum up the older part of the conversation for the model", "[INSTRUCTIONS]", run_compact
        ),
        CommandSpec("pin", "Keep your last message and its answer in the model's context", "[list | off]", run_pin),
        CommandSpec("diff", "What this session changed in files", "[PATH]", run_diff),
        CommandSpec("checkpoint", "Name this moment, to go back to it later", "NAME", run_checkpoint),
        CommandSpec("checkpoints", "The moments to which the session can go back", "", run_checkpoints),
        CommandSpec(
            "rewind",
            "Go back: conversation, files, memory; shows first what would change",
            "[TURN | NAME | last | undo] [conversation] [files] [memory]",
            run_rewind,
        ),
        CommandSpec("export", "Write the conversation as Markdown", "[--overwrite] [PATH]", run_export),
        CommandSpec("jobs", "Background commands: list, stop", "[stop ID]", run_jobs),
        CommandSpec("mcp", "MCP servers, their state and tools", "", run_mcp),
        CommandSpec("skills", "The skills there are, and what each is for", "", run_skills),
        CommandSpec("trust", "What this folder would run, and whether it may", "[list | revoke]", run_trust),
        CommandSpec("doctor", "Check the installation and say how to mend it", "", run_doctor),
    )
}
"""All slash commands, in the order they are advertised."""
