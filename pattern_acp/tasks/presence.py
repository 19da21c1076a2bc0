"""Tells whether anything is left to do, without the modules of tasks: every session asks, most have nothing.

Owns: that question, and noting the turns of the task that a session works on. Must not know: the form of a task.
"""

import json
from collections.abc import Sequence

from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.memory.blocks import Scope


def works_on_task(tx: Transaction, session: str) -> bool:
    """True if there is a task that the session works on."""
    return tx.one(load_queries("pattern_acp.tasks")["works_on_task"], {"session": storable(session)}) is not None


def note_task_turn(tx: Transaction, session: str, turn: str, *, seq: int) -> None:
    """Note that a model was asked in a turn, for the task that the session works on."""
    # Most sessions work on none; to ask takes a tenth of the time of the statement that writes.
    if not works_on_task(tx, session):
        return
    named = {"session": storable(session), "turn": turn, "seq": seq}
    tx.execute(load_queries("pattern_acp.tasks")["note_task_turn"], named)


def has_open_tasks(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> bool:
    """True if there is anything left to do."""
    return tx.one(load_queries("pattern_acp.tasks")["has_tasks"], {"owners": json.dumps(owners)}) is not None
