"""Going back in a session that is open: as a client asks for it, and what follows in the session itself.

Owns: taking the session for it, as a prompt does. Must not know: the wire, or how a rewind is carried out. A turn that
runs is cancelled and waited for. Nobody is asked: the client has shown the preview and its user has pressed a button.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.journal import leases
from pattern_acp.journal.events import RewindStarted
from pattern_acp.rewind import execution
from pattern_acp.rewind.execution import Rewound
from pattern_acp.rewind.forks import Fork, fork_for, parts_here
from pattern_acp.rewind.plan import (
    PARTS,
    Point,
    RewindPlan,
    UnknownPointError,
    find_target,
    list_points,
    listed_of,
    plan_rewind,
    recorded_of,
)
from pattern_acp.session.context_usage import show_context
from pattern_acp.session.errors import SessionBusyError
from pattern_acp.session.history_cache import reload_history
from pattern_acp.session.rewind_text import answer_text

if TYPE_CHECKING:
    from pattern_acp.rewind.checkpoints import Checkpoints
    from pattern_acp.session.session import Session


async def points_of(checkpoints: "Checkpoints") -> tuple[Point, ...]:
    """The moments to which the session can go back, oldest first."""
    return list_points(await listed_of(checkpoints.scope))


async def preview_rewind(session: "Session", named: str) -> RewindPlan:
    """Preview the changes of going back to `named`.

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
        recorded = await recorded_of(session.checkpoints.scope)
        wanted = tuple(part for part in PARTS if part in (parts or plan.target.parts))

        try:
            fork = await fork_for(session.checkpoints.scope, plan.target, wanted)
        except UnknownPointError as error:
            raise InvalidRequestError(error.sentence, failure_code=error.failure_code) from error

        def note(done: Rewound) -> str:
            return answer_text(plan, wanted, done, overwrite=overwrite, cwd=session.state.cwd, fork=fork)

        here, before = parts_here(plan.target, wanted), recorded[-1].session_seq
        if not here:
            return plan, Rewound(), fork
        return plan, await go_back(session, plan, here, overwrite=overwrite, before=before, note=note), fork


async def go_back(
    session: "Session",
    plan: RewindPlan,
    parts: Sequence[str],
    *,
    overwrite: bool,
    before: int,
    note: Callable[[Rewound], str] | None = None,
    after_files: Callable[[Rewound], Awaitable[None]] | None = None,
) -> Rewound:
    """Carry a plan out and go on from there; once begun, it is not cancelled. See `execution.carry_out`.

    Raises:
        DatabaseError: a step could not be recorded; the next turn, or opening the session again, finishes it.
    """
    done = Rewound()
    with anyio.CancelScope(shield=True):
        done = await execution.carry_out(
            session.checkpoints,
            plan,
            parts,
            overwrite=overwrite,
            before=before,
            files=session.workbench.files,
            note=note,
            after_files=after_files,
        )
        await _go_on_from(session, parts)
    return done


async def finish_left_over(session: "Session") -> None:
    """Finish a rewind of this process that an error cut off; before anything else is done in the session.

    Raises:
        DatabaseError: the constellation still cannot be written.
    """
    if session.checkpoints.rewinding:
        started = await session.checkpoints.recover()
        if started is not None:
            await finish_rewind(session, started)
        session.checkpoints.rewinding = False


async def finish_rewind(session: "Session", started: RewindStarted) -> None:
    """Finish a rewind that was cut off, and go on from there.

    Raises:
        DatabaseError: the constellation cannot be read or written.
    """
    await execution.finish_rewind(session.checkpoints.scope, started)
    await _go_on_from(session, started.parts)


async def _go_on_from(session: "Session", parts: Sequence[str]) -> None:
    await reload_history(session)
    # What the model does not know any more, or knows in another state, it must read again before it edits.
    session.state.fingerprints.clear()
    session.state.waiting.clear()
    if "conversation" in parts:
        await show_context(session)


async def _plan(session: "Session", named: str) -> RewindPlan:
    await finish_left_over(session)
    await session.checkpoints.close_turn()
    recorded = await recorded_of(session.checkpoints.scope)
    try:
        target = find_target(recorded, named)
    except UnknownPointError as error:
        raise InvalidRequestError(error.sentence, failure_code=error.failure_code) from error
    return await plan_rewind(session.checkpoints.scope, recorded, target)


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
