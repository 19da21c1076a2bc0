"""The conversation of a moment that a fork shares with what it was forked from: another fork that begins there.

Owns: which parts of a rewind are done in the session itself, and beginning that fork. Must not know: files, memory, or
who asked. Neither session's conversation is changed: what is shared stays shared.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.session.forking import Fork, fork_session
from pattern_acp.session.rewind_points import Target, UnknownPointError

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

CONVERSATION = "conversation"


class NothingInFrontError(UnknownPointError):
    """There is no conversation in front of the session's first turn, which it shares with another one."""

    failure_code = "rewind.point-unknown"


def parts_here(target: Target, parts: Sequence[str]) -> tuple[str, ...]:
    """The parts that go back in the session itself."""
    return tuple(part for part in parts if target.fork_behind is None or part != CONVERSATION)


async def fork_for(session: "Session", target: Target, parts: Sequence[str]) -> Fork | None:
    """Begin the fork that has the conversation of `target`; None when the session's own goes back, or none does.

    Raises:
        NothingInFrontError: there is no turn in front of it.
        DatabaseError: the constellation cannot be written.
    """
    if target.fork_behind is None or CONVERSATION not in parts:
        return None
    if not target.fork_behind:
        raise NothingInFrontError(
            "The conversation cannot go there: its first turn is one that this session shares with the one it was "
            "forked from. A new session begins there; files and memory can go back."
        )
    shared = session.constellation
    turn = str(target.fork_behind)
    return await fork_session(shared.database, session.session_id, turn, clock=shared.clock, ids=shared.ids)
