"""The tools memory_read, memory_write and memory_search.

Owns: how memory is read, changed and found by the model. Must not know: how blocks are stored or merged.
"""

from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.tool_calls import DiffContent, TextContent, ToolKind
from pattern_acp.policy.access import ReadMemory, WriteMemory
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    MemoryBlockView,
    MemoryChange,
    MemoryEdit,
    MemoryHit,
    MemoryNarrowing,
    PreparedCall,
    Progress,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.text_limits import cut_middle, one_line, plural

DEFAULT_HITS = 8
"""Hits when the model asks for no number; each is at most a short paragraph."""

_DAY_MS = 24 * 3_600_000


class MemoryOperation(StrEnum):
    """How memory_write changes a block."""

    APPEND = "append"
    REPLACE = "replace"
    REWRITE = "rewrite"


class SearchKind(StrEnum):
    """What memory_search looks in: blocks, archival entries, replaced ones, or messages by their author."""

    BLOCK = "block"
    ARCHIVAL = "archival"
    SUPERSEDED = "superseded"
    USER = "user"
    ASSISTANT = "assistant"


class SearchScope(StrEnum):
    """Whose memory memory_search looks in."""

    PERSONA = "persona"
    PROJECT = "project"
    SHARED = "shared"


class MemoryReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_read."""

    label: str | None = None


class MemoryWriteArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_write."""

    label: Annotated[str, Meta(min_length=1)]
    operation: MemoryOperation
    text: str
    old_text: Annotated[str, Meta(description="Exact passage, for replace.")] | None = None
    reason: str = ""


class MemorySearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_search."""

    query: Annotated[str, Meta(min_length=1)]
    limit: Annotated[int, Meta(ge=1, le=30)] = DEFAULT_HITS
    kinds: tuple[SearchKind, ...] = ()
    scope: SearchScope | None = None
    session: str = ""
    since: Annotated[str, Meta(description="Date, like 2026-11-27.")] = ""
    until: str = ""


class MemoryRead:
    """Reads one block, or all."""

    spec = ToolSpec(
        "memory_read",
        "Read a memory block as it is now, or all blocks without label.",
        input_schema(MemoryReadArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemoryReadArguments)
        title = f"Read memory: {one_line(asked.label)}" if asked.label else "Read memory"
        return PreparedCall(title, (ReadMemory(),), partial(_read, asked.label or "", context))


class MemoryWrite:
    """Changes one block, for every later session."""

    spec = ToolSpec(
        "memory_write",
        "Remember something for later sessions: append to a block, replace an exact passage of it, or rewrite it.",
        input_schema(MemoryWriteArguments),
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemoryWriteArguments)
        if asked.operation is MemoryOperation.REPLACE and not asked.old_text:
            raise ToolInputError("`old_text` is missing; replace needs the exact passage that `text` stands for.")
        if asked.operation is not MemoryOperation.REPLACE and asked.old_text:
            raise ToolInputError(f"`old_text` is only for replace; leave it out to {asked.operation.value}.")
        edit = MemoryEdit(asked.label, asked.operation.value, asked.text, asked.old_text or "", asked.reason)
        change = await context.memory.preview(edit)
        return PreparedCall(
            title=f"Write memory: {one_line(asked.label)}",
            accesses=(WriteMemory(asked.label),),
            run=partial(_write, edit, call_id, context),
            preview=(_diff(change, context),),
        )


class MemorySearch:
    """Finds what was said or remembered before."""

    spec = ToolSpec(
        "memory_search",
        "Search memory and messages of earlier sessions, by words and meaning.",
        input_schema(MemorySearchArguments),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemorySearchArguments)
        narrowing = _narrowing(asked)
        title = f"Search memory: {one_line(asked.query)}"
        return PreparedCall(title, (ReadMemory(),), partial(_search, asked, narrowing, context))


def memory_path(label: str, cwd: str) -> str:
    """The path under which a block's diff is shown: ACP wants an absolute one, but a block is no file.

    It lies at the root of the drive that `cwd` is on, where nobody keeps files, so that no editor takes it for one.
    """
    pure = PureWindowsPath(cwd) if PureWindowsPath(cwd).drive else PurePosixPath(cwd)
    return str(type(pure)(pure.anchor or "/") / "memory" / f"{label}.md")


def _diff(change: MemoryChange, context: ToolContext) -> DiffContent:
    return DiffContent(memory_path(change.label, context.cwd), change.before, change.after)


async def _read(label: str, context: ToolContext, _progress: Progress) -> ToolOutcome:
    blocks = await context.memory.blocks()
    chosen = [block for block in blocks if label in {"", block.label}]
    if not chosen:
        known = ", ".join(block.label for block in blocks)
        raise ToolFailedError(f"There is no memory block of this label; the blocks are {known}.")
    text = cut_middle("\n\n".join(_block_text(block) for block in chosen), context.result_limit).text
    shown = ", ".join(f"{block.label}: {len(block.text):,} characters" for block in chosen)
    return ToolOutcome(text, content=(TextContent(shown),), origin=Origin.MEMORY)


def _block_text(block: MemoryBlockView) -> str:
    head = f"[{block.label}] {block.description} ({len(block.text):,} of {block.limit:,} characters)"
    return f"{head}\n{block.text or '(empty)'}"


async def _write(edit: MemoryEdit, call_id: ToolCallId, context: ToolContext, _progress: Progress) -> ToolOutcome:
    change = await context.memory.commit(edit, call_id)
    done = "did not change" if change.before == change.after else "is saved"
    text = f"Memory block {change.label} {done}; it has {plural(len(change.after), 'character')} now."
    return ToolOutcome(text, content=(_diff(change, context),), origin=Origin.MEMORY)


def _narrowing(asked: MemorySearchArguments) -> MemoryNarrowing:
    return MemoryNarrowing(
        scope=asked.scope or "",
        kinds=tuple(asked.kinds),
        session=asked.session,
        since_ms=_day_ms(asked.since, "since"),
        until_ms=None if not asked.until else (_day_ms(asked.until, "until") or 0) + _DAY_MS - 1,
    )


def _day_ms(text: str, name: str) -> int | None:
    """The first moment of a date, in UTC; a time behind the date is left out."""
    if not text:
        return None
    try:
        day = datetime.fromisoformat(text[:10]).replace(tzinfo=UTC)
    except ValueError:
        raise ToolInputError(f"`{name}` is no date; write it like 2026-11-27.") from None
    return int(day.timestamp() * 1000)


async def _search(
    asked: MemorySearchArguments, narrowing: MemoryNarrowing, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    hits = await context.memory.search(asked.query, asked.limit, narrowing)
    text = "\n\n".join(_hit_text(hit) for hit in hits) or "Nothing was found; try other words."
    summary = f"{plural(len(hits), 'hit')}."
    return ToolOutcome(
        cut_middle(text, context.result_limit).text, content=(TextContent(summary),), origin=Origin.MEMORY
    )


def _hit_text(hit: MemoryHit) -> str:
    day = datetime.fromtimestamp(hit.at_ms / 1000, UTC).date().isoformat()
    why = f"; {hit.why}" if hit.why else ""
    return f"[{hit.source}, {day}{why}]\n{hit.text}"
