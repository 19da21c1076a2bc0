"""One TOML file, with the line of every key; what a value in one, or in a variable, may be; and the problems they have.

Owns: reading and parsing, finding lines, which `tomllib` does not report, and the rules that config/keys.py names, each
with the words for it. Must not know: which keys exist.
"""

import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard, cast, get_args, get_origin

from msgspec import Struct, field

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.usage import ALLOWED, parse_allowance

NAME_RULE = "1 to 64 letters, digits, dots, hyphens or underscores, not starting or ending with a dot"
_NAME = late_pattern(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_RESERVED = late_pattern(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
"""Windows treats these as devices in every directory, with any extension."""


def is_valid_name(name: str) -> bool:
    """Return whether `name` may become a directory on every platform (`NAME_RULE`)."""
    return _NAME.fullmatch(name) is not None and ".." not in name and _RESERVED.fullmatch(name) is None


class Problem(Struct, frozen=True):
    """A setting that was not used as written. The agent runs all the same (issue 2, section 2)."""

    place: str
    """The file, `$VARIABLE` or `--flag` that holds it."""
    line: int | None
    """1-based line in the file; None outside files or where it is not known."""
    key: str
    """The dotted key, such as `turn.max_wall_seconds`; empty when the whole file is meant."""
    sentence: str
    """A sentence that says what is wrong, what is allowed, and what is used instead. Never a key's secret value."""

    def __str__(self) -> str:
        """One line: place, line, key and sentence."""
        where = self.place if self.line is None else f"{self.place}:{self.line}"
        key = f"{self.key[:80]}: " if self.key else ""
        # A quoted key may hold anything, and a path too; neither may break the line or steer a terminal.
        return "".join(each if each.isprintable() else "?" for each in f"{where}: {key}{self.sentence}")


class EffectiveValue(Struct, frozen=True):
    """One setting as it is in force."""

    key: str
    shown: str
    """The value for a user; secrets are masked."""
    source: str
    """`default`, `$VARIABLE`, `--flag`, or `FILE:LINE`."""


MAX_BYTES = 256 * 1024
"""A larger file is not a configuration; a project's file is read unasked, so its size is not ours to trust."""

_HEADER = late_pattern(r"\s*\[\[?\s*(?P<path>[^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_ASSIGNMENT = late_pattern(r"""\s*(?P<path>(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*[^\s=.]+)*)\s*=""")
_PART = late_pattern(r"""[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*'""")
_ERROR_PLACE = late_pattern(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


class TomlFile(Struct, frozen=True):
    """A parsed file; empty when there is none or it is broken."""

    path: str
    table: Mapping[str, object] = field(default_factory=dict[str, object])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])

    def line_of(self, key: str) -> int | None:
        """The 1-based line of a dotted key, or of the nearest table or inline table around it."""
        while key:
            if key in self.lines:
                return self.lines[key]
            key = key.rpartition(".")[0]
        return None

    def place_of(self, key: str) -> str:
        """The file, with the line of a dotted key where it is known."""
        line = self.line_of(key)
        return self.path if line is None else f"{self.path}:{line}"

    def problem(self, key: str, sentence: str) -> Problem:
        """A problem at the line of `key`."""
        return Problem(self.path, self.line_of(key), key, sentence)


def read_toml(path: Path) -> tuple[TomlFile, tuple[Problem, ...]]:
    """Read `path`; a missing file is empty, a broken one is empty and one problem."""
    empty = TomlFile(str(path))
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            why = "it is not a regular file, so it is not read."
        elif facts.st_size > MAX_BYTES:
            why = f"it is larger than {MAX_BYTES // 1024} kB, so it is not read."
        else:
            # Windows editors like to add the mark that TOML forbids.
            return _parsed(str(path), path.read_bytes().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        return empty, ()
    except UnicodeDecodeError:
        why = "it is not UTF-8 text, so none of it is used."
    except OSError as error:
        why = f"it cannot be read ({error.strerror}), so none of it is used."
    return empty, (empty.problem("", why),)


@lru_cache(maxsize=4)
def _parsed(path: str, text: str) -> "tuple[TomlFile, tuple[Problem, ...]]":
    """Every turn reads the user's file and the project's, and both hardly ever change."""
    return parse_toml(path, text)


def parse_toml(path: str, text: str) -> tuple[TomlFile, tuple[Problem, ...]]:
    """Parse `text` as the content of `path`; broken text gives an empty table and one problem with its line."""
    # Late: most people have no file at all, and the import costs 3 to 15 ms.
    import tomllib

    try:
        table: Mapping[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _ERROR_PLACE.search(message)
        said = message[: place.start()] if place else message
        line = int(place["line"]) if place and place["line"] else len(text.splitlines())
        sentence = f"it is not valid TOML ({said}), so none of it is used; correct the line."
        return TomlFile(path), (Problem(path, line, "", sentence),)
    except (ValueError, RecursionError):
        # A number of thousands of digits, or thousands of brackets; a project's file is written by strangers.
        return TomlFile(path), (Problem(path, None, "", "it holds a value that is too large, so none of it is used."),)
    return TomlFile(path, table, dict(find_lines(text))), ()


def is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a parsed value is a TOML table, whose keys are always text."""
    return isinstance(value, dict)


def find_lines(text: str) -> Iterator[tuple[str, int]]:
    """Dotted keys and tables of valid TOML with their 1-based lines, in order.

    Keys inside inline tables are not listed; their line is that of the key that holds the table.
    """
    table: tuple[str, ...] = ()
    closing = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if closing:
            closing = "" if closing in line else closing
            continue
        header = _HEADER.fullmatch(line)
        assignment = None if header else _ASSIGNMENT.match(line)
        if header:
            table = _split(header["path"])
            yield ".".join(table), number
        elif assignment:
            yield ".".join((*table, *_split(assignment["path"]))), number
            closing = _opened_string(line[assignment.end() :])


def _split(path: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in _PART.findall(path))


def _opened_string(rest: str) -> str:
    """The closing mark when a multi-line string starts on this line and does not end on it."""
    for mark in ('"""', "'''"):
        if rest.lstrip().startswith(mark) and rest.count(mark) % 2:
            return mark
    return ""


Value: TypeAlias = str | int | tuple[str, ...]
"""The value of a setting."""

_MODEL = late_pattern(r"[^\s/]+(?:/\S+)?")
_FOLDER = late_pattern(r"~/|/.|[A-Za-z]:[\\/]")
_SYNC_URL = late_pattern(r"(?:folder:(?:~/|/.|[A-Za-z]:[\\/]).*|(?:nats|tls)://[^\s/@]{1,300})?")
_EMBEDDER = late_pattern(r"[^\s/]+/\S+")


class Rule(Struct, frozen=True):
    """The values that a setting may have."""

    allowed: str
    """The words for error sentences: completes "it must be …"."""
    check: Callable[[object], Any]
    """The value when it is allowed, otherwise None: a `Value`, or what a table of the user's own names has."""
    form: object = str
    """The type of what may be written, for the schema of the file (cli/config_schema.py)."""
    bounds: tuple[int, int] | None = None
    """The smallest and the largest number."""


def choice(*words: str) -> Rule:
    """One of these words, in any case."""

    def check(raw: object) -> Value | None:
        text = raw.strip().lower() if isinstance(raw, str) else ""
        return text if text in words else None

    return Rule(f"one of {', '.join(words)}", check, Literal[words])


def choices_of(rule: Rule) -> tuple[str, ...]:
    """The words of a choice; empty for another rule."""
    return get_args(rule.form) if get_origin(rule.form) is Literal else ()


def number(low: int, high: int) -> Rule:
    """A whole number from `low` to `high`."""

    def check(raw: object) -> Value | None:
        # A TOML boolean is an int in Python; `true` is no number of seconds.
        if isinstance(raw, bool) or not isinstance(raw, int):
            return None
        return raw if low <= raw <= high else None

    return Rule(f"a whole number from {low} to {high}", check, int, (low, high))


def _model(raw: object) -> Value | None:
    is_model = isinstance(raw, str) and len(raw) <= 200 and (not raw or _MODEL.fullmatch(raw))
    return raw if is_model and isinstance(raw, str) else None


def _models(raw: object) -> Value | None:
    names = [_model(item) for item in cast("list[object]", raw)] if isinstance(raw, list) else [None]
    models = tuple(name for name in names if isinstance(name, str) and "/" in name)
    return models if len(models) == len(names) else None


def _folders(raw: object) -> Value | None:
    if not isinstance(raw, list | tuple):
        return None
    words = tuple(cast("Sequence[object]", raw))
    return tuple(map(str, words)) if all(isinstance(each, str) and _FOLDER.match(each) for each in words) else None


def _named_folders(raw: object) -> Value | None:
    pairs = [str(each).partition("=") for each in cast("list[object]", raw)] if isinstance(raw, list | tuple) else [()]
    if all(len(pair) == 3 and is_valid_name(pair[0]) and _FOLDER.match(pair[2]) for pair in pairs):
        return tuple("".join(pair) for pair in pairs)
    return None


def _embedder(raw: object) -> Value | None:
    if not isinstance(raw, str) or len(raw) > 200:
        return None
    return raw if raw in {"auto", "hash", "distilled", "minilm", "mpnet"} or _EMBEDDER.fullmatch(raw) else None


def matching(pattern: re.Pattern[str], allowed: str) -> Rule:
    """Text of one form."""
    return Rule(allowed, lambda raw: raw if isinstance(raw, str) and pattern.fullmatch(raw) else None)


def _amount(raw: object) -> Value | None:
    # A number alone, which TOML has without quotes, is US dollars.
    text = str(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else raw
    return text if isinstance(text, str) and parse_allowance(text) is not None else None


def _file_name(raw: object) -> Value | None:
    return raw if isinstance(raw, str) and is_valid_name(raw) else None


MODEL = Rule('text of the form "PROVIDER/MODEL", a provider\'s name alone, or empty', _model)

MODELS = Rule('a list of text of the form "PROVIDER/MODEL"', _models, list[str])
"""Held as a tuple."""

FOLDERS = Rule("a list of absolute folders, or of folders that begin with ~/", _folders, list[str])

NAMED_FOLDERS = Rule('a list of text of the form "NAME=FOLDER"', _named_folders, list[str])

SYNC_URL = matching(_SYNC_URL, 'text of the form "folder:PATH" or "nats://HOST:PORT"')

EMBEDDER = Rule('auto, hash, distilled, minilm, mpnet, or text of the form "PROVIDER/MODEL"', _embedder)

YES_OR_NO = Rule("true or false", lambda raw: raw if isinstance(raw, bool) else None, bool)

AMOUNT = Rule(ALLOWED, _amount, str | float)

FILE_NAME = Rule(f"a name of {NAME_RULE}", _file_name)


_TYPE_WORDS: tuple[tuple[type, str], ...] = (
    (str, "text"),
    (bool, "a boolean"),  # before int, of which it is one in Python
    (int, "a number"),
    (float, "a decimal number"),
    (list, "a list"),
    (dict, "a table"),
)


def describe_type(raw: object) -> str:
    """The kind of `raw`, in TOML's words and without its content, which may be secret."""
    for kind, words in _TYPE_WORDS:
        if isinstance(raw, kind):
            return words
    return "a date or time"


def but_is(raw: object, allowed: str) -> str:
    """`, not a list` behind what is `allowed`; empty for text, and where another thing than the kind is wrong."""
    words = describe_type(raw)
    return "" if isinstance(raw, str) or words.split()[-1] in allowed else f", not {words}"


WEB_ADDRESS = matching(
    late_pattern(r"(?:https?://[^\s?#@]{1,300})?"), "a URL like http://127.0.0.1:8888, without a query"
)
