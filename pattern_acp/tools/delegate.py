"""The tool delegate.

Owns: what the model says to have a subagent do something. Must not know: how a subagent runs.
"""

from functools import partial
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.domain.access import NoEffect
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.paths import absolute_path, resolve_path
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    DELEGATE,
    DelegatedTask,
    Delegation,
    NotAvailableError,
    PreparedCall,
    Progress,
    SubagentKind,
    ToolContext,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.schema import input_schema, parse_arguments

NAME_CHARACTERS = 40
"""Characters of a name in titles."""

TITLE_CHARACTERS = 80
"""Characters of the task, where it replaces a name."""


class DelegateArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of delegate."""

    kind: SubagentKind
    task: Annotated[str, Meta(min_length=1, description="All it needs to know.")]
    name: str = ""
    paths: Annotated[tuple[str, ...], Meta(description="What a worker may write.")] = ()
    tools: tuple[str, ...] = ()
    needs: Annotated[tuple[str, ...], Meta(description="Names to wait for.")] = ()
    checks: Annotated[tuple[str, ...], Meta(description="Commands; changes land if they pass.")] = ()
    background: bool = False


class Delegate:
    """Runs a subagent. It changes nothing on its own: each call of a worker is decided on for itself.

    So calls of it run side by side, and plan mode has it too, where policy lets a worker change nothing.
    """

    spec = ToolSpec(
        DELEGATE,
        "Run subagents side by side: explorer for wide searches, worker for separable work, reviewer of your changes.",
        input_schema(DelegateArguments, unlisted=("tools",)),
    )
    kind = ToolKind.THINK
    changes_things = False

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, DelegateArguments)
        delegation = context.delegation
        if delegation is None:
            raise NotAvailableError("A subagent cannot delegate", advice="do the task yourself.")
        if asked.paths and asked.kind.only_reads:
            raise ToolInputError(f"The argument paths is for a worker; a subagent of kind {asked.kind} writes nothing.")
        if asked.checks and asked.kind.only_reads:
            raise ToolInputError(f"The argument checks is for a worker; one of kind {asked.kind} changes nothing.")
        _check_tools(asked, delegation)
        if asked.background and asked.needs:
            raise ToolInputError(
                "A subagent in the background begins at once", advice="leave needs out, or background."
            )
        refusal = delegation.refusal(call_id)
        refusal = refusal or (delegation.background_refusal(asked.kind) if asked.background else "")
        if refusal:
            raise ToolInputError(refusal)
        paths = tuple(absolute_path(path, context.cwd) for path in asked.paths)
        resolved = tuple([await anyio.to_thread.run_sync(resolve_path, path) for path in paths])
        name = one_line(asked.name, NAME_CHARACTERS) or asked.kind.value
        task = DelegatedTask(
            asked.kind, asked.task, name, asked.tools, resolved, asked.needs, asked.checks, asked.background
        )
        return PreparedCall(
            _title(asked, name),
            (NoEffect(),),
            partial(_run, delegation, task, call_id),
            preview=(TextContent(asked.task),),
        )


def _check_tools(asked: DelegateArguments, delegation: Delegation) -> None:
    known = delegation.tool_names(asked.kind)
    unknown = [name for name in asked.tools if name not in known]
    if unknown:
        raise ToolInputError(
            f"A subagent of kind {asked.kind} has no tool {one_line(unknown[0], NAME_CHARACTERS)!r}",
            advice=f"it has {one_line(', '.join(known), 1000)}.",
        )


def _title(asked: DelegateArguments, name: str) -> str:
    said = name if asked.name.strip() else one_line(asked.task, TITLE_CHARACTERS)
    return f"{asked.kind.value.capitalize()}: {said}"


async def _run(delegation: Delegation, task: DelegatedTask, call_id: ToolCallId, progress: Progress) -> ToolOutcome:
    return await delegation.run(task, call_id, progress)
