"""Taking back what a session wrote into memory since a moment, as new changes by the person.

Owns: which writes that are, and how each block is put back: to its version then, when nobody else wrote since, else
write by write, so that what others wrote stays. Must not know: conversations, files. Doing it twice is as once.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.domain.errors import BlockError
from pattern_acp.domain.ids import SessionId
from pattern_acp.domain.origin import Actor
from pattern_acp.journal.ancestry import ancestors
from pattern_acp.memory.errors import BlockMissingError, VersionError
from pattern_acp.memory.history import Write, list_writes
from pattern_acp.memory.service.history import MemoryHistory
from pattern_acp.memory.undo import plan_rollback, plan_undo
from pattern_acp.session.history_scope import history_scope
from pattern_acp.tools.memory_reverts import MemoryReverts

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

MOST_WRITES = 500
"""Writes of one block that are looked back at."""

REASON = "The person went back to an earlier moment of the session."

_REVERTING = frozenset({"undo", "redo"})


class BlockPlan(Struct, frozen=True):
    """What would become of one block: `how` is `rollback`, `undo`, `delete`, `restore`, or `stay` if it cannot go back.

    `numbers` are the version to go back to, or the writes to take back, newest first.
    """

    label: str
    how: str
    numbers: tuple[int, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything would become of it."""
        return self.how != "stay"

    @property
    def sentence(self) -> str:
        """What would happen, in a few words."""
        match self.how:
            case "rollback":
                return f"goes back to version {self.numbers[0]}"
            case "delete":
                return "is deleted, since the session made it"
            case "restore":
                return "comes back, since the session deleted it"
            case "stay":
                return "stays as it is, since the words that it had then were forgotten"
            case _:
                writes = ", ".join(map(str, self.numbers))
                return f"loses this session's writes ({writes}); what others wrote since stays"


async def plan_blocks(session: "Session", labels: Sequence[str], memory_from: int) -> tuple[BlockPlan, ...]:
    """What would become of the blocks with these labels; those that are as they were are left out.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    plans = [await _plan_block(session, label, memory_from) for label in labels]
    return tuple(plan for plan in plans if plan is not None)


async def take_back(session: "Session", labels: Sequence[str], memory_from: int) -> list[str]:
    """Put the blocks back; sentences about those that could not be.

    Raises:
        DatabaseError: the constellation cannot be written.
    """
    problems: list[str] = []
    for label in labels:
        try:
            plan = await _plan_block(session, label, memory_from)
            if plan is not None and plan.changes:
                await _carry_out(session, plan)
            elif plan is not None:
                problems.append(f"The block {label!r} {plan.sentence}.")
        except BlockError as error:
            problems.append(error.sentence)
    return problems


async def _carry_out(session: "Session", plan: BlockPlan) -> None:
    reverts = _reverts(session)
    match plan.how:
        case "rollback":
            await reverts.change(plan.label, partial(plan_rollback, number=plan.numbers[0]), REASON)
        case "delete":
            await reverts.delete(plan.label, REASON)
        case "restore":
            await reverts.restore(plan.label, REASON)
        case _:
            for number in plan.numbers:
                await reverts.change(plan.label, partial(plan_undo, number=number), REASON)


async def _own_writes(session: "Session") -> Callable[[Write], bool]:
    """Whether a write is the session's, or one of those that it shares with what it was forked from."""
    found = await session.constellation.database.read(lambda tx: ancestors(tx, session.session_id))
    shared = {one.session_id: one.seq for one in found}
    return lambda write: write.stream == session.session_id or write.seq <= shared.get(SessionId(write.stream), 0)


async def _plan_block(session: "Session", label: str, memory_from: int) -> BlockPlan | None:
    ours = await _own_writes(session)
    history = MemoryHistory(session.constellation.database, history_scope(session).owners)
    try:
        writes = await history.log(label, limit=MOST_WRITES)
    except BlockMissingError:
        return await _plan_missing(session, history, label, memory_from, ours)
    except BlockError:
        return None
    since = [write for write in writes if write.seq > memory_from]
    own = [write for write in since if ours(write)]
    if not own:
        return None
    if len(own) != len(since):
        numbers = _to_undo(own)
        return BlockPlan(label, "undo", numbers) if numbers else None
    first = min(own, key=lambda write: write.number)
    if first.number > 1:
        return await _unless_same(history, label, first.number - 1)
    # Blocks that every persona has are made when memory is first looked at; they stay, as they were made.
    return BlockPlan(label, "delete") if first.actor is not Actor.SYSTEM else await _unless_same(history, label, 1)


async def _unless_same(history: MemoryHistory, label: str, number: int) -> BlockPlan | None:
    now = await history.show(label)
    try:
        then = await history.show(label, number)
    except VersionError:
        return BlockPlan(label, "stay")
    return None if now.text == then.text else BlockPlan(label, "rollback", (number,))


async def _plan_missing(
    session: "Session", history: MemoryHistory, label: str, memory_from: int, ours: Callable[[Write], bool]
) -> BlockPlan | None:
    gone = next((block for block in await history.deleted() if block.key.label == label), None)
    if gone is None:
        return None
    writes = await session.constellation.database.read(lambda tx: list_writes(tx, gone, limit=MOST_WRITES))
    was_there = any(write.seq <= memory_from for write in writes)
    deleted_here = ours(writes[0]) and writes[0].seq > memory_from
    return BlockPlan(label, "restore") if was_there and deleted_here else None


def _to_undo(own: Sequence[Write]) -> tuple[int, ...]:
    """The writes to take back, newest first, without those that were taken back already."""
    numbers = {write.number for write in own}
    reverted = {write.target for write in own if write.operation in _REVERTING}
    return tuple(
        write.number
        for write in sorted(own, key=lambda write: -write.number)
        if write.number not in reverted and not (write.operation in _REVERTING and write.target in numbers)
    )


def _reverts(session: "Session") -> MemoryReverts:
    reverts = MemoryReverts(session.constellation.database, history_scope(session), clock=session.constellation.clock)
    reverts.turn_id = session.person_memory.turn_id
    return reverts
