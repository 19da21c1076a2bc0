"""Days in a text: those that it names, and the mark of the day on which a fact was last found true.

Owns: which words name a day, a week, a month, a season or a year, and the days those are; the mark, and which lines are
stale. Must not know: scores, SQL, where the text is stored. All days that words name are those of one time zone, that
of the user. A month or a day of a month without a year is every year's: of a question asked today, the evidence may be
years old. The mark says how to find out again; it is part of the text, so it is merged and exported with it:

    - the staging server is staging-2 (checked 2026-11-27: `ssh staging-2 true`)

A stale line is shown as such and never dropped.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo

from msgspec import Struct

from pattern_acp.domain.late_pattern import late_pattern

YEARS_BACK = 10
"""Years that a month without a year may be of, newest first."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_SEASONS: Mapping[str, tuple[int, int]] = {
    "spring": (3, 3), "summer": (6, 3), "autumn": (9, 3), "fall": (9, 3), "winter": (12, 3),
}  # fmt: skip
"""The first month of each and how many there are."""

_NUMBERS: Mapping[str, int] = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "couple of": 2, "a couple of": 2, "few": 3, "a few": 3, "several": 4,
}  # fmt: skip

_MONTH = "(?:" + "|".join(f"{name[:3]}(?:{name[3:]})?" if len(name) > 3 else name for name in _MONTHS) + "|sept)"
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_WEEKDAY = "(?:" + "|".join(_WEEKDAYS) + ")"
_SEASON = "(?:" + "|".join(_SEASONS) + ")"
_NUMBER = r"(?:\d{1,3}|" + "|".join(sorted(_NUMBERS, key=len, reverse=True)).replace(" ", r"\s+") + ")"
_YEAR = r"(?:19|20)\d{2}"
_DATED = late_pattern(
    rf"""
    (?<![\w.-])(?:
      (?P<iso>\d{{4}}-\d{{2}}-\d{{2}})(?![\w-])
    | (?P<iso_month>\d{{4}}-\d{{2}})(?![\w-])
    | (?P<d1>{_DAY})\s+(?:of\s+)?(?P<m1>{_MONTH})\b\.?(?:,?\s+(?P<y1>\d{{4}})\b)?
    | (?P<m2>{_MONTH})\.?\s+(?P<d2>{_DAY})\b(?!:)(?:,?\s+(?P<y2>\d{{4}})\b)?
    | (?P<m3>{_MONTH})\.?,?\s+(?:of\s+)?(?P<y3>\d{{4}})\b
    | (?P<how>last|this|next|in|since|during|until|by|of|early|late|mid|before|after)\s+(?P<m4>{_MONTH})\b(?!\s+\d)
    | (?P<season_how>last|this|next|in|in\s+the|during\s+the|of)\s+(?P<season>{_SEASON})\b
      (?:\s+(?:of\s+)?(?P<y4>\d{{4}})\b)?
    | (?P<season2>{_SEASON})\s+(?:of\s+)?(?P<y5>\d{{4}})\b
    | (?:in|of|since|during|year)\s+(?P<y6>{_YEAR})\b(?!-)
    | (?P<beforehand>the\s+day\s+before\s+yesterday)\b
    | (?P<yesterday>yesterday|last\s+night)\b
    | (?P<today>today|tonight|this\s+(?:morning|afternoon|evening))\b
    | (?P<tomorrow>tomorrow)\b
    | (?P<count>{_NUMBER})\s+(?P<unit>day|week|weekend|month|year)s?\s+(?:ago|back)\b
    | (?P<which>last|this|next|past)\s+(?P<span>week|weekend|month|year)\b
    | (?P<day_how>last|this|next|on|this\s+past|since)\s+(?P<weekday>{_WEEKDAY})\b
    )
    """,
    flags=re.VERBOSE,
)
_FEBRUARY = 2


class Days(Struct, frozen=True, order=True):
    """Days from one to another, both included."""

    first: date
    last: date

    @property
    def count(self) -> int:
        """Number of days."""
        return (self.last - self.first).days + 1

    def overlaps(self, other: "Days") -> bool:
        """True when a day is in both."""
        return self.first <= other.last and other.first <= self.last

    def bounds(self, zone: tzinfo | None) -> tuple[int, int]:
        """The first and the last millisecond in a zone; that of the machine where it is None."""
        ends = (self.first, self.last + timedelta(days=1))
        first, last = (int(datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() * 1000) for day in ends)
        return first, last - 1


def local_bounds(day: date) -> tuple[int, int]:
    """The first and the last millisecond of a day in the machine's zone; in UTC where the machine knows no zone."""
    try:
        return Days(day, day).bounds(None)
    except (OverflowError, OSError, ValueError):
        # 9999-12-31, for never, has no day after it, and Windows knows no zone before 1970.
        first = (day - date(1970, 1, 1)) // timedelta(milliseconds=1)
        return first, first + 24 * 3_600_000 - 1


def day_at(at_ms: int, zone: tzinfo | None) -> date:
    """The day of a moment."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone).date()


def days_named(text: str, today: date) -> tuple[Days, ...]:
    """The days that a text of `today` names, in its order; what names a month of any year gives that of each year."""
    found: dict[Days, None] = {}
    for match in _DATED.finditer(text.lower()):
        try:
            found.update(dict.fromkeys(_days(match.groupdict(), today)))
        except (ValueError, OverflowError):
            continue  # The 31st of April, or a year that no calendar has.
    return tuple(found)


def names_days(text: str) -> bool:
    """True when something in a text names a day, a month or a year."""
    return _DATED.search(text.lower()) is not None


def without_days(text: str) -> str:
    """A text without the words that name days."""
    lowered = text.lower()
    if len(lowered) != len(text):
        return text
    kept = list(text)
    for match in _DATED.finditer(lowered):
        kept[match.start() : match.end()] = " " * (match.end() - match.start())
    return "".join(kept)


def _days(named: Mapping[str, str | None], today: date) -> Iterator[Days]:
    for group, read in _READERS.items():
        if named[group] is not None:
            yield from read({name: value or "" for name, value in named.items()}, today)
            return


def _one(day: date) -> Iterator[Days]:
    yield Days(day, day)


def _month(year: int, month: int, months: int = 1) -> Days:
    after = date(year + (month - 1 + months) // 12, (month - 1 + months) % 12 + 1, 1)
    return Days(date(year, month, 1), after - timedelta(days=1))


def _month_number(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, start=1) if month.startswith(name[:3]))


def _dated(day: str, month: str, year: str, today: date) -> Iterator[Days]:
    number, at = int("".join(filter(str.isdigit, day))), _month_number(month)
    years = [int(year)] if year else range(today.year + 1, today.year - YEARS_BACK, -1)
    for one in years:
        if (at, number) != (_FEBRUARY, 29) or year or one % 4 == 0:
            yield from _one(date(one, at, number))


def _month_of(how: str, month: str, year: str, today: date, months: int = 1) -> Iterator[Days]:
    at = _month_number(month) if month.isalpha() and len(month) > 2 else int(month)
    if year:
        yield _month(int(year), at, months)
    elif how in {"last", "this", "next"}:
        past = _month(today.year, at, months)
        if how == "last" and past.last >= today:
            past = _month(today.year - 1, at, months)
        elif how == "next" and past.first <= today:
            past = _month(today.year + 1, at, months)
        yield past
    else:
        for one in range(today.year + 1, today.year - YEARS_BACK, -1):
            yield _month(one, at, months)


def _season(how: str, season: str, year: str, today: date) -> Iterator[Days]:
    first, months = _SEASONS[season]
    yield from _month_of(how, str(first), year, today, months)


def _ago(named: Mapping[str, str], today: date) -> Iterator[Days]:
    count, unit = named["count"], named["unit"]
    number = int(count) if count.isdigit() else _NUMBERS.get(" ".join(count.split()), 2)
    if unit == "day":
        # “A few days” is no exact number.
        loose = 0 if count.isdigit() or (count in _NUMBERS and number < 3) else 1
        yield Days(today - timedelta(days=number + loose), today - timedelta(days=number - loose))
    elif unit in {"week", "weekend"}:
        middle = today - timedelta(weeks=number)
        yield Days(middle - timedelta(days=3), middle + timedelta(days=3))
    elif unit == "month":
        months = today.year * 12 + today.month - 1 - number
        yield _month(months // 12, months % 12 + 1)
    else:
        yield Days(date(today.year - number, 1, 1), date(today.year - number, 12, 31))


def _span(named: Mapping[str, str], today: date) -> Iterator[Days]:
    step = {"last": -1, "past": -1, "this": 0, "next": 1}[named["which"]]
    monday = today - timedelta(days=today.weekday())
    match named["span"]:
        case "week":
            first = monday + timedelta(weeks=step)
            yield Days(first, first + timedelta(days=6))
        case "weekend":
            saturday = monday + timedelta(days=5, weeks=step)
            # Said on a Sunday, the last one may be the one that ends.
            yield Days(saturday, saturday + timedelta(days=1))
        case "month":
            months = today.year * 12 + today.month - 1 + step
            yield _month(months // 12, months % 12 + 1)
        case _:
            yield Days(date(today.year + step, 1, 1), date(today.year + step, 12, 31))


def _weekday(named: Mapping[str, str], today: date) -> Iterator[Days]:
    ahead = (_WEEKDAYS.index(named["weekday"]) - today.weekday()) % 7
    if named["day_how"] == "next":
        yield from _one(today + timedelta(days=ahead or 7))
    elif named["day_how"] == "this" and ahead:
        yield from _one(today + timedelta(days=ahead))
    else:
        yield from _one(today - timedelta(days=(7 - ahead) % 7 or 7))


def _year(named: Mapping[str, str], today: date) -> Iterator[Days]:
    del today
    yield Days(date(int(named["y6"]), 1, 1), date(int(named["y6"]), 12, 31))


_READERS: Mapping[str, Callable[[Mapping[str, str], date], Iterator[Days]]] = {
    "iso": lambda named, _: _one(date.fromisoformat(named["iso"])),
    "iso_month": lambda named, _: iter((_month(int(named["iso_month"][:4]), int(named["iso_month"][5:])),)),
    "d1": lambda named, today: _dated(named["d1"], named["m1"], named["y1"], today),
    "d2": lambda named, today: _dated(named["d2"], named["m2"], named["y2"], today),
    "m3": lambda named, today: _month_of("", named["m3"], named["y3"], today),
    "m4": lambda named, today: _month_of(named["how"], named["m4"], "", today),
    "season": lambda named, today: _season(named["season_how"], named["season"], named["y4"], today),
    "season2": lambda named, today: _season("", named["season2"], named["y5"], today),
    "y6": _year,
    "beforehand": lambda _, today: _one(today - timedelta(days=2)),
    "yesterday": lambda _, today: _one(today - timedelta(days=1)),
    "today": lambda _, today: _one(today),
    "tomorrow": lambda _, today: _one(today + timedelta(days=1)),
    "count": _ago,
    "which": _span,
    "weekday": _weekday,
}


STALE_AFTER = timedelta(days=30)
"""The time for which a fact that is known to go out of date counts as fresh."""

PLAN_AFTER_DAYS = (7, 30)
"""Days without a change after which an open plan is said to be untouched, and then to need a look."""

HANDOFF_AFTER_DAYS = 14
"""Days after which a handoff is said to be old."""

_OPENING = "(checked "

_MARK = late_pattern(r"\s*\(checked (\d{4}-\d\d-\d\d)(?:: `([^`\n]+)`)?\)")


def marked(text: str, command: str, *, now_ms: int) -> str:
    """`text` with a mark of today behind its last line, instead of an older one.

    `command` is how to check it again; an empty one keeps that of an older mark.
    """
    lines = text.rstrip().split("\n")
    older = _MARK.search(lines[-1])
    check = command.replace("`", "'").strip() or (older[2] if older is not None and older[2] else "")
    bare = _MARK.sub("", lines[-1]).rstrip()
    lines[-1] = f"{bare} (checked {_day(now_ms).isoformat()}{f': `{check}`' if check else ''})"
    return "\n".join(lines)


def stale_lines(text: str, *, now_ms: int) -> tuple[str, ...]:
    """The lines whose mark is older than `STALE_AFTER`."""
    limit = _day(now_ms) - STALE_AFTER
    return tuple(
        line.strip() for line in text.split("\n") if (checked := _checked(line)) is not None and checked < limit
    )


def stale_sentence(text: str, *, now_ms: int) -> str:
    """Sentence that names the stale lines of a text; "" where all are fresh."""
    stale = stale_lines(text, now_ms=now_ms) if _OPENING in text else ()
    return f"Not checked for long, so find out whether it still holds: {'; '.join(stale)}" if stale else ""


def plan_age(updated_ms: int, *, now_ms: int) -> str:
    """Clause on a plan that nobody changed for long; "" for one that is fresh."""
    days, (some, many) = (now_ms - updated_ms) // _DAY_MS, PLAN_AFTER_DAYS
    if days < some:
        return ""
    return f"untouched for {days} days" + (", so ask the user whether it still matters" if days >= many else "")


def handoff_age(left_ms: int, *, now_ms: int) -> str:
    """Clause on a handoff that was left long ago; "" for one that is fresh."""
    days = (now_ms - left_ms) // _DAY_MS
    return f"{days} days old, so look whether it still holds" if days >= HANDOFF_AFTER_DAYS else ""


_DAY_MS = 24 * 60 * 60_000


def is_stale(verified_ms: int | None, *, now_ms: int) -> bool:
    """True when a fact that was last found true at `verified_ms` is stale; one that was never checked is not."""
    return verified_ms is not None and _day(verified_ms) < _day(now_ms) - STALE_AFTER


def _checked(line: str) -> date | None:
    match = _MARK.search(line) if _OPENING in line else None
    if match is None:
        return None
    try:
        return date.fromisoformat(match[1])
    except ValueError:
        return None


def _day(at_ms: int) -> date:
    """The day in the time zone of this machine, as users read it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone().date()
