"""The verbs of `pattern-acp tasks`, and what each answers.

Owns: what a verb does with the services of tasks, and its result. Must not know: terminals, editors, or files.
"""

from collections.abc import Sequence

from msgspec import UNSET, Struct, field

from pattern_acp.commands.document import Body, Column, Fence, Heading, Paragraph, Part, Result, Table, columns
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import PlanPriority
from pattern_acp.memory.blocks import Scope
from pattern_acp.tasks.model import (
    OPEN,
    GraphEdge,
    GraphQuery,
    LinkKind,
    Task,
    TaskFilter,
    TaskPatch,
    TaskRow,
    TaskStatus,
    facts_of,
    graph_text,
    names_of,
    task_line,
    task_parts,
)
from pattern_acp.tasks.service import ImportedTasks, Tasks

MOST_LISTED = 1_000
"""Tasks of a list in a terminal."""


class TaskVerbs(Struct, frozen=True):
    """The services of every verb."""

    tasks: Tasks
    most: int = MOST_LISTED
    """Tasks of one list."""


class TaskList(Result, frozen=True):
    """Tasks that fit."""

    tasks: tuple[TaskRow, ...] = ()
    narrowed: bool = False
    more: bool = False

    @property
    def document(self) -> Sequence[Part]:
        """A table, a row a task."""
        if not self.tasks:
            none = "There are no open tasks. `/tasks add TITLE` adds one."
            return (Paragraph("There are no such tasks." if self.narrowed else none),)
        rows = tuple(
            (
                row.task.ref,
                row.task.status.replace("_", " "),
                row.task.priority,
                row.task.title,
                "; ".join(facts_of(row)),
            )
            for row in self.tasks
        )
        heads = columns(
            Column("Task", "cyan"), "State", "Priority", Column("Title", limit=200), Column("", "dim", limit=200)
        )
        cut = (Paragraph(f"These are the first {len(rows)}; there may be more.", "dim"),) if self.more else ()
        return (Table(heads, rows), *cut)

    @property
    def value(self) -> object:
        """The tasks, each with the numbers of those that block it."""
        return self.tasks


class TaskShown(Result, frozen=True):
    """All of a task."""

    task: Task
    links: tuple[GraphEdge, ...] = ()
    """Those that it has, and those that others have to it."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    """The numbers and titles of the tasks at their other ends, by id."""

    @property
    def document(self) -> Sequence[Part]:
        """Its facts on one line, then each of its parts."""
        facts, *parts = task_parts(self.task, self.names, self.links)
        text = (Body("\n\n".join(parts)),) if parts else ()
        return (Heading(f"{self.task.ref} {self.task.title}"), Paragraph(facts), *text)


class TaskChanged(Result, frozen=True):
    """A task that was added or changed."""

    task: Task
    what: str

    @property
    def document(self) -> Sequence[Part]:
        """One line."""
        return (Paragraph(f"{self.what} `{one_line(task_line(TaskRow(self.task)))}`"),)

    @property
    def value(self) -> object:
        """The task as it is now."""
        return self.task


class GraphShown(Result, frozen=True):
    """A task with all that it hangs together with."""

    tasks: tuple[Task, ...]
    edges: tuple[GraphEdge, ...]
    truncated: bool
    text: str

    @property
    def document(self) -> Sequence[Part]:
        """An indented tree."""
        return (Fence(self.text),)

    @property
    def value(self) -> object:
        """Nodes and edges."""
        return {"tasks": self.tasks, "edges": self.edges, "truncated": self.truncated}


class TasksTaken(Result, frozen=True):
    """The outcome of an import."""

    imported: ImportedTasks

    @property
    def document(self) -> Sequence[Part]:
        """Counts of the new, the changed and the other entries, and a line for each of the first two."""
        done = self.imported
        head = f"{len(done.created)} new, {len(done.changed)} changed, {done.same} as they were."
        lines = [task_line(TaskRow(task)) for task in (*done.created, *done.changed)]
        return (Paragraph(head), *((Fence("\n".join(lines)),) if lines else ()))

    @property
    def value(self) -> object:
        """The tasks themselves."""
        return self.imported


async def list_tasks(
    desk: TaskVerbs,
    words: str = "",
    states: tuple[str, ...] = (),
    owner: str = "",
    label: str = "",
    *,
    blocked: bool = False,
    everything: bool = False,
) -> TaskList:
    """List tasks: the open ones, unless states or all are wanted."""
    wanted = tuple(TaskStatus(state) for state in states) or (None if everything else OPEN)
    asked = TaskFilter(
        wanted,
        (owner,) if owner else None,
        has_blockers=True if blocked else None,
        keyword=words.strip(),
        label=label,
        limit=desk.most,
    )
    rows = await desk.tasks.list(asked)
    narrowed = asked != TaskFilter(OPEN, limit=desk.most)
    return TaskList(rows, narrowed, len(rows) == desk.most)


async def show(desk: TaskVerbs, task: str) -> TaskShown:
    """Show a task. Raises TaskNotFoundError where there is none."""
    graph = await desk.tasks.shown(task)
    edges = tuple(edge for edge in graph.edges if graph.nodes[0].id in {edge.source, edge.target})
    return TaskShown(graph.nodes[0], edges, names_of(graph))


async def add(
    desk: TaskVerbs,
    title: str,
    description: str = "",
    priority: str = "",
    owner: str = "",
    labels: tuple[str, ...] = (),
    scope: str = "",
) -> TaskChanged:
    """Add a task. Raises TaskRefusedError where its title cannot be one."""
    patch = TaskPatch(
        description=description or UNSET,
        priority=PlanPriority(priority) if priority else UNSET,
        owner=owner or UNSET,
        labels=labels or UNSET,
    )
    return TaskChanged(await desk.tasks.create(title, patch, scope=Scope(scope or "project")), "Added")


async def start(desk: TaskVerbs, task: str) -> TaskChanged:
    """Begin a task."""
    return await _to(desk, task, TaskStatus.IN_PROGRESS, "Begun:")


async def done(desk: TaskVerbs, task: str) -> TaskChanged:
    """End a task."""
    return await _to(desk, task, TaskStatus.DONE, "Done:")


async def block(desk: TaskVerbs, task: str) -> TaskChanged:
    """Note that a task cannot continue."""
    return await _to(desk, task, TaskStatus.BLOCKED, "Blocked:")


async def drop(desk: TaskVerbs, task: str) -> TaskChanged:
    """Note that a task will not be done."""
    return await _to(desk, task, TaskStatus.DROPPED, "Dropped:")


async def todo(desk: TaskVerbs, task: str) -> TaskChanged:
    """Put a task back."""
    return await _to(desk, task, TaskStatus.TODO, "To do again:")


async def comment(desk: TaskVerbs, task: str, text: str) -> TaskChanged:
    """Comment on a task. Raises TaskNotFoundError where there is none."""
    return TaskChanged(await desk.tasks.comment(task, text), "Commented on")


async def link(desk: TaskVerbs, task: str, kind: str, other: str, *, remove: bool = False) -> TaskChanged:
    """Link two tasks, or take a link away.

    Raises:
        CommandMisusedError: there is no such kind of link.
        TaskNotFoundError: one of the tasks is missing.
    """
    if kind not in {one.value for one in LinkKind}:
        raise CommandMisusedError(f"{kind[:40]!r} is no link; use blocks, relates or parent.")
    changed = await desk.tasks.link(task, LinkKind(kind), other, remove=remove)
    return TaskChanged(changed, "Unlinked" if remove else "Linked")


async def graph(desk: TaskVerbs, task: str) -> GraphShown:
    """Show a task with all that it hangs together with. Raises TaskNotFoundError where there is none."""
    found = await desk.tasks.graph(GraphQuery(task))
    return GraphShown(found.nodes, found.edges, found.truncated, graph_text(found))


async def _to(desk: TaskVerbs, task: str, status: TaskStatus, what: str) -> TaskChanged:
    return TaskChanged(await desk.tasks.update(task, TaskPatch(status=status)), what)
