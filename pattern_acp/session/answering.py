"""One turn of a session, from the prompt to its recorded end.

Owns: that a turn which was begun is ended in the journal exactly once, with one failure where it failed, whatever goes
wrong on the way. Must not know: how the answer is found (prompting.py), or which turn waits for which (session.py).
"""

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pattern_acp.commands.slash import Typed, command_of
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.domain.ids import MessageId, TurnId
from pattern_acp.domain.messages import Message, Part, Role
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.stop_reason import StopReason
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.journal.errors import LeaseLostError
from pattern_acp.journal.events import SessionTitled, TurnEnded, TurnStarted
from pattern_acp.journal.interrupted import InterruptedEnd, close_interrupted
from pattern_acp.journal.turn_ends import failure_of
from pattern_acp.mcp_servers.errors import ServerError
from pattern_acp.session import prompting
from pattern_acp.session.checkpoints import checkpoint_at_end
from pattern_acp.session.errors import CredentialsError
from pattern_acp.session.given import given_files, with_files
from pattern_acp.session.instructions import note_files_in_hand
from pattern_acp.session.memory_exchange import exchange_files
from pattern_acp.session.request_memory import drop_forgotten
from pattern_acp.session.titles import title_of
from pattern_acp.turn.events import TextStreamed
from pattern_acp.turn.loop import TurnEnd, show_sentence
from pattern_acp.turn.sink import SHOW_SECONDS, Fact, end_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)


class Turn(Struct):
    """One turn, and which of its ends the journal has."""

    turn_id: TurnId
    message: Message
    command: Typed | None
    started: bool = False
    ended: bool = False


def new_turn(session: "Session", parts: "Sequence[Part]") -> Turn:
    """The turn for a prompt of these parts."""
    ids = session.constellation.ids
    message = Message(MessageId(ids.new("msg")), Role.USER, tuple(parts))
    return Turn(TurnId(ids.new("turn")), message, command_of(message))


async def run_turn(session: "Session", turn: Turn) -> TurnEnd:
    """Answer the prompt and record the end, good or bad.

    Raises:
        CredentialsError: the provider's key is missing or was refused; that is recorded, and nothing is shown.
    """
    session.sink.begin(turn.turn_id)
    session.memory.turn_id = session.person_memory.turn_id = turn.turn_id
    refused: CredentialsError | None = None
    try:
        try:
            end = await _shown_answer(session, turn)
        except CredentialsError as error:
            refused, end = error, prompting.failed_end(error)
        turn.ended = True
        ended = end_facts(turn.turn_id, end.stop_reason, end.sentence, end.failure)
        await session.sink.record(*ended, behind=checkpoint_at_end(session, turn.turn_id))
        await session.checkpoints.close_turn()
    except (DatabaseError, LeaseLostError) as error:
        _log_unrecorded("a turn", error)
        refused, end = None, await _nothing_saved(session, error)
    except Exception as error:
        # Not even the failure could be shown. The next turn ends this one in the journal.
        session.state.unrecorded, session.state.unfinished = prompting.failed_end(error), True
        raise
    finally:
        # Also before an error: nothing may follow the answer.
        await session.view.settle()
    if refused is not None:
        await session.reload_history()
        raise refused
    return end


async def end_cancelled(session: "Session", turn: Turn, seconds: float) -> None:
    """Record that a turn was cancelled, unless it had ended, in at most so many seconds."""
    # Until the end is known to be recorded: another process may hold the lock for longer than the answer may take.
    before, session.state.unfinished = session.state.unfinished, True
    with anyio.CancelScope(shield=True), anyio.move_on_after(seconds):
        try:
            if not turn.started:
                # The person sees their prompt in the editor, so a replay has to show it too.
                await _record_start(session, turn)
            if not turn.ended:
                ended = TurnEnded(turn.turn_id, StopReason.CANCELLED)
                behind = checkpoint_at_end(session, turn.turn_id)
                await session.sink.record(Fact(ended, Actor.HUMAN, Origin.PERSON), behind=behind)
            await session.reload_history()
            session.state.unfinished = before
        except PatternError as error:
            _log_unrecorded("the end of a cancelled turn", error)
    with anyio.CancelScope(shield=True), anyio.move_on_after(SHOW_SECONDS), suppress(PatternError):
        # What was recorded too late to be shown must not look as if it still ran.
        await session.view.close_calls()
        await session.view.settle()


def _log_unrecorded(what: str, error: PatternError) -> None:
    # The person chose in the other window to go on there: no fault that a traceback could explain.
    foreseen = isinstance(error, LeaseLostError)
    level = logging.WARNING if foreseen else logging.ERROR
    logger.log(level, "%s could not be recorded (%s)", what, error.failure_code, exc_info=not foreseen)


async def _shown_answer(session: "Session", turn: Turn) -> TurnEnd:
    """The turn's end, when all but that is recorded and shown."""
    try:
        end = await _answer(session, turn)
        if end.was_cut:
            await session.reload_history()
        if end.sentence:
            await show_sentence(session.sink, turn.turn_id, session.constellation.ids, end.sentence)
        await exchange_files(session)
        await prompting.show_notices(session, turn.turn_id)
    except (DatabaseError, LeaseLostError, CredentialsError):
        raise
    except Exception as error:  # noqa: BLE001  the boundary: whatever happened, the turn gets its end
        end = prompting.failed_end(error)
        if not turn.started:
            await _record_start(session, turn)
        await session.reload_history()
        await show_sentence(session.sink, turn.turn_id, session.constellation.ids, end.sentence)
    return end


async def _answer(session: "Session", turn: Turn) -> TurnEnd:
    await _close_unfinished(session)
    if turn.command is not None:
        # The requests of a turn of the model see to it themselves.
        await drop_forgotten(session)
    # What a turn changed that was cut off belongs to it and not to this one.
    if session.checkpoints.rewinding:
        from pattern_acp.session.rewind import finish_left_over

        await finish_left_over(session)
    await session.checkpoints.close_turn()
    refusal = await _expand(session, turn)
    if turn.command is None:
        turn.message = await with_files(session, turn.message)
    await _record_start(session, turn)
    if refusal is not None:
        return refusal
    if turn.command is not None:
        end = await prompting.run_command(session, turn.turn_id, turn.command)
        if not session.state.title and not session.checkpoints.is_clean:
            # Lists leave out what has no title, and this session has files to go back in.
            session.state.title = title_of(turn.message)
            await session.sink.record(Fact(SessionTitled(session.state.title), Actor.SYSTEM, Origin.PERSON))
        return end
    session.state.history.append(turn.message)
    await note_files_in_hand(session, ToolKind.READ, given_files(session, turn.message), session.state)
    return await prompting.run_model_turn(session, turn.turn_id)


async def _expand(session: "Session", turn: Turn) -> TurnEnd | None:
    """Fill in a prompt of an MCP server that the person chose; the turn's end when the server does not give it."""
    try:
        turn.message = await session.mcp.expanded(turn.message)
    except ServerError as error:
        # Recorded like a command of ours, which the model does not see.
        turn.command = Typed(turn.message.typed_line.split()[0].lstrip("/"), "")
        return TurnEnd(StopReason.END_TURN, error.sentence, failure=failure_of(error))
    return None


async def _record_start(session: "Session", turn: Turn) -> None:
    turn.started = True
    name = turn.command.name if turn.command is not None else ""
    facts = [Fact(TurnStarted(turn.turn_id, turn.message, name), Actor.HUMAN, Origin.PERSON)]
    title = session.state.title or (title_of(turn.message) if turn.command is None else "")
    if title != session.state.title:
        facts.append(Fact(SessionTitled(title), Actor.SYSTEM, Origin.PERSON))
    await session.sink.record(*facts)
    session.state.title = title


async def _nothing_saved(session: "Session", error: PatternError) -> TurnEnd:
    """Tell the person that the journal could not be written; the text is shown but cannot be recorded.

    The next turn closes this one in the journal, when that can be written again.
    """
    sentence = f"Nothing more was saved and the turn stopped: {error.sentence}"
    end = TurnEnd(StopReason.END_TURN, sentence, failure=failure_of(error))
    session.state.unrecorded, session.state.unfinished = end, True
    await session.view.close_calls()
    message_id = MessageId(session.constellation.ids.new("msg"))
    # Clients that join messages would otherwise glue it to the text before.
    shown = f"\n\n{sentence}" if session.sink.follows_text else sentence
    await session.view.show(TextStreamed(message_id, shown))
    await session.view.settle()
    return end


async def _close_unfinished(session: "Session") -> None:
    """Complete in the journal the turn whose end could not be recorded, and go on from what the journal has.

    Raises:
        DatabaseError: the journal still cannot be written.
    """
    if not session.state.unfinished:
        return
    now = session.constellation.clock.now_ms()
    # Without an end that could not be recorded, it was a cancellation.
    end = session.state.unrecorded or TurnEnd(StopReason.CANCELLED)
    how = InterruptedEnd(end.stop_reason, end.sentence, end.failure)

    def close(tx: Transaction) -> None:
        for entry in close_interrupted(tx, session.session_id, at_ms=now, how=how):
            if isinstance(entry.event, TurnEnded):
                checkpoint_at_end(session, entry.event.turn_id)(tx)

    await session.constellation.database.write(close)
    session.state.unfinished, session.state.unrecorded = False, None
    await session.reload_history()
