"""`pattern-acp usage`: tokens and money by day, model, project or session; as bars, a table, JSON or CSV."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_OK
from pattern_acp.cli.output import write_line
from pattern_acp.commands.document import Result
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.commands.usage import Grouping, UsageTotals, assumed_note, free_models, sum_up, total_of
from pattern_acp.db.connection import Database, open_for_reading
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.journal.usage import UsedOnce, usage_since


@asynccontextmanager
async def open_usage(call: TypedCommand, process: Process) -> AsyncGenerator[tuple[Database, Process | None], None]:
    """The constellation, and the settings that name the models, which a program that reads JSON is not told of."""
    async with open_for_reading(process.constellation_path, clock=SystemClock()) as database:
        yield database, None if call.json else process


def without_constellation(call: TypedCommand) -> UsageTotals:
    """The sums as long as nothing was recorded."""
    return UsageTotals(_grouping(str(call.values["by"])), str(call.values["since"]), (), total_of(()))


async def sum_usage(
    desk: tuple[Database, Process | None], by: str, since: str, *, csv: bool, html: str = ""
) -> Result | int:
    """Sum up what all sessions used; as a page, by day and by model. Raises PatternError where there is no such day."""
    database, process = desk
    try:
        begins = since_ms(since, SystemClock().now_ms())
    except ValueError as error:
        raise PatternError(f"{since} is no day of the calendar.", failure_code="cli.usage") from error
    used = await database.read(lambda tx: usage_since(tx, begins))
    grouping = _grouping(by)
    assumed = "" if csv or process is None else await assumed_free(process, used)
    if html:
        from pattern_acp.commands.pages import usage_page

        return usage_page(used, since, (assumed,))
    totals = UsageTotals(grouping, since, sum_up(used, grouping), total_of(used), assumed)
    if not csv:
        return totals
    write_line(totals.csv)
    return EXIT_OK


def _grouping(by: str) -> Grouping:
    named: dict[str, Grouping] = {"model": "model", "project": "project", "session": "session"}
    return named.get(by, "day")


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


async def assumed_free(process: Process, used: Sequence[UsedOnce]) -> str:
    """Describe the models that only count as free; empty where there are none."""
    if not free_models(used):
        return ""
    # Late: nothing else here is about providers.
    from pattern_acp.bootstrap.constellation import open_providers

    async with open_providers(process) as providers:
        return assumed_note(used, lambda name: providers.resolve(name)[1])
