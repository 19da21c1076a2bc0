"""Values of a task, what can be changed of one, and how it reads as a plan.

Owns: the fields, their rules, and the errors of tasks. Must not know: Loro, SQL, or who asks.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import asdict, replace

from pattern_acp.domain.errors import TaskError
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
