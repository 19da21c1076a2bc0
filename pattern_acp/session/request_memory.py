"""What is read of the constellation for a request: memory, and whether words were forgotten meanwhile.

Owns: that a request never carries forgotten words, and that both are read at once. Must not know: how requests are
built.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.context.builder import MemoryView
from pattern_acp.domain.errors import BlockError
from pattern_acp.domain.ids import TurnId
from pattern_acp.journal.ancestry import newest_redaction_of_history
from pattern_acp.session.memory_context import damaged_view, memory_view
from pattern_acp.tools.base import MemoryBlockView
from pattern_acp.turn.loop import show_sentence

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)


async def current_memory(session: "Session", turn_id: TurnId) -> list[MemoryView]:
    """The memory that this request shows. Damaged memory never stops a turn: the person is told once a session."""
    try:
        return await _views(session, turn_id, await session.memory.blocks())
    except BlockError as error:
        return await _without_memory(session, turn_id, error)


async def memory_of_request(session: "Session", turn_id: TurnId) -> tuple[bool, list[MemoryView]]:
    """Whether `drop_forgotten` dropped something, and the memory that this request shows; one read for both.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    known = session.state.redacted_seq
    try:
        newest, blocks = await session.memory.blocks_beside(
            lambda tx: newest_redaction_of_history(tx, session.session_id, after=known)
        )
    except BlockError as error:
        forgotten = await drop_forgotten(session)
        return forgotten, await _without_memory(session, turn_id, error)
    return await _drop(session, newest), await _views(session, turn_id, blocks)


async def _views(session: "Session", turn_id: TurnId, blocks: Sequence[MemoryBlockView]) -> list[MemoryView]:
    damaged = session.memory.damaged
    for one in damaged:
        await _tell(session, turn_id, f"This session goes on without one block of memory: {one.sentence}")
    return [*(memory_view(block) for block in blocks), *(damaged_view(one) for one in damaged)]


async def _without_memory(session: "Session", turn_id: TurnId, error: BlockError) -> list[MemoryView]:
    logger.warning("memory could not be read: %s", type(error).__name__)
    await _tell(session, turn_id, f"This session goes on without memory: {error.sentence}")
    return []


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
    await session.reload_history()
    conversation[:] = session.state.history
    session.state.history = conversation
    return True
