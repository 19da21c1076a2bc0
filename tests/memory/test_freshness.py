"""Facts that go out of date."""

import subprocess
import sys

import pytest

from pattern_acp.memory.dates import is_stale, marked, stale_lines
from tests.support.process import agent_environment

NOVEMBER = 1_795_000_000_000  # 2026-11-18
DAY = 86_400_000


@pytest.mark.parametrize(
    ("text", "command", "after"),
    [
        ("port 80", "nc -z h 80", "port 80 (checked 2026-11-18: `nc -z h 80`)"),
        ("port 80", "", "port 80 (checked 2026-11-18)"),
        ("port 80 (checked 2020-01-01: `old`)", "", "port 80 (checked 2026-11-18: `old`)"),
        ("port 80 (checked 2020-01-01: `old`)", "new", "port 80 (checked 2026-11-18: `new`)"),
        ("one\ntwo\n", "a `b`", "one\ntwo (checked 2026-11-18: `a 'b'`)"),
    ],
)
def test_a_mark_says_when_and_how(text: str, command: str, after: str):
    assert marked(text, command, now_ms=NOVEMBER) == after


MARK = "from pattern_acp.memory.dates import marked; print(marked('port 80', '', now_ms=1_800_000_000_000))"


@pytest.mark.skipif(sys.platform == "win32", reason="TZ does not name zones there")
@pytest.mark.parametrize(("zone", "day"), [("UTC", "2027-01-15"), ("WST+9", "2027-01-14"), ("EST-17", "2027-01-16")])
def test_a_mark_has_the_day_of_the_users_zone(zone: str, day: str, tmp_path_factory: pytest.TempPathFactory):
    environment = {**agent_environment(tmp_path_factory.mktemp("home")), "TZ": zone}
    told = subprocess.run([sys.executable, "-c", MARK], env=environment, capture_output=True, text=True, check=True)
    assert told.stdout == f"port 80 (checked {day})\n"


def test_a_line_is_stale_a_month_after_it_was_checked():
    text = f"a\n- {marked('port 80', 'x', now_ms=NOVEMBER)}\nb (checked 9999-99-99)"
    assert stale_lines(text, now_ms=NOVEMBER + 30 * DAY) == ()
    assert stale_lines(text, now_ms=NOVEMBER + 31 * DAY) == ("- port 80 (checked 2026-11-18: `x`)",)


def test_a_fact_that_was_never_checked_is_not_stale():
    assert not is_stale(None, now_ms=NOVEMBER)
    assert not is_stale(NOVEMBER, now_ms=NOVEMBER + 30 * DAY)
    assert is_stale(NOVEMBER, now_ms=NOVEMBER + 31 * DAY)
