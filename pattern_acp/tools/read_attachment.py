"""The tool read_attachment."""

from functools import partial
from typing import Annotated

from msgspec import Meta, Struct

from pattern_acp.domain.access import NoEffect
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.tool_calls import TextContent, ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import (
    BeyondEndError,
    PreparedCall,
    Progress,
    TargetMissingError,
    ToolContext,
    ToolOutcome,
)
from pattern_acp.tools.schema import input_schema, parse_arguments

FOOTER_ROOM = 100
"""Characters kept free for saying what is left."""


class ReadAttachmentArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of read_attachment."""

    id: Annotated[str, Meta(min_length=1)]
    start: Annotated[int, Meta(ge=0)] = 0


class ReadAttachment:
    """Reads on in a text of which the conversation shows only the ends: the person's, or a tool's result."""

    spec = ToolSpec(
        "read_attachment",
        "Read a shortened text or result from character start.",
        input_schema(ReadAttachmentArguments),
    )
    kind = ToolKind.READ
    changes_things = False

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`. The text is part of the conversation, so nothing has to be allowed."""
        asked = parse_arguments(arguments, ReadAttachmentArguments)
        title = f"Read what was left out, from character {asked.start:,}"
        return PreparedCall(title, (NoEffect(),), partial(_run, asked, context))


async def _run(asked: ReadAttachmentArguments, context: ToolContext, _progress: Progress) -> ToolOutcome:
    text = await context.long_text(asked.id)
    if text is None:
        raise TargetMissingError(f"There is no text {asked.id!r} here; take the id from the marker in the message.")
    if asked.start >= len(text):
        raise BeyondEndError(f"The text has only {len(text):,} characters; choose a smaller start.")
    end = asked.start + max(context.result_limit - FOOTER_ROOM, 1)
    footer = f"\n[{len(text) - end:,} characters more; start={end} reads on]" if end < len(text) else ""
    summary = f"Characters {asked.start:,} to {min(end, len(text)):,} of {len(text):,}."
    return ToolOutcome(text[asked.start : end] + footer, content=(TextContent(summary),))
