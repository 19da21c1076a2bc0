"""Going back as a client asks for it, beside the slash commands.

Owns: taking the session for it, as a prompt does. Must not know: the wire. A turn that runs is cancelled and waited
for. Nobody is asked: the client has shown the preview and its person has pressed a button.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from pattern_acp.journal import leases
from pattern_acp.session.errors import InvalidRequestError, SessionBusyError
from pattern_acp.session.forking import Fork
from pattern_acp.session.rewind import Rewound, carry_out, finish_left_over
from pattern_acp.session.rewind_forks import fork_for, parts_here
from pattern_acp.session.rewind_plan import RewindPlan, listed_of, plan_rewind, recorded_of
from pattern_acp.session.rewind_points import PARTS, Point, UnknownPointError, find_target, list_points
from pattern_acp.session.rewind_text import answer_text

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


async def points_of(session: "Session") -> tuple[Point, ...]:
    """The moments to which the session can go back, oldest first."""
    return list_points(await listed_of(session))


async def preview_rewind(session: "Session", named: str) -> RewindPlan:
    """What going back to `named` would change.

    Raises:
        InvalidRequestError: there is no such moment, or a turn runs.
    """
    if session.is_busy:
        raise SessionBusyError("A turn runs in this session; wait for its end, or cancel it.")
    async with _taken(session):
        return await _plan(session, named)


async def rewind_for_client(
    session: "Session", named: str, parts: Sequence[str], *, overwrite: bool
) -> tuple[RewindPlan, Rewound, Fork | None]:
    """Go back to `named`; what was planned, what was done, and the session that has the conversation, if another.

    Raises:
        InvalidRequestError: there is no such moment or part.
        DatabaseError: the constellation cannot be read or written.
    """
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise InvalidRequestError(f"There is no part {unknown[0]!r} of a session; the parts are {', '.join(PARTS)}.")
    async with _taken(session):
        plan = await _plan(session, named)
        recorded = await recorded_of(session)
        wanted = tuple(part for part in PARTS if part in (parts or plan.target.parts))

        try:
            fork = await fork_for(session, plan.target, wanted)
        except UnknownPointError as error:
            raise InvalidRequestError(error.sentence, failure_code=error.failure_code) from error

        def note(done: Rewound) -> str:
            return answer_text(plan, wanted, done, overwrite=overwrite, cwd=session.state.cwd, fork=fork)

        here, before = parts_here(plan.target, wanted), recorded[-1].session_seq
        if not here:
            return plan, Rewound(), fork
        return plan, await carry_out(session, plan, here, overwrite=overwrite, before=before, note=note), fork


async def _plan(session: "Session", named: str) -> RewindPlan:
    await finish_left_over(session)
    await session.checkpoints.close_turn()
    recorded = await recorded_of(session)
    try:
        target = find_target(recorded, named)
    except UnknownPointError as error:
        raise InvalidRequestError(error.sentence, failure_code=error.failure_code) from error
    return await plan_rewind(session, recorded, target)


@asynccontextmanager
async def _taken(session: "Session") -> AsyncGenerator[None, None]:
    """The session without a turn, and without another beginning meanwhile.

    Raises:
        LeaseLostError: another window has the session.
    """
    ticket = session.register_prompt()
    try:
        await ticket.wait_for_earlier()
        shared = session.constellation
        await shared.database.read(lambda tx: leases.require(tx, session.session_id, shared.holder))
        # What is recorded now belongs to no turn.
        session.memory.turn_id = session.person_memory.turn_id = None
        yield
    finally:
        session.drop_prompt(ticket)
