"""Which commands there are, with their help.

Owns: the table of commands, and the flags that have no module of their own. Must not know: what a command line means
(cli/arguments.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.cli.auth_arguments import add_auth_arguments
from pattern_acp.cli.backup_arguments import BACKUP_COMMANDS
from pattern_acp.cli.explain_arguments import add_explain_arguments
from pattern_acp.cli.journal_arguments import add_journal_arguments
from pattern_acp.cli.models_arguments import add_models_arguments
from pattern_acp.cli.session_arguments import add_session_arguments
from pattern_acp.cli.trust_arguments import add_trust_arguments
from pattern_acp.cli.usage_arguments import add_usage_arguments
from pattern_acp.commands.memory import VERBS
from pattern_acp.commands.parameters import Group, Kind, Parameter

if TYPE_CHECKING:
    import argparse


def add_common(parser: "argparse.ArgumentParser") -> None:
    """The flags that every command takes. Their defaults are suppressed: a command's would hide the main one's."""
    import argparse

    absent = argparse.SUPPRESS
    parser.add_argument("-V", "--version", action="store_true", default=absent, help="print the version")
    group = parser.add_argument_group("settings")
    group.add_argument("--constellation", metavar="NAME", default=absent, help="the memory to use")
    group.add_argument("--persona", metavar="NAME", default=absent, help="who answers")
    group.add_argument("--model", metavar="PROVIDER/MODEL", default=absent, help="the model that answers")
    group.add_argument(
        "--mode",
        choices=("ask", "edit", "plan", "auto"),
        default=absent,
        help="what runs without a question in new sessions: ask (reads), edit (reads and edits), plan (reads, and "
        "nothing else at all), auto (everything inside the directory)",
    )
    group.add_argument(
        "--thinking",
        choices=("default", "off", "low", "medium", "high"),
        default=absent,
        help="how much the model thinks in new sessions; default leaves that to its vendor",
    )
    group.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default=absent,
        help="the least serious message that the log file keeps",
    )


def _add_chat(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="run one turn with this prompt, and what is piped in, and exit"
    )
    answers = parser.add_mutually_exclusive_group()
    answers.add_argument("--yes", action="store_true", help="allow whatever the agent asks permission for")
    answers.add_argument("--deny", action="store_true", help="refuse whatever the agent asks permission for")
    parser.add_argument("--json", action="store_true", help="print the session's updates as JSON lines")
    parser.add_argument("--cwd", metavar="DIR", default="", help="the session's directory instead of the current one")
    parser.add_argument(
        "--image",
        dest="images",
        action="append",
        metavar="FILE",
        help="give this image with the first prompt; more than once for more of them",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", default="", help="go on with this session")
    which.add_argument("--continue", dest="latest", action="store_true", help="go on with this directory's newest one")


def _add_acp(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument(
        "--exact-model",
        action="store_true",
        help="refuse sessions when the model cannot be had, instead of using another one and saying so",
    )


def _add_doctor(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--verify", action="store_true", help="check all that is stored, in a temporary copy")
    parser.add_argument("--repair", action="store_true", help="mend what can be mended without losing anything")
    parser.add_argument("--all", action="store_true", help="show each check that found nothing, and every setting")


class Command(Struct, frozen=True):
    """One command as its help shows it."""

    name: str
    summary: str
    description: str
    add_arguments: "Callable[[argparse.ArgumentParser], None]"
    words: str = ""
    """The words behind the name, for the first line of the help."""


COMMANDS = (
    Command("acp", "serve ACP on stdin and stdout", "Serve ACP on stdin and stdout.", _add_acp),
    Command(
        "chat",
        "talk to the agent in a terminal",
        "Talk to the agent in a terminal. With PROMPT, or with a stdin that is no terminal, one turn runs and the exit "
        "code is 0 when it ended well, 1 on an error, 130 when it was cancelled.",
        _add_chat,
        "[PROMPT]",
    ),
    Command(
        "sessions",
        "list, show, search, rename, put away, delete or fork sessions",
        "List this directory's sessions, or do something with one: "
        "show ID, search WORDS, rename ID TITLE, archive ID, unarchive ID, delete ID, undelete [ID], fork ID [TURN].",
        add_session_arguments,
        "[ACTION] [ID ...]",
    ),
    Command(
        "memory",
        "show, compare, undo, edit or forget what is remembered",
        "Look at what the persona and this directory's project remember, at every version of it and who wrote it; take "
        "writes back, edit, delete, restore, or forget for good.",
        lambda _: None,
        "[VERB] [ARGUMENT ...]",
    ),
    Command(
        "journal",
        "check, export, redact, replay or follow what sessions recorded",
        "The journal of sessions: verify [SESSION|BUNDLE], export SESSION, anchor SESSION, redact SESSION, "
        "replay SESSION, tail [SESSION].",
        add_journal_arguments,
        "ACTION [SESSION]",
    ),
    Command(
        "trust",
        "let a folder's own hooks, servers and commands run",
        "Show what a folder would run (hooks, MCP servers, checks, commands, skills) and trust it until that changes; "
        "list the folders that are trusted; revoke takes it back.",
        add_trust_arguments,
        "[PATH | list | revoke PATH]",
    ),
    Command(
        "auth",
        "sign in at a provider, show where keys come from, sign out",
        "login PROVIDER keeps a key (from a hidden prompt or from stdin) or signs in with OAuth where the provider has "
        "it; status shows which key of each provider is used, never the key; logout PROVIDER forgets it.",
        add_auth_arguments,
        "login PROVIDER | status | logout PROVIDER",
    ),
    Command(
        "usage",
        "tokens and money by day, model, project or session",
        "Sum up what models used and cost, over all sessions of the constellation: a bar a day, model, project or "
        "session; as a table in a pipe, JSON or CSV.",
        add_usage_arguments,
    ),
    Command(
        "models",
        "the models that can be used, and what is known of each",
        "List the models of every provider that is set up: window, longest answer, prices in US dollars a million "
        "tokens, images and thinking levels.",
        add_models_arguments,
        "[PROVIDER/MODEL]",
    ),
    *(Command(*each) for each in BACKUP_COMMANDS),
    Command(
        "explain",
        "what a failure code means, and what to do",
        "Say what a code such as provider.overloaded means: whose fault it is, whether trying again helps, and what to "
        "do. Without CODE, list them all.",
        add_explain_arguments,
        "[CODE]",
    ),
    Command(
        "doctor",
        "report what works and what does not",
        "Report what is broken or worth a remark first, then files, providers, and settings with their source. Exits 1 "
        "when something that is needed is broken.",
        _add_doctor,
    ),
)

MEMORY = Group(
    "memory",
    "show, compare, undo, edit or forget what is remembered",
    "Look at what the persona and this directory's project remember, at every version of it and who wrote it; take "
    "writes back, edit, delete, restore, or forget for good.",
    tuple(VERBS.values()),
    (
        Parameter("json", "print JSON", Kind.FLAG, option="--json"),
        Parameter("cwd", "the project's directory instead of the current one", metavar="DIR", option="--cwd"),
        Parameter("no_pager", "do not show long output in a pager", Kind.FLAG, option="--no-pager"),
    ),
    "list",
    "[VERB] [ARGUMENT ...]",
)
