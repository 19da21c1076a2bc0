"""`pattern-acp usage` prints sums of the whole constellation in every form."""

import csv
import io
import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.arguments import BadUsage
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.main import run_with
from pattern_acp.cli.rendering import lines_of
from pattern_acp.cli.usage import assumed_free, open_usage, since_ms
from pattern_acp.commands.parameters import TypedCommand, Value
from pattern_acp.commands.usage import UsageSum, UsageTotals, total_of
from pattern_acp.config.settings import Flags
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.usage import UsedOnce
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import record_session
from tests.support.process import agent_environment, typed
from tests.support.scripts import says


async def record(database: Path, folder: Path) -> None:
    model = ScriptedProvider(
        [
            [*says("One."), UsageKnown(Usage(100, 20, 30, 0, 5), Cost(1_500_000))],
            [*says("Two."), UsageKnown(Usage(7, 1))],
        ]
    )
    await record_session(database, folder, model, "First, and more", "Second")


def shown(totals: UsageTotals, width: int) -> list[str]:
    """The lines of a terminal."""
    return ["".join(text for text, _ in line).rstrip() for line in lines_of(totals.document, width)]


def used(model: str, micro_units: int) -> UsedOnce:
    return UsedOnce(0, SessionId("s"), TurnId("t"), "", model, Usage(1, 1), micro_units, "", "/p", "")


@pytest.fixture
def home(home: Process, tmp_path: Path) -> Process:
    anyio.run(record, home.loaded.paths.constellation_path("default"), tmp_path)
    return home


def test_json_has_exact_money_and_all_token_counts(home: Process, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("usage", "--by", "model", "--json"), home) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["by"] == "model"
    (model,) = printed["sums"]
    assert model["key"] == "scripted/test"
    assert (model["requests"], model["unpriced_requests"], model["cost_usd"]) == (2, 1, "1.5")
    assert (model["input_tokens"], model["cache_read_tokens"], model["output_tokens"]) == (107, 30, 21)
    assert printed["total"]["thinking_tokens"] == 5


@pytest.mark.parametrize("by", ["day", "model", "project", "session"])
def test_csv_is_read_back_by_a_reader_of_csv(home: Process, by: str, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("usage", "--by", by, "--csv"), home) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["requests"], row["cost_usd"]) == ("2", "1.5")


def test_a_pipe_gets_a_table_with_a_total(home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("usage", "--by", "session"), home) == 0
    heading, row, total, unpriced = capsys.readouterr().out.splitlines()
    assert heading.split() == ["SESSION", "REQUESTS", "IN", "CACHED", "OUT", "THINKING", "COST"]
    assert row.startswith("First, and more")
    assert total.split() == ["Total", "2", "137", "30", "21", "5", "1.50", "USD+"]
    assert unpriced == "1 of 2 requests have no known price and are not in the cost."


def test_nothing_used_is_said_and_a_day_that_is_none_is_refused(home: Process, capsys: pytest.CaptureFixture[str]):
    assert run_with(typed("usage", "--since", "2999-01-01"), home) == 0
    assert "No model was asked since 2999-01-01." in capsys.readouterr().out
    assert run_with(typed("usage", "--since", "2026-02-31"), home) == 1
    assert "no day of the calendar" in capsys.readouterr().err


def test_days_back_begin_at_midnight_and_today_is_one_of_them():
    now = datetime.now().astimezone().replace(hour=15, minute=5)
    first = datetime.fromtimestamp(since_ms("2d", int(now.timestamp() * 1000)) / 1000).astimezone()
    assert first.date() == (now - timedelta(days=1)).date()
    assert (first.hour, first.minute) == (0, 0)


@pytest.mark.skipif(sys.platform == "win32", reason="TZ is POSIX")
def test_days_back_are_days_of_the_calendar_also_when_one_of_them_has_23_hours():
    code = "from pattern_acp.cli.usage import since_ms; import sys; print(since_ms('2d', int(sys.argv[1])))"
    after_midnight = int(datetime(2027, 3, 28, 22, 30, tzinfo=UTC).timestamp() * 1000)
    began = int(datetime(2027, 3, 27, 23, tzinfo=UTC).timestamp() * 1000)
    environment = {**agent_environment(), "TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}
    command = [sys.executable, "-c", code, str(after_midnight)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=50, env=environment)
    assert done.stdout.split() == [str(began)]


def test_a_terminal_gets_bars_as_long_as_the_money():
    sums = (UsageSum("a", "a/dear", 2, Usage(10), 400, 0, ("table 1",)), UsageSum("b", "b/cheap", 1, Usage(99), 100, 0))
    lines = shown(UsageTotals("model", "", sums, UsageSum("total", "Total", 3, Usage(109), 500, 1, ("table 1",))), 120)
    bars = [sum(line.count(cell) for cell in "█#") for line in lines[1:3]]
    assert bars == [24, 6]
    assert lines[-2:] == ["Prices: table 1.", "1 of 3 requests have no known price and are not in the cost."]


def test_whoever_reads_json_waits_for_no_lookup_of_models(home: Process):
    async def looks(*words: str) -> bool:
        async with open_usage(typed("usage", *words), home) as (_, models):
            return models is not None

    assert not anyio.run(looks, "--json")
    assert anyio.run(looks)


def test_models_that_only_count_as_free_are_named_and_those_of_gone_providers_passed_over(tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    table = '[providers.lab]\nbase_url = "http://127.0.0.1:9/v1"\nmodels = ["llama"]\n'
    (home / "config.toml").write_text(table, encoding="utf-8")
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(home)})

    def note_of(*requests: UsedOnce) -> str:
        return anyio.run(assumed_free, process, requests)

    note = note_of(used("lab/llama", 0), used("gone/llama", 0), used("offline/offline", 0))
    assert note.startswith("lab/llama counts as free, which is assumed")
    assert note_of(used("lab/llama", 5), used("offline/offline", 0)) == ""
    both = note_of(used("lab/llama", 0), used("lab/other", 0))
    assert both.startswith("lab/llama, lab/other count as free, which is assumed, since their servers are on")
    totals = UsageTotals("day", "", (total_of([]),), total_of([]), note)
    assert note.replace("`", "") in shown(totals, 300)


@pytest.mark.parametrize("width", [60, 80, 100])
def test_bars_keep_their_proportion_in_a_narrow_terminal(width: int):
    usage = Usage(12_345_678, 1_234_567)
    sums = (UsageSum("a", "local/first", 2, usage, 400, 0), UsageSum("b", "local/second", 1, usage, 200, 0))
    lines = shown(UsageTotals("model", "", sums, UsageSum("total", "Total", 3, usage, 600, 0)), width)
    bars = [sum(line.count(cell) for cell in "█#") for line in lines[1:3]]
    assert bars[1] > 0
    assert abs(bars[0] - 2 * bars[1]) <= 1
    assert all(len(line) <= width for line in lines)


def test_the_command_line_is_understood_and_a_wrong_day_is_refused():
    wanted = parse_arguments(["usage", "--by", "project", "--since", "30d", "--csv"])
    values: dict[str, Value] = {"by": "project", "since": "30d", "json": False, "csv": True, "html": ""}
    assert wanted == TypedCommand("usage", "", values)
    assert isinstance(parse_arguments(["usage", "--since", "yesterday"]), BadUsage)
    assert isinstance(parse_arguments(["usage", "--json", "--csv"]), BadUsage)
