"""Context that is added beside the user's words: what hooks say, instructions of a folder in hand.

Owns: that it waits for the next request, is recorded first, and is visible to the user. Must not know: where it comes
from.
"""

from typing import TYPE_CHECKING

from pattern_acp.context.history import add_context
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import Location, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.untrusted_blocks import untrusted_block
from pattern_acp.journal.events import ContextAdded, ToolCallFinished, ToolCallStarted
from pattern_acp.session.state import Addition, InjectionQueue
from pattern_acp.turn.recorder import NewEvent, TurnRecorder

if TYPE_CHECKING:
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState


async def add_waiting(
    session: "Session",
    turn_id: TurnId,
    queue: "InjectionQueue | SessionState | None" = None,
    recorder: TurnRecorder | None = None,
) -> None:
    """Put what waits into a conversation, before the request that is about to be built.

    It is the session's own, recorded as such, unless `queue` and `recorder` name another.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    queue, recorder = queue or session.state, recorder or session.recorder
    waiting = list(queue.waiting)
    queue.waiting.clear()
    if not waiting:
        return
    ids = session.constellation.ids
    parts = tuple(part for addition in waiting for part in (text_of(addition), *addition.parts))
    message = Message(MessageId(ids.new("msg")), Role.USER, parts)
    events = [new for addition in waiting for new in _shown(turn_id, ToolCallId(ids.new("call")), addition)]
    added = ContextAdded(turn_id, message, tuple(addition.source for addition in waiting))
    await recorder.record(*events, NewEvent(added, Actor.SYSTEM, Origin.WORKSPACE))
    add_context(queue.history, message)


def text_of(addition: Addition) -> TextPart:
    """Return the text of an addition as the conversation has it."""
    return TextPart(f"{untrusted_block('context', addition.text, source=addition.source)}\n")


def _shown(turn_id: TurnId, call_id: ToolCallId, addition: Addition) -> tuple[NewEvent, NewEvent]:
    locations = (Location(addition.path),) if addition.path else ()
    call = ToolCallView(call_id, addition.name, addition.title, ToolKind.READ, {}, locations)
    content = (TextContent(addition.text),)
    ended = ToolCallFinished(turn_id, call_id, ToolCallStatus.COMPLETED, addition.text, content=content)
    return (
        NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM, Origin.WORKSPACE),
        NewEvent(ended, Actor.SYSTEM, Origin.WORKSPACE),
    )
