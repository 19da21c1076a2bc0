"""Compactions as ACP's own updates, for clients that have them; all others see a collapsed tool call.

Owns: which of a session's recorded calls are compactions, and the updates that stand for them. Must not know: how room
is made (`session/compacting.py`), or the connection.
"""

import msgspec

from pattern_acp.acp import schema
from pattern_acp.acp.content import blocks_of
from pattern_acp.acp.line_budget import CHUNK_CHARACTERS
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.messages import TextPart
from pattern_acp.domain.tool_calls import COMPACT_CALL, TextContent, ToolCallStatus
from pattern_acp.journal.events import Event, ToolCallFinished, ToolCallStarted


class Compactions:
    """The compactions of one session that began and did not end yet."""

    def __init__(self) -> None:
        self._open: set[ToolCallId] = set()

    def update_of(self, event: Event) -> schema.CompactionUpdate | None:
        """What an event shows of a compaction; None for an event of anything else."""
        if isinstance(event, ToolCallStarted) and event.call.name == COMPACT_CALL:
            self._open.add(event.call.call_id)
            return schema.CompactionUpdate(compaction_id=event.call.call_id, status=schema.CompactionStatus.IN_PROGRESS)
        if isinstance(event, ToolCallFinished) and event.call_id in self._open:
            self._open.discard(event.call_id)
            return _end(event)
        return None

    @property
    def unfinished(self) -> tuple[ToolCallId, ...]:
        """Those that began and did not end."""
        return tuple(self._open)

    def given_up(self, call_id: ToolCallId) -> schema.CompactionUpdate | None:
        """What shows that a compaction never recorded its end; None when the call is none, or ended."""
        if call_id not in self._open:
            return None
        self._open.discard(call_id)
        return schema.CompactionUpdate(compaction_id=call_id, status=schema.CompactionStatus.FAILED)


def _end(event: ToolCallFinished) -> schema.CompactionUpdate:
    text = "\n\n".join(item.text for item in event.content if isinstance(item, TextContent))
    if event.status is ToolCallStatus.COMPLETED:
        summary = tuple(blocks_of(TextPart(text), CHUNK_CHARACTERS))
        return schema.CompactionUpdate(
            compaction_id=event.call_id, status=schema.CompactionStatus.COMPLETED, summary=summary
        )
    status = schema.CompactionStatus.CANCELLED if event.interrupted else schema.CompactionStatus.FAILED
    return schema.CompactionUpdate(compaction_id=event.call_id, status=status, error=text or msgspec.UNSET)
