"""Turns of conversations: what is beside them, and what they say on their own.

Owns: how messages of one session are put in order, how much of a query their neighbourhood has, and how much a turn
says whatever it is asked. Must not know: SQL, vectors, facts.

The answer often is beside the words of the question: “them” refers to the turn before, a reply repeats nothing of
what it replies to. So a turn is judged by a window of turns around it as well as by its own words.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, tzinfo
from math import log
from typing import NamedTuple

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.memory.dates import Days, day_at, days_named, names_days
from pattern_acp.memory.search_terms import STOP_WORDS

NEIGHBOUR_REACH = 6
"""Entries apart, at most, that two messages of a session may be stored to count as neighbours; between them lie other
sessions' entries and further passages of the same message."""

SPREAD = ((-1, 0.4), (-2, 0.3), (1, 0.2), (2, 0.1))
"""Parts of the score of the turns before and after it that a turn gets. An answer comes after its question, and “them”
after what it means."""

WINDOW = 2
"""Turns on each side that a window has."""

_COUNTS = range(2 * WINDOW + 2)
"""Turns of a window that may have a word."""

_SATURATION = 1.2
"""BM25's k1: a word in a second turn of the window counts less than in the first."""


class TurnPlace(NamedTuple):
    """An entry of the index that is part of a message."""

    entry: int
    source: str
    item: str


def runs_of(places: Sequence[TurnPlace]) -> Iterator[list[list[int]]]:
    """Turns that follow each other, as far as the places show: of each turn, the indexes of its places."""
    run: list[list[int]] = []
    before: TurnPlace | None = None
    in_order = [(place.source, place.entry) for place in places]
    for number in sorted(range(len(places)), key=in_order.__getitem__):
        place = places[number]
        if before is None or place.source != before.source or place.entry - before.entry > NEIGHBOUR_REACH:
            if run:
                yield run
            run = [[number]]
        elif place.item == before.item:
            run[-1].append(number)
        else:
            run.append([number])
        before = place
    if run:
        yield run


def spread_of(places: Sequence[TurnPlace], scores: Sequence[float]) -> dict[int, float]:
    """The part of its neighbours' scores that each place gets, by its index; those that get none are left out."""
    given: dict[int, float] = {}
    for run in runs_of(places):
        if len(run) == 1:
            continue
        best = [max(scores[number] for number in turn) for turn in run]
        for at, turn in enumerate(run):
            sum_of = 0.0
            for distance, part in SPREAD:
                if 0 <= at + distance < len(run):
                    sum_of += part * best[at + distance]
            if sum_of > 0.0:
                given.update(dict.fromkeys(turn, sum_of))
    return given


def window_scores(
    places: Sequence[TurnPlace], matches: Mapping[str, Collection[int]], counts: Mapping[str, int], passages: int
) -> list[float]:
    """BM25 over the window of each place: `matches` are the entries with each word, `counts` how many there are of all.

    How long the turns are counts nothing.
    """
    weights = {word: log(1.0 + (passages - count + 0.5) / (count + 0.5)) for word, count in counts.items()}
    turn_of: dict[int, int] = {}
    turns: list[int] = [0] * len(places)
    beside: list[range] = []
    """Turns of its run in whose windows each turn is. Most runs that words find are of one turn."""
    for run in runs_of(places):
        first, end = len(beside), len(beside) + len(run)
        for number, turn in enumerate(run, start=first):
            beside.append(range(max(first, number - WINDOW), min(end, number + WINDOW + 1)))
            for place in turn:
                turn_of[places[place].entry] = turns[place] = number
    gained = [0.0] * len(beside)
    for word, entries in matches.items():
        near: dict[int, int] = {}
        for having in {turn_of[entry] for entry in entries if entry in turn_of}:
            for turn in beside[having]:
                near[turn] = near.get(turn, 0) + 1
        gains = [weights[word] * count * (_SATURATION + 1.0) / (count + _SATURATION) for count in _COUNTS]
        for turn, count in near.items():
            gained[turn] += gains[count]
    return [gained[turn] for turn in turns]


_SPEAKER = late_pattern(r"(?:\[[^\]\n]{0,60}\]\s*|\([^)\n]{0,60}\)\s*)?([A-Z][\w.'-]*(?: [A-Z][\w.'-]*){0,2}):\s")
"""A turn of a log of several people begins with who said it."""

_WORD = late_pattern(r"[^\W_]+(?:['\u2019][^\W_]+)*")

_SOCIAL = frozenset(
    _WORD.findall("""
    absolutely afternoon agreed agree amazing appreciate awesome bye care chat cheers congrats congratulations cool
    course evening exactly excellent fantastic fine glad good goodbye goodnight great greetings haha happy hear hello
    help hey hi hope how's hugs incredible kind later long lot lots love lovely luck means morning much new nice night
    no oh ok okay perfect please proud really right see seen soon sorry sounds sure talk thank thanks that's thx time
    today too true understood well welcome what's wonderful wow yay yeah yep yes you're
    """)
)
"""Words of greetings, thanks and applause."""

_UNTELLING = STOP_WORDS | _SOCIAL

ENOUGH_WORDS = 14
"""Telling words with which a turn says as much as a longer one."""

SAYS_LITTLE = 0.6
"""Weight of a greeting or of thanks."""

SHORT = 0.82
"""Weight of the shortest turn that says something."""

ASKS = 0.82
"""Weight of a turn that ends with a question, against one that does not."""

NAMED_SPEAKER = 1.8
"""Weight of a turn whose speaker the query names, where the name itself does not count as a word (`is_speaker`)."""

SPEAKS_OFTEN = 10
"""Messages with a name, from which on it may be that of a speaker, if most of them begin with it."""

REPEATED = 0.5
"""Weight of a turn that says letter for letter what a better one says."""

TELLS_WHEN = 1.1
"""Weight of a turn that names a day, where the query asks when."""

TELLS_WHERE = 1.2
"""Weight of a turn that may name a place, where the query asks for one."""

_BEFORE_PLACES = frozenset({"at", "behind", "from", "in", "into", "near", "on", "through", "to", "under"})
"""Words that stand before places: whatever the place is, most answers to `where` have one."""

_WHERE = late_pattern(r"\b(?:where|(?:what|which) (?:place|venue|city|town|country))\b")
_WHEN = late_pattern(r"\b(?:when|(?:what|which) (?:day|date|month|year|week|time)|how long ago|since when)\b")


class QueryOfTurns(NamedTuple):
    """Demands of a query on turns beside its words."""

    names: frozenset[str]
    """Capitalised words of it, in lower case: one may be a speaker."""
    days: tuple[Days, ...]
    """Days that it names."""
    asks_when: bool
    asks_where: bool

    @classmethod
    def of(cls, query: str, now_ms: int, zone: tzinfo | None) -> "QueryOfTurns":
        """Read a query that is asked now."""
        days = days_named(query, day_at(now_ms, zone))
        asked = query.lower()
        asks_when = not days and _WHEN.search(asked) is not None
        return cls(names_of(query), days, asks_when, _WHERE.search(asked) is not None)


def names_of(query: str) -> frozenset[str]:
    """The words of a query that may be the name of a speaker, in lower case: capitalised ones that say something."""
    return frozenset(_name(word) for word in _WORD.findall(query) if word[0].isupper()) - STOP_WORDS


def _name(word: str) -> str:
    return word.lower().removesuffix("'s").removesuffix("\u2019s")


def without_names(query: str, names: Collection[str]) -> str:
    """A query without some names in lower case."""
    return _WORD.sub(lambda word: "" if _name(word[0]) in names else word[0], query) if names else query


def is_speaker(name: str, texts: Sequence[str]) -> bool:
    """True when a name in lower case stands before the colon of most of many texts that have it."""
    spoken = sum(1 for text in texts if (match := _SPEAKER.match(text)) and name in match[1].lower().split())
    return len(texts) >= SPEAKS_OFTEN and 2 * spoken >= len(texts)


def weight_of(text: str, query: QueryOfTurns) -> float:
    """The weight of a turn, whatever words of the query it has."""
    weight = 1.0
    speaker = _SPEAKER.match(text)
    if speaker is not None:
        text = text[speaker.end() :]
        if not query.names.isdisjoint(speaker[1].lower().split()):
            weight *= NAMED_SPEAKER
    head = text[:2_000]
    # Other scripts have letters that are two in lower case.
    words = _WORD.findall(head.lower()) if head.isascii() else [word.lower() for word in _WORD.findall(head)]
    telling = len(words) - sum(map(_UNTELLING.__contains__, words))
    if telling < 3 and not _SOCIAL.isdisjoint(words):
        weight *= SAYS_LITTLE
    else:
        weight *= SHORT + (1.0 - SHORT) * min(1.0, telling / ENOUGH_WORDS)
    if text.rstrip().endswith("?"):
        weight *= ASKS
    if query.asks_when and names_days(text):
        weight *= TELLS_WHEN
    if query.asks_where and not _BEFORE_PLACES.isdisjoint(words):
        weight *= TELLS_WHERE
    return weight


def says_nothing(text: str) -> bool:
    """True when a text has words and none of them is telling, as in “OK, I did it.”."""
    words = _WORD.findall(text.lower())
    return bool(words) and all(word in _UNTELLING for word in words)


def says_little(text: str) -> bool:
    """True when a text has fewer telling words than one sentence of content has."""
    return sum(word not in _UNTELLING for word in _WORD.findall(text.lower())) < ENOUGH_WORDS // 2


ON_THE_DAY = 0.8
"""Score of a turn that tells of a day that the query names; less for longer times, which say less."""

_OF_THE_TIME = 0.8
"""Part of it for what was said then, without naming the day."""

_SOON_AFTER = 0.4
"""Part of it for what was said a day or two later."""

SOON_DAYS = 2

NAMED_WITHIN = (7, 31)
"""Days before and after those of the query, within which others may name them: “on Saturday”, and “next month” for a
query of more than a week."""


def dated_score(text: str, at_ms: int, query: QueryOfTurns, zone: tzinfo | None) -> float:
    """The score of a turn for being of the days that the query names, or for naming them."""
    if not query.days:
        return 0.0
    said = day_at(at_ms, zone)
    named = days_named(text, said)
    return max(_worth(one) * _part(one, said, named) for one in query.days)


def _worth(days: Days) -> float:
    return ON_THE_DAY if days.count <= 7 else 0.6 * ON_THE_DAY if days.count <= 93 else 0.3 * ON_THE_DAY


def _part(days: Days, said: date, named: Sequence[Days]) -> float:
    if any(one.overlaps(days) and one.count <= max(7, 2 * days.count) for one in named):
        return 1.0
    if days.first <= said <= days.last:
        return _OF_THE_TIME
    return _SOON_AFTER if 0 < (said - days.last).days <= SOON_DAYS else 0.0
