"""The registry of failures: what each code means, whose fault it is, and what helps.

Owns: reading failures.toml, and finding a row by its code or by what somebody typed for it. Must not know: who raises
what; an error carries its code (domain/errors.py), and this is read only when somebody asks what that means.
"""

import tomllib
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from pathlib import Path

from msgspec import Struct

FILE = Path(__file__).with_name("failures.toml")

MOST_MATCHES = 5
"""How many codes are offered in the place of one that is not known."""


class Fault(StrEnum):
    """Whose fault a failure is: who has to do something about it."""

    PERSON = "person"
    MODEL = "model"
    PROVIDER = "provider"
    EDITOR = "editor"
    TOOL = "tool"
    AGENT = "agent"
    ENVIRONMENT = "environment"


class FailureRow(Struct, frozen=True):
    """One failure. `is_final` says that the same again fails again, until something was changed."""

    code: str
    stage: str
    """Where it happens, in a word or two, such as `model request`."""
    fault: Fault
    is_final: bool
    meaning: str
    """What happened, in one sentence."""
    remedy: str
    """What to do, in one or two sentences."""


@cache
def failures() -> dict[str, FailureRow]:
    """Every failure by its code, in the order of the codes.

    Raises:
        KeyError, ValueError: failures.toml is not complete; a test keeps it so.
    """
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return {
        code: FailureRow(code, table["stage"], Fault(table["fault"]), table["final"], table["meaning"], table["remedy"])
        for code, table in tables.items()
    }


def find_failure(typed: str) -> FailureRow | None:
    """The failure of exactly this code, in whatever case and brackets it was copied."""
    return failures().get(_plain(typed))


def similar_codes(typed: str) -> tuple[str, ...]:
    """Codes that were perhaps meant: those that begin with `typed`, those that hold it, then those that are like it."""
    plain = _plain(typed)
    if not plain:
        return ()
    holding = sorted((code for code in failures() if plain in code), key=lambda code: not code.startswith(plain))
    # A code without its first word is compared too: `overlaoded` is like the second word of `provider.overloaded`.
    ends = {code.partition(".")[2]: code for code in failures()}
    alike = get_close_matches(plain, failures(), MOST_MATCHES)
    alike += [ends[end] for end in get_close_matches(plain, ends, MOST_MATCHES)]
    return tuple(dict.fromkeys([*holding, *alike]))[:MOST_MATCHES]


def _plain(typed: str) -> str:
    return typed.strip().strip("[]()`.").lower()
