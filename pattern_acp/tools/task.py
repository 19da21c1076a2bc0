"""The tools update_plan, the plan of a session, and task: tasks of the project and the persona, which outlive it."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeAlias

from msgspec import Meta, Struct

from pattern_acp.domain.access import NoEffect, Origin, WriteMemory
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import Plan, PlanEntry, PlanPriority, PlanStatus, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NotAvailableError,
    PreparedCall,
    Progress,
    ToolContext,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.schema import input_schema, parse_arguments

if TYPE_CHECKING:
    from pattern_acp.tasks.model import Task, TaskPatch
    from pattern_acp.tasks.service import Tasks


MOST_LISTED = 50
"""Tasks of one list."""


class TaskOperation(StrEnum):
    """The things that can be done with tasks."""

    LIST = "list"
    GET = "get"
    CREATE = "create"
    UPDATE = "update"
    LINK = "link"
    COMMENT = "comment"
    CLAIM = "claim"


class StatusWord(StrEnum):
    """States, as `tasks.model.TaskStatus`, whose module waits for the first call."""

    TODO = "todo"
    IN_PROGRESS = "in_progress"
    BLOCKED = "blocked"
    DONE = "done"
    DROPPED = "dropped"


class LinkWord(StrEnum):
    """Relations, as `tasks.model.LinkKind`."""

    BLOCKS = "blocks"
    RELATES = "relates"
    PARENT = "parent"


class StepArgument(Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    text: Annotated[str, Meta(min_length=1)]
    status: StatusWord = StatusWord.TODO


class TaskArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of task."""

    operation: TaskOperation
    task: Annotated[str, Meta(description="Number.")] = ""
    title: str = ""
    text: Annotated[str, Meta(description="Description, comment or search words.")] = ""
    status: StatusWord | None = None
    priority: PlanPriority | None = None
    owner: str = ""
    steps: Annotated[tuple[StepArgument, ...], Meta(description="All of them.")] = ()
    link: LinkWord | None = None
    to: Annotated[str, Meta(description="Number; task blocks it, or is part of it.")] = ""
    remove: bool = False


class TaskTool:
    """Reads and changes tasks."""

    spec = ToolSpec(
        "task",
        "Work that outlives this session. Steps of yours are the plan the user sees. claim: make it yours; null "
        "clears a field.",
        input_schema(TaskArguments, unlisted=("priority", "owner", "remove")),
    )
    kind = ToolKind.THINK
    changes_things = True

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, TaskArguments)
        if context.tasks is None:
            raise NotAvailableError("There are no tasks here", advice="a subagent reports to the one who sent it.")
        _check(asked)
        tasks = context.tasks()
        run = partial(_run, asked, _patch(asked, arguments), tasks, call_id)
        named = f" #{asked.task.removeprefix('#')}" if asked.task else ""
        what = "tasks" if asked.operation is TaskOperation.LIST else "task"
        title = f"{asked.operation.value.capitalize()} {what}{named}"
        if asked.operation in {TaskOperation.LIST, TaskOperation.GET}:
            return PreparedCall(title, (NoEffect(),), run)
        # What is stored is read by later sessions, so it is decided on like a write of memory.
        return PreparedCall(title, (WriteMemory("tasks", "project"),), run)


_NEEDS: Mapping[TaskOperation, tuple[str, ...]] = {
    TaskOperation.GET: ("task",),
    TaskOperation.CREATE: ("title",),
    TaskOperation.UPDATE: ("task",),
    TaskOperation.LINK: ("task", "link", "to"),
    TaskOperation.COMMENT: ("task", "text"),
    TaskOperation.CLAIM: ("task",),
}


def _check(asked: TaskArguments) -> None:
    missing = [name for name in _NEEDS.get(asked.operation, ()) if not getattr(asked, name)]
    if missing:
        raise ToolInputError(f"The operation {asked.operation} needs {' and '.join(f'`{name}`' for name in missing)}.")


def _patch(asked: TaskArguments, arguments: Mapping[str, Json]) -> "TaskPatch":
    """The fields of a call that are there, null among them."""
    # Late, as all of tasks: most sessions have none.
    import msgspec

    from pattern_acp.tasks.model import TaskPatch

    names = {"title": "title", "text": "description", "status": "status", "priority": "priority", "owner": "owner"}
    named: dict[str, object] = {
        field: None if arguments[name] is None else msgspec.to_builtins(getattr(asked, name))
        for name, field in {**names, "steps": "steps"}.items()
        if name in arguments and not (arguments[name] is None and name in {"title", "status"})
    }
    return msgspec.convert(named, TaskPatch)


async def _run(
    asked: TaskArguments, patch: "TaskPatch", tasks: "Tasks", call_id: ToolCallId, _progress: Progress
) -> ToolOutcome:
    text, changed = await _DO[asked.operation](asked, patch, tasks, call_id)
    active = await tasks.active() if changed is not None else None
    # A task that this call ended is shown as it ended.
    shown = active or (changed if changed is not None and await tasks.is_own(changed) else None)
    plan = shown.plan if shown is not None else None
    return ToolOutcome(text, content=(TextContent(text),), origin=Origin.MEMORY, plan=plan)


async def _list(asked: TaskArguments, _patch: object, tasks: "Tasks", _call: object) -> "tuple[str, Task | None]":
    from pattern_acp.tasks.model import OPEN, TaskFilter, TaskStatus, task_lines

    statuses = (TaskStatus(asked.status),) if asked.status else OPEN
    wanted = TaskFilter(statuses, (asked.owner,) if asked.owner else None, keyword=asked.text, limit=MOST_LISTED)
    return task_lines(await tasks.list(wanted), wanted), None


async def _get(asked: TaskArguments, _patch: object, tasks: "Tasks", _call: object) -> "tuple[str, Task | None]":
    from pattern_acp.tasks.model import task_text

    return task_text(await tasks.shown(asked.task)), None


async def _create(
    asked: TaskArguments, patch: "TaskPatch", tasks: "Tasks", call_id: ToolCallId
) -> "tuple[str, Task | None]":
    task = await tasks.create(asked.title, patch, call_id=call_id)
    return f"Created {_line(task)}.", task


async def _update(
    asked: TaskArguments, patch: "TaskPatch", tasks: "Tasks", call_id: ToolCallId
) -> "tuple[str, Task | None]":
    task = await tasks.update(asked.task, patch, call_id=call_id)
    return f"Updated {_line(task)}.", task


async def _link(asked: TaskArguments, _patch: object, tasks: "Tasks", call_id: ToolCallId) -> "tuple[str, Task | None]":
    from pattern_acp.tasks.model import LinkKind

    kind = LinkKind(asked.link or LinkWord.RELATES)
    task = await tasks.link(asked.task, kind, asked.to, remove=asked.remove, call_id=call_id)
    return f"{'Unlinked' if asked.remove else 'Linked'} {_line(task)}.", task


async def _comment(
    asked: TaskArguments, _patch: object, tasks: "Tasks", call_id: ToolCallId
) -> "tuple[str, Task | None]":
    task = await tasks.comment(asked.task, asked.text, call_id=call_id)
    return f"Commented on {_line(task)}.", task


async def _claim(
    asked: TaskArguments, _patch: object, tasks: "Tasks", call_id: ToolCallId
) -> "tuple[str, Task | None]":
    task = await tasks.claim(asked.task, call_id=call_id)
    return f"Yours now: {_line(task)}.", task


def _line(task: "Task") -> str:
    from pattern_acp.tasks.model import TaskRow, task_line

    return task_line(TaskRow(task))


_Act: TypeAlias = "Callable[[TaskArguments, TaskPatch, Tasks, ToolCallId], Awaitable[tuple[str, Task | None]]]"

_DO: Mapping[TaskOperation, _Act] = {
    TaskOperation.LIST: _list,
    TaskOperation.GET: _get,
    TaskOperation.CREATE: _create,
    TaskOperation.UPDATE: _update,
    TaskOperation.LINK: _link,
    TaskOperation.COMMENT: _comment,
    TaskOperation.CLAIM: _claim,
}


class PlanStep(Struct, frozen=True, forbid_unknown_fields=True):
    """One step of the plan."""

    content: Annotated[str, Meta(min_length=1)]
    status: PlanStatus = PlanStatus.PENDING
    priority: PlanPriority = PlanPriority.MEDIUM


class UpdatePlanArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of update_plan."""

    entries: tuple[PlanStep, ...]


class UpdatePlan:
    """Shows a plan to the user."""

    spec = ToolSpec(
        "update_plan",
        "Show the user your plan: all steps each time.",
        input_schema(UpdatePlanArguments, unlisted=("entries.priority",)),
    )
    kind = ToolKind.THINK
    changes_things = False

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, UpdatePlanArguments)
        plan = Plan(tuple(PlanEntry(step.content, step.priority, step.status) for step in asked.entries))
        return PreparedCall("Update the plan", (NoEffect(),), partial(_run_plan, plan, call_id, context))


async def _run_plan(plan: Plan, call_id: ToolCallId, context: ToolContext, _progress: Progress) -> ToolOutcome:
    # The plan of a session that works on a task is the steps of the task.
    task = await context.tasks().show_plan(plan, call_id=call_id) if context.tasks is not None else None
    done = sum(entry.status is PlanStatus.COMPLETED for entry in plan.entries)
    text = f"The plan is shown: {plural(len(plan.entries), 'step')}, {done} completed."
    if task is not None:
        text += f" It is that of the task {task.ref}, which is {task.status} now."
    return ToolOutcome(text, origin=Origin.MODEL, plan=plan)
