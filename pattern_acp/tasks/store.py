"""Tasks in the constellation: lists as documents, and the rows and edges that follow from them.

Owns: the tables of tasks. Must not know: the model, sessions, or how tasks are shown. A change is made on the document;
its event, its update, the task's row and its edges are one transaction (rules R1, R2), so none is ever ahead.

An owner's tasks are in lists of at most `LARGEST_LIST`: what a change costs is what loading a list costs, which grows
with its length (0.5 ms for 50 tasks, 5 ms for 500), however many tasks there are.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.tool_calls import PlanPriority
from pattern_acp.journal.events import TasksChanged
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.indexing import index_listed
from pattern_acp.tasks.document import TaskDocument
from pattern_acp.tasks.model import (
    LONGEST_TITLE,
    OPEN,
    GraphEdge,
    GraphQuery,
    LinkKind,
    NotATaskListError,
    Task,
    TaskComment,
    TaskEffort,
    TaskFilter,
    TaskGraph,
    TaskLink,
    TaskNotFoundError,
    TaskPatch,
    TaskRefusedError,
    TaskRow,
    TaskStatus,
    patched,
)

_QUERIES = load_queries("pattern_acp.tasks")

Owners: TypeAlias = Sequence[tuple[Scope, str]]
"""The owners whose tasks are in sight."""

LARGEST_LIST = 64
"""Most tasks of a list."""

REBASE_UPDATES = 8
"""Updates behind the base of a list that make a new base due."""

NO_FRONTIERS = b"\x00"
"""The version of an empty list."""

_KNOWN = 5
_STATES = {
    TaskStatus.IN_PROGRESS: 0,
    TaskStatus.BLOCKED: 1,
    TaskStatus.TODO: 2,
    TaskStatus.DONE: 3,
    TaskStatus.DROPPED: 4,
}
_PRIORITIES = {PlanPriority.HIGH: 0, PlanPriority.MEDIUM: 1, PlanPriority.LOW: 2}


class TaskWriter(Struct, frozen=True):
    """The one who writes: the stream of its events, and what they say of it. `peer` is the Loro peer of the process."""

    stream: str
    peer: int
    at_ms: int
    actor: Actor
    origin: Origin
    turn_id: TurnId | None = None
    call_id: ToolCallId | None = None
    read: tuple[str, ...] = ()
    """Names of the data of others that the turn has read: words written now carry them."""


class ListUpdate(Struct, frozen=True):
    """An update of a list, and the number of its event."""

    number: int
    data: bytes
    seq: int


class _OpenList(Struct, frozen=True):
    list_id: str
    document: TaskDocument
    base_update: int
    head_update: int
    size: int


MERGE = "merge"
"""The operation of an update that came from another copy of a list."""


def create_task(tx: Transaction, scope: Scope, owner: str, task: Task, writer: TaskWriter, *, list_id: str) -> Task:
    """Append a task to the owner's newest list, or to a new list `list_id`; returns it with its number.

    Raises:
        TaskRefusedError: it has no title.
        NotATaskListError: the list is damaged.
    """
    task = _with_source(None, replace(checked(task), number=_next_number(tx)), writer)
    params: dict[str, SqlValue] = {"scope": scope.value, "owner": owner, "most": LARGEST_LIST}
    row = tx.one(_QUERIES["newest_list"], params)
    if row is not None:
        opened = _open(tx, row, writer.peer)
        before = opened.document.frontiers
        opened.document.add(task)
        _commit(tx, opened, before, "create", [task], writer, added=1)
        return task
    document = TaskDocument(list_id, writer.peer)
    document.add(task)
    update = document.export_update(NO_FRONTIERS)
    seq = _event(tx, list_id, 1, "create", [task], update, writer)
    fields: dict[str, SqlValue] = {"id": list_id, "scope": scope.value, "owner": storable(owner), "size": 1, "seq": seq}
    tx.execute(_QUERIES["insert_list"], {**fields, "base": document.shallow_snapshot()})
    tx.execute(_QUERIES["insert_update"], {"id": list_id, "number": 1, "data": update, "seq": seq})
    project_tasks(tx, list_id, [task], seq)
    return task


def change_task(
    tx: Transaction, owners: Owners, ref: str, operation: str, change: Callable[[Task], Task], writer: TaskWriter
) -> Task:
    """Change one task by a function of what it is; a change that leaves it as it is writes nothing.

    Raises:
        TaskNotFoundError: no such task is in sight.
        TaskRefusedError: the change breaks a rule.
        NotATaskListError: its list is damaged.
    """
    list_id, task_id = _located(tx, owners, ref)
    row = tx.one(_QUERIES["get_list"], {"id": list_id})
    if row is None:
        raise NotATaskListError(list_id, "it is missing")
    opened = _open(tx, row, writer.peer)
    before = opened.document.find(task_id)
    if before is None:
        raise NotATaskListError(list_id, f"the task {task_id} is not in it")
    after = checked(change(before))
    if after == before:
        return before
    after = _with_source(before, after, writer)
    version = opened.document.frontiers
    opened.document.change(before, after)
    _commit(tx, opened, version, operation, [after], writer)
    return after


def patch_task(tx: Transaction, owners: Owners, ref: str, patch: TaskPatch, writer: TaskWriter) -> Task:
    """Change fields of a task.

    Raises:
        TaskRefusedError: the patch is empty or breaks a rule.
        TaskNotFoundError, NotATaskListError: see `change_task`.
    """
    if patch.is_empty:
        raise TaskRefusedError(f"Nothing of the task {ref} was changed: name a field to change.")
    return change_task(tx, owners, ref, "update", lambda task: patched(task, patch, writer.at_ms), writer)


def link_tasks(tx: Transaction, owners: Owners, source: str, kind: LinkKind, target: str, writer: TaskWriter) -> Task:
    """Add a link to the source task, and to it alone; one that is there is left as it is. Returns the source.

    Raises:
        TaskNotFoundError: one of them is not in sight.
        NotATaskListError: see `change_task`.
    """
    link = TaskLink(kind, find_task(tx, owners, target).id)

    def linked(task: Task) -> Task:
        if link in task.links:
            return task
        return replace(task, links=_sorted((*task.links, link)), updated_ms=writer.at_ms)

    return change_task(tx, owners, source, "link", linked, writer)


def unlink_tasks(tx: Transaction, owners: Owners, source: str, kind: LinkKind, target: str, writer: TaskWriter) -> Task:
    """Take a link from the source task; one that is not there changes nothing. Returns the source.

    Raises:
        TaskNotFoundError, NotATaskListError: see `link_tasks`.
    """
    link = TaskLink(kind, find_task(tx, owners, target).id)

    def unlinked(task: Task) -> Task:
        if link not in task.links:
            return task
        return replace(task, links=tuple(one for one in task.links if one != link), updated_ms=writer.at_ms)

    return change_task(tx, owners, source, "unlink", unlinked, writer)


def comment_task(tx: Transaction, owners: Owners, ref: str, author: str, words: str, writer: TaskWriter) -> Task:
    """Append a comment by `author`, which the program sets.

    Raises:
        TaskRefusedError: it has no text.
        TaskNotFoundError, NotATaskListError: see `change_task`.
    """
    if not words.strip():
        raise TaskRefusedError(f"The comment on the task {ref} has no text.")
    comment = TaskComment(author, writer.at_ms, words)
    return change_task(
        tx,
        owners,
        ref,
        "comment",
        lambda task: replace(task, comments=(*task.comments, comment), updated_ms=writer.at_ms),
        writer,
    )


def merge_update(tx: Transaction, list_id: str, update: bytes, writer: TaskWriter) -> tuple[Task, ...]:
    """Take in an update of another copy of a list; returns the tasks as they are then.

    Raises:
        NotATaskListError: there is no such list, or the update is damaged or builds on something that is missing.
    """
    row = tx.one(_QUERIES["get_list"], {"id": list_id})
    if row is None:
        raise NotATaskListError(list_id, "it is missing")
    # From its beginning: the other copy may have continued from before what the base still has.
    whole = TaskDocument.load(list_id, [one.data for one in updates_of(tx, list_id)], peer=writer.peer)
    opened = replace(_open(tx, row, writer.peer), document=whole)
    before = opened.document.frontiers
    known = len(opened.document.tasks)
    opened.document.merge(update)
    tasks = opened.document.tasks
    if opened.document.frontiers != before:
        _commit(tx, opened, before, MERGE, tasks, writer, added=len(tasks) - known)
    return tasks


def adopt_list(
    tx: Transaction,
    list_id: str,
    owner: tuple[Scope, str],
    tasks: Sequence[Task],
    updates: Sequence[ListUpdate],
    base: bytes,
) -> None:
    """Store a list of another constellation as it was there: its updates, and the tasks that they come to.

    Raises:
        DatabaseError: the list is there already, or the file cannot be written.
    """
    newest = updates[-1]
    fields: dict[str, SqlValue] = {
        "id": list_id,
        "scope": owner[0].value,
        "owner": storable(owner[1]),
        "size": len(tasks),
        "base": base,
        "head": newest.number,
        "seq": newest.seq,
    }
    tx.execute(_QUERIES["adopt_list"], fields)
    for one in updates:
        row: dict[str, SqlValue] = {"id": list_id, "number": one.number, "data": one.data, "seq": one.seq}
        tx.execute(_QUERIES["insert_update"], row)
    project_tasks(tx, list_id, tasks, newest.seq)


def give_own_numbers(tx: Transaction, list_id: str, owner: tuple[Scope, str], writer: TaskWriter) -> tuple[Task, ...]:
    """Give tasks of a list another number where a task of another list has theirs; returns those that got one.

    Raises:
        NotATaskListError: the list is damaged.
    """
    taken = [text(row[0]) for row in tx.all(_QUERIES["with_taken_number"], {"id": list_id})]
    return tuple(
        change_task(tx, (owner,), task, "renumber", lambda one: replace(one, number=_next_number(tx)), writer)
        for task in taken
    )


def settle_numbers(tx: Transaction, writer: TaskWriter) -> tuple[Task, ...]:
    """Give each task that has the number of an older one another, whatever their lists; returns those that got one.

    Raises:
        NotATaskListError: a list is damaged.
    """
    return tuple(
        change_task(
            tx,
            ((Scope(text(row[1])), text(row[2])),),
            text(row[0]),
            "renumber",
            lambda one: replace(one, number=_next_number(tx)),
            writer,
        )
        for row in tx.all(_QUERIES["with_older_number"])
    )


def updates_of(tx: Transaction, list_id: str) -> tuple[ListUpdate, ...]:
    """Read the updates that are stored of a list, in order; none for a list that is not there."""
    rows = tx.all(_QUERIES["updates_of"], {"id": list_id})
    return tuple(ListUpdate(integer(row[0]), data(row[1]), integer(row[2])) for row in rows)


def find_task(tx: Transaction, owners: Owners, ref: str) -> Task:
    """The task in sight of a reference: `12`, `#12` or its id.

    Raises:
        TaskNotFoundError: names the newest open tasks.
    """
    row = _row_of(tx, owners, ref)
    if row is None:
        newest = list_tasks(tx, owners, TaskFilter(statuses=OPEN, limit=_KNOWN))
        raise TaskNotFoundError(ref, tuple(f"{one.task.ref} {one.task.title}" for one in newest))
    return _decoded(row[1])


def task_in_sight(tx: Transaction, owners: Owners, ref: str) -> Task | None:
    """The task of a reference, or None, also for no reference."""
    row = _row_of(tx, owners, ref) if ref else None
    return None if row is None else _decoded(row[1])


def numbers_around(tx: Transaction, owners: Owners, ref: str) -> dict[str, str]:
    """The numbers of a task and of those that it links to, by id.

    Raises:
        TaskNotFoundError: the task is not in sight.
    """
    graph = walk(tx, owners, GraphQuery(ref, "forward", depth=1))
    return {task.id: str(task.number) for task in graph.nodes}


def active_task(tx: Transaction, session: str) -> Task | None:
    """The task that a session works on, or None."""
    row = tx.one(_QUERIES["active_task"], {"session": storable(session)})
    return None if row is None else _decoded(row[1])


def list_tasks(tx: Transaction, owners: Owners, asked: TaskFilter) -> tuple[TaskRow, ...]:
    """The tasks that fit: what is worked on first, then by priority and number. Two statements, however many there are.

    A filter that matches nothing asks the database nothing.
    """
    if asked.is_impossible:
        return ()
    params: dict[str, SqlValue] = {
        "owners": json.dumps(owners),
        "statuses": None if asked.statuses is None else json.dumps(asked.statuses),
        "doers": None if asked.owners is None else json.dumps(asked.owners),
        "keyword": storable(asked.keyword.casefold()),
        "label": storable(asked.label),
        "blocks": asked.blocks,
        "blocked": None if asked.has_blockers is None else int(asked.has_blockers),
        "most": asked.limit,
    }
    tasks = [_decoded(row[0]) for row in tx.all(_QUERIES["list_tasks"], params)]
    if not tasks:
        return ()
    blockers: dict[str, list[int]] = {}
    for row in tx.all(_QUERIES["blockers_of"], {"ids": json.dumps([task.id for task in tasks])}):
        blockers.setdefault(text(row[0]), []).append(integer(row[1]))
    return tuple(TaskRow(task, tuple(blockers.get(task.id, ()))) for task in tasks)


def measured_effort(tx: Transaction, task: Task) -> TaskEffort:
    """Tokens, money and time of the turns in which a session worked on a task; its own measure without any."""
    row = tx.one(_QUERIES["effort_of_task"], {"id": task.id})
    found = TaskEffort() if row is None else TaskEffort(integer(row[0]), integer(row[1]), integer(row[2]))
    return task.actual if found == TaskEffort() else found


class TaskFile(Struct, frozen=True):
    """A file of a task as it was written.

    `base` is what an edit is compared with. The hashes are of the file as it was written and as it is being written;
    empty for none.
    """

    base: str
    file_hash: str
    next_hash: str = ""


def tasks_in_files(
    tx: Transaction, folder: str, scope: Scope, owner: str, *, most: int
) -> tuple[tuple[Task, TaskFile | None], ...]:
    """The tasks of an owner that are open or have a file in a folder, with that file."""
    params: dict[str, SqlValue] = {"folder": folder, "scope": scope.value, "owner": storable(owner), "most": most}
    return tuple(
        (_decoded(row[0]), None if row[1] is None else TaskFile(text(row[1]), text(row[2]), text(row[3])))
        for row in tx.all(_QUERIES["tasks_in_files"], params)
    )


def note_task_file(tx: Transaction, folder: str, task_id: str, file: TaskFile) -> None:
    """Note that a file is being written, or was."""
    known: dict[str, SqlValue] = {"base": file.base, "file_hash": file.file_hash, "next_hash": file.next_hash}
    tx.execute(_QUERIES["put_task_file"], {"folder": folder, "task_id": task_id, **known})


def drop_task_file(tx: Transaction, folder: str, task_id: str) -> None:
    """Forget a file that is no longer stored."""
    tx.execute(_QUERIES["drop_task_file"], {"folder": folder, "task_id": task_id})


def has_task_files(tx: Transaction, folder: str) -> bool:
    """Return whether tasks were written as files into a folder."""
    return tx.one(_QUERIES["has_task_files"], {"folder": folder}) is not None


def numbers_of(tx: Transaction, owners: Owners, ids: Sequence[str]) -> dict[str, str]:
    """The numbers of those of these tasks that are in sight, by id."""
    if not ids:
        return {}
    rows = tx.all(_QUERIES["tasks_of"], {"ids": json.dumps(sorted(set(ids))), "owners": json.dumps(owners)})
    return {task.id: str(task.number) for task in (_decoded(row[0]) for row in rows)}


def imported_tasks(tx: Transaction, owners: Owners) -> dict[str, Task]:
    """The tasks in sight that were imported, by what they were imported as."""
    rows = tx.all(_QUERIES["imported_tasks"], {"owners": json.dumps(owners)})
    return {text(row[0]): _decoded(row[1]) for row in rows}


def walk(tx: Transaction, owners: Owners, asked: GraphQuery) -> TaskGraph:
    """The tasks around one, breadth first: one statement a level, and one for the tasks themselves.

    Raises:
        TaskNotFoundError: the root is not in sight.
    """
    root = find_task(tx, owners, asked.root)
    seen, level, truncated = {root.id: root}, [root.id], False
    edges: dict[GraphEdge, None] = {}
    forward, reverse = asked.direction != "reverse", asked.direction != "forward"
    for _ in range(asked.depth):
        if not level:
            break
        found = _edges_at(tx, level, forward=forward, reverse=reverse)
        ends = dict.fromkeys(end for edge in found for end in (edge.source, edge.target) if end not in seen)
        left = max(0, asked.most - len(seen))
        wanted = list(ends)[:left]
        truncated = truncated or len(wanted) < len(ends)
        rows = tx.all(_QUERIES["tasks_of"], {"ids": json.dumps(wanted), "owners": json.dumps(owners)}) if wanted else []
        reached = [_decoded(row[0]) for row in rows]
        seen |= {task.id: task for task in reached}
        edges |= dict.fromkeys(found)
        level = [task.id for task in reached]
    if level and not truncated and asked.depth:
        beyond = _edges_at(tx, level, forward=forward, reverse=reverse)
        truncated = any(end not in seen for edge in beyond for end in (edge.source, edge.target))
        edges |= dict.fromkeys(beyond)
    inside = tuple(edge for edge in edges if edge.source in seen and edge.target in seen)
    return TaskGraph(tuple(seen.values()), inside, truncated)


def checked(task: Task) -> Task:
    """The task as it can be stored: without halves of characters, and with a title.

    Raises:
        TaskRefusedError: it has no title, or a title of several lines.
    """
    title = " ".join(task.title.split())
    if not title:
        raise TaskRefusedError("A task needs a title: one line that says what is to be done.")
    if len(title) > LONGEST_TITLE:
        raise TaskRefusedError(f"A title has at most {LONGEST_TITLE} characters; put the rest into the description.")
    labels = tuple(sorted({words for label in task.labels if (words := " ".join(label.split()))}))
    return _storable(replace(task, title=title, labels=labels))


def _with_source(before: Task | None, after: Task, writer: TaskWriter) -> Task:
    """The task, which names the data of others behind words that are new in it."""
    known = frozenset(after.read_before)
    if known.issuperset(writer.read) or (before is not None and set(after.said) <= set(before.said)):
        return after
    new = [name for name in writer.read if name not in known]
    return replace(after, read_before=tuple(sorted([*after.read_before, *new][:MOST_READ])))


MOST_READ = 8
"""Most names of data of others that one task carries."""


def _storable(task: Task) -> Task:
    try:
        msgspec.json.encode(task)
    except UnicodeEncodeError:
        plain = json.loads(storable(json.dumps(msgspec.to_builtins(task), ensure_ascii=False)))
        return msgspec.convert(plain, Task)
    return task


def _located(tx: Transaction, owners: Owners, ref: str) -> tuple[str, str]:
    row = _row_of(tx, owners, ref)
    if row is None:
        find_task(tx, owners, ref)
        raise TaskNotFoundError(ref)
    return text(row[0]), _decoded(row[1]).id


def _row_of(tx: Transaction, owners: Owners, ref: str) -> Row | None:
    plain = ref.strip().removeprefix("#")
    number = int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 16 else None
    params: dict[str, SqlValue] = {"id": storable(plain), "number": number, "owners": json.dumps(owners)}
    return tx.one(_QUERIES["find_task"], params)


def _next_number(tx: Transaction) -> int:
    row = tx.one(_QUERIES["next_number"])
    return 1 if row is None else integer(row[0])


def _open(tx: Transaction, row: Row, peer: int) -> _OpenList:
    list_id, base_update, head_update = text(row[0]), integer(row[2]), integer(row[3])
    parts = [data(row[1])]
    if head_update > base_update:
        rows = tx.all(_QUERIES["list_updates"], {"id": list_id, "after": base_update})
        parts += [data(update[0]) for update in rows]
    document = TaskDocument.load(list_id, parts, peer=peer)
    return _OpenList(list_id, document, base_update, head_update, integer(row[4]))


def _commit(
    tx: Transaction,
    opened: _OpenList,
    before: bytes,
    operation: str,
    tasks: Sequence[Task],
    writer: TaskWriter,
    *,
    added: int = 0,
) -> None:
    update, number = opened.document.export_update(before), opened.head_update + 1
    seq = _event(tx, opened.list_id, number, operation, tasks, update, writer)
    # What came from another copy may build on what is in the history of no base before it.
    due = operation == MERGE or number - opened.base_update >= REBASE_UPDATES
    fields: dict[str, SqlValue] = {"id": opened.list_id, "number": number, "seq": seq}
    tx.execute(_QUERIES["insert_update"], {**fields, "data": update})
    base = opened.document.shallow_snapshot() if due else None
    tx.execute(_QUERIES["advance_list"], {**fields, "size": opened.size + added, "base": base})
    project_tasks(tx, opened.list_id, tasks, seq)


def _event(
    tx: Transaction,
    list_id: str,
    number: int,
    operation: str,
    tasks: Sequence[Task],
    update: bytes,
    writer: TaskWriter,
) -> int:
    event = TasksChanged(
        list_id,
        number,
        operation,
        tuple(task.id for task in tasks),
        sha256_hex(update),
        writer.turn_id,
        writer.call_id,
    )
    return append(tx, writer.stream, event, actor=writer.actor, origin=writer.origin, at_ms=writer.at_ms).seq


def project_tasks(tx: Transaction, list_id: str, tasks: Iterable[Task], seq: int) -> None:
    """Write the rows and edges that follow from tasks of a list; doing it again changes nothing."""
    for task in tasks:
        words = [
            task.title,
            task.description,
            *(step.text for step in task.steps),
            *(one.text for one in task.comments),
            *task.labels,
        ]
        fields: dict[str, SqlValue] = {
            "id": task.id,
            "number": task.number,
            "list_id": list_id,
            "status": task.status.value,
            "rank": 10 * _STATES[task.status] + _PRIORITIES[task.priority],
            "doer": task.owner or "",
            "session": task.session or "",
            "words": "\n".join(words).casefold(),
            "updated_ms": task.updated_ms,
            "task": msgspec.json.encode(task).decode(),
            "seq": seq,
        }
        tx.execute(_QUERIES["put_task"], fields)
        keep = json.dumps([json.dumps([link.kind, link.target], separators=(",", ":")) for link in task.links])
        tx.execute(_QUERIES["delete_edges"], {"source": task.id, "keep": keep})
        for link in task.links:
            edge: dict[str, SqlValue] = {"source": task.id, "kind": link.kind.value, "target": link.target, "seq": seq}
            tx.execute(_QUERIES["put_edge"], edge)
        _index(tx, list_id, task, seq)


def _index(tx: Transaction, list_id: str, task: Task, seq: int) -> None:
    """Let a task be found by its words as they are now."""
    row = tx.one(_QUERIES["owner_of_list"], {"id": list_id})
    if row is None:
        return
    item = f"{task.number}.{task.status}"
    steps = "\n".join(f"- {step.text}" for step in task.steps)
    said = "\n\n".join(part for part in (f"{task.ref} {task.title}", task.description, steps) if part)
    texts = [(item, said), *((item, f"{task.ref} {one.author}: {one.text}") for one in task.comments)]
    index_listed(tx, "task", task.id, text(row[0]), texts, at_ms=task.updated_ms, seq=seq)


def index_tasks(tx: Transaction) -> None:
    """Let every task be found; what the index has of them already stays as it is."""
    for row in tx.all(_QUERIES["every_task"]):
        _index(tx, text(row[0]), _decoded(row[1]), integer(row[2]))


def tasks_since(tx: Transaction, owners: Owners, after: int, *, session: str, limit: int) -> tuple[Task, ...]:
    """The tasks that were changed behind an event, the newest first, without those of a session."""
    params: dict[str, SqlValue] = {"owners": json.dumps(owners), "after": after, "session": session, "most": limit}
    return tuple(_decoded(row[0]) for row in tx.all(_QUERIES["tasks_since"], params))


def _edges_at(tx: Transaction, ids: Sequence[str], *, forward: bool, reverse: bool) -> list[GraphEdge]:
    params: dict[str, SqlValue] = {"ids": json.dumps(ids), "forward": int(forward), "reverse": int(reverse)}
    rows = tx.all(_QUERIES["edges_at"], params)
    return [GraphEdge(text(row[0]), LinkKind(text(row[1])), text(row[2])) for row in rows]


def _sorted(links: Iterable[TaskLink]) -> tuple[TaskLink, ...]:
    return tuple(sorted(links, key=lambda link: f"{link.kind} {link.target}"))


def _decoded(stored: SqlValue) -> Task:
    return msgspec.json.decode(text(stored), type=Task)
