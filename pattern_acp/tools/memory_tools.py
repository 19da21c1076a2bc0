"""The tools memory_read and memory_search; `memory_write.py` has the third.

Owns: how memory is read and found by the model. Must not know: how blocks are stored or merged.
"""

from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import ReadMemory
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NO_GOOD_MATCH,
    MemoryBlockView,
    MemoryHit,
    MemoryNarrowing,
    PreparedCall,
    Progress,
    TargetMissingError,
    ToolContext,
    ToolFailedError,
    ToolInputError,
    ToolOutcome,
)
from pattern_acp.tools.memory_search import repeats, without_repeats
from pattern_acp.tools.schema import input_schema, parse_arguments

DEFAULT_HITS = 8
"""Hits when the model asks for no number; each is at most a short paragraph."""

MOST_LOOKED_AT = 40
"""Hits that are counted, more than the model can ask for."""

_DAY_MS = 24 * 3_600_000


class SearchKind(StrEnum):
    """What memory_search looks in: blocks, archival entries, replaced ones, messages by author, plan steps, skills."""

    BLOCK = "block"
    ARCHIVAL = "archival"
    SUPERSEDED = "superseded"
    USER = "user"
    ASSISTANT = "assistant"
    TASK = "task"
    SKILL = "skill"


class SearchScope(StrEnum):
    """Whose memory memory_search looks in."""

    PERSONA = "persona"
    PROJECT = "project"
    SHARED = "shared"


class MemoryReadArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of memory_read."""

    label: str | None = None
    version: Annotated[int, Meta(ge=1)] | None = None
    history: Annotated[bool, Meta(description="Who wrote it, when and why.")] = False


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
        "Read a memory block as it is now or was, or all blocks without label.",
        input_schema(MemoryReadArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, MemoryReadArguments)
        title = f"Read memory: {one_line(asked.label)}" if asked.label else "Read memory"
        if not asked.label and (asked.history or asked.version is not None):
            raise ToolInputError("`label` is missing; history and version are those of one block.")
        return PreparedCall(title, (ReadMemory(),), partial(_read_asked, asked, context))


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


async def _read_asked(asked: MemoryReadArguments, context: ToolContext, progress: Progress) -> ToolOutcome:
    label = asked.label or ""
    # Late, with all of memory's history behind it.
    from pattern_acp.tools.memory_takeback import read_log, read_version

    if asked.version is not None:
        return await read_version(label, asked.version, context)
    if asked.history:
        return await read_log(label, context)
    return await _read(label, context, progress)


async def _read(label: str, context: ToolContext, _progress: Progress) -> ToolOutcome:
    blocks = await context.memory.blocks()
    damaged = context.memory.unreadable()
    if label in damaged:
        raise ToolFailedError(f"{damaged[label]} Tell the person; other blocks can be read.")
    chosen = [block for block in blocks if label in {"", block.label}]
    if not chosen:
        known = ", ".join(block.label for block in blocks)
        raise TargetMissingError(f"There is no memory block of this label; the blocks are {known}.")
    if label:
        context.memory.touch(label)
    told = [*map(_block_text, chosen), *(() if label else damaged.values())]
    text = cut_middle("\n\n".join(told), context.result_limit).text
    shown = ", ".join(f"{block.label}: {len(block.text):,} characters" for block in chosen)
    return ToolOutcome(text, content=(TextContent(shown),), origin=Origin.MEMORY)


def _block_text(block: MemoryBlockView) -> str:
    head = f"[{block.label}] {block.description} ({len(block.text):,} of {block.limit:,} characters)"
    about = [] if block.permission == "read_write" else [f"Permission: {block.permission}."]
    if block.shared_from:
        whose = "Shared by those it is attached to." if block.scope == "shared" else f"Shared by {block.shared_from}."
        about.append(whose)
    about += [block.form] if block.form else []
    lines = [head, *([" ".join(about)] if about else []), block.text or "(empty)"]
    return "\n".join((*lines, *(f"[{note}]" for note in block.notes)))


async def _search(
    asked: MemorySearchArguments, narrowing: MemoryNarrowing, context: ToolContext, _progress: Progress
) -> ToolOutcome:
    looked_at = await context.memory.search(asked.query, MOST_LOOKED_AT, narrowing)
    found = without_repeats(looked_at)
    hits = found[: asked.limit]
    context.memory.recalled([hit.entry for hit in hits])
    text = "\n\n".join(_hit_text(hit) for hit in hits) or "Nothing was found; try other words."
    guessed = any(hit.is_guess for hit in hits)
    text = f"{NO_GOOD_MATCH}\n\n{text}" if guessed else text
    # What is near in meaning alone is always there, however far it is.
    further = 0 if guessed else sum(1 for hit in found[asked.limit :] if hit.words)
    in_all = f"{len(hits) + further}{' or more' if len(looked_at) == MOST_LOOKED_AT else ''}"
    if further:
        text += (
            f"\n\n({len(hits)} of {in_all} that have words of the query; a higher limit or narrower words show others.)"
        )
    count = f"{len(hits)} of {in_all} hits" if further else plural(len(hits), "hit")
    summary = f"{count}{', none of them close' if guessed else ''}."
    return ToolOutcome(
        cut_middle(text, context.result_limit).text, content=(TextContent(summary),), origin=Origin.MEMORY
    )


def _hit_text(hit: MemoryHit) -> str:
    day = datetime.fromtimestamp(hit.at_ms / 1000, UTC).date().isoformat()
    why = f"; {hit.why}" if hit.why else ""
    return f"[{hit.source}{repeats(hit)}, {day}{why}]\n{hit.text}"
