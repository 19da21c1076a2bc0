"""The tool session_search.

Owns: what the model reads of a hit, and the links that the user can follow. Must not know: how sessions are searched.
"""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import ReadMemory
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.origin import Origin
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import LinkContent, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import NotAvailableError, PreparedCall, Progress, SessionHit, ToolContext, ToolOutcome
from pattern_acp.tools.schema import input_schema, parse_arguments

DEFAULT_HITS = 8
"""Hits when the model asks for no number; each is at most a short paragraph."""

LINK_CHARACTERS = 200
"""Characters of a hit's text, beside its link."""


class SessionSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_search."""

    query: Annotated[str, Meta(min_length=1)]
    limit: Annotated[int, Meta(ge=1, le=30)] = DEFAULT_HITS


class SearchSessions:
    """Finds in which session of the project, and in which turn of it, something was said."""

    spec = ToolSpec(
        "session_search",
        "Find which earlier session of this project said something.",
        input_schema(SessionSearchArguments, unlisted=("limit",)),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, SessionSearchArguments)
        title = f"Search sessions: {one_line(asked.query)}"
        return PreparedCall(title, (ReadMemory(),), partial(_run, asked, context))


async def _run(asked: SessionSearchArguments, context: ToolContext, _progress: Progress) -> ToolOutcome:
    if context.sessions is None:
        raise NotAvailableError("There are no other sessions to search here.")
    hits = await context.sessions.search(asked.query, asked.limit)
    text = "\n\n".join(_told(hit) for hit in hits) or "No other session of this project has it; try other words."
    links = tuple(
        LinkContent(hit.uri, hit.name, f"{hit.day}, {hit.speaker}: {one_line(hit.text, LINK_CHARACTERS)}")
        for hit in hits
    )
    return ToolOutcome(
        cut_middle(text, context.result_limit).text,
        content=(TextContent(f"{plural(len(hits), 'hit')}."), *links),
        origin=Origin.MEMORY,
    )


def _told(hit: SessionHit) -> str:
    speaker = "the user" if hit.speaker == "user" else "the agent"
    return f"[{hit.name}, {hit.day}, {speaker}; {hit.uri}]\n{hit.text}"
