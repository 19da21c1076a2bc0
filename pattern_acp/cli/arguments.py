"""The parsed values of a command line.

Owns: a value for each command of a terminal, exit codes, and which commands decide in the user's name. Must not know:
how a line is read (cli/argv.py), or what the commands do.
"""

from typing import Literal, TypeAlias

from msgspec import Struct, field

from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.config.settings import Flags

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
"""Something was refused that the work needed."""
EXIT_TIMED_OUT = 124
"""As timeout(1) has it."""
EXIT_CANCELLED = 130
"""128 + SIGINT, as shells have it."""


class _Wanted(Struct, frozen=True):
    flags: Flags = field(default_factory=Flags)


class Serve(_Wanted, frozen=True):
    """Speak ACP on stdin and stdout."""


class ServeClients(_Wanted, frozen=True):
    """Serve ACP to many clients over WebSocket."""

    listen: str = ""
    """The address to listen on; empty for the usual one."""
    allow_remote: bool = False
    local: bool = False
    """Clients use this machine's files and commands directly."""
    new_token: bool = False
    certificate: str = ""
    key: str = ""
    origins: tuple[str, ...] = ()
    """Pages that may connect."""


class Connect(_Wanted, frozen=True):
    """Connect stdin and stdout with a server."""

    url: str = ""
    save_token: bool = False
    """Read the token and store it, and do nothing else."""
    authority: str = ""
    """A file of certificates that are trusted besides."""


class Chat(_Wanted, frozen=True):
    """Be a client of our own agent, in a terminal."""

    prompt: str | None = None
    """One turn with this prompt; None to ask for prompts, or to read one from a stdin that is no terminal. What is
    piped in beside a prompt goes with it."""
    answer: Literal["ask", "allow", "deny"] = "ask"
    """The answer to permission questions."""
    json: bool = False
    session: str = ""
    """The session to resume; empty for a new one."""
    latest: bool = False
    """Resume the newest session of the directory."""
    cwd: str = ""
    """The session's directory; empty for the current one."""
    images: tuple[str, ...] = ()
    """Files of images that go with the first prompt."""
    plain: bool = False
    """Lines of words, for a screen reader."""
    timeout_seconds: float = 0.0
    """The time after which a prompt is cancelled; 0 for no limit."""


class Doctor(_Wanted, frozen=True):
    """Report what works and what does not."""

    json: bool = False
    verify: bool = False
    """Check the whole constellation too."""
    repair: bool = False
    """Carry out the repairs that lose nothing."""
    all: bool = False
    """Show what is well row by row too, and settings that nobody set."""


JournalAction: TypeAlias = Literal["verify", "export", "anchor", "rebuild", "redact", "replay", "tail"]

TAIL_LINES = 20
"""Events that `journal tail` begins with."""


class Journal(_Wanted, frozen=True):
    """Do something with the journal."""

    action: JournalAction = "verify"
    target: str = ""
    """A session's id; for `verify` a bundle too. Empty for all sessions, with `verify` and `tail`."""
    json: bool = False
    anchor: str = ""
    """The anchor that the chain must match: the anchor itself, its file, or `git` for the notes of this repository."""
    git_note: bool = False
    output: str = ""
    leave_out: str = "secrets"
    event: int = 0
    match: str = ""
    reason: str = ""
    assume_yes: bool = False
    into: str = ""
    generation: int = 0
    """The number of the segments to rebuild from; 0 for the newest."""
    replace: bool = False
    lines: int = TAIL_LINES
    follow: bool = True
    turn: int = 0
    """The one turn to run again; 0 for all."""


class Auth(_Wanted, frozen=True):
    """Sign in at a provider, show which keys there are, or forget one."""

    action: Literal["login", "status", "logout"] = "status"
    provider: str = ""
    device: bool = False
    """Sign in with a code on another device instead of a browser on this one."""
    api_key: bool = False
    """Take a key although the provider has a sign-in."""
    in_file: bool = False
    """Keep it in the file although there is a keyring."""
    browser: bool = True
    """Open a browser; the address is printed in any case."""
    json: bool = False


class Mcp(_Wanted, frozen=True):
    """Sign in at an MCP server, list them with their logins, or forget a login."""

    action: Literal["login", "status", "logout"] = "status"
    server: str = ""
    """A name of config.toml, or an address."""
    in_file: bool = False
    """Keep the login in the file although there is a keyring."""
    browser: bool = True
    """Open a browser; the address is printed in any case."""
    json: bool = False


class Policy(_Wanted, frozen=True):
    """Check and try rules, or explain what is decided on a command line."""

    action: Literal["check", "test", "explain", "grants", "verify"] = "explain"
    text: str = ""
    """A file, a command line, or a session; `-` for lines of stdin."""
    verb: str = ""
    """`revoke` takes the grant back that has the `number`."""
    number: int = 0
    allow: tuple[str, ...] = ()
    """Rules that are allowed besides."""
    nul: bool = False
    json: bool = False


class ModelsWanted(_Wanted, frozen=True):
    """List the models that can be used."""

    json: bool = False
    model: str = ""
    """Only this one, `PROVIDER/MODEL`, with who says each figure."""


class BackUp(_Wanted, frozen=True):
    """Copy the constellation, or list the copies that there are."""

    output: str = ""
    """The target file; empty for the folder of backups."""
    list_only: bool = False
    json: bool = False


class Restore(_Wanted, frozen=True):
    """Put a copy instead of the constellation."""

    file: str = ""
    """The copy; empty for the newest one."""
    json: bool = False


class Sweep(_Wanted, frozen=True):
    """Remove what serves nothing any more."""

    dry_run: bool = False
    json: bool = False


class Setup(_Wanted, frozen=True):
    """Set up a provider and the editors of this machine."""

    yes: bool = False
    """Write without asking."""


class Tour(_Wanted, frozen=True):
    """Show the agent at work in this folder."""


class Explain(_Wanted, frozen=True):
    """Say what a failure code means."""

    code: str = ""
    """The code, or what somebody took for it; empty to list them all."""
    json: bool = False


class ConfigWanted(_Wanted, frozen=True):
    """Print the schema of config.toml."""


class ShowText(Struct, frozen=True):
    """Print `text` on stdout and exit 0: help or the version."""

    text: str


class BadUsage(Struct, frozen=True):
    """Print `sentence` on stderr, one line, and exit 2."""

    sentence: str


InTerminal: TypeAlias = (
    TypedCommand
    | Chat
    | Journal
    | Auth
    | Mcp
    | Policy
    | ModelsWanted
    | BackUp
    | Restore
    | Sweep
    | Doctor
    | Setup
    | Tour
    | ServeClients
    | Connect
)
"""The commands that a user runs, and that end on their own."""

Arguments: TypeAlias = Serve | InTerminal | Explain | ConfigWanted | ShowText | BadUsage


FOR_THE_USER = (
    "`pattern-acp {}` is for the user and does not run in a command that an agent started; use your own terminal."
)
"""Refusal of a command that `decides_for_user`, where the environment has the mark of an agent's commands."""


def decides_for_user(arguments: Arguments) -> str:
    """The command by which something is decided or erased in the user's name; empty when there is none of it."""
    from pattern_acp.policy.own_program import READING

    match arguments:
        case (
            TypedCommand(group="sessions", command="rewind", values={"preview": True})
            | TypedCommand(group="usage" | "board")
        ):
            return ""
        case TypedCommand(group=command, command=action):
            action = "" if action == "add" else action
        case Auth(action=action) | Mcp(action=action):
            command = "auth" if isinstance(arguments, Auth) else "mcp"
        case Journal(action="redact") | Journal(action="rebuild", replace=True):
            return f"journal {arguments.action}"
        case Policy(action="grants", verb="revoke"):
            return "policy grants revoke"
        case Restore() | Setup() | ServeClients() | Connect():
            # A client of a server answers permission questions, and the token makes anyone one.
            return {Restore: "restore", Setup: "setup", ServeClients: "serve", Connect: "connect"}[type(arguments)]
        case Sweep(dry_run=False):
            return "gc"
        case Chat(answer="allow"):
            return "chat --yes"
        case _:
            return ""
    return "" if action in READING[command] else f"{command} {action}".rstrip()
