"""A summary of what happened while a persona was away, shown at the first turn of a new session.

Owns: what is gathered for it, the tool call that shows it, and recording where a session stood when it is closed. Must
not know: the words (`context/recall_budget.py`).
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pattern_acp.commands.document import Result, as_result
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.context.builder import MemoryView
from pattern_acp.context.recall_budget import (
    CATCH_UP_CALL,
    Absence,
    LeftBehind,
    OpenThread,
    WrittenDecision,
    catch_up,
    catch_up_title,
    is_away,
)
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.clock import TurnId, local_minute
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.tool_calls import StopReason, ToolKind
from pattern_acp.domain.untrusted_blocks import NOTHING, Section
from pattern_acp.journal import leases
from pattern_acp.journal.events import HandoffLeft
from pattern_acp.journal.handoffs import STATES, Handoff, handoff_to_leave, handoffs_since
from pattern_acp.journal.history import readable
from pattern_acp.journal.sessions import Thread, threads_since
from pattern_acp.journal.writer import append
from pattern_acp.memory.dates import handoff_age, plan_age
from pattern_acp.memory.feed import UnseenChange, changes_since, read_cursor
from pattern_acp.session.memory_context import memory_owner, show_search

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.state import SessionState

logger = logging.getLogger(__name__)

MOST_THREADS = 10
MOST_DECISIONS = 6
MOST_HANDOFFS = 3
MOST_COMMANDS = 3
MOST_TASKS = 6


async def catch_up_at_start(dialogue: "Dialogue", turn_id: TurnId, views: Sequence[MemoryView]) -> Section:
    """Summary for the model of the activity since its last turn; empty when it was not away, or nothing happened.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    try:
        absence = await _gather(dialogue.shared, dialogue.state, [view.block_id for view in views])
    except PatternError as error:
        logger.warning("the activity of others could not be read: %s", type(error).__name__)
        return NOTHING
    text = catch_up(absence) if absence is not None else NOTHING
    if absence is None or not text:
        return NOTHING
    shown = "\n".join(text.split("\n")[1:-1])
    about: JsonObject = {"since": local_minute(absence.last_active_ms)}
    await show_search(dialogue, turn_id, CATCH_UP_CALL, catch_up_title(absence), about, shown, ToolKind.OTHER)
    return text


async def _gather(shared: "Constellation", state: "SessionState", block_ids: Sequence[str]) -> Absence | None:
    # Late: a session is there before anything continued.
    from pattern_acp.journal.handoffs import handoffs_since

    persona, now_ms = state.persona.name, shared.clock.now_ms()

    def look(tx: Transaction) -> Absence | None:
        cursor = read_cursor(tx, persona, state.project_key)
        if cursor is None:
            return None
        left = handoffs_since(tx, persona, state.cwd, cursor.told_seq, exclude=state.session_id, limit=MOST_HANDOFFS)
        if not is_away(cursor.active_ms, now_ms):
            handoffs = _left(tx, [handoff for handoff in left if _goes_on(handoff)], now_ms)
            return Absence(cursor.active_ms, now_ms, handoffs=handoffs) if handoffs else None
        handoffs = _left(tx, left, now_ms)
        threads = threads_since(tx, persona, state.cwd, cursor.told_seq, exclude=state.session_id, limit=MOST_THREADS)
        changes = changes_since(tx, block_ids, cursor.told_seq, not_in=state.session_id, limit=MOST_DECISIONS)
        return Absence(
            cursor.active_ms,
            now_ms,
            tuple(thread.title for thread in threads),
            tuple(_decision(change) for change in changes),
            tuple(open_thread for thread in threads if (open_thread := _open(thread, now_ms)) is not None),
            _tasks(tx, state, cursor.told_seq),
            handoffs,
        )

    return await shared.database.read(look)


def _tasks(tx: Transaction, state: "SessionState", told_seq: int) -> tuple[str, ...]:
    """The tasks that were changed meanwhile."""
    from pattern_acp.tasks.store import tasks_since

    owners = memory_owner(state).owners
    changed = tasks_since(tx, owners, told_seq, session=state.session_id, limit=MOST_TASKS)
    return tuple(f"task {task.ref} “{task.title}”: {task.status.value.replace('_', ' ')}" for task in changed)


def _goes_on(handoff: "Handoff") -> bool:
    """True when something is left to do; changed files alone were the work."""
    left = handoff.left
    return left.state != "finished" or bool(left.steps or left.commands)


def _left(tx: Transaction, handoffs: Sequence["Handoff"], now_ms: int) -> tuple[LeftBehind, ...]:
    """The sessions as they were left; of the newest also its last commands, with how they ended."""
    return tuple(
        _left_behind(one, () if place else _commands_of(tx, one), now_ms=now_ms) for place, one in enumerate(handoffs)
    )


def _commands_of(tx: Transaction, handoff: "Handoff") -> tuple[str, ...]:
    # Late: it is the first that is needed of it.
    from pattern_acp.session.searching import past_turns

    turns = readable(partial(past_turns, tx, handoff.session_id, handoff.title), [])
    ran = [deed.text for turn in turns for deed in turn.deeds if deed.is_command]
    return tuple(dict.fromkeys(ran[-MOST_COMMANDS:]))


def _left_behind(handoff: "Handoff", commands: Sequence[str] = (), *, now_ms: int) -> LeftBehind:
    left = handoff.left
    old = handoff_age(handoff.at_ms, now_ms=now_ms)
    clauses = [*([old] if old else ()), f"last asked: {left.request}"]
    clauses += [f"ran {command}" for command in commands]
    if left.steps:
        clauses.append(f"{_counted(len(left.steps), 'open step')}: {'; '.join(left.steps)}")
    if left.files:
        clauses.append(f"{_counted(left.files_in_all, 'changed file')}: {', '.join(left.files)}")
    if left.commands:
        clauses.append(f"ended with it: {'; '.join(left.commands)}")
    title = handoff.title or "an earlier session"
    return LeftBehind(title, handoff.at_ms, STATES.get(left.state, left.state), tuple(clauses))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


_TOLD_BY_NAME = frozenset({"undo", "redo", "rollback", "archive", "delete", "restore", "forget"})
"""Operations that say more than the number of lines does."""


def _decision(change: UnseenChange) -> WrittenDecision:
    author = {Actor.HUMAN: "the user", Actor.PERSONA: "you"}.get(change.actor, change.actor.value)
    lines = f"+{change.lines_added} -{change.lines_removed} lines"
    if change.operation in _TOLD_BY_NAME:
        lines = change.operation if change.operation in {"delete", "restore"} else f"{change.operation}, {lines}"
    return WrittenDecision(change.label, author, f"{change.reason} ({lines})" if change.reason else lines)


def _open(thread: Thread, now_ms: int) -> OpenThread | None:
    if thread.open_steps:
        count = len(thread.open_steps)
        steps = "1 open step" if count == 1 else f"{count} open steps"
        old = plan_age(thread.updated_ms, now_ms=now_ms)
        return OpenThread(thread.title, f"{steps}, {f'{old}, ' if old else ''}next: {thread.open_steps[0]}")
    if thread.stop_reason == StopReason.END_TURN:
        return None
    return OpenThread(thread.title, f"its last turn ended with {thread.stop_reason or 'no answer'}")


async def leave_handoff(shared: "Constellation", state: "SessionState") -> HandoffLeft | None:
    """Record where the session stands, when a prompt was sent since it did; a failure is logged only."""
    if state.is_read:
        return None
    try:
        left = await shared.database.read(lambda tx: handoff_to_leave(tx, state.session_id, state.cwd))
        if left is not None:
            now_ms = shared.clock.now_ms()

            def write(tx: Transaction) -> None:
                leases.require(tx, state.session_id, shared.holder)
                append(tx, state.session_id, left, actor=Actor.SYSTEM, origin=Origin.AGENT, at_ms=now_ms)

            await shared.database.write(write)
    except PatternError as error:
        logger.warning("a session left no handoff (%s)", error.failure_code)
        return None
    return left


async def run_handoff(shared: "Constellation", state: "SessionState", argument: str) -> Result:
    """Leave a handoff now, and show the last ones of this folder; `list` only shows them."""
    if argument not in {"", "list"}:
        raise CommandMisusedError("/handoff leaves a handoff now and shows the last ones; /handoff list only shows.")
    # Late: only this writes them out, and files.
    from pattern_acp.session.memory_files import SHOWN, handoff_text

    left = await leave_handoff(shared, state) if not argument else None
    found = await shared.database.read(lambda tx: handoffs_since(tx, state.persona.name, state.cwd, 0, limit=SHOWN))
    if not found and argument:
        return as_result("No session of this folder left a handoff.")
    if not found:
        return as_result("There is nothing to hand off: no open step, no changed file, and nothing that stopped early.")
    news = "Left for the next session in this folder." if left is not None else ""
    return as_result(news, *map(handoff_text, found))
