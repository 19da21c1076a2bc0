"""Going back in a session that is open: as a client asks for it, what follows in the session, and what the user reads.

Owns: taking the session for it, as a prompt does, and the results. Must not know: the wire, or how a rewind is carried
out. A turn that runs is cancelled and waited for. Nobody is asked: the client has shown the preview and its user has
pressed a button.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, columns, markdown
from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal import leases
from pattern_acp.journal.events import RewindStarted
from pattern_acp.rewind import execution
from pattern_acp.rewind.execution import Rewound
from pattern_acp.rewind.forks import Fork, fork_for, parts_here
from pattern_acp.rewind.plan import (
    PARTS,
    PlannedFile,
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
            return WentBack(plan, wanted, done, overwrite, session.state.cwd, fork).text

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
    """Carry a plan out and continue from there; once begun, it is not cancelled. See `execution.carry_out`.

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
    """Finish a rewind that was cut off, and continue from there.

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


MOST_SHOWN = 200
"""Characters of a moment that a table shows."""

MOST_LISTED = 50
"""Most moments, and most files, that are listed; the newest moments."""


POINT_HEADINGS = ("Go to", "Moment", "When", "Files changed from there")
"""Headings of the moments, in a chat and in a terminal."""


def point_cells(key: str, kind: str, text: str, when: str, files: int) -> tuple[str, ...]:
    """One moment under `POINT_HEADINGS`; `key` is what to type, `when` its time in words."""
    what = f"before “{text}”" if kind == "turn" else f"checkpoint: {text}"
    return key, what, when, f"{files or ''}"


class CheckpointNamed(Result, frozen=True):
    """A checkpoint that was taken under a name."""

    name: str

    @property
    def document(self) -> Sequence[Part]:
        """The way back to it."""
        return (Paragraph(f"Checkpoint `{self.name}` is taken. `/rewind {self.name}` goes back to it."),)


class PointsListed(Result, frozen=True):
    """The moments to which a session can go back, newest last."""

    points: tuple[Point, ...]

    @property
    def document(self) -> Sequence[Part]:
        """A table of the newest."""
        if not self.points:
            return (
                Paragraph(
                    "There is nothing to go back to: every prompt becomes a point, and `/checkpoint NAME` makes one. "
                    "After a rewind, `/rewind undo` takes it back."
                ),
            )
        first, moment, *others = POINT_HEADINGS
        heads = columns(Column(first, code=True), Column(moment, limit=MOST_SHOWN), *others)
        rows = tuple(
            point_cells(f"/rewind {one.key}", one.kind, one.text, local_minute(one.at_ms), one.files)
            for one in self.points[-MOST_LISTED:]
        )
        older = len(self.points) - MOST_LISTED
        parts = "Add `files`, `conversation` or `memory` to go back with only these"
        return (
            Table(heads, rows),
            *((Paragraph(f"{older} older ones are not shown."),) if older > 0 else ()),
            Paragraph(f"{parts}; `/rewind undo` takes the last rewind back."),
        )


class WentBack(Result, frozen=True):
    """The end of a rewind; `fork` has the conversation now, and `warnings` are about commands that run."""

    plan: RewindPlan
    parts: tuple[str, ...]
    done: Rewound
    overwrite: bool
    cwd: str
    fork: Fork | None = None
    warnings: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The report as Markdown."""
        return markdown(self.document)

    @property
    def document(self) -> Sequence[Part]:
        """The report, part by part of the session."""
        plan, parts, done = self.plan, self.parts, self.done
        lines = [f"---\n\n**Back to {plan.target.words}.**"]
        if self.fork is not None:
            lines.append(
                f"The conversation continues in another session, since it is shared. {fork_sentence(self.fork)}"
            )
        elif "conversation" in parts:
            if plan.lost:
                stay = "it stays" if len(plan.lost) == 1 else "they stay"
                lines.append(f"The model no longer knows {plural(len(plan.lost), 'turn')}; {stay} in the journal.")
            if plan.regained:
                lines.append(f"The model knows {plural(len(plan.regained), 'turn')} again.")
        if done.files:
            names = ", ".join(f"`{display_path(path, self.cwd)}`" for path in done.files[:MOST_LISTED])
            lines.append(f"{plural(len(done.files), 'file')} put back: {names}.")
        if "files" in parts and plan.conflicts and not self.overwrite:
            lines.append(_left(plan, self.cwd))
        if "files" in parts and plan.left_out:
            lines.append(_not_kept(plan))
        if done.blocks:
            lines.append(f"Memory put back: {', '.join(f'`{label}`' for label in done.blocks)}.")
        problems = (Paragraph(problem, "warning") for problem in (*done.problems, *refused(plan, parts)))
        undo = (Paragraph("`/rewind undo` takes this back."),) if parts_here(plan.target, parts) else ()
        warnings = (Paragraph(each, "warning") for each in self.warnings)
        return (*map(Paragraph, lines), *problems, *undo, *warnings)


def preview_text(plan: RewindPlan, parts: Sequence[str], cwd: str) -> str:
    """Changes that going back would make, below a title that names the moment."""
    sections: list[str] = []
    behind = plan.target.fork_behind
    if "conversation" in parts and behind:
        sections.append(f"Another session begins behind turn {behind}, which is shared; this one's conversation stays.")
    elif "conversation" in parts:
        sections += _turns("The conversation loses", plan.lost) + _turns("The conversation regains", plan.regained)
    if "files" in parts and plan.files:
        sections.append(
            "\n".join([f"{plural(len(plan.files), 'file')}:", *(_file_line(f, cwd) for f in plan.files[:MOST_LISTED])])
        )
    if "memory" in parts and plan.blocks:
        sections.append("\n".join(["Memory:", *(f"- `{block.label}` {block.sentence}" for block in plan.blocks)]))
    if "files" in parts and plan.left_out:
        sections.append(_not_kept(plan))
    return "\n\n".join(sections) or "None of these would change."


def fork_sentence(fork: Fork) -> str:
    """Sentence on how far a fork goes, and how to open it."""
    return (
        f"“{fork.title}” begins with {plural(fork.turns, 'turn')} of this session: `{fork.session_id}`. "
        f"Open it from the list of sessions, or in a terminal: `pattern-acp chat --session {fork.session_id}`. "
        "This one continues as it is."
    )


def _left(plan: RewindPlan, cwd: str) -> str:
    names = ", ".join(f"`{display_path(file.path, cwd)}`" for file in plan.conflicts[:MOST_LISTED])
    why = "others changed them"
    if any(not file.now.is_kept for file in plan.conflicts):
        why += " or an undo could not bring back what they hold"
    return f"Left as they are, since {why}: {names}. Add `overwrite` to put them back too."


def _not_kept(plan: RewindPlan) -> str:
    return "\n".join(["Not saved, so not put back:", *(f"- {line}" for line in plan.left_out)])


def refused(plan: RewindPlan, parts: Sequence[str]) -> list[str]:
    """A sentence about each file and block that the plan says cannot be put back, of the parts that go back."""
    files = plan.files if "files" in parts else ()
    blocks = plan.blocks if "memory" in parts else ()
    return [
        *(f"{file.path} was not put back: {file.problem}." for file in files if file.problem),
        *(f"The block {block.label!r} {block.sentence}." for block in blocks if not block.changes),
    ]


def _turns(what: str, turns: Sequence[str]) -> list[str]:
    if not turns:
        return []
    return ["\n".join([f"{what} {plural(len(turns), 'turn')}:", *(f"- {turn}" for turn in turns[-MOST_LISTED:])])]


def _file_line(file: PlannedFile, cwd: str) -> str:
    mode = f"gets mode {file.then.mode:o}"
    what = {"delete": "is deleted", "create": "comes back", "mode": mode, "modify": "is put back"}[file.kind]
    note = ""
    if file.problem:
        what, note = "stays", f" ({file.problem})"
    elif file.conflict:
        note = f" — conflict: {file.conflict}; left alone unless you say otherwise"
    return f"- `{display_path(file.path, cwd)}` {what}{note}"
