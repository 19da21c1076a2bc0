"""`pattern-acp usage`: tokens and money by day, model, project or session; as bars, lines, JSON or CSV."""

import csv
import io
import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, EXIT_OK, UsageWanted
from pattern_acp.cli.opening import refuse_if_lost
from pattern_acp.cli.output import OutputClosed, format_table, printable, write_failure, write_line
from pattern_acp.cli.tables import cells_of
from pattern_acp.db.connection import open_for_reading
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.usage import MICRO
from pattern_acp.journal.usage import UsedOnce, usage_since
from pattern_acp.session.usage_report import UsageSum, assumed_note, free_models, sum_up, total_of

if TYPE_CHECKING:
    from rich.console import Console

COLUMNS: tuple[str, ...] = (
    "key",
    "title",
    "requests",
    "input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "thinking_tokens",
    "cost_usd",
    "unpriced_requests",
    "estimated_requests",
    "prices",
)
"""Of CSV, and the keys of JSON. `cost_usd` is an exact decimal, empty where no price was known."""

COUNTS = ("Requests", "In", "Cached", "Out", "Thinking", "Cost")

BAR = 24
"""Cells of the longest bar, where there is room."""

LEAST_BAR = 6
"""Cells of the longest bar in a narrow terminal, where titles are cut instead."""


def run_usage(arguments: UsageWanted, process: Process) -> int:
    """Print the sums; 1 when the day is none.

    Raises:
        DatabaseError: the constellation is gone, or cannot be read.
    """
    now = SystemClock().now_ms()
    try:
        since = since_ms(arguments.since, now)
    except ValueError:
        write_failure("cli.usage", f"pattern-acp: {arguments.since} is no day of the calendar.")
        return EXIT_ERROR
    path = process.loaded.paths.constellation_path(process.loaded.settings.constellation)
    refuse_if_lost(path)
    used: Sequence[UsedOnce] = anyio.run(_read, path, since) if path.exists() else ()
    with suppress(OutputClosed):  # `head` has seen enough
        if arguments.form == "text" and used and sys.stdout.isatty():
            from rich.console import Console

            note = what_is_assumed(process, used)
            print_bars(sum_up(used, arguments.by), total_of(used), arguments.by, Console(), note=note)
        else:
            _print(arguments, sum_up(used, arguments.by), total_of(used))
    return EXIT_OK


def since_ms(since: str, now_ms: int) -> int:
    """The moment from which on requests count; a day begins at midnight of this machine's time zone.

    Raises:
        ValueError: there is no such day.
    """
    if not since:
        return 0
    if since.endswith("d"):
        today = datetime.fromtimestamp(now_ms / 1000, UTC).astimezone().date()
        # Days of the calendar: one of them has 23 hours, another one 25.
        day = today - timedelta(days=int(since[:-1]) - 1)
    else:
        day = date.fromisoformat(since)
    return int(datetime(day.year, day.month, day.day).astimezone().timestamp() * 1000)


async def _read(path: Path, since: int) -> Sequence[UsedOnce]:
    async with open_for_reading(path, clock=SystemClock()) as database:
        return await database.read(lambda tx: usage_since(tx, since))


def what_is_assumed(process: Process, used: Sequence[UsedOnce]) -> str:
    """What to say of models that only count as free; empty where there are none."""
    return anyio.run(_assumed, process, used) if free_models(used) else ""


async def _assumed(process: Process, used: Sequence[UsedOnce]) -> str:
    # Late: nothing else here is about providers.
    from pattern_acp.bootstrap.constellation import open_providers

    async with open_providers(process) as providers:
        return assumed_note(used, lambda name: providers.resolve(name)[1])


def _print(arguments: UsageWanted, sums: Sequence[UsageSum], total: UsageSum) -> None:
    if arguments.form == "json":
        facts = {"by": arguments.by, "since": arguments.since, "sums": [*map(_facts, sums)], "total": _facts(total)}
        write_line(json.dumps(facts, indent=2))
    elif arguments.form == "csv":
        write_line(as_csv(sums))
    elif not sums:
        write_line("No model was asked yet." if not arguments.since else f"No model was asked since {arguments.since}.")
    else:
        rows = [_cells(one) for one in (*sums, total)]
        write_line(format_table((arguments.by.upper(), *map(str.upper, COUNTS)), rows))


def as_csv(sums: Sequence[UsageSum]) -> str:
    """A heading and one line a sum, without a last line end."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for one in sums:
        facts = _facts(one)
        writer.writerow({**facts, "cost_usd": facts["cost_usd"] or "", "prices": "; ".join(one.prices)})
    return text.getvalue().rstrip("\n")


def print_bars(sums: Sequence[UsageSum], total: UsageSum, by: str, console: "Console", *, note: str = "") -> None:
    """One line a sum with a bar: of money, or of tokens where nothing has a known price; `note` stands below."""
    from rich.table import Table
    from rich.text import Text

    is_money = any(one.micro_units for one in sums)
    sizes = [one.micro_units if is_money else one.usage.context_tokens for one in sums]
    full = "█" if (console.encoding or "").lower().startswith("utf") else "#"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(by.capitalize(), overflow="ellipsis", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=LEAST_BAR)
    for heading in COUNTS:
        table.add_column(heading, justify="right", no_wrap=True)
    longest = _bar_room((*map(_cells, sums), _cells(total)), console.width)
    for one, size in zip(sums, sizes, strict=True):
        name, *counts = _cells(one)
        length = max(round(longest * size / max(*sizes, 1)), 1 if size else 0)
        table.add_row(Text(printable(name)), Text(full * length, style="cyan"), *map(Text, counts))
    table.add_row(Text("Total", style="bold"), "", *(Text(count, style="bold") for count in _cells(total)[1:]))
    console.print(table)
    if total.prices:
        console.print(Text(f"\nPrices: {', '.join(total.prices)}.", style="dim"))
    if total.estimated:
        console.print(Text(total.estimate_note, style="yellow"))
    if total.unpriced:
        unknown = f"{total.unpriced:,} of {total.requests:,} requests have no known price and are not in the cost."
        console.print(Text(unknown, style="yellow"))
    if note:
        console.print(Text(note, style="yellow"))


def _bar_room(rows: Sequence[tuple[str, ...]], width: int) -> int:
    columns = tuple(zip(*rows, strict=True))
    names, counts = columns[0], columns[1:]
    taken = max(map(cells_of, names)) + 2 + 2
    taken += sum(max(len(head), *map(len, cells)) + 2 for head, cells in zip(COUNTS, counts, strict=True))
    return min(BAR, max(LEAST_BAR, width - taken))


def _cells(one: UsageSum) -> tuple[str, ...]:
    usage = one.usage
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    counts = (one.requests, read, usage.cache_read_tokens, usage.output_tokens, usage.thinking_tokens)
    return one.title, *(f"{count:,}" for count in counts), one.money or "unknown"


def _facts(one: UsageSum) -> dict[str, object]:
    usage = one.usage
    return {
        "key": one.key,
        "title": one.title,
        "requests": one.requests,
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "thinking_tokens": usage.thinking_tokens,
        "cost_usd": None if one.unpriced == one.requests and one.requests else f"{Decimal(one.micro_units) / MICRO:f}",
        "unpriced_requests": one.unpriced,
        "estimated_requests": one.estimated,
        "prices": list(one.prices),
    }
