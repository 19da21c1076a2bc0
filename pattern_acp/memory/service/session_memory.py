"""Memory of one session over the constellation.

Owns: when a session's memory is read and written, and which blocks it touched. Must not know: the model, ACP, or who
decided that a write is allowed. What a write does is `memory/service/commit.py`.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import TypeVar

import anyio.to_thread
from msgspec.structs import replace

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor
from pattern_acp.domain.clock import Clock, IdFactory, ToolCallId, TurnId
from pattern_acp.memory.blocks import Isolation, Permission, Scope, Tier
from pattern_acp.memory.dates import stale_sentence
from pattern_acp.memory.diffs import conflict_note, open_conflicts
from pattern_acp.memory.errors import IsolationDeniedError
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.schemas.forms import describe
from pattern_acp.memory.service.access import (
    EVERYTHING,
    MemoryBlockView,
    MemoryChange,
    MemoryEdit,
    MemoryFilter,
    MemoryHit,
    MemoryProposal,
)
from pattern_acp.memory.service.commit import (
    Applied,
    OriginNotes,
    apply_edits,
    create_defaults,
    known_after,
    writes_from_data,
)
from pattern_acp.memory.service.scope import PERSONA, MemoryRules, MemoryScope, WriteContext, Writer, rules_for
from pattern_acp.memory.service.search import SessionSearch
from pattern_acp.memory.sharing import DamagedBlock, VisibleBlock, sound_blocks, touched_by, visible_rows
from pattern_acp.memory.templates import NO_TEMPLATES, Template, Templates, load_templates
from pattern_acp.memory.write_validation import Pair, has_untold, untold_repeats


class SessionRepeats:
    """The pairs of repeats that one session may report."""

    def __init__(self, owner: MemoryScope, isolation: Isolation) -> None:
        self._owner = owner
        self._isolation = isolation
        self._told: tuple[Pair, ...] = ()

    def untold(self, tx: Transaction) -> tuple[tuple[Pair, str], ...]:
        """Pairs that were not reported yet, each with its sentence; for a read that finds more. Nothing is noted."""
        if not has_untold(tx):
            # Nearly always, and each request asks.
            return ()
        owners = [owner for _, owner in self._owner.owners]
        searched = owners[1:] if self._isolation is not Isolation.NONE else owners
        seen = visible_rows(tx, self._owner.owners, isolation=self._isolation)
        return untold_repeats(tx, searched, [one.block.id for one in seen if one.shared_from])

    def telling(self, found: Sequence[tuple[Pair, str]]) -> tuple[str, ...]:
        """The sentences of these pairs, which this turn reports."""
        if not found:
            self._told = ()
            return ()
        self._told = tuple(pair for pair, _ in found)
        return tuple(sentence for _, sentence in found)

    def taken(self) -> tuple[Pair, ...]:
        """The pairs that were reported since the last call."""
        told, self._told = self._told, ()
        return told


T = TypeVar("T")


class ConstellationMemory:
    """`MemoryAccess` over a constellation.

    `turn_id` is the turn that commits are recorded under; the session sets it when a turn begins and ends.
    """

    def __init__(
        self,
        database: Database,
        owner: MemoryScope,
        *,
        clock: Clock,
        ids: IdFactory,
        peer: int,
        writer: Writer = PERSONA,
        indexer: Indexer | None = None,
        rules: MemoryRules | None = None,
    ) -> None:
        """`peer` is the Loro peer of this process start, the same for all its sessions; `writer` is who commits.

        `indexer` lets searches go by meaning too; `rules` are what the settings say.
        """
        self.turn_id: TurnId | None = None
        self.after_commit: Callable[[], Awaitable[None]] | None = None
        """A callback that must run after a write and before its answer, such as writing files."""
        self.template_in_use: Callable[[str], Awaitable[Template | None]] | None = None
        """Finds the template that a session uses under a name; None where today's counts."""
        self.damaged: tuple[DamagedBlock, ...] = ()
        """The blocks that could not be read when `blocks` was asked last."""
        self._database = database
        self.owner = owner
        self._rules = rules_for(writer, rules or MemoryRules())
        self._clock = clock
        self._ids = ids
        self._peer = peer
        self._writer = writer
        self._origin_notes = OriginNotes(database)
        self._touched: set[str] = set()
        """Labels that this session read."""
        self._recalled: Counter[int] = Counter()
        self._default_keys = frozenset(spec.key for spec in self._rules.defaults(owner))
        self._seen: dict[str, str] = {}
        """By label, the last text shown, with the agent's own changes: the base of its rewrites."""
        self.repeats = SessionRepeats(owner, self._rules.isolation)
        isolated = self._rules.isolation is not Isolation.NONE
        searched = owner.owners[1:] if isolated else owner.owners
        self.searching = SessionSearch(
            database,
            searched,
            owner.session_id,
            clock=clock,
            indexer=indexer,
            fork=owner.fork,
        )

    async def blocks(self) -> tuple[MemoryBlockView, ...]:
        """See `MemoryAccess.blocks`. Creates the default blocks that do not exist yet.

        Blocks of which nothing sound is left are in `damaged` instead.
        """
        return (await self.blocks_beside(lambda _: None))[1]

    async def blocks_beside(self, look: Callable[[Transaction], T]) -> tuple[T, tuple[MemoryBlockView, ...]]:
        """Return the results of `look` and of `blocks` at the same moment: a request costs one read and not two."""
        isolation = self._rules.isolation
        found, (seen, damaged, touched, from_data) = await self._database.read(
            lambda tx: (look(tx), _visible(tx, self.owner, isolation))
        )
        there = {one.block.key for one in seen}
        if damaged:
            there.update(one.visible.block.key for one in damaged)
        if not self._default_keys <= there:
            writing = self._writing(None)
            await self._database.write(lambda tx: _create_defaults(tx, writing))
            seen, damaged, touched, from_data = await self._database.read(
                lambda tx: _visible(tx, self.owner, isolation)
            )
        self.damaged = damaged
        self._seen, views, now_ms = {}, list[MemoryBlockView](), self._clock.now_ms()
        for one in seen:
            if one.label in self._touched:
                touched.add(one.block.id)
            self._seen[one.label] = one.block.text
            view = view_of(one, touched, now_ms=now_ms, isolation=isolation)
            if writes := from_data.get(one.block.id):
                view = replace(view, notes=(*view.notes, *await self._origin_notes.of(one.block, writes)))
            views.append(view)
        return found, tuple(views)

    def unreadable(self) -> dict[str, str]:
        """See `MemoryAccess.unreadable`."""
        return {one.visible.label: one.sentence for one in self.damaged}

    def touch(self, label: str) -> None:
        """See `MemoryAccess.touch`."""
        self._touched.add(label)

    def recalled(self, entries: Sequence[int]) -> None:
        """See `MemoryAccess.recalled`."""
        self._recalled.update(entry for entry in entries if entry)

    def store_recalls(self, tx: Transaction, *, at_ms: int) -> None:
        """Count the recalls and note the repeats reported since the last call, behind the event that ends the turn."""
        counted, self._recalled = self._recalled, Counter()
        told = self.repeats.taken()
        left_out, self.searching.left_out_meaning = self.searching.left_out_meaning, False
        if counted or told or left_out:
            # Late: most turns recall nothing.
            from pattern_acp.memory.service.recall_counts import Counting, count

            count(
                tx, Counting(counted, told, left_out), stream=self.owner.session_id, turn_id=self.turn_id, at_ms=at_ms
            )

    async def preview(self, edit: MemoryEdit) -> MemoryChange:
        """See `MemoryAccess.preview`.

        Raises:
            BlockError: with a sentence for the model.
        """
        return (await self.preview_all((edit,))).changes[0]

    async def preview_all(self, edits: Sequence[MemoryEdit]) -> MemoryProposal:
        """See `MemoryAccess.preview_all`. The edits are really done, and rolled back: so what is shown is what comes.

        Raises:
            BlockError: with a sentence for the model.
            ConfigError: a template file of the user cannot be used.
        """
        writing = self._writing(None, templates=await self._templates(edits), is_trial=True)
        based = self._based(edits)

        def attempt(tx: Transaction) -> None:
            raise _DoneError(_apply(tx, based, writing))

        try:
            await self._database.write(attempt)
        except _DoneError as done:
            changes = tuple(applied.change for applied in done.applied)
            return MemoryProposal(changes, tuple(applied.access for applied in done.applied))
        raise AssertionError("the attempt always ends in what it did")

    async def commit(self, edit: MemoryEdit, call_id: ToolCallId | None) -> MemoryChange:
        """See `MemoryAccess.commit`.

        Raises:
            BlockError: nothing was changed, and why.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """
        return (await self.commit_all((edit,), call_id))[0]

    async def commit_all(
        self, edits: Sequence[MemoryEdit], call_id: ToolCallId | None, *, consented: bool = False
    ) -> tuple[MemoryChange, ...]:
        """See `MemoryAccess.commit_all`.

        Raises:
            BlockError: nothing was changed, and why.
            ConfigError: a template file of the user cannot be used.
            DatabaseError: the constellation cannot be written; nothing was changed.
        """
        writing = self._writing(call_id, templates=await self._templates(edits), consented=consented)
        based = self._based(edits)
        applied = await self._database.write(lambda tx: _apply(tx, based, writing))
        for edit, change in zip(edits, (one.change for one in applied), strict=True):
            seen = self._seen.get(change.label, change.before)
            self._seen[change.label] = known_after(seen, edit, change, at_ms=writing.at_ms)
        if self.after_commit is not None:
            await self.after_commit()
        return tuple(one.change for one in applied)

    async def search(self, query: str, limit: int, narrowing: MemoryFilter = EVERYTHING) -> tuple[MemoryHit, ...]:
        """See `MemoryAccess.search`. This session's own messages are left out as far as the model sees them."""
        return await self.searching.search(query, limit, narrowing)

    def _based(self, edits: Sequence[MemoryEdit]) -> tuple[MemoryEdit, ...]:
        """The edits, the agent's rewrites of whole blocks with the text that the agent saw last.

        The user's rewrites stand as they are: they are typed into an answer of this moment.
        """
        if self._writer.actor is not Actor.PERSONA:
            return tuple(edits)
        return tuple(
            replace(edit, base=self._seen.get(edit.label))
            if edit.operation == "rewrite" and not edit.field and edit.base is None
            else edit
            for edit in edits
        )

    def _writing(
        self,
        call_id: ToolCallId | None,
        *,
        templates: Templates = NO_TEMPLATES,
        consented: bool = False,
        is_trial: bool = False,
    ) -> WriteContext:
        return WriteContext(
            self.owner,
            self._writer,
            self._rules,
            self._ids,
            self._peer,
            self._clock.now_ms(),
            templates,
            self.turn_id,
            call_id,
            consented,
            is_trial,
        )

    async def _templates(self, edits: Sequence[MemoryEdit]) -> Templates:
        if all(edit.operation != "create" for edit in edits):
            return NO_TEMPLATES
        found = await anyio.to_thread.run_sync(load_templates, self._rules.templates)
        usable = dict(found.usable)
        for edit in edits:
            if edit.template in usable and self.template_in_use is not None:
                usable[edit.template] = await self.template_in_use(edit.template) or usable[edit.template]
        return Templates(usable, found.broken)


class _DoneError(Exception):
    """Ends a trial, so that its transaction is rolled back, and carries out what it did."""

    def __init__(self, applied: tuple[Applied, ...]) -> None:
        super().__init__("tried")
        self.applied = applied


def _apply(tx: Transaction, edits: Sequence[MemoryEdit], writing: WriteContext) -> tuple[Applied, ...]:
    _look_behind_fork(tx, writing)
    return apply_edits(tx, edits, writing)


def _create_defaults(tx: Transaction, writing: WriteContext) -> None:
    _look_behind_fork(tx, writing)
    create_defaults(tx, writing)


def _look_behind_fork(tx: Transaction, writing: WriteContext) -> None:
    if writing.owner.fork is not None:
        # Late: most sessions have no fork.
        from pattern_acp.memory.service.forking import fall_through

        fall_through(tx, writing)


def _visible(
    tx: Transaction, owner: MemoryScope, isolation: Isolation
) -> tuple[tuple[VisibleBlock, ...], tuple[DamagedBlock, ...], set[str], dict[str, dict[int, str]]]:
    seen, damaged = sound_blocks(tx, owner.owners, isolation=isolation)
    blocks = [one.block for one in seen]
    return seen, damaged, touched_by(tx, owner.session_id, blocks), writes_from_data(tx, blocks)


def view_of(
    visible: VisibleBlock, touched: Container[str], *, now_ms: int, isolation: Isolation = Isolation.NONE
) -> MemoryBlockView:
    """The view of a block; `touched` holds the ids of those that the session wrote or read."""
    block = visible.block
    notes: list[str] = []
    if block.conflicts:
        notes += map(conflict_note, open_conflicts(block.text, block.conflicts))
    if stale := stale_sentence(block.text, now_ms=now_ms):
        notes.append(stale)
    is_apart = block.key.scope is Scope.PERSONA and isolation is not Isolation.NONE and not visible.shared_from
    denied = IsolationDeniedError(visible.label, isolation).sentence if is_apart else ""
    return MemoryBlockView(
        label=visible.label,
        scope=block.key.scope.value,
        description=block.description,
        text=block.text,
        limit=block.limit,
        updated_at_ms=block.updated_ms,
        permission=(Permission.READ_ONLY if denied else visible.permission).value,
        form=describe(block.schema),
        notes=tuple(notes),
        in_context=block.tier is Tier.CORE or block.pinned or block.id in touched,
        write_denied=denied,
        shared_from=visible.shared_from,
        block_id=block.id,
        version=block.head_update,
        schema=block.schema,
    )
