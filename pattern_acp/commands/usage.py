"""Results of /usage, `pattern-acp usage` and /budget: requests summed up by day, model, project, session or subagent.

Owns: the sums, and the results that show them. Must not know: where they are shown, or which requests are summed up.
"""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import tzinfo
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.commands.document import Bars, Column, Paragraph, Part, Result, Table, columns
from pattern_acp.domain.clock import day_of
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import MICRO, Usage, amount_text
from pattern_acp.journal.usage import UsedOnce
from pattern_acp.providers.base import ModelInfo
from pattern_acp.providers.catalogue import is_assumed_free

Grouping: TypeAlias = Literal["day", "model", "project", "session", "subagent", "turn"]
"""The keys that sums are grouped by."""


COUNTS = tuple(Column(title, right=True) for title in ("Requests", "In", "Cached", "Out", "Thinking", "Cost"))

TURNS_SHOWN = 5


class UsageSum(Struct, frozen=True):
    """The sum of some requests."""

    key: str
    """The day, model, folder or id that it is of."""
    title: str
    """The name that the user knows; the key where there is no other."""
    requests: int
    usage: Usage
    micro_units: int
    """Millionths of a US dollar of the requests whose price was known."""
    unpriced: int
    """Requests whose price was not known."""
    prices: tuple[str, ...] = ()
    """The price tables that the cost was reckoned with."""
    estimated: int = 0
    """Requests that no provider counted: they were cut before, or it told nothing."""

    @property
    def money(self) -> str:
        """The cost in words; a plus says that some requests had no known price."""
        if self.unpriced == self.requests:
            return "" if self.requests else amount_text(0)
        return amount_text(self.micro_units) + ("+" if self.unpriced else "")

    @property
    def cells(self) -> tuple[str, ...]:
        """Its row under `COUNTS`."""
        usage = self.usage
        read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
        counts = (self.requests, read, usage.cache_read_tokens, usage.output_tokens, usage.thinking_tokens)
        return *(f"{count:,}" for count in counts), self.money or "unknown"

    @property
    def value(self) -> dict[str, object]:
        """Its row of CSV, and its JSON."""
        usage, cost = self.usage, None
        if self.unpriced != self.requests or not self.requests:
            cost = f"{Decimal(self.micro_units) / MICRO:f}"
        return {
            "key": self.key,
            "title": self.title,
            "requests": self.requests,
            "input_tokens": usage.input_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "output_tokens": usage.output_tokens,
            "thinking_tokens": usage.thinking_tokens,
            "cost_usd": cost,
            "unpriced_requests": self.unpriced,
            "estimated_requests": self.estimated,
            "prices": list(self.prices),
        }

    @property
    def estimate_note(self) -> str:
        """A note on requests without a count; empty where there are none."""
        if not self.estimated:
            return ""
        return f"{self.estimated:,} of {self.requests:,} requests were counted by nobody but us: estimated."


class UsageTotals(Result, frozen=True):
    """Sums over the whole constellation; `assumed` tells of models that only count as free."""

    by: str
    since: str
    sums: tuple[UsageSum, ...]
    total: UsageSum
    assumed: str = ""

    @property
    def document(self) -> Sequence[Part]:
        """Bars of money, or of tokens where nothing has a known price, and what is not in the sums."""
        if not self.sums:
            since = f"No model was asked since {self.since}." if self.since else "No model was asked yet."
            return (Paragraph(since),)
        is_money = any(one.micro_units for one in self.sums)
        sizes = tuple(one.micro_units if is_money else one.usage.context_tokens for one in self.sums)
        rows = tuple((one.title, *one.cells) for one in (*self.sums, self.total))
        total, notes = self.total, list[str]()
        if total.prices:
            notes.append(f"Prices: {', '.join(total.prices)}.")
        if total.estimated:
            notes.append(total.estimate_note)
        if total.unpriced:
            unknown = f"{total.unpriced:,} of {total.requests:,} requests have no known price and are not in the cost."
            notes.append(unknown)
        bars = Bars(Table((*columns(self.by.capitalize()), *COUNTS), rows), sizes)
        return (bars, *(Paragraph(note, "note") for note in (*notes, self.assumed) if note))

    @property
    def value(self) -> object:
        """The sums with exact money."""
        sums = [one.value for one in self.sums]
        return {"by": self.by, "since": self.since, "sums": sums, "total": self.total.value}

    @property
    def csv(self) -> str:
        """A heading and one line a sum, without a last line end."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.total.value, lineterminator="\n")
        writer.writeheader()
        for one in self.sums:
            facts = one.value
            writer.writerow({**facts, "cost_usd": facts["cost_usd"] or "", "prices": "; ".join(one.prices)})
        return text.getvalue().rstrip("\n")


class SessionUsage(Result, frozen=True):
    """The usage of a session, and of all sessions today; models and subagents where there are several."""

    turns: tuple[UsageSum, ...]
    session: UsageSum
    today: UsageSum
    models: tuple[UsageSum, ...]
    subagents: tuple[UsageSum, ...]
    notes: tuple[str, ...]

    @property
    def document(self) -> Sequence[Part]:
        """A table of each, and notes."""
        if not (self.session.requests or self.today.requests):
            return (Paragraph("No model was asked today, nor in this session before."),)
        count = len(self.turns)
        rows = [(f"Turn {number} of {count}", one) for number, one in enumerate(self.turns, 1)][-TURNS_SHOWN:]
        parts = [_counts("", [*rows, ("This session", self.session), ("Today, all sessions", self.today)])]
        if len(self.models) > 1:
            parts.append(_counts("Model", [(f"`{one.title}`", one) for one in self.models]))
        if len(self.subagents) > 1:
            parts.append(_counts("Subagent", [(one.title, one) for one in self.subagents]))
        return (*parts, *map(Paragraph, self.notes))

    @property
    def value(self) -> object:
        """The sums with exact money."""
        each = {"turns": self.turns, "models": self.models, "subagents": self.subagents}
        sums: dict[str, object] = {name: [one.value for one in found] for name, found in each.items()}
        return {**sums, "session": self.session.value, "today": self.today.value, "notes": self.notes}


def _counts(heading: str, rows: Sequence[tuple[str, UsageSum]]) -> Part:
    titles = (*columns(Column(heading, limit=200)), *COUNTS)
    return Table(titles, tuple((name, *one.cells) for name, one in rows))


def session_usage(
    own: Sequence[UsedOnce], today: Sequence[UsedOnce], info_of: Callable[[str], ModelInfo]
) -> SessionUsage:
    """The requests of a session, and those of all sessions today, summed up."""
    used = [*own, *today]
    session, day, whole = total_of(own), total_of(today), total_of(used)
    notes = [f"Prices: {', '.join(whole.prices)}."] if whole.prices else []
    if unknown := sorted({one.model or "models of before" for one in used if one.micro_units is None}):
        notes.append(f"No price is known of {', '.join(unknown)}; what they cost is not in these sums.")
    if assumed := assumed_note(used, info_of):
        notes.append(assumed)
    sums = (("In this session", session), ("Today", day))
    notes += [f"{when}, {one.estimate_note}" for when, one in sums if one.estimated][:1]
    return SessionUsage(sum_up(own, "turn"), session, day, sum_up(own, "model"), sum_up(own, "subagent"), tuple(notes))


class BudgetRow(Struct, frozen=True):
    """A budget and what of it is used; None of a turn, which is counted on its own."""

    budget: str
    limit: str
    micro_units: int | None = None
    tokens: int | None = None


class Budgets(Result, frozen=True):
    """Budgets, and the amounts spent."""

    budgets: tuple[BudgetRow, ...]
    form: str

    @property
    def document(self) -> Sequence[Part]:
        """A table, and how to set one."""
        rows = tuple(
            (
                one.budget,
                one.limit,
                "" if one.micro_units is None else amount_text(one.micro_units),
                "" if one.tokens is None else f"{one.tokens:,}",
            )
            for one in self.budgets
        )
        numbers = (Column(title, right=True) for title in ("Money used", "Tokens used"))
        return Table((*columns("Budget", "Limit"), *numbers), rows), Paragraph(f"Set one with {self.form}.")


class BudgetSet(Result, frozen=True):
    """A budget that was set; `elsewhere` says where one for all sessions is."""

    budget: str
    limit: str
    elsewhere: bool

    @property
    def document(self) -> Sequence[Part]:
        """A sentence."""
        where = f" It holds in this session; `[budget] {self.budget}` in config.toml is for all."
        return (Paragraph(f"The budget of the {self.budget} is now {self.limit}.{where if self.elsewhere else ''}"),)


def assumed_note(used: Iterable[UsedOnce], info_of: Callable[[str], ModelInfo]) -> str:
    """Describe the models that only count as free; empty where there are none. `info_of` raises `ProviderError`."""
    free: list[str] = []
    for name in free_models(used):
        # A provider may have been taken out of the settings since.
        with suppress(ProviderError):
            free += [name] if is_assumed_free(info_of(name)) else []
    if not free:
        return ""
    count = "counts as free, which is assumed, since its server is"
    if len(free) > 1:
        count = "count as free, which is assumed, since their servers are"
    return (
        f"{', '.join(free)} {count} on this machine. "
        'If that is a gateway to others, give its prices under `[models."PROVIDER/MODEL"]` in config.toml.'
    )


def free_models(used: Iterable[UsedOnce]) -> list[str]:
    """The models that were asked for nothing, by name."""
    return sorted({one.model for one in used if one.model and one.micro_units == 0})


def sum_up(used: Iterable[UsedOnce], by: Grouping, zone: tzinfo | None = None) -> tuple[UsageSum, ...]:
    """One sum for each day and so on: days and turns in their order, anything else the most expensive first.

    Days are those of `zone`, the machine's own unless one is passed.
    """
    groups: dict[str, list[UsedOnce]] = {}
    name = _names(zone)[by]
    for one in used:
        groups.setdefault(name(one), []).append(one)
    sums = [_sum(key, _title(by, key, group), group) for key, group in groups.items()]
    if by not in ("day", "turn"):
        sums.sort(key=lambda one: (-one.micro_units, -one.usage.context_tokens, one.key))
    return tuple(sums)


def total_of(used: Sequence[UsedOnce]) -> UsageSum:
    """The sum of all."""
    return _sum("total", "Total", used)


def _names(zone: tzinfo | None) -> dict[Grouping, Callable[[UsedOnce], str]]:
    return {
        "day": lambda one: day_of(one.at_ms, zone),
        "model": lambda one: one.model or "unknown",
        "project": lambda one: one.cwd,
        "session": lambda one: one.session_id,
        "subagent": lambda one: one.subagent,
        "turn": lambda one: one.turn_id,
    }


def _title(by: Grouping, key: str, group: Sequence[UsedOnce]) -> str:
    if by == "session":
        return group[-1].title or "Untitled"
    return key or "the session itself" if by == "subagent" else key


def _sum(key: str, title: str, used: Sequence[UsedOnce]) -> UsageSum:
    usage = Usage()
    for one in used:
        usage += one.usage
    known = [one.micro_units for one in used if one.micro_units is not None]
    prices = sorted({one.prices for one in used if one.prices})
    estimated = sum(one.estimated for one in used)
    return UsageSum(key, title, len(used), usage, sum(known), len(used) - len(known), tuple(prices), estimated)
