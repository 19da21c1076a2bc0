"""Forking memory with a conversation, and bringing back what the fork learned.

Owns: composing copies, merges and ends of forks with their events, each in one transaction (rules R1 and R2). Must not
know: how the user is asked. A merge is the same function for its preview, whose transaction is rolled back, and for
good; so what is shown is what comes.

Each write of a fork comes back as a write of its own, with who wrote it, when and why: blame tells both authors. It is
Loro's update, or, where both sides changed the same lines, a merge by lines that has both. Where words of a block were
forgotten since, its versions have no common past any more; then the fork's new lines are added.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import BlockId, IdFactory, SessionId
from pattern_acp.domain.errors import BlockError
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.events import (
    BlockDeleted,
    BlockForgotten,
    BlockShared,
    MemoryForked,
    MemoryForkEnded,
    MemoryForkJoined,
)
from pattern_acp.journal.memory_events import ForkedBlock
from pattern_acp.journal.redact import digest_of
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory import forks
from pattern_acp.memory.archive import (
    ArchivalEntry,
    NewEntry,
    NoteRule,
    Status,
    bound_of,
    find_same,
    forget_entry,
    list_entries,
)
from pattern_acp.memory.block_loader import load_history, text_hash
from pattern_acp.memory.blocks import Block, BlockKey, MemoryFork, Scope, owner_in, owner_outside
from pattern_acp.memory.configuring import propose_deletion, store_mark
from pattern_acp.memory.diffs import Conflict, Merge, Side, merge_texts, open_conflicts
from pattern_acp.memory.document import EMPTY_FRONTIERS, BlockDocument
from pattern_acp.memory.edits import Append, Operation, Rewrite
from pattern_acp.memory.forget import propose_dropping, store_forgetting
from pattern_acp.memory.forks import CopiedBlock, OwnWrite, StoredBlock
from pattern_acp.memory.history import READING_PEER, document_at, read_history
from pattern_acp.memory.recall import remove_source
from pattern_acp.memory.schemas.types import TextSchema
from pattern_acp.memory.service.access import MemoryChange
from pattern_acp.memory.service.archive import store_entry
from pattern_acp.memory.service.commit import block_event, store_with_event
from pattern_acp.memory.service.scope import PROGRAM, MemoryRules, MemoryScope, WriteContext, Writer
from pattern_acp.memory.service.share import attach_first
from pattern_acp.memory.sharing import attach, attachments, visible_rows
from pattern_acp.memory.store import (
    NewBase,
    ProposedChange,
    WriteRecord,
    block_exists,
    load_block,
    propose,
    propose_merge,
)
from pattern_acp.memory.templates import NO_TEMPLATES

MOST_ENTRIES = 10_000
"""Facts of a fork that are brought back; more would be a second archive."""


class ForkEndedError(BlockError):
    """The forked memory was merged or discarded by another conversation."""

    failure_code = "memory.fork-ended"

    def __init__(self, outcome: str) -> None:
        """`outcome` is `merged` or `discarded`."""
        super().__init__(
            f"The forked memory of this conversation was {outcome} by another one that used it too; with the next "
            "prompt this one continues with the memory that it was forked from."
        )


class ForkInUseError(BlockError):
    """A worker has a fork of this fork, which has to end first."""

    failure_code = "memory.fork-in-use"

    def __init__(self) -> None:
        """Name what to do about the worker."""
        super().__init__(
            "A worker has forked this memory in turn, and its result has not landed yet. Let it land, or end it with "
            "`/workers stop NAME`; then try again."
        )


class MergeResult(Struct):
    """The outcome of a merge. `stamp` is what it was worked out from; with another it may come to more."""

    blocks: list[MemoryChange] = field(default_factory=list[MemoryChange])
    facts: list[str] = field(default_factory=list[str])
    left: list[str] = field(default_factory=list[str])
    """Parts of the fork that do not come back, a sentence each."""
    places: int = 0
    """Places that have the lines of both sides, for somebody to fix."""
    stamp: tuple[tuple[str, int], ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if the fork learned nothing."""
        return not (self.blocks or self.facts or self.left)


def is_untouched(tx: Transaction, owner: MemoryScope) -> bool:
    """True if memory says only what the program made it begin with."""
    seen = visible_rows(tx, owner.owners)
    return all(one.block.head_update == 1 for one in seen) and not list_entries(tx, owner.owners, limit=1)


def fork_memory(tx: Transaction, fork: MemoryFork, writing: WriteContext) -> None:
    """Fork what `writing.owner` sees, for the session of `writing`, whose first event is appended already.

    Raises:
        BlockError: the history of a block cannot be read; nothing was forked.
    """
    seq = _begin(tx, fork, writing)
    forks.join_fork(tx, writing.owner.session_id, fork.id, seq=seq)


def _begin(tx: Transaction, fork: MemoryFork, writing: WriteContext) -> int:
    copies = _copies(tx, fork, writing.owner.lasting.owners, writing)
    event = _forked(fork, copies)
    stream, writer = writing.owner.session_id, writing.writer
    seq = append(tx, stream, event, actor=writer.actor, origin=writer.origin, at_ms=writing.at_ms).seq
    forks.begin_fork(tx, fork, seq=seq)
    _store_copies(tx, fork, copies, writing, seq)
    return seq


def share_fork(tx: Transaction, fork: MemoryFork, writing: WriteContext) -> None:
    """Let a new session use the forked memory of the one that it was forked from."""
    stream, writer = writing.owner.session_id, writing.writer
    joined = append(
        tx, stream, MemoryForkJoined(fork.id), actor=writer.actor, origin=writer.origin, at_ms=writing.at_ms
    )
    forks.join_fork(tx, stream, fork.id, seq=joined.seq)


def fall_through(tx: Transaction, writing: WriteContext) -> None:
    """Copy what a persona or project has that the fork has nothing of yet: the conversation may change its persona.

    A fork that nothing is stored of begins here: that of a worker costs nothing until it writes.

    Raises:
        ForkEndedError: the fork was merged or discarded.
        BlockCorruptError: the history of a block cannot be read.
    """
    fork = writing.owner.fork
    if fork is None:
        return
    fall_through(tx, replace(writing, owner=writing.owner.lasting))
    outcome = forks.outcome_of(tx, fork.id)
    if not outcome:
        _begin(tx, fork, writing)
        return
    if outcome != "open":
        raise ForkEndedError(outcome)
    missing = [
        (scope, owner)
        for scope, owner in writing.owner.lasting.owners
        if not forks.has_blocks(tx, scope, owner_in(owner, fork.id))
    ]
    copies = _copies(tx, fork, missing, writing) if missing else []
    if copies:
        event = _forked(fork, copies)
        stream = writing.owner.session_id
        seq = append(tx, stream, event, actor=PROGRAM.actor, origin=PROGRAM.origin, at_ms=writing.at_ms).seq
        _store_copies(tx, fork, copies, writing, seq)


def _forked(fork: MemoryFork, copies: Sequence[tuple[Block, ProposedChange]]) -> MemoryForked:
    return MemoryForked(
        fork.id, tuple(ForkedBlock(copy.block.id, origin.id, origin.head_update) for origin, copy in copies)
    )


def _copies(
    tx: Transaction, fork: MemoryFork, owners: Sequence[tuple[Scope, str]], writing: WriteContext
) -> list[tuple[Block, ProposedChange]]:
    """Propose copies of all blocks in sight of these owners, each beside its origin."""
    known = {one.origin for stored in forks.stored_blocks(tx, fork.id) if (one := forks.origin_of(tx, stored.block.id))}
    copies: list[tuple[Block, ProposedChange]] = []
    for visible in visible_rows(tx, owners):
        origin = load_block(tx, visible.block.key)
        if origin.id not in known:
            block_id = BlockId(writing.ids.new("block"))
            copies.append((origin, forks.propose_copy(tx, origin, fork.id, block_id, peer=writing.peer)))
    return copies


def _store_copies(
    tx: Transaction, fork: MemoryFork, copies: Sequence[tuple[Block, ProposedChange]], writing: WriteContext, seq: int
) -> None:
    owners = writing.owner.lasting.owners
    for origin, change in copies:
        event = block_event(change, f"Forked from version {origin.head_update} of {origin.key.label}.")
        # Not in the session's stream: it wrote none of this.
        store_with_event(tx, CONSTELLATION_STREAM, event, change, PROGRAM, writing.at_ms)
        forks.note_copy(tx, change.block.id, origin, seq=seq)
        for one in attachments(tx, origin.id):
            if (one.scope, one.owner) in owners:
                there = replace(one, owner=owner_in(one.owner, fork.id))
                key = change.block.key
                said = BlockShared(
                    change.block.id, key.scope, key.owner, key.label, there.scope, there.owner, there.permission
                )
                told = append(
                    tx, CONSTELLATION_STREAM, said, actor=PROGRAM.actor, origin=PROGRAM.origin, at_ms=writing.at_ms
                )
                attach(tx, change.block.id, there, at_ms=writing.at_ms, seq=told.seq)


def merge_fork(tx: Transaction, fork: MemoryFork, writing: WriteContext, side: Side = "both") -> MergeResult:
    """Bring back what the fork learned, and end it; `writing.owner` is the memory that it was forked from.

    Where the fork (`ours`) and that memory (`theirs`) changed the same lines of a text, it has those of `side`.

    Raises:
        ForkEndedError: it was merged or discarded before.
        ForkInUseError: a worker has a fork of it.
        BlockError: a history cannot be read; nothing was changed.
    """
    done = _bring_back(tx, fork, writing, side)
    _end(tx, fork, "merged", writing, accepted=len(done.blocks), facts=len(done.facts))
    return done


def _bring_back(tx: Transaction, fork: MemoryFork, writing: WriteContext, side: Side) -> MergeResult:
    _require_open(tx, fork)
    merge = _Merge(tx, fork, writing, side)
    stored = forks.stored_blocks(tx, fork.id)
    for one in stored:
        merge.take(one)
    merge.take_facts(_owners(stored))
    return merge.result


class _TriedError(Exception):
    """Ends a trial, so that its transaction is rolled back, and carries out what it did."""

    def __init__(self, result: MergeResult) -> None:
        super().__init__("tried")
        self.result = result


async def preview_merge(
    database: Database, fork: MemoryFork, writing: WriteContext, side: Side = "both"
) -> MergeResult:
    """Return the outcome that `merge_fork` would have now. What comes back is really written, and rolled back.

    Others cannot write meanwhile, so the fork itself is not removed: that takes half as long again.

    Raises:
        ForkEndedError: the fork was merged or discarded before.
        BlockError: a history cannot be read.
    """

    def attempt(tx: Transaction) -> None:
        raise _TriedError(_bring_back(tx, fork, writing, side))

    try:
        await database.write(attempt)
    except _TriedError as tried:
        return tried.result
    raise AssertionError("the attempt always ends in what it did")


def discard_fork(tx: Transaction, fork: MemoryFork, writing: WriteContext) -> None:
    """End a fork without bringing anything back.

    Raises:
        ForkEndedError: it was merged or discarded before.
        ForkInUseError: a worker has a fork of it.
    """
    _require_open(tx, fork)
    _end(tx, fork, "discarded", writing)


def discard_unused_forks(tx: Transaction, *, before_ms: int, at_ms: int, ids: IdFactory) -> int:
    """Discard the forks whose sessions were all deleted before a moment; how many."""
    unused = forks.unused_forks(tx, before_ms=before_ms)
    nobody = MemoryScope("", "", SessionId(CONSTELLATION_STREAM))
    discard_forks(tx, unused, WriteContext(nobody, PROGRAM, MemoryRules(), ids, READING_PEER, at_ms, NO_TEMPLATES))
    return len(unused)


def discard_forks(tx: Transaction, unused: Iterable[MemoryFork], writing: WriteContext) -> None:
    """End open forks without bringing anything back, also those that were forked from each other."""
    for fork in unused:
        _end(tx, fork, "discarded", writing)


def _require_open(tx: Transaction, fork: MemoryFork) -> None:
    outcome = forks.outcome_of(tx, fork.id)
    if outcome != "open":
        raise ForkEndedError(outcome or "discarded")
    if forks.forks_within(tx, fork.id):
        raise ForkInUseError


def _owners(stored: Sequence[StoredBlock]) -> tuple[tuple[Scope, str], ...]:
    return tuple(dict.fromkeys((one.block.key.scope, one.block.key.owner) for one in stored))


def _end(
    tx: Transaction, fork: MemoryFork, outcome: str, writing: WriteContext, *, accepted: int = 0, facts: int = 0
) -> None:
    """Remove all that is stored of a fork: what it had is elsewhere now, or is not wanted."""
    stored = forks.stored_blocks(tx, fork.id)
    writer, stream = writing.writer, writing.owner.session_id
    event = MemoryForkEnded(fork.id, outcome, accepted, facts, writing.turn_id)
    seq = append(tx, stream, event, actor=writer.actor, origin=writer.origin, at_ms=writing.at_ms).seq
    for entry in list_entries(tx, _owners(stored), limit=MOST_ENTRIES, with_superseded=True):
        forget_entry(tx, entry.id, seq=seq)
    for one in stored:
        if one.deleted < forks.GONE:
            drop_block(tx, one, f"Its fork was {outcome}.", writing.at_ms, peer=writing.peer)
    forks.end_fork(tx, fork.id, outcome, seq=seq)


def drop_block(tx: Transaction, stored: StoredBlock, reason: str, at_ms: int, *, peer: int) -> None:
    """Remove a block of a fork with all that is stored of it, and record that."""
    dropping, key = propose_dropping(stored.block, stored.frontiers, peer=peer), stored.block.key
    event = BlockForgotten(
        block_id=stored.block.id,
        scope=key.scope.value,
        owner=key.owner,
        label=key.label,
        reason=reason,
        whole=True,
        events=0,
        after_hash=dropping.change.after_hash,
        redaction=digest_of(()),
        update_hash=dropping.change.update_hash,
        facts_hash=dropping.change.facts_hash,
    )
    appended = append(tx, CONSTELLATION_STREAM, event, actor=PROGRAM.actor, origin=PROGRAM.origin, at_ms=at_ms)
    store_forgetting(tx, dropping, WriteRecord(appended.seq, PROGRAM.actor, PROGRAM.origin, reason, at_ms))
    remove_source(tx, stored.block.id)


_OUTCOMES: Mapping[Side, str] = {
    "both": "both are in the text to fix",
    "ours": "the text has the lines of the fork",
    "theirs": "the text has the lines from outside of the fork",
}


def _by_lines(base: str, theirs: str, ours: str, side: Side) -> Merge:
    """The merge of two texts that were made from `base`; where that was empty, no line of either has another form."""
    if base:
        return merge_texts(base, theirs, ours, side)
    known = set(theirs.split("\n"))
    new = "\n".join(line for line in ours.split("\n") if line not in known)
    return Merge(f"{theirs}\n{new}" if theirs and new else theirs or new)


class _Merge:
    """One merge, inside its transaction."""

    def __init__(self, tx: Transaction, fork: MemoryFork, writing: WriteContext, side: Side) -> None:
        self._tx = tx
        self._fork = fork
        self._writing = writing
        self._side: Side = side
        self.result = MergeResult()

    def take(self, copy: StoredBlock) -> None:
        """Bring back what was written to a block of the fork."""
        if copy.deleted == forks.GONE:
            return
        block = copy.block
        self._saw(block)
        copied = forks.origin_of(self._tx, block.id)
        if copied is None:
            if not copy.deleted and not self._is_default(block):
                self._create(block, "")
            return
        if block.head_update == 1:
            return
        origin = forks.stored_block(self._tx, copied.origin)
        if origin is not None:
            self._saw(origin.block)
        if copy.deleted:
            self._delete(copied, origin)
        elif origin is None or origin.deleted:
            self._create(block, "It was deleted outside of the fork meanwhile, and comes back.")
        elif origin.block.history_from > copied.head or block.history_from > 1:
            self._add_lines(block, origin.block)
        else:
            self._merge(block, origin.block, copied)

    def take_facts(self, owners: Sequence[tuple[Scope, str]]) -> None:
        """Bring back the facts that the fork keeps in the archive and that hold."""
        entries = list_entries(self._tx, owners, limit=MOST_ENTRIES)
        bound = bound_of(self._tx, [entry.id for entry in entries])
        for entry in reversed(entries):
            note = bound.get(entry.id)
            if note is None or note.status(self._writing.at_ms) != Status.RESOLVED:
                self._keep(entry, None if note is None else note.terms)

    def _keep(self, entry: ArchivalEntry, terms: NoteRule | None) -> None:
        owner = owner_outside(entry.owner)
        if find_same(self._tx, entry.scope, owner, entry.text) is not None:
            return
        new = NewEntry(
            id=self._writing.ids.new("entry"),
            scope=entry.scope,
            owner=owner,
            text=entry.text,
            actor=entry.actor,
            origin=entry.origin,
            reason=entry.reason,
            supersedes="",
            verified_ms=entry.at_ms if entry.check_command else None,
            check_command=entry.check_command,
        )
        store_entry(self._tx, new, terms, self._writing, at_ms=entry.at_ms)
        self.result.facts.append(entry.text)

    def _saw(self, block: Block) -> None:
        self.result.stamp = (*self.result.stamp, (block.id, block.head_update))

    def _is_default(self, block: Block) -> bool:
        """Tell whether the program made the block and nobody wrote to it."""
        made = forks.own_writes(self._tx, block.id, after=0)
        return len(made) == 1 and made[0].actor is PROGRAM.actor

    def _key(self, block: Block) -> BlockKey:
        return BlockKey(block.key.scope, owner_outside(block.key.owner), block.key.label)

    def _create(self, block: Block, note: str) -> None:
        """Make a block that is only in the fork, with its writes; one that only has the same label keeps its own."""
        key, notes = self._key(block), [note] if note else []
        while block_exists(self._tx, key):
            key = replace(key, label=f"{key.label}-fork")
        if key.label != block.key.label:
            notes.append(f"Another block is called {block.key.label}, so this one is called {key.label}.")
        first, *others = [
            one for one in forks.own_writes(self._tx, block.id, after=block.history_from - 1) if one.update
        ]
        document = BlockDocument.load(key.label, [first.update], peer=READING_PEER, schema=block.schema)
        made = replace(
            block,
            id=BlockId(self._writing.ids.new("block")),
            key=key,
            text="",
            updated_ms=0,
            head_update=0,
            history_from=1,
            conflicts=(),
        )
        change = ProposedChange(
            made,
            Operation.CREATE,
            document.text,
            first.update,
            first.peer,
            EMPTY_FRONTIERS,
            document.frontiers,
            NewBase(document.shallow_snapshot(), document.full_snapshot()),
        )
        self._store(change, first)
        if key.scope is Scope.SHARED:
            attach_first(self._tx, made, self._writing)
        self._bring(key, others, {first.number: 1})
        self._changed(key, "", notes)

    def _delete(self, copied: CopiedBlock, origin: StoredBlock | None) -> None:
        if origin is None or origin.deleted:
            return
        label = origin.block.key.label
        if origin.block.head_update != copied.head:
            self.result.left.append(f"`{label}` was deleted in the fork, and written to outside of it: it stays.")
            return
        mark, writing = propose_deletion(self._tx, origin.block.key), self._writing
        block, key, reason = mark.block, mark.block.key, "It was deleted in the fork."
        facts = mark.as_change(writing.peer).facts_hash
        event = BlockDeleted(
            block.id, key.scope, key.owner, key.label, reason, text_hash(block.text), writing.turn_id, facts
        )
        writer, stream = writing.writer, writing.owner.session_id
        seq = append(self._tx, stream, event, actor=writer.actor, origin=writer.origin, at_ms=writing.at_ms).seq
        record = WriteRecord(seq, writer.actor, writer.origin, reason, writing.at_ms)
        store_mark(self._tx, mark, record, peer=writing.peer)
        remove_source(self._tx, block.id)
        self.result.blocks.append(
            MemoryChange(label, block.text, "", ("It is deleted; /memory restore brings it back.",))
        )

    def _add_lines(self, copy: Block, origin: Block) -> None:
        """Add the lines that only the fork has, where words were forgotten, so that nothing else tells what is new."""
        note = "Words of it were forgotten meanwhile, so what only the fork says is added at its end."
        known = set(origin.text.split("\n"))
        new = "\n".join(line for line in copy.text.split("\n") if line not in known)
        if not new.strip():
            return
        if not isinstance(origin.schema, TextSchema):
            self.result.left.append(
                f"Words of `{origin.key.label}` were forgotten meanwhile; copy what is new by hand: {new}"
            )
            return
        writing = self._writing
        change = propose(self._tx, origin.key, Append(new), peer=writing.peer, author=writing.author)
        event = block_event(change, "What only the fork said.", turn_id=writing.turn_id)
        store_with_event(self._tx, writing.owner.session_id, event, change, writing.writer, writing.at_ms)
        self._changed(origin.key, origin.text, [note])

    def _merge(self, copy: Block, origin: Block, copied: CopiedBlock) -> None:
        writes = [one for one in forks.own_writes(self._tx, copy.id, after=1) if one.update]
        notes: list[str] = []
        if origin.head_update == copied.head or not isinstance(origin.schema, TextSchema):
            self._bring(origin.key, writes, {1: copied.head})
        else:
            history = read_history(self._tx, copy)
            texts = [document_at(history, number).text for number in (1, *(one.number for one in writes))]
            wanted = _by_lines(texts[0], origin.text, texts[-1], self._side)
            if self._agrees(origin, writes, wanted) or len(wanted.text) > origin.limit:
                self._bring(origin.key, writes, {1: copied.head})
            else:
                unfixed = self._bring_lines(origin.key, writes, texts)
                self.result.places += unfixed
                places = unfixed if self._side == "both" else len(wanted.conflicts)
                if places:
                    were = "was" if places == 1 else "were"
                    notes = [f"{plural(places, 'place')} {were} changed on both sides: {_OUTCOMES[self._side]}."]
        if load_block(self._tx, origin.key).text != origin.text:
            self._changed(origin.key, origin.text, notes)
        else:
            self.result.left += [f"`{origin.key.label}`: {note}" for note in notes]

    def _agrees(self, origin: Block, writes: Sequence[OwnWrite], wanted: Merge) -> bool:
        """Tell whether Loro's merge has the lines of the merge by lines.

        Where both sides changed a line, Loro puts the characters of both into one, and of a line that one of them took
        away it leaves what the other put into it.
        """
        document = load_history(self._tx, origin)
        for one in writes:
            document.merge(one.update)
        return set(document.text.split("\n")) == set(wanted.text.split("\n"))

    def _bring_lines(self, key: BlockKey, writes: Sequence[OwnWrite], texts: Sequence[str]) -> int:
        """Store the writes of the fork merged by lines, each as its author's; in how many places both changed lines."""
        places: list[Conflict] = []
        for one, before, after in zip(writes, texts, texts[1:], strict=False):
            block = load_block(self._tx, key)
            merged = _by_lines(before, block.text, after, self._side)
            if merged.text == block.text:
                continue
            # What takes a write back there, takes back none of these.
            edit = Rewrite(merged.text, Operation.REWRITE if one.target is not None else one.operation)
            change = propose(self._tx, key, edit, peer=self._writing.peer)
            found = open_conflicts(change.text, (*change.conflicts, *merged.conflicts))
            places = [*open_conflicts(change.text, places), *merged.conflicts]
            self._store(replace(change, conflicts=found), one)
        return len(places)

    def _bring(self, key: BlockKey, writes: Sequence[OwnWrite], numbers: dict[int, int]) -> None:
        """Store writes of the fork as writes here; `numbers` are those of earlier ones there and here."""
        for one in writes:
            change = propose_merge(self._tx, key, one.update, one.operation, peer=one.peer)
            if change is None:
                continue
            target = None if one.target is None else numbers.get(one.target)
            numbers[one.number] = change.number
            self._store(replace(change, target=target), one)

    def _store(self, change: ProposedChange, write: OwnWrite) -> None:
        writing, writer = self._writing, Writer(write.actor, write.origin)
        event = block_event(change, write.reason, turn_id=writing.turn_id)
        store_with_event(self._tx, writing.owner.session_id, event, change, writer, write.at_ms)

    def _changed(self, key: BlockKey, before: str, notes: Sequence[str]) -> None:
        after = load_block(self._tx, key).text
        self.result.blocks.append(MemoryChange(key.label, before, after, tuple(notes)))
