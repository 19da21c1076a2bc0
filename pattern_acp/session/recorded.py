"""The conversation of a session as its journal has it.

Owns: reading it again after a turn that did not end by itself, or when words of it were forgotten. Must not know: how a
turn runs. What was read once is not read again: each reading begins behind the last turn that the one before saw end.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from pattern_acp.context.history import history_of
from pattern_acp.context.memory_notices import last_shown
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.messages import Message
from pattern_acp.journal.ancestry import newest_redaction_of_history, read_history
from pattern_acp.journal.events import HistoryCleared, MemoryShown, TurnEnded
from pattern_acp.journal.kept import kept_events, went_back
from pattern_acp.journal.reader import Recorded

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


class Conversation(Struct, frozen=True):
    """The conversation up to an event, with the memory that the model was last shown in whole."""

    session_seq: int = 0
    """The place of that event in the session's stream; 0 for the beginning."""
    messages: tuple[Message, ...] = ()
    shown: MemoryShown | None = field(default=None)

    def followed_by(self, recorded: Sequence[Recorded]) -> "Conversation":
        """The conversation once these events, which are the next of the stream, were recorded too."""
        if not recorded:
            return self
        events = [item.event for item in recorded]
        tells_memory = any(isinstance(event, MemoryShown | HistoryCleared) for event in events)
        shown = last_shown(events) if tells_memory else self.shown
        return Conversation(recorded[-1].session_seq, tuple(history_of(events, self.messages)), shown)


async def read_conversation(session: "Session") -> None:
    """Take the conversation of `session` afresh from the journal.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the constellation cannot be read.
    """
    state = session.state

    def read(tx: Transaction) -> tuple[Conversation, list[Recorded], int]:
        newest = newest_redaction_of_history(tx, session.session_id, after=state.redacted_seq)
        # Forgetting changes what was read already; what ends in shared history is no place in the session's own stream.
        is_known = newest == state.redacted_seq and state.settled.session_seq > 0
        known = state.settled if is_known else Conversation()
        added = read_history(tx, session.session_id, after=known.session_seq)
        if went_back(added):
            return Conversation(), kept_events(read_history(tx, session.session_id)), newest
        return known, added, newest

    known, recorded, redacted_seq = await session.constellation.database.read(read)
    ends = (place for place in range(len(recorded), 0, -1) if isinstance(recorded[place - 1].event, TurnEnded))
    end = next(ends, 0)
    state.settled = known.followed_by(recorded[:end])
    now = state.settled.followed_by(recorded[end:])
    state.history, state.shown, state.redacted_seq = list(now.messages), now.shown, redacted_seq
