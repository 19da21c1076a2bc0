"""The tool update_plan."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import NoEffect, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import Plan, PlanEntry, PlanPriority, PlanStatus, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, Progress, ToolContext, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments


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
        return PreparedCall("Update the plan", (NoEffect(),), partial(_run, plan, call_id, context))


async def _run(plan: Plan, call_id: ToolCallId, context: ToolContext, _progress: Progress) -> ToolOutcome:
    # The plan of a session that works on a task is the steps of the task.
    task = await context.tasks().show_plan(plan, call_id=call_id) if context.tasks is not None else None
    done = sum(entry.status is PlanStatus.COMPLETED for entry in plan.entries)
    text = f"The plan is shown: {plural(len(plan.entries), 'step')}, {done} completed."
    if task is not None:
        text += f" It is that of the task {task.ref}, which is {task.status} now."
    return ToolOutcome(text, origin=Origin.MODEL, plan=plan)
