"""A session that two windows want: leases, who continues with it, and where.

Owns: what a prompt does in a session that another window has, the question that the user is asked, and renewing the
leases of this process. Must not know: how a session is opened (session/reopening.py) or forked (rewind/forks.py).

`session/load` shows such a session without a question, since not every client asks one while it loads. The first prompt
asks. The same holds for a window whose session was taken over: its next prompt asks, and nothing of it was lost.
Nothing of the question is recorded: the stream belongs to the other window.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from functools import partial

import anyio
from msgspec import Struct

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.domain.tool_calls import StopReason, TextContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal import leases
from pattern_acp.journal.events import ToolCallFinished, ToolCallStarted
from pattern_acp.journal.leases import Holder, Lease
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, PermissionAnswer
from pattern_acp.session.constellation import Constellation
from pattern_acp.session.opening import Reopening
from pattern_acp.session.registry import Sessions
from pattern_acp.session.session import PromptTicket, Session
from pattern_acp.turn.loop import TurnEnd
from pattern_acp.turn.recorder import TextStreamed

logger = logging.getLogger(__name__)

TAKEN_SENTENCE = (
    "\n\n*Another window took this session over, so what ran here was stopped; what was recorded until then is there.*"
)


async def keep_leases(shared: Constellation, wait: Callable[[], Awaitable[None]]) -> None:
    """Renew the leases of open sessions, once after each `wait`, until cancelled.

    A window may stay open for days over a constellation that it cannot write, so a reason is logged once.
    """
    logged = ""
    while True:
        await wait()
        now = shared.clock.now_ms()
        try:
            await shared.database.write(lambda tx, now=now: leases.renew_all(tx, shared.holder, now), quietly=True)
        except PatternError as error:
            # The next round tries again; a lease of this machine holds by its process id anyway.
            if error.failure_code != logged:
                logger.warning("Leases could not be renewed.", exc_info=True)
            logged = error.failure_code
        else:
            logged = ""


async def watch_leases(sessions: Sessions, wait: Callable[[], Awaitable[None]]) -> None:
    """Look after each `wait` while a turn runs, until cancelled, whether its session was taken over, and stop it then.

    A turn meets it on its own at its next write; a command that runs for minutes would continue in two windows until
    then.
    """
    shared = sessions.constellation
    while True:
        if not sessions.answering:
            shared.turn_began = anyio.Event()
            await shared.turn_began.wait()
        await wait()
        answering = sessions.answering
        if not answering:
            continue
        try:
            taken = await shared.database.read(partial(_taken, holder=shared.holder, answering=answering))
        except PatternError:
            # The turn meets the same fault, and says so.
            continue
        for session in taken:
            stop_taken(session)


def stop_taken(session: Session) -> None:
    """Stop the turn of a session that another window took over; it says so itself, before it is answered.

    One that ended while the look was under way has nothing that could be stopped, and may say nothing any more.
    """
    if session.is_answering:
        session.cancel(TAKEN_SENTENCE)


def _taken(tx: Transaction, holder: Holder, answering: Sequence[Session]) -> list[Session]:
    held = [(session, leases.lease_of(tx, session.session_id)) for session in answering]
    return [session for session, lease in held if lease is not None and lease.holder.holder != holder.holder]


async def release_leases(shared: Constellation) -> None:
    """Give up every lease of this process.

    Raises:
        DatabaseError: they could not be released; they end with the process id.
    """
    await shared.database.write(lambda tx: leases.release_all(tx, shared.holder))


TITLE = "This session is open in another window"

ONLY_READ = "Nothing was sent: the other window continues this session. The next prompt asks again."


class ConflictChoice(Enum):
    """The user's choice of where to continue."""

    FORK = PermissionAnswer.ALLOW_ONCE
    TAKE_OVER = PermissionAnswer.ALLOW_ALWAYS
    READ = PermissionAnswer.REJECT_ONCE


OPTIONS = (
    ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Continue here in a fork; the other window keeps its session"),
    ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "Take the session over; the other window can only read"),
    ApprovalOption(PermissionAnswer.REJECT_ONCE, "Only read; send nothing"),
)
"""A client that allows everything on its own picks the first, which disturbs nobody."""


class Claimed(Struct, frozen=True):
    """The session in which the prompt runs, and its ticket there."""

    session: Session
    ticket: PromptTicket


async def claim(sessions: Sessions, session: Session, ticket: PromptTicket) -> Claimed | TurnEnd:
    """Make sure that the prompt of `ticket` may run here; the end of the prompt when it may not.

    Raises:
        PatternError: the session that the user chose cannot be opened.
    """
    current = sessions.find(session.state.client_id)
    if current is not None and current is not session:
        # Another prompt has settled it meanwhile.
        session.drop_prompt(ticket)
        return Claimed(current, current.take_again(ticket))
    shared = sessions.constellation
    now = shared.clock.now_ms()

    def look(tx: Transaction) -> tuple[bool, Lease | None]:
        lease = leases.lease_of(tx, session.session_id)
        mine = lease is not None and lease.holder.holder == shared.holder.holder
        return mine, leases.held_elsewhere(tx, session.session_id, shared.holder, now)

    try:
        mine, other = await shared.database.read(look)
    except DatabaseError:
        # The turn meets the same fault, and says so where the user looks.
        return Claimed(session, ticket)
    if mine:
        return Claimed(session, ticket)
    choice = ConflictChoice.TAKE_OVER
    with ticket.scope:
        if other is not None:
            choice = await _ask(session, other)
    if ticket.scope.cancel_called:
        session.drop_prompt(ticket)
        return TurnEnd(StopReason.CANCELLED)
    if choice is ConflictChoice.READ:
        session.drop_prompt(ticket)
        await say(session, ONLY_READ)
        return TurnEnd(StopReason.END_TURN)
    replacement = await _go_on(sessions, session, choice, other)
    session.drop_prompt(ticket)
    return Claimed(replacement, replacement.take_again(ticket))


async def say(session: Session, sentence: str) -> None:
    """Show a sentence that is recorded nowhere."""
    await session.view.show(TextStreamed(MessageId(session.constellation.ids.new("msg")), sentence))
    await session.view.settle()


async def _go_on(sessions: Sessions, session: Session, choice: ConflictChoice, other: Lease | None) -> Session:
    client_id = session.state.client_id
    if choice is ConflictChoice.FORK:
        from pattern_acp.rewind.forks import fork_session

        shared = sessions.constellation
        fork = await fork_session(shared.database, session.session_id, "", clock=shared.clock, ids=shared.ids)
        replacement = await sessions.replace(session, fork.session_id, Reopening("fork", client_id))
        told = f"This continues in “{fork.title}”, session {fork.session_id}; the list has it beside the other one."
    else:
        how = Reopening("take_over", client_id, take_over=other is not None)
        replacement = await sessions.replace(session, session.session_id, how)
        where = "was taken over from" if other is not None else "may have continued in"
        told = f"This session {where} another window; open it again to see what was said there."
    replacement.state.notices.append(told)
    return replacement


async def _ask(session: Session, other: Lease) -> ConflictChoice:
    """Ask where to continue; without a valid answer the session is only read."""
    ids = session.constellation.ids
    call_id, turn_id = ToolCallId(ids.new("call")), TurnId(ids.new("turn"))
    holder = other.holder
    reason = f"Process {holder.pid} on {holder.host} works on it. Nothing is lost whatever you choose."
    call = ToolCallView(call_id, "open_session", TITLE, ToolKind.OTHER, {}, content=(TextContent(reason),))
    await session.view.show(ToolCallStarted(turn_id, call))
    answer = await session.own_approver.ask(ApprovalRequest(call, "Where do you want to continue?", OPTIONS))
    choice = next((each for each in ConflictChoice if each.value is answer), ConflictChoice.READ)
    chosen = next(option.name for option in OPTIONS if option.answer is choice.value)
    shown = (TextContent(f"{reason}\n\nChosen: {chosen}."),)
    await session.view.show(ToolCallFinished(turn_id, call_id, ToolCallStatus.COMPLETED, "", content=shown))
    return choice
