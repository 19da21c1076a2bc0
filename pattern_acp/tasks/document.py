"""One list of tasks as a Loro document: a movable list of maps. The only module of tasks that imports loro.

Owns: the containers of a task's fields, and which operation a change of a field is, so that what several writers
change of different fields, steps, links and comments survives a merge. Must not know: SQL, or the rules of a task.
"""

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import loro
import msgspec

from pattern_acp.memory.document import is_from_loro, new_in
from pattern_acp.tasks.model import (
    LONGEST_TITLE,
    LinkKind,
    NotATaskListError,
    Task,
    TaskCheck,
    TaskComment,
    TaskEffort,
    TaskLink,
    TaskSource,
    TaskStep,
)

if TYPE_CHECKING:
    from loro import LoroValue

_TASKS = "tasks"
"""Name of the root container."""

_PLAIN = (
    *("id", "number", "title", "description", "status", "priority", "owner", "session"),
    *("created_ms", "started_ms", "completed_ms", "updated_ms"),
)
"""Fields that are one value each; None is no value."""

_VALUES = ("estimate", "actual", "source")
"""Fields that are one value of several parts."""
_ORDERED = ("steps", "checks")
_STEPS, _CHECKS, _COMMENTS, _LINKS, _FILES, _READ = "steps", "checks", "comments", "links", "files", "read_before"
_SETS = (_FILES, "labels")

_LINK_KINDS = frozenset(kind.value for kind in LinkKind)

_WORDS = frozenset({"text", "author", "command", "output", "key", "url"})
"""Fields of steps, checks, comments and sources that say something."""


class TaskDocument:
    """A list of tasks with history. Made, used and dropped inside one transaction; `list_id` is what errors call it."""

    __slots__ = ("_document", "_list_id", "_tasks")

    def __init__(self, list_id: str, peer: int) -> None:
        """An empty list; `peer` is the Loro peer of this process start."""
        self._list_id = list_id
        with self._converted():
            self._document = loro.LoroDoc()
            self._document.peer_id = peer
            self._tasks = self._document.get_movable_list(_TASKS)

    @classmethod
    def load(cls, list_id: str, parts: Sequence[bytes], *, peer: int) -> "TaskDocument":
        """The list of a snapshot and the updates behind it, or of all its updates.

        Raises:
            NotATaskListError: a part is damaged, or one that others build on is missing.
        """
        document = cls(list_id, peer)
        for part in parts:
            document.merge(part)
        return document

    def merge(self, update: bytes) -> None:
        """Take in an update of another writer, in any order of those that do not build on each other.

        Raises:
            NotATaskListError: it is damaged, or builds on a change that is missing.
        """
        with self._converted():
            status = self._document.import_(new_in(self._document, update))
        if status.pending is not None:
            raise NotATaskListError(self._list_id, "a change is missing that later ones build on")

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Every task, in the order of the list. Raises NotATaskListError where an entry is no task."""
        with self._converted():
            stored = cast("list[object]", self._tasks.get_deep_value())
        return tuple(self._read(entry) for entry in stored)

    def find(self, task_id: str) -> Task | None:
        """The task of an id, or None. Raises NotATaskListError where it cannot be read."""
        found = self._map_of(task_id)
        if found is None:
            return None
        with self._converted():
            return self._read(found.get_deep_value())

    @property
    def frontiers(self) -> bytes:
        """The version now, encoded; equal bytes are equal versions."""
        with self._converted():
            return self._document.oplog_frontiers.encode()

    def add(self, task: Task) -> None:
        """Append a task."""
        with self._converted():
            stored = cast("loro.LoroMap", self._tasks.insert_container(len(self._tasks), loro.LoroMap()))
            # All of them at once: a container that two writers make for themselves would hide what the other puts in.
            for name in _ORDERED:
                stored.insert_container(name, loro.LoroMovableList())
            stored.insert_container(_COMMENTS, loro.LoroList())
            for name in (_LINKS, *_SETS, _READ):
                stored.insert_container(name, loro.LoroMap())
        self._write(stored, None, task)

    def change(self, before: Task, after: Task) -> None:
        """Write the differences between a task as it is in the list and as it is to be.

        Raises:
            NotATaskListError: the task is not in the list.
        """
        stored = self._map_of(before.id)
        if stored is None:
            raise NotATaskListError(self._list_id, f"the task {before.id} is not in it")
        self._write(stored, before, after)

    def export_update(self, since: bytes) -> bytes:
        """Everything behind version `since`, as an update."""
        with self._converted():
            version = self._document.frontiers_to_vv(loro.Frontiers.decode(since))
            if version is None:
                raise NotATaskListError(self._list_id, "it never had the version asked for")
            return self._document.export(loro.ExportMode.Updates(version))

    def shallow_snapshot(self) -> bytes:
        """The state now without the history before it."""
        with self._converted():
            return self._document.export(loro.ExportMode.ShallowSnapshot(self._document.oplog_frontiers))

    def full_snapshot(self) -> bytes:
        """The state now with all history."""
        with self._converted():
            return self._document.export(loro.ExportMode.Snapshot())

    def without_words(self, mask: Callable[[str], str]) -> "TaskDocument":
        """The same list with the same changes under the same ids, masked in whatever users and the agent write.

        So a copy with the words and one without still merge, and all devices that mask the same have the same.

        Raises:
            NotATaskListError: it does not hold all of its history.
        """
        changes = cast("dict[str, list[dict[str, list[dict[str, dict[str, object]]]]]]", json.loads(self.everything))
        for change in changes["changes"]:
            for operation in change["ops"]:
                _mask_operation(operation["content"], mask)
        made = TaskDocument(self._list_id, 1)
        with made._converted():
            made._document.import_json_updates(json.dumps(changes, ensure_ascii=False))
        if made.frontiers != self.frontiers:
            raise NotATaskListError(self._list_id, "it does not hold all of its history")
        return made

    @property
    def everything(self) -> str:
        """All operations that it was made of, as JSON: every text that a version had is in it."""
        with self._converted():
            return self._document.export_json_updates(loro.VersionVector(), self._document.oplog_vv)

    def _map_of(self, task_id: str) -> loro.LoroMap | None:
        with self._converted():
            # From the end: what is new is changed most.
            for at in range(len(self._tasks) - 1, -1, -1):
                stored = _map_at(self._tasks, at)
                found = None if stored is None else stored.get("id")
                if isinstance(found, loro.ValueOrContainer.Value) and found.value == task_id:
                    return stored
        return None

    def _read(self, stored: object) -> Task:
        try:
            values = dict(cast("dict[str, object]", stored))
            edges = sorted(cast("dict[str, object]", values.get(_LINKS, {})))
            links = tuple(
                TaskLink(LinkKind(kind), target) for kind, _, target in (edge.partition(" ") for edge in edges)
            )
            sets = {name: tuple(sorted(cast("dict[str, object]", values.get(name, {})))) for name in (*_SETS, _READ)}
            return msgspec.convert({**values, _LINKS: links, **sets}, Task)
        except (TypeError, ValueError) as error:
            raise NotATaskListError(self._list_id, str(error)) from error

    def _write(self, stored: loro.LoroMap, before: Task | None, after: Task) -> None:
        with self._converted():
            for name in _PLAIN:
                value = getattr(after, name)
                if before is None or getattr(before, name) != value:
                    _set(stored, name, None if value is None else msgspec.to_builtins(value))
            for name in _VALUES:
                parts: TaskEffort | TaskSource | None = getattr(after, name)
                if before is None or getattr(before, name) != parts:
                    _set(stored, name, None if parts is None else msgspec.to_builtins(parts))
            for name in _ORDERED:
                old: tuple[TaskStep | TaskCheck, ...] = () if before is None else getattr(before, name)
                _reorder(_list_of(stored, name), old, getattr(after, name))
            comments = _comments_of(stored)
            for comment in after.comments[0 if before is None else len(before.comments) :]:
                comments.insert(len(comments), _value(comment))
            _set_keys(_keys_of(stored, _LINKS), _edges(before), _edges(after))
            for name in _SETS:
                old_keys: set[str] = set(getattr(before, name)) if before else set()
                if (keys := set[str](getattr(after, name))) != old_keys:
                    _set_keys(_keys_of(stored, name), old_keys, keys)
            if after.read_before:
                _set_keys(_keys_of(stored, _READ), set(before.read_before if before else ()), set(after.read_before))
            self._document.commit()

    @contextmanager
    def _converted(self) -> Generator[None, None, None]:
        """Convert what loro raises."""
        try:
            yield
        except BaseException as error:
            if is_from_loro(error):
                raise NotATaskListError(self._list_id, str(error)) from error
            raise


def _mask_operation(content: dict[str, object], mask: Callable[[str], str]) -> None:
    """Mask what an operation brings; names of fields, states, ids and links stay."""
    key, value = content.get("key"), content.get("value")
    if isinstance(key, str) and key not in Task.__struct_fields__ and key.partition(" ")[0] not in _LINK_KINDS:
        # One of a set, such as a file or a label.
        content["key"] = mask(key)
    elif key == "title" and isinstance(value, str):
        content["value"] = mask(value)[:LONGEST_TITLE]
    elif key in {"description", "owner"} and isinstance(value, str):
        content["value"] = mask(value)
    elif isinstance(value, list):
        content["value"] = [_masked_item(item, mask) for item in cast("list[object]", value)]
    elif isinstance(value, dict):
        content["value"] = _masked_item(cast("object", value), mask)


def _masked_item(item: object, mask: Callable[[str], str]) -> object:
    """A step, check, comment or source without words."""
    if not isinstance(item, dict):
        return item
    fields = cast("dict[str, object]", item)
    masked = {
        name: mask(value) if name in _WORDS and isinstance(value, str) else value for name, value in fields.items()
    }
    if masked != fields and "key" in masked:
        # Digests of short words could be guessed.
        return {name: value for name, value in masked.items() if name in {"key", "number", "url"}}
    return masked


def _edges(task: Task | None) -> set[str]:
    return set() if task is None else {f"{link.kind} {link.target}" for link in task.links}


def _value(item: TaskStep | TaskCheck | TaskComment) -> "LoroValue":
    return cast("LoroValue", msgspec.to_builtins(item))


def _set(stored: loro.LoroMap, name: str, value: "LoroValue") -> None:
    if value is not None:
        stored.insert(name, value)
    elif name in stored.keys():  # noqa: SIM118 - a LoroMap is no mapping
        stored.delete(name)


def _set_keys(stored: loro.LoroMap, before: set[str], after: set[str]) -> None:
    """Add and remove keys; what others added meanwhile stays."""
    for key in sorted(before - after):
        stored.delete(key)
    for key in sorted(after - before):
        stored.insert(key, True)


def _reorder(
    stored: loro.LoroMovableList, before: Sequence[TaskStep | TaskCheck], after: Sequence[TaskStep | TaskCheck]
) -> None:
    """Make a list read as `after`, without touching equal items at both ends."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = len(before) - start - end, len(after) - start - end
    for at in range(min(old, new)):
        if before[start + at] != after[start + at]:
            stored.set(start + at, _value(after[start + at]))
    for at in range(old, new):
        stored.insert(start + at, _value(after[start + at]))
    if old > new:
        stored.delete(start + new, old - new)


def _map_at(items: loro.LoroMovableList, at: int) -> loro.LoroMap | None:
    found = items.get(at)
    stored = found.container if isinstance(found, loro.ValueOrContainer.Container) else None
    return stored if isinstance(stored, loro.LoroMap) else None


def _list_of(stored: loro.LoroMap, name: str) -> loro.LoroMovableList:
    return cast("loro.LoroMovableList", stored.get_or_create_container(name, loro.LoroMovableList()))


def _comments_of(stored: loro.LoroMap) -> loro.LoroList:
    return cast("loro.LoroList", stored.get_or_create_container(_COMMENTS, loro.LoroList()))


def _keys_of(stored: loro.LoroMap, name: str) -> loro.LoroMap:
    return cast("loro.LoroMap", stored.get_or_create_container(name, loro.LoroMap()))
