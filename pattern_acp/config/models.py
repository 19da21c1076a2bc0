"""The tables `[models."PROVIDER/MODEL"]`: what the user knows of a model better than anybody.

Owns: their keys. Must not know: what else is known of a model (providers/catalogue.py), which these are laid over.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import ModelSettings
from pattern_acp.config.toml_file import EffectiveValue, Problem, TomlFile, is_table
from pattern_acp.config.values import YES_OR_NO, Rule, but_is, choice, number

TABLE = "models"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}/\S{1,200}")
_MOST_TOKENS = 100_000_000
_MOST_DOLLARS = 1_000_000
_LEVELS = ("off", "low", "medium", "high", "max")


class ModelKey(Struct, frozen=True):
    """One key of such a table."""

    about: str
    rule: Rule
    """The value of the field of the same name in `ModelSettings`."""


def read_models(
    file: TomlFile,
) -> tuple[Mapping[str, ModelSettings], tuple[Problem, ...], tuple[EffectiveValue, ...]]:
    """The tables by `PROVIDER/MODEL`. A key that cannot be used is left out and reported."""
    models: dict[str, ModelSettings] = {}
    problems: list[Problem] = []
    values: list[EffectiveValue] = []
    raw = file.table.get(TABLE, {})
    if not is_table(raw):
        return {}, (file.problem(TABLE, 'it must be tables [models."PROVIDER/MODEL"], so it is not used.'),), ()
    for name, table in raw.items():
        if not _ID.fullmatch(name) or not is_table(table):
            sentence = 'a model is a table [models."PROVIDER/MODEL"], with quotes around its name; it is left out.'
            problems.append(file.problem(f"{TABLE}.{name}", sentence))
            continue
        models[name] = ModelSettings()
        for key, value in table.items():
            found = _read_key(models[name], file, name, key, value)
            if isinstance(found, Problem):
                problems.append(found)
                continue
            models[name] = found
            place = file.place_of(f"{TABLE}.{name}.{key}")
            values.append(EffectiveValue(f'{TABLE}."{name}".{key}', _shown(value), place))
    return models, tuple(problems), tuple(values)


def refused_models(project: TomlFile) -> Iterator[Problem]:
    """Why a project's tables are not used."""
    if TABLE in project.table:
        sentence = "a project may not say what models can do or cost; it is not used. Put it into your own file."
        yield project.problem(TABLE, sentence)


def _read_key(before: ModelSettings, file: TomlFile, name: str, key: str, value: object) -> ModelSettings | Problem:
    place, line = f'{TABLE}."{name}".{key}', file.line_of(f"{TABLE}.{name}.{key}")
    known = MODEL_KEYS.get(key)
    if known is None:
        sentence = f"there is no such key; allowed are {', '.join(MODEL_KEYS)}. It is not used."
        return Problem(file.path, line, place, sentence)
    used = known.rule.check(value)
    if used is None:
        sentence = f"it must be {known.rule.allowed}{but_is(value, known.rule.allowed)}; it is not used."
        return Problem(file.path, line, place, sentence)
    return replace(before, **{key: used})


def _price(raw: object) -> int | None:
    """Micro-units from dollars, exact: a TOML float is taken by its digits."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    try:
        dollars = Decimal(str(raw))
    except InvalidOperation:
        return None
    return round(dollars * 1_000_000) if dollars.is_finite() and 0 <= dollars <= _MOST_DOLLARS else None


def _levels(raw: object) -> tuple[str, ...] | None:
    levels = cast("list[object]", raw) if isinstance(raw, list) else [None]
    known = all(isinstance(level, str) and level in _LEVELS for level in levels)
    return tuple(level for level in _LEVELS if level in levels) if known else None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(str(item) for item in cast("list[object]", value)) if isinstance(value, list) else str(value)


_TOKENS = Rule(
    f"a whole number from 1 to {_MOST_TOKENS:,}", number(1, _MOST_TOKENS).check, int, bounds=(1, _MOST_TOKENS)
)
_PRICE = Rule("a number of US dollars from 0 on", _price, float | str)

MODEL_KEYS: Mapping[str, ModelKey] = {
    "context_window": ModelKey("Tokens that a request and its answer may have together.", _TOKENS),
    "max_output_tokens": ModelKey("Tokens that the model can write at most.", _TOKENS),
    "tools": ModelKey("Whether it has native tool calls; without, it writes them as text.", YES_OR_NO),
    "images": ModelKey("Whether it sees images.", YES_OR_NO),
    "thinking": ModelKey(
        "How much it can be asked to think; empty: not at all.",
        Rule("a list of off, low, medium, high, max", _levels, list[Literal[_LEVELS]]),
    ),
    "thinking_level": ModelKey(
        "How much it thinks in new sessions, instead of `thinking` outside this table.", choice("auto", *_LEVELS)
    ),
    "input_price": ModelKey("US dollars a million tokens of the prompt.", _PRICE),
    "output_price": ModelKey("US dollars a million tokens of the answer.", _PRICE),
    "cached_price": ModelKey("The same for tokens from the cache; `input_price` without.", _PRICE),
    "cache_write_price": ModelKey("The same for tokens written to the cache; `input_price` without.", _PRICE),
}
"""The keys of a table, in the order in which they are described."""
