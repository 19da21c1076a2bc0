"""The terms of a search: words and passages of texts as search sees them, and filters of what is searched.

Owns: how identifiers are taken apart, which words say nothing, the full-text query made of any input, where a text may
be cut, and the filters with their form as parameters of statements. Must not know: scores, who searches, or SQL beyond
the query language of FTS5.
"""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import filterfalse
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.db.connection import SqlValue
from pattern_acp.domain.late_pattern import late_pattern

_WORD = late_pattern(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_IDENTIFIER = late_pattern(r"[^\W\d]\w*")
_PART = late_pattern(r"[^\W_]+")
_NAMED = late_pattern(r"""\d|\w[./\\]\w|_|\w\(\)|--\w|[`"\u201c\u00ab]|(?<!\w)'\w""")
"""Digits, names with dots and slashes inside, underscores, calls, options, and anything in quotes."""

MOST_TERMS = 24
"""Terms of one query: a pasted page would otherwise cost a scan of the whole index a word."""

STOP_WORDS = frozenset(
    _WORD.findall("""
    a about above after again all also am an and any are aren't as at be because been before being below between both
    but by can can't could couldn't did didn't do does doesn't doing don't down during each few for from further get got
    had hadn't has hasn't have haven't having he her here hers him his how i i'd i'll i'm i've if in into is isn't it
    it's its itself just let let's me more most my myself no nor not now of off on once only or other our ours out over
    own please same she should shouldn't so some such than that that's the their theirs them then there there's these
    they they're this those through to too under until up us very was wasn't we we're were weren't what what's when
    where which while who whom why will with won't would wouldn't you you're your yours
    """)
)
"""English words that are in most texts: they make a query three times slower and its results worse."""


def split_identifiers(text: str) -> str:
    """The parts of every identifier in `text` that has some, split at case and underscore, in order.

    `getUserId` gives `get User Id`. Identifiers are indexed in both forms, so either finds them.
    """
    parts: list[str] = []
    for identifier in _IDENTIFIER.findall(text):
        if identifier.islower() and "_" not in identifier:
            continue
        pieces = _identifier_parts(identifier)
        if len(pieces) > 1:
            parts.extend(pieces)
    return " ".join(parts)


def query_terms(query: str) -> tuple[str, ...]:
    """The words of `query` that say something, lower case, each once, at most `MOST_TERMS`.

    Stop words go, unless the query has nothing else. An identifier gives its parts too.
    """
    found: dict[str, None] = {}
    for token in re.findall(r"[\w'\u2019]+", query):
        for word in (*_WORD.findall(token), *split_identifiers(token).split()):
            found.setdefault(_without_genitive(word.lower().replace("\u2019", "'")))
    telling = list(filterfalse(STOP_WORDS.__contains__, found))
    return tuple((telling or list(found))[:MOST_TERMS])


def _without_genitive(word: str) -> str:
    # The index has `Dave's` as two words, and texts about Dave mostly have the first alone. `it's` is a stop word.
    return word if word in STOP_WORDS else word.removesuffix("'s")


def names_identifier(query: str) -> bool:
    """True when `query` names something by its written form: it has digits, quotes, a path, or a compound word."""
    return _NAMED.search(query) is not None or bool(split_identifiers(query))


IRREGULAR = """
    become became / begin began begun / bite bit bitten / blow blew blown / break broke broken / bring brought
    build built / burn burnt / buy bought / catch caught / choose chose chosen / come came / deal dealt / dig dug
    draw drew drawn / drink drank drunk / drive drove driven / eat ate eaten / fall fell fallen / feed fed / feel felt
    fight fought / find found / fly flew flown / forbid forbade forbidden / forget forgot forgotten
    forgive forgave forgiven / freeze froze frozen / give gave given / go went gone / grow grew grown / hang hung
    hear heard / hide hid hidden / hold held / keep kept / know knew known / lay laid / lead led / learn learnt
    leave left / lend lent / lie lay lain / light lit / lose lost / make made / mean meant / meet met
    overwrite overwrote overwritten / pay paid / rebuild rebuilt / rewrite rewrote rewritten / ride rode ridden
    ring rang rung / rise rose risen / run ran / say said / see saw seen / seek sought / sell sold / send sent
    shake shook shaken / shine shone / shoot shot / show shown / shrink shrank shrunk / sing sang sung
    sink sank sunk / sit sat / sleep slept / speak spoke spoken / spend spent / spin spun / stand stood
    steal stole stolen / stick stuck / strike struck / swear swore sworn / swim swam swum / take took taken
    teach taught / tear tore torn / tell told / think thought / throw threw thrown / understand understood
    undo undid undone / wake woke woken / wear wore worn / win won / write wrote written
    child children / foot feet / man men / mouse mice / person people / tooth teeth / wife wives / woman women
    index indices / matrix matrices / vertex vertices
"""
"""Forms of words that no stem joins, each group between slashes or line ends."""


@cache
def _forms() -> dict[str, tuple[str, ...]]:
    groups = [tuple(group.split()) for line in IRREGULAR.splitlines() for group in line.split("/")]
    found: dict[str, tuple[str, ...]] = {}
    for group in groups:
        found |= {word: (*found.get(word, ()), *group) for word in group}
    return found


def with_forms(terms: tuple[str, ...]) -> tuple[str, ...]:
    """The terms, and other forms of the irregular words among them: with `lose`, `lost`."""
    forms = _forms()
    every = dict.fromkeys(terms)
    every.update(dict.fromkeys(form for term in terms for form in forms.get(term, ())))
    return tuple(every)


def match_expression(terms: tuple[str, ...]) -> str:
    """The FTS5 query for texts that hold any of `terms`; '' when there is none.

    Each term is quoted, since outside quotes nine of nine ordinary inputs (`don't`, `c++`, `--flag`, `a:b`, `(`) are
    syntax errors.
    """
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


def match_any_of(needed: tuple[str, ...], others: tuple[str, ...]) -> str:
    """The FTS5 query for texts that hold any of `needed`, whose scores those of `others` count in that they hold too.

    BM25 adds up over the terms as they are written, so each is there twice, and scores are twice what they would be.
    FTS5 goes through the others only as far as passages with one of `needed` are, without giving each to SQL.
    """
    if not others:
        return match_expression(needed)
    return f"({match_expression(needed)}) AND ({match_expression((*needed, *others, *others))})"


def _identifier_parts(identifier: str) -> list[str]:
    # Letters by str methods, since no regular expression of the standard library knows the case of `Ä`.
    spaced: list[str] = []
    for number, character in enumerate(identifier):
        before, after = identifier[number - 1 : number], identifier[number + 1 : number + 2]
        if character.isupper() and (before.islower() or before.isdigit() or (before.isupper() and after.islower())):
            spaced.append(" ")
        spaced.append(character)
    return _PART.findall("".join(spaced))


BLOCK_PASSAGE = 400
"""Characters of one passage of a block: a hit is shown whole."""

MESSAGE_PASSAGE = 1_600
"""Characters of one passage of a message: about one thought, so that BM25 compares like things."""

MESSAGE_INDEXED = 400_000
"""Characters of a message that can be found again: its beginning, some 250 passages. A log or a dump that was pasted
as a prompt of many megabytes would cost a minute and bury every other hit."""

EXCERPT = 400
"""Characters of an excerpt at most."""

_STARTS_ANEW = late_pattern(r"\s*(?:[-*+•#>|]|\d+[.)]\s|```)")
_WRAPPED_LINE = 55
"""Characters from which a line may have been broken for its length; shorter ones are facts of their own."""

_FAR_ENOUGH = 50
"""Lines that are gone back to find where a passage begins; a text of wrapped lines may have no such place."""

_ENDS_A_SENTENCE = (".", "!", "?", ":", ";")


def block_passages(text: str) -> tuple[str, ...]:
    """The passages of a block: paragraphs, list items, and lines that stand alone, each at most `BLOCK_PASSAGE`.

    An append puts a fact on a line of its own, so a line belongs to the one before only where it clearly continues.
    """
    passages: list[str] = []
    previous = ""
    for line in text.split("\n"):
        stripped = line.strip()
        if stripped:
            if previous and _goes_on(previous, line):
                passages[-1] += f"\n{line}"
            else:
                passages.append(line)
        previous = stripped
    cut = [passage.strip() for passage in passages]
    if all(len(passage) <= BLOCK_PASSAGE for passage in cut):
        return tuple(cut)
    return tuple(piece for passage in cut for piece in _pieces(passage, BLOCK_PASSAGE))


def common_lines(before: str, after: str) -> int:
    """Number of characters in the lines that both texts begin with: 0, or just behind the end of a line."""
    low, high = 0, min(len(before), len(after))
    # Halving compares whole stretches at once, which is a hundred times faster than characters one by one.
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return before.rfind("\n", 0, low) + 1


def common_passages(before: str, after: str) -> int:
    """Number of characters in the passages that both texts begin with: the rest of each can be cut on its own."""
    end = common_lines(before, after)
    for _ in range(_FAR_ENOUGH):
        if end == 0:
            break
        # The last line of those may still be continued with, so what is common ends before it, where a passage begins.
        start = before.rfind("\n", 0, end - 1) + 1
        line = before[start : end - 1]
        previous = before[before.rfind("\n", 0, max(0, start - 1)) + 1 : max(0, start - 1)].strip()
        if line.strip() and not (previous and _goes_on(previous, line)):
            return start
        end = start
    return 0


def common_ending(before: str, after: str) -> int:
    """Number of characters in the lines that both texts end with; what comes before them ends with a line's end."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[len(before) - middle :] == after[len(after) - middle :]:
            low = middle
        else:
            high = middle - 1
    border = before.find("\n", len(before) - low)
    return 0 if border < 0 else len(before) - border - 1


def common_last_passages(before: str, after: str) -> int:
    """Number of characters in the passages that both texts end with: what comes before them can be cut on its own."""
    at = len(before) - common_ending(before, after)
    previous: str | None = None
    for _ in range(_FAR_ENOUGH):
        if at >= len(before):
            break
        end = before.find("\n", at)
        line = before[at:end] if end >= 0 else before[at:]
        # The first line that both have may continue with another one in each; every later one has the same before it.
        if previous is not None and line.strip() and not (previous and _goes_on(previous, line)):
            return len(before) - at
        previous = line.strip()
        at += len(line) + 1
    return 0


def message_passages(text: str) -> tuple[str, ...]:
    """The passages of the first `MESSAGE_INDEXED` characters: paragraphs gathered up to `MESSAGE_PASSAGE` each."""
    passages: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text[:MESSAGE_INDEXED]):
        for piece in _pieces(paragraph.strip(), MESSAGE_PASSAGE):
            if passages and len(passages[-1]) + len(piece) + 2 <= MESSAGE_PASSAGE:
                passages[-1] += "\n\n" + piece
            else:
                passages.append(piece)
    return tuple(passages)


def excerpt(text: str, terms: Sequence[str], size: int = EXCERPT) -> str:
    """At most `size` characters of `text` around the first of `terms`, with `…` where it was cut."""
    if len(text) <= size:
        return text
    room = size - 2
    hit = _first_hit(text, terms)
    start = max(0, min(hit - room // 3, len(text) - room))
    if start > 0:
        # Begin at a word, unless there is none near.
        border = text.find(" ", start, start + 30)
        start = border + 1 if 0 <= border < hit else start
    end = min(len(text), start + room)
    cut = text[start:end].strip()
    return ("…" if start > 0 else "") + cut + ("…" if end < len(text) else "")


def _goes_on(previous: str, line: str) -> bool:
    if not line[0].isspace():
        wrapped = len(previous) >= _WRAPPED_LINE and not previous.endswith(_ENDS_A_SENTENCE)
        if not (wrapped and line[0].islower()):
            return False
    return _STARTS_ANEW.match(line) is None


def _pieces(text: str, size: int) -> list[str]:
    pieces: list[str] = []
    at = 0
    while len(text) - at > size:
        ahead = text[at : at + size]
        if not (stripped := ahead.lstrip()):
            at += size
        elif len(stripped) < size:
            at += size - len(stripped)
        else:
            end = _cut_before(ahead, size)
            pieces.append(ahead[:end].strip())
            at += end
    return [piece for piece in (*pieces, text[at:].strip()) if piece]


def _cut_before(text: str, size: int) -> int:
    # The best border in the second half, so that no piece is tiny: a line's end, a sentence's, a word's.
    for border in ("\n", ". ", " "):
        end = text.rfind(border, size // 2, size)
        if end > 0:
            return end + len(border)
    return size


def _first_hit(text: str, terms: Sequence[str]) -> int:
    # Lower-casing may change a string's length (İ), which moves an excerpt by a few characters at most.
    lowered = text.lower()
    for form in (terms, [term[: max(4, len(term) - 3)] for term in terms]):
        places = [place for term in form if (place := lowered.find(term)) >= 0]
        if places:
            return min(places)
    return 0


EntryKind: TypeAlias = Literal["block", "archival", "superseded", "user", "assistant", "task", "skill", "call"]
"""Source of a passage: a block, an archival entry (in force, or replaced by another), a message by its role, a step
of a plan or a task, a skill, or what a tool call did, which only leads to its turn."""

CURRENT_KINDS: tuple[EntryKind, ...] = ("block", "archival", "user", "assistant", "task", "skill")
"""Kinds that are searched by default: a superseded entry stays in history, out of search."""

ALL_KINDS: tuple[EntryKind, ...] = (*CURRENT_KINDS, "superseded")

FACT_KINDS = frozenset({"block", "archival", "superseded", "task", "skill"})
"""Kinds that were stored on purpose, as facts, not said in passing."""

TASK_ID = "task_"
"""Beginning of the id of a task: what kind `task` has as its source, where steps of a plan have a session."""

_LAST_MS = 1 << 62


class Filters(Struct, frozen=True):
    """The visible entries. Times are milliseconds since 1970-01-01 UTC, both ends included."""

    owners: tuple[str, ...]
    """Personas' names and project keys, whose entries may be found at all."""
    kinds: tuple[EntryKind, ...] = CURRENT_KINDS
    session: str = ""
    """Only what is from this source: messages of a session, or passages of a block."""
    exclude_session: str = ""
    """No messages of this session."""
    since_ms: int = 0
    until_ms: int = _LAST_MS

    @property
    def narrows(self) -> bool:
        """True when a time or a single session is asked for."""
        return bool(self.session) or self.since_ms > 0 or self.until_ms < _LAST_MS

    def params(self) -> Mapping[str, SqlValue]:
        """The parameters of a statement with the visible entries' conditions."""
        return {
            "owners": json.dumps(self.owners),
            "kinds": json.dumps(self.kinds),
            "session": self.session,
            "excluded": self.exclude_session,
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
        }
