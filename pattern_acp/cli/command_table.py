"""The table of commands of a terminal.

Owns: what each is called, what it takes, and its help. Must not know: how a line is read (cli/argv.py), or what any
command does.
"""

import re
from collections.abc import Mapping

from pattern_acp.commands.memory import VERBS
from pattern_acp.commands.parameters import PAGE, Command, Group, Kind, Parameter, Value
from pattern_acp.commands.sessions import JSON, SESSION_VERBS, TRUST_VERBS, flag, session_id
from pattern_acp.commands.tasks import TASK_VERBS

LEVELS = ("none", "secrets", "content")
"""`journal.bundle.REDACTIONS`; a test keeps both equal."""

GROUPINGS = ("day", "model", "project", "session")

_SINCE = re.compile(r"\d{4}-\d{2}-\d{2}|[1-9]\d{0,3}d")

_HERE = "pattern_acp.cli.command_table:"


def _text(name: str, metavar: str, about: str, option: str = "") -> Parameter:
    return Parameter(name, about, metavar=metavar, option=option or f"--{name.replace('_', '-')}")


def _number(name: str, about: str, option: str = "", least: int = 1) -> Parameter:
    return Parameter(name, about, Kind.NUMBER, "N", option=option or f"--{name}", least=least)


def _needed(name: str, about: str, ask: str, metavar: str = "") -> Parameter:
    return Parameter(name, about, metavar=metavar, required=True, ask=ask)


def _choice(name: str, about: str, *choices: str) -> Parameter:
    return Parameter(name, about, option=f"--{name}", choices=choices)


def _one(name: str, summary: str, description: str, *parameters: Parameter, words: str = "", check: str = "") -> Group:
    return Group(name, summary, description, (Command("", summary, "", parameters, check=check),), words=words)


def wrong_chat(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the options of `chat` together; empty when nothing is."""
    if values["yes"] and values["deny"]:
        return "takes --yes or --deny, not both."
    if values["timeout"] and not seconds_of(str(values["timeout"])):
        return "takes a time such as 90, 30m or 2h with --timeout."
    return "takes --session or --continue, not both." if values["session"] and values["latest"] else ""


def seconds_of(text: str) -> float:
    """Return the seconds of `90`, `1.5`, `30m` or `2h`; 0 for what is no time."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0


def wrong_serve(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the options of `serve` together; empty when nothing is."""
    if values["key"] and not values["certificate"]:
        return "takes --key with --certificate only."
    return "takes --local or --allow-remote, not both." if values["local"] and values["allow_remote"] else ""


def wrong_backup(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the options of `backup` together; empty when nothing is."""
    return "--list writes nothing; leave out --output." if values["output"] and values["list_only"] else ""


def wrong_restore(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the arguments of `restore` together; empty when nothing is."""
    if bool(values["file"]) == bool(values["latest"]):
        return "needs the FILE of a backup, or --latest; backup --list shows what there is."
    return ""


def wrong_usage(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the options of `usage`; empty when nothing is."""
    if values["since"] and not _SINCE.fullmatch(str(values["since"])):
        return "--since takes a day such as 2026-11-01, or a number of days such as 30d."
    return "takes --json or --csv, not both." if values["json"] and values["csv"] else ""


def wrong_grants(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the arguments of `policy grants` together; empty when nothing is."""
    if (values["verb"] == "revoke") != bool(values["number"]):
        return "takes revoke with the NUMBER of a grant, or nothing."
    return ""


def wrong_redaction(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the options of `journal redact` together; empty when nothing is."""
    return "needs either --event N or --match TEXT." if bool(values["event"]) == bool(values["match"]) else ""


def wrong_rebuilding(values: Mapping[str, Value]) -> str:
    """Describe what is wrong with the options of `journal rebuild` together; empty when nothing is."""
    return "takes either --into FILE or --replace, not both." if values["into"] and values["replace"] else ""


SESSIONS = Group(
    "sessions",
    "list, show, search, rename, archive, delete or fork sessions",
    "List this directory's sessions, or do something with one.",
    SESSION_VERBS,
    (JSON, flag("everywhere", "list or search the sessions of every directory", "--all")),
    "list",
    "[ACTION] [ID ...]",
    opens="pattern_acp.cli.sessions:open_sessions",
    without="pattern_acp.cli.sessions:without_constellation",
)

MEMORY = Group(
    "memory",
    "show, compare, undo, edit or forget what is remembered",
    "Look at what the persona and this directory's project remember, at every version of it and who wrote it; take "
    "writes back, edit, delete, restore, or forget for good.",
    tuple(VERBS.values()),
    (
        JSON,
        _text("cwd", "DIR", "the project's directory instead of the current one"),
        flag("no_pager", "do not show long output in a pager"),
    ),
    "list",
    "[VERB] [ARGUMENT ...]",
    opens="pattern_acp.cli.memory:open_memory",
    without="pattern_acp.cli.memory:without_constellation",
)

TASKS = Group(
    "tasks",
    "list, add, edit, link, import or export tasks",
    "Work that outlives a conversation, of this directory's project or of the persona: list the open tasks, or do "
    "something with one.",
    TASK_VERBS,
    (JSON, _text("cwd", "DIR", "the project's directory instead of the current one")),
    "list",
    "[VERB] [ARGUMENT ...]",
    opens="pattern_acp.cli.tasks:open_tasks",
    without="pattern_acp.cli.tasks:without_constellation",
)

JOURNAL = Group(
    "journal",
    "check, export, redact, replay or follow what sessions recorded",
    "The journal of sessions: what they recorded, event by event.",
    (
        Command(
            "verify",
            "Check sessions, or a bundle, for what was changed or is missing",
            parameters=(
                Parameter("target", "a session, or the file of a bundle; every session without", is_id=True),
                _text("anchor", "ANCHOR", "an anchor, a file that holds one, or git"),
            ),
        ),
        Command(
            "export",
            "Write a session into a bundle that stands alone",
            parameters=(
                session_id("target"),
                _text("output", "FILE", "the file to write", "-o --output"),
                Parameter(
                    "leave_out",
                    "none (nothing), secrets (the default), content (all words)",
                    option="--leave-out",
                    choices=LEVELS,
                ),
            ),
        ),
        Command(
            "anchor",
            "Say what a session's end has to agree with later",
            parameters=(session_id("target"), flag("git_note", "keep it as a git note on HEAD as well")),
        ),
        Command(
            "rebuild",
            "Make the constellation again from its segments",
            parameters=(
                _text("into", "FILE", "the new file to write; nothing else is changed"),
                _number("generation", "from the segments of that number instead of the newest", "--from"),
                flag("replace", "replace the constellation with the new file; the old one stays as a copy"),
                flag("assume_yes", "do not ask", "--yes"),
            ),
            check=f"{_HERE}wrong_rebuilding",
            extra="journal rebuild takes no session: it makes the whole constellation again.",
        ),
        Command(
            "redact",
            "Take words out of what a session recorded",
            parameters=(
                session_id("target"),
                _number("event", "the event of that number, as tail shows it"),
                _text("match", "TEXT", "this text, wherever the session recorded it"),
                _text("reason", "TEXT", "why; it is recorded"),
                flag("assume_yes", "do not ask", "--yes"),
            ),
            check=f"{_HERE}wrong_redaction",
            extra="journal redact takes one session; name an event with --event N, or the words with --match TEXT.",
        ),
        Command(
            "replay",
            "Run a session's turns again against their record",
            parameters=(session_id("target"), _number("turn", "only this turn, as /rewind counts them")),
        ),
        Command(
            "tail",
            "Follow what is recorded",
            parameters=(
                Parameter("target", "a session; all of them without", metavar="SESSION", is_id=True),
                _number("lines", "events to begin with (20)", least=0),
                flag("no_follow", "do not wait for more"),
            ),
        ),
    ),
    (JSON,),
    words="ACTION [SESSION]",
)

TRUST = Group(
    "trust",
    "let a folder's own hooks, servers and commands run",
    "Show what a folder would run (hooks, MCP servers, checks, commands, skills) and trust it until that changes; "
    "list the folders that are trusted; revoke takes it back. ./list names a folder called list.",
    TRUST_VERBS,
    default="add",
    words="[PATH | list | revoke PATH]",
    opens="pattern_acp.cli.policy:open_trust",
    without="pattern_acp.cli.policy:without_constellation",
)

_BUNDLE = "pattern_acp.cli.bundle:"
_SURE = flag("assume_yes", "do not ask", "--yes")
_BUNDLE_NAME = _needed("name", "the bundle", "which NAME (bundle list shows them)")

BUNDLE = Group(
    "bundle",
    "install skills, commands, personas, hooks and servers as one",
    "Install a folder with a pattern-bundle.toml, once you have seen all of it; compare it with its source and take "
    "over what changed; remove it whole. The installed copy is used as long as it is what you agreed to.",
    (
        Command(
            "add",
            "Show a bundle, and install it when you agree",
            f"{_BUNDLE}add",
            (
                _needed("folder", "the bundle, a folder or git checkout", "which FOLDER"),
                _SURE,
            ),
        ),
        Command("show", "Show what an installed bundle brings", f"{_BUNDLE}show", (_BUNDLE_NAME,), reads=True),
        Command(
            "update",
            "Show what changed in a bundle's source, and take it over when you agree",
            f"{_BUNDLE}update",
            (
                _BUNDLE_NAME,
                _text("source", "FOLDER", "from this folder from now on", "--from"),
                _SURE,
            ),
        ),
        Command("remove", "Delete a bundle with all that it brought", f"{_BUNDLE}remove", (_BUNDLE_NAME, _SURE)),
        Command("list", "List the bundles that are installed", f"{_BUNDLE}list_bundles", reads=True),
    ),
    (JSON,),
    default="list",
    words="add FOLDER | show NAME | update NAME | remove NAME | list",
    unknown="bundle takes add, show, update, remove or list.",
    opens="pattern_acp.cli.bundle:open_bundles",
)

_DEFINITIONS = "pattern_acp.cli.definitions:"
_DEFINITION = _needed(
    "definition",
    "its identity, or the beginning of it, or its name, such as persona/reviewer",
    "which IDENTITY",
    "IDENTITY",
)

DEFINITIONS = Group(
    "definitions",
    "personas, skills and commands that sessions have, by identity",
    "List the stored sources of the personas, skills and commands that sessions have or had; show, compare, check, "
    "note and write them out.",
    (
        Command("list", "List the stored sources", f"{_DEFINITIONS}list_definitions", reads=True),
        Command("show", "Show a definition with all its files", f"{_DEFINITIONS}show", (_DEFINITION,), reads=True),
        Command(
            "diff",
            "Compare two definitions",
            f"{_DEFINITIONS}diff",
            (
                _DEFINITION,
                _needed("other", "the one to compare with", "which OTHER"),
            ),
            reads=True,
        ),
        Command(
            "export",
            "Write the files of a definition into a new folder",
            f"{_DEFINITIONS}export",
            (
                _DEFINITION,
                _needed("folder", "a folder that does not exist yet", "which FOLDER"),
            ),
            reads=True,
        ),
        Command(
            "note",
            "Write a note on a definition, or without TEXT take it away",
            f"{_DEFINITIONS}note",
            (_DEFINITION, Parameter("text", "the note", Kind.TEXT, metavar="TEXT")),
        ),
        Command("verify", "Check that every source is what was stored", f"{_DEFINITIONS}verify", reads=True),
    ),
    (JSON,),
    default="list",
    words="list | show IDENTITY | diff IDENTITY OTHER | export IDENTITY FOLDER | note IDENTITY [TEXT] | verify",
    unknown="definitions takes list, show, diff, export, note or verify.",
    opens="pattern_acp.cli.definitions:open_definitions",
)

_JOBS = "pattern_acp.cli.board:"
_JOB = Parameter("number", "its number", Kind.NUMBER, "N", required=True, ask="which job, by its number")

JOBS = Group(
    "jobs",
    "jobs that were agreed to, with their receipts",
    "List the jobs of all sessions; show one with its quotes, or its receipt; check that rows, holds and receipts are "
    "what was recorded.",
    (
        Command("list", "List the newest jobs", f"{_JOBS}list_jobs", reads=True),
        Command("show", "Show the terms and quotes of a job, and its receipt", f"{_JOBS}show", (_JOB,), reads=True),
        Command("receipt", "Show the receipt of a job", f"{_JOBS}receipt", (_JOB,), reads=True),
        Command(
            "verify",
            "Check one job, or all, against the journal",
            f"{_JOBS}verify",
            (Parameter("number", "its number; every job without", Kind.NUMBER, "N"),),
            reads=True,
        ),
    ),
    (JSON,),
    default="list",
    words="list | show N | receipt N | verify [N]",
    unknown="jobs takes list, show, receipt or verify.",
    opens="pattern_acp.cli.board:open_jobs",
)

_ONE_PROVIDER = "auth takes one provider; a key is read from the terminal or from stdin."

AUTH = Group(
    "auth",
    "sign in at a provider, show where keys come from, sign out",
    "login PROVIDER keeps a key (from a hidden prompt or from stdin) or signs in with OAuth where the provider has "
    "it; status shows which key of each provider is used, never the key; logout PROVIDER forgets it.",
    (
        Command(
            "login",
            "Keep a key, or sign in",
            parameters=(
                Parameter("provider", "the provider"),
                flag("device", "with a code on another device"),
                flag("api_key", "with a key, where the provider has a sign-in"),
                flag("in_file", "keep it in a private file, not in the keyring", "--file"),
                flag("no_browser", "print the address and open nothing"),
            ),
            extra=_ONE_PROVIDER,
        ),
        Command(
            "status",
            "Show which key of each provider is used",
            parameters=(Parameter("provider", "only this one"),),
            extra=_ONE_PROVIDER,
        ),
        Command(
            "logout",
            "Forget a key",
            parameters=(_needed("provider", "the provider", "which, since it needs the name of a provider"),),
            extra=_ONE_PROVIDER,
        ),
    ),
    (JSON,),
    default="status",
    words="login PROVIDER | status | logout PROVIDER",
    unknown="auth takes login, status or logout.",
)

_ONE_SERVER = "mcp takes one server."

_RULES_FILE = _needed("text", "a file with [policy]", "which FILE", "FILE")

POLICY = Group(
    "policy",
    "check rules, and say what is decided on a command",
    "explain COMMAND says what is decided on a command line in this folder, and by which rule of which layer; with - "
    "it reads one command a line from stdin and answers with one JSON object a line. --mode chooses the mode. check "
    "FILE finds rules that cannot be used; test FILE compares the [[case]]s of a file with its rules. Nothing is run. "
    "grants lists what you always allowed or refused beyond a session; grants revoke NUMBER takes one back. "
    "verify SESSION decides each recorded case of a session again.",
    (
        Command(
            "explain",
            "Say what is decided on a command line, or on each line of stdin",
            parameters=(
                _needed("text", "the command line, or - for stdin", "which COMMAND", "COMMAND"),
                Parameter("allow", "a further rule that allows", Kind.MANY, "RULE", option="--allow"),
                flag("nul", "commands on stdin end with NUL", "-0 --null"),
            ),
        ),
        Command("check", "Find the rules of a file that cannot be used", parameters=(_RULES_FILE,)),
        Command("test", "Compare the cases of a file with what its rules decide", parameters=(_RULES_FILE,)),
        Command(
            "verify",
            "Repeat the decisions of a session, and name the first that differs",
            parameters=(session_id("text"),),
        ),
        Command(
            "grants",
            "List what you allowed or refused for longer than a session, or take one back",
            parameters=(
                Parameter("verb", "revoke takes one back", metavar="revoke", choices=("list", "revoke")),
                Parameter("number", "the grant's number, as the list shows it", Kind.NUMBER, "NUMBER", least=1),
            ),
            check=f"{_HERE}wrong_grants",
        ),
    ),
    (JSON,),
    words="explain COMMAND | check FILE | test FILE | verify SESSION | grants [revoke NUMBER]",
    unknown="policy takes explain, check, test, verify or grants.",
)

MCP = Group(
    "mcp",
    "sign in at an MCP server, show logins, sign out",
    "login NAME signs in with OAuth at a server over HTTP of config.toml, in a browser; an address works instead of "
    "a name, for servers of your editor or of a project. status lists the servers and which logins there are; logout "
    "NAME forgets a login.",
    (
        Command(
            "login",
            "Sign in at a server",
            parameters=(
                _needed(
                    "server",
                    "the server, or its address",
                    "where, since it needs the name of a server (mcp status shows them)",
                    "NAME",
                ),
                flag("in_file", "keep it in a private file, not in the keyring", "--file"),
                flag("no_browser", "print the address and open nothing"),
            ),
            extra=_ONE_SERVER,
        ),
        Command("status", "List the servers over HTTP and their logins", extra="mcp status takes no server."),
        Command(
            "logout",
            "Forget a login",
            parameters=(
                _needed(
                    "server",
                    "the server, or its address",
                    "which, since it needs the name of a server (mcp status shows them)",
                    "NAME",
                ),
            ),
            extra=_ONE_SERVER,
        ),
    ),
    (JSON,),
    default="status",
    words="login NAME | status | logout NAME",
    unknown="mcp takes login, status or logout.",
)

_PROJECT = _text("project", "FOLDER", "only the memory of this folder's project, and the sessions in it")
_PERSONA = _text("persona", "NAME", "only the memory and sessions of this persona", "--of-persona")
_HISTORY = _choice(
    "history", "what blocks read before: none, recent (20 writes), full (the default)", "none", "recent", "full"
)
_PART = (_PROJECT, _PERSONA, _HISTORY)

_CARRY = "pattern_acp.cli.carry:"
EXPORT = Group(
    "export",
    "write memory and sessions into one file, for another machine or person",
    "Write memory with its history, facts, tasks and sessions into a new file that import reads. Credentials are never "
    "in it, secrets are masked in sessions, and what memory holds of them stays here.",
    (
        Command(
            "",
            "write memory and sessions into one file, for another machine or person",
            f"{_CARRY}export_archive",
            (
                _needed("file", "the file to write", "which FILE to write"),
                _PROJECT,
                _PERSONA,
                _text("session", "ID", "only this session"),
                _text("since", "DAY", "only what changed since: 2026-11-01, or 30d"),
                _HISTORY,
                flag("dry_run", "show what would go, and write nothing"),
                JSON,
            ),
            begins=False,
        ),
    ),
    words="FILE",
    opens=f"{_CARRY}open_carry",
    without=f"{_CARRY}nothing_yet",
)

IMPORT = Group(
    "import",
    "read memory and sessions from an export, or from another program's file",
    "Check the file (of export, a Letta agent, conversations as JSON, CLAUDE.md), show what it brings, and take over "
    "what you accept. Doing it twice changes nothing. --accept all, memory, facts, tasks, sessions, or numbers.",
    (
        Command(
            "",
            "read memory and sessions from an export, or from another program's file",
            f"{_CARRY}import_archive",
            (
                _needed("file", "the file to read", "which FILE to read"),
                _text("accepts", "WHAT", "take this over without a question", "--accept"),
                _choice(
                    "conflicts", "where both sides differ: mine, theirs, both (the default)", "mine", "theirs", "both"
                ),
                _text("into", "FOLDER", "the project of the file is the one of this folder here"),
                JSON,
            ),
        ),
    ),
    words="FILE",
    opens=f"{_CARRY}open_carry",
)

_SYNC = "pattern_acp.cli.sync:"
SYNC = Group(
    "sync",
    "exchange memory with your other devices",
    "Exchange memory with your other devices, encrypted, through the folder or server that [sync] url of "
    "config.toml names. While a session is open it happens automatically.",
    (
        Command("now", "Exchange once, and say what came and went", do=f"{_SYNC}sync_now"),
        Command("status", "Show the devices, and how far each is", do=f"{_SYNC}sync_status"),
        Command(
            "key",
            "Make the key of your devices, show it, or store the one of another device",
            do=f"{_SYNC}sync_key",
            parameters=(
                Parameter(
                    "action",
                    "new, show, or set, which reads it from a hidden prompt or stdin",
                    metavar="ACTION",
                    required=True,
                    choices=("new", "show", "set"),
                    ask="what: new, show or set",
                ),
                flag("in_file", "keep it in a private file, not in the keyring", "--file"),
            ),
        ),
        Command(
            "revoke",
            "Take nothing of a device any more, and make a new key",
            do=f"{_SYNC}sync_revoke",
            parameters=(_needed("device", "the device, as status shows it", "which DEVICE (sync status shows them)"),),
        ),
    ),
    (JSON,),
    default="now",
    words="now | status | key new|show|set | revoke DEVICE",
    unknown="sync takes now, status, key or revoke.",
    opens=f"{_SYNC}open_sync",
)

_FORKS = "pattern_acp.cli.constellation_forks:"
FORK_ALL = Group(
    "fork",
    "begin a constellation with a copy of another one",
    "Make the constellation NEW, which begins with the memory and the sessions of the constellation NAME. What it "
    "learns stays in it until merge.",
    (
        Command(
            "",
            "begin a constellation with a copy of another one",
            f"{_FORKS}fork_constellation",
            (
                _needed("name", "the constellation", "which constellation to fork"),
                _needed("new", "the fork", "what to call the fork"),
                *_PART,
                JSON,
            ),
        ),
    ),
    words="NAME NEW",
    opens=f"{_FORKS}open_forks",
)

MERGE_ALL = Group(
    "merge",
    "bring back what a fork of the constellation learned",
    "Show what the constellation NAME learned since it was forked, and take over what you accept. Doing it twice "
    "changes nothing. --accept all, memory, facts, sessions, or numbers of the list.",
    (
        Command(
            "",
            "bring back what a fork of the constellation learned",
            f"{_FORKS}merge_constellation",
            (
                _needed("name", "the fork", "which fork to merge"),
                _text("accepts", "WHAT", "take this over without a question", "--accept"),
                _choice(
                    "conflicts", "where both sides differ: fork, target, both (the default)", "fork", "target", "both"
                ),
                *_PART,
                JSON,
            ),
        ),
    ),
    words="NAME",
    opens=f"{_FORKS}open_forks",
)

MOVE_PROJECT = Group(
    "move-project",
    "move what the constellation has of a project into another one",
    "Move the memory, tasks and sessions of the project in FOLDER, or in the current one, into the constellation of "
    "--to, or into the project's own (per_project). All of it is compared there before it is removed here. Doing it "
    "twice changes nothing, and finishes what was cut off.",
    (
        Command(
            "",
            "move what the constellation has of a project into another one",
            f"{_FORKS}move_project",
            (
                Parameter("folder", "the project's folder, instead of the current one", metavar="FOLDER"),
                _text("to", "CONSTELLATION", "the constellation to move it into, instead of the project's own"),
                flag("dry_run", "show what would move, and write nothing"),
                JSON,
            ),
        ),
    ),
    words="[FOLDER]",
    opens=f"{_FORKS}open_forks",
)

CONFIG = Group(
    "config",
    "print the schema of config.toml, for editors",
    "schema prints a JSON Schema of config.toml. An editor that knows TOML completes and checks the file by it when "
    'its first line is "#:schema ./config.schema.json" and the schema is in that file beside it.',
    (Command("schema", "Print the JSON Schema of config.toml"),),
    words="schema",
    unknown="config takes schema.",
)

_MAX_COST = _text("max_cost", "AMOUNT", "end a prompt whose models cost more than this, such as 0.50 or 200k tokens")

GROUPS = (
    _one(
        "acp",
        "serve ACP on stdin and stdout",
        "Serve ACP on stdin and stdout.",
        flag(
            "exact_model",
            "refuse sessions when the model is not available, instead of using another one and saying so",
        ),
        _MAX_COST,
    ),
    _one(
        "serve",
        "serve ACP to other machines, containers and pages, over WebSocket",
        "Serve ACP over WebSocket to clients that know the token, which is made at the first start and shown once. On "
        "their side `pattern-acp connect URL` replaces the agent. Without --allow-remote only this machine can "
        "connect. docs/how-to/remote.md describes containers, servers and certificates.",
        _text("listen", "ADDRESS", "listen on this address instead of 127.0.0.1:8931: HOST:PORT or unix:PATH"),
        flag("allow_remote", "listen on an address that other machines reach"),
        flag("local", "let clients of this machine use its files, commands and servers directly", "--local"),
        flag("new_token", "make a new token, which ends the old one; without --listen, do nothing else"),
        _text("certificate", "FILE", "use TLS with this certificate, as PEM", "--certificate"),
        _text("key", "FILE", "the certificate's key, unless it is in the same file", "--key"),
        Parameter(
            "origins",
            "let pages of this origin connect; more than once for more",
            Kind.MANY,
            "ORIGIN",
            option="--origin",
        ),
        check=f"{_HERE}wrong_serve",
    ),
    _one(
        "connect",
        "be the agent for an editor, which runs elsewhere",
        "Connect stdin and stdout with a server that was started with `pattern-acp serve`: an editor starts this "
        "instead of `pattern-acp acp`. After a cut it connects again, and nothing is lost or comes twice. The token is "
        "read from PATTERN_ACP_TOKEN, or is what --save-token stored.",
        Parameter("url", "ws://HOST:PORT/acp, wss://… or unix:PATH, as the server shows it"),
        flag("save_token", "read the token of this server from a hidden prompt or stdin, and store it in the keyring"),
        _text("authority", "FILE", "trust certificates of this authority too, or this one, as PEM", "--authority"),
        words="URL",
    ),
    _one(
        "chat",
        "talk to the agent in a terminal",
        "Talk to the agent in a terminal. With PROMPT, or with a stdin that is no terminal, one turn runs and the exit "
        "code is 0 when it ended well, 1 on an error, 3 when a refusal stopped the work, 124 when its time was up, 130 "
        "when it was cancelled. docs/chat.md describes the lines of --json.",
        Parameter("prompt", "run one turn with this prompt, and what is piped in, and exit", absent=None),
        flag("yes", "allow whatever the agent asks permission for"),
        flag("deny", "refuse whatever the agent asks permission for"),
        flag("plain", "write plain lines, with words for signs, for a screen reader; nothing is redrawn"),
        Parameter("json", "print the session's updates as JSON lines", Kind.FLAG, option="--json"),
        _text("cwd", "DIR", "the session's directory instead of the current one"),
        Parameter(
            "images",
            "give this image with the first prompt; more than once for more of them",
            Kind.MANY,
            "FILE",
            option="--image",
        ),
        _MAX_COST,
        _text("timeout", "SECONDS", "cancel a prompt after this time: seconds, or 30m, or 2h", "--timeout"),
        _text("session", "ID", "continue this session"),
        flag("latest", "continue this directory's newest one", "--continue"),
        words="[PROMPT]",
        check=f"{_HERE}wrong_chat",
    ),
    _one(
        "tour",
        "see the agent at work in this folder, in a minute",
        "Show what the agent does, in this folder, without a model: it looks, remembers, edits a file of its own, and "
        "goes back. Nothing of it is left.",
    ),
    _one(
        "setup",
        "choose a provider, and tell your editors of the agent",
        "Ask which provider to use and keep its key, write the agent's block into the configuration of the editors "
        "that are found on this machine, after showing the difference, and report like doctor. Run it again at any "
        "time.",
        flag("yes", "write every block without asking"),
    ),
    SESSIONS,
    MEMORY,
    TASKS,
    JOURNAL,
    TRUST,
    BUNDLE,
    DEFINITIONS,
    JOBS,
    AUTH,
    MCP,
    POLICY,
    Group(
        "board",
        "the open sessions: who works on what, and what waits for you",
        "Show the open sessions of all processes: editor, persona, model, last step, questions that wait for their "
        "user, task, claims of files, and what is used and left of the budget.",
        (
            Command(
                "",
                "the open sessions",
                "pattern_acp.cli.board:show_board",
                (flag("watch", "show it again whenever it changes, until Ctrl-C"), JSON),
                reads=True,
                begins=False,
            ),
        ),
        opens="pattern_acp.cli.board:open_board",
        without="pattern_acp.cli.board:without_constellation",
    ),
    Group(
        "usage",
        "tokens and money by day, model, project or session",
        "Sum up what models used and cost, over all sessions of the constellation: a bar a day, model, project or "
        "session; as a table in a pipe, JSON or CSV.",
        (
            Command(
                "",
                "tokens and money by day, model, project or session",
                "pattern_acp.cli.usage:sum_usage",
                (
                    _choice("by", "what the sums are over", "day", "model", "project", "session"),
                    _text("since", "DAY", "only from this day on: 2026-11-01, or 30d for the last 30 days"),
                    JSON,
                    flag("csv", "print comma-separated values"),
                    PAGE,
                ),
                reads=True,
                begins=False,
                check=f"{_HERE}wrong_usage",
            ),
        ),
        opens="pattern_acp.cli.usage:open_usage",
        without="pattern_acp.cli.usage:without_constellation",
    ),
    _one(
        "models",
        "the models that can be used, and what is known of each",
        "List the models of every provider that is set up: window, longest answer, prices in US dollars a million "
        "tokens, images and thinking levels.",
        Parameter("model", "only this one, and who says each figure", metavar="PROVIDER/MODEL"),
        JSON,
        words="[PROVIDER/MODEL]",
    ),
    _one(
        "backup",
        "copy the constellation while it is used",
        "Write a checked copy of the constellation, with all sessions and memory, into its folder of backups or to "
        "FILE. Sessions may continue meanwhile. Snapshots are also taken automatically, and --list shows both.",
        _text("output", "FILE", "write this file, which must not exist yet", "-o --output"),
        flag("list_only", "list the backups that there are", "--list"),
        JSON,
        check=f"{_HERE}wrong_backup",
    ),
    _one(
        "restore",
        "go back to a backup of the constellation",
        "Replace the constellation by a backup. What was there moves to the folder of backups, so that this "
        "can be taken back. Every window that uses the constellation has to be closed first.",
        Parameter("file", "the backup to go back to"),
        flag("latest", "go back to the newest backup that is sound"),
        JSON,
        words="FILE | --latest",
        check=f"{_HERE}wrong_restore",
    ),
    EXPORT,
    IMPORT,
    SYNC,
    FORK_ALL,
    MERGE_ALL,
    MOVE_PROJECT,
    _one(
        "gc",
        "delete copies and contents that nothing needs",
        "Delete what [retention] in config.toml does not want: the words of sessions that were deleted more than "
        "30 days ago, contents of files that no checkpoint names, what restores and migrations saved, snapshots that "
        "may hold words which were forgotten since, and large payloads of no event. Backups that you asked for stay.",
        flag("dry_run", "show what would go, and how much it is"),
        JSON,
    ),
    _one(
        "explain",
        "what a failure code means, and what to do",
        "Say what a code such as provider.overloaded means: whose fault it is, whether trying again helps, and what to "
        "do. Without CODE, list them all.",
        Parameter("code", "a code such as provider.overloaded"),
        JSON,
        words="[CODE]",
    ),
    CONFIG,
    _one(
        "doctor",
        "report what works and what does not",
        "Report what is broken or worth a remark first, then files, providers, and settings with their source. Exits 1 "
        "when something that is needed is broken.",
        JSON,
        flag("verify", "check all that is stored, in a temporary copy"),
        flag("repair", "repair what can be repaired without losing anything"),
        flag("all", "show each check that found nothing, and every setting"),
    ),
)
"""All commands, in the order of the help."""
