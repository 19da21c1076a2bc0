"""The table of slash commands. They arrive as the prompt's text, `/name argument`; the model never sees them.

Owns: their names and help, and which one a text is. Must not know: what any of them does. Editors get the list with
every session, so a command is named here and its module imported when it is first typed (benchmarks.md).
"""

from msgspec import Struct

from pattern_acp.commands.parameters import Command
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


COMMANDS: dict[str, Command] = {
    spec.name: spec
    for spec in (
        Command("help", "List the commands", "pattern_acp.session.commands:run_help", beside=True),
        Command(
            "status",
            "Model, mode, folders, memory file, prompt size",
            "pattern_acp.session.commands:run_status",
            beside=True,
        ),
        Command(
            "memory",
            "What is remembered: show, compare, undo, edit",
            "pattern_acp.session.memory_commands:run_memory",
            hint="[LABEL | VERB LABEL | help]",
        ),
        Command(
            "remember",
            "Remember something for every later session",
            "pattern_acp.session.commands:run_remember",
            hint="[me: | project:] TEXT",
        ),
        Command(
            "recall",
            "Search memory and past sessions",
            "pattern_acp.session.memory_commands:run_recall",
            hint="[--kind K] [--since DAY] QUERY",
        ),
        Command(
            "code",
            "Find code: a name, or brief, outline, callers, importers, impact",
            "pattern_acp.session.project_commands:run_code",
            hint="FIND",
        ),
        Command(
            "model", "Show the models, or switch", "pattern_acp.session.commands:run_model", hint="[PROVIDER/MODEL]"
        ),
        Command(
            "thinking",
            "How much the model thinks, or choose it",
            "pattern_acp.session.commands:run_thinking",
            hint="[LEVEL]",
        ),
        Command(
            "tools",
            "The model's tools; native calls or text",
            "pattern_acp.session.context_usage:run_tools",
            hint="[native | text | auto]",
        ),
        Command(
            "usage",
            "Tokens and money: this session, its turns, and today",
            "pattern_acp.session.context_usage:run_usage",
            beside=True,
        ),
        Command(
            "budget",
            "What may be spent: show, or set one",
            "pattern_acp.session.context_usage:run_budget",
            hint="[turn | session | day AMOUNT]",
        ),
        SEARCH,
        RENAME,
        FORK,
        Command(
            "merge",
            "Bring back what a fork's memory learned, after a look",
            "pattern_acp.session.session_commands:run_merge",
            hint="[both | fork | target]",
        ),
        Command(
            "discard", "Drop a fork's memory; nothing comes back", "pattern_acp.session.session_commands:run_discard"
        ),
        ARCHIVE,
        UNDELETE,
        Command(
            "handoff",
            "Sum up this session for the next one; show the last summary",
            "pattern_acp.session.activity_summary:run_handoff",
            hint="[list]",
        ),
        Command(
            "clear",
            "Clear the model's context; memory and transcript stay",
            "pattern_acp.session.conversation_commands:run_clear",
        ),
        Command(
            "compact",
            "Sum up the older part of the conversation for the model",
            "pattern_acp.session.conversation_commands:run_compact",
            hint="[INSTRUCTIONS]",
        ),
        Command(
            "pin",
            "Keep your last message and its answer in the model's context",
            "pattern_acp.session.conversation_commands:run_pin",
            hint="[list | off]",
        ),
        Command(
            "diff",
            "What this session changed in files",
            "pattern_acp.session.conversation_commands:run_diff",
            hint="[PATH]",
        ),
        Command(
            "checkpoint",
            "Name this moment, to go back to it later",
            "pattern_acp.session.rewind_requests:run_checkpoint",
            hint="NAME",
        ),
        Command(
            "checkpoints",
            "The moments to which the session can go back",
            "pattern_acp.session.rewind_requests:run_checkpoints",
        ),
        Command(
            "rewind",
            "Go back: conversation, files, memory; shows first what would change",
            "pattern_acp.session.rewind_requests:run_rewind",
            hint="[TURN | NAME | last | undo] [conversation] [files] [memory]",
        ),
        Command(
            "undo",
            "Take the last turn back, conversation and files; shows first what would change",
            "pattern_acp.session.rewind_requests:run_undo",
        ),
        Command(
            "export",
            "Write the conversation as Markdown",
            "pattern_acp.session.conversation_commands:run_export",
            hint="[--overwrite] [PATH]",
        ),
        Command(
            "import",
            "Show what a file of export or another program brings, and take it over",
            "pattern_acp.carry.proposing:run_import",
            hint="FILE [all | memory | facts | tasks | sessions | 1,3-5] [mine | theirs | both]",
        ),
        Command(
            "init",
            "Write AGENTS.md from the code map, or the project's memory into it; shows it first",
            "pattern_acp.session.project_commands:run_init",
            hint="[--overwrite | --memory]",
        ),
        Command(
            "review",
            "Have the model review the changes since the last commit",
            "pattern_acp.session.project_commands:run_review",
            hint="[WHAT TO LOOK FOR]",
        ),
        Command(
            "background",
            "Background commands: list, stop",
            "pattern_acp.session.jobs:run_background",
            hint="[stop ID]",
            beside=True,
        ),
        Command(
            "workers",
            "Subagents in the background: list, show one with its changes, stop",
            "pattern_acp.session.subagents.background:run_workers",
            hint="[NAME | stop NAME]",
            beside=True,
        ),
        Command(
            "queue",
            "Prompts that wait for the running turn: show, edit, drop",
            "pattern_acp.session.conversation_commands:run_queue",
            hint="[edit N TEXT | drop N | steer | queue | replace]",
            beside=True,
        ),
        Command(
            "tasks",
            "Tasks that outlive a session: list, add, or keep the plan as one",
            "pattern_acp.session.task_commands:run_tasks",
            hint="[all | WORDS | add TITLE | keep TITLE]",
        ),
        Command(
            "task",
            "One task: show, begin, end, comment, link",
            "pattern_acp.session.task_commands:run_task",
            hint="N [start | done | drop | block | todo | comment TEXT | graph]",
        ),
        Command(
            "job",
            "Work that you agree to first: estimate, budget, paths, checks, receipt",
            "pattern_acp.session.agreed_jobs:run_job",
            hint='"GOAL" [--max 2 USD] [--paths GLOBS] [--check CMD]… | N | resume N | stop N | review N [PERSONA]',
        ),
        Command(
            "jobs",
            "Jobs that were agreed to, in all sessions, with what they cost",
            "pattern_acp.session.agreed_jobs:run_jobs",
            beside=True,
        ),
        Command(
            "group",
            "Groups of personas of this project: list, run a pipeline or panel, switch a watch",
            "pattern_acp.session.group_watches:run_group",
            hint='[NAME ["GOAL"] | watch NAME on|off]',
        ),
        Command(
            "board",
            "Open sessions: who works on which task and which files",
            "pattern_acp.session.task_commands:run_board",
            hint="[claim PATH | take PATH | release [PATH]]",
            beside=True,
        ),
        Command("mcp", "MCP servers, their state and tools", "pattern_acp.session.commands:run_mcp"),
        Command(
            "persona",
            "Who answers: list the personas, choose another, or type one for this session",
            "pattern_acp.session.definitions:run_persona",
            hint="[NAME | inline TEXT]",
        ),
        Command(
            "definitions",
            "All that the session is defined by, and what changed of it",
            "pattern_acp.session.adoption:run_definitions",
            hint="[diff | adopt [--with-permissions] | follow ask|adopt|keep|settings]",
        ),
        Command(
            "skills",
            "The skills there are, those about some words, or all about one; learn lets the agent propose some",
            "pattern_acp.session.definitions:run_skills",
            hint="[NAME | WORDS | learn]",
        ),
        Command(
            "permissions",
            "What is allowed and refused; take a permission back",
            "pattern_acp.session.permission_commands:run_permissions",
            hint="[revoke NUMBER]",
        ),
        Command(
            "why",
            "Why a call ran, asked or was refused: the last, or one by its id",
            "pattern_acp.session.permission_commands:run_why",
            hint="[CALL]",
        ),
        Command(
            "trust",
            "What this folder would run, and whether it may",
            "pattern_acp.session.trust:run_trust",
            hint="[list | revoke]",
        ),
        Command("doctor", "Check the installation and say how to fix it", "pattern_acp.session.commands:run_doctor"),
    )
}
"""All slash commands, in the order they are advertised."""
