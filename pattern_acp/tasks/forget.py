"""Forgetting in tasks: words taken out of tasks, their rows and everything that was stored of their history.

Owns: which lists hold the words, and lists that begin again without them. Must not know: what else forgets, or who
asked for it (`memory/service/forget.py`, `session/redaction.py`).

A list that holds the words in any version gets one document in which the changes of before have no words; its older
updates go. Copies of the list on other devices still merge with it, and lose the words when these follow.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import Json, sha256_hex
from pattern_acp.journal.events import TasksChanged
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.forgotten import Forgotten
from pattern_acp.memory.service.forget import ForgettingElsewhere
from pattern_acp.tasks.document import TaskDocument
from pattern_acp.tasks.model import LONGEST_TITLE, NotATaskListError, Task, TaskSource
from pattern_acp.tasks.store import project_tasks

_QUERIES = load_queries("pattern_acp.tasks")


class _List(Struct, frozen=True):
    """A stored list: its tasks as they are now, and all that its history says, as JSON."""

    list_id: str
    head_update: int
    tasks: tuple[Task, ...]
    history: str
    document: TaskDocument | None = None
    """All of it; None where it is damaged."""


def tasks_with(tx: Transaction, words: Forgotten, *, session: str = "") -> int:
    """Count the tasks in lists that hold a copy of the words, now or in their history.

    With `session`, only lists that this session has written to are looked at.
    """
    return sum(_count(found, words) for found in _lists_with(tx, words, session))


def forget_in_tasks(tx: Transaction, words: Forgotten, *, at_ms: int, session: str = "") -> int:
    """Take the words out of all tasks and their history, or out of lists that a session has written to.

    Returns the number that `tasks_with` counts.
    """
    count = 0
    for found in _lists_with(tx, words, session):
        count += _count(found, words)
        number = found.head_update + 1
        document = _forgotten(found, words, number)
        tasks = document.tasks
        update, base = document.full_snapshot(), document.shallow_snapshot()
        event = TasksChanged(found.list_id, number, "forget", tuple(task.id for task in tasks), sha256_hex(update))
        seq = append(tx, CONSTELLATION_STREAM, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=at_ms).seq
        tx.execute(_QUERIES["drop_updates"], {"id": found.list_id})
        tx.execute(_QUERIES["insert_update"], {"id": found.list_id, "number": number, "data": update, "seq": seq})
        tx.execute(
            _QUERIES["advance_list"],
            {"id": found.list_id, "number": number, "size": len(tasks), "base": base, "seq": seq},
        )
        project_tasks(tx, found.list_id, tasks, seq)
        for row in tx.all(_QUERIES["task_files_of_list"], {"id": found.list_id}):
            # The file itself is made again without them at the next turn there.
            file: dict[str, SqlValue] = {"folder": row[0], "task_id": row[1], "base": words.mask(text(row[2]))}
            tx.execute(_QUERIES["put_task_file_base"], file)
    return count


def _forgotten(found: _List, words: Forgotten, number: int) -> TaskDocument:
    """The list without the words; without its past too where that cannot be read, or would still have them."""
    if found.document is not None:
        with suppress(NotATaskListError):
            document = found.document.without_words(words.mask)
            if not _count(_List(found.list_id, number, document.tasks, document.everything), words):
                return document
    # The peer is another one for each forgetting: an old copy has other operations under the ids of its own.
    document = TaskDocument(found.list_id, _peer(found.list_id, number))
    for task in found.tasks:
        document.add(_without(task, words))
    return document


def _lists_with(tx: Transaction, words: Forgotten, session: str) -> list[_List]:
    rows = tx.all(_QUERIES["every_list"], {"session": session})
    found = (_read(tx, text(row[0]), data(row[1]), integer(row[2]), integer(row[3])) for row in rows)
    return [one for one in found if _count(one, words)]


def _read(tx: Transaction, list_id: str, base: bytes, base_update: int, head_update: int) -> _List:
    updates = [data(row[0]) for row in tx.all(_QUERIES["list_updates"], {"id": list_id, "after": 0})]
    later = [data(row[0]) for row in tx.all(_QUERIES["list_updates"], {"id": list_id, "after": base_update})]
    try:
        document = TaskDocument.load(list_id, updates, peer=1)
        return _List(list_id, head_update, document.tasks, document.everything, document)
    except NotATaskListError:
        # Damaged: its bytes are all that can be looked at.
        history = json.dumps([one.decode("utf-8", "replace") for one in (base, *updates)])
    try:
        tasks = TaskDocument.load(list_id, [base, *later], peer=1).tasks
    except NotATaskListError:
        # The rows say the same, and the list begins again with them.
        rows = tx.all(_QUERIES["rows_of_list"], {"id": list_id})
        tasks = tuple(msgspec.json.decode(text(row[0]), type=Task) for row in rows)
    return _List(list_id, head_update, tasks, history)


def _count(found: _List, words: Forgotten) -> int:
    """The tasks of a list that hold the words; 1 where only its history does."""
    now = sum(_without(task, words) != task for task in found.tasks)
    return now or int(words.is_in(found.history) and any(map(words.holds, _texts(json.loads(found.history)))))


def _texts(value: Json) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        # Links and files are keys.
        return [one for key, item in value.items() for one in (key, *_texts(item))]
    if isinstance(value, Sequence):
        return [one for item in value for one in _texts(item)]
    return []


def _without(task: Task, words: Forgotten) -> Task:
    """The task without the words, in whatever field they are."""
    mask, source = words.mask, task.source
    without = replace(
        task,
        title=mask(task.title)[:LONGEST_TITLE],
        description=mask(task.description),
        owner=None if task.owner is None else mask(task.owner),
        steps=tuple(replace(step, text=mask(step.text)) for step in task.steps),
        comments=tuple(replace(one, author=mask(one.author), text=mask(one.text)) for one in task.comments),
        checks=tuple(replace(one, command=mask(one.command), output=mask(one.output)) for one in task.checks),
        files=tuple(sorted({mask(path) for path in task.files})),
        labels=tuple(sorted({mask(label) for label in task.labels})),
        source=None if source is None else replace(source, key=mask(source.key), url=mask(source.url)),
        read_before=tuple(sorted({mask(name) for name in task.read_before})),
    )
    if without == task or without.source is None:
        return without
    # Digests of short words could be guessed.
    return replace(without, source=TaskSource(without.source.key, without.source.number, without.source.url))


def _peer(list_id: str, number: int) -> int:
    return int(sha256_hex(f"{list_id} {number}".encode())[:15], 16)


def _forget_all(tx: Transaction, words: Forgotten, at_ms: int) -> int:
    return forget_in_tasks(tx, words, at_ms=at_ms)


FORGETTING = ForgettingElsewhere(tasks_with, _forget_all)
"""The part of tasks in the forgetting of memory."""
