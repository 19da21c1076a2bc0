"""Days that texts name."""

from datetime import UTC, date, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.dates import YEARS_BACK, Days, day_at, days_named, names_days, without_days

TODAY = date(2026, 11, 29)
"""A Sunday."""


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("What did we do yesterday?", "2026-11-28", "2026-11-28"),
        ("the day before yesterday", "2026-11-27", "2026-11-27"),
        ("sold this morning", "2026-11-29", "2026-11-29"),
        ("tomorrow", "2026-11-30", "2026-11-30"),
        ("last Tuesday", "2026-11-24", "2026-11-24"),
        ("on Sunday", "2026-11-22", "2026-11-22"),
        ("next Monday", "2026-11-30", "2026-11-30"),
        ("last week", "2026-11-16", "2026-11-22"),
        ("this week", "2026-11-23", "2026-11-29"),
        ("last weekend", "2026-11-21", "2026-11-22"),
        ("two days ago", "2026-11-27", "2026-11-27"),
        ("a few days ago", "2026-11-25", "2026-11-27"),
        ("3 weeks ago", "2026-11-05", "2026-11-11"),
        ("a month ago", "2026-10-01", "2026-10-31"),
        ("two years back", "2024-01-01", "2024-12-31"),
        ("last month", "2026-10-01", "2026-10-31"),
        ("next month", "2026-12-01", "2026-12-31"),
        ("last year", "2025-01-01", "2025-12-31"),
        ("last May", "2026-05-01", "2026-05-31"),
        ("last December", "2025-12-01", "2025-12-31"),
        ("on 7 March 2023", "2023-03-07", "2023-03-07"),
        ("March 7th, 2023", "2023-03-07", "2023-03-07"),
        ("the 7th of march 2023", "2023-03-07", "2023-03-07"),
        ("2023-03-07", "2023-03-07", "2023-03-07"),
        ("in 2023-03", "2023-03-01", "2023-03-31"),
        ("Sept 2024", "2024-09-01", "2024-09-30"),
        ("summer 2022", "2022-06-01", "2022-08-31"),
        ("winter of 2022", "2022-12-01", "2023-02-28"),
        ("in 2021", "2021-01-01", "2021-12-31"),
    ],
)
def test_words_name_days(text: str, first: str, last: str):
    assert days_named(text, TODAY) == (Days(date.fromisoformat(first), date.fromisoformat(last)),)


def test_a_month_without_a_year_is_each_years():
    found = days_named("What did we decide in May?", TODAY)
    assert Days(date(2026, 5, 1), date(2026, 5, 31)) in found
    assert Days(date(2023, 5, 1), date(2023, 5, 31)) in found
    assert len(found) == YEARS_BACK + 1


@pytest.mark.parametrize(
    "text",
    [
        "May I ask?",
        "we march on",
        "31 April",
        "version 3.2",
        "port 8080",
        "a second ago",
        "on it",
        "summer is fine",
        "",
    ],
)
def test_other_words_name_none(text: str):
    assert days_named(text, TODAY) == ()


def test_the_day_is_that_of_the_zone():
    just_before_midnight = 1_700_000_000_000 // 86_400_000 * 86_400_000 - 1
    here = day_at(just_before_midnight, UTC)
    assert day_at(just_before_midnight, timezone(timedelta(hours=9))) == here + timedelta(days=1)
    first, last = Days(here, here).bounds(UTC)
    assert (first, last) == (just_before_midnight - 86_400_000 + 1, just_before_midnight)


def test_what_names_days_can_be_left_out():
    assert without_days("ports on 7 March 2023 changed").split() == ["ports", "on", "changed"]


@given(st.text(max_size=80) | st.from_regex(r"(last|in|on|next) [a-z]{3,9} \d{1,4}", fullmatch=True))
def test_any_text_can_be_read(text: str):
    assert bool(days_named(text, TODAY)) <= names_days(text)
    assert all(days.first <= days.last for days in days_named(text, TODAY))
