"""The thread of a subagent in the journal of its session.

Owns: that everything it does is recorded as its own and not as a part of the conversation. Must not know: what is done.
"""

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.journal.events import Event, GrantStored, SubagentRecorded
from pattern_acp.session.subagents.activity import Activity
from pattern_acp.turn.events import Transient
from pattern_acp.turn.sink import Fact, TurnSink


class ThreadName(Struct, frozen=True):
    """Which thread: the turn and call it belongs to, its id, and the subagent's name."""

    turn_id: TurnId
    call_id: ToolCallId
    thread_id: str
    name: str

    def recorded(self, event: Event) -> Event:
        """`event` as the journal has it. What the person allows always is the session's, for which it holds."""
        if isinstance(event, GrantStored):
            return event
        return SubagentRecorded(self.turn_id, self.call_id, self.thread_id, self.name, event)


class ThreadSink:
    """`turn.sink.TurnSink` of a subagent, over that of its session."""

    def __init__(self, sink: TurnSink, name: ThreadName, activity: Activity) -> None:
        self._sink = sink
        self._name = name
        self._activity = activity
        self.events: list[Event] = []
        """What was recorded so far."""

    @property
    def follows_text(self) -> bool:
        """See `TurnSink.follows_text`; nobody sees its text while it comes."""
        return False

    async def record(self, *facts: Fact) -> None:
        """See `TurnSink.record`."""
        await self._sink.record(*(replace(fact, event=self._name.recorded(fact.event)) for fact in facts))
        for fact in facts:
            self.events.append(fact.event)
            await self._activity.follow(fact.event)

    async def show(self, event: Transient) -> None:
        """See `TurnSink.show`: what is not durable is not shown, since a client knows no calls of a subagent."""

    async def commit_partial(self) -> None:
        """See `TurnSink.commit_partial`: what nobody was shown need not survive."""
