"""Words of a text as search sees them.

Owns: how identifiers are taken apart, which words say nothing, and the full-text query made of any input. Must not
know: SQL beyond the query language of FTS5.
"""

import re
from functools import cache
from itertools import filterfalse

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
