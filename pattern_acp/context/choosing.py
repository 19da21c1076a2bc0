"""What leaves the context first.

Owns: the four strategies, and what none of them may touch. Must not know: sessions, or how a summary is written. Pure.

A unit is what leaves as one: a message of the person's side, or an answer together with the results of its calls, so
that no call is ever without its result. Never touched: the person's last prompt with what was told beside it, what they
pinned, and the newest answer of a turn that still runs.
"""

from collections.abc import Callable, Sequence, Set

from msgspec import Struct, field

from pattern_acp.config.settings import CompactionStrategy
from pattern_acp.context.compacted import is_gap, is_note, is_summary
from pattern_acp.domain.ids import MessageId, ToolCallId
from pattern_acp.domain.messages import Message, Role, ToolResultPart

LONG_RESULT_CHARACTERS = 4_000
"""A result longer than this is shortened before any message leaves; its ends mostly say what matters."""

SHORT_RESULT_CHARACTERS = 1_600
"""What stays of it."""

RESULTS_KEPT_WHOLE = 2
"""The newest answers with calls whose results stay whole as long as that is possible: they are being worked with."""

HALF_LIFE_TURNS = 8
"""`time_decay`: a unit counts half as much when so many turns are behind it."""

CHANGING_TOOLS = frozenset({"edit_file", "write_file", "apply_patch", "run_command", "memory_write", "update_plan"})
"""Calls whose doing is worth knowing later; what others found can be found again."""

TokensOf = Callable[[Sequence[Message]], int]


class Unit(Struct, frozen=True):
    """Messages that stay or leave together."""

    messages: tuple[Message, ...]
    tokens: int
    turn: int
    """The number of prompts up to it."""
    is_prompt: bool = False
    is_kept: bool = False

    @property
    def first(self) -> Message:
        """The message that names it."""
        return self.messages[0]


class Choice(Struct, frozen=True):
    """What is to leave."""

    removed: tuple[Unit, ...] = ()
    shortened: tuple[ToolCallId, ...] = ()
    freed: int = 0
    """Tokens, without what comes in their place."""

    @property
    def message_ids(self) -> tuple[MessageId, ...]:
        """The messages that leave, results apart, in their order."""
        return tuple(unit.first.message_id for unit in self.removed)


class Untouchable(Struct, frozen=True):
    """What must stay."""

    prompts: Set[MessageId] = field(default_factory=frozenset[MessageId])
    """The person's prompts; the last of them stays."""
    pinned: Set[MessageId] = field(default_factory=frozenset[MessageId])


def units_of(messages: Sequence[Message], rules: Untouchable, tokens_of: TokensOf) -> list[Unit]:
    """The conversation as units, in its order."""
    grouped: list[list[Message]] = []
    for message in messages:
        if message.role is Role.TOOL and grouped:
            grouped[-1].append(message)
        else:
            grouped.append([message])
    kept = _kept_places([group[0] for group in grouped], rules)
    units: list[Unit] = []
    turn = 0
    for place, group in enumerate(grouped):
        is_prompt = group[0].message_id in rules.prompts
        turn += is_prompt
        units.append(Unit(tuple(group), tokens_of(group), turn, is_prompt, place in kept))
    return units


def _kept_places(firsts: Sequence[Message], rules: Untouchable) -> set[int]:
    kept = {place for place, message in enumerate(firsts) if message.message_id in rules.pinned}
    users = [place for place, message in enumerate(firsts) if message.role is Role.USER]
    prompts = [place for place in users if firsts[place].message_id in rules.prompts]
    last = prompts[-1] if prompts else None
    if last is None:
        # Nobody knows which are prompts: every word of the person's side at the end counts as one.
        last = next((place for place in reversed(users) if not is_note(firsts[place])), None)
    if last is not None:
        kept.add(last)
        # What was told right before it belongs to it: memory, instructions, what hooks said.
        before = last - 1
        while before >= 0 and before in users and before not in prompts and not is_note(firsts[before]):
            kept.add(before)
            before -= 1
    answers = [place for place, message in enumerate(firsts) if message.role is Role.ASSISTANT]
    if answers and (last is None or answers[-1] > last):
        kept.add(answers[-1])
    return kept


def long_results(
    messages: Sequence[Message],
    free: int,
    tokens_of: TokensOf,
    *,
    longer_than: int = LONG_RESULT_CHARACTERS,
    to: int = SHORT_RESULT_CHARACTERS,
    keep_last: int = RESULTS_KEPT_WHOLE,
) -> Choice:
    """Results to shorten, the oldest first, until `free` tokens are gained; the newest are left alone."""
    holders = [message for message in messages if message.role is Role.TOOL]
    chosen: list[ToolCallId] = []
    freed = 0
    for message in holders[: len(holders) - keep_last] if keep_last else holders:
        for part in message.parts:
            if freed >= free:
                return Choice(shortened=tuple(chosen), freed=freed)
            if isinstance(part, ToolResultPart) and (len(part.text) > longer_than or part.images):
                tokens = tokens_of([Message(message.message_id, Role.TOOL, (part,))])
                kept = min(to / max(len(part.text), 1), 1.0)
                freed += round(tokens * (1 - kept))
                chosen.append(part.call_id)
    return Choice(shortened=tuple(chosen), freed=freed)


def choose(units: Sequence[Unit], free: int, strategy: CompactionStrategy, *, spare_notes: bool = True) -> Choice:
    """Units to remove so that `free` tokens are gained, or as many as there are.

    `truncate` and `summarise` take the oldest; `importance` what tells least; `time_decay` what tells least for its
    age. Summaries of before are spared unless a new one takes them in, or `spare_notes` is false. A note that something
    was left out goes only with something else, since another takes its place.
    """
    takes_notes = strategy == "summarise" or not spare_notes
    candidates = [
        place for place, unit in enumerate(units) if not unit.is_kept and (takes_notes or not is_summary(unit.first))
    ]
    if strategy in {"importance", "time_decay"}:
        candidates = _by_worth(units, candidates, decays=strategy == "time_decay")
    removed: list[int] = []
    gained = 0
    for place in candidates:
        if gained >= free:
            break
        removed.append(place)
        gained += 0 if is_gap(units[place].first) else units[place].tokens
    if not gained:
        return Choice()
    return Choice(tuple(units[place] for place in sorted(removed)), freed=sum(units[place].tokens for place in removed))


def _by_worth(units: Sequence[Unit], candidates: Sequence[int], *, decays: bool) -> list[int]:
    now = max((unit.turn for unit in units), default=0)

    def worth(place: int) -> tuple[bool, float, int]:
        unit = units[place]
        age = 0.5 ** ((now - unit.turn) / HALF_LIFE_TURNS) if decays else 1.0
        # Prompts last, and oldest first: what the person asked for is worth most, and an answer without it is none.
        return (unit.is_prompt, weight(unit) * age, place)

    return sorted(candidates, key=worth)


def weight(unit: Unit) -> float:
    """How much a unit tells about what was done and decided, per token it takes."""
    first = unit.first
    if unit.is_prompt:
        tells = 8.0
    elif is_note(first):
        tells = 0.1
    elif first.role is Role.USER:
        tells = 0.5
    elif not first.tool_calls:
        tells = 4.0
    else:
        changes = any(call.name in CHANGING_TOOLS for call in first.tool_calls)
        tells = 2.0 if changes else 0.5
    # A hundred tokens that say it are better than a thousand, but not ten times as good.
    return tells / max(unit.tokens, 1) ** 0.5
