"""The history of memory as it is looked at: logs, versions, comparisons, blame.

Owns: which blocks a scope sees and which one a label means. Must not know: how anything is shown. Changes are in
`memory/service/undo.py` and `memory/service/forget.py`.
"""

from collections.abc import Sequence

from msgspec import Struct

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.memory.archive import ArchivalEntry, PathNote, bound_of, list_entries
from pattern_acp.memory.blocks import Block, BlockKey, Scope, shared_owner
from pattern_acp.memory.configuring import list_deleted
from pattern_acp.memory.errors import BlockCorruptError, BlockMissingError
from pattern_acp.memory.history import (
    READING_PEER,
    LineBlame,
    StoredHistory,
    Write,
    blame_lines,
    blame_range,
    list_writes,
    newest_write,
    read_write,
    run_on_history,
    text_of_version,
)
from pattern_acp.memory.indexing import times_recalled
from pattern_acp.memory.integrity import lost_histories, problems_of
from pattern_acp.memory.sharing import sound_blocks, unattached, visible_rows
from pattern_acp.memory.store import block_exists, load_numbered
from pattern_acp.memory.write_validation import SecretRule

ARCHIVE_LENGTH = 100
"""Archival entries that are listed: more are looked for by search."""


class HistoryScope(Struct, frozen=True):
    """Whose blocks are meant, who acts, and where it is recorded.

    `owners` are looked through in their order for a label; `stream` is the session, or `constellation`. `secrets` is
    what happens with new text that seems to hold one.
    """

    owners: tuple[tuple[Scope, str], ...]
    stream: str
    actor: Actor
    origin: Origin
    peer: int
    secrets: SecretRule = SecretRule.BLOCK


class ListedBlock(Struct, frozen=True):
    """A block in sight, under the label that means it, with its newest write; whose it is when it is shared."""

    label: str
    block: Block
    write: Write
    shared_from: str


class BlockVersion(Struct, frozen=True):
    """A block as one write left it."""

    block: Block
    write: Write
    text: str


class VersionPair(Struct, frozen=True):
    """Two versions of a block, `old` and `new` being the numbers of the writes that made them."""

    label: str
    old: int
    new: int
    before: str
    after: str


class BlockBlame(Struct, frozen=True):
    """The lines of a block with the writes that they came from, by number."""

    block: Block
    lines: tuple[LineBlame, ...]
    writes: dict[int, Write]


class BlamedRange(Struct, frozen=True):
    """Characters of a block (from `start` to before `end`) and the write they came from."""

    start: int
    end: int
    text: str
    write: Write


class ArchivedEntry(Struct, frozen=True):
    """An archival entry, and how often it was recalled."""

    entry: ArchivalEntry
    times: int
    bound: PathNote | None = None
    """The note that makes it a trap, constraint or decision; None for a plain fact."""


class BlockCheck(Struct, frozen=True):
    """A block that was checked: its writes, and what does not agree, a clause each."""

    label: str
    writes: int
    problems: tuple[str, ...]


class MemoryHistory:
    """The history of the blocks that a scope sees."""

    def __init__(
        self,
        database: Database,
        owners: Sequence[tuple[Scope, str]],
        *,
        inherited: Sequence[tuple[Scope, str]] = (),
        until_ms: int = 0,
    ) -> None:
        """`owners` are looked through in their order for a label.

        A fork also sees what the archive of those `inherited` had at `until_ms`.
        """
        self._database = database
        self._owners = tuple(owners)
        self._inherited = tuple(inherited)
        self._until_ms = until_ms

    async def blocks(self) -> tuple[ListedBlock, ...]:
        """All blocks in sight with their newest writes: those of the owners in their order, then shared ones.

        Those that cannot be read or rebuilt are left out; `damaged` has them.
        """

        def read(tx: Transaction) -> tuple[ListedBlock, ...]:
            return tuple(
                ListedBlock(seen.label, seen.block, newest_write(tx, seen.block), seen.shared_from)
                for seen in sound_blocks(tx, self._owners)[0]
            )

        return await self._database.read(read)

    async def damaged(self) -> tuple[str, ...]:
        """A sentence for each block in sight that cannot be read or rebuilt, or whose history cannot.

        It names the block and what to do.
        """

        def read(tx: Transaction) -> tuple[str, ...]:
            damaged = (one.sentence for one in sound_blocks(tx, self._owners)[1])
            lost = lost_histories(tx, self._owners, peer=READING_PEER)
            return (*damaged, *(error.sentence for _, error in lost))

        return await self._database.read(read)

    async def deleted(self) -> tuple[Block, ...]:
        """The blocks that can be restored, shared ones too, deleted last first; `updated_ms` is when."""
        owners = (*self._owners, (Scope.SHARED, shared_owner(self._owners)))
        return await self._database.read(lambda tx: list_deleted(tx, owners))

    async def elsewhere(self) -> tuple[Block, ...]:
        """The shared blocks that are not attached here, which the user may attach."""
        return await self._database.read(lambda tx: unattached(tx, self._owners, visible_rows(tx, self._owners)))

    async def archive(self) -> tuple[ArchivedEntry, ...]:
        """The archival entries of the owners, newest first, at most `ARCHIVE_LENGTH`, superseded ones too."""

        def read(tx: Transaction) -> tuple[ArchivedEntry, ...]:
            own = list_entries(tx, self._owners, limit=ARCHIVE_LENGTH, with_superseded=True)
            before = list_entries(
                tx, self._inherited, limit=ARCHIVE_LENGTH, until_ms=self._until_ms, with_superseded=True
            )
            found = (*own, *before)[:ARCHIVE_LENGTH]
            times = times_recalled(tx, [entry.id for entry in found])
            bound = bound_of(tx, [entry.id for entry in found])
            return tuple(ArchivedEntry(entry, times.get(entry.id, 0), bound.get(entry.id)) for entry in found)

        return await self._database.read(read)

    async def verify(self) -> tuple[BlockCheck, ...]:
        """Every block in sight, with what does not agree in what is stored of it. Changes nothing.

        Last, under the label `archive`, the archival entries that are not what their events say, where there are any.
        """
        # Late: what a check needs of the journal, nothing else does.
        from pattern_acp.memory.service.provenance import archive_mismatches, mismatches

        seen = await self._database.read(lambda tx: visible_rows(tx, self._owners))
        ids = [one.block.id for one in seen]
        otherwise = await self._database.read(lambda tx: tuple(mismatches(tx, ids)))
        checked: list[BlockCheck] = []
        for one in seen:
            try:
                problems = await run_on_history(self._database, one.block, problems_of)
            except BlockCorruptError as error:
                problems = (error.problem,)
            problems += tuple(found.problem for found in otherwise if found.block_id == one.block.id)
            checked.append(BlockCheck(one.label, one.block.head_update, problems))
        if wrong := await self._database.read(lambda tx: tuple(one.problem for one in archive_mismatches(tx))):
            checked.append(BlockCheck("archive", len(wrong), wrong))
        return tuple(checked)

    async def log(self, label: str, *, before: int | None = None, limit: int = 50) -> tuple[Write, ...]:
        """The newest writes of a block, newest first: at most `limit`, those below the number `before`.

        Raises:
            BlockMissingError: there is no such block.
        """
        return await self._database.read(lambda tx: list_writes(tx, self._load(tx, label), before=before, limit=limit))

    async def show(self, label: str, number: int | None = None) -> BlockVersion:
        """A block as it is, or as write `number` left it.

        Raises:
            BlockError: there is no such block or version, it was forgotten, or it is damaged.
        """

        def read(tx: Transaction) -> tuple[Block, Write]:
            block = self._load(tx, label)
            return block, newest_write(tx, block) if number is None else read_write(tx, block, number)

        block, write = await self._database.read(read)
        text = block.text
        if write.number != block.head_update:
            text = await run_on_history(self._database, block, text_of_version, write.number)
        return BlockVersion(block, write, text)

    async def compare(self, label: str, old: int, new: int | None = None) -> VersionPair:
        """Two versions of a block, the newest when `new` is None.

        Raises:
            BlockError: see `show`.
        """
        block = await self._database.read(lambda tx: self._load(tx, label))
        newer = block.head_update if new is None else new
        before, after = await run_on_history(self._database, block, _two_texts, old, newer)
        return VersionPair(block.key.label, old, newer, before, after)

    async def blame(self, label: str) -> BlockBlame:
        """Who wrote each line, when, why and where.

        Raises:
            BlockError: there is no such block, or it is damaged.
        """
        block = await self._database.read(lambda tx: self._load(tx, label))
        lines = await run_on_history(self._database, block, blame_lines)
        writes = await self._writes(block, {line.number for line in lines})
        return BlockBlame(block, lines, writes)

    async def blame_range(self, label: str, start: int, end: int) -> tuple[BlamedRange, ...]:
        """Who wrote each of the characters from `start` to before `end`.

        Raises:
            BlockError: there is no such block, or it is damaged.
        """
        block = await self._database.read(lambda tx: self._load(tx, label))
        spans = await run_on_history(self._database, block, blame_range, start, end)
        writes = await self._writes(block, {span.number for span in spans})
        return tuple(
            BlamedRange(span.start, span.end, block.text[span.start : span.end], writes[span.number]) for span in spans
        )

    def _load(self, tx: Transaction, label: str) -> Block:
        return load_numbered(tx, find_key(tx, self._owners, label))

    async def _writes(self, block: Block, numbers: set[int]) -> dict[int, Write]:
        return await self._database.read(lambda tx: {number: read_write(tx, block, number) for number in numbers})


def find_key(tx: Transaction, owners: Sequence[tuple[Scope, str]], label: str) -> BlockKey:
    """The key of the first owner's block with this label, or of one that is shared with them.

    `SCOPE/LABEL` names one where two scopes have the label; `shared/LABEL` a shared block wherever it is attached.

    Raises:
        BlockMissingError: there is no such block; names those that there are.
    """
    for key in keys_of(owners, label):
        if block_exists(tx, key):
            return key
    seen = visible_rows(tx, owners)
    shared = next((one for one in seen if one.label == label), None)
    if shared is None:
        raise BlockMissingError(label, tuple(one.label for one in seen))
    return shared.block.key


def keys_of(owners: Sequence[tuple[Scope, str]], label: str) -> tuple[BlockKey, ...]:
    """The keys that a label may mean, the likeliest first."""
    scope, slash, rest = label.partition("/")
    scopes = (*owners, (Scope.SHARED, shared_owner(owners)))
    named = tuple(BlockKey(known, owner, rest) for known, owner in scopes if slash and known.value == scope)
    return (*(BlockKey(known, owner, label) for known, owner in owners), *named)


def _two_texts(history: StoredHistory, old: int, new: int) -> tuple[str, str]:
    return text_of_version(history, old), text_of_version(history, new)
