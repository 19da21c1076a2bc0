"""The agent's side of history: looking at it, and proposing an undo or a rollback, which asks the person.

Owns: what the model reads of a log, and what it has to be consented to. Must not know: how history is stored. The
person always may (issue 3, section 3); the agent may look and propose, so every such write asks, once, with the diff.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct

from pattern_acp.domain.access import WriteMemory, WriteVerdict
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import DiffContent, TextContent
from pattern_acp.memory.history import Write
from pattern_acp.memory.permissions import Action, Permission, explain_permission, judge
from pattern_acp.memory.refusals import PermissionDeniedError
from pattern_acp.memory.service.history import MemoryHistory
from pattern_acp.memory.undo import Plan, plan_redo, plan_rollback, plan_undo
from pattern_acp.tools.base import (
    MemoryBlockView,
    NotAvailableError,
    PreparedCall,
    Progress,
    TargetMissingError,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.memory_paths import memory_path
from pattern_acp.tools.memory_reverts import HistoryChange, MemoryReverts

LOG_LENGTH = 20
"""Writes that the model is shown."""


class AgentHistory(Struct, frozen=True):
    """The history of the blocks that the agent sees, to look at and to change as the agent."""

    reading: MemoryHistory
    reverts: MemoryReverts


class Takeback(Struct, frozen=True):
    """What the model asks for: which operation on which block, which write or version, and why."""

    label: str
    operation: str
    version: int | None
    reason: str


async def prepare_takeback(asked: Takeback, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
    """A call of memory_write that takes something back, not carried out yet.

    Raises:
        ToolInputError: an argument is missing.
        ToolFailedError: this session has no history to take back from.
        BlockError: it cannot be taken back, and why.
    """
    if asked.operation == "rollback" and asked.version is None:
        raise ToolInputError("`version` is missing; rollback needs the number of the version to go back to.")
    history = await _history_of(asked.label, context)
    _refuse_without_permission([block for block in await context.memory.blocks() if block.label == asked.label])
    change = await history.reverts.change(asked.label, _plan(asked), asked.reason, store=False)
    access = WriteMemory(
        asked.label,
        standing=WriteVerdict.CONSENT,
        reason=f"It would {_deed(asked, change)}; taking back what was remembered asks each time.",
        only_once=True,
    )
    return PreparedCall(
        title=f"{asked.operation.capitalize()} in memory: {one_line(asked.label)}",
        accesses=(access,),
        run=partial(_take_back, asked, change.number - 1, call_id, context),
        preview=(_diff(change, context),),
    )


def _refuse_without_permission(blocks: Sequence[MemoryBlockView]) -> None:
    for block in blocks:
        if block.write_denied:
            raise ToolFailedError(block.write_denied)
        permission = Permission(block.permission)
        if judge(permission, Action.OVERWRITE) is WriteVerdict.DENIED:
            raise PermissionDeniedError(block.label, explain_permission(permission) + ".")


async def read_log(label: str, context: ToolContext) -> ToolOutcome:
    """The log of a block for the model.

    Raises:
        ToolFailedError: this session has no history.
        BlockError: there is no such block.
    """
    history = await _history_of(label, context)
    writes = await history.reading.log(label, limit=LOG_LENGTH)
    text = cut_middle("\n".join(map(_entry, writes)), context.result_limit).text
    return ToolOutcome(text, content=(TextContent(plural(len(writes), "write")),), origin=Origin.MEMORY)


async def read_version(label: str, number: int, context: ToolContext) -> ToolOutcome:
    """An older version of a block for the model.

    Raises:
        ToolFailedError: this session has no history.
        BlockError: there is no such block or version.
    """
    history = await _history_of(label, context)
    version = await history.reading.show(label, number)
    text = cut_middle(f"{_entry(version.write)}\n\n{version.text or '(empty)'}", context.result_limit).text
    return ToolOutcome(text, content=(TextContent(f"Version {number} of {label}"),), origin=Origin.MEMORY)


async def _history_of(label: str, context: ToolContext) -> AgentHistory:
    if context.history is None:
        raise NotAvailableError("This session keeps no history of memory.")
    seen = [block.label for block in await context.memory.blocks()]
    if label not in seen and label not in context.memory.unreadable():
        raise TargetMissingError(f"There is no memory block of this label; the blocks are {', '.join(seen)}.")
    return context.history()


async def _take_back(
    asked: Takeback, head: int, call_id: ToolCallId, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    history = await _history_of(asked.label, context)
    change = await history.reverts.change(asked.label, _plan(asked), asked.reason, call_id=call_id, expected_head=head)
    text = f"Done: {_deed(asked, change)}. Memory block {asked.label} has {plural(len(change.after), 'character')} now."
    return ToolOutcome(text, content=(_diff(change, context),), origin=Origin.MEMORY)


def _plan(asked: Takeback) -> "partial[Plan]":
    if asked.operation == "rollback":
        return partial(plan_rollback, number=asked.version or 0)
    return partial(plan_undo if asked.operation == "undo" else plan_redo, number=asked.version)


def _deed(asked: Takeback, change: HistoryChange) -> str:
    if asked.operation == "rollback":
        return f"make {asked.label} read as in version {change.target}"
    return f"take back write {change.target} of {asked.label}"


def _diff(change: HistoryChange, context: ToolContext) -> DiffContent:
    return DiffContent(memory_path(change.label, context.cwd), change.before, change.after)


def _entry(write: Write) -> str:
    at = datetime.fromtimestamp(write.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    target = "" if write.target is None else f" of {write.target}"
    size = "" if write.size is None else f", {write.size:,} characters"
    reason = f": {one_line(write.reason)}" if write.reason else ""
    return f"{write.number}. {at} {write.actor} {write.operation}{target}{size}{reason}"
