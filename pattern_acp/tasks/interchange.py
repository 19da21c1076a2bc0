"""Tasks as other programs write them: Markdown check lists, TODO.md, and issues as `gh issue list --json` prints them.

Owns: the three forms, both ways, and which entry of a file is which task. Must not know: files, or how tasks are
stored. An entry is known by its address, by the words of its place in its list, or by the mark that an export leaves
beside it; so importing a file again finds the tasks that it made.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import utc_second
from pattern_acp.domain.errors import TaskError
from pattern_acp.tasks.model import BOXES, LONGEST_TITLE, Task, TaskEffort, TaskPatch, TaskSource, TaskStatus, TaskStep

TaskFormat: TypeAlias = Literal["checklist", "todo", "github"]

_STATES = {box[1]: status for status, box in BOXES.items()} | {"X": TaskStatus.DONE}
_JSON = re.compile(r"\s*(?:\{|\[\s*[\[{\]\d\"])")
"""The beginning of JSON, which a box or a link of Markdown is not."""

_ITEM = re.compile(r"(?P<indent>[ \t]*)[-*+] \[(?P<box>[^\[\]\n])\] +(?P<text>\S.*)")
_HEADING = re.compile(r"(?P<level>#{1,6}) +(?P<text>.*?)[ #]*")
_FENCE = re.compile(r"\s*(?P<mark>```+|~~~+)")
_ESCAPED = re.compile(r"(?m)^(?P<indent>\s*)\\(?=[-*+#\\])")
_TO_ESCAPE = re.compile(r"(?m)^(?P<indent>\s*)(?=\\*(?:[-*+] \[.\] |#{1,6} ))")
_MARK = re.compile(r"\s*<!-- (?P<id>task_\w+)(?: (?P<digest>[0-9a-f]{12}))? -->\s*$")
_TAG = re.compile(r"\s+(?P<kind>[#@~])(?P<text>[\w./:-]+)$")
_LABEL = re.compile(r"(?![\d])[\w./:-]+")
_TIME = re.compile(r"(\d{1,4})([mhdw])")
_MINUTES = {"m": 1, "h": 60, "d": 8 * 60, "w": 40 * 60}
"""The minutes of work in an estimate: a day has eight hours, a week five days."""

_SECTIONS = (
    ("Todo", TaskStatus.TODO, ("todo", "to do", "backlog", "open")),
    ("In Progress", TaskStatus.IN_PROGRESS, ("in progress", "doing")),
    ("Blocked", TaskStatus.BLOCKED, ("blocked", "waiting")),
    ("Done ✓", TaskStatus.DONE, ("done", "completed")),
    ("Dropped", TaskStatus.DROPPED, ("dropped", "won't do")),
)
_SECTION_OF = {name: status for _, status, names in _SECTIONS for name in names}


class TaskImportError(TaskError):
    """A file to import is of no form that is known; nothing was imported."""

    failure_code = "tasks.import-unreadable"

    def __init__(self, name: str, line: int, problem: str) -> None:
        """Name the place; `problem` is a clause that says what is wrong and what to do."""
        super().__init__(f"{name}, line {line}: {problem} Nothing was imported.")
        self.line = line


class TaskDraft(Struct, frozen=True):
    """One entry of a file: the fields that it sets, and what it is known by."""

    patch: TaskPatch
    source: TaskSource
    line: int
    task_id: str = ""
    """The task that an export wrote it for."""
    digest: str = ""
    """Digest of its fields when it was exported."""


def read_tasks(name: str, text: str) -> tuple[TaskDraft, ...]:
    """Read the entries of a file, whose form is seen from its text; `name` is what it is called in errors.

    Raises:
        TaskImportError: an entry, or all of it, is of no form that is known.
    """
    plain = text.removeprefix("\N{BYTE ORDER MARK}").replace("\r\n", "\n")
    return _read_issues(name, plain) if _JSON.match(plain) else _read_list(name, plain)


def write_tasks(tasks: Sequence[Task], form: TaskFormat) -> str:
    """Write tasks in one of the forms; reading it again changes nothing."""
    if form == "github":
        return f"{json.dumps([_issue(task) for task in tasks], indent=2, ensure_ascii=False)}\n"
    if form == "checklist":
        return "".join(_item(task, tags=False) for task in tasks)
    parts = ["# TODO\n"]
    for title, status, _ in _SECTIONS:
        items = "".join(_item(task, tags=True) for task in tasks if task.status is status)
        if items or status in {TaskStatus.TODO, TaskStatus.IN_PROGRESS, TaskStatus.DONE}:
            parts.append(f"\n### {title}\n\n{items}" if items else f"\n### {title}\n")
    return "".join(parts)


def changes_of(draft: TaskDraft, task: Task | None) -> TaskPatch:
    """The changes that importing an entry makes of the task that it is known as, or the fields of a new task.

    A field that is in the file as it was imported or exported was not changed there, so what it is here stays.
    """
    fields = {name: value for name, value in asdict(draft.patch).items() if value is not UNSET}
    digests = {name: _digest(value) for name, value in fields.items()}
    source = replace(draft.source, seen=digests)
    if task is None:
        return replace(draft.patch, source=source)
    if draft.task_id == task.id:
        if draft.digest == _together(fields):
            return TaskPatch()
        seen: Mapping[str, str] = {}
    else:
        seen = task.source.seen if task.source is not None else {}
    changed = {
        name: value
        for name, value in fields.items()
        if seen.get(name) != digests[name] and getattr(task, name) != value and not _is_open_already(name, value, task)
    }
    if draft.task_id != task.id and task.source != source:
        changed["source"] = source
    return replace(TaskPatch(), **changed)


def _is_open_already(name: str, value: object, task: Task) -> bool:
    """True for an open box or issue of a task that is open: neither knows that it was begun."""
    return name == "status" and value is TaskStatus.TODO and task.status.is_open


def _digest(value: object) -> str:
    return sha256_hex(msgspec.json.encode(value, order="deterministic"))[:12]


def _together(fields: Mapping[str, object]) -> str:
    return _digest({name: value for name, value in fields.items() if name != "source"})


def _mark(draft: TaskDraft) -> str:
    """The mark of an exported task: its id, and a digest of the fields that the export has of it."""
    return _together({name: value for name, value in asdict(draft.patch).items() if value is not UNSET})


class _Open(Struct):
    """An item of a list while its lines are read."""

    line: int
    indent: int
    heading: str
    status: TaskStatus
    text: str
    steps: list[TaskStep]
    words: list[str]


def _read_list(name: str, text: str) -> tuple[TaskDraft, ...]:
    lines = text.split("\n")
    reader = _ListReader(name, is_todo=any(_section(line) is not None for line in lines))
    for number, line in enumerate(lines, start=1):
        reader.read(number, line)
    if not reader.items:
        raise TaskImportError(name, 1, "there is no check list in it; write tasks as lines such as “- [ ] Title”.")
    seen: dict[str, int] = {}
    return tuple(_draft(name, item, seen, is_todo=reader.is_todo) for item in reader.items)


class _ListReader:
    """The items of a check list, line by line."""

    def __init__(self, name: str, *, is_todo: bool) -> None:
        """`is_todo`: some headings are states, as in TODO.md."""
        self.items: list[_Open] = []
        self.is_todo = is_todo
        self._name = name
        self._now: _Open | None = None
        self._heading = ""
        self._section: TaskStatus | None = None
        self._fence, self._fence_indent = "", 0

    def read(self, number: int, line: str) -> None:
        """Read the next line."""
        indent = _indent(line)
        if self._fence and not (line.strip() and indent < self._fence_indent):
            if line.strip().startswith(self._fence):
                self._fence = ""
            _add_words(self._now, line)
            return
        self._fence = ""
        if opened := _FENCE.match(line):
            self._fence, self._fence_indent = opened["mark"], indent
            _add_words(self._now, line)
        elif found := _ITEM.fullmatch(line):
            self._item(number, indent, found["box"], found["text"].strip())
        elif title := _HEADING.fullmatch(line):
            self._titled(line, len(title["level"]), title["text"].strip())
        elif line.strip() and self._now is not None and indent <= self._now.indent:
            self._now = None
        else:
            _add_words(self._now, line)

    def _titled(self, line: str, level: int, title: str) -> None:
        state, self._now = _section(line), None
        if self.is_todo and (state is not None or level <= _SECTION_LEVEL):
            self._section = state
        self._heading = "" if state is not None or level == 1 else title

    def _item(self, number: int, indent: int, box: str, words: str) -> None:
        status = _STATES.get(box)
        if status is None:
            problem = f"the box [{box}] is unknown; use one of {', '.join(BOXES.values())}."
            raise TaskImportError(self._name, number, problem)
        if self._now is not None and indent > self._now.indent:
            self._now.steps.append(TaskStep(words, status))
            return
        if status is TaskStatus.TODO and self._section is not None:
            status = self._section
        self._now = _Open(number, indent, self._heading, status, words, [], [])
        self.items.append(self._now)


_SECTION_LEVEL = 3
"""The deepest heading that ends a section of TODO.md; one below it is a part of the section."""


def _section(line: str) -> TaskStatus | None:
    found = _HEADING.fullmatch(line)
    return None if found is None else _SECTION_OF.get(found["text"].strip(" :✓✔").casefold())


def _indent(line: str) -> int:
    plain = line.expandtabs(4)
    return len(plain) - len(plain.lstrip())


def _add_words(now: _Open | None, line: str) -> None:
    if now is not None:
        plain = line.expandtabs(4) if line[:1] in {" ", "\t"} else line
        now.words.append(plain[min(_indent(line), now.indent + 2) :])


def _draft(name: str, item: _Open, seen: dict[str, int], *, is_todo: bool) -> TaskDraft:
    title, task_id, digest = item.text, "", ""
    if mark := _MARK.search(title):
        title, task_id, digest = title[: mark.start()], mark["id"], mark["digest"] or ""
    title, labels, owner, estimate = _untagged(title) if is_todo else (title, [], None, None)
    labels = [*labels, *([item.heading] if item.heading else [])]
    place = " > ".join(part for part in (name, item.heading, title) if part)
    seen[place] = seen.get(place, 0) + 1
    key = place if seen[place] == 1 else f"{place} ({seen[place]})"
    patch = TaskPatch(
        title=_titled(name, item.line, title),
        description=_ESCAPED.sub(r"\g<indent>", "\n".join(item.words).strip("\n").rstrip()),
        status=item.status,
        steps=tuple(item.steps),
        labels=tuple(sorted(set(labels))) if labels else UNSET,
        owner=UNSET if owner is None else owner,
        estimate=UNSET if estimate is None else TaskEffort(wall_ms=estimate * 60_000),
    )
    return TaskDraft(patch, TaskSource(key), item.line, task_id, digest)


def _titled(name: str, line: int, title: str) -> str:
    plain = " ".join(title.split())
    if not plain:
        raise TaskImportError(name, line, "there is no title; write what is to be done.")
    if len(plain) > LONGEST_TITLE:
        raise TaskImportError(name, line, f"the title has more than {LONGEST_TITLE} characters; shorten it.")
    return plain


def _untagged(title: str) -> tuple[str, list[str], str | None, int | None]:
    """The title without the tags at its end: labels, owner, and the estimate in minutes."""
    labels: list[str] = []
    owner: str | None = None
    minutes: int | None = None
    while tag := _TAG.search(title):
        match tag["kind"]:
            case "#" if _LABEL.fullmatch(tag["text"]):
                labels.append(tag["text"])
            case "@" if owner is None:
                owner = tag["text"]
            case "~" if minutes is None and (time := _TIME.fullmatch(tag["text"])):
                minutes = int(time[1]) * _MINUTES[time[2]]
            case _:
                break
        title = title[: tag.start()]
    return title, labels, owner, minutes


def _item(task: Task, *, tags: bool) -> str:
    written = task.title
    if tags:
        minutes = 0 if task.estimate is None else task.estimate.wall_ms // 60_000
        named = [f"~{minutes // 60}h" if minutes % 60 == 0 else f"~{minutes}m"] if minutes else []
        named += [f"#{label}" for label in task.labels if _LABEL.fullmatch(label)]
        named += [f"@{task.owner}"] if task.owner and re.fullmatch(r"[\w./:-]+", task.owner) else []
        written = " ".join((written, *named))
    lines = [f"- {BOXES[task.status]} {written}"]
    if task.description.strip():
        text = _TO_ESCAPE.sub(r"\g<indent>\\", task.description.strip("\n").rstrip())
        lines += [f"  {line}" if line else "" for line in text.split("\n")]
    lines += [f"  - {BOXES[step.status]} {' '.join(step.text.split())}" for step in task.steps]
    heading = "### Todo\n" if tags else ""
    read = _read_list("", "\n".join((heading, *lines)))[0]
    lines[0] = f"{lines[0]} <!-- {task.id} {_mark(read)} -->"
    return "".join(f"{line}\n" for line in lines)


def _read_issues(name: str, text: str) -> tuple[TaskDraft, ...]:
    decoder = json.JSONDecoder()
    drafts: list[TaskDraft] = []
    at = _past_blanks(text, 0)
    is_array = text[at] == "["
    at = _past_blanks(text, at + 1) if is_array else at
    if is_array and text[at : at + 1] == "]":
        return ()
    while True:
        line = text.count("\n", 0, at) + 1
        try:
            entry, at = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            problem = f"this is no JSON ({error.msg}); export the issues again."
            raise TaskImportError(name, error.lineno, problem) from error
        except RecursionError as error:
            raise TaskImportError(name, line, "this JSON is nested too deep; export the issues again.") from error
        if isinstance(entry, dict) and "pull_request" in entry:
            pass
        else:
            drafts.append(_draft_of_issue(name, line, cast("object", entry)))
        at = _past_blanks(text, at)
        ends = text[at : at + 1]
        if not is_array:
            break
        if ends == ",":
            at = _past_blanks(text, at + 1)
            continue
        if ends == "]":
            at = _past_blanks(text, at + 1)
            break
        raise TaskImportError(name, text.count("\n", 0, at) + 1, "the list of issues ends early; export them again.")
    if at < len(text):
        raise TaskImportError(name, text.count("\n", 0, at) + 1, "there is something behind the issues; take it out.")
    return tuple(drafts)


def _past_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _draft_of_issue(name: str, line: int, entry: object) -> TaskDraft:
    if not isinstance(entry, dict):
        raise TaskImportError(name, line, "an issue is an object with a title; export them with gh issue list --json.")
    issue = cast("dict[str, object]", entry)
    title, number = issue.get("title"), issue.get("number", 0)
    url = issue.get("html_url") or issue.get("url") or ""
    state, reason = issue.get("state", "OPEN"), issue.get("stateReason", issue.get("state_reason")) or ""
    body = issue.get("body")
    if not isinstance(title, str):
        raise TaskImportError(name, line, "the issue has no title; export it with --json number,title,state,body,url.")
    if not isinstance(number, int) or isinstance(number, bool) or number < 0 or not isinstance(url, str):
        raise TaskImportError(name, line, "number and url of an issue are a number and a text; export it again.")
    if not isinstance(state, str) or state.upper() not in {"OPEN", "CLOSED"} or not isinstance(reason, str):
        raise TaskImportError(name, line, "the state of an issue is OPEN or CLOSED; export it again.")
    if body is not None and not isinstance(body, str):
        raise TaskImportError(name, line, "the body of an issue is a text; export it again.")
    labels, owners = _names(name, line, issue, "labels", "name"), _names(name, line, issue, "assignees", "login")
    closed = TaskStatus.DROPPED if reason.upper() in {"NOT_PLANNED", "DUPLICATE"} else TaskStatus.DONE
    patch = TaskPatch(
        title=_titled(name, line, title),
        description=UNSET if "body" not in issue else (body or "").replace("\r\n", "\n"),
        status=TaskStatus.TODO if state.upper() == "OPEN" else closed,
        labels=UNSET if labels is None else tuple(sorted(set(labels))),
        owner=UNSET if not owners else owners[0],
    )
    plain = str(issue.get("id", ""))
    task_id, _, digest = plain.partition(":") if plain.startswith("task_") else ("", "", "")
    key = url or (f"{name} #{number}" if number else f"{name} > {title}")
    return TaskDraft(patch, TaskSource(task_id or key, number, url), line, task_id, digest)


def _names(name: str, line: int, issue: Mapping[str, object], field: str, key: str) -> list[str] | None:
    if field not in issue:
        return None
    stored = issue[field]
    entries = cast("list[object]", stored) if isinstance(stored, list) else None
    found = [
        one if isinstance(one, str) else cast("dict[str, object]", one).get(key) if isinstance(one, dict) else None
        for one in entries or ()
    ]
    names = [one for one in found if isinstance(one, str)]
    if entries is None or len(names) != len(found):
        raise TaskImportError(name, line, f"{field} of an issue are a list of objects with {key}; export it again.")
    return names


def _issue(task: Task) -> dict[str, object]:
    """A task as an issue; one that was imported has the number and the address that it had there."""
    source = task.source or TaskSource("")
    issue: dict[str, object] = {
        "number": source.number or task.number,
        "title": task.title,
        "state": "OPEN" if task.status.is_open else "CLOSED",
        "stateReason": {TaskStatus.DONE: "COMPLETED", TaskStatus.DROPPED: "NOT_PLANNED"}.get(task.status, ""),
        "labels": [{"name": label} for label in task.labels],
        "assignees": [{"login": task.owner}] if task.owner else [],
        "body": task.description,
        "url": source.url,
        "createdAt": utc_second(task.created_ms),
        "closedAt": None if task.completed_ms is None else utc_second(task.completed_ms),
    }
    return {**issue, "id": f"{task.id}:{_mark(_draft_of_issue('', 1, issue))}"}
