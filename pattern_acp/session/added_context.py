"""What the model is told beside the person's words: what hooks say, instructions of a folder in hand.

Owns: that it waits for the next request, is recorded first, and is visible to the person. Must not know: where it comes
from.
"""

from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.context.history import add_context
from pattern_acp.domain.data_frames import framed
from pattern_acp.domain.ids import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import Message, Part, Role, TextPart
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.tool_calls import Location, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import ContextAdded, ToolCallFinished, ToolCallStarted
from pattern_acp.turn.sink import Fact, TurnSink

if TYPE_CHECKING:
    from pattern_acp.session.session import Session, SessionState


class Addition(Struct, frozen=True):
    """One thing to tell: `name` and `title` of the call that shows it, the text, and where it came from."""

    name: str
    title: str
    text: str
    source: str
    path: str = ""
    """The file behind it, for the editor to open."""
    parts: tuple[Part, ...] = ()
    """What belongs to it besides the text, such as files that it mentions."""


class Hearing(Struct):
    """A conversation with a model and what it is told next: a subagent's; a session's state is one too."""

    history: list[Message] = field(default_factory=list[Message])
    waiting: list[Addition] = field(default_factory=list[Addition])


async def add_waiting(
    session: "Session", turn_id: TurnId, heard_by: "Hearing | SessionState | None" = None, sink: TurnSink | None = None
) -> None:
    """Put what waits into a conversation, before the request that is about to be built.

    It is the session's own, recorded as such, unless `heard_by` and `sink` name another.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    heard_by, sink = heard_by or session.state, sink or session.sink
    waiting = list(heard_by.waiting)
    heard_by.waiting.clear()
    if not waiting:
        return
    ids = session.constellation.ids
    parts = tuple(part for addition in waiting for part in (_text_of(addition), *addition.parts))
    message = Message(MessageId(ids.new("msg")), Role.USER, parts)
    facts = [fact for addition in waiting for fact in _shown(turn_id, ToolCallId(ids.new("call")), addition)]
    added = ContextAdded(turn_id, message, tuple(addition.source for addition in waiting))
    await sink.record(*facts, Fact(added, Actor.SYSTEM, Origin.WORKSPACE))
    add_context(heard_by.history, message)


def _text_of(addition: Addition) -> TextPart:
    return TextPart(f"{framed('context', addition.text, source=addition.source)}\n")


def _shown(turn_id: TurnId, call_id: ToolCallId, addition: Addition) -> tuple[Fact, Fact]:
    locations = (Location(addition.path),) if addition.path else ()
    call = ToolCallView(call_id, addition.name, addition.title, ToolKind.READ, {}, locations)
    content = (TextContent(addition.text),)
    ended = ToolCallFinished(turn_id, call_id, ToolCallStatus.COMPLETED, addition.text, content=content)
    return (
        Fact(ToolCallStarted(turn_id, call), Actor.SYSTEM, Origin.WORKSPACE),
        Fact(ended, Actor.SYSTEM, Origin.WORKSPACE),
    )
