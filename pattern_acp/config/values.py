"""What one value in a file or variable may be.

Owns: the checks that config/keys.py names, each of which gives the value when it is allowed and None otherwise. Must
not know: which keys there are.
"""

from collections.abc import Callable
from typing import TypeAlias, cast

from pattern_acp.config.paths import is_valid_name
from pattern_acp.domain.allowance import parse_allowance
from pattern_acp.domain.late_pattern import late_pattern

Value: TypeAlias = str | int | tuple[str, ...]
"""What a setting holds."""

_MODEL = late_pattern(r"[^\s/]+(?:/\S+)?")
_EMBEDDER = late_pattern(r"[^\s/]+/\S+")


def choice(*allowed: str) -> Callable[[object], Value | None]:
    """One of these words, in any case."""

    def check(raw: object) -> Value | None:
        text = raw.strip().lower() if isinstance(raw, str) else ""
        return text if text in allowed else None

    return check


def number(low: int, high: int) -> Callable[[object], Value | None]:
    """A whole number from `low` to `high`."""

    def check(raw: object) -> Value | None:
        # A TOML boolean is an int in Python; `true` is no number of seconds.
        if isinstance(raw, bool) or not isinstance(raw, int):
            return None
        return raw if low <= raw <= high else None

    return check


def model_name(raw: object) -> Value | None:
    """A model or provider, or empty."""
    is_model = isinstance(raw, str) and len(raw) <= 200 and (not raw or _MODEL.fullmatch(raw))
    return raw if is_model and isinstance(raw, str) else None


def model_names(raw: object) -> Value | None:
    """A list of `PROVIDER/MODEL`, as a tuple."""
    names = [model_name(item) for item in cast("list[object]", raw)] if isinstance(raw, list) else [None]
    models = tuple(name for name in names if isinstance(name, str) and "/" in name)
    return models if len(models) == len(names) else None


def embedder_name(raw: object) -> Value | None:
    """What finds memory by meaning."""
    if not isinstance(raw, str) or len(raw) > 200:
        return None
    return raw if raw in {"auto", "hash", "minilm"} or _EMBEDDER.fullmatch(raw) else None


def yes_or_no(raw: object) -> Value | None:
    """A boolean."""
    return raw if isinstance(raw, bool) else None


def amount(raw: object) -> Value | None:
    """An allowance; a number alone, which TOML has without quotes, is US dollars."""
    text = str(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) else raw
    return text if isinstance(text, str) and parse_allowance(text) is not None else None


def name_of_file(raw: object) -> Value | None:
    """A name that a file may have."""
    return raw if isinstance(raw, str) and is_valid_name(raw) else None


_TYPE_WORDS: tuple[tuple[type, str], ...] = (
    (str, "text"),
    (bool, "a boolean"),  # before int, of which it is one in Python
    (int, "a number"),
    (float, "a decimal number"),
    (list, "a list"),
    (dict, "a table"),
)


def describe_type(raw: object) -> str:
    """What `raw` is, in TOML's words and without its content, which may be secret."""
    for kind, words in _TYPE_WORDS:
        if isinstance(raw, kind):
            return words
    return "a date or time"


def but_is(raw: object, allowed: str) -> str:
    """`, not a list` behind what is `allowed`; empty for text, and where another thing than the kind is wrong."""
    words = describe_type(raw)
    return "" if isinstance(raw, str) or words.split()[-1] in allowed else f", not {words}"
