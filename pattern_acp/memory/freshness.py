"""Facts that go out of date.

Owns: the mark that a line carries to say when it was last found true and how to find out again, and which lines are
stale. Must not know: where the text is stored. The mark is part of the text, so it is merged and exported with it:

    - the staging server is staging-2 (checked 2026-11-27: `ssh staging-2 true`)

A stale line is shown as such and never dropped.
"""

import re
from datetime import UTC, date, datetime, timedelta

STALE_AFTER = timedelta(days=30)
"""The time for which a fact that is known to go out of date counts as fresh."""

PLAN_AFTER_DAYS = (7, 30)
"""Days without a change after which an open plan is said to be untouched, and then to need a look."""

HANDOFF_AFTER_DAYS = 14
"""Days after which a handoff is said to be old."""

_OPENING = "(checked "

_MARK = re.compile(r"\s*\(checked (\d{4}-\d\d-\d\d)(?:: `([^`\n]+)`)?\)")


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
