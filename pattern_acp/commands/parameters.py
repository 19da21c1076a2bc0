"""Parameters of the user's commands, and reading them from words typed after a slash or in a terminal.

Owns: the row of a command, the words of a slash command, and what is wrong with them. Must not know: what any command
does. How a shell's words are split is cli/argv.py's; both forms give the same values for the same row.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date
from enum import Enum
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field

from pattern_acp.config.settings import Flags
from pattern_acp.domain.errors import SessionError
from pattern_acp.domain.late_pattern import late_pattern

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PROGRAM = "pattern-acp"

Value: TypeAlias = "str | int | bool | tuple[str, ...] | None"


class CommandMisusedError(SessionError):
    """A command was typed in a form that it does not have."""

    failure_code = "session.command-misused"


class Kind(Enum):
    """The kinds of parameters."""

    WORD = "word"
    TEXT = "text"
    """All of the rest."""
    NUMBER = "number"
    RANGE = "range"
    """Two numbers, such as `10-25`."""
    DAY = "day"
    FLAG = "flag"
    PAGE = "page"
    """The file of a page, which may be left out behind its option; `HERE` then."""
    MANY = "many"
    """An option that may be passed more than once."""


HERE = "-"
"""Stands for a file of the command's own choice."""


class Parameter(Struct, frozen=True):
    """One thing that a command takes; `name` is the keyword of the function that carries it out."""

    name: str
    help: str = ""
    kind: Kind = Kind.WORD
    metavar: str = ""
    required: bool = False
    option: str = ""
    """The option, such as `--words`, when it is no positional word."""
    choices: tuple[str, ...] = ()
    ask: str = "which session, since it needs the id of a session"
    """The words after "Say" when a required one is missing."""
    wrong: str = ""
    """The error for a word that is not of its kind."""
    lines: bool = False
    r"""True when `\n` in its quotes begins a line."""
    only: str = ""
    """`slash` or `terminal`, where it is not taken in both."""
    also: str = ""
    """An option of a terminal that may stand for these words."""
    absent: str | None = ""
    """Its value where nothing is typed."""
    quoted: bool = False
    """In a terminal it is one argument: words that a shell split are not put together for what cannot be undone."""
    raw: bool = False
    """Blanks around it count."""
    least: int = 0
    """The least number that it may be."""
    is_id: bool = False
    """An empty word is none: a variable of a script that is not set may have left it."""

    @property
    def shown(self) -> str:
        """The form in help."""
        if not self.option:
            return self.metavar or self.name.upper()
        if self.kind is Kind.FLAG:
            return self.option.split()[-1]
        if self.kind is Kind.PAGE:
            return f"{self.option} [{self.metavar}]"
        value = "|".join(self.choices) if self.choices and not self.metavar else self.metavar or self.name.upper()
        return f"{self.option.split()[-1]} {value}"


ARGUMENT = Parameter("argument", kind=Kind.TEXT, raw=True)
"""All that was typed behind a command that reads it itself; its hint alone says what that may be."""

PAGE = Parameter(
    "html",
    "write one page to look at in a browser, and open it unless FILE is named",
    Kind.PAGE,
    "FILE",
    option="--html",
    only="terminal",
)


class Command(Struct, frozen=True):
    """One command: what it is called, what it takes, and what carries it out."""

    name: str
    description: str
    do: str = ""
    """`module:function`; the module is imported when the command is first used."""
    parameters: tuple[Parameter, ...] = ()
    hint: str = ""
    """The usage after the name, where the parameters do not say it."""
    scattered: bool = False
    """Options may stand within the text, which otherwise ends them."""
    reads: bool = False
    """It changes nothing."""
    begins: bool = True
    """It may be the first command ever; otherwise there has to be a constellation."""
    beside: bool = False
    """It is answered at once beside a turn that runs, where prompts may overlap."""
    only: str = ""
    in_session: str = ""
    """`module:function` that makes of an open session what carries it out works with; empty where a slash command takes
    the session itself."""
    parts: tuple[str, ...] = ()
    """The parts of an open session, by their names in `Session`, that a slash command takes instead of all of it."""
    extra: str = ""
    """The error for too many words, where they must not be repeated or others were meant."""
    check: str = ""
    """`module:function` that takes the values and returns what is wrong with them together, or an empty text."""

    @property
    def run(self) -> "Callable[..., Awaitable[Any]]":
        """The function that carries it out; its module is imported now."""
        return resolve_name(self.do)

    @property
    def usage(self) -> str:
        """The usage after the name."""
        return self.hint or self.usage_in("slash").strip()

    def usage_in(self, place: str) -> str:
        """Return the usage after the name in `slash` or `terminal`."""
        taken = [one for one in self.taken(place) if one is not ARGUMENT]
        words = [one for one in taken if not one.option]
        shown = [one.shown if one.required else f"[{one.shown}" for one in words if one.kind is not Kind.TEXT]
        texts = [one.shown if one.required else f"[{one.shown}]" for one in words if one.kind is Kind.TEXT]
        # A terminal's help lists options on their own.
        options = [f"[{one.shown}]" for one in taken if one.option and place == "slash"]
        return (
            " ".join(shown)
            + "]" * sum(word.startswith("[") for word in shown)
            + "".join(f" {each}" for each in (*texts, *options))
        )

    def taken(self, place: str) -> tuple[Parameter, ...]:
        """The parameters in `slash` or `terminal`."""
        return tuple(one for one in self.parameters if one.only in {"", place})


class TypedCommand(Struct, frozen=True):
    """A command that was typed in a terminal."""

    group: str
    command: str = ""
    """The verb; empty for a command that has none."""
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    """The arguments."""
    shared: dict[str, Value] = field(default_factory=dict[str, Value])
    """The arguments that all commands of its group take, such as `--cwd`."""
    flags: Flags = field(default_factory=Flags)

    @property
    def json(self) -> bool:
        """True when a program reads the answer."""
        return self.shared.get("json") is True or self.values.get("json") is True


class Group(Struct, frozen=True):
    """A command with verbs, or one without."""

    name: str
    summary: str
    description: str
    commands: tuple[Command, ...]
    shared: tuple[Parameter, ...] = ()
    default: str = ""
    """The verb that is meant without one; empty where one has to be named."""
    words: str = ""
    """The words after the name in the first line of help."""
    unknown: str = ""
    """The error for an unknown verb, where it must not be repeated."""
    opens: str = ""
    """`module:function` that takes a call and the process and opens what carries out its verbs works with; empty for
    commands that run on their own."""
    without: str = ""
    """`module:function` that takes a call and answers it as long as there is no constellation."""


_WORD = late_pattern(r'\s*(?:"([^"]*)"|(\S+))\s?')
_QUOTED = late_pattern(r'\s*"((?:[^"\\]|\\.)*)"(?=\s+--|\s*$)', re.DOTALL)
"""A text in quotes, in which nothing is an option."""
_VALUE = r'(?:[ =]\s*)(?:"((?:[^"\\]|\\.)*)"|(\S+))'
_ESCAPE = late_pattern(r"\\(.)", re.DOTALL)


def first_word(typed: str) -> tuple[str, str]:
    """The first word of a text, without a meaning of quotes, and what follows it, maybe on a line of its own."""
    word, rest = (*typed.split(None, 1), "", "")[:2]
    return word, rest.strip()


def take_word(text: str) -> tuple[str, str]:
    """The first word of a text, which may be in quotes, and what follows it with its line ends."""
    found = _WORD.match(text)
    if found is None:
        return "", ""
    quoted, plain = found.groups()
    return (plain if quoted is None else quoted), text[found.end() :]


def read_slash(command: Command, argument: str, typed: str) -> dict[str, Value]:
    """The values of what was typed behind a command; `typed` is how it was called, such as `/memory show`.

    Raises:
        CommandMisusedError: something is missing, too much, or of the wrong kind.
    """
    taken = command.taken("slash")
    options = {one.option: one for one in taken if one.option}
    found: dict[str, list[str]] = {}
    words: list[str] = []
    rest = argument
    if command.scattered:
        whole = _QUOTED.match(rest)
        if whole is not None:
            words, rest = [_unescaped(whole[1])], rest[whole.end() :]
        rest = _take_scattered(options, rest, found)
    positional = [one for one in taken if not one.option][len(words) :]
    for one in positional:
        rest = rest if command.scattered else _take_options(options, rest, found, typed)
        if not rest.strip():
            break
        if one.kind is Kind.TEXT:
            words.append(rest if one.raw else rest.strip())
            rest = ""
        elif one.kind is Kind.NUMBER and positional[-1].kind is Kind.TEXT and not rest.split()[0].isdecimal():
            words.append("")
        else:
            word, rest = take_word(rest)
            words.append(word)
    if rest := _take_options(options, rest, found, typed).strip():
        words.append(rest)
    return read_values(command, words, found, place="slash", typed=typed)


def read_values(
    command: Command, words: Sequence[str], found: Mapping[str, Sequence[str]], *, place: str, typed: str
) -> dict[str, Value]:
    """The values of words and options that were split already. An empty word stands for one that is left out.

    Raises:
        CommandMisusedError: something is missing, too much, or of the wrong kind.
    """
    left = list(words)
    usage = command.hint or command.usage_in(place).strip()
    taken = command.taken(place)
    values = {one.name: _of_option(one, found.get(one.name, ()), typed) for one in taken if one.option}
    for one in (one for one in taken if not one.option):
        is_rest = one.kind is Kind.TEXT and not (one.quoted and place == "terminal")
        given = left if is_rest else left[:1]
        left = left[len(given) :]
        word = " ".join(given or found.get(one.name, ()))
        if not word and (one.required or (one.is_id and given)):
            raise CommandMisusedError(f"Say {one.ask}: {typed} {usage}.")
        if word or given:
            values[one.name] = _of_kind(one, word, typed)
        else:
            values[one.name] = None if one.kind is Kind.NUMBER else one.absent
    if left:
        takes = f"takes {usage}, not {' '.join(left)!r} too." if usage else "takes no arguments."
        raise CommandMisusedError(command.extra or f"{typed} {takes}")
    if command.check and (problem := resolve_name(command.check)(values)):
        raise CommandMisusedError(f"{typed} {problem}")
    return values


def _of_option(one: Parameter, given: Sequence[str], typed: str) -> Value:
    if one.kind is Kind.FLAG:
        return bool(given)
    for text in given:
        if one.choices and text not in one.choices:
            raise CommandMisusedError(f"{typed} {one.option} takes one of {', '.join(one.choices)}.")
    if one.kind is Kind.MANY:
        return tuple(given)
    return _of_kind(one, given[-1] if given else "", f"{typed} {one.option}") if given else ""


def _of_kind(one: Parameter, text: str, typed: str) -> Value:
    match one.kind:
        case Kind.NUMBER if not text.strip():
            return None
        case Kind.NUMBER:
            if not re.fullmatch(r"\s*\d{1,9}\s*", text):
                raise CommandMisusedError(one.wrong or f"{typed} takes a number.")
            if int(text) < one.least:
                raise CommandMisusedError(f"{typed} must be {one.least} or more.")
            return int(text)
        case Kind.RANGE if text.strip():
            found = re.fullmatch(r"\s*(\d{1,9})-(\d{1,9})\s*", text)
            if found is None or int(found[1]) >= int(found[2]):
                raise CommandMisusedError(one.wrong)
            return text.strip()
        case Kind.DAY if text:
            try:
                date.fromisoformat(text)
            except ValueError:
                raise CommandMisusedError(f"{typed} takes a day, such as 2026-11-28.") from None
        case _:
            pass
    return text


def _take_options(options: Mapping[str, Parameter], rest: str, found: dict[str, list[str]], typed: str) -> str:
    """The options that are in front of a text are taken from it; `--` ends them."""
    while options:
        head = re.match(r"\s*(--[a-z-]*)(?=[\s=]|$)", rest)
        if head is None:
            break
        behind = rest[head.end() :]
        if head[1] == "--":
            return behind.lstrip()
        one = options.get(head[1])
        if one is None:
            break
        if one.kind is Kind.FLAG:
            found.setdefault(one.name, []).append("yes")
            rest = behind.removeprefix(" ")
            continue
        value, rest = take_word(behind.removeprefix("="))
        if not value:
            takes = "a day, such as 2026-11-28" if one.kind is Kind.DAY else f"one of {', '.join(one.choices)}"
            raise CommandMisusedError(f"{typed} {one.option} takes {takes}.")
        found.setdefault(one.name, []).append(value)
    return rest


def _take_scattered(options: Mapping[str, Parameter], text: str, found: dict[str, list[str]]) -> str:
    """The options anywhere in a text are taken from it."""
    if not options:
        return text
    names = "|".join(re.escape(name) for name in options)

    def take(match: re.Match[str]) -> str:
        one = options[match[1]]
        value = match[3] if match[2] is None else _unescaped(match[2], lines=one.lines)
        found.setdefault(one.name, []).append(value)
        return ""

    return re.sub(rf"(?:^|\s)({names}){_VALUE}", take, text, flags=re.DOTALL)


def _unescaped(text: str, *, lines: bool = False) -> str:
    def of(escape: re.Match[str]) -> str:
        if lines and escape[1] == "n":
            return "\n"
        # A pattern such as \d stays as it was typed.
        return escape[1] if escape[1] in {'"', "\\"} else escape[0]

    return _ESCAPE.sub(of, text)
