"""`pattern-acp explain`: what a failure code means and what to do, without opening anything.

Owns: how a row of the registry is printed. Must not know: where failures come from.
"""

from contextlib import suppress

from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, Explain
from pattern_acp.cli.output import OutputClosed, write_failure, write_json, write_line, write_table
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.failures import FailureRow, failures, find_failure, similar_codes


def run_explain(arguments: Explain) -> int:
    """Print one row, or all of them; 1 for a code that there is not, with the ones that may have been meant."""
    with suppress(OutputClosed):
        if not arguments.code:
            _print_all(as_json=arguments.json)
            return EXIT_OK
        row = find_failure(arguments.code)
        if row is None:
            write_failure("cli.usage", f"pattern-acp: {_unknown(arguments.code)}")
            return EXIT_ERROR
        if arguments.json:
            write_json(facts(row))
        else:
            write_line(explained(row))
    return EXIT_OK


def explained(row: FailureRow) -> str:
    """One failure for a person."""
    again = "no, not until something was changed" if row.is_final else "it may work"
    return "\n".join(
        (
            f"{row.code}",
            f"  {row.meaning}",
            f"  What to do:   {row.remedy}",
            f"  Stage:        {row.stage}",
            f"  Whose fault:  {row.fault}",
            f"  Trying again: {again}",
        )
    )


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


def _print_all(*, as_json: bool) -> None:
    if as_json:
        for row in failures().values():
            write_json(facts(row))
        return
    cells = [(row.code, row.fault.value, "yes" if row.is_final else "no", row.meaning) for row in failures().values()]
    write_table(("CODE", "FAULT", "FINAL", "MEANING"), cells)


def _unknown(code: str) -> str:
    similar = similar_codes(code)
    meant = f"did you mean {', '.join(similar)}?" if similar else "`pattern-acp explain` lists them all."
    return f"there is no failure code {code[:80]!r}; {meant}"
