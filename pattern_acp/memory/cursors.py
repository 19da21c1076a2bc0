"""Writes since someone last looked.

Owns: the writes of a block after a number, and the rows of `cursors`: up to which event a persona learned of what went
on in a project, and when it was last at work there. Must not know: how any of it is reported. Every row carries the
number of the event that moved it (rule R1).
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor

_QUERIES = load_queries("pattern_acp.memory")

MOST_WRITES = 50
"""Writes of one block that are looked at; who wrote earlier ones is not told."""


class LaterWrite(Struct, frozen=True):
    """One write: its number in the block, when, by whom, why, and the stream (session) whose journal holds it."""

    number: int
    at_ms: int
    actor: Actor
    reason: str
    stream: str


class UnseenChange(Struct, frozen=True):
    """One write as it learns of later: the block's label, who, why, when, in which stream, and what was done."""

    label: str
    actor: Actor
    reason: str
    at_ms: int
    stream: str
    lines_added: int = 0
    lines_removed: int = 0
    operation: str = ""


class Cursor(Struct, frozen=True):
    """Up to which event a persona learned of a project, and when it was last at work there."""

    told_seq: int
    active_ms: int


def read_cursor(tx: Transaction, persona: str, project: str) -> Cursor | None:
    """The cursor of a persona in a project; None before its first turn there."""
    row = tx.one(_QUERIES["read_cursor"], {"persona": persona, "project": project})
    return None if row is None else Cursor(columns.integer(row[0]), columns.integer(row[1]))


def note_activity(tx: Transaction, persona: str, project: str, *, at_ms: int, seq: int) -> None:
    """A turn of the persona in the project ended, as the event `seq` says."""
    tx.execute(_QUERIES["note_activity"], {"persona": persona, "project": project, "at_ms": at_ms, "seq": seq})


def move_cursor(tx: Transaction, persona: str, project: str, *, seq: int) -> None:
    """The persona learned all that happened before the event `seq`, which says so."""
    tx.execute(_QUERIES["move_cursor"], {"persona": persona, "project": project, "seq": seq})


def changes_since(
    tx: Transaction, block_ids: Sequence[str], after: int, *, not_in: str, limit: int
) -> tuple[UnseenChange, ...]:
    """The newest writes into some blocks after an event, newest first, without those of the stream `not_in`."""
    asked = {"ids": json.dumps(list(block_ids)), "after": after, "stream": not_in, "limit": limit}
    return tuple(
        UnseenChange(
            columns.text(row[0]),
            Actor(columns.text(row[1])),
            columns.text(row[2]),
            columns.integer(row[3]),
            columns.text(row[4]),
            0 if row[5] is None else columns.integer(row[5]),
            0 if row[6] is None else columns.integer(row[6]),
            columns.text(row[7]),
        )
        for row in tx.all(_QUERIES["changes_since"], asked)
    )


def writes_since(tx: Transaction, block_id: str, after: int) -> tuple[LaterWrite, ...]:
    """The newest writes of a block above the number `after`, oldest first."""
    rows = tx.all(_QUERIES["writes_since"], {"block_id": block_id, "after": after, "limit": MOST_WRITES})
    return tuple(
        LaterWrite(
            columns.integer(row[0]),
            columns.integer(row[1]),
            Actor(columns.text(row[2])),
            columns.text(row[3]),
            columns.text(row[4]),
        )
        for row in reversed(rows)
    )
