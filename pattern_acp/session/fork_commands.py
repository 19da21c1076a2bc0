"""/merge and /discard, and the question of /fork: what becomes of memory that was forked with a conversation.

Owns: what is asked, what is shown before, and which memory the session continues with. Must not know: how memory is
forked or merged (memory/service/forking.py). What is asked about is worked out first, in a transaction that is rolled
back; when memory changed before the answer, nothing is done.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import fenced, one_line, plural, short_diff
from pattern_acp.domain.tool_calls import TextContent, ToolCallView, ToolContent, ToolKind
from pattern_acp.memory import forks
from pattern_acp.memory.blocks import MemoryFork
from pattern_acp.memory.errors import StaleProposalError
from pattern_acp.memory.merging import Side
from pattern_acp.memory.service.forking import MergeResult, discard_fork, is_untouched, merge_fork, preview_merge
from pattern_acp.memory.service.scope import PERSON, WriteContext
from pattern_acp.memory.templates.loading import NO_TEMPLATES
from pattern_acp.policy.approver import ApprovalOption, PermissionAnswer
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.session.opening import memory_rules
from pattern_acp.session.questions import ask_recorded

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

FORK_CALL = "memory_fork"
"""Name of the calls that show these questions."""

MOST_DIFF = 6_000
"""Characters of the difference of a block that are shown."""

MOST_FACTS = 30
"""Facts that are shown one by one."""

FORKED = "Fork memory: what the fork learns stays in it until /merge"
SHARED = "Share memory: what one conversation learns, the other knows"
NEITHER = "Do not fork"

SIDES: Mapping[str, Side] = {"both": "both", "fork": "ours", "target": "theirs"}
"""Whose lines a merge has where both sides changed them, as in `pattern-acp merge --conflicts`."""


async def choose_memory(session: "Session") -> str:
    """Ask what a fork of the session has of memory: `shared` or `forked`; empty to fork nothing.

    Without a question, memory that says nothing yet is shared, and so is forked memory.
    """
    owner = memory_owner(session.state)
    if owner.fork is not None or await session.constellation.database.read(lambda tx: is_untouched(tx, owner)):
        return "shared"
    options = (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, SHARED),
        ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, FORKED),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, NEITHER),
    )
    reason = "The new conversation can share memory with this one, or have a fork of it, which /merge brings back."
    answer = await _ask(session, "Fork this conversation: what about memory?", reason, options, ())
    if not answer.allows:
        return ""
    return "forked" if answer is PermissionAnswer.ALLOW_ALWAYS else "shared"


async def run_merge(session: "Session", argument: str) -> str:
    """Bring back what forked memory learned, after the user has seen it.

    Raises:
        CommandMisusedError: memory is not forked here, or the argument is no side of `SIDES`.
        BlockError: nothing was changed, and why.
    """
    side = SIDES.get(argument or "both")
    if side is None:
        raise CommandMisusedError(
            "/merge takes a side for lines that were changed on both: fork, target (outside of it), or both."
        )
    fork = _fork_of(session.state.memory_fork, "merge")
    found = await preview_merge(session.constellation.database, fork, _writing(session), side)
    if found.is_empty:
        await _end(session, lambda tx: merge_fork(tx, fork, _writing(session)))
        return "The fork learned nothing. From here on this conversation uses the memory that it was forked from."
    options = (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Bring it back, and end the fork"),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, "Leave everything as it is"),
    )
    what = counted(found)
    reason = f"{what} would come back to the memory that this was forked from"
    reason += ", each with who wrote it and when." if found.blocks or found.facts else "."
    if found.places:
        reason += " For one side alone, leave everything as it is, and type /merge fork or /merge target."
    answer = await _ask(session, "Merge the memory of this fork?", reason, options, shown(found))
    if not answer.allows:
        return "Nothing was merged; the fork stays."

    def merge(tx: Transaction) -> MergeResult:
        done = merge_fork(tx, fork, _writing(session), side)
        if done.stamp != found.stamp:
            raise StaleProposalError(next((one.label for one in done.blocks), "memory"))
        return done

    done = await _end(session, merge)
    said = f"Merged: {counted(done)}." if done.blocks or done.facts else "Nothing came back."
    lines = [f"{said} From here on this conversation uses the memory that it was forked from."]
    lines += [f"- `{block.label}`: {note}" for block in done.blocks for note in block.notes]
    return "\n".join([*lines, *(f"- {one}" for one in done.left)])


async def run_discard(session: "Session", argument: str) -> str:
    """Drop what forked memory learned, after a question.

    Raises:
        CommandMisusedError: memory is not forked here, or there are words behind the command.
        BlockError: nothing was changed, and why.
    """
    if argument:
        raise CommandMisusedError("/discard takes nothing behind it; it is about the memory of this conversation.")
    fork = _fork_of(session.state.memory_fork, "discard")
    found = await preview_merge(session.constellation.database, fork, _writing(session))
    if not found.is_empty:
        options = (
            ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Drop it for good"),
            ApprovalOption(PermissionAnswer.REJECT_ONCE, "Leave everything as it is"),
        )
        reason = f"{counted(found)} would be gone for good; the memory that this was forked from stays as it is."
        answer = await _ask(session, "Drop the memory of this fork?", reason, options, shown(found))
        if not answer.allows:
            return "Nothing was dropped; the fork stays."
    await _end(session, lambda tx: discard_fork(tx, fork, _writing(session)))
    return "The fork's memory is gone. From here on this conversation uses the memory that it was forked from."


async def leave_ended_fork(session: "Session") -> None:
    """Continue with the memory that the session's was forked from, once another session has merged or discarded it.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    fork = session.state.memory_fork
    if fork is None:
        return
    outcome = await session.constellation.database.read(lambda tx: forks.outcome_of(tx, fork.id))
    if outcome != "open":
        _go_on(session)
        session.state.notices.append(
            f"The forked memory of this conversation was {outcome} by another one that used it, too; this one "
            "continues with the memory that it was forked from."
        )


_Done = TypeVar("_Done")


async def _end(session: "Session", work: Callable[[Transaction], _Done]) -> _Done:
    """End the fork as `work` does, and continue with the memory that it was forked from."""
    done = await session.constellation.database.write(work)
    _go_on(session)
    return done


def _go_on(session: "Session") -> None:
    session.state.memory_fork = session.state.shown = None
    session.remember_as()


def _fork_of(fork: MemoryFork | None, verb: str) -> MemoryFork:
    if fork is None:
        raise CommandMisusedError(
            f"There is nothing to {verb}: this conversation's memory is no fork. /fork --memory forked begins one."
        )
    return fork


def _writing(session: "Session") -> WriteContext:
    """The user's writes to the memory that the session's was forked from."""
    shared = session.constellation
    return WriteContext(
        memory_owner(session.state).lasting,
        PERSON,
        memory_rules(shared, session.state.settings),
        shared.ids,
        shared.peer,
        shared.clock.now_ms(),
        NO_TEMPLATES,
        session.person_memory.turn_id,
    )


def counted(found: MergeResult) -> str:
    """The size of a merge in words."""
    parts = [plural(len(found.blocks), "block")] if found.blocks else []
    parts += [plural(len(found.facts), "fact")] if found.facts else []
    return " and ".join(parts) or "Nothing"


def shown(found: MergeResult) -> tuple[ToolContent, ...]:
    """Changes by a merge, block by block and fact by fact."""
    parts = [
        "\n\n".join(
            (
                f"`{block.label}`",
                fenced(short_diff(block.before, block.after, MOST_DIFF), "diff"),
                *block.notes,
            )
        )
        for block in found.blocks
    ]
    parts += [f"Fact: {one_line(fact)}" for fact in found.facts[:MOST_FACTS]]
    more = len(found.facts) - MOST_FACTS
    parts += [f"and {plural(more, 'fact')} more"] if more > 0 else []
    return tuple(TextContent(part) for part in (*parts, *found.left))


async def _ask(
    session: "Session", title: str, reason: str, options: Sequence[ApprovalOption], content: tuple[ToolContent, ...]
) -> PermissionAnswer:
    """Ask the user, and record the question with what it shows, and the answer."""
    turn_id = session.turn_id
    call = ToolCallView(
        ToolCallId(session.constellation.ids.new("call")), FORK_CALL, title, ToolKind.EDIT, {}, content=content
    )
    return await ask_recorded(session.approver, session.recorder, turn_id, call, reason, options)
