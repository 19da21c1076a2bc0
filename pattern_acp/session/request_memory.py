"""What is read of the constellation for a request: memory, and whether words were forgotten meanwhile.

Owns: that a request never carries forgotten words, and that all of it is read at once. Must not know: how requests are
built.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.context.builder import MemoryView
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.errors import BlockError
from pattern_acp.domain.ids import TurnId
from pattern_acp.journal.history import newest_redaction_of_history
from pattern_acp.memory.repeats import Pair
from pattern_acp.memory.service.access import MemoryBlockView
from pattern_acp.session.memory_context import damaged_view, memory_view
from pattern_acp.session.recorded import reload_history
from pattern_acp.turn.loop import show_sentence

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)


class RequestMemory(Struct, frozen=True):
    """What was read of the constellation at one moment."""

    was_forgotten: bool
    """Whether words of the conversation were, which is taken afresh then."""
    views: tuple[MemoryView, ...] = ()
    """The memory that this request shows."""
    repeats: tuple[str, ...] = ()
    """Facts that say nearly the same, a sentence each, where they were asked for."""


async def memory_of_request(session: "Session", turn_id: TurnId, *, asks_repeats: bool = False) -> RequestMemory:
    """Memory as it is now, with all that a request has to know of the constellation, in one read.

    Damaged memory never stops a turn: the person is told once a session.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    known, memory = session.state.redacted_seq, session.memory

    def look(tx: Transaction) -> tuple[int, tuple[tuple[Pair, str], ...]]:
        untold = memory.repeats.untold(tx) if asks_repeats else ()
        return newest_redaction_of_history(tx, session.session_id, after=known), untold

    try:
        (newest, untold), blocks = await memory.blocks_beside(look)
    except BlockError as error:
        was_forgotten = await drop_forgotten(session)
        untold = await session.constellation.database.read(memory.repeats.untold) if asks_repeats else ()
        repeats = memory.repeats.telling(untold) if asks_repeats else ()
        return RequestMemory(was_forgotten, await _without_memory(session, turn_id, error), repeats)
    repeats = memory.repeats.telling(untold) if asks_repeats else ()
    was_forgotten = await _drop(session, newest)
    return RequestMemory(was_forgotten, await _views(session, turn_id, blocks), repeats)


async def _views(session: "Session", turn_id: TurnId, blocks: Sequence[MemoryBlockView]) -> tuple[MemoryView, ...]:
    damaged = session.memory.damaged
    for one in damaged:
        await _tell(session, turn_id, f"This session goes on without one block of memory: {one.sentence}")
    return (*(memory_view(block) for block in blocks), *(damaged_view(one) for one in damaged))


async def _without_memory(session: "Session", turn_id: TurnId, error: BlockError) -> tuple[MemoryView, ...]:
    logger.warning("memory could not be read: %s", type(error).__name__)
    await _tell(session, turn_id, f"This session goes on without memory: {error.sentence}")
    return ()


async def _tell(session: "Session", turn_id: TurnId, sentence: str) -> None:
    """Show a sentence to the person, once a session."""
    if sentence not in session.state.told_of_memory:
        session.state.told_of_memory.add(sentence)
        await show_sentence(session.sink, turn_id, session.constellation.ids, f"> {sentence}\n\n")


async def drop_forgotten(session: "Session") -> bool:
    """Take the conversation afresh when another session, or another process, had words of it forgotten.

    Says whether that was so. The list stays the same one, since a turn that runs goes on with it.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    known = session.state.redacted_seq
    newest = await session.constellation.database.read(
        lambda tx: newest_redaction_of_history(tx, session.session_id, after=known)
    )
    return await _drop(session, newest)


async def _drop(session: "Session", newest: int) -> bool:
    if newest == session.state.redacted_seq:
        return False
    conversation = session.state.history
    await reload_history(session)
    conversation[:] = session.state.history
    session.state.history = conversation
    return True
