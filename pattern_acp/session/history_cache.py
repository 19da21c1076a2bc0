"""The conversation of a session as its journal has it.

Owns: reading it again after a turn that did not end on its own, or when words of it were forgotten. Must not know: how
a turn runs. What was read once is not read again: each reading begins behind the last turn that the one before saw end.
"""

from typing import TYPE_CHECKING

from pattern_acp.db.connection import Transaction
from pattern_acp.journal.events import TurnEnded
from pattern_acp.journal.history import active_events, newest_redaction_of_history, read_history, went_back
from pattern_acp.journal.reader import Recorded
from pattern_acp.session.state import HistoryCache

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


async def reload_history(session: "Session") -> None:
    """Take the conversation of `session` afresh from the journal.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the constellation cannot be read, or what waits for a commit cannot be written.
    """
    state = session.state
    await session.recorder.commit_waiting()

    def read(tx: Transaction) -> tuple[HistoryCache, list[Recorded], int]:
        newest = newest_redaction_of_history(tx, session.session_id, after=state.redacted_seq)
        # Forgetting changes what was read already; what ends in shared history is no place in the session's own stream.
        is_known = newest == state.redacted_seq and state.settled.session_seq > 0
        known = state.settled if is_known else HistoryCache()
        added = read_history(tx, session.session_id, after=known.session_seq)
        if went_back(added):
            return HistoryCache(), active_events(read_history(tx, session.session_id)), newest
        return known, added, newest

    known, recorded, redacted_seq = await session.constellation.database.read(read)
    ends = (place for place in range(len(recorded), 0, -1) if isinstance(recorded[place - 1].event, TurnEnded))
    end = next(ends, 0)
    state.settled = known.followed_by(recorded[:end])
    now = state.settled.followed_by(recorded[end:])
    state.history, state.shown, state.redacted_seq = list(now.messages), now.shown, redacted_seq
