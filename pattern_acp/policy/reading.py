"""Shell lines that surely only read, by the table in reading.toml.

Owns: the reading forms of programs and how they are composed; lines that change nothing, which are more, as they may
show what asks; programs that only read their words. Must not know: paths, modes, grants: the caller checks
where the words lead. A line counts when every piece of it is in the table; one that is not makes the whole line ask.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import cast

import msgspec
from msgspec import Struct, field

from pattern_acp.policy.commands import CommandLine, Feature, SimpleCommand, read_command_line, readers_agree
from pattern_acp.policy.destructive import git_command
from pattern_acp.policy.paths import resolve_by_text
from pattern_acp.policy.programs import program_name
from pattern_acp.policy.shell_values import feeds_names


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    """The file reading.toml."""

    contents: str
    names: str
    versions: str
    excluded: dict[str, str] = field(name="except")
    hidden: dict[str, str]
    beyond: dict[str, str]
    silent: dict[str, list[object]]
    arguments: dict[str, list[object]]
    git: dict[str, list[object]]


class _Readings(Struct, frozen=True):
    """The table, as decisions use it."""

    any_words: frozenset[str]
    tells_contents: frozenset[str]
    versions: frozenset[str]
    excluded: dict[str, frozenset[str]]
    hidden: dict[str, frozenset[str]]
    beyond: dict[str, frozenset[str]]
    silent: dict[str, tuple[tuple[re.Pattern[str], ...], ...]]
    arguments: dict[str, tuple[tuple[re.Pattern[str], ...], ...]]
    git: dict[str, tuple[tuple[re.Pattern[str], ...], ...]]


@cache
def _readings() -> _Readings:
    text = files("pattern_acp.policy").joinpath("reading.toml").read_text("utf-8")
    table = msgspec.convert(tomllib.loads(text), _Table)
    contents, names = frozenset(table.contents.split()), frozenset(table.names.split())
    return _Readings(
        contents | names,
        contents | {"sed", "sort", "uniq", "jq"},
        frozenset(table.versions.split()),
        _options(table.excluded),
        _options(table.hidden),
        _options(table.beyond),
        {name: _alternatives(forms) for name, forms in table.silent.items()},
        {name: _alternatives(forms) for name, forms in table.arguments.items()},
        {name: _alternatives(forms) for name, forms in table.git.items()},
    )


def _options(named: dict[str, str]) -> dict[str, frozenset[str]]:
    return {name: frozenset(options.split()) for name, options in named.items()}


def _alternatives(forms: list[object]) -> tuple[tuple[re.Pattern[str], ...], ...]:
    lists = forms if forms and isinstance(forms[0], list) else [forms]
    return tuple(tuple(re.compile(pattern) for pattern in cast("list[str]", each)) for each in lists)


_PLAIN = frozenset({Feature.GLOB, Feature.FILE_REDIRECTION})
"""Features that a reading line may have: patterns for names of files, and input from a file."""

_VERSION = re.compile(r"--version|-V|--help")
_BEFORE_GIT = frozenset({"-C", "--no-pager", "-P"})


_UNREADABLE_SECRETS = ("Landlock and namespaces", "sandbox-exec")


def hides_credentials(sandbox: str) -> bool:
    """Return whether a sandbox, by its name in decisions, lets no command read credentials in a session's folders."""
    return sandbox.startswith(_UNREADABLE_SECRETS)


def surely_reads(text: str, *, windows: bool = False, confined: bool = False) -> bool:
    """Return whether a line of POSIX shells only reads and starts nothing but programs of the table.

    `confined`: credentials cannot be read where it runs, so it may read files that its words do not name.
    """
    if windows:
        return False
    line = read_command_line(text)
    if not line.parse_ok or not line.commands or not line.features <= _PLAIN or not readers_agree(line):
        return False
    if any(redirection.writes for redirection in line.redirections):
        return False
    has_pattern = Feature.GLOB in line.features
    return all(
        command_reads(command, has_pattern=has_pattern, confined=confined)
        or (confined and _reads_listed(command, line) and not has_pattern)
        for command in line.commands
    )


def _reads_listed(command: SimpleCommand, line: CommandLine) -> bool:
    """Return whether `xargs` has a program read files that a command of the line lists."""
    if not command.words or command.words[0] != "xargs" or command.assignments or command.changing:
        return False
    words = list(command.words[1:])
    while words and (option := _OF_XARGS.fullmatch(words[0])):
        del words[: 1 if option[1] else 2]
    if not words or words[0] in _WITH_FILE_OPTIONS or not feeds_names(line, command):
        return False
    read = SimpleCommand(tuple(words))
    return words[0] in _readings().any_words and command_reads(read, has_pattern=False, confined=True)


_OF_XARGS = re.compile(r"(-0|-r|-t|--null|--no-run-if-empty|-[nLP]\d+|-d.+)|-[nLPd]")
_WITH_FILE_OPTIONS = frozenset({"tree", "tail"})
"""Programs that a file's name could make do more, if it looks like an option."""


def command_reads(command: SimpleCommand, *, has_pattern: bool = False, confined: bool = False) -> bool:
    """Return whether one command surely only reads.

    With `has_pattern` a word of its line matches names of files; `confined` is that of `surely_reads`.
    """
    # A path names a file of the project, which may be any program.
    if not command.words or re.fullmatch(r"[a-z][\w.-]*", command.words[0]) is None:
        return False
    if command.assignments or command.changing:
        return False
    name, arguments = program_name(command.words[0]), command.words[1:]
    table = _readings()
    if name == "git":
        return not has_pattern and _git_reads(arguments)
    if name in table.versions and len(arguments) == 1 and _VERSION.fullmatch(arguments[0]):
        return True
    tells_any = confined and name in table.any_words and name not in _WITH_FILE_OPTIONS
    if (
        has_pattern
        and not tells_any
        and name in table.tells_contents | table.arguments.keys() - {"cd", "sleep", "printf"}
    ):
        return False
    excluded = [table.excluded, table.beyond] if confined else [table.excluded, table.beyond, table.hidden]
    if any(_has_option(arguments, options.get(name)) for options in excluded):
        return False
    return name in table.any_words or _matches(arguments, table.arguments.get(name, ()))


def changes_nothing(text: str, *, windows: bool = False) -> bool:
    """Return whether a line surely changes no file, even if it may read or show what asks."""
    line = read_command_line(text, windows=windows)
    if not line.commands or line.is_hiding or any(redirection.writes for redirection in line.redirections):
        return False
    has_pattern = Feature.GLOB in line.features
    return all(_changes_nothing(command, has_pattern=has_pattern) for command in line.commands)


def _changes_nothing(command: SimpleCommand, *, has_pattern: bool) -> bool:
    if not command.words or command.assignments or command.changing or _OF_SYSTEM.fullmatch(command.words[0]) is None:
        return False
    name, arguments = program_name(command.words[0]), command.words[1:]
    table = _readings()
    if name in table.silent and _matches(arguments, table.silent[name]):
        return True
    if has_pattern and (name == "git" or name in table.excluded or name in table.arguments):
        return False  # the name of a file could look like an option
    if name == "git":
        return _git_reads(arguments)
    if _has_option(arguments, table.excluded.get(name)):
        return False
    return name in table.any_words or _matches(arguments, table.arguments.get(name, ()))


_OF_SYSTEM = re.compile(r"(?:/usr)?/bin/[\w.-]+|[A-Za-z][\w.-]*")
"""Names of programs that are none of the project's files."""


def reads_words(name: str) -> bool:
    """Return whether a program, by its name, starts nothing that its words name, whatever they are."""
    table = _readings()
    return name in table.any_words and name not in table.excluded


def _has_option(arguments: Sequence[str], options: frozenset[str] | None) -> bool:
    return options is not None and any(_is_option(word, option) for word in arguments for option in options)


def _is_option(word: str, option: str) -> bool:
    """Return whether a word is, or may be, an option: among joined letters, shortened, or with its value."""
    if len(option) == 2:
        return re.match(rf"-[A-Za-z0-9.]*{re.escape(option[1])}", word) is not None
    name = word.partition("=")[0]
    return name == option or (len(name) > 2 and name.startswith("--") and option.startswith(name))


def _git_reads(arguments: Sequence[str]) -> bool:
    table = _readings()
    verb, rest = git_command(arguments)
    if not verb:
        return tuple(arguments) == ("--version",)
    before = arguments[: len(arguments) - len(rest) - 1]
    settings = [word for index, word in enumerate(before) if index == 0 or before[index - 1] != "-C"]
    if not _BEFORE_GIT.issuperset(settings):
        return False
    # `%G` in a format asks GnuPG about a signature.
    if any("%G" in word or _has_option((word,), table.excluded["git"]) for word in rest):
        return False
    return _matches(rest, table.git.get(verb, ()))


def _matches(arguments: Sequence[str], forms: Sequence[Sequence[re.Pattern[str]]]) -> bool:
    return any(
        len(arguments) >= len(form) - 1
        and all(form[min(index, len(form) - 1)].fullmatch(word) for index, word in enumerate(arguments))
        for form in forms
    )


def git_folders(text: str, cwd: str) -> tuple[str, ...]:
    """The folders in which a reading line may start git, of whose settings the caller learns; none without git."""
    line = read_command_line(text)
    if not any(command.words and program_name(command.words[0]) == "git" for command in line.commands):
        return ()
    folders = [cwd]
    for command in line.commands:
        words = command.words
        named = [words[1]] if words[:1] == ("cd",) and len(words) > 1 else []
        named += [after for word, after in pairwise(words) if word == "-C"]
        folders += [resolve_by_text(name, folder) for name in named for folder in tuple(folders)]
    return tuple(dict.fromkeys(folders))
