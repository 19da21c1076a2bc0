"""Changes of memory that come from its history: undo, redo, rollback, edits of an older version, deletion.

Owns: composing each with its event and its index rows in one transaction (rules R1 and R2). Must not know: how anything
is shown, or who decided that it is allowed. Forgetting is `memory/service/forget.py`.
"""

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin, WriteVerdict
from pattern_acp.domain.clock import Clock, ToolCallId, TurnId
from pattern_acp.journal.events import BlockDeleted, BlockHealed, BlockRestored, Event
from pattern_acp.journal.writer import append
from pattern_acp.memory.block_loader import text_hash
from pattern_acp.memory.blocks import Block, action_named, explain_permission, judge
from pattern_acp.memory.configuring import (
    ProposedMark,
    propose_deletion,
    propose_making_room,
    propose_restoration,
    store_mark,
)
from pattern_acp.memory.diffs import Conflict
from pattern_acp.memory.edits import Authoring, Operation
from pattern_acp.memory.errors import NothingDeletedError, PermissionDeniedError, StaleProposalError
from pattern_acp.memory.history import StoredHistory, run_on_history
from pattern_acp.memory.indexing import index_block
from pattern_acp.memory.integrity import find_damage, heal
from pattern_acp.memory.recall import remove_source
from pattern_acp.memory.service.commit import block_event
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory, find_key, keys_of
from pattern_acp.memory.store import (
    ProposedChange,
    WriteRecord,
    changed_block,
    load_numbered,
    load_whole,
    propose,
    store_change,
)
from pattern_acp.memory.undo import RevertPlan
from pattern_acp.memory.write_validation import SecretRule, check_secret, check_words

_ATTEMPTS = 5
"""Times that a change is worked out again because another write came between; each takes milliseconds."""


class HistoryChange(Struct, frozen=True):
    """A change of a block's history: its text before and after, and the write that it became.

    `target` is the write taken back or the version gone back to; `conflicts` are lines that two edits changed.
    """

    label: str
    before: str
    after: str
    operation: Operation
    number: int
    target: int | None = None
    conflicts: tuple[Conflict, ...] = ()


class _Work(Struct, frozen=True):
    """A planned change, and what is recorded with it."""

    block: Block
    plan: RevertPlan
    reason: str
    turn_id: TurnId | None
    call_id: ToolCallId | None


class MemoryReverts:
    """Changes of the blocks that a scope sees. `turn_id` is the turn that they are recorded under."""

    def __init__(self, database: Database, scope: HistoryScope, *, clock: Clock) -> None:
        self.turn_id: TurnId | None = None
        self._database = database
        self._scope = scope
        self._clock = clock

    async def change(
        self,
        label: str,
        plan: Callable[[StoredHistory], RevertPlan],
        reason: str = "",
        *,
        call_id: ToolCallId | None = None,
        store: bool = True,
        expected_head: int | None = None,
    ) -> HistoryChange:
        """Work a change out from the history of a block and record it, in one transaction.

        `plan` is one of `memory/undo.py` with its number or text, as a `functools.partial`.

        With `store` False nothing is written: it is what would be done. `expected_head` is the newest write that the
        change was shown for; with another one it is refused.

        Raises:
            BlockError: nothing was changed, and why.
            DatabaseError: the constellation cannot be read or written; nothing was changed.
        """
        for attempt in range(_ATTEMPTS):
            block = await self._database.read(lambda tx: load_numbered(tx, find_key(tx, self._scope.owners, label)))
            self._refuse_without_permission(block, Operation.UNDO)
            if expected_head not in {None, block.head_update}:
                raise StaleProposalError(label)
            planned = await run_on_history(self._database, block, plan)
            work = _Work(block, planned, reason, self.turn_id, call_id)
            try:
                if not store:
                    return _as_change(await self._database.read(partial(self._propose, work)))
                return _as_change(await self._database.write(partial(self._commit, work)))
            except StaleProposalError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def delete(self, label: str, reason: str = "") -> Block:
        """Delete a block, which can be restored; the block as it is then.

        Raises:
            BlockError: there is no such block, or its permission forbids it.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """

        def write(tx: Transaction) -> Block:
            mark = propose_deletion(tx, find_key(tx, self._scope.owners, label))
            self._refuse_without_permission(mark.block, Operation.DELETE)
            return self._store_mark(tx, mark, reason)

        return await self._database.write(write)

    async def restore(self, label: str, reason: str = "", *, number: int = 1) -> Block:
        """Bring back the block of this label that was deleted last, or as the last but `number` - 1; as it is then.

        Raises:
            BlockError: none was deleted, it was forgotten, or another block has the label.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """

        def write(tx: Transaction) -> Block:
            mark = self._propose_restoration(tx, label, max(0, number - 1))
            self._refuse_without_permission(mark.block, Operation.DELETE)
            in_the_way = propose_making_room(tx, mark.block.key)
            if in_the_way is not None:
                self._store_mark(tx, in_the_way, "It makes space for the one that is restored.")
            return self._store_mark(tx, mark, reason)

        return await self._database.write(write)

    async def heal(self) -> tuple[str, ...]:
        """Repair blocks of which stored parts are damaged while others are sound; their labels."""
        owners, peer = self._scope.owners, self._scope.peer
        if not await self._database.read(lambda tx: find_damage(tx, owners, peer=peer)):
            return ()

        def mend(tx: Transaction) -> tuple[str, ...]:
            damaged = find_damage(tx, owners, peer=peer)
            for damage in damaged:
                block = damage.block
                key = block.key
                event = BlockHealed(block.id, key.scope, key.owner, key.label, text_hash(block.text))
                at_ms = self._clock.now_ms()
                appended = append(tx, self._scope.stream, event, actor=Actor.SYSTEM, origin=Origin.MEMORY, at_ms=at_ms)
                heal(tx, damage, seq=appended.seq)
                index_block(tx, block, at_ms=at_ms, seq=appended.seq)
            return tuple(damage.block.key.label for damage in damaged)

        return await self._database.write(mend)

    def _propose_restoration(self, tx: Transaction, label: str, skip: int) -> ProposedMark:
        for key in keys_of(self._scope.owners, label):
            try:
                return propose_restoration(tx, key, skip)
            except NothingDeletedError:
                continue
        raise NothingDeletedError(label)

    def _store_mark(self, tx: Transaction, mark: ProposedMark, reason: str) -> Block:
        block, key = mark.block, mark.block.key
        facts, digest = mark.as_change(self._scope.peer).facts_hash, text_hash(block.text)
        about = (block.id, key.scope, key.owner, key.label, reason, digest, self.turn_id, facts)
        is_deletion = mark.operation is Operation.DELETE
        event = BlockDeleted(*about, discarded=mark.discarded) if is_deletion else BlockRestored(*about)
        record = self._record(tx, event, reason)
        stored = store_mark(tx, mark, record, peer=self._scope.peer)
        if mark.operation is Operation.DELETE:
            remove_source(tx, block.id)
        else:
            index_block(tx, load_whole(tx, block.key), at_ms=record.at_ms, seq=record.seq)
        return stored

    def _propose(self, work: _Work, tx: Transaction) -> ProposedChange:
        plan, scope = work.plan, self._scope
        author = Authoring(self._clock.now_ms() // 1000, scope.actor.value, trusted=scope.actor is Actor.HUMAN)
        change = propose(
            tx, work.block.key, plan.edit, peer=scope.peer, head=plan.head, target=plan.target, author=author
        )
        if change.operation is Operation.EDIT:
            _refuse_unfit_words(change, scope.secrets)
        return replace(change, conflicts=(*change.conflicts, *plan.conflicts))

    def _commit(self, work: _Work, tx: Transaction) -> ProposedChange:
        change = self._propose(work, tx)
        event = block_event(change, work.reason, turn_id=work.turn_id, call_id=work.call_id)
        record = self._record(tx, event, work.reason)
        store_change(tx, change, record)
        index_block(
            tx, changed_block(change, record.at_ms), at_ms=record.at_ms, seq=record.seq, before=change.block.text
        )
        return change

    def _record(self, tx: Transaction, event: Event, reason: str) -> WriteRecord:
        scope, at_ms = self._scope, self._clock.now_ms()
        appended = append(tx, scope.stream, event, actor=scope.actor, origin=scope.origin, at_ms=at_ms)
        return WriteRecord(appended.seq, scope.actor, scope.origin, reason, at_ms)

    def _refuse_without_permission(self, block: Block, operation: Operation) -> None:
        if judge(block.permission, action_named(operation), self._scope.actor) is WriteVerdict.DENIED:
            raise PermissionDeniedError(block.key.label, explain_permission(block.permission) + ".")


def _refuse_unfit_words(change: ProposedChange, secrets: SecretRule) -> None:
    """Look at the lines that an edit brings, as at any text before it is stored. What was there may stay.

    Raises:
        SecretFoundError: there is a secret in them, and the rule blocks it.
        SystemTextError: they are the program's own words.
    """
    before = frozenset(change.block.text.split("\n"))
    come = "\n".join(line for line in change.text.split("\n") if line not in before)
    check_words(change.block.key.label, come)
    check_secret(change.block.key.label, come, secrets)


def _as_change(change: ProposedChange) -> HistoryChange:
    return HistoryChange(
        label=change.block.key.label,
        before=change.block.text,
        after=change.text,
        operation=change.operation,
        number=change.number,
        target=change.target,
        conflicts=change.conflicts,
    )


class AgentHistory(Struct, frozen=True):
    """The history of the blocks that the agent sees, to look at and to change as the agent."""

    reading: MemoryHistory
    reverts: MemoryReverts
