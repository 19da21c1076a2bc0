"""Counts of what a turn recalled and of the repeats it reported, as the journal has them.

Owns: the event, counting with it, counting again from all of them, and what forgetting takes out of them. Must not
know: who recalled, or what the counts are used for. The ids of the search index go with it when it is made again, so
the event names passages by their block or archival entry and a hash of their text.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import TurnId
from pattern_acp.journal.codec import decode, encode
from pattern_acp.journal.memory_events import CountedPassage, MemoryRecalled, NamedPassage, ShownRepeat
from pattern_acp.journal.reader import read_everywhere
from pattern_acp.journal.redact import PlannedRedaction, plan_redaction
from pattern_acp.journal.writer import append
from pattern_acp.memory.indexing import Name, count_recalls, entries_of, names_of
from pattern_acp.memory.write_validation import Pair, mark_told, restore_told

_THOUSANDTHS = 1_000


class Counting(Struct, frozen=True):
    """Counts for the end of a turn: recalls of each entry of the index, and the pairs that were reported."""

    recalled: Mapping[int, int]
    told: Sequence[Pair]
    left_out_meaning: bool = False
    """True when the embedder was too slow for what was recalled."""


def count(tx: Transaction, counting: Counting, *, stream: str, turn_id: TurnId | None, at_ms: int) -> None:
    """Count what a turn recalled and note the pairs it reported, with the event that says so.

    Only facts count; what is no fact, or gone meanwhile, is left out.
    """
    pairs = counting.told
    names = names_of(tx, {*counting.recalled, *(one for pair in pairs for one in (pair.entry, pair.other))})
    times: dict[Name, int] = {}
    for entry, added in counting.recalled.items():
        if entry in names:
            times[names[entry]] = times.get(names[entry], 0) + added
    recalled = tuple(CountedPassage(NamedPassage(*name), added) for name, added in times.items())
    told = tuple(_told(pair, names) for pair in pairs if {pair.entry, pair.other} <= names.keys())
    if not recalled and not told and not counting.left_out_meaning:
        return
    event = MemoryRecalled(turn_id, recalled, told, counting.left_out_meaning)
    seq = append(tx, stream, event, actor=Actor.SYSTEM, origin=Origin.MEMORY, at_ms=at_ms).seq
    count_recalls(tx, counting.recalled, at_ms=at_ms, seq=seq)
    mark_told(tx, pairs, seq=seq)


def count_again(tx: Transaction) -> None:
    """Count what all turns recalled, for an index that was made again and has no counts."""
    recorded = [(entry, entry.event) for entry in read_everywhere(tx, MemoryRecalled)]
    events = [(entry, event) for entry, event in recorded if isinstance(event, MemoryRecalled)]
    entries = entries_of(tx, {passage.source_id for _, event in events for passage in _passages(event)})
    for entry, event in events:
        found = ((entries.get(_name(one.passage)), one.times) for one in event.recalled)
        times = {number: added for number, added in found if number is not None}
        count_recalls(tx, times, at_ms=entry.at_ms, seq=entry.seq)
        for told in event.told:
            one, other = entries.get(_name(told.one)), entries.get(_name(told.other))
            if one is not None and other is not None and one != other:
                restore_told(tx, Pair(one, other, told.likeness / _THOUSANDTHS), seq=entry.seq)


def plan_uncounting(tx: Transaction, is_forgotten: Callable[[Name], bool]) -> tuple[PlannedRedaction, ...]:
    """Plan the redaction of these events: without the passages for which `is_forgotten` is true.

    A hash can be tried out as long as it is there, so that forgetting words takes those of their passages too.
    """
    form = encode(MemoryRecalled(None, ()))

    def without(_: str, payload: JsonObject) -> JsonObject:
        event = decode(form.kind, form.version, payload)
        if not isinstance(event, MemoryRecalled):
            return payload
        recalled = tuple(one for one in event.recalled if not is_forgotten(_name(one.passage)))
        told = tuple(one for one in event.told if not (is_forgotten(_name(one.one)) or is_forgotten(_name(one.other))))
        return encode(replace(event, recalled=recalled, told=told)).payload

    return plan_redaction(tx, [entry.seq for entry in read_everywhere(tx, MemoryRecalled)], without)


def _passages(event: MemoryRecalled) -> list[NamedPassage]:
    counted = [one.passage for one in event.recalled]
    return [*counted, *(passage for told in event.told for passage in (told.one, told.other))]


def _name(passage: NamedPassage) -> Name:
    return passage.source_id, passage.digest


def _told(pair: Pair, names: Mapping[int, Name]) -> ShownRepeat:
    one, other = (NamedPassage(*names[entry]) for entry in (pair.entry, pair.other))
    return ShownRepeat(one, other, round(pair.likeness * _THOUSANDTHS))
