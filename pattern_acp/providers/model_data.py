"""Context windows and prices of a thousand models, from a file that comes with the program.

Owns: reading `model_data.json`, which scripts/model_data writes from genai-prices (docs/adr). Nothing is fetched. Must
not know: what else is known of models (catalogue.py), which is laid over it.
"""

import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

FILE = Path(__file__).parent / "model_data.json"


class ModelData(Struct, frozen=True):
    """What the file says of one model. Prices in micro-units a million tokens; `window` 0 where it is not known."""

    window: int
    input_price: int
    output_price: int
    cache_read_price: int
    cache_write_price: int
    long_prompt_tokens: int
    long_input_percent: int
    long_output_percent: int
    source: str
    """The table and its version."""


_Row: TypeAlias = tuple[list[str], str, int, int, int, int, int, int, int, int]
"""The names of a model, a pattern of more names or nothing, and the numbers of `ModelData` in their order."""


_DOT = "\0"
"""Stands for a dot that is one; a bare dot of a pattern is any letter."""

_PLAIN = str.maketrans("", "", f"-/:_@ {_DOT}")


class _File(msgspec.Struct, frozen=True):
    source: str
    providers: dict[str, list[_Row]]


def find_model(provider: str, model: str) -> ModelData | None:
    """What is known of a provider's model; a provider that we do not know is not guessed by its models' names."""
    return _find(provider, model.lower())


@cache
def _file() -> _File:
    return msgspec.json.decode(FILE.read_bytes(), type=_File)


@cache
def _by_name(provider: str) -> dict[str, _Row]:
    return {name: row for row in _file().providers.get(provider, ()) for name in row[0]}


@cache
def _find(provider: str, model: str) -> ModelData | None:
    # By its very name first, then by what may match: to compile all patterns of a vendor takes as long as its import.
    row = _by_name(provider).get(model)
    if row is None:
        rows = _file().providers.get(provider, [])
        row = next((row for row in rows if _may_match(row[1], model) and re.fullmatch(row[1], model)), None)
    return None if row is None else ModelData(*row[2:], source=_file().source)


def _may_match(pattern: str, name: str) -> bool:
    """Whether a pattern may match a name, as far as it can be told without compiling it: whether its words are there.

    Most patterns are words with anything before or behind them; one that is more may match any name.
    """
    plain = pattern.replace("\\-", "-").replace("\\.", _DOT)
    # A name with the day of its release, and nothing around it.
    plain = plain.replace("(?=.*?(?:^", "").replace("$)).*", "")
    plain = plain.replace("\\d{8}", ".*").replace("\\d{4}", ".*").replace("\\d{2}", ".*")
    ways = [way.split(".*") for way in plain.split("|")]
    letters = "".join(chain.from_iterable(ways)).translate(_PLAIN)
    if letters and not letters.isalnum():
        return True
    return bool(pattern) and any(all(word.replace(_DOT, ".") in name for word in way) for way in ways)
