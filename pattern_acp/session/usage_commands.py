"""/usage: what models used and cost.

Owns: what it takes and answers. Must not know: how sums are made (session/usage_report.py).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.usage import UsedOnce, usage_of_session, usage_since
from pattern_acp.session.usage_report import UsageSum, assumed_note, day_began_ms, sum_up, total_of

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

HEADINGS = "requests | in | from the cache | out | thinking | cost |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |"

TURNS_SHOWN = 5


async def run_usage(session: "Session", argument: str) -> str:
    """Sums of this session: its last turns, models and subagents; and of today, over all sessions."""
    if argument:
        raise CommandMisusedError("/usage takes nothing behind it; `pattern-acp usage` in a terminal has more.")
    shared = session.constellation
    since = day_began_ms(shared.clock.now_ms())
    own = await shared.database.read(lambda tx: usage_of_session(tx, session.session_id))
    today = await shared.database.read(lambda tx: usage_since(tx, since))
    if not own and not today:
        return "No model was asked today, nor in this session before."
    used = [*own, *today]
    assumed = assumed_note(used, lambda name: shared.models.resolve(name)[1])
    notes = [*_notes(used), *([assumed] if assumed else []), *_estimates(own, today)]
    return "\n\n".join([_table("", _rows(own, today)), *_parts(own), *notes])


def _rows(own: Sequence[UsedOnce], today: Sequence[UsedOnce]) -> list[tuple[str, UsageSum]]:
    turns = sum_up(own, "turn")
    rows = [(f"Turn {number} of {len(turns)}", one) for number, one in enumerate(turns, 1)][-TURNS_SHOWN:]
    return [*rows, ("This session", total_of(own)), ("Today, all sessions", total_of(today))]


def _parts(own: Sequence[UsedOnce]) -> list[str]:
    models, subagents = sum_up(own, "model"), sum_up(own, "subagent")
    tables: list[str] = []
    if len(models) > 1:
        tables.append(_table("Model", [(f"`{one.title}`", one) for one in models]))
    if len(subagents) > 1:
        tables.append(_table("Subagent", [(one.title, one) for one in subagents]))
    return tables


def _table(heading: str, rows: Sequence[tuple[str, UsageSum]]) -> str:
    return "\n".join([f"| {heading} | {HEADINGS}", *(_line(name, one) for name, one in rows)])


def _line(name: str, one: UsageSum) -> str:
    usage: Usage = one.usage
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    counts = (one.requests, read, usage.cache_read_tokens, usage.output_tokens, usage.thinking_tokens)
    name = name.replace("|", "\\|")
    return f"| {name} | {' | '.join(f'{count:,}' for count in counts)} | {one.money or 'unknown'} |"


def _estimates(own: Sequence[UsedOnce], today: Sequence[UsedOnce]) -> list[str]:
    sums = (("In this session", total_of(own)), ("Today", total_of(today)))
    return [f"{when}, {one.estimate_note}" for when, one in sums if one.estimated][:1]


def _notes(used: Sequence[UsedOnce]) -> list[str]:
    whole = total_of(used)
    notes = [f"Prices: {', '.join(whole.prices)}."] if whole.prices else []
    unknown = sorted({one.model or "models of before" for one in used if one.micro_units is None})
    if unknown:
        notes.append(f"No price is known of {', '.join(unknown)}; what they cost is not in these sums.")
    return notes
