"""`--html`: one page each for a session, the past of a block, and costs, which shows everything and runs nothing."""

import json
import os
import re
import stat
from contextlib import chdir
from pathlib import Path

import anyio
import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.command_runner import run_call
from pattern_acp.commands.memory_results import BlamedRow, WriteRow
from pattern_acp.commands.pages import MOST_DAYS, SERIES, block_page, usage_page
from pattern_acp.domain.clock import SessionId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.usage import UsedOnce
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import record_session
from tests.support.process import typed
from tests.support.scripts import says

EVIL = "</style></details><script>document.title='run'</script><img src=x onerror=alert(1)>{{ 7 * 7 }}"
DAY_MS = 86_400_000


async def record(database: Path, folder: Path) -> None:
    model = ScriptedProvider([[*says(f"Said {EVIL}"), UsageKnown(Usage(100, 20), Cost(1_500_000))]])
    prompts = (f"/remember project: {EVIL}", "/remember project: Prices are in cents.", f"Look at {EVIL}")
    await record_session(database, folder, model, *prompts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


@pytest.fixture
def recorded(home: Process, folder: Path) -> Process:
    anyio.run(record, home.loaded.paths.constellation_path("default"), folder)
    return home


def run(process: Process, folder: Path, *words: str) -> int:
    with chdir(folder):
        return run_call(typed(*words), process)


def runs_nothing(html: str) -> bool:
    tags = set(re.findall(r"<([a-z]+)", html))
    return not tags & {"script", "img", "iframe", "link", "object", "form"} and "default-src 'none'" in html


def test_a_session_is_one_page_whose_turns_fold(recorded: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(recorded, folder, "sessions", "list", "--json") == 0
    [session] = [one["id"] for one in json.loads(capsys.readouterr().out)]
    assert run(recorded, folder, "sessions", "show", session, "--html") == 0
    path = folder / f"session-{session[:12]}.html"
    assert str(path) in capsys.readouterr().out
    html = path.read_text(encoding="utf-8")
    assert runs_nothing(html)
    assert html.count('<details class="turn" open>') == 3
    assert "{{ 7 * 7 }}" in html
    assert "&lt;script&gt;" in html
    assert os.name == "nt" or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_past_of_a_block_shows_each_write_and_who_wrote_each_line(recorded: Process, folder: Path):
    assert run(recorded, folder, "memory", "history", "project", "--html", "past.html") == 0
    html = (folder / "past.html").read_text(encoding="utf-8")
    assert runs_nothing(html)
    assert [f'id="write-{number}"' in html for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert '<span class="add">+Prices are in cents.</span>' in html
    colours = re.findall(r'<tr style="--by: (hsl\([^)]*\))">', html)
    assert len(set(colours)) == 2
    assert all(f'style="--by: {colour}"><span class="mark">' in html for colour in colours)


def test_costs_are_a_chart_by_day_and_model(recorded: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run(recorded, folder, "usage", "--html", "costs.html", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(folder / "costs.html")}
    html = (folder / "costs.html").read_text(encoding="utf-8")
    assert runs_nothing(html)
    assert html.count("<rect ") == 1
    assert re.search(r"<title>[\d-]{10}, [\w/]+: 1.50 USD</title>", html)


def test_a_page_replaces_a_page_and_nothing_else(recorded: Process, folder: Path):
    assert run(recorded, folder, "usage", "--html") == 0
    assert run(recorded, folder, "usage", "--html") == 0
    (folder / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(PatternError, match=r"is no page of ours; name another file\.$"):
        run(recorded, folder, "usage", "--html", "mine.txt")
    with pytest.raises(PatternError, match="cannot be written"):
        run(recorded, folder, "usage", "--html", "missing/page.html")
    assert (folder / "mine.txt").read_text(encoding="utf-8") == "mine"


def used(day: int, model: str, micro_units: int | None, tokens: int = 10) -> UsedOnce:
    usage = Usage(tokens)
    return UsedOnce(day * DAY_MS, SessionId("s"), TurnId("t"), "", model, usage, micro_units, "", "/p", "")


def test_a_chart_shows_tokens_where_nothing_has_a_price_and_the_newest_days_of_many():
    html = usage_page([used(day, "a/b", None, 2_000_000) for day in range(MOST_DAYS + 5)], "30d", ("Assumed.",)).html
    assert "Tokens by day and model" in html
    assert "2.0 M tokens" in html
    assert html.count("<rect ") == MOST_DAYS
    assert "Assumed." in html
    assert "No model was asked yet." in usage_page([], "", ()).html


def test_models_beyond_the_last_colour_share_it_and_names_are_escaped():
    names = [f"x/{number}" for number in range(len(SERIES) + 2)] + [EVIL]
    html = usage_page([used(1, name, 100 - at) for at, name in enumerate(names)], "", ()).html
    assert runs_nothing(html)
    assert html.count(f'fill="{SERIES[-1]}"') == 4


def test_a_write_whose_words_were_forgotten_says_so():
    row = WriteRow(2, 0, "human", "person", "append", EVIL, 7, "ses_1", EVIL, None, 3, 1, 0)
    first = WriteRow(1, 0, "system", "workspace", "create", "", 1, "ses_1", "", None, 3, None, None)
    html = block_page(f"a/{EVIL}", [row, first], {2: None, 1: ""}, [BlamedRow(EVIL, row, 0)]).html
    assert runs_nothing(html)
    assert "Words of it were forgotten" in html
    assert "It changed no line." in html
    empty = block_page("a", [], {}, [])
    assert (empty.name, "The block is empty." in empty.html) == ("memory-a.html", True)
