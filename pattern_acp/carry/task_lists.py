"""Lists of tasks that an archive brings: what of them is new here, and storing it.

Owns: joining a list that is here as well, and that updates are what their events say. Must not know: the file, or how
the user is asked. Copies of a list merge without a choice: changes of both sides stay.
"""

from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec import Struct

from pattern_acp.carry.car import ArchiveDamagedError
from pattern_acp.carry.export import EventRecord, TaskUpdate
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject, sha256_hex
from pattern_acp.journal.codec import decode
from pattern_acp.journal.events import Event, TasksChanged
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.block_loader import READING_PEER
from pattern_acp.memory.blocks import Scope
from pattern_acp.tasks import store
from pattern_acp.tasks.document import TaskDocument
from pattern_acp.tasks.model import OPEN


class TaskListChange(Struct, frozen=True):
    """The difference of a list of tasks to the one here: its tasks, how many are open, whether it is here, and new."""

    tasks: int
    open: int
    is_here: bool
    is_new: bool


def compare(tx: Transaction, list_id: str, updates: Sequence[TaskUpdate]) -> TaskListChange:
    """Compare a list with the one here.

    Raises:
        NotATaskListError: an update is damaged, or builds on one that is missing.
    """
    theirs = TaskDocument.load(list_id, [one.data for one in updates], peer=READING_PEER).tasks
    is_open = sum(task.status in OPEN for task in theirs)
    here = [one.data for one in store.updates_of(tx, list_id)]
    if not here:
        return TaskListChange(len(theirs), is_open, is_here=False, is_new=True)
    document = TaskDocument.load(list_id, here, peer=READING_PEER)
    before = document.frontiers
    for one in updates:
        document.merge(one.data)
    return TaskListChange(len(theirs), is_open, is_here=True, is_new=document.frontiers != before)


def check_updates(updates: Sequence[TaskUpdate], list_id: str) -> None:
    """Refuse updates that are not what their events say. Raises ArchiveDamagedError where one is not."""
    for one in updates:
        event = _event(one)
        if not isinstance(event, TasksChanged) or event.list_id != list_id or event.number != one.number:
            raise ArchiveDamagedError(f"Update {one.number} of a list of tasks has the event of something else.")
        if event.update_hash != sha256_hex(one.data):
            raise ArchiveDamagedError(f"Update {one.number} of a list of tasks is not what its event says.")


def is_whole(update: TaskUpdate) -> bool:
    """Tell whether an update is all of a list, after words were forgotten."""
    event = _event(update)
    return isinstance(event, TasksChanged) and event.operation == "forget"


def _event(update: TaskUpdate) -> Event:
    event = update.event
    return decode(event.kind, event.version, cast("JsonObject", msgspec.json.decode(event.payload)))


def store_list(
    tx: Transaction, list_id: str, owner: tuple[Scope, str], updates: Sequence[TaskUpdate], seqs: Sequence[int]
) -> None:
    """Store a list that is not here, whose events have the numbers `seqs`.

    Raises:
        NotATaskListError: an update is damaged.
    """
    document = TaskDocument.load(list_id, [one.data for one in updates], peer=READING_PEER)
    stored = [store.ListUpdate(one.number, one.data, seq) for one, seq in zip(updates, seqs, strict=True)]
    store.adopt_list(tx, list_id, owner, document.tasks, stored, document.shallow_snapshot())


def merge_list(tx: Transaction, list_id: str, updates: Sequence[TaskUpdate]) -> list[tuple[int, EventRecord]]:
    """Take in the updates that are not here, each as a write of its own; the number of each event, and what it was.

    Raises:
        NotATaskListError: an update is damaged.
    """
    came: list[tuple[int, EventRecord]] = []
    for one in updates:
        before = len(store.updates_of(tx, list_id))
        actor, origin = Actor(one.event.actor), Origin(one.event.origin)
        writer = store.TaskWriter(CONSTELLATION_STREAM, READING_PEER, one.event.at_ms, actor, origin)
        store.merge_update(tx, list_id, one.data, writer)
        after = store.updates_of(tx, list_id)
        came += [(after[-1].seq, one.event)] if len(after) > before else []
    return came
