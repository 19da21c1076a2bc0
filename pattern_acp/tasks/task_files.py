"""One task as a Markdown file: what is written, what is read of an edited one, and the merge of both with the task now.

Owns: the form of the file, and a merge by fields. Must not know: where files are, or how tasks are stored. It says
nothing that changes without the task, so that the differences of a file are those of its task.
"""

import csv
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import TaskError
from pattern_acp.domain.tool_calls import PlanPriority
from pattern_acp.memory.diffs import merge_texts
from pattern_acp.tasks.model import (
    BOXES,
    LinkKind,
    Task,
    TaskCheck,
    TaskComment,
    TaskLink,
    TaskPatch,
    TaskStatus,
    TaskStep,
    patched,
)

_T = TypeVar("_T")

_HEAD = re.compile(r"---\n(?P<head>(?:[^\n]*\n)*?)---\n(?P<text>.*)", re.DOTALL)
_SECTIONS = ("Steps", "Checks", "Files", "Comments")
_SECTION = re.compile(rf"## (?P<name>{'|'.join(_SECTIONS)})")
_TO_ESCAPE = re.compile(rf"(?m)^(?=\\*## (?:{'|'.join(_SECTIONS)})$)")
_ESCAPED = re.compile(rf"(?m)^\\(?=\\*## (?:{'|'.join(_SECTIONS)})$)")
_STEP = re.compile(r"[-*+] \[(?P<box>.)\] +(?P<text>\S.*)")
_POINT = re.compile(r"[-*+] +(?P<text>\S.*)")
_COMMENT = re.compile(r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d) (?P<author>[^:\n]+): (?P<text>.*)", re.DOTALL)
_LINK = re.compile(r"(?P<kind>blocks|relates|parent) #?(?P<ref>\w+)")
_STATES = {box[1]: status for status, box in BOXES.items()} | {"X": TaskStatus.DONE}
_NAMES = ("task", "title", "status", "priority", "owner", "labels", "links")


class TaskFileError(TaskError):
    """The file of a task cannot be read; nothing was changed."""

    failure_code = "tasks.file-unusable"

    def __init__(self, file: str, line: int, problem: str) -> None:
        """Name the place; `problem` is a clause that says what is wrong and what to do."""
        super().__init__(f"{file}, line {line}: {problem} Nothing was changed.")
        self.file = file
        self.problem = f"line {line}: {problem}"


class TaskText(Struct, frozen=True):
    """The fields of a task that its file has, as they can be edited."""

    title: str
    status: TaskStatus
    priority: PlanPriority
    owner: str | None
    labels: tuple[str, ...]
    links: tuple[tuple[LinkKind, str], ...]
    """Each with the number, or the id, of its other end."""
    description: str
    steps: tuple[TaskStep, ...]
    checks: tuple[str, ...]
    files: tuple[str, ...]
    comments: tuple[str, ...]
    """As they are written, with time and author where the program wrote them."""


def text_of_task(task: Task, names: Mapping[str, str]) -> TaskText:
    """The editable fields of a task; `names` gives the numbers of the tasks that it links to, by id."""
    return TaskText(
        task.title,
        task.status,
        task.priority,
        " ".join((task.owner or "").split()) or None,
        tuple(sorted(task.labels)),
        tuple(sorted({(link.kind, names.get(link.target, link.target)) for link in task.links})),
        task.description.replace("\r\n", "\n").strip("\n").rstrip(),
        tuple(TaskStep(words, step.status) for step in task.steps if (words := " ".join(step.text.split()))),
        tuple(words for check in task.checks if (words := " ".join(check.command.split()))),
        tuple(sorted(task.files)),
        tuple(_comment(comment) for comment in task.comments),
    )


def write_task_file(number: int, text: TaskText) -> str:
    """The file of a task."""
    links = ", ".join(f"{kind} {f'#{ref}' if ref.isdecimal() else ref}" for kind, ref in text.links)
    values = (str(number), text.title, text.status, text.priority, text.owner or "", _joined(text.labels), links)
    head = [f"{name}: {' '.join(value.split())}".rstrip() for name, value in zip(_NAMES, values, strict=True)]
    parts = ["\n".join(("---", *head, "---"))]
    if text.description:
        parts.append(_TO_ESCAPE.sub(r"\\", text.description))
    sections = (
        [f"- {BOXES[step.status]} {step.text}" for step in text.steps],
        [f"- `{command}`" for command in text.checks],
        [f"- {path}" for path in text.files],
        [f"- {comment.replace(chr(10), f'{chr(10)}  ')}" for comment in text.comments],
    )
    for name, points in zip(_SECTIONS, sections, strict=True):
        if points:
            parts.append("\n".join((f"## {name}", "", *points)))
    return "\n\n".join(parts) + "\n"


def read_task_file(file: str, content: str, number: int) -> TaskText:
    """The fields in a file that a user edited; `number` is that of the task that it was written for.

    Raises:
        TaskFileError: it is not of the form in which it was written.
    """
    plain = content.removeprefix("\N{BYTE ORDER MARK}").replace("\r\n", "\n")
    found = _HEAD.fullmatch(plain if plain.endswith("\n") else f"{plain}\n")
    if found is None:
        raise TaskFileError(file, 1, "the head is missing; let it begin with ---, the fields and --- again.")
    head = _head(file, found["head"], number)
    first = found["head"].count("\n") + 3
    return _Body(file, found["text"].split("\n"), first).read(head)


def merge_task(base: TaskText, edited: TaskText, now: Task, read: "Reading") -> Task:
    """The task with what was edited since `base`; what others changed meanwhile stays.

    Of two changes of one field the edited one counts; texts, steps and sets are merged.
    """
    patch = TaskPatch(title=edited.title) if edited.title != base.title else TaskPatch()
    if edited.status is not base.status:
        patch = replace(patch, status=edited.status)
    if edited.priority is not base.priority:
        patch = replace(patch, priority=edited.priority)
    if edited.owner != base.owner:
        patch = replace(patch, owner=edited.owner)
    if edited.labels != base.labels:
        patch = replace(patch, labels=_set(base.labels, edited.labels, now.labels))
    if edited.files != base.files:
        patch = replace(patch, files=_set(base.files, edited.files, now.files))
    if edited.description != base.description:
        patch = replace(patch, description=merge_texts(base.description, now.description, edited.description).text)
    if edited.steps != base.steps:
        patch = replace(patch, steps=_steps(base.steps, edited.steps, now.steps))
    if edited.checks != base.checks:
        known = {" ".join(check.command.split()): check for check in now.checks}
        wanted = _ordered(base.checks, edited.checks, tuple(known))
        patch = replace(patch, checks=tuple(known.get(command, TaskCheck(command)) for command in wanted))
    after = now if patch.is_empty else patched(now, patch, read.now_ms)
    if edited.links != base.links:
        ends = _set(base.links, edited.links, tuple((link.kind, read.name_of(link.target)) for link in now.links))
        links = {TaskLink(kind, read.target_of(ref)) for kind, ref in ends}
        after = replace(after, links=tuple(sorted(links, key=lambda link: f"{link.kind} {link.target}")))
    # A file that was written, and not noted as written since the process died, has comments that are there already.
    there = {*base.comments, *map(_comment, now.comments)}
    new = [one for one in edited.comments if one not in there]
    added = tuple(TaskComment(read.author, read.now_ms, _said(one)) for one in new)
    after = replace(after, comments=(*after.comments, *added))
    return after if after == now else replace(after, updated_ms=read.now_ms)


class Reading(Struct, frozen=True):
    """The facts that a merge needs: who edited, when, and the other ends of links."""

    author: str
    now_ms: int
    name_of: Callable[[str], str]
    """The number of the task of an id, as files name it."""
    target_of: Callable[[str], str]
    """The id of the task of a number."""


def _comment(comment: TaskComment) -> str:
    words = re.sub(r"\s*\n\s*", "\n", comment.text.replace("\r\n", "\n").strip())
    return f"{local_minute(comment.at_ms)} {' '.join(comment.author.replace(':', ' ').split())}: {words}"


def _said(comment: str) -> str:
    found = _COMMENT.fullmatch(comment)
    return comment if found is None else found["text"]


def _joined(labels: Iterable[str]) -> str:
    return ", ".join(f'"{one.replace(chr(34), chr(34) * 2)}"' if {*one} & {*',"'} else one for one in labels)


def _head(file: str, head: str, number: int) -> dict[str, str]:
    values: dict[str, str] = {}
    for line, text in enumerate(head.splitlines(), start=2):
        name, colon, value = text.partition(":")
        if not text.strip():
            continue
        if not colon or name.strip() not in _NAMES:
            raise TaskFileError(file, line, f"the fields are {', '.join(_NAMES)}, each with a colon.")
        values[name.strip()] = value.strip()
        if name.strip() == "task" and value.strip() != str(number):
            raise TaskFileError(file, line, f"the file is that of the task {number}; leave the number as it was.")
        _checked(file, line, name.strip(), value.strip())
    for name in ("task", "title", "status"):
        if name not in values:
            raise TaskFileError(file, 1, f"the field {name} is missing.")
    return values


def _checked(file: str, line: int, name: str, value: str) -> None:
    if name == "title" and not value:
        raise TaskFileError(file, line, "a task needs a title.")
    if name == "status" and value not in {status.value for status in TaskStatus}:
        raise TaskFileError(file, line, f"the status is one of {', '.join(TaskStatus)}.")
    if name == "priority" and value and value not in {one.value for one in PlanPriority}:
        raise TaskFileError(file, line, f"the priority is one of {', '.join(PlanPriority)}.")
    if name == "links":
        for part in filter(None, (one.strip() for one in value.split(","))):
            if _LINK.fullmatch(part) is None:
                raise TaskFileError(file, line, "links are blocks, relates or parent with a number, such as blocks #3.")


class _Body:
    """The text behind the head of a file, while it is read."""

    def __init__(self, file: str, lines: Sequence[str], first: int) -> None:
        """`first` is the number of the first of the lines."""
        self._file = file
        self._lines = lines
        self._first = first

    def read(self, head: Mapping[str, str]) -> TaskText:
        """All of the file."""
        starts = [(at, title["name"]) for at, line in enumerate(self._lines) if (title := _SECTION.fullmatch(line))]
        ends = [*(at for at, _ in starts), len(self._lines)][1:]
        found: dict[str, tuple[int, int]] = {}
        for (at, name), end in zip(starts, ends, strict=True):
            if name in found:
                self._refuse(at, f"there is a second section {name}; put both into one.")
            found[name] = (at + 1, end)
        text = "\n".join(self._lines[: starts[0][0] if starts else None])
        return TaskText(
            " ".join(head["title"].split()),
            TaskStatus(head["status"]),
            PlanPriority(head.get("priority") or PlanPriority.MEDIUM),
            head.get("owner") or None,
            tuple(sorted({one.strip() for one in _split(head.get("labels", "")) if one.strip()})),
            tuple(sorted({_link(part) for part in head.get("links", "").split(",") if part.strip()})),
            _ESCAPED.sub("", text.strip("\n").rstrip()),
            tuple(self._steps(*found.get("Steps", (0, 0)))),
            tuple(self._points(*found.get("Checks", (0, 0)), strip="`")),
            tuple(sorted(set(self._points(*found.get("Files", (0, 0)))))),
            tuple(self._points(*found.get("Comments", (0, 0)), goes_on=True)),
        )

    def _steps(self, start: int, end: int) -> Iterable[TaskStep]:
        for at in range(start, end):
            line = self._lines[at].strip()
            if not line:
                continue
            found = _STEP.fullmatch(line)
            if found is None or found["box"] not in _STATES:
                self._refuse(at, f"a step is a line such as “- [ ] Words”, with one of {', '.join(BOXES.values())}.")
            yield TaskStep(" ".join(found["text"].split()), _STATES[found["box"]])

    def _points(self, start: int, end: int, *, strip: str = "", goes_on: bool = False) -> Iterable[str]:
        points: list[str] = []
        for at in range(start, end):
            line = self._lines[at]
            if not line.strip():
                continue
            found = _POINT.fullmatch(line)
            if found is not None:
                points.append(found["text"].strip())
            elif goes_on and points:
                points[-1] += f"\n{line.strip()}"
            else:
                self._refuse(at, "each line of this section begins with “- ”.")
        return [_stripped(point, strip) for point in points]

    def _refuse(self, at: int, problem: str) -> NoReturn:
        raise TaskFileError(self._file, self._first + at, problem)


def _stripped(point: str, mark: str) -> str:
    return point[1:-1] if mark and len(point) > 2 and point[0] == point[-1] == mark else point


def _split(labels: str) -> list[str]:
    return next(csv.reader([labels], skipinitialspace=True), list[str]())


def _link(part: str) -> tuple[LinkKind, str]:
    kind, _, ref = part.strip().partition(" ")
    return LinkKind(kind), ref.removeprefix("#")


def _set(base: Sequence[_T], edited: Sequence[_T], now: Sequence[_T]) -> tuple[_T, ...]:
    """The set now, with what the edit added and without what it took out."""
    gone = {one for one in base if one not in edited}
    return tuple(
        sorted({*(one for one in now if one not in gone), *(one for one in edited if one not in base)}, key=str)
    )


def _ordered(base: Sequence[_T], edited: Sequence[_T], now: Sequence[_T]) -> list[_T]:
    """The list as edited, without what others took out, and with what they added at the place where they did."""
    merged = [one for one in edited if one not in base or one in now]
    for at, one in enumerate(now):
        if one not in base and one not in merged:
            before = next((merged.index(near) + 1 for near in reversed(now[:at]) if near in merged), 0)
            merged.insert(before, one)
    return merged


def _steps(base: Sequence[TaskStep], edited: Sequence[TaskStep], now: Sequence[TaskStep]) -> tuple[TaskStep, ...]:
    """Steps are distinguished by their words; one whose box only one side changed has that side's box."""
    keys = _keyed(base), _keyed(edited), _keyed(now)
    merged: list[TaskStep] = []
    for key in _ordered([*keys[0]], [*keys[1]], [*keys[2]]):
        old, own, other = (each.get(key) for each in keys)
        kept = other or own or old
        if own is not None and (old is None or own.status is not old.status):
            kept = replace(kept or own, status=own.status)
        if kept is not None:
            merged.append(kept)
    return tuple(merged)


def _keyed(steps: Sequence[TaskStep]) -> dict[tuple[str, int], TaskStep]:
    found: dict[tuple[str, int], TaskStep] = {}
    for step in steps:
        words, number = " ".join(step.text.split()), 0
        while (words, number) in found:
            number += 1
        found[words, number] = step
    return found
