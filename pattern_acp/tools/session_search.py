"""The tool session_search.

Owns: what the model reads of a hit, and the links that the user can follow. Must not know: how sessions are searched.
"""

from enum import StrEnum
from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import Origin, ReadMemory
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import LinkContent, TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    NotAvailableError,
    PreparedCall,
    Progress,
    SessionAccess,
    SessionHit,
    TargetMissingError,
    ToolContext,
    ToolInputError,
    ToolOutcome,
    TurnQuery,
)
from pattern_acp.tools.schema import input_schema, parse_arguments

DEFAULT_HITS = 8
"""Hits when the model asks for no number; each is at most a short paragraph."""

LINK_CHARACTERS = 200
"""Characters of a hit's text, beside its link."""


MOST_TURNS = 10
"""Turns of one result; each is a paragraph."""

DONE_BESIDE = 3
"""Turns whose calls have the words, beside what was said."""


class SessionKind(StrEnum):
    """The part of earlier sessions that is searched: words of the user and the agent, or tool calls."""

    SAID = "said"
    DONE = "done"


class SessionSearchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of session_search."""

    query: str = ""
    when: Annotated[str, Meta(description="Yesterday, 2026-11-27.")] = ""
    path: str = ""
    kinds: tuple[SessionKind, ...] = ()
    turn: Annotated[str, Meta(description="A result's link.")] = ""
    limit: Annotated[int, Meta(ge=1, le=30)] = DEFAULT_HITS

    @property
    def is_about_turns(self) -> bool:
        """True if whole turns are asked for, by their day, their files or their calls."""
        return bool(self.when.strip() or self.path.strip() or self.kinds or not self.query.strip())


class SearchSessions:
    """Finds what was said and done in which session of the project and in which turn of it, and opens a turn."""

    spec = ToolSpec(
        "session_search",
        "Find what earlier sessions here said and did, or open a turn.",
        input_schema(SessionSearchArguments, unlisted=("kinds", "limit")),
    )
    kind = ToolKind.SEARCH
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        asked = parse_arguments(arguments, SessionSearchArguments)
        if not (asked.query.strip() or asked.when.strip() or asked.path.strip() or asked.turn.strip()):
            raise ToolInputError(
                "There is nothing to look for",
                advice="give `query`, `when`, `path`, or `turn` with the link of a result.",
            )
        words = " ".join(filter(None, (asked.query, asked.when, asked.path))) or asked.turn
        title = f"Open {one_line(asked.turn)}" if asked.turn else f"Search sessions: {one_line(words)}"
        return PreparedCall(title, (ReadMemory(),), partial(_run, asked, context))


async def _run(asked: SessionSearchArguments, context: ToolContext, _progress: Progress) -> ToolOutcome:
    if context.sessions is None:
        raise NotAvailableError("There are no other sessions to search here.")
    if asked.turn:
        opened = await context.sessions.opened(asked.turn, context.result_limit)
        if not opened:
            raise TargetMissingError("No session of this project has that turn", advice="take the link from a result.")
        return ToolOutcome(opened, content=(TextContent("1 turn."),), origin=Origin.MEMORY)
    if asked.is_about_turns:
        return await _turns(asked, context.sessions, context)
    hits = await context.sessions.search(asked.query, asked.limit)
    done = await context.sessions.turns(TurnQuery(asked.query, said=False), DONE_BESIDE)
    told = [*map(_told, hits), *done]
    text = "\n\n".join(told) or "No other session of this project has it; try other words."
    links = tuple(
        LinkContent(hit.uri, hit.name, f"{hit.day}, {hit.speaker}: {one_line(hit.text, LINK_CHARACTERS)}")
        for hit in hits
    )
    return ToolOutcome(
        cut_middle(text, context.result_limit).text,
        content=(TextContent(f"{plural(len(told), 'hit')}."), *links),
        origin=Origin.MEMORY,
    )


async def _turns(asked: SessionSearchArguments, sessions: SessionAccess, context: ToolContext) -> ToolOutcome:
    kinds = asked.kinds or tuple(SessionKind)
    query = TurnQuery(
        asked.query, asked.when, asked.path, done=SessionKind.DONE in kinds, said=SessionKind.SAID in kinds
    )
    found = await sessions.turns(query, min(asked.limit, MOST_TURNS))
    text = "\n\n".join(found) or "No turn of this project fits; try other words or days."
    shown = (TextContent(f"{plural(len(found), 'turn')}."),)
    return ToolOutcome(cut_middle(text, context.result_limit).text, content=shown, origin=Origin.MEMORY)


def _told(hit: SessionHit) -> str:
    speaker = "the user" if hit.speaker == "user" else "the agent"
    return f"[{hit.name}, {hit.day}, {speaker}; {hit.uri}]\n{hit.text}"
