"""What models used and cost is summed up truly, whatever the requests."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.commands.usage import Grouping, sum_up, total_of
from pattern_acp.domain.clock import SessionId, TurnId, day_began_ms, day_of
from pattern_acp.domain.usage import Usage, amount_text
from pattern_acp.journal.usage import UsedOnce
from tests.support.process import agent_environment

COUNTS = st.integers(0, 10**9)
USED = st.builds(
    UsedOnce,
    at_ms=st.integers(0, 10**13),
    session_id=st.sampled_from([SessionId("s1"), SessionId("s2")]),
    turn_id=st.sampled_from([TurnId("t1"), TurnId("t2")]),
    subagent=st.sampled_from(["", "finder"]),
    model=st.sampled_from(["", "a/b", "c/d"]),
    usage=st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS),
    micro_units=st.none() | COUNTS,
    prices=st.sampled_from(["", "table 1"]),
    cwd=st.sampled_from(["/one", "/two"]),
    title=st.just("Title"),
)
GROUPINGS: list[Grouping] = ["day", "model", "project", "session", "subagent", "turn"]


@given(st.lists(USED, max_size=30), st.sampled_from(GROUPINGS))
def test_the_sums_add_up_to_the_total(used: list[UsedOnce], by: Grouping):
    sums, total = sum_up(used, by, UTC), total_of(used)
    assert sum(one.requests for one in sums) == total.requests == len(used)
    assert sum(one.micro_units for one in sums) == total.micro_units
    assert sum(one.unpriced for one in sums) == total.unpriced
    whole = Usage()
    for one in sums:
        whole += one.usage
    assert whole == total.usage


def used(micro_units: int | None = 5, **changes: object) -> UsedOnce:
    facts: dict[str, object] = {"model": "a/b", "at_ms": 0, **changes}
    return UsedOnce(
        int(str(facts["at_ms"])),
        SessionId("s"),
        TurnId("t"),
        "",
        str(facts["model"]),
        Usage(10),
        micro_units,
        "table 1",
        "/x",
        "",
    )


def test_a_sum_says_when_some_of_its_requests_have_no_known_price():
    assert total_of([used(2_500_000), used(None)]).money == "2.50 USD+"
    assert total_of([used(None)]).money == ""
    assert total_of([used(0)]).money == "0.0000 USD"
    assert total_of([]).money == "0.0000 USD"


def test_the_dearest_comes_first_and_days_in_their_order():
    day = 24 * 60 * 60 * 1000
    requests = [used(1, model="cheap"), used(9, model="dear", at_ms=day), used(None, model="unknown", at_ms=2 * day)]
    assert [one.key for one in sum_up(requests, "model")] == ["dear", "cheap", "unknown"]
    assert [one.key for one in sum_up(requests, "day", UTC)] == ["1970-01-01", "1970-01-02", "1970-01-03"]


def test_a_day_is_that_of_the_time_zone():
    late = int(datetime(2026, 11, 27, 23, 30, tzinfo=UTC).timestamp() * 1000)
    east = timezone(timedelta(hours=2))
    assert (day_of(late, UTC), day_of(late, east)) == ("2026-11-27", "2026-11-28")
    assert day_began_ms(late, east) == int(datetime(2026, 11, 27, 22, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.skipif(sys.platform == "win32", reason="TZ is POSIX")
def test_the_day_on_which_clocks_change_begins_at_its_midnight():
    code = "from pattern_acp.domain.clock import day_began_ms, day_of; import sys; at = int(sys.argv[1]);"
    code += "print(day_began_ms(at), day_of(day_began_ms(at)), day_of(day_began_ms(at) - 1))"
    noon = int(datetime(2026, 10, 25, 12, tzinfo=UTC).timestamp() * 1000)
    began = int(datetime(2026, 10, 24, 22, tzinfo=UTC).timestamp() * 1000)
    environment = {**agent_environment(), "TZ": "CET-1CEST,M3.5.0,M10.5.0/3"}
    command = [sys.executable, "-c", code, str(noon)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=50, env=environment)
    assert done.stdout.split() == [str(began), "2026-10-25", "2026-10-24"]


def test_money_is_exact_and_rounded_up():
    assert amount_text(1) == "0.0001 USD"
    assert amount_text(123_400) == "0.1234 USD"
    assert amount_text(1_234_567_890) == "1,234.57 USD"
