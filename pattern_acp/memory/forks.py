"""Forked memory: its rows, and the copies of blocks in it.

Owns: the rows of forks, and making a copy that can be merged back. Must not know: the
journal, whose events `memory/service/forking.py` appends.

A fork has owners of its own, whose names end with its id. So whatever reads or writes blocks by their owners honours a
fork without knowing of it. A copy has the document of its origin with all of its history, so that what is written to it
is an update of the origin as well.
"""

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import BlockId
from pattern_acp.memory.block_loader import load_history, read_row
from pattern_acp.memory.blocks import Block, BlockKey, MemoryFork, Scope, fork_in, owner_in
from pattern_acp.memory.document import EMPTY_FRONTIERS
from pattern_acp.memory.edits import Operation
from pattern_acp.memory.store import NewBase, ProposedChange

_QUERIES = load_queries("pattern_acp.memory")


GONE = 2
"""`StoredBlock.deleted` of a block of which nothing is left: it was forgotten as a whole, or discarded."""


class CopiedBlock(Struct, frozen=True):
    """Origin of a copy, and the number of the last write that both share."""

    origin: str
    head: int


class OwnWrite(Struct, frozen=True):
    """A write to a copy since it was made, or to a block that was made in a fork."""

    number: int
    update: bytes
    peer: int
    actor: Actor
    origin: Origin
    operation: Operation
    reason: str
    at_ms: int
    target: int | None


class StoredBlock(Struct, frozen=True):
    """A block as it is stored, its text unchecked, and whether it is deleted (1), or forgotten or discarded (2)."""

    block: Block
    frontiers: bytes
    deleted: int


def begin_fork(tx: Transaction, fork: MemoryFork, *, seq: int) -> None:
    """Store a fork, whose event is `seq`."""
    tx.execute(_QUERIES["begin_fork"], {"id": fork.id, "forked_ms": fork.forked_ms, "seq": seq})


def end_fork(tx: Transaction, fork: str, outcome: str, *, seq: int) -> None:
    """Store that a fork was `merged` or `discarded`."""
    tx.execute(_QUERIES["end_fork"], {"id": fork, "outcome": outcome, "seq": seq})


def join_fork(tx: Transaction, session_id: str, fork: str, *, seq: int) -> None:
    """Store that a new session uses a fork."""
    tx.execute(_QUERIES["join_fork"], {"session_id": session_id, "id": fork, "seq": seq})


def fork_of_session(tx: Transaction, session_id: str) -> MemoryFork | None:
    """The fork that a session uses; None when it has none, or that was merged or discarded."""
    row = tx.one(_QUERIES["fork_of_session"], {"session_id": session_id})
    return None if row is None else MemoryFork(columns.text(row[0]), columns.integer(row[1]))


def outcome_of(tx: Transaction, fork: str) -> str:
    """State of a fork: `open`, `merged` or `discarded`; empty when there is none."""
    row = tx.one(_QUERIES["outcome_of_fork"], {"id": fork})
    return "" if row is None else columns.text(row[0])


def unused_forks(tx: Transaction, *, before_ms: int) -> tuple[MemoryFork, ...]:
    """The open forks whose sessions were all deleted before a moment, so that nobody can merge them."""
    rows = tx.all(_QUERIES["unused_forks"], {"before_ms": before_ms})
    return tuple(MemoryFork(columns.text(row[0]), columns.integer(row[1])) for row in rows)


def note_copy(tx: Transaction, block_id: str, origin: Block, *, seq: int) -> None:
    """Store that a block is a copy of `origin` as it is now."""
    copied = {"block_id": block_id, "origin": origin.id, "origin_head": origin.head_update, "seq": seq}
    tx.execute(_QUERIES["note_copy"], copied)


def origin_of(tx: Transaction, block_id: str) -> CopiedBlock | None:
    """Origin of a copy; None for a block that is none."""
    row = tx.one(_QUERIES["origin_of_copy"], {"block_id": block_id})
    return None if row is None else CopiedBlock(columns.text(row[0]), columns.integer(row[1]))


def worker_forks(tx: Transaction, session_id: str) -> tuple[MemoryFork, ...]:
    """The open forks of a session's workers, which no session uses as its memory."""
    rows = tx.all(_QUERIES["worker_forks"], {"session_id": session_id})
    return tuple(MemoryFork(columns.text(row[0]), columns.integer(row[1])) for row in rows)


def forks_within(tx: Transaction, fork: str) -> tuple[str, ...]:
    """The ids of the open forks that were forked from a fork."""
    copies = (copy for one in stored_blocks(tx, fork) for copy in _copies_of(tx, one.block.id))
    blocks = (stored_block(tx, copy) for copy in copies)
    found = dict.fromkeys(fork_in(one.block.key.owner) for one in blocks if one is not None)
    return tuple(one for one in found if outcome_of(tx, one) == "open")


def _copies_of(tx: Transaction, block_id: str) -> tuple[str, ...]:
    return tuple(columns.text(row[0]) for row in tx.all(_QUERIES["copies_of_block"], {"origin": block_id}))


def forked_from(tx: Transaction, block_id: str) -> tuple[str, ...]:
    """The ids of the copies of a block, and of theirs."""
    return tuple(each for one in _copies_of(tx, block_id) for each in (one, *forked_from(tx, one)))


def related_blocks(tx: Transaction, block_id: str) -> tuple[str, ...]:
    """The ids of all blocks that began with the words of a block: what it is a copy of, and all copies of that."""
    root = block_id
    while (copied := origin_of(tx, root)) is not None:
        root = copied.origin
    return tuple(one for one in (root, *forked_from(tx, root)) if one != block_id)


def stored_block(tx: Transaction, block_id: str) -> StoredBlock | None:
    """A block by its id, in whatever state; None when there never was one."""
    row = tx.one(_QUERIES["find_block_by_id"], {"block_id": block_id})
    return None if row is None else _stored(row)


def stored_blocks(tx: Transaction, fork: str) -> tuple[StoredBlock, ...]:
    """All blocks that a fork has or had, oldest first."""
    return tuple(map(_stored, tx.all(_QUERIES["blocks_of_fork"], {"ending": owner_in("", fork)})))


def _stored(row: Row) -> StoredBlock:
    block, frontiers = read_row(row)
    return StoredBlock(block, frontiers, columns.integer(row[17]))


def has_blocks(tx: Transaction, scope: Scope, owner: str) -> bool:
    """True if an owner has a block, or had one."""
    return tx.one(_QUERIES["has_blocks"], {"scope": scope.value, "owner": owner}) is not None


def own_writes(tx: Transaction, block_id: str, *, after: int) -> tuple[OwnWrite, ...]:
    """The writes to a block behind one of them, oldest first."""
    return tuple(
        OwnWrite(
            columns.integer(row[0]),
            columns.data(row[1]),
            int(columns.text(row[2])),
            Actor(columns.text(row[3])),
            Origin(columns.text(row[4])),
            Operation(columns.text(row[5])),
            columns.text(row[6]),
            columns.integer(row[7]),
            None if row[8] is None else columns.integer(row[8]),
        )
        for row in tx.all(_QUERIES["read_own_writes"], {"block_id": block_id, "after": after})
    )


def writes_of_fork(tx: Transaction, fork: str) -> tuple[OwnWrite, ...]:
    """All that is stored of the writes to the blocks of a fork."""
    return tuple(write for one in stored_blocks(tx, fork) for write in own_writes(tx, one.block.id, after=0))


def propose_copy(tx: Transaction, origin: Block, fork: str, block_id: BlockId, *, peer: int) -> ProposedChange:
    """Propose a copy of a block in a fork: it begins with the whole document, and a history of its own.

    Raises:
        BlockCorruptError: the origin's history cannot be read.
    """
    document = load_history(tx, origin)
    block = replace(
        origin,
        id=block_id,
        key=BlockKey(origin.key.scope, owner_in(origin.key.owner, fork), origin.key.label),
        text="",
        updated_ms=0,
        head_update=0,
        history_from=1,
        conflicts=(),
    )
    return ProposedChange(
        block=block,
        operation=Operation.CREATE,
        text=document.text,
        update=document.export_update(EMPTY_FRONTIERS),
        peer=peer,
        frontiers_before=EMPTY_FRONTIERS,
        frontiers_after=document.frontiers,
        new_base=NewBase(document.shallow_snapshot(), document.full_snapshot()),
    )
