"""Going back in a session that is open: as a client asks for it, and by /checkpoint, /checkpoints, /rewind and /undo.

Owns: taking the session for it, as a prompt does, what commands take and ask, what follows in the session, and what the
user reads. Must not know: the wire, or how a rewind is carried out. A turn that runs is cancelled and waited for.
Nobody is asked where a client has shown the preview and its user has pressed a button.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import Column, Paragraph, Part, Result, Table, as_result, columns, markdown
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId, local_minute
from pattern_acp.domain.errors import InvalidRequestError
from pattern_acp.domain.paths import display_path
from pattern_acp.domain.text_limits import plural
from pattern_acp.domain.tool_calls import (
    Location,
    TextContent,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    ToolKind,
)
from pattern_acp.journal import leases
from pattern_acp.journal.events import (
    PermissionAnswered,
    PermissionAsked,
    RewindStarted,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
)
from pattern_acp.journal.reader import Recorded
from pattern_acp.policy.decision import ApprovalOption, ApprovalRequest, PermissionAnswer
from pattern_acp.rewind import execution
from pattern_acp.rewind.execution import Rewound
from pattern_acp.rewind.forks import Fork, NothingInFrontError, fork_for, parts_here
from pattern_acp.rewind.plan import (
    LAST,
    PARTS,
    UNDO,
    PlannedFile,
    Point,
    RewindPlan,
    UnknownPointError,
    diff_of,
    find_target,
    list_points,
    listed_of,
    plan_rewind,
    recorded_of,
)
from pattern_acp.session.context_usage import show_context
from pattern_acp.session.jobs import running_warnings
from pattern_acp.session.memory_context import reload_history
from pattern_acp.session.ports import SessionBusyError
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.rewind.checkpoints import Checkpoints
    from pattern_acp.session.ports import Dialogue, ExtendedDialogue
    from pattern_acp.session.session import Session
    from pattern_acp.workspace.jobs import Jobs


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
        return await _plan(session.dialogue, session.checkpoints, named)


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
        plan = await _plan(session.dialogue, session.checkpoints, named)
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
        await _go_on_from(session.dialogue, parts)
    return done


async def finish_left_over(dialogue: "ExtendedDialogue", checkpoints: "Checkpoints") -> None:
    """Finish a rewind of this process that an error cut off; before anything else is done in the session.

    Raises:
        DatabaseError: the constellation still cannot be written.
    """
    if checkpoints.rewinding:
        started = await checkpoints.recover()
        if started is not None:
            await finish_rewind(dialogue, checkpoints, started)
        checkpoints.rewinding = False


async def finish_rewind(dialogue: "ExtendedDialogue", checkpoints: "Checkpoints", started: RewindStarted) -> None:
    """Finish a rewind that was cut off, and continue from there.

    Raises:
        DatabaseError: the constellation cannot be read or written.
    """
    await execution.finish_rewind(checkpoints.scope, started)
    await _go_on_from(dialogue, started.parts)


async def _go_on_from(dialogue: "ExtendedDialogue", parts: Sequence[str]) -> None:
    await reload_history(dialogue)
    # What the model does not know any more, or knows in another state, it must read again before it edits.
    dialogue.state.fingerprints.clear()
    dialogue.state.waiting.clear()
    if "conversation" in parts:
        await show_context(dialogue)


async def _plan(dialogue: "ExtendedDialogue", checkpoints: "Checkpoints", named: str) -> RewindPlan:
    await finish_left_over(dialogue, checkpoints)
    await checkpoints.close_turn()
    recorded = await recorded_of(checkpoints.scope)
    try:
        target = find_target(recorded, named)
    except UnknownPointError as error:
        raise InvalidRequestError(error.sentence, failure_code=error.failure_code) from error
    return await plan_rewind(checkpoints.scope, recorded, target)


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
        session.dialogue.memory.begin(None)
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


TOOL_NAME = "rewind"
UNDONE = ("conversation", "files")
"""Parts that /undo puts back; what was remembered stays."""
LONGEST_NAME = 60
MOST_DIFFS = 20
"""Most files of which the preview shows the difference; all are named."""


class RewindArguments(Struct, frozen=True):
    """Arguments of /rewind. Without parts, the user is asked to choose."""

    named: str
    parts: tuple[str, ...] = ()
    yes: bool = False
    overwrite: bool = False


async def run_checkpoint(checkpoints: "Checkpoints", argument: str) -> CheckpointNamed:
    """Take a checkpoint under a name."""
    name = argument.strip()
    reserved = {UNDO, LAST, "yes", "overwrite", *PARTS}
    if not name or len(name) > LONGEST_NAME or name.isdigit() or name.lower() in reserved or "\n" in name:
        raise CommandMisusedError(
            f"Give the checkpoint a name of at most {LONGEST_NAME} characters that is no number: /checkpoint NAME."
        )
    await checkpoints.take("person", name)
    return CheckpointNamed(name)


async def run_checkpoints(checkpoints: "Checkpoints") -> PointsListed:
    """List the moments to which the session can go back."""
    return PointsListed(await points_of(checkpoints))


async def run_rewind(session: "Session", argument: str) -> Result:
    """Go back to a turn or checkpoint, after a preview."""
    if not argument.strip():
        return await run_checkpoints(session.checkpoints)
    return await _go_back(session, parse_rewind(argument))


async def run_undo(session: "Session", argument: str) -> Result:
    """Take the last turn back, its files and its conversation, after a preview."""
    if argument.strip() not in {"", "yes"}:
        raise CommandMisusedError(
            "/undo takes the last turn back; /rewind goes back further, and takes memory back too."
        )
    return await _go_back(session, RewindArguments(LAST, UNDONE, yes=argument.strip() == "yes"))


async def _go_back(session: "Session", asked: RewindArguments) -> Result:
    await session.checkpoints.close_turn()
    recorded = await recorded_of(session.checkpoints.scope)
    target = find_target(recorded, asked.named)
    plan = await plan_rewind(session.checkpoints.scope, recorded, target)
    forks = "conversation" in (asked.parts or target.parts) and target.fork_behind is not None
    if not (plan.lost or plan.regained or plan.files or any(block.changes for block in plan.blocks) or forks):
        return as_result(f"Nothing has changed since {plan.target.words}.")
    return await _ask_and_go(session, recorded, plan, asked)


def parse_rewind(argument: str) -> RewindArguments:
    """Parse the arguments of /rewind.

    Raises:
        InvalidRequestError: it names no moment.
    """
    words = argument.split()
    parts = tuple(part for part in PARTS if part in words[1:])
    flags = {word for word in words[1:] if word in {"yes", "overwrite"}}
    named = " ".join(word for index, word in enumerate(words) if index == 0 or word not in {*PARTS, *flags})
    if not named:
        raise CommandMisusedError("Say where to: /rewind TURN or /rewind CHECKPOINT; /rewind lists them.")
    return RewindArguments(named, parts, "yes" in flags, "overwrite" in flags)


async def _ask_and_go(
    session: "Session", recorded: Sequence[Recorded], plan: RewindPlan, asked: RewindArguments
) -> Result:
    turn_id = session.turn_id
    parts = asked.parts or plan.target.parts
    view = await _view(session.dialogue, session.checkpoints, session.jobs, plan, parts)
    await session.recorder.record(NewEvent(ToolCallStarted(turn_id, view), Actor.HUMAN, Origin.PERSON))
    if not asked.yes:
        asked = await _choose(session.dialogue, plan, replace(asked, parts=parts), view, explicit=bool(asked.parts))
        parts = asked.parts
    if not parts:
        await _finish(session.dialogue, view, "Nothing was changed.", ToolCallStatus.FAILED)
        return as_result("Nothing was changed.")
    before = next(e.session_seq for e in reversed(recorded) if _starts(e, turn_id)) - 1
    try:
        fork = await fork_for(session.checkpoints.scope, plan.target, parts)
    except NothingInFrontError as error:
        await _finish(session.dialogue, view, error.sentence, ToolCallStatus.FAILED)
        raise

    def result(done: Rewound) -> WentBack:
        warnings = running_warnings(session.jobs) if "files" in parts else ()
        return WentBack(plan, parts, done, asked.overwrite, session.state.cwd, fork, warnings)

    async def after_files(done: Rewound) -> None:
        await _finish(session.dialogue, view, result(done).text, ToolCallStatus.COMPLETED, done)

    here = parts_here(plan.target, parts)
    if not here:
        await after_files(Rewound())
        return result(Rewound())
    done = await go_back(session, plan, here, overwrite=asked.overwrite, before=before, after_files=after_files)
    return result(done)


def _starts(entry: Recorded, turn_id: TurnId) -> bool:
    return isinstance(entry.event, TurnStarted) and entry.event.turn_id == turn_id


async def _view(
    dialogue: "Dialogue", checkpoints: "Checkpoints", jobs: "Jobs | None", plan: RewindPlan, parts: Sequence[str]
) -> ToolCallView:
    content: list[ToolContent] = []
    if "files" in parts:
        for change in plan.chosen(overwrite=True)[:MOST_DIFFS]:
            diff = await diff_of(checkpoints.scope, change)
            if diff is not None:
                content.append(diff)
    warnings = running_warnings(jobs) if "files" in parts else ()
    changes = preview_text(plan, parts, dialogue.state.cwd)
    content.append(TextContent("\n\n> ".join((changes, *warnings))))
    return ToolCallView(
        ToolCallId(dialogue.shared.ids.new("call")),
        TOOL_NAME,
        f"Go back to {plan.target.words}",
        ToolKind.EDIT,
        {"to": plan.target.words, "parts": list(parts)},
        tuple(Location(file.path) for file in plan.files),
        tuple(content),
    )


async def _choose(
    dialogue: "Dialogue", plan: RewindPlan, asked: RewindArguments, view: ToolCallView, *, explicit: bool
) -> RewindArguments:
    """Ask the user what to put back; no parts: nothing."""
    kept = f"; {len(plan.conflicts)} changed by others stay" if plan.conflicts and not asked.overwrite else ""
    first = f"Put back {', '.join(asked.parts[:-1])}{' and ' if asked.parts[1:] else ''}{asked.parts[-1]}{kept}"
    options = [ApprovalOption(PermissionAnswer.ALLOW_ONCE, first)]
    second = asked
    if not explicit and "conversation" in asked.parts and len(asked.parts) > 1:
        second = replace(asked, parts=("conversation",))
        options.append(ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "The conversation only"))
    elif explicit and kept and "files" in asked.parts:
        second = replace(asked, overwrite=True)
        options.append(ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, "The same, also over what others changed"))
    options.append(ApprovalOption(PermissionAnswer.REJECT_ONCE, "Leave everything as it is"))
    reason = "Going back changes files and memory; it can be undone with /rewind undo."
    turn_id = dialogue.turn_id
    offered = tuple(option.answer.value for option in options)
    await dialogue.recorder.record(NewEvent(PermissionAsked(turn_id, view.call_id, reason, offered), Actor.SYSTEM))
    answer = await dialogue.approver.ask(ApprovalRequest(view, reason, tuple(options)))
    answered = PermissionAnswered(turn_id, view.call_id, answer.value)
    await dialogue.recorder.record(NewEvent(answered, Actor.HUMAN, Origin.PERSON))
    if not answer.allows:
        return replace(asked, parts=())
    return second if answer is PermissionAnswer.ALLOW_ALWAYS else asked


async def _finish(
    dialogue: "Dialogue", view: ToolCallView, text: str, status: ToolCallStatus, done: Rewound | None = None
) -> None:
    turn_id = dialogue.turn_id
    changed = set(done.files) if done is not None else set[str]()
    diffs = tuple(item for item in view.content if getattr(item, "path", "") in changed)
    finished = ToolCallFinished(turn_id, view.call_id, status, text, (*diffs, TextContent(text)), view.locations)
    await dialogue.recorder.record(NewEvent(finished, Actor.SYSTEM, Origin.WORKSPACE))
