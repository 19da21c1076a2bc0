"""`pattern-acp explain`: what a failure code means and what to do, without opening anything.

Owns: the registry of failures (failures.toml), and how a row is printed. Must not know: where failures come from.
"""

import tomllib
from contextlib import suppress
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from pathlib import Path

from msgspec import Struct

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Explain
from pattern_acp.cli.output import OutputClosed, write_failure, write_json
from pattern_acp.cli.rendering import show_parts
from pattern_acp.commands.document import Column, Heading, Paragraph, Part, Table, columns
from pattern_acp.domain.canonical import JsonObject

FILE = Path(__file__).with_name("failures.toml")

MOST_MATCHES = 5
"""Most codes that are offered instead of an unknown one."""


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
    """The stage at which it happens, in a word or two, such as `model request`."""
    fault: Fault
    is_final: bool
    meaning: str
    """The meaning, in one sentence."""
    remedy: str
    """The remedy, in one or two sentences."""


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


def run_explain(arguments: Explain) -> int:
    """Print one row, or all of them; 1 for a code that there is not, with the ones that may have been meant."""
    row = find_failure(arguments.code)
    with suppress(OutputClosed):
        if arguments.code and row is None:
            write_failure("cli.usage", f"pattern-acp: {_unknown(arguments.code)}")
            return EXIT_ERROR
        if not arguments.json:
            show_parts(_of_all() if row is None else _of_one(row), {}, pager=False)
            return EXIT_OK
        for one in failures().values() if row is None else (row,):
            write_json(facts(one))
    return EXIT_OK


def _of_one(row: FailureRow) -> tuple[Part, ...]:
    again = "no, not until something was changed" if row.is_final else "it may work"
    return (
        Heading(row.code),
        Paragraph(row.meaning),
        Paragraph(f"What to do: {row.remedy}"),
        Paragraph(f"Stage: {row.stage}. Whose fault: {row.fault}. Trying again: {again}.", "dim"),
    )


def _of_all() -> tuple[Part, ...]:
    heads = columns(Column("Code", "cyan"), "Fault", "Final", "Meaning")
    rows = ((one.code, one.fault.value, "yes" if one.is_final else "no", one.meaning) for one in failures().values())
    return (Table(heads, tuple(rows)),)


def facts(row: FailureRow) -> JsonObject:
    """One failure for a program."""
    return {
        "code": row.code,
        "stage": row.stage,
        "fault": row.fault.value,
        "final": row.is_final,
        "meaning": row.meaning,
        "remedy": row.remedy,
    }


def _unknown(code: str) -> str:
    similar = similar_codes(code)
    meant = f"did you mean {', '.join(similar)}?" if similar else "`pattern-acp explain` lists them all."
    return f"there is no failure code {code[:80]!r}; {meant}"
