"""The command line.

Owns: which commands and flags there are, their help, and their errors. Must not know: what the commands do. It prints
nothing: whoever calls it shows the text that comes back.
"""

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias, cast

from msgspec import Struct, field

from pattern_acp.cli.auth_arguments import Auth, AuthUsageError, auth_arguments
from pattern_acp.cli.backup_arguments import BACKUP_READERS, BackUp, BackupUsageError, Restore, Sweep
from pattern_acp.cli.command_table import COMMANDS, add_common
from pattern_acp.cli.explain_arguments import Explain, explain_arguments
from pattern_acp.cli.journal_arguments import (
    JOURNAL_VALUED,
    Journal,
    JournalUsageError,
    journal_arguments,
)
from pattern_acp.cli.models_arguments import ModelsWanted, models_arguments
from pattern_acp.cli.serving import SERVE_PLAINLY
from pattern_acp.cli.session_arguments import Sessions, SessionUsageError, session_arguments
from pattern_acp.cli.trust_arguments import Trust, TrustUsageError, trust_arguments
from pattern_acp.cli.usage_arguments import UsageArgumentsError, UsageWanted, usage_arguments
from pattern_acp.commands.parameters import PROGRAM, Call
from pattern_acp.config.settings import Flags

if TYPE_CHECKING:
    import argparse

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_CANCELLED = 130
"""128 + SIGINT, as shells have it."""


class Serve(Struct, frozen=True):
    """Speak ACP on stdin and stdout."""

    flags: Flags = field(default_factory=Flags)


class Chat(Struct, frozen=True):
    """Be a client of our own agent, in a terminal."""

    flags: Flags = field(default_factory=Flags)
    prompt: str | None = None
    """One turn with this prompt; None to ask for prompts, or to read one from a stdin that is no terminal. What is
    piped in beside a prompt goes with it."""
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


class Doctor(Struct, frozen=True):
    """Report what works and what does not."""

    flags: Flags = field(default_factory=Flags)
    json: bool = False
    verify: bool = False
    """Check the whole constellation too."""
    repair: bool = False
    """Carry out the repairs that lose nothing."""
    all: bool = False
    """Show what is well row by row too, and settings that nobody set."""


class ShowText(Struct, frozen=True):
    """Print `text` on stdout and exit 0: help or the version."""

    text: str


class BadUsage(Struct, frozen=True):
    """Print `sentence` on stderr, one line, and exit 2."""

    sentence: str


InTerminal: TypeAlias = (
    Chat | Sessions | Call | Journal | Trust | Auth | UsageWanted | ModelsWanted | BackUp | Restore | Sweep | Doctor
)
"""The commands that a person runs, and that end by themselves."""

Arguments: TypeAlias = Serve | InTerminal | Explain | ShowText | BadUsage


FOR_THE_USER = (
    "`pattern-acp {}` is for the user and does not run in a command that an agent started; use your own terminal."
)
"""What is said of a command that `decides_for_user`, where the mark of an agent's commands is in the environment."""


def decides_for_user(arguments: Arguments) -> str:
    """The command by which something is decided or erased in the user's name; empty when there is none of it."""
    from pattern_acp.policy.own_program import READING

    match arguments:
        case Call(group=command, command=action):
            pass
        case Sessions(action="rewind", preview=True):
            return ""
        case Sessions(action=action):
            command = "sessions"
        case Trust(action=action):
            command, action = "trust", "" if action == "add" else action
        case Auth(action=action):
            command = "auth"
        case Journal(action="redact") | Journal(action="rebuild", replace=True):
            return f"journal {arguments.action}"
        case Restore():
            return "restore"
        case Sweep(dry_run=False):
            return "gc"
        case Chat(answer="allow"):
            return "chat --yes"
        case _:
            return ""
    return "" if action in READING[command] else f"{command} {action}".rstrip()


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """What the command line (without the program's name) asks for."""
    if list(argv) in SERVE_PLAINLY:
        return Serve()
    if list(argv) in (["--version"], ["-V"]):
        return ShowText(_version())
    try:
        return _read_memory(argv) if _names_memory(argv) else _parse(argv)
    except _ShownError as shown:
        return ShowText(str(shown))
    except _UsageError as error:
        one_line = " ".join(str(error).split()).removesuffix(".")
        names = {command.name for command in COMMANDS}
        command = next((f"{word} " for word in argv if word in names), "")
        return BadUsage(f"{PROGRAM}: {one_line}; see {PROGRAM} {command}--help")


def _names_memory(argv: Sequence[str]) -> bool:
    words = iter(argv)
    for word in words:
        if not word.startswith("-"):
            return word == "memory"
        if word in {"--constellation", "--persona", "--model", "--mode", "--thinking", "--log-level"}:
            next(words, None)
    return False


def _read_memory(argv: Sequence[str]) -> Arguments:
    from pattern_acp.cli.argv import HelpShown, UsageProblem, read_argv
    from pattern_acp.cli.command_table import MEMORY

    try:
        return read_argv((MEMORY,), argv)
    except HelpShown as shown:
        return ShowText(str(shown))
    except UsageProblem as problem:
        return BadUsage(str(problem))


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
        if typed := re.search(r"argument COMMAND: invalid choice: '(.*?)'", str(error)):
            raise _UsageError(_no_command(typed[1])) from error
        raise
    if found.get("version"):
        return ShowText(_version())
    _refuse_bad_settings(found)
    flags = Flags(
        model=found.get("model"),
        constellation=found.get("constellation"),
        persona=found.get("persona"),
        mode=found.get("mode"),
        thinking=found.get("thinking"),
        log_level=found.get("log_level"),
        exact_model=bool(found.get("exact_model")),
    )
    command = found.get("command")
    if found.get("acp") and command not in (None, "acp"):
        raise _UsageError(f"--acp and {command} are two commands; give one of them.")
    return _of_command(command, flags, found)


def _no_command(typed: str) -> str:
    from difflib import get_close_matches

    meant = get_close_matches(typed, [command.name for command in COMMANDS], 1)
    return (
        f"there is no command {typed!r}, perhaps you mean {meant[0]!r}" if meant else f"there is no command {typed!r}"
    )


def _of_command(command: object, flags: Flags, found: dict[str, object]) -> Arguments:
    if command == "chat":
        return _chat(flags, found)
    if isinstance(command, str) and command in _READERS:
        try:
            return _READERS[command](flags, found)
        except _MISUSE as error:
            raise _UsageError(str(error)) from error
    if command == "doctor":
        wanted = {name: bool(found.get(name)) for name in ("json", "verify", "repair", "all")}
        return Doctor(flags, **wanted)
    return Serve(flags)


_MISUSE = (
    SessionUsageError,
    JournalUsageError,
    TrustUsageError,
    AuthUsageError,
    UsageArgumentsError,
    BackupUsageError,
)

_READERS: "Mapping[str, Callable[[Flags, Mapping[str, object]], Arguments]]" = {
    "sessions": session_arguments,
    "journal": journal_arguments,
    "trust": trust_arguments,
    "auth": auth_arguments,
    **BACKUP_READERS,
    "usage": usage_arguments,
    "models": models_arguments,
    "explain": explain_arguments,
}
"""What the arguments of some commands mean."""

_VALUED: "Mapping[str, Collection[str]]" = {"journal": JOURNAL_VALUED, "auth": ()}
"""Commands whose options may stand anywhere, with those that take a value."""


def _options_last(argv: Sequence[str]) -> list[str]:
    """Options of some commands, and `--json` and `--all`, behind all words: argparse loses optional words after one."""
    if "--" in argv:
        return list(argv)
    names = {command.name for command in COMMANDS}
    words: list[str] = []
    options: list[str] = []
    rest = iter(argv)
    for word in rest:
        valued = _VALUED.get(next((one for one in words if one in names), ""))
        if word in {"--json", "--all"} or (valued is not None and word.startswith("-") and word != "-"):
            options.append(word)
            if valued is not None and word in valued:
                options += islice(rest, 1)
        else:
            words.append(word)
    return words + options


def _refuse_bad_settings(found: dict[str, object]) -> None:
    """A value typed a moment ago is refused; one from a file or variable only falls back (config/load.py)."""
    from pattern_acp.config.keys import KEYS

    for key in KEYS:
        value = found.get(key.name) if key.flag else None
        if value is not None and key.rule.check(value) is None:
            raise _UsageError(f"{key.flag} must be {key.rule.allowed}.")


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
    add_common(common)
    parser = Parser(
        prog=PROGRAM,
        description="An agent for editors that speak ACP. Without a command it serves ACP on stdin and stdout.",
        epilog="Settings also come from PATTERN_ACP_MODEL, PATTERN_ACP_MODE, PATTERN_ACP_THINKING, "
        "PATTERN_ACP_CONSTELLATION, PATTERN_ACP_HOME, PATTERN_ACP_LOG and config.toml; 'pattern-acp doctor' shows "
        "each value and where it came from.",
        parents=[common],
        allow_abbrev=False,
    )
    parser.add_argument("--acp", action="store_true", help="serve ACP, as without any argument")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for command in COMMANDS:
        added = commands.add_parser(
            command.name,
            # argparse's own would begin with three lines of flags that every command has.
            usage=" ".join(filter(None, (PROGRAM, command.name, "[OPTION ...]", command.words))),
            help=command.summary,
            description=command.description,
            parents=[common],
            allow_abbrev=False,
        )
        command.add_arguments(added)
    _without_colour(parser, *commands.choices.values())
    return parser


def _without_colour(*parsers: "argparse.ArgumentParser") -> None:
    """Python 3.14 colours help; ours goes through pipes, logs and tests."""
    if sys.version_info >= (3, 14):
        for parser in parsers:
            parser.color = False
