"""Values of settings: what one in a file or variable may be.

Owns: the rules that config/keys.py names, each with the words for it. Must not know: which keys there are.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args, get_origin

from msgspec import Struct

from pattern_acp.config.paths import NAME_RULE, is_valid_name
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.usage import ALLOWED, parse_allowance

Value: TypeAlias = str | int | tuple[str, ...]
"""The value of a setting."""

_MODEL = re.compile(r"[^\s/]+(?:/\S+)?")
_FOLDER = re.compile(r"~/|/.|[A-Za-z]:[\\/]")
_SYNC_URL = re.compile(r"folder:(?:~/|/.|[A-Za-z]:[\\/]).*|(?:nats|tls)://[^\s/@]{1,300}")
_EMBEDDER = re.compile(r"[^\s/]+/\S+")


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


def _web_address(raw: object) -> Value | None:
    return raw if isinstance(raw, str) and (not raw or _WEB_ADDRESS.fullmatch(raw)) else None


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


def _sync_url(raw: object) -> Value | None:
    is_place = isinstance(raw, str) and (not raw or _SYNC_URL.fullmatch(raw))
    return raw if is_place and isinstance(raw, str) else None


def _embedder(raw: object) -> Value | None:
    if not isinstance(raw, str) or len(raw) > 200:
        return None
    return raw if raw in {"auto", "hash", "distilled", "minilm"} or _EMBEDDER.fullmatch(raw) else None


def matching(pattern: re.Pattern[str], allowed: str) -> Rule:
    """Text of one form."""
    return Rule(allowed, lambda raw: raw if isinstance(raw, str) and pattern.fullmatch(raw) else None)


def _boolean(raw: object) -> Value | None:
    return raw if isinstance(raw, bool) else None


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

SYNC_URL = Rule('text of the form "folder:PATH" or "nats://HOST:PORT"', _sync_url)

EMBEDDER = Rule('auto, hash, distilled, minilm, or text of the form "PROVIDER/MODEL"', _embedder)

YES_OR_NO = Rule("true or false", _boolean, bool)

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


_WEB_ADDRESS = late_pattern(r"https?://[^\s?#@]{1,300}")

WEB_ADDRESS = Rule("a URL like http://127.0.0.1:8888, without a query", _web_address)
