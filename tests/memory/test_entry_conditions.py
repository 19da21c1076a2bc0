"""What a correction of a trap takes over, and what it changes."""

import subprocess
import sys

import pytest

from pattern_acp.memory.archive import NoteKind, NoteRule, Severity, end_of_day
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.archive import terms_of
from tests.support.process import agent_environment

UNTIL = end_of_day("2026-12-31")
OLD = NoteRule(NoteKind.TRAP, ("src/**",), Severity.HIGH, UNTIL)


def correction(until: str = "") -> MemoryEdit:
    return MemoryEdit("archive", "replace", "The pool hangs.", until=until)


def test_what_is_not_given_stays():
    assert terms_of(correction(), OLD) == OLD


@pytest.mark.parametrize(
    ("until", "kept"), [("", UNTIL), ("2027-01-01", end_of_day("2027-01-01")), ("never", None), (" Never ", None)]
)
def test_the_last_day_stays_changes_or_goes(until: str, kept: int | None):
    assert terms_of(correction(until=until), OLD) == NoteRule(NoteKind.TRAP, ("src/**",), Severity.HIGH, kept)


def test_a_day_that_is_none_is_refused_with_what_can_be_written():
    with pytest.raises(UnusableEditError, match="2026-12-31, or 2h, or never"):
        terms_of(correction(until="soon"), OLD)


ENDS = """
from pattern_acp.memory.archive import end_of_day, last_day
from pattern_acp.memory.service.search import narrowing_of
until = narrowing_of((), since="2026-12-31", until="2026-12-31")
print(end_of_day("2026-12-31"), until.since_ms, until.until_ms)
print(*(last_day(end_of_day(day)) for day in ("2026-12-31", "1969-12-31", "9999-12-31")))
"""
LAST_DAY_MS = 1_798_675_200_000
"""The beginning of 2026-12-31 in UTC."""


@pytest.mark.skipif(sys.platform == "win32", reason="TZ does not name zones there")
@pytest.mark.parametrize(("zone", "hours"), [("UTC", 0), ("WST+9", 9), ("EST-14", -14)])
def test_a_day_is_one_of_the_users_zone(zone: str, hours: int, tmp_path_factory: pytest.TempPathFactory):
    environment = {**agent_environment(tmp_path_factory.mktemp("home")), "TZ": zone}
    told = subprocess.run([sys.executable, "-c", ENDS], env=environment, capture_output=True, text=True, check=True)
    began = LAST_DAY_MS + hours * 3_600_000
    ended = began + 24 * 3_600_000
    assert told.stdout.splitlines() == [f"{ended} {began} {ended - 1}", "2026-12-31 1969-12-31 9999-12-31"]
