"""Recalling for a prompt, before its turn, in sight of the person.

Owns: when memory is searched for a prompt, how long that may take, and the tool call that shows what came of it. Must
not know: how things are found, or which of them are relevant (`context/recall_budget.py`).
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import anyio

from pattern_acp.context import recall_budget
from pattern_acp.context.builder import MemoryView
from pattern_acp.context.recall_budget import Recallable
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.messages import Message
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.untrusted_blocks import NOTHING, Section, untrusted_block
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted
from pattern_acp.memory.service.access import MemoryNarrowing
from pattern_acp.memory.words import query_terms
from pattern_acp.turn.sink import Fact

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)

CANDIDATES = 24
"""Things looked at: those that the context has anyway are among them."""

QUERY_CHARACTERS = 2_000
"""Characters of a prompt that are searched for; what it is about stands at its beginning."""

SHOWN_QUERY = 200
"""Characters of the prompt that the tool call repeats as its input."""


_RECALLED = MemoryNarrowing(kinds=("block", "archival", "user", "assistant", "task"), hurried=True)
"""Not skills, which the model has a list of."""


async def recall_for(session: "Session", turn_id: TurnId, message: Message, memory: Sequence[MemoryView]) -> Section:
    """What the model is told of memory for this prompt, beside the blocks that it is shown; empty without anything.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    tokens = session.state.settings.memory.recall_tokens
    # `offline` searches memory itself and shows it; it reads nothing of this.
    if tokens == 0 or session.state.model.provider == "offline":
        return NOTHING
    recalled, relevant = await _find(session, message.words[:QUERY_CHARACTERS], tokens, memory)
    if not recalled:
        return NOTHING
    session.memory.recalled([one.entry for one in recalled])
    text = recall_budget.for_model(recalled)
    query = " ".join(message.words.split())[:SHOWN_QUERY]
    await show_search(
        session,
        turn_id,
        "memory_recall",
        recall_budget.title_of(recalled, relevant),
        query,
        recall_budget.for_person(recalled),
    )
    return text


async def tell_repeats(session: "Session", turn_id: TurnId, sentences: Sequence[str]) -> Section:
    """What the model is told of facts that say nearly the same, in sight of the person.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    title = "Found memories that say nearly the same"
    await show_search(session, turn_id, "memory_repeats", title, "", "\n".join(sentences))
    return untrusted_block("memory_repeats", *sentences)


async def show_search(session: "Session", turn_id: TurnId, name: str, title: str, query: str, found: str) -> None:
    """Record and show a search of ours as a call that is done already, so that memory is never invisible.

    Raises:
        DatabaseError: it could not be recorded, and was not shown.
    """
    call_id = ToolCallId(session.constellation.ids.new("call"))
    call = ToolCallView(call_id, name, title, ToolKind.SEARCH, {"query": query} if query else {})
    ended = ToolCallFinished(turn_id, call_id, ToolCallStatus.COMPLETED, found, content=(TextContent(found),))
    await session.sink.record(
        Fact(ToolCallStarted(turn_id, call), Actor.SYSTEM, Origin.MEMORY), Fact(ended, Actor.SYSTEM, Origin.MEMORY)
    )


async def _find(
    session: "Session", query: str, tokens: int, memory: Sequence[MemoryView]
) -> tuple[tuple[Recallable, ...], int]:
    """What is told, and how many relevant things there are."""
    telling = recall_budget.telling_words(query_terms(query))
    if not telling:
        return (), 0
    try:
        with anyio.move_on_after(session.constellation.recall_seconds):
            shown = {f"memory block {block.label}" for block in memory if block.is_shown}
            hits = await session.memory.search(query, CANDIDATES, _RECALLED)
            found = [
                Recallable(hit.source, hit.text, hit.at_ms, hit.why, hit.words, hit.meaning, hit.place, hit.entry)
                for hit in hits
                if hit.source not in shown
            ]
            return recall_budget.choose(found, telling, tokens), recall_budget.relevant_count(found, telling)
    except PatternError as error:
        logger.warning("nothing was recalled for a prompt: %s", type(error).__name__)
        return (), 0
    logger.info("Recalling for a prompt took too long and was left out.")
    return (), 0
