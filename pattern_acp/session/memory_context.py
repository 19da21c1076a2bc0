"""A session's memory on its way into requests.

Owns: when the model is shown all of memory and when only what changed, and whose writes those were. Must not know: the
words for it (`context/memory_notices.py`), or how blocks are stored.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.context.builder import MemoryView
from pattern_acp.context.memory_notices import (
    WriteNote,
    change_notices,
    changed_blocks,
    is_worth_restating,
    known_memory,
    shown_memory,
    state_message,
)
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.ids import SessionId, TurnId
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.untrusted_blocks import Section
from pattern_acp.journal.events import MemoryShown
from pattern_acp.memory.cursors import LaterWrite, writes_since
from pattern_acp.memory.permissions import Permission
from pattern_acp.memory.service.access import MemoryBlockView
from pattern_acp.memory.service.scope import MemoryOwner
from pattern_acp.memory.sharing import DamagedBlock
from pattern_acp.turn.sink import Fact

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

DAMAGED = "(What is stored of this block is damaged, so it can be neither read nor written. The person was told.)"
"""What the model reads in the place of a text that is lost."""

_AUTHORS = {
    Actor.HUMAN: "the person",
    Actor.PERSONA: "you, in another session",
    Actor.TOOL: "a tool",
    Actor.SYSTEM: "pattern-acp",
    Actor.PROCESS: "another process",
    Actor.IMPORT: "an import",
}


def memory_owner(session: "Session") -> MemoryOwner:
    """Whose memory a session uses."""
    return MemoryOwner(session.constellation.persona.name, session.state.project_key, session.session_id)


def memory_view(block: MemoryBlockView) -> MemoryView:
    """A block as requests show it."""
    return MemoryView(
        block.label,
        block.description,
        block.text,
        block.limit,
        block.form,
        block.permission,
        block.notes,
        block.in_context,
        block.block_id,
        block.version,
    )


def damaged_view(damaged: DamagedBlock) -> MemoryView:
    """A block that cannot be read, as requests show it: never as an empty one, nor as one that is gone."""
    block = damaged.visible.block
    return MemoryView(
        damaged.visible.label,
        block.description,
        DAMAGED,
        block.limit,
        permission=Permission.READ_ONLY.value,
        block_id=block.id,
        version=block.head_update,
    )


async def show_memory(session: "Session", turn_id: TurnId, views: Sequence[MemoryView]) -> None:
    """Put all of memory before the prompt at the end of the history, when the model does not know it, or not well.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    if not views:
        return
    shown = known_memory(session.state.shown, session.state.history)
    if shown is not None and not is_worth_restating(shown, await memory_changes(session, shown, views)):
        return
    shown = shown_memory(turn_id, views)
    await session.sink.record(Fact(shown, Actor.SYSTEM, Origin.MEMORY))
    session.state.history.insert(len(session.state.history) - 1, state_message(shown))
    session.state.shown = shown


async def memory_changes(session: "Session", shown: MemoryShown, views: Sequence[MemoryView]) -> tuple[Section, ...]:
    """Notices of what changed since the model was shown all.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    notes = await _write_notes(session, shown, views)
    return change_notices(shown, views, notes)


async def _write_notes(
    session: "Session", shown: MemoryShown, views: Sequence[MemoryView]
) -> dict[str, list[WriteNote]]:
    changed = changed_blocks(shown, views)
    if not changed:
        return {}

    def look(tx: Transaction) -> dict[str, list[WriteNote]]:
        return {
            block.block_id: [
                WriteNote(author_of(write, session.session_id), write.at_ms)
                for write in writes_since(tx, block.block_id, block.version)
            ]
            for block in changed
        }

    return await session.constellation.database.read(look)


def author_of(write: LaterWrite, session_id: SessionId) -> str:
    """Who made a write, in the words for the model of a session."""
    if write.actor is Actor.PERSONA and write.stream == session_id:
        return "you"
    return _AUTHORS[write.actor]
