"""The table of slash commands. They arrive as the prompt's text, `/name argument`; the model never sees them.

Owns: their names and help, and which one a text is. Must not know: what any of them does. Editors get the list with
every session, so a command is named here and its module imported when it is first typed (benchmarks.md).
"""

from msgspec import Struct

from pattern_acp.commands.parameters import ARGUMENT, Command, Kind, Parameter
from pattern_acp.commands.sessions import ARCHIVE, FORK, RENAME, SEARCH, UNDELETE
from pattern_acp.domain.action_lines import split_action
from pattern_acp.domain.messages import Message


class Typed(Struct, frozen=True):
    """A command as it was typed."""

    name: str
    argument: str


def command_in(text: str) -> Typed | None:
    """The command that `text` is, or None; only known names count, so that a path like /etc stays a prompt."""
    found = split_action(text.strip())
    return Typed(*found) if found is not None and found[0] in COMMANDS else None


def command_of(message: Message) -> Typed | None:
    """The command that the user typed, or None, whatever a client put around it."""
    typed = message.typed_line
    return command_in(typed) if typed.lstrip().startswith("/") else None


def _row(
    name: str,
    description: str,
    do: str,
    hint: str = "",
    *,
    taken: tuple[Parameter, ...] = (ARGUMENT,),
    parts: tuple[str, ...] = (),
    beside: bool = False,
    extra: str = "",
) -> Command:
    return Command(name, description, f"pattern_acp.{do}", taken, hint, parts=parts, beside=beside, extra=extra)


COMMANDS: dict[str, Command] = {
    spec.name: spec
    for spec in (
        _row(
            "help",
            "List the commands, or describe one",
            "session.commands:run_help",
            taken=(Parameter("name", metavar="COMMAND"),),
            beside=True,
            parts=("trust", "mcp"),
        ),
        _row(
            "status",
            "Model, mode, folders, memory file, prompt size",
            "session.commands:run_status",
            taken=(),
            beside=True,
        ),
        _row(
            "memory",
            "What is remembered: show, compare, undo, edit",
            "session.memory_commands:run_memory",
            "[LABEL | VERB LABEL | help]",
        ),
        _row(
            "remember",
            "Remember something for every later session",
            "session.commands:run_remember",
            "[me: | project:] TEXT",
            parts=("person_memory",),
        ),
        _row(
            "recall",
            "Search memory and past sessions",
            "session.memory_commands:run_recall",
            "[--kind K] [--since DAY] QUERY",
        ),
        _row(
            "code",
            "Find code: a name, or brief, outline, callers, importers, impact",
            "session.project_commands:run_code",
            "FIND",
        ),
        _row("model", "Show the models, or switch", "session.commands:run_model", "[PROVIDER/MODEL]"),
        _row("thinking", "How much the model thinks, or choose it", "session.commands:run_thinking", "[LEVEL]"),
        _row(
            "tools",
            "The model's tools; native calls or text",
            "session.context_usage:run_tools",
            "[native | text | auto]",
        ),
        _row(
            "usage",
            "Tokens and money: this session, its turns, and today",
            "session.context_usage:run_usage",
            taken=(),
            beside=True,
            extra="/usage takes no arguments; `pattern-acp usage` in a terminal has more.",
            parts=("constellation", "session_id"),
        ),
        _row(
            "budget",
            "What may be spent: show, or set one",
            "session.context_usage:run_budget",
            "[turn | session | day AMOUNT]",
        ),
        SEARCH,
        RENAME,
        FORK,
        _row(
            "merge",
            "Bring back what a fork's memory learned, after a look",
            "session.session_commands:run_merge",
            "[both | fork | target]",
        ),
        _row(
            "discard",
            "Drop a fork's memory; nothing comes back",
            "session.session_commands:run_discard",
            taken=(),
            extra="/discard takes no arguments; it is about the memory of this conversation.",
        ),
        ARCHIVE,
        UNDELETE,
        _row(
            "handoff",
            "Sum up this session for the next one; show the last summary",
            "session.activity_summary:run_handoff",
            "[list]",
            parts=("constellation", "state"),
        ),
        _row(
            "clear",
            "Clear the model's context; memory and transcript stay",
            "session.conversation_commands:run_clear",
            taken=(),
            extra="/clear takes no arguments; it clears the conversation, not memory.",
        ),
        _row(
            "compact",
            "Sum up the older part of the conversation for the model",
            "session.conversation_commands:run_compact",
            taken=(Parameter("instructions", kind=Kind.TEXT),),
        ),
        _row(
            "pin",
            "Keep your last message and its answer in the model's context",
            "session.conversation_commands:run_pin",
            "[list | off]",
        ),
        _row(
            "diff",
            "What this session changed in files",
            "session.conversation_commands:run_diff",
            "[PATH]",
            parts=("constellation", "state"),
        ),
        _row(
            "checkpoint",
            "Name this moment, to go back to it later",
            "session.rewind_requests:run_checkpoint",
            "NAME",
            parts=("checkpoints",),
        ),
        _row(
            "checkpoints",
            "The moments to which the session can go back",
            "session.rewind_requests:run_checkpoints",
            taken=(),
            parts=("checkpoints",),
        ),
        _row(
            "rewind",
            "Go back: conversation, files, memory; shows first what would change",
            "session.rewind_requests:run_rewind",
            "[TURN | NAME | last | undo] [conversation] [files] [memory]",
        ),
        _row(
            "undo",
            "Take the last turn back, conversation and files; shows first what would change",
            "session.rewind_requests:run_undo",
        ),
        _row(
            "export",
            "Write the conversation as Markdown",
            "session.conversation_commands:run_export",
            "[--overwrite] [PATH]",
            parts=("constellation", "state", "workbench"),
        ),
        _row(
            "import",
            "Show what a file of export or another program brings, and take it over",
            "carry.proposing:run_import",
            "FILE [all | memory | facts | tasks | sessions | 1,3-5] [mine | theirs | both]",
        ),
        _row(
            "init",
            "Write AGENTS.md from the code map, or the project's memory into it; shows it first",
            "session.project_commands:run_init",
            "[--overwrite | --memory]",
        ),
        _row(
            "review",
            "Have the model review the changes since the last commit",
            "session.project_commands:run_review",
            taken=(Parameter("wish", kind=Kind.TEXT, metavar="WHAT TO LOOK FOR"),),
        ),
        _row(
            "background",
            "Background commands: list, stop",
            "session.jobs:run_background",
            "[stop ID]",
            beside=True,
            parts=("jobs", "constellation"),
        ),
        _row(
            "workers",
            "Subagents in the background: list, show one with its changes, stop",
            "session.subagents.background:run_workers",
            "[NAME | stop NAME]",
            beside=True,
        ),
        _row(
            "queue",
            "Prompts that wait for the running turn: show, edit, drop",
            "session.conversation_commands:run_queue",
            "[edit N TEXT | drop N | steer | queue | replace]",
            beside=True,
        ),
        _row(
            "tasks",
            "Tasks that outlive a session: list, add, or keep the plan as one",
            "session.task_commands:run_tasks",
            "[all | WORDS | add TITLE | keep TITLE]",
        ),
        _row(
            "task",
            "One task: show, begin, end, comment, link",
            "session.task_commands:run_task",
            "N [start | done | drop | block | todo | comment TEXT | graph]",
        ),
        _row(
            "job",
            "Work that you agree to first: estimate, budget, paths, checks, receipt",
            "session.agreed_jobs:run_job",
            '"GOAL" [--max 2 USD] [--paths GLOBS] [--check CMD]… | N | resume N | stop N | review N [PERSONA]',
        ),
        _row(
            "jobs",
            "Jobs that were agreed to, in all sessions, with what they cost",
            "session.agreed_jobs:run_jobs",
            beside=True,
            parts=("jobs", "constellation"),
        ),
        _row(
            "group",
            "Groups of personas of this project: list, run a pipeline or panel, switch a watch",
            "session.group_watches:run_group",
            '[NAME ["GOAL"] | watch NAME on|off]',
        ),
        _row(
            "board",
            "Open sessions: who works on which task and which files",
            "session.task_commands:run_board",
            "[claim PATH | take PATH | release [PATH]]",
            beside=True,
        ),
        _row("mcp", "MCP servers, their state and tools", "session.mcp:run_mcp", taken=(), parts=("mcp",)),
        _row(
            "persona",
            "Who answers: list the personas, choose another, or type one for this session",
            "session.definitions:run_persona",
            "[NAME | inline TEXT]",
        ),
        _row(
            "definitions",
            "All that the session is defined by, and what changed of it",
            "session.adoption:run_definitions",
            "[diff | adopt [--with-permissions] | follow ask|adopt|keep|settings]",
        ),
        _row(
            "skills",
            "The skills there are, those about some words, or all about one; learn lets the agent propose some",
            "session.definitions:run_skills",
            "[NAME | WORDS | learn]",
        ),
        _row(
            "permissions",
            "What is allowed and refused; take a permission back",
            "session.permission_commands:run_permissions",
            "[revoke NUMBER]",
        ),
        _row(
            "why",
            "Why a call ran, asked or was refused: the last, or one by its id",
            "session.permission_commands:run_why",
            "[CALL]",
            parts=("constellation", "session_id"),
        ),
        _row("trust", "What this folder would run, and whether it may", "session.trust:run_trust", "[list | revoke]"),
        _row(
            "doctor",
            "Check the installation and say how to fix it",
            "session.commands:run_doctor",
            taken=(),
            parts=("constellation",),
        ),
    )
}
"""All slash commands, in the order they are advertised."""
