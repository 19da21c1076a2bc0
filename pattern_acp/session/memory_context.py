"""Whose memory a session uses, and its way into requests.

Owns: the owners of a session's memory and of its history; when the model is shown all of memory and when only what
changed, whose writes those were, and what is recalled for a prompt. Must not know: the words for it
(`context/builder.py`), or how blocks are stored.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.context import recall_budget
from pattern_acp.context.builder import (
    MemoryView,
    WriteNote,
    change_notices,
    changed_blocks,
    is_worth_restating,
    known_memory,
    shown_memory,
    state_message,
)
from pattern_acp.context.recall_budget import Recallable
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import SessionId, ToolCallId, TurnId
from pattern_acp.domain.errors import BlockError, PatternError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.domain.untrusted_blocks import NOTHING, Section, untrusted_block
from pattern_acp.journal.events import MemoryShown, ToolCallFinished, ToolCallStarted, TurnEnded
from pattern_acp.journal.history import active_events, newest_redaction_of_history, read_history, went_back
from pattern_acp.journal.reader import Recorded
from pattern_acp.journal.redact import is_forgotten_after
from pattern_acp.journal.sessions import has_earlier_session
from pattern_acp.memory.blocks import Permission
from pattern_acp.memory.feed import LaterWrite, writes_since
from pattern_acp.memory.search_terms import query_terms
from pattern_acp.memory.service.access import MemoryBlockView, MemoryFilter, MemoryHit
from pattern_acp.memory.service.scope import PERSON, PERSONA, MemoryScope, Writer
from pattern_acp.memory.sharing import DamagedBlock
from pattern_acp.memory.write_validation import Pair, SecretRule
from pattern_acp.session.state import HistoryCache
from pattern_acp.tasks.presence import has_open_tasks
from pattern_acp.turn.loop import show_sentence
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
    from pattern_acp.memory.service.undo import AgentHistory
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.state import SessionState


DAMAGED = "(What is stored of this block is damaged, so it can be neither read nor written. The user knows.)"
"""Text that the model reads instead of one that is lost."""

_AUTHORS = {
    Actor.HUMAN: "the user",
    Actor.PERSONA: "you, in another session",
    Actor.TOOL: "a tool",
    Actor.SYSTEM: "pattern-acp",
    Actor.PROCESS: "another process",
    Actor.IMPORT: "an import",
}


def memory_owner(state: "SessionState") -> MemoryScope:
    """Whose memory a session uses."""
    return MemoryScope(state.persona.name, state.project_key, state.session_id, state.memory_fork)


def history_scope(shared: "Constellation", state: "SessionState", writer: Writer = PERSON) -> "HistoryScope":
    """Whose blocks a session sees, for the user or the agent."""
    # Late, as below: most sessions never look at memory's past.
    from pattern_acp.memory.service.history import HistoryScope

    owner, secrets = memory_owner(state), SecretRule(state.settings.memory.secrets)
    return HistoryScope(owner.owners, state.session_id, writer.actor, writer.origin, shared.peer, secrets)


def memory_history(shared: "Constellation", state: "SessionState") -> "MemoryHistory":
    """History as a session may look at it."""
    from pattern_acp.memory.service.history import MemoryHistory

    owner = memory_owner(state)
    if owner.fork is None:
        return MemoryHistory(shared.database, owner.owners)
    return MemoryHistory(shared.database, owner.owners, inherited=owner.lasting.owners, until_ms=owner.fork.forked_ms)


def agent_history(shared: "Constellation", state: "SessionState", turn_id: TurnId) -> "AgentHistory":
    """History as the agent may look at it and propose changes."""
    from pattern_acp.memory.service.undo import AgentHistory, MemoryReverts

    scope = history_scope(shared, state, PERSONA)
    reverts = MemoryReverts(shared.database, scope, clock=shared.clock)
    reverts.turn_id = turn_id
    return AgentHistory(memory_history(shared, state), reverts)


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


async def show_memory(dialogue: "Dialogue", turn_id: TurnId, views: Sequence[MemoryView]) -> None:
    """Put all of memory before the prompt at the end of the history, when the model does not know it, or not well.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    if not views:
        return
    shown = known_memory(dialogue.state.shown, dialogue.state.history)
    if shown is not None:
        changes = await memory_changes(dialogue, shown, views)
        if not changes or not is_worth_restating(shown, changes):
            return
    shown = shown_memory(turn_id, views)
    await dialogue.recorder.record(NewEvent(shown, Actor.SYSTEM, Origin.MEMORY))
    dialogue.state.history.insert(len(dialogue.state.history) - 1, state_message(shown))
    dialogue.state.shown = shown


async def memory_changes(dialogue: "Dialogue", shown: MemoryShown, views: Sequence[MemoryView]) -> tuple[Section, ...]:
    """Notices of what changed since the model was shown all.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    known = dialogue.state.memory_changes
    if known is None or known[:2] != (shown, views):
        notes = await _write_notes(dialogue, shown, views)
        known = dialogue.state.memory_changes = shown, tuple(views), change_notices(shown, views, notes)
    return known[2]


async def _write_notes(
    dialogue: "Dialogue", shown: MemoryShown, views: Sequence[MemoryView]
) -> dict[str, list[WriteNote]]:
    changed = changed_blocks(shown, views)
    if not changed:
        return {}

    def look(tx: Transaction) -> dict[str, list[WriteNote]]:
        return {
            block.block_id: [
                WriteNote(author_of(write, dialogue.session_id), write.at_ms)
                for write in writes_since(tx, block.block_id, block.version)
            ]
            for block in changed
        }

    return await dialogue.shared.database.read(look)


def author_of(write: LaterWrite, session_id: SessionId) -> str:
    """Who made a write, in the words for the model of a session."""
    if write.actor is Actor.PERSONA and write.stream == session_id:
        return "you"
    return _AUTHORS[write.actor]


async def exchange_files(dialogue: "Dialogue") -> None:
    """See `memory_files.exchange_files`. Forked memory has no files: those of the project are of what is not forked."""
    if dialogue.state.settings.memory.files and dialogue.state.memory_fork is None:
        from pattern_acp.session import memory_files

        await memory_files.exchange_files(dialogue)


async def write_files(dialogue: "Dialogue") -> None:
    """See `memory_files.write_files`, and `exchange_files` for forked memory."""
    if dialogue.state.settings.memory.files and dialogue.state.memory_fork is None:
        from pattern_acp.session import memory_files

        await memory_files.write_files(dialogue)


logger = logging.getLogger(__name__)


FRESH_SECONDS = 0.1
"""Age up to which memory that a turn read at its beginning is that of its first request, too."""


class RequestMemory(Struct, frozen=True):
    """Memory of the constellation, read at one moment."""

    was_forgotten: bool
    """True when words of the conversation were forgotten, so that it is read again."""
    views: tuple[MemoryView, ...] = ()
    """The memory that this request shows."""
    untold: tuple[tuple[Pair, str], ...] = ()
    """Facts that say nearly the same, with a sentence each, where they were asked for."""
    at: float = 0.0
    """Moment of the read, on the clock of the event loop, in seconds."""
    writes: int = 0
    """Count of the writes of this process before the read."""


async def memory_of_request(
    dialogue: "Dialogue",
    turn_id: TurnId,
    *,
    asks_repeats: bool = False,
    beside: Callable[[Transaction], Callable[[], None]] | None = None,
    before: RequestMemory | None = None,
) -> RequestMemory:
    """Memory as it is now, with all that a request has to know of the constellation, in one read.

    `beside` reads something more, and returns what takes it in. `before` was read in the same turn: nothing is read
    again when that was a moment ago and this process has written nothing since.
    Damaged memory never stops a turn: the user learns it once a session.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    at, writes = anyio.current_time(), dialogue.shared.database.writes
    if before is not None and before.writes == writes and at - before.at <= FRESH_SECONDS:
        return replace(before, was_forgotten=False)
    known, memory = dialogue.state.redacted_seq, dialogue.memory.persona

    def look(tx: Transaction) -> tuple[int, tuple[tuple[Pair, str], ...], Callable[[], None] | None]:
        take = beside(tx) if beside is not None else None
        if dialogue.state.has_tasks is None:
            # Once: tools that came and went would break the cached prefix.
            dialogue.state.has_tasks = has_open_tasks(tx, memory_owner(dialogue.state).lasting.owners)
        if dialogue.state.has_past is None:
            dialogue.state.has_past = has_earlier_session(tx, dialogue.session_id)
        untold = memory.repeats.untold(tx) if asks_repeats else ()
        return newest_redaction_of_history(tx, dialogue.session_id, after=known), untold, take

    try:
        (newest, untold, take), blocks = await memory.blocks_beside(look)
    except BlockError as error:
        if beside is not None:
            (await dialogue.shared.database.read(beside))()
        was_forgotten = await drop_forgotten(dialogue)
        untold = await dialogue.shared.database.read(memory.repeats.untold) if asks_repeats else ()
        return RequestMemory(was_forgotten, await _without_memory(dialogue, turn_id, error), untold, at, writes)
    if take is not None:
        take()
    was_forgotten = await _drop(dialogue, newest)
    return RequestMemory(was_forgotten, await _views(dialogue, turn_id, blocks), untold, at, writes)


async def _views(dialogue: "Dialogue", turn_id: TurnId, blocks: Sequence[MemoryBlockView]) -> tuple[MemoryView, ...]:
    damaged = dialogue.memory.persona.damaged
    for one in damaged:
        await _tell(dialogue, turn_id, f"This session continues without one block of memory: {one.sentence}")
    return (*map(memory_view, blocks), *map(damaged_view, damaged))


async def _without_memory(dialogue: "Dialogue", turn_id: TurnId, error: BlockError) -> tuple[MemoryView, ...]:
    logger.warning("memory could not be read: %s", type(error).__name__)
    await _tell(dialogue, turn_id, f"This session continues without memory: {error.sentence}")
    return ()


async def _tell(dialogue: "Dialogue", turn_id: TurnId, sentence: str) -> None:
    """Show a sentence to the user, once a session."""
    if sentence not in dialogue.state.told_of_memory:
        dialogue.state.told_of_memory.add(sentence)
        await show_sentence(dialogue.recorder, turn_id, dialogue.shared.ids, f"> {sentence}\n\n")


async def drop_forgotten(dialogue: "Dialogue") -> bool:
    """Take the conversation afresh when another session, or another process, had words of it forgotten.

    Says whether that was so. The list stays the same one, since a turn that runs continues with it.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    known = dialogue.state.redacted_seq
    newest = await dialogue.shared.database.read(
        lambda tx: newest_redaction_of_history(tx, dialogue.session_id, after=known)
    )
    return await _drop(dialogue, newest)


async def _drop(dialogue: "Dialogue", newest: int) -> bool:
    if newest == dialogue.state.redacted_seq:
        return False
    messages = dialogue.state.history
    await reload_history(dialogue)
    messages[:] = dialogue.state.history
    dialogue.state.history = messages
    return True


CANDIDATES = 24
"""Things looked at: those that the context has anyway are among them."""

QUERY_CHARACTERS = 2_000
"""Characters of a prompt that are searched for; what it is about stands at its beginning."""

SHOWN_QUERY = 200
"""Characters of the prompt that the tool call repeats as its input."""


_RECALLED = MemoryFilter(kinds=("block", "archival", "user", "assistant", "task"), hurried=True, for_prompt=True)
"""Not skills, which the model has a list of."""


class PromptRecall:
    """A search of memory for a prompt, beside which its turn reads something else; empty without anything to find."""

    def __init__(self, dialogue: "Dialogue", prompt: Message) -> None:
        """Nothing is searched where the settings or the model have no use for it, and for small talk."""
        self._dialogue = dialogue
        # `offline` searches memory itself and shows it; it reads nothing of this.
        is_used = dialogue.state.settings.memory.recall_tokens > 0 and dialogue.state.model.provider != "offline"
        self._query = prompt.words[:QUERY_CHARACTERS] if is_used else ""
        self._telling = recall_budget.telling_words(query_terms(self._query))
        self._hits: tuple[MemoryHit, ...] = ()
        self._ended = anyio.Event()

    def begin(self, tasks: TaskGroup) -> None:
        """Search in a task of `tasks`, where there is something to search for."""
        if self._telling:
            tasks.start_soon(self._search)

    async def _search(self) -> None:
        dialogue = self._dialogue
        try:
            with anyio.move_on_after(dialogue.shared.recall_seconds) as in_time:
                self._hits = await dialogue.memory.persona.search(self._query, CANDIDATES, _RECALLED)
            if in_time.cancelled_caught:
                logger.info("Recalling for a prompt took too long and was left out.")
        except PatternError as error:
            logger.warning("nothing was recalled for a prompt: %s", type(error).__name__)
        finally:
            self._ended.set()

    async def show(self, turn_id: TurnId, prompt: Message, memory: Sequence[MemoryView]) -> Section:
        """Show what was found, once the search has ended; nothing of the blocks of `memory` that the model is shown.

        Nothing either where words were forgotten since the search, which may be among what it found.

        Raises:
            DatabaseError: it could not be recorded; the turn stops.
        """
        if not self._telling:
            return NOTHING
        await self._ended.wait()
        dialogue = self._dialogue
        shown = {f"memory block {block.label}" for block in memory if block.is_shown}
        found = [
            Recallable(hit.source, hit.text, hit.at_ms, hit.words, hit.meaning, hit.place, hit.entry)
            for hit in self._hits
            if hit.source not in shown
        ]
        tokens = dialogue.state.settings.memory.recall_tokens
        recalled = recall_budget.choose(found, self._telling, tokens, self._query)
        if not recalled:
            return NOTHING
        query = " ".join(prompt.words.split())[:SHOWN_QUERY]
        try:
            await show_search(
                dialogue,
                turn_id,
                "memory_recall",
                recall_budget.recall_title(recalled),
                {"query": query},
                recall_budget.for_person(recalled),
                as_of=min(hit.as_of for hit in self._hits),
            )
        except _ForgottenSinceError:
            logger.info("Words were forgotten while a prompt was searched for; what was found is left out.")
            return NOTHING
        dialogue.memory.persona.recalled([one.entry for one in recalled])
        return recall_budget.for_model(recalled)


async def tell_repeats(dialogue: "Dialogue", turn_id: TurnId, sentences: Sequence[str]) -> Section:
    """Tell the model about facts that say nearly the same, in sight of the user.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    more = f" (+{len(sentences) - 1} more)" if len(sentences) > 1 else ""
    title = f"Nearly the same: {recall_budget.shortened_words(sentences[0], recall_budget.TITLE_CHARACTERS)}{more}"
    await show_search(dialogue, turn_id, "memory_repeats", title, {"found": len(sentences)}, "\n".join(sentences))
    return untrusted_block("memory_repeats", *sentences)


class _ForgottenSinceError(Exception):
    """Words were forgotten after what is to be recorded was read."""


async def show_search(
    dialogue: "Dialogue",
    turn_id: TurnId,
    name: str,
    title: str,
    about: JsonObject,
    found: str,
    kind: ToolKind = ToolKind.SEARCH,
    *,
    as_of: int | None = None,
) -> None:
    """Record and show a search of ours as a call that is done already, so that memory is never invisible.

    `about` is instead of arguments, `as_of` the number of the newest event when it was read.

    Raises:
        DatabaseError: it could not be recorded, and was not shown.
        _ForgottenSinceError: nor here, since words were forgotten behind `as_of`.
    """

    def refuse_forgotten(tx: Transaction) -> None:
        # In the transaction that records it: a redaction that came first would not take the words out of it.
        if as_of is not None and is_forgotten_after(tx, as_of):
            raise _ForgottenSinceError

    call_id = ToolCallId(dialogue.shared.ids.new("call"))
    call = ToolCallView(call_id, name, title, kind, about)
    ended = ToolCallFinished(turn_id, call_id, ToolCallStatus.COMPLETED, found, content=(TextContent(found),))
    await dialogue.recorder.record(
        NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM, Origin.MEMORY),
        NewEvent(ended, Actor.SYSTEM, Origin.MEMORY),
        behind=refuse_forgotten,
    )


async def reload_history(dialogue: "Dialogue") -> None:
    """Take the conversation afresh from the journal.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the constellation cannot be read, or what waits for a commit cannot be written.
    """
    state = dialogue.state
    await dialogue.recorder.commit_waiting()

    def read(tx: Transaction) -> tuple[HistoryCache, list[Recorded], int]:
        newest = newest_redaction_of_history(tx, dialogue.session_id, after=state.redacted_seq)
        # Forgetting changes what was read already; what ends in shared history is no place in the session's own stream.
        is_known = newest == state.redacted_seq and state.settled.session_seq > 0
        known = state.settled if is_known else HistoryCache()
        added = read_history(tx, dialogue.session_id, after=known.session_seq)
        if went_back(added):
            return HistoryCache(), active_events(read_history(tx, dialogue.session_id)), newest
        return known, added, newest

    known, recorded, redacted_seq = await dialogue.shared.database.read(read)
    ends = (place for place in range(len(recorded), 0, -1) if isinstance(recorded[place - 1].event, TurnEnded))
    end = next(ends, 0)
    state.settled = known.followed_by(recorded[:end])
    now = state.settled.followed_by(recorded[end:])
    state.history, state.shown, state.redacted_seq = list(now.messages), now.shown, redacted_seq
