"""/recall: the person's search of memory and past sessions.

Owns: how what is looked for is typed, and how results look. Must not know: how things are found.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pattern_acp.domain.clock import local_minute
from pattern_acp.memory.filters import ALL_KINDS
from pattern_acp.session.errors import CommandMisusedError
from pattern_acp.tools.base import NO_GOOD_MATCH, MemoryHit, MemoryNarrowing
from pattern_acp.tools.memory_search import repeats, without_repeats
from pattern_acp.tools.narrowing import SCOPES, first_ms, narrowing_of
from pattern_acp.tools.text_limits import one_line

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

RECALL_LIMIT = 8
"""Results that are shown."""

RECALLED_FROM = 40
"""Results that are looked at, since the same thing may have been said many times."""

USE = "/recall [--kind KIND] [--scope SCOPE] [--since DAY] [--until DAY] QUERY"


async def run_recall(session: "Session", argument: str) -> str:
    """Search memory and past messages."""
    query, narrowing = read_recall(argument)
    if not query:
        raise CommandMisusedError(f"Say what to look for: {USE}.")
    # Isolation keeps the persona's memory from the agent of a project, never from the person.
    found = await session.person_memory.search(query, RECALLED_FROM, narrowing)
    hits = without_repeats(found)[:RECALL_LIMIT]
    session.memory.recalled([hit.entry for hit in hits])
    if not hits:
        narrowed = " with these limits" if narrowing != MemoryNarrowing() else ""
        return f"Nothing in memory or past sessions matches “{query}”{narrowed}."
    lines = "\n".join(_hit_line(hit) for hit in hits)
    return f"{NO_GOOD_MATCH}\n\n{lines}" if any(hit.is_guess for hit in hits) else lines


def read_recall(argument: str) -> tuple[str, MemoryNarrowing]:
    """What is looked for, and what it is limited to: the options that stand in front of it.

    Raises:
        CommandMisusedError: an option has no value, or one that there is not.
    """
    kinds: list[str] = []
    given: dict[str, str] = {}
    rest = argument
    while True:
        head, _, behind = rest.partition(" ")
        name, has_value, value = head.partition("=")
        check = _CHECKS.get(name)
        if check is None:
            # Whatever else begins with dashes is looked for.
            return (behind if head == "--" else rest).strip(), narrowing_of(tuple(kinds), **given)
        if not has_value:
            value, _, behind = behind.lstrip().partition(" ")
        takes = check(value)
        if takes:
            raise CommandMisusedError(f"/recall {name} takes {takes}.")
        if name == "--kind":
            kinds.append(value)
        else:
            given[name.removeprefix("--")] = value
        rest = behind.lstrip()


def _one_of(names: tuple[str, ...]) -> Callable[[str], str]:
    return lambda value: "" if value in names else f"one of {', '.join(names)}"


def _day(value: str) -> str:
    try:
        first_ms(value)
    except ValueError:
        return "a day, such as 2026-11-28"
    return ""


_CHECKS = {"--kind": _one_of(ALL_KINDS), "--scope": _one_of(SCOPES), "--since": _day, "--until": _day}


def _hit_line(hit: MemoryHit) -> str:
    why = f" *({hit.why})*" if hit.why else ""
    return f"- **{hit.place or hit.source}**{repeats(hit)} ({local_minute(hit.at_ms)}): {one_line(hit.text)}{why}"
