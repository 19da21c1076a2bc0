"""Checks of a text before it is stored, and passages that prove to say nearly the same once it is.

Owns: the order of the checks and what each says, and the rows of `repeats`. Must not know: how a change is stored, who
knows of a repeat, or when. A guard changes nothing and hides nothing: it tells the writer what is there, and the writer
decides. It compares words alone (`guards`), since no embedder may be waited for before a write; what it lets through is
looked at here once the background has embedded it, and the model learns it at its next turn. Logs take repeats.
"""

import json
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.clock import day_of
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.embeddings import EmbeddingModel, Vector, cosine, hashed_vector
from pattern_acp.memory.errors import DuplicateFoundError, LimitExceededError, SecretFoundError, SystemTextError
from pattern_acp.memory.indexing import Seldom, least_needed
from pattern_acp.memory.search_terms import Filters, block_passages, query_terms
from pattern_acp.memory.vectors import EXACT_ENTRIES, QueryVector, VectorTable, count_visible, nearest

if TYPE_CHECKING:
    from pattern_acp.memory.secrets import SecretMatch


_QUERIES = load_queries("pattern_acp.memory")

NEAR = 0.95
"""Cosine from which two texts say the same (issue 3, section 2)."""

_TERMS_FOR_NEAR = 4
"""Words from which likeness counts: shorter texts are alike by chance, so only equal ones are repeats."""

_LONGEST_WORDS = 3
_MOST_ALIKE = 50
_SHOWN = 200
_OLDEST = 3
_LOOKED_AT = 30

SYSTEM_MARKS = (
    "<current_state>",
    "</current_state>",
    "<memory_block ",
    "</memory_block>",
    "<system-reminder>",
    "</system-reminder>",
    "[memory:updated]",
    "This is the present state of your memory, refreshed with every request",
)
"""Parts of messages that the program or a harness writes, never a user (letta-code#1224: stored reminders loop)."""

_SPACE = re.compile(r"\s+")


class SecretRule(StrEnum):
    """The treatment of a text that seems to hold a secret."""

    BLOCK = "block"
    ASK = "ask"


class Passages(Struct, frozen=True):
    """The places to search for repeats: the blocks in sight, by id and label, and the owners of archival entries."""

    blocks: Sequence[tuple[str, str]]
    owners: Sequence[str]


def check_words(label: str, text: str) -> None:
    """Refuse the program's own text.

    Raises:
        SystemTextError: names what was recognised.
    """
    for mark in SYSTEM_MARKS:
        if mark in text:
            raise SystemTextError(label, f"`{mark.strip()[:40]}`")


def check_secret(label: str, text: str, rule: SecretRule) -> "SecretMatch | None":
    """The secret that the user has to be asked about, or None.

    Raises:
        SecretFoundError: there is one, and the rule blocks it.
    """
    # Only a write compiles the patterns of secrets.
    from pattern_acp.memory.secrets import find_secret

    secret = find_secret(text)
    if secret is not None and rule is SecretRule.BLOCK:
        raise SecretFoundError(label, secret.what, secret.excerpt)
    return secret


def check_repeats(tx: Transaction, label: str, text: str, where: Passages) -> None:
    """Refuse a text whose passages memory has already.

    Raises:
        DuplicateFoundError: shows the passage that says the same, and where it is.
    """
    for passage in block_passages(storable(text)):
        same = _same(tx, plain(passage), where)
        if same is not None:
            raise DuplicateFoundError(label, same[0], _cut(same[1]))


def with_oldest(tx: Transaction, error: LimitExceededError, block: Block) -> LimitExceededError:
    """The same error with a hint which passages of the block are oldest and least recalled."""
    # What a log shows no longer stays in the index, and shortening it would give no space.
    shown = [one for one in least_needed(tx, block.id, _LOOKED_AT) if one.text in block.text]
    oldest = tuple(f"“{_cut(one.text, 80)}” ({_since(one)})" for one in shown[:_OLDEST])
    return LimitExceededError(
        error.label, current=error.current, limit=error.limit, wanted=error.limit + error.over, oldest=oldest
    )


def plain(passage: str) -> str:
    """A passage without its bullet or number, and with single spaces."""
    return _SPACE.sub(" ", re.sub(r"^\s*(?:[-*+•]|\d+[.)])\s+", "", passage)).strip().rstrip(".")


def _same(tx: Transaction, passage: str, where: Passages) -> tuple[str, str] | None:
    """Place in memory of the same fact, and its passage; only those with its telling words are compared."""
    terms = query_terms(passage)
    if not terms:
        return None
    longest = sorted(terms, key=len, reverse=True)[:_LONGEST_WORDS]
    match = " AND ".join(f'"{term}"' for term in longest)
    labels = dict(where.blocks)
    asked = {"match": match, "ids": json.dumps(list(labels)), "owners": json.dumps(list(where.owners))}
    rows = tx.all(_QUERIES["alike_passages"], {**asked, "limit": _MOST_ALIKE})
    # Takes longer than all the rest, while others wait to write.
    vector = hashed_vector(passage) if rows and len(terms) >= _TERMS_FOR_NEAR else None
    for row in rows:
        kind, source, existing = (columns.text(value) for value in row)
        bare = plain(existing)
        is_near = vector is not None and cosine(vector, hashed_vector(bare)) >= NEAR
        if is_near or bare.casefold() == passage.casefold():
            return (f"the block {labels[source]!r}" if kind == "block" else f"the archival entry {source}"), existing
    return None


def _since(one: Seldom) -> str:
    times = {0: "never recalled", 1: "recalled once"}.get(one.times, f"recalled {one.times:,} times")
    return f"{day_of(one.at_ms)}, {times}"


def _cut(text: str, size: int = _SHOWN) -> str:
    line = _SPACE.sub(" ", text).strip()
    return line if len(line) <= size else line[: size - 1] + "…"


MOST_TOLD = 3
"""Pairs that are reported at once."""

_NEIGHBOURS = 4


class Pair(Struct, frozen=True):
    """Two passages, by the ids of their index entries, and the cosine of their vectors."""

    entry: int
    other: int
    likeness: float


def find_repeats(
    tx: Transaction, table: VectorTable, model: EmbeddingModel, stored: Sequence[tuple[int, Vector]]
) -> tuple[Pair, ...]:
    """Find repeats of newly embedded passages among the facts of the same owner. Writes nothing."""
    found: list[Pair] = []
    for entry, vector in stored:
        row = tx.one(_QUERIES["owner_of_fact"], {"entry": entry})
        if row is None or not any(vector):
            continue
        filters = Filters((columns.text(row[0]),), ("block", "archival"))
        query = QueryVector(table, model, vector)
        visible = count_visible(tx, filters, EXACT_ENTRIES + 1)
        near = nearest(tx, query, filters, visible=visible, count=_NEIGHBOURS)
        found += [Pair(entry, other, likeness) for other, likeness in near if other != entry and likeness >= NEAR]
    return tuple(found)


def store_repeats(tx: Transaction, pairs: Sequence[Pair]) -> None:
    """Keep pairs until the model knows, each once whichever of both came first. What went meanwhile is left out."""
    for pair in pairs:
        first, second = sorted((pair.entry, pair.other))
        asked: dict[str, SqlValue] = {"entry": second, "other": first, "likeness": min(1.0, pair.likeness)}
        tx.execute(_QUERIES["store_repeat"], asked)


def has_untold(tx: Transaction) -> bool:
    """Return whether there is any pair that no model learned of."""
    return tx.one(_QUERIES["has_untold"]) is not None


def untold_repeats(
    tx: Transaction, owners: Sequence[str], attached: Sequence[str] = ()
) -> tuple[tuple[Pair, str], ...]:
    """Pairs that the model was not told of, the likest first, each with the sentence that tells it.

    `attached` are the ids of blocks that are in its sight without being the owners'.
    """
    asked = {"owners": json.dumps(list(owners)), "sources": json.dumps(list(attached)), "limit": MOST_TOLD}
    rows = tx.all(_QUERIES["untold_repeats"], asked)
    told: list[tuple[Pair, str]] = []
    for row in rows:
        pair = Pair(columns.integer(row[0]), columns.integer(row[1]), float(columns.text(row[2])))
        newer, older = _place(row[3:7]), _place(row[7:11])
        sentence = (
            f"{newer} and {older} say nearly the same ({pair.likeness:.2f}). If one repeats the other or is out of "
            "date, replace, supersede or remove it; leave both where both hold."
        )
        told.append((pair, sentence))
    return tuple(told)


def mark_told(tx: Transaction, pairs: Sequence[Pair], *, seq: int) -> None:
    """The model learned of these pairs in the turn that the event `seq` ends."""
    for pair in pairs:
        tx.execute(_QUERIES["mark_repeat_told"], {"entry": pair.entry, "other": pair.other, "seq": seq})


def restore_told(tx: Transaction, pair: Pair, *, seq: int) -> None:
    """The model learned of this pair in the turn that the event `seq` is of, before the index was made again."""
    first, second = sorted((pair.entry, pair.other))
    asked: dict[str, SqlValue] = {"entry": second, "other": first, "likeness": pair.likeness, "seq": seq}
    tx.execute(_QUERIES["restore_told_repeat"], asked)


def _place(part: Sequence[SqlValue]) -> str:
    kind, source, label, text = (columns.text(value) for value in part)
    line = " ".join(text.split())
    shown = line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"
    return f"“{shown}” ({f'block {label}' if kind == 'block' else f'archival entry {source}'})"
