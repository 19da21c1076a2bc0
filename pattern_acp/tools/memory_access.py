"""Memory of one session over the constellation.

Owns: composing a change of memory with its event and its index rows in one transaction (rules R1 and R2), and which
blocks and messages a session may see. Must not know: the model, ACP, or who decided that the write is allowed.
"""

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.ids import BlockId, IdFactory, SessionId, ToolCallId, TurnId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal.events import BlockCommitted
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.blocks import Block, BlockKey, Scope, default_blocks
from pattern_acp.memory.edits import Append, BlockEdit, Replace, Rewrite
from pattern_acp.memory.errors import BlockMissingError, UnusableEditError
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.recall import index_block
from pattern_acp.memory.store import (
    ProposedChange,
    WriteRecord,
    block_exists,
    changed_block,
    list_blocks,
    missing_blocks,
    propose,
    propose_creation,
    store_change,
)
from pattern_acp.tools.base import (
    EVERYTHING,
    MemoryBlockView,
    MemoryChange,
    MemoryEdit,
    MemoryHit,
    MemoryNarrowing,
)
from pattern_acp.tools.memory_search import SessionSearch


@dataclass(frozen=True, slots=True)
class MemoryOwner:
    """Whose memory a session uses: a persona's name, a project key (`memory.project.project_key`), the session."""

    persona: str
    project_key: str
    session_id: SessionId

    @property
    def owners(self) -> tuple[tuple[Scope, str], ...]:
        """The owners whose blocks the session sees, in the order they are shown."""
        return (Scope.PERSONA, self.persona), (Scope.PROJECT, self.project_key)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes through a `ConstellationMemory`, and where the words are from."""

    actor: Actor
    origin: Origin


PERSONA = Writer(Actor.PERSONA, Origin.MODEL)
"""The agent, through its tools."""

PERSON = Writer(Actor.HUMAN, Origin.PERSON)
"""The person, as with /remember."""

_PROGRAM = Writer(Actor.SYSTEM, Origin.MEMORY)


class ConstellationMemory:
    """`MemoryAccess` over a constellation.

    `turn_id` is the turn that commits are recorded under; the session sets it when a turn begins and ends.
    """

    def __init__(
        self,
        database: Database,
        owner: MemoryOwner,
        *,
        clock: Clock,
        ids: IdFactory,
        peer: int,
        writer: Writer = PERSONA,
        indexer: Indexer | None = None,
    ) -> None:
        """`peer` is the Loro peer of this process start, the same for all its sessions; `writer` is who commits.

        `indexer` lets searches go by meaning too.
        """
        self.turn_id: TurnId | None = None
        self._database = database
        self._owner = owner
        self._defaults = default_blocks(owner.persona, owner.project_key)
        self._clock = clock
        self._ids = ids
        self._peer = peer
        self._writer = writer
        self._search = SessionSearch(database, owner.owners, owner.session_id, clock=clock, indexer=indexer)

    async def blocks(self) -> tuple[MemoryBlockView, ...]:
        """See `MemoryAccess.blocks`. Creates the default blocks that do not exist yet.

        Raises:
            BlockCorruptError: a block's text is damaged and nothing is left to rebuild it from.
            DatabaseError: the constellation cannot be read or written.
        """
        stored = await self._database.read(self._list)
        if not {spec.key for spec in self._defaults} <= {block.key for block in stored}:
            await self._database.write(self._create_missing)
            stored = await self._database.read(self._list)
        return tuple(_view(block) for block in stored)

    async def preview(self, edit: MemoryEdit) -> MemoryChange:
        """See `MemoryAccess.preview`.

        Raises:
            BlockError: with a sentence for the model.
            DatabaseError: the constellation cannot be read.
        """
        await self.blocks()
        change = await self._database.read(lambda tx: self._propose(tx, edit))
        return _as_change(change)

    async def commit(self, edit: MemoryEdit, call_id: ToolCallId | None) -> MemoryChange:
        """See `MemoryAccess.commit`.

        Raises:
            BlockError: nothing was changed, and why.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """
        turn_id = self.turn_id

        def change_block(tx: Transaction) -> ProposedChange:
            self._create_missing(tx)
            change = self._propose(tx, edit)
            event = block_event(change, edit.reason, turn_id=turn_id, call_id=call_id)
            self._commit(tx, self._owner.session_id, event, change, self._writer)
            return change

        return _as_change(await self._database.write(change_block))

    async def search(self, query: str, limit: int, narrowing: MemoryNarrowing = EVERYTHING) -> tuple[MemoryHit, ...]:
        """See `MemoryAccess.search`. This session's own messages are left out: the model has them before it.

        Raises:
            DatabaseError: the constellation cannot be read.
        """
        return await self._search.search(query, limit, narrowing)

    def _list(self, tx: Transaction) -> tuple[Block, ...]:
        return list_blocks(tx, self._owner.owners)

    def _create_missing(self, tx: Transaction) -> None:
        for spec in missing_blocks(tx, self._defaults):
            # Not the session's stream: the blocks outlive whichever session happens to be first.
            change = propose_creation(spec, BlockId(self._ids.new("block")), peer=self._peer)
            event = block_event(change, "Every persona and project begins with it.")
            self._commit(tx, CONSTELLATION_STREAM, event, change, _PROGRAM)

    def _propose(self, tx: Transaction, edit: MemoryEdit) -> ProposedChange:
        for scope, owner in self._owner.owners:
            key = BlockKey(scope, owner, edit.label)
            if block_exists(tx, key):
                return propose(tx, key, as_block_edit(edit), peer=self._peer)
        raise BlockMissingError(edit.label, tuple(block.key.label for block in self._list(tx)))

    def _commit(
        self, tx: Transaction, stream: str, event: BlockCommitted, change: ProposedChange, writer: Writer
    ) -> None:
        at_ms = self._clock.now_ms()
        appended = append(tx, stream, event, actor=writer.actor, origin=writer.origin, at_ms=at_ms)
        record = WriteRecord(appended.seq, writer.actor, writer.origin, event.reason, at_ms)
        store_change(tx, change, record)
        index_block(tx, changed_block(change, at_ms), at_ms=at_ms, seq=appended.seq)


def as_block_edit(edit: MemoryEdit) -> BlockEdit:
    """The edit that a tool asks for, as memory knows it.

    Raises:
        UnusableEditError: there is no such operation.
    """
    match edit.operation:
        case "append":
            return Append(edit.text)
        case "replace":
            return Replace(edit.old_text, edit.text)
        case "rewrite":
            return Rewrite(edit.text)
        case _:
            problem = f"there is no operation {edit.operation!r}; use append, replace or rewrite."
            raise UnusableEditError(edit.label, problem)


def block_event(
    change: ProposedChange, reason: str, *, turn_id: TurnId | None = None, call_id: ToolCallId | None = None
) -> BlockCommitted:
    """The event that records a change of a block."""
    key = change.block.key
    return BlockCommitted(
        block_id=change.block.id,
        scope=key.scope.value,
        owner=key.owner,
        label=key.label,
        operation=change.operation.value,
        reason=reason,
        before_hash=change.before_hash,
        after_hash=change.after_hash,
        frontiers_before=change.frontiers_before.hex(),
        frontiers_after=change.frontiers_after.hex(),
        turn_id=turn_id,
        call_id=call_id,
    )


def _view(block: Block) -> MemoryBlockView:
    return MemoryBlockView(
        label=block.key.label,
        scope=block.key.scope.value,
        description=block.description,
        text=block.text,
        limit=block.limit,
        updated_at_ms=block.updated_ms,
    )


def _as_change(change: ProposedChange) -> MemoryChange:
    return MemoryChange(change.block.key.label, change.block.text, change.text)
