"""The table of slash commands. They arrive as the prompt's text, `/name argument`; the model never sees them.

Owns: their names and help, and which one a text is. Must not know: what any of them does. Editors get the list with
every session, so a command is named here and its module imported when it is first typed (docs/benchmarks.md).
"""

from collections.abc import Awaitable, Callable
from pkgutil import resolve_name
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from pattern_acp.domain.action_lines import split_action
from pattern_acp.domain.messages import Message

if TYPE_CHECKING:
    from typing import Any


class Typed(Struct, frozen=True):
    """A command as it was typed."""

    name: str
    argument: str


class Command(Struct, frozen=True):
    """A command as it is advertised; `hint` tells what to type behind it, empty when it takes nothing."""

    name: str
    description: str
    hint: str
    do: str
    """What carries it out, as `module:function`: it takes the session and the argument, and answers in Markdown."""

    @property
    def run(self) -> "Callable[[Any, str], Awaitable[str]]":
        """What carries it out; its module is imported now."""
        return cast("Callable[[Any, str], Awaitable[str]]", resolve_name(self.do))


def command_in(text: str) -> Typed | None:
    """The command that `text` is, or None; only known names count, so that a path like /etc stays a prompt."""
    found = split_action(text.strip())
    return Typed(*found) if found is not None and found[0] in COMMANDS else None


def command_of(message: Message) -> Typed | None:
    """The command that the user typed, or None, whatever a client put around it."""
    return command_in(message.typed_line)


COMMANDS: dict[str, Command] = {
    spec.name: spec
    for spec in (
        Command("help", "List the commands", "", "pattern_acp.session.commands:run_help"),
        Command(
            "status", "Model, mode, folders, memory file, prompt size", "", "pattern_acp.session.commands:run_status"
        ),
        Command(
            "memory",
            "What is remembered: show, compare, undo, edit",
            "[LABEL | VERB LABEL | help]",
            "pattern_acp.session.memory_commands:run_memory",
        ),
        Command(
            "remember",
            "Remember something for every later session",
            "[project:] TEXT",
            "pattern_acp.session.commands:run_remember",
        ),
        Command(
            "recall",
            "Search memory and past sessions",
            "[--kind K] [--since DAY] QUERY",
            "pattern_acp.session.memory_commands:run_recall",
        ),
        Command(
            "code",
            "Find code: a name, or brief, outline, callers, importers, impact",
            "FIND",
            "pattern_acp.session.code_commands:run_code",
        ),
        Command("model", "Show the models, or switch", "[PROVIDER/MODEL]", "pattern_acp.session.commands:run_model"),
        Command(
            "thinking",
            "How much the model thinks, or choose it",
            "[LEVEL]",
            "pattern_acp.session.commands:run_thinking",
        ),
        Command(
            "tools",
            "The model's tools; native calls or text",
            "[native | text | auto]",
            "pattern_acp.session.tool_form:run_tools",
        ),
        Command(
            "usage",
            "Tokens and money: this session, its turns, and today",
            "",
            "pattern_acp.session.usage_commands:run_usage",
        ),
        Command(
            "budget",
            "What may be spent: show, or set one",
            "[turn | session | day AMOUNT]",
            "pattern_acp.session.budget_commands:run_budget",
        ),
        Command(
            "search", "Find what was said in any session", "WORDS", "pattern_acp.session.session_commands:run_search"
        ),
        Command(
            "rename", "Give this session another title", "TITLE", "pattern_acp.session.session_commands:run_rename"
        ),
        Command(
            "fork",
            "Begin another session with this one's history",
            "[TURN]",
            "pattern_acp.session.session_commands:run_fork",
        ),
        Command(
            "archive",
            "Put this session away until its next prompt",
            "",
            "pattern_acp.session.session_commands:run_archive",
        ),
        Command(
            "undelete", "Bring a deleted session back", "[ID]", "pattern_acp.session.session_commands:run_undelete"
        ),
        Command(
            "handoff",
            "Tell the next session where this one stands; show the last",
            "[list]",
            "pattern_acp.session.handoff:run_handoff",
        ),
        Command(
            "clear",
            "Start the model's context anew; memory and transcript stay",
            "",
            "pattern_acp.session.conversation_commands:run_clear",
        ),
        Command(
            "compact",
            "Sum up the older part of the conversation for the model",
            "[INSTRUCTIONS]",
            "pattern_acp.session.compact_commands:run_compact",
        ),
        Command(
            "pin",
            "Keep your last message and its answer in the model's context",
            "[list | off]",
            "pattern_acp.session.compact_commands:run_pin",
        ),
        Command(
            "diff", "What this session changed in files", "[PATH]", "pattern_acp.session.conversation_commands:run_diff"
        ),
        Command(
            "checkpoint",
            "Name this moment, to go back to it later",
            "NAME",
            "pattern_acp.session.rewind_commands:run_checkpoint",
        ),
        Command(
            "checkpoints",
            "The moments to which the session can go back",
            "",
            "pattern_acp.session.rewind_commands:run_checkpoints",
        ),
        Command(
            "rewind",
            "Go back: conversation, files, memory; shows first what would change",
            "[TURN | NAME | last | undo] [conversation] [files] [memory]",
            "pattern_acp.session.rewind_commands:run_rewind",
        ),
        Command(
            "export",
            "Write the conversation as Markdown",
            "[--overwrite] [PATH]",
            "pattern_acp.session.conversation_commands:run_export",
        ),
        Command("jobs", "Background commands: list, stop", "[stop ID]", "pattern_acp.session.jobs:run_jobs"),
        Command("mcp", "MCP servers, their state and tools", "", "pattern_acp.session.commands:run_mcp"),
        Command(
            "skills", "The skills there are, and what each is for", "", "pattern_acp.session.definitions:run_skills"
        ),
        Command(
            "trust",
            "What this folder would run, and whether it may",
            "[list | revoke]",
            "pattern_acp.session.trust_commands:run_trust",
        ),
        Command(
            "doctor", "Check the installation and say how to mend it", "", "pattern_acp.session.commands:run_doctor"
        ),
    )
}
"""All slash commands, in the order they are advertised."""
