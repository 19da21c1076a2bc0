"""Texts of which the conversation has only the ends: what read_attachment reads.

Owns: finding the whole in the journal. Must not know: what was left out, or why.
"""

from pattern_acp.context.builder import long_text
from pattern_acp.context.history import result_text
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.ids import SessionId
from pattern_acp.journal.events import TurnStarted
from pattern_acp.journal.history import ancestors, read_history
from pattern_acp.journal.reader import Recorded, read_item


async def whole_text(database: Database, session_id: SessionId, text_id: str) -> str | None:
    """The text behind the id of a marker: of a tool call or a part of a prompt; None when there is none.

    From the journal, since a compacted conversation no longer has every message.

    Raises:
        DatabaseError: the constellation cannot be read.
    """

    def read(tx: Transaction) -> tuple[list[Recorded], list[Recorded]]:
        streams = (session_id, *(one.session_id for one in ancestors(tx, session_id)))
        of_call = next((found for stream in streams if (found := read_item(tx, stream, text_id))), list[Recorded]())
        return of_call, [] if of_call else read_history(tx, session_id)

    of_call, stream = await database.read(read)
    if of_call:
        return result_text([item.event for item in of_call])
    return long_text((item.event.message for item in stream if isinstance(item.event, TurnStarted)), text_id)
