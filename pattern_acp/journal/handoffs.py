"""Handoffs: where sessions stood when they were left.

Owns: putting one together from a session's events, and finding those of a folder. Must not know: when one is left or
shown. A handoff belongs to the program: it is no memory block, and nobody writes into it.
"""

import os
from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.codec import HANDOFFS
from pattern_acp.journal.events import (
    CheckpointTaken,
    ErrorReported,
    Event,
    HandoffLeft,
    JobEnded,
    JobStarted,
    PlanUpdated,
    SessionRewound,
    TurnEnded,
    TurnStarted,
)
from pattern_acp.journal.history import active_events
from pattern_acp.journal.reader import Recorded, is_prompt, read_item, read_stream
from pattern_acp.journal.sessions import cwd_key

_QUERIES = load_queries("pattern_acp.journal")

MOST_FILES = 20
_MOST_STEPS = 20

_REQUEST = 300
"""Characters of the last prompt."""

_KINDS: tuple[type[Event], ...] = (
    *(TurnStarted, TurnEnded, ErrorReported, PlanUpdated, CheckpointTaken, SessionRewound),
    *(JobStarted, JobEnded, HandoffLeft),
)


STATES = {"finished": "finished", "cancelled": "cancelled", "limit": "stopped at a limit", "failed": "failed"}
"""States of a handoff in words."""


class Handoff(Struct, frozen=True):
    """A handoff as it was left: when, and in which session."""

    left: HandoffLeft
    session_id: SessionId
    title: str
    at_ms: int


def handoff_to_leave(tx: Transaction, session_id: str, cwd: str) -> HandoffLeft | None:
    """The handoff of a session as it is now; None without a prompt since its last one, or without work left."""
    recorded = read_stream(tx, session_id, kinds=_KINDS)
    left_at = max((entry.session_seq for entry in recorded if isinstance(entry.event, HandoffLeft)), default=0)
    active = active_events(recorded)
    if not any(is_prompt(entry.event) and entry.session_seq > left_at for entry in active):
        return None
    left = _handoff(active, cwd)
    is_worth_it = left.state != "finished" or left.steps or left.files or left.commands
    return left if is_worth_it else None


def handoffs_since(
    tx: Transaction, persona: str, cwd: str, after: int, *, exclude: str = "", limit: int
) -> tuple[Handoff, ...]:
    """The last handoff of each session of a persona in a folder that left one after an event, newest first."""
    asked = {"persona": persona, "cwd_key": cwd_key(cwd), "after": after, "exclude": exclude, "limit": limit}
    found: list[Handoff] = []
    for row in tx.all(_QUERIES["handoffs_since"], {**asked, "item": HANDOFFS}):
        session_id = SessionId(columns.text(row[0]))
        entry = read_item(tx, session_id, HANDOFFS)[-1]
        if isinstance(entry.event, HandoffLeft):
            found.append(Handoff(entry.event, session_id, columns.text(row[1]), entry.at_ms))
    return tuple(found)


def _handoff(active: Sequence[Recorded], cwd: str) -> HandoffLeft:
    prompts = [
        (entry, entry.event) for entry in active if isinstance(entry.event, TurnStarted) and not entry.event.command
    ]
    begun, last = prompts[-1]
    plan = next((entry.event.plan for entry in reversed(active) if isinstance(entry.event, PlanUpdated)), None)
    steps = [step.content for step in plan.entries if step.status != "completed"] if plan is not None else []
    files = _files(active, cwd)
    request = " ".join(last.message.words.split())
    return HandoffLeft(
        last.turn_id,
        _state([entry for entry in active if entry.session_seq >= begun.session_seq]),
        request if len(request) <= _REQUEST else request[: _REQUEST - 1] + "…",
        tuple(steps[:_MOST_STEPS]),
        files[:MOST_FILES],
        len(files),
        _ended_commands(active),
    )


def _state(of_turn: Sequence[Recorded]) -> str:
    if any(isinstance(entry.event, ErrorReported) for entry in of_turn):
        return "failed"
    reason = next((entry.event.stop_reason for entry in reversed(of_turn) if isinstance(entry.event, TurnEnded)), None)
    if reason is StopReason.END_TURN:
        return "finished"
    return "cancelled" if reason in {None, StopReason.CANCELLED} else "limit"


def _files(active: Sequence[Recorded], cwd: str) -> tuple[str, ...]:
    changed = [
        change.path
        for entry in reversed(active)
        if isinstance(entry.event, CheckpointTaken) and entry.event.cause != "rewind"
        for change in reversed(entry.event.changes)
        if change.before != change.after
    ]
    below = cwd.rstrip(os.sep) + os.sep
    return tuple(dict.fromkeys(path.removeprefix(below) for path in changed))


def _ended_commands(active: Sequence[Recorded]) -> tuple[str, ...]:
    """The background commands that did not end on their own, since the session ended."""
    lines: dict[str, str] = {}
    last_end = max((entry.session_seq for entry in active if isinstance(entry.event, TurnEnded)), default=0)
    for entry in active:
        match entry.event:
            case JobStarted(job_id=job_id, line=line):
                lines[job_id] = " ".join(line.split())[:_REQUEST]
            case JobEnded(job_id=job_id, outcome=outcome):
                if outcome == "exited" or entry.session_seq < last_end:
                    lines.pop(job_id, None)
            case _:
                pass
    return tuple(lines.values())
