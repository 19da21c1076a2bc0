"""The memory of a subagent: that of its session, or of the worker that delegated to it, and a fork of it.

Owns: whose memory a subagent reads and writes, when a worker whose work lands forks it, and bringing that back or
dropping it. Must not know: how memory is forked and merged (memory/service/forking.py), or what the user is asked.

A worker begins without a fork, which costs nothing, and reads what it started from. Its first write begins the fork, in
the same transaction. From then on it neither sees what others write, nor do they see what it writes.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import fenced, one_line, short_diff
from pattern_acp.memory import forks
from pattern_acp.memory.blocks import MemoryFork, lasting_owner, owner_in
from pattern_acp.memory.service.access import (
    ARCHIVE,
    EVERYTHING,
    MemoryBlockView,
    MemoryChange,
    MemoryEdit,
    MemoryFilter,
    MemoryHit,
    MemoryProposal,
)
from pattern_acp.memory.service.scope import PERSONA, WriteContext
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.templates import NO_TEMPLATES
from pattern_acp.turn.recorder import CLEANUP_SECONDS

if TYPE_CHECKING:
    from pattern_acp.memory.service.forking import MergeResult
    from pattern_acp.session.ports import Dialogue

logger = logging.getLogger(__name__)

BLOCKS_SHOWN = 20
"""Blocks whose differences are shown to those who decide about a worker, and as many facts."""


class SubagentMemory:
    """`MemoryAccess` of a subagent."""

    def __init__(
        self, dialogue: "Dialogue", turn_id: TurnId, name: str, *, outer: "SubagentMemory | None", lands: bool
    ) -> None:
        """`name` is in the reason of every write.

        `outer` is the memory of the worker that delegated, where that has its own. `lands` is True for a worker whose
        writes wait for its landing; those of others count at once.
        """
        self._dialogue, self._turn_id, self._name = dialogue, turn_id, name
        self._outer, self._lands = outer, lands
        self._base = outer.current if outer is not None else dialogue.memory.persona
        self._own: ConstellationMemory | None = None
        self._seen: dict[str, str] = {}
        self.changed: dict[str, None] = {}
        """Labels that it wrote, in order."""

    @property
    def current(self) -> ConstellationMemory:
        """The memory that it uses now: its fork, once it has one."""
        return self._own or self._base

    @property
    def fork_id(self) -> str:
        """The id of its fork; empty while it has none."""
        return "" if self._own is None or self._own.owner.fork is None else self._own.owner.fork.id

    async def blocks(self) -> tuple[MemoryBlockView, ...]:
        """See `MemoryAccess.blocks`."""
        blocks = await self.current.blocks()
        self._seen = {block.label: block.text for block in blocks}
        return blocks

    def unreadable(self) -> Mapping[str, str]:
        """See `MemoryAccess.unreadable`."""
        return self.current.unreadable()

    def touch(self, label: str) -> None:
        """See `MemoryAccess.touch`."""
        self.current.touch(label)

    def recalled(self, entries: Sequence[int]) -> None:
        """See `MemoryAccess.recalled`; the session's turn counts them."""
        self._base.recalled(entries)

    async def preview(self, edit: MemoryEdit) -> MemoryChange:
        """See `MemoryAccess.preview`."""
        return await self.current.preview(self._signed(edit))

    async def commit(self, edit: MemoryEdit, call_id: ToolCallId | None) -> MemoryChange:
        """See `MemoryAccess.commit`."""
        return (await self.commit_all((edit,), call_id))[0]

    async def preview_all(self, edits: Sequence[MemoryEdit]) -> MemoryProposal:
        """See `MemoryAccess.preview_all`. Policy decides on a write in a fork as on one outside of it."""
        # An entry that was there before can be changed outside of the fork alone: refused before anybody is asked.
        changes_entry = any(edit.label == ARCHIVE and edit.old_text for edit in edits)
        memory = self.forked() if self._lands and changes_entry else self.current
        proposal = await memory.preview_all([self._signed(edit) for edit in edits])
        fork = self._dialogue.memory.persona.owner.fork
        outside = "" if fork is None else fork.id
        accesses = (replace(one, owner=owner_in(lasting_owner(one.owner), outside)) for one in proposal.accesses)
        return replace(proposal, accesses=tuple(accesses))

    async def commit_all(
        self, edits: Sequence[MemoryEdit], call_id: ToolCallId | None, *, consented: bool = False
    ) -> tuple[MemoryChange, ...]:
        """See `MemoryAccess.commit_all`."""
        memory = self.forked() if self._lands else self._base
        changes = await memory.commit_all([self._signed(edit) for edit in edits], call_id, consented=consented)
        for change in changes:
            self.changed[change.label] = None
            self._seen[change.label] = change.after
        return changes

    async def search(self, query: str, limit: int, narrowing: MemoryFilter = EVERYTHING) -> tuple[MemoryHit, ...]:
        """See `MemoryAccess.search`."""
        return await self.current.search(query, limit, narrowing)

    def forked(self) -> ConstellationMemory:
        """Its fork, which it uses from now on, and of which nothing is stored before the first write."""
        if self._own is None:
            if self._outer is not None:
                self._base = self._outer.forked()
            shared = self._dialogue.shared
            fork = MemoryFork(shared.ids.new("fork"), shared.clock.now_ms(), self._base.owner.fork)
            self._own = self._memory_of(fork)
        return self._own

    async def restore(self, fork_id: str) -> None:
        """Have the fork of an earlier process, as far as it is still there.

        Raises:
            DatabaseError: the constellation cannot be read.
        """
        dialogue = self._dialogue
        left = await dialogue.shared.database.read(lambda tx: forks.worker_forks(tx, dialogue.session_id))
        for fork in left:
            if fork.id == fork_id:
                self._own = self._memory_of(replace(fork, within=self._base.owner.fork))

    async def learned(self) -> "MergeResult | None":
        """Changes that a landing would bring back now; None for nothing.

        Raises:
            BlockError: a history cannot be read.
            DatabaseError: the constellation cannot be read.
        """
        fork = await self._begun()
        if fork is None:
            return None
        from pattern_acp.memory.service.forking import preview_merge

        found = await preview_merge(self._dialogue.shared.database, fork, self._writing(self._turn_id))
        return None if found.is_empty else found

    def merge(self, tx: Transaction, turn_id: TurnId) -> "MergeResult | None":
        """Bring back what it learned; None for nothing. `merged` has to follow the commit.

        Raises:
            BlockError: a history cannot be read; nothing was changed.
        """
        fork = self._own.owner.fork if self._own is not None else None
        if fork is None or not forks.outcome_of(tx, fork.id):
            return None
        from pattern_acp.memory.service.forking import merge_fork

        return merge_fork(tx, fork, self._writing(turn_id))

    def merged(self, result: "MergeResult | None") -> None:
        """Take note that its fork was merged."""
        self._own = None
        blocks = dict.fromkeys(block.label for block in result.blocks) if result is not None else {}
        self.changed = blocks | ({ARCHIVE: None} if result is not None and result.facts else {})
        if self._outer is not None:
            self._outer.changed |= self.changed

    async def drop(self) -> None:
        """Drop what it learned and did not bring back."""
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
            try:
                fork = await self._begun()
                self._own = None
                if fork is not None:
                    await drop_forks(self._dialogue, (fork,))
            except PatternError:
                logger.warning("what a worker learned is dropped when its session is opened again", exc_info=True)

    async def _begun(self) -> MemoryFork | None:
        """Its fork, once something of it is stored."""
        fork = self._own.owner.fork if self._own is not None else None
        if fork is None:
            return None
        outcome = await self._dialogue.shared.database.read(lambda tx: forks.outcome_of(tx, fork.id))
        return fork if outcome == "open" else None

    def _memory_of(self, fork: MemoryFork) -> ConstellationMemory:
        # Late: it imports what opens sessions.
        from pattern_acp.session.opening import memory_rules

        shared, base = self._dialogue.shared, self._base
        memory = ConstellationMemory(
            shared.database,
            replace(base.owner, fork=fork),
            clock=shared.clock,
            ids=shared.ids,
            peer=shared.peer,
            writer=PERSONA,
            indexer=shared.indexer,
            rules=memory_rules(shared, self._dialogue.state.settings),
        )
        memory.turn_id, memory.template_in_use = self._turn_id, base.template_in_use
        memory.searching.in_context = base.searching.in_context
        return memory

    def _writing(self, turn_id: TurnId) -> WriteContext:
        return writing_of(self._dialogue, self._base, turn_id)

    def _signed(self, edit: MemoryEdit) -> MemoryEdit:
        reason = f"Subagent {self._name}: {edit.reason}" if edit.reason else f"Subagent {self._name}"
        base = edit.base
        if edit.operation == "rewrite" and not edit.field and base is None:
            # What this subagent saw, not what others were shown since: or their writes would be lost.
            base = self._seen.get(edit.label)
        return replace(edit, reason=reason, base=base)


def writing_of(dialogue: "Dialogue", memory: ConstellationMemory, turn_id: TurnId | None) -> WriteContext:
    """The program's writes to `memory` when the fork of a worker ends: what it learned has its own authors."""
    from pattern_acp.session.opening import memory_rules

    shared = dialogue.shared
    rules, now = memory_rules(shared, dialogue.state.settings), shared.clock.now_ms()
    return WriteContext(memory.owner, PERSONA, rules, shared.ids, shared.peer, now, NO_TEMPLATES, turn_id)


async def drop_forks(dialogue: "Dialogue", left: Iterable[MemoryFork]) -> None:
    """Discard forks of workers whose work does not land.

    Raises:
        DatabaseError: the constellation cannot be written.
    """
    from pattern_acp.memory.service.forking import discard_forks

    left, writing = (
        tuple(left),
        writing_of(dialogue, dialogue.memory.persona, dialogue.memory.persona.turn_id),
    )
    await dialogue.shared.database.write(lambda tx: discard_forks(tx, left, writing))


def shown_memory(found: "MergeResult | None") -> Sequence[str]:
    """Paragraphs about what a worker learned that is to land."""
    if found is None:
        return ()
    from pattern_acp.session.session_commands import counted

    shown = [f"Memory: {counted(found)}."]
    shown += [
        "\n\n".join((f"`{block.label}`", fenced(short_diff(block.before, block.after), "diff"), *block.notes))
        for block in found.blocks[:BLOCKS_SHOWN]
    ]
    return (*shown, *(f"Fact: {one_line(fact)}" for fact in found.facts[:BLOCKS_SHOWN]), *found.left)


def merged_sentence(found: "MergeResult | None") -> str:
    """Sentences about what a landing brought back, and what does not fit; empty for nothing."""
    if found is None or found.is_empty:
        return ""
    from pattern_acp.session.session_commands import counted

    notes = [f"`{block.label}`: {note}" for block in found.blocks for note in block.notes]
    brought = [f"Memory: {counted(found)}."] if found.blocks or found.facts else []
    return " ".join((*brought, *notes, *found.left))
