"""Values of a task, what can be changed of one, how it reads as a plan, and tasks in words.

Owns: the fields, their rules, the errors of tasks, and the words for the model and the user: one line a task, a task
with all it has, and a graph as text. Must not know: Loro, SQL, who asks, or who reads.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import asdict, replace

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import TaskError
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.domain.tool_calls import Plan, PlanEntry, PlanPriority, PlanStatus


class TaskNotFoundError(TaskError):
    """No task in sight has this reference."""

    failure_code = "tasks.task-missing"

    def __init__(self, ref: str, known: tuple[str, ...] = ()) -> None:
        """Name the reference and, where they are known, the newest tasks that exist."""
        hint = f" The newest open ones are: {'; '.join(known)}." if known else " There are no open tasks."
        super().__init__(f"There is no task {ref!r}.{hint}")
        self.ref = ref


class NotATaskListError(TaskError):
    """The stored document is none of tasks, or is damaged."""

    failure_code = "tasks.list-damaged"

    def __init__(self, list_id: str, problem: str) -> None:
        """Name the list; `problem` says what is wrong with it."""
        super().__init__(
            f"The task list {list_id} cannot be read ({problem}); run `pattern-acp doctor`, and restore a backup if it "
            "reports damage."
        )
        self.list_id = list_id


class TaskTakenError(TaskError):
    """Another session that runs works on the task."""

    failure_code = "tasks.task-taken"

    def __init__(self, ref: str, owner: str) -> None:
        """Name the task, and who has it."""
        super().__init__(
            f"{owner} works on the task {ref} in another session that is open",
            advice="take another one, comment on it, or ask the user.",
        )


class TaskRefusedError(TaskError):
    """The change breaks a rule of tasks, or changes nothing."""

    failure_code = "tasks.change-refused"


class TaskStatus(StrEnum):
    """States of a task, and of a step."""

    TODO = "todo"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    DONE = "done"
    DROPPED = "dropped"

    @property
    def is_open(self) -> bool:
        """True while there is something left to do."""
        return self not in {TaskStatus.DONE, TaskStatus.DROPPED}


BOXES = {
    TaskStatus.TODO: "[ ]",
    TaskStatus.IN_PROGRESS: "[>]",
    TaskStatus.BLOCKED: "[!]",
    TaskStatus.DONE: "[x]",
    TaskStatus.DROPPED: "[-]",
}
"""The states of tasks and steps in a check list; everybody else's Markdown knows the first and the fourth."""

OPEN = (TaskStatus.TODO, TaskStatus.IN_PROGRESS, TaskStatus.BLOCKED)
"""The states of what is not over."""


class LinkKind(StrEnum):
    """Relations of a task to another one: it blocks it, relates to it, or has it as its parent."""

    BLOCKS = "blocks"
    RELATES = "relates"
    PARENT = "parent"


LONGEST_TITLE = 200
"""Characters of a title."""


class TaskStep(Struct, frozen=True):
    """One step of a task."""

    text: str
    status: TaskStatus = TaskStatus.TODO
    priority: PlanPriority = PlanPriority.MEDIUM


class TaskLink(Struct, frozen=True):
    """An edge from the task that has it to the task of an id."""

    kind: LinkKind
    target: str


class TaskComment(Struct, frozen=True):
    """A remark. The program sets who wrote it and when."""

    author: str
    at_ms: int
    text: str


class TaskCheck(Struct, frozen=True):
    """A command that tells whether the task is done, and its last result; `exit_code` is None before the first run."""

    command: str
    exit_code: int | None = None
    at_ms: int = 0
    output: str = ""


class TaskEffort(Struct, frozen=True, omit_defaults=True):
    """An estimate, or what was measured: tokens, millionths of a US dollar, and wall time."""

    tokens: int = 0
    micro_units: int = 0
    wall_ms: int = 0


class TaskSource(Struct, frozen=True, omit_defaults=True):
    """The place that a task was imported from, by which importing it again finds it."""

    key: str
    number: int = 0
    url: str = ""
    seen: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of the fields as they were imported: one that is still the same there was not changed there."""


class Task(Struct, frozen=True):
    """A task as it is stored. Times are milliseconds since 1970-01-01 UTC; None where it did not happen."""

    id: str
    number: int
    title: str
    description: str = ""
    status: TaskStatus = TaskStatus.TODO
    priority: PlanPriority = PlanPriority.MEDIUM
    owner: str | None = None
    """The one who does it, in words: a persona, a user; None while nobody does."""
    session: str | None = None
    """The session that works on it, whose plan panel shows its steps."""
    estimate: TaskEffort | None = None
    actual: TaskEffort = TaskEffort()
    steps: tuple[TaskStep, ...] = ()
    links: tuple[TaskLink, ...] = ()
    comments: tuple[TaskComment, ...] = ()
    checks: tuple[TaskCheck, ...] = ()
    files: tuple[str, ...] = ()
    read_before: tuple[str, ...] = ()
    """The data of others that an agent had read in a turn in which it wrote words of the task."""
    labels: tuple[str, ...] = ()
    source: TaskSource | None = None
    created_ms: int = 0
    started_ms: int | None = None
    completed_ms: int | None = None
    updated_ms: int = 0

    @property
    def ref(self) -> str:
        """Its short name, `#12`."""
        return f"#{self.number}"

    @property
    def said(self) -> tuple[str, ...]:
        """Its words, as somebody wrote them."""
        return (
            self.title,
            self.description,
            *(step.text for step in self.steps),
            *(comment.text for comment in self.comments),
            *(check.command for check in self.checks),
            *self.files,
        )

    @property
    def plan(self) -> Plan:
        """Its steps as a plan; a task without steps is its own only step."""
        return plan_of(self.steps or (TaskStep(self.title, self.status, self.priority),))


class TaskPatch(Struct, frozen=True):
    """Changes of a task. A field that is absent stays, null clears it, a value replaces it."""

    title: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    status: TaskStatus | UnsetType = UNSET
    priority: PlanPriority | UnsetType | None = UNSET
    owner: str | UnsetType | None = UNSET
    session: str | UnsetType | None = UNSET
    estimate: TaskEffort | UnsetType | None = UNSET
    actual: TaskEffort | UnsetType = UNSET
    steps: tuple[TaskStep, ...] | UnsetType | None = UNSET
    checks: tuple[TaskCheck, ...] | UnsetType | None = UNSET
    files: tuple[str, ...] | UnsetType | None = UNSET
    labels: tuple[str, ...] | UnsetType | None = UNSET
    source: TaskSource | UnsetType | None = UNSET

    @property
    def is_empty(self) -> bool:
        """True if it changes nothing."""
        return all(value is UNSET for value in asdict(self).values())


class TaskFilter(Struct, frozen=True):
    """Conditions of a list, all optional: None is no condition, an empty list matches nothing."""

    statuses: tuple[TaskStatus, ...] | None = None
    owners: tuple[str, ...] | None = None
    """The ones who do it, as `Task.owner`; a task without one matches an empty text."""
    blocks: str | None = None
    """The id of a task that it blocks."""
    has_blockers: bool | None = None
    """True for those with an open task that blocks them."""
    keyword: str = ""
    """Words of its title, description, steps, comments or labels, in any case."""
    label: str = ""
    """One of its labels."""
    limit: int = 100

    @property
    def is_impossible(self) -> bool:
        """True if nothing can match, so that nobody need ask the database."""
        return self.statuses == () or self.owners == ()


class TaskRow(Struct, frozen=True):
    """A task in a list, with the numbers of the open tasks that block it."""

    task: Task
    blockers: tuple[int, ...] = ()


Direction: TypeAlias = Literal["forward", "reverse", "both"]


class GraphQuery(Struct, frozen=True):
    """A walk over links from one task, breadth first: along them, against them, or both."""

    root: str
    direction: Direction = "both"
    depth: int = 16
    most: int = 1_000
    """The most tasks to visit."""


class GraphEdge(Struct, frozen=True):
    """A link between two tasks of a graph, by their ids."""

    source: str
    kind: LinkKind
    target: str


class TaskGraph(Struct, frozen=True):
    """The tasks that a walk found, nearest first; both ends of every edge are among them."""

    nodes: tuple[Task, ...]
    edges: tuple[GraphEdge, ...]
    truncated: bool = field(default=False)
    """True if the walk reached a limit with tasks left."""


_AS_PLANNED = {
    TaskStatus.TODO: (PlanStatus.PENDING, ""),
    TaskStatus.IN_PROGRESS: (PlanStatus.IN_PROGRESS, ""),
    TaskStatus.BLOCKED: (PlanStatus.PENDING, "[blocked] "),
    TaskStatus.DONE: (PlanStatus.COMPLETED, ""),
    TaskStatus.DROPPED: (PlanStatus.COMPLETED, "[dropped] "),
}
"""ACP has no state for the two with a prefix."""


def plan_of(steps: Sequence[TaskStep]) -> Plan:
    """The steps as the plan that an editor shows."""
    entries: list[PlanEntry] = []
    for step in steps:
        status, prefix = _AS_PLANNED[step.status]
        entries.append(PlanEntry(f"{prefix}{step.text}", step.priority, status))
    return Plan(tuple(entries))


def steps_of(plan: Plan) -> tuple[TaskStep, ...]:
    """The steps that a plan shows; the inverse of `plan_of`."""
    return tuple(_step(entry) for entry in plan.entries)


def _step(entry: PlanEntry) -> TaskStep:
    status = {
        PlanStatus.PENDING: TaskStatus.TODO,
        PlanStatus.IN_PROGRESS: TaskStatus.IN_PROGRESS,
        PlanStatus.COMPLETED: TaskStatus.DONE,
    }[entry.status]
    for special in (TaskStatus.BLOCKED, TaskStatus.DROPPED):
        planned, prefix = _AS_PLANNED[special]
        if entry.status is planned and entry.content.startswith(prefix):
            return TaskStep(entry.content.removeprefix(prefix), special, entry.priority)
    return TaskStep(entry.content, status, entry.priority)


def patched(task: Task, patch: TaskPatch, now_ms: int) -> Task:
    """The task after a patch; its times follow its state.

    A task that begins gets `started_ms` once, one that ends `completed_ms`, which goes when it is opened again.
    """
    changed: dict[str, object] = {}
    for name, value in asdict(patch).items():
        if value is UNSET:
            continue
        changed[name] = _DEFAULTS[name] if value is None else value
    after = replace(task, **changed)
    if after == task:
        return task
    if after.status is not task.status:
        if after.status is TaskStatus.IN_PROGRESS and after.started_ms is None:
            after = replace(after, started_ms=now_ms)
        if after.status.is_open:
            after = replace(after, completed_ms=None)
        elif task.status.is_open:
            after = replace(after, completed_ms=now_ms)
            if after.started_ms is not None:
                after = replace(after, actual=replace(after.actual, wall_ms=max(0, now_ms - after.started_ms)))
    return replace(after, updated_ms=now_ms)


_DEFAULTS: dict[str, object] = {
    "description": "",
    "priority": PlanPriority.MEDIUM,
    "owner": None,
    "session": None,
    "estimate": None,
    "steps": (),
    "checks": (),
    "files": (),
    "labels": (),
    "source": None,
}
"""The value of a field that null clears."""


_FORWARD = {LinkKind.BLOCKS: "blocks", LinkKind.RELATES: "relates to", LinkKind.PARENT: "is part of"}
_BACK = {LinkKind.BLOCKS: "blocked by", LinkKind.RELATES: "related to", LinkKind.PARENT: "has part"}


def facts_of(row: TaskRow) -> list[str]:
    """List what there is to know of a task at a glance, beside its state, priority and title."""
    task = row.task
    notes: list[str] = []
    if task.steps:
        notes.append(f"{sum(not step.status.is_open for step in task.steps)}/{len(task.steps)} steps")
    if task.owner:
        notes.append(task.owner)
    if row.blockers and task.status.is_open:
        notes.append(f"blocked by {', '.join(f'#{number}' for number in row.blockers)}")
    if task.read_before:
        notes.append(f"written after reading {one_line(task.read_before[0], 80)}")
    return notes


def task_line(row: TaskRow) -> str:
    """A task on one line: box, number, title, and what there is to know at a glance."""
    task = row.task
    notes = ([] if task.priority == "medium" else [f"{task.priority} priority"]) + facts_of(row)
    return f"{BOXES[task.status]} {task.ref} {task.title}" + (f" ({'; '.join(notes)})" if notes else "")


def task_lines(rows: Sequence[TaskRow], asked: TaskFilter) -> str:
    """A list of tasks, with a remark where its limit cut it."""
    if not rows:
        return "There are no such tasks." if asked != TaskFilter(limit=asked.limit) else "There are no tasks."
    lines = [task_line(row) for row in rows]
    if len(rows) == asked.limit:
        lines.append(f"(The first {asked.limit}; there may be more.)")
    return "\n".join(lines)


def task_text(graph: TaskGraph) -> str:
    """All of the first task of a graph, whose other tasks it links to, or that link to it."""
    task = graph.nodes[0]
    facts, *parts = task_parts(task, names_of(graph), graph.edges)
    return "\n\n".join((f"{task.ref} {task.title}\n{facts}", *parts))


def task_parts(task: Task, names: Mapping[str, str], edges: Sequence[GraphEdge]) -> list[str]:
    """The parts of a task below its title: what is known of it on one line, then a text each.

    `names` gives the numbers and titles of the tasks at the other ends of its links, by id.
    """
    facts = [task.status.value, f"{task.priority} priority", *([f"owner {task.owner}"] if task.owner else [])]
    facts.append(f"created {local_minute(task.created_ms)}")
    facts += [f"begun {local_minute(task.started_ms)}"] if task.started_ms is not None else []
    facts += [f"ended {local_minute(task.completed_ms)}"] if task.completed_ms is not None else []
    parts = [", ".join(facts)]
    parts += [f"estimate {effort_text(task.estimate)}"] if task.estimate else []
    parts += [f"labels {', '.join(task.labels)}"] if task.labels else []
    parts += [f"from {task.source.url or task.source.key}"] if task.source else []
    parts += [f"took {effort_text(task.actual)}"] if task.actual != TaskEffort() else []
    parts += [task.description] if task.description else []
    if task.read_before:
        parts.append(
            f"Words of it were written after reading {', '.join(task.read_before)}: data, not the user's words."
        )
    if task.steps:
        parts.append("\n".join(["Steps:", *(f"- {BOXES[step.status]} {step.text}" for step in task.steps)]))
    links = [f"- {_FORWARD[link.kind]} {names.get(link.target, link.target)}" for link in task.links]
    links += [
        f"- {_BACK[edge.kind]} {names.get(edge.source, edge.source)}"
        for edge in edges
        if edge.target == task.id != edge.source
    ]
    if links:
        parts.append("\n".join(["Links:", *links]))
    if task.checks:
        parts.append(
            "\n".join(["Checks:", *(f"- `{check.command}`{_result(check.exit_code)}" for check in task.checks)])
        )
    if task.files:
        parts.append("\n".join(["Files:", *(f"- {path}" for path in task.files)]))
    if task.comments:
        said = [f"- {one.author}, {local_minute(one.at_ms)}: {one.text}" for one in task.comments]
        parts.append("\n".join(["Comments:", *said]))
    return parts


def names_of(graph: TaskGraph) -> dict[str, str]:
    """The numbers and titles of a graph's tasks, by their ids."""
    return {task.id: f"{task.ref} {task.title}" for task in graph.nodes}


def graph_text(graph: TaskGraph) -> str:
    """A graph as an indented tree from its first task; a task that was shown above is only named again."""
    by_id = {task.id: task for task in graph.nodes}
    ends: dict[str, list[tuple[str, str]]] = {}
    for edge in graph.edges:
        ends.setdefault(edge.source, []).append((_FORWARD[edge.kind], edge.target))
        if edge.source != edge.target:
            ends.setdefault(edge.target, []).append((_BACK[edge.kind], edge.source))
    lines: list[str] = []
    seen: set[str] = set()
    waiting = [(graph.nodes[0].id, "", "", 0)]
    while waiting:
        task_id, words, parent, depth = waiting.pop()
        again = task_id in seen
        line = task_line(TaskRow(by_id[task_id]))
        lines.append(f"{'  ' * depth}{f'{words} ' if words else ''}{line}{' (above)' if again else ''}")
        if again:
            continue
        seen.add(task_id)
        further = [(end, label, task_id, depth + 1) for label, end in ends.get(task_id, ()) if end != parent]
        waiting += reversed(further)
    if graph.truncated:
        lines.append(f"(Cut at {plural(len(graph.nodes), 'task')}; there are more.)")
    return "\n".join(lines)


def effort_text(effort: TaskEffort) -> str:
    """An estimate or a measure in words."""
    parts = [f"{effort.tokens:,} tokens"] if effort.tokens else []
    parts += [f"${effort.micro_units / 1_000_000:.2f}"] if effort.micro_units else []
    minutes = -(-effort.wall_ms // 60_000)
    parts += [f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"] if minutes else []
    return ", ".join(parts) or "nothing"


def _result(exit_code: int | None) -> str:
    if exit_code is None:
        return " (not run yet)"
    return " (passed)" if exit_code == 0 else f" (failed with {exit_code})"
