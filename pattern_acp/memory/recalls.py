"""Counts of recalls from memory.

Owns: the rows of `recalls`, and how a passage is named where the ids of its row may be others. Must not know: who
recalled, or for what. A passage that stays as it is keeps its count through every rewrite of its block, since it keeps
its row in the index; one that is changed begins again.
"""

import json
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import sha256_hex

if TYPE_CHECKING:
    from pattern_acp.memory.forgotten import Forgotten

_QUERIES = load_queries("pattern_acp.memory")

Name: TypeAlias = tuple[str, str]
"""The block or archival entry of a passage, and the beginning of the SHA-256 of its text."""

DIGEST_DIGITS = 16
"""Hexadecimal digits: 64 bits tell the passages of one block apart."""

WEEK_MS = 7 * 24 * 3_600_000
"""By how much each recall makes a passage count as younger when the least needed ones are looked for."""


class Seldom(Struct, frozen=True):
    """A passage of a block that may be dropped: when it was written (milliseconds), and how often it was recalled."""

    text: str
    at_ms: int
    times: int


def count_recalls(tx: Transaction, times: Mapping[int, int], *, at_ms: int, seq: int) -> None:
    """Count passages, by the ids of their index entries, as recalled; `seq` is the event of the turn that did it.

    Only facts are counted, blocks and archival entries; what is gone meanwhile is left out.
    """
    for entry, count in times.items():
        tx.execute(_QUERIES["count_recall"], {"entry": entry, "times": count, "at_ms": at_ms, "seq": seq})


def name_of(source: str, text: str) -> Name:
    """The name of a passage in events."""
    return source, sha256_hex(text.encode("utf-8", "surrogatepass"))[:DIGEST_DIGITS]


def names_of(tx: Transaction, entries: Collection[int]) -> dict[int, Name]:
    """The names of the facts among entries of the index."""
    rows = tx.all(_QUERIES["facts_of_entries"], {"entries": json.dumps(sorted(entries))})
    return {columns.integer(row[0]): name_of(columns.text(row[1]), columns.text(row[2])) for row in rows}


def entries_of(tx: Transaction, sources: Collection[str]) -> dict[Name, int]:
    """The passages of blocks and archival entries by their names; of several that read the same the first."""
    found: dict[Name, int] = {}
    for entry, source, text in tx.all(_QUERIES["facts_of_sources"], {"sources": json.dumps(sorted(sources))}):
        found.setdefault(name_of(columns.text(source), columns.text(text)), columns.integer(entry))
    return found


def names_without(tx: Transaction, source: str, words: "Forgotten") -> frozenset[Name]:
    """The names of the passages of a block that do not hold the words."""
    rows = tx.all(_QUERIES["facts_of_sources"], {"sources": json.dumps([source])})
    texts = (columns.text(row[2]) for row in rows)
    return frozenset(name_of(source, text) for text in texts if not words.holds(text))


def times_recalled(tx: Transaction, sources: list[str]) -> dict[str, int]:
    """Number of recalls of any passage of each block or archival entry; those never recalled are left out."""
    rows = tx.all(_QUERIES["recalls_of"], {"sources": json.dumps(sources)})
    return {columns.text(row[0]): columns.integer(row[1]) for row in rows}


def least_needed(tx: Transaction, source: str, limit: int) -> tuple[Seldom, ...]:
    """The passages of a block that are oldest and least recalled, the first of them first."""
    rows = tx.all(_QUERIES["least_needed"], {"source": source, "week_ms": WEEK_MS, "limit": limit})
    return tuple(Seldom(columns.text(row[0]), columns.integer(row[1]), columns.integer(row[2])) for row in rows)
