"""News for a persona that comes back to a project: headline, decisions, open threads.

Owns: when that is due, the words, and their budget. Must not know: how any of it is found. Pure.
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.context.recall_budget import TITLE_CHARACTERS, count_tokens, shortened_words
from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.untrusted_blocks import NOTHING, Section, harmless, untrusted_block

CATCH_UP_CALL = "memory_catch_up"
"""Name of the call that shows it; the cursor moves with its event (`session/projections.py`)."""

AWAY_MS = 3_600_000
"""Away for less than an hour is not away (issue 3, section 5)."""

CATCH_UP_TOKENS = 300
"""Most tokens of it: it says where to look, not what is there."""

_MARK_TOKENS = 15
"""Tokens of the mark around it."""

_CUT_TOKENS = 16
"""Reserved for the line that says how many there are."""

_LONGEST = 160
"""Characters of one title, reason or step."""


class WrittenDecision(Struct, frozen=True):
    """Something that was written into memory: where, by whom, and why."""

    label: str
    author: str
    reason: str


class OpenThread(Struct, frozen=True):
    """A session that did not come to its end: its title, and what is open."""

    title: str
    open: str


class LeftBehind(Struct, frozen=True):
    """A session as it was left: its title, its state, and clauses on what there is to continue with."""

    title: str
    at_ms: int
    state: str
    clauses: tuple[str, ...]


class Absence(Struct, frozen=True):
    """The events since the persona's last news. Times are milliseconds since 1970-01-01 UTC."""

    last_active_ms: int
    now_ms: int
    titles: tuple[str, ...] = ()
    decisions: tuple[WrittenDecision, ...] = ()
    threads: tuple[OpenThread, ...] = ()
    tasks: tuple[str, ...] = ()
    """Tasks that were changed, with their state, in words."""
    handoffs: tuple[LeftBehind, ...] = ()
    """Told whether it was away or not: the session that left one cannot continue on its own. Of a session that finished
    a moment ago, with nothing open, there is none."""


def is_away(last_active_ms: int, now_ms: int) -> bool:
    """Tell whether somebody who was last active then needs to catch up."""
    return now_ms - last_active_ms >= AWAY_MS


def catch_up(absence: Absence) -> Section:
    """Write the news for the model; empty when nothing happened, or it was not away. Marked as data (invariant 8).

    What has no space is counted.
    """
    away = is_away(absence.last_active_ms, absence.now_ms)
    if not absence.handoffs and not (
        away and (absence.titles or absence.decisions or absence.threads or absence.tasks)
    ):
        return NOTHING
    since = local_minute(absence.last_active_ms)
    lines = [_headline(absence)] if away else []
    lines += [line for one in absence.handoffs for line in _left_behind(one)]
    told = {one.title for one in absence.handoffs}
    lines += [f"- {one.label}, by {one.author}: {_short(one.reason)}" for one in absence.decisions]
    lines += [f"- {_short(one)}" for one in absence.tasks]
    lines += [f"- open: “{_short(one.title)}”, {_short(one.open)}" for one in absence.threads if one.title not in told]
    return untrusted_block("catch_up", *_within(lines, CATCH_UP_TOKENS - _MARK_TOKENS), since=since)


def title_of(absence: Absence) -> str:
    """The title of the tool call that shows it, which many clients show alone, so it says what happened."""
    if not is_away(absence.last_active_ms, absence.now_ms):
        return _title_of_handoffs(absence.handoffs)
    parts = [f"“{shortened_words(title, TITLE_CHARACTERS)}”" for title in absence.titles[:1]]
    if len(absence.titles) > 1:
        parts.append(f"{len(absence.titles) - 1} more")
    if absence.decisions:
        parts.append(
            "1 change of memory" if len(absence.decisions) == 1 else f"{len(absence.decisions)} changes of memory"
        )
    if absence.tasks:
        parts.append("1 task" if len(absence.tasks) == 1 else f"{len(absence.tasks)} tasks")
    if absence.threads:
        parts.append(f"{len(absence.threads)} left open")
    if not parts:
        return _title_of_handoffs(absence.handoffs)
    return f"Since {local_minute(absence.last_active_ms)}: {', '.join(parts)}"


def _title_of_handoffs(handoffs: Sequence[LeftBehind]) -> str:
    first = handoffs[0]
    left = "; ".join((first.state, *first.clauses[1:]))
    title = shortened_words(first.title, TITLE_CHARACTERS)
    more = f" (+{len(handoffs) - 1} more)" if len(handoffs) > 1 else ""
    return f"“{title}” before this: {shortened_words(left, TITLE_CHARACTERS)}{more}"


def _headline(absence: Absence) -> str:
    away = f"You were last at work here {_duration(absence.now_ms - absence.last_active_ms)} ago"
    titles = list(absence.titles)
    if not titles:
        return f"{away}."
    more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
    return f"{away}, in “{_short(titles[0])}”{more}."


def _left_behind(one: LeftBehind) -> list[str]:
    lines = [f"- “{_short(one.title)}” was left {local_minute(one.at_ms)}, {one.state}"]
    return [*lines, *(f"  {_short(clause)}" for clause in one.clauses)]


def _within(lines: Sequence[str], tokens: int) -> list[str]:
    """The first lines that have space, and how many of how many that is when it is not all."""
    if sum(map(_cost, lines)) <= tokens:
        return list(lines)
    tokens -= _CUT_TOKENS
    kept: list[str] = []
    for line in lines:
        tokens -= _cost(line)
        if tokens < 0:
            break
        kept.append(line)
    return [*kept, f"({len(kept)} of {len(lines)} lines; memory_search finds the rest.)"]


def _cost(line: str) -> int:
    return count_tokens(harmless(line) + "\n")


def _duration(passed_ms: int) -> str:
    hours = passed_ms // 3_600_000
    count, unit = (hours, "hour") if hours < 48 else (hours // 24, "day")
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 1] + "…"
