"""The slash commands /checkpoint, /checkpoints, /rewind and /undo.

Owns: what they take, what they ask and what they answer. Must not know: how files are put back.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import Result, Said
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.tool_calls import (
    Location,
    TextContent,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    ToolKind,
)
from pattern_acp.journal.events import (
    PermissionAnswered,
    PermissionAsked,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
)
from pattern_acp.journal.reader import Recorded
from pattern_acp.policy.approver import ApprovalOption, ApprovalRequest, PermissionAnswer
from pattern_acp.rewind.execution import Rewound
from pattern_acp.rewind.forks import NothingInFrontError, fork_for, parts_here
from pattern_acp.rewind.plan import (
    LAST,
    PARTS,
    UNDO,
    RewindPlan,
    diff_of,
    find_target,
    plan_rewind,
    recorded_of,
)
from pattern_acp.session.jobs import running_warnings
from pattern_acp.session.rewind_requests import (
    CheckpointNamed,
    PointsListed,
    WentBack,
    go_back,
    points_of,
    preview_text,
)
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

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


async def run_checkpoint(session: "Session", argument: str) -> CheckpointNamed:
    """Take a checkpoint under a name."""
    name = argument.strip()
    reserved = {UNDO, LAST, "yes", "overwrite", *PARTS}
    if not name or len(name) > LONGEST_NAME or name.isdigit() or name.lower() in reserved or "\n" in name:
        raise CommandMisusedError(
            f"Give the checkpoint a name of at most {LONGEST_NAME} characters that is no number: /checkpoint NAME."
        )
    await session.checkpoints.take("person", name)
    return CheckpointNamed(name)


async def run_checkpoints(session: "Session", argument: str) -> PointsListed:
    """List the moments to which the session can go back."""
    del argument
    return PointsListed(await points_of(session.checkpoints))


async def run_rewind(session: "Session", argument: str) -> Result:
    """Go back to a turn or checkpoint, after a preview."""
    if not argument.strip():
        return await run_checkpoints(session, "")
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
        return Said(f"Nothing has changed since {plan.target.words}.")
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
    view = await _view(session, plan, parts)
    await session.recorder.record(NewEvent(ToolCallStarted(turn_id, view), Actor.HUMAN, Origin.PERSON))
    if not asked.yes:
        asked = await _choose(session, plan, replace(asked, parts=parts), view, explicit=bool(asked.parts))
        parts = asked.parts
    if not parts:
        await _finish(session, view, "Nothing was changed.", ToolCallStatus.FAILED)
        return Said("Nothing was changed.")
    before = next(e.session_seq for e in reversed(recorded) if _starts(e, turn_id)) - 1
    try:
        fork = await fork_for(session.checkpoints.scope, plan.target, parts)
    except NothingInFrontError as error:
        await _finish(session, view, error.sentence, ToolCallStatus.FAILED)
        raise

    def result(done: Rewound) -> WentBack:
        warnings = running_warnings(session.jobs) if "files" in parts else ()
        return WentBack(plan, parts, done, asked.overwrite, session.state.cwd, fork, warnings)

    async def after_files(done: Rewound) -> None:
        await _finish(session, view, result(done).text, ToolCallStatus.COMPLETED, done)

    here = parts_here(plan.target, parts)
    if not here:
        await after_files(Rewound())
        return result(Rewound())
    done = await go_back(session, plan, here, overwrite=asked.overwrite, before=before, after_files=after_files)
    return result(done)


def _starts(entry: Recorded, turn_id: TurnId) -> bool:
    return isinstance(entry.event, TurnStarted) and entry.event.turn_id == turn_id


async def _view(session: "Session", plan: RewindPlan, parts: Sequence[str]) -> ToolCallView:
    content: list[ToolContent] = []
    if "files" in parts:
        for change in plan.chosen(overwrite=True)[:MOST_DIFFS]:
            diff = await diff_of(session.checkpoints.scope, change)
            if diff is not None:
                content.append(diff)
    warnings = running_warnings(session.jobs) if "files" in parts else ()
    changes = preview_text(plan, parts, session.state.cwd)
    content.append(TextContent("\n\n> ".join((changes, *warnings))))
    return ToolCallView(
        ToolCallId(session.constellation.ids.new("call")),
        TOOL_NAME,
        f"Go back to {plan.target.words}",
        ToolKind.EDIT,
        {"to": plan.target.words, "parts": list(parts)},
        tuple(Location(file.path) for file in plan.files),
        tuple(content),
    )


async def _choose(
    session: "Session", plan: RewindPlan, asked: RewindArguments, view: ToolCallView, *, explicit: bool
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
    turn_id = session.turn_id
    offered = tuple(option.answer.value for option in options)
    await session.recorder.record(NewEvent(PermissionAsked(turn_id, view.call_id, reason, offered), Actor.SYSTEM))
    answer = await session.approver.ask(ApprovalRequest(view, reason, tuple(options)))
    answered = PermissionAnswered(turn_id, view.call_id, answer.value)
    await session.recorder.record(NewEvent(answered, Actor.HUMAN, Origin.PERSON))
    if not answer.allows:
        return replace(asked, parts=())
    return second if answer is PermissionAnswer.ALLOW_ALWAYS else asked


async def _finish(
    session: "Session", view: ToolCallView, text: str, status: ToolCallStatus, done: Rewound | None = None
) -> None:
    turn_id = session.turn_id
    changed = set(done.files) if done is not None else set[str]()
    diffs = tuple(item for item in view.content if getattr(item, "path", "") in changed)
    finished = ToolCallFinished(turn_id, view.call_id, status, text, (*diffs, TextContent(text)), view.locations)
    await session.recorder.record(NewEvent(finished, Actor.SYSTEM, Origin.WORKSPACE))
