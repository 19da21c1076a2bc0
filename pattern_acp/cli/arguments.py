"""The command line.

Owns: which commands and flags there are, their help, and their errors. Must not know: what the commands do. It prints
nothing: whoever calls it shows the text that comes back.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, cast

from pattern_acp.cli.backup_arguments import (
    BackUp,
    BackupUsageError,
    Restore,
    add_backup_arguments,
    add_restore_arguments,
    backup_arguments,
    restore_arguments,
)
from pattern_acp.cli.memory_arguments import VALUED, Memory, MemoryUsageError, add_memory_arguments, memory_arguments
from pattern_acp.cli.session_arguments import Sessions, SessionUsageError, add_session_arguments, session_arguments
from pattern_acp.cli.trust_arguments import Trust, TrustUsageError, add_trust_arguments, trust_arguments
from pattern_acp.cli.usage_arguments import UsageArgumentsError, UsageWanted, add_usage_arguments, usage_arguments
from pattern_acp.config.settings import Flags
from pattern_acp.domain.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import argparse

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_CANCELLED = 130
"""128 + SIGINT, as shells have it."""

PROGRAM = "pattern-acp"


@dataclass(frozen=True, slots=True)
class Serve:
    """Speak ACP on stdin and stdout."""

    flags: Flags = field(default_factory=Flags)


@dataclass(frozen=True, slots=True)
class Chat:
    """Be a client of our own agent, in a terminal."""

    flags: Flags = field(default_factory=Flags)
    prompt: str | None = None
    """One turn with this prompt; None to ask for prompts, or to read one from a stdin that is no terminal."""
    answer: Literal["ask", "allow", "deny"] = "ask"
    """What permission questions are answered."""
    json: bool = False
    session: str = ""
    """The session to resume; empty for a new one."""
    latest: bool = False
    """Resume the newest session of the directory."""
    cwd: str = ""
    """The session's directory; empty for the current one."""
    images: tuple[str, ...] = ()
    """Files of images that go with the first prompt."""


@dataclass(frozen=True, slots=True)
class Doctor:
    """Report what works and what does not."""

    flags: Flags = field(default_factory=Flags)
    json: bool = False
    verify: bool = False
    """Check the whole constellation too."""
    repair: bool = False
    """Carry out the repairs that lose nothing."""


@dataclass(frozen=True, slots=True)
class ShowText:
    """Print `text` on stdout and exit 0: help or the version."""

    text: str


@dataclass(frozen=True, slots=True)
class BadUsage:
    """Print `sentence` on stderr, one line, and exit 2."""

    sentence: str


InTerminal: TypeAlias = Chat | Sessions | Memory | Trust | UsageWanted | BackUp | Restore | Doctor
"""The commands that a person runs, and that end by themselves."""

Arguments: TypeAlias = Serve | InTerminal | ShowText | BadUsage


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """What the command line (without the program's name) asks for."""
    if list(argv) in ([], ["acp"], ["--acp"]):
        # What editors send; argparse would cost them 2 to 10 ms at every spawn.
        return Serve()
    if list(argv) in (["--version"], ["-V"]):
        return ShowText(_version())
    try:
        return _parse(argv)
    except _ShownError as shown:
        return ShowText(str(shown))
    except _UsageError as error:
        one_line = " ".join(str(error).split())
        return BadUsage(f"{PROGRAM}: {one_line} (see {PROGRAM} --help)")


class _UsageError(Exception):
    """The command line cannot be understood."""


class _ShownError(Exception):
    """Carries help text out of argparse, which would print it and exit."""


def _version() -> str:
    from pattern_acp import __version__

    return f"{PROGRAM} {__version__}"


def _parse(argv: Sequence[str]) -> Arguments:
    parser = _build_parser()
    try:
        found = vars(parser.parse_args(_options_last(argv)))
    except _UsageError as error:
        # argparse takes the value of an unknown flag for the command, and complains about the value.
        known = set(re.findall(r"--[a-z-]+", parser.format_help()))
        flags = (word.partition("=")[0] for word in argv if word.startswith("--"))
        stranger = next((flag for flag in flags if flag not in known), "")
        if stranger and "COMMAND" in str(error):
            raise _UsageError(f"unrecognized arguments: {stranger}.") from error
        raise
    if found.get("version"):
        return ShowText(_version())
    _refuse_bad_settings(found)
    flags = Flags(
        model=found.get("model"),
        constellation=found.get("constellation"),
        persona=found.get("persona"),
        mode=found.get("mode"),
        log_level=found.get("log_level"),
    )
    command = found.get("command")
    if found.get("acp") and command not in (None, "acp"):
        raise _UsageError(f"--acp and {command} are two commands; give one of them.")
    return _of_command(command, flags, found)


def _of_command(command: object, flags: Flags, found: dict[str, object]) -> Arguments:
    if command == "chat":
        return _chat(flags, found)
    if isinstance(command, str) and command in _READERS:
        try:
            return _READERS[command](flags, found)
        except (SessionUsageError, MemoryUsageError, TrustUsageError, UsageArgumentsError, BackupUsageError) as error:
            raise _UsageError(str(error)) from error
    if command == "doctor":
        wanted = {name: bool(found.get(name)) for name in ("json", "verify", "repair")}
        return Doctor(flags, **wanted)
    return Serve(flags)


_READERS: "Mapping[str, Callable[[Flags, Mapping[str, object]], Arguments]]" = {
    "sessions": session_arguments,
    "memory": memory_arguments,
    "trust": trust_arguments,
    "backup": backup_arguments,
    "restore": restore_arguments,
    "usage": usage_arguments,
}
"""What the arguments of some commands mean."""


def _options_last(argv: Sequence[str]) -> list[str]:
    """Options of `memory`, and `--json` and `--all`, behind all words: argparse loses optional words after one."""
    if "--" in argv:
        return list(argv)
    names = {command.name for command in _COMMANDS}
    words: list[str] = []
    options: list[str] = []
    rest = iter(argv)
    for word in rest:
        is_memory = next((one for one in words if one in names), "") == "memory"
        if word in {"--json", "--all"} or (is_memory and word.startswith("--")):
            options.append(word)
            if is_memory and word in VALUED:
                options += islice(rest, 1)
        else:
            words.append(word)
    return words + options


def _refuse_bad_settings(found: dict[str, object]) -> None:
    """A value typed a moment ago is refused; one from a file or variable only falls back (config/load.py)."""
    from pattern_acp.config.keys import KEYS

    for key in KEYS:
        value = found.get(key.name) if key.flag else None
        if value is not None and key.check(value) is None:
            raise _UsageError(f"{key.flag} must be {key.allowed}.")


def _chat(flags: Flags, found: dict[str, object]) -> Chat:
    prompt = found.get("prompt")
    return Chat(
        flags=flags,
        prompt=prompt if isinstance(prompt, str) else None,
        answer="allow" if found.get("yes") else "deny" if found.get("deny") else "ask",
        json=bool(found.get("json")),
        session=str(found.get("session", "")),
        latest=bool(found.get("latest")),
        cwd=str(found.get("cwd", "")),
        images=_texts(found.get("images")),
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(item) for item in cast("list[object]", value)) if isinstance(value, list) else ()


def _build_parser() -> "argparse.ArgumentParser":
    import argparse

    class Parser(argparse.ArgumentParser):
        """argparse prints and exits; only overriding its methods makes it return."""

        def print_help(self, file: object = None) -> NoReturn:
            del file  # where help goes is the caller's to say
            raise _ShownError(self.format_help().rstrip())

        def error(self, message: str) -> NoReturn:
            raise _UsageError(f"{message}.")

    common = Parser(add_help=False, allow_abbrev=False)
    _add_common(common)
    parser = Parser(
        prog=PROGRAM,
        description="An agent for editors that speak ACP. Without a command it serves ACP on stdin and stdout.",
        epilog="Settings also come from PATTERN_ACP_MODEL, PATTERN_ACP_CONSTELLATION, PATTERN_ACP_HOME, "
        "PATTERN_ACP_LOG and config.toml; 'pattern-acp doctor' shows each value and where it came from.",
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("--acp", action="store_true", help="serve ACP, as without any argument")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for command in _COMMANDS:
        added = commands.add_parser(
            command.name, help=command.summary, description=command.description, parents=[common], allow_abbrev=False
        )
        command.add_arguments(added)
    _without_colour(parser, *commands.choices.values())
    return parser


def _without_colour(*parsers: "argparse.ArgumentParser") -> None:
    """Python 3.14 colours help; ours goes through pipes, logs and tests."""
    if sys.version_info >= (3, 14):
        for parser in parsers:
            parser.color = False


def _add_common(parser: "argparse.ArgumentParser") -> None:
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
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default=absent,
        help="the least serious message that the log file keeps",
    )


def _add_chat(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="run one turn with this prompt and exit")
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


def _add_nothing(parser: "argparse.ArgumentParser") -> None:
    del parser


def _add_doctor(parser: "argparse.ArgumentParser") -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--verify", action="store_true", help="check all that is stored, in a temporary copy")
    parser.add_argument("--repair", action="store_true", help="mend what can be mended without losing anything")


@dataclass(frozen=True, slots=True)
class _Command:
    """One command as its help shows it."""

    name: str
    summary: str
    description: str
    add_arguments: "Callable[[argparse.ArgumentParser], None]"


_COMMANDS = (
    _Command("acp", "serve ACP on stdin and stdout", "Serve ACP on stdin and stdout.", _add_nothing),
    _Command(
        "chat",
        "talk to the agent in a terminal",
        "Talk to the agent in a terminal. With PROMPT, or with a stdin that is no terminal, one turn runs and the exit "
        "code is 0 when it ended well, 1 on an error, 130 when it was cancelled.",
        _add_chat,
    ),
    _Command(
        "sessions",
        "list, show, search, rename, put away, delete or fork sessions",
        "List this directory's sessions, or do something with one: "
        "show ID, search WORDS, rename ID TITLE, archive ID, unarchive ID, delete ID, undelete [ID], fork ID [TURN].",
        add_session_arguments,
    ),
    _Command(
        "memory",
        "show, compare, undo, edit or forget what is remembered",
        "Look at what the persona and this directory's project remember, at every version of it and who wrote it; take "
        "writes back, edit, delete, restore, or forget for good.",
        add_memory_arguments,
    ),
    _Command(
        "trust",
        "let a folder's own hooks, servers and commands run",
        "Show what a folder would run (hooks, MCP servers, checks, commands, skills) and trust it until that changes; "
        "list the folders that are trusted; revoke takes it back.",
        add_trust_arguments,
    ),
    _Command(
        "usage",
        "tokens and money by day, model, project or session",
        "Sum up what models used and cost, over all sessions of the constellation: a bar a day, model, project or "
        "session; as a table in a pipe, JSON or CSV.",
        add_usage_arguments,
    ),
    _Command(
        "backup",
        "copy the constellation while it is used",
        "Write a checked copy of the constellation, with all sessions and memory, into its folder of backups or to "
        "FILE. Sessions may go on meanwhile. Snapshots are taken by themselves too, and --list shows both.",
        add_backup_arguments,
    ),
    _Command(
        "restore",
        "go back to a backup of the constellation",
        "Put a backup in the place of the constellation. What was there is kept in the folder of backups, so that this "
        "can be taken back. Every window that uses the constellation has to be closed first.",
        add_restore_arguments,
    ),
    _Command(
        "doctor",
        "report what works and what does not",
        "Report versions, files, providers and every setting with its source. Exits 1 when something that is needed is "
        "broken.",
        _add_doctor,
    ),
)
