"""Leaving a handoff, and showing those that were left.

Owns: when a session leaves one, and /handoff. Must not know: what one is made of (`journal/handoffs.py`), or how the
next session is told (`session/catching_up.py`).
"""

import logging
from typing import TYPE_CHECKING

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal import leases
from pattern_acp.journal.events import HandoffLeft
from pattern_acp.journal.handoffs import Handoff, handoff_to_leave, handoffs_since
from pattern_acp.journal.writer import append
from pattern_acp.session.catching_up import STATES

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

logger = logging.getLogger(__name__)

SHOWN = 5
"""Handoffs that /handoff shows."""


async def leave_handoff(session: "Session") -> HandoffLeft | None:
    """Record where the session stands, when a prompt was sent since it did; a failure is logged only."""
    shared, state = session.constellation, session.state
    if state.is_read:
        return None
    try:
        left = await shared.database.read(lambda tx: handoff_to_leave(tx, session.session_id, state.cwd))
        if left is not None:
            now_ms = shared.clock.now_ms()

            def write(tx: Transaction) -> None:
                leases.require(tx, session.session_id, shared.holder)
                append(tx, session.session_id, left, actor=Actor.SYSTEM, origin=Origin.AGENT, at_ms=now_ms)

            await shared.database.write(write)
    except PatternError as error:
        logger.warning("a session left no handoff (%s)", error.failure_code)
        return None
    return left


async def run_handoff(session: "Session", argument: str) -> str:
    """Leave a handoff now, and show the last ones of this folder; `list` only shows them."""
    if argument not in {"", "list"}:
        raise CommandMisusedError("/handoff leaves a handoff now and shows the last ones; /handoff list only shows.")
    shared, state = session.constellation, session.state
    left = await leave_handoff(session) if not argument else None
    found = await shared.database.read(lambda tx: handoffs_since(tx, shared.persona.name, state.cwd, 0, limit=SHOWN))
    news = "Left for the next session in this folder.\n\n" if left is not None else ""
    if not found and argument:
        return "No session of this folder left a handoff."
    if not found:
        return "There is nothing to hand off: no open step, no changed file, and nothing that stopped early."
    return news + "\n\n".join(_text(handoff) for handoff in found)


def _text(handoff: Handoff) -> str:
    left = handoff.left
    lines = [
        f"**{handoff.title or 'A session'}** ({local_minute(handoff.at_ms)}, {STATES.get(left.state, left.state)})"
    ]
    lines.append(f"- Last asked: {left.request}")
    lines += [f"- Open: {step}" for step in left.steps]
    if left.files:
        more = f" ({len(left.files)} of {left.files_in_all})" if left.files_in_all > len(left.files) else ""
        lines.append(f"- Changed: {', '.join(f'`{path}`' for path in left.files)}{more}")
    lines += [f"- Ended with it: `{line}`" for line in left.commands]
    return "\n".join((lines[0], "", *lines[1:]))
