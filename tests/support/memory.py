"""Memory without a constellation, for tests of tools, context and sessions.

Owns: a `MemoryAccess` that follows the rules of edits and limits and keeps everything in this process. Must not know:
how anything is stored; the one function over a transaction is for tests of the stores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin, WriteMemory
from pattern_acp.domain.clock import Clock, ToolCallId
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.blocks import default_blocks
from pattern_acp.memory.edits import Rewrite, Within, plan_edit
from pattern_acp.memory.errors import BlockMissingError, ContentRefusedError
from pattern_acp.memory.schemas.planning import edited_text
from pattern_acp.memory.search_terms import block_passages, excerpt, query_terms
from pattern_acp.memory.service.access import (
    EVERYTHING,
    MemoryBlockView,
    MemoryChange,
    MemoryEdit,
    MemoryFilter,
    MemoryHit,
    MemoryProposal,
)
from pattern_acp.memory.service.commit import as_block_edit, block_event
from pattern_acp.memory.store import ProposedChange


@dataclass(frozen=True, slots=True)
class CommittedEdit:
    """An edit that a test can look at, with the call it came from."""

    edit: MemoryEdit
    call_id: ToolCallId | None


class FakeMemory:
    """`MemoryAccess` in memory, with the default blocks of a persona `tester` and a project `/project`."""

    def __init__(self, clock: Clock, *, limit: int | None = None) -> None:
        """`limit` replaces every block's limit."""
        self.commits: list[CommittedEdit] = []
        self.touched: list[str] = []
        self.damaged: dict[str, str] = {}
        self.recalls: list[int] = []
        self._clock = clock
        self._blocks = {
            spec.key.label: MemoryBlockView(
                label=spec.key.label,
                scope=spec.key.scope.value,
                description=spec.description,
                text=spec.text,
                limit=spec.limit if limit is None else limit,
                updated_at_ms=clock.now_ms(),
            )
            for spec in default_blocks("tester", "/project")
        }

    async def blocks(self) -> tuple[MemoryBlockView, ...]:
        """See `MemoryAccess.blocks`."""
        return tuple(block for label, block in self._blocks.items() if label not in self.damaged)

    def unreadable(self) -> dict[str, str]:
        """See `MemoryAccess.unreadable`; labels put into `damaged` are."""
        return self.damaged

    def touch(self, label: str) -> None:
        """See `MemoryAccess.touch`."""
        self.touched.append(label)

    def recalled(self, entries: Sequence[int]) -> None:
        """See `MemoryAccess.recalled`."""
        self.recalls += entries

    async def preview(self, edit: MemoryEdit) -> MemoryChange:
        """See `MemoryAccess.preview`."""
        return (await self.preview_all((edit,))).changes[0]

    async def preview_all(self, edits: Sequence[MemoryEdit]) -> MemoryProposal:
        """See `MemoryAccess.preview_all`."""
        texts = {label: block.text for label, block in self._blocks.items()}
        changes = tuple(self._change(edit, texts) for edit in edits)
        return MemoryProposal(changes, tuple(WriteMemory(edit.label) for edit in edits))

    async def commit(self, edit: MemoryEdit, call_id: ToolCallId | None) -> MemoryChange:
        """See `MemoryAccess.commit`."""
        return (await self.commit_all((edit,), call_id))[0]

    async def commit_all(
        self, edits: Sequence[MemoryEdit], call_id: ToolCallId | None, *, consented: bool = False
    ) -> tuple[MemoryChange, ...]:
        """See `MemoryAccess.commit_all`."""
        del consented
        proposal = await self.preview_all(edits)
        for edit, change in zip(edits, proposal.changes, strict=True):
            block = self._blocks[edit.label]
            self._blocks[edit.label] = replace(block, text=change.after, updated_at_ms=self._clock.now_ms())
            self.commits.append(CommittedEdit(edit, call_id))
        return proposal.changes

    def _change(self, edit: MemoryEdit, texts: dict[str, str]) -> MemoryChange:
        block = self._blocks.get(edit.label)
        if block is None:
            raise BlockMissingError(edit.label, tuple(self._blocks))
        before = texts[edit.label]
        asked = as_block_edit(edit, now_ms=self._clock.now_ms())
        if isinstance(asked, Within):
            raise ContentRefusedError(edit.label, "it has no fields or sections", edit.field)
        changed = edited_text(asked, before, label=edit.label)
        planned = plan_edit(Rewrite(changed.text), before, label=edit.label, limit=block.limit)
        texts[edit.label] = planned.text
        return MemoryChange(edit.label, before, planned.text)

    async def search(self, query: str, limit: int, narrowing: MemoryFilter = EVERYTHING) -> tuple[MemoryHit, ...]:
        """See `MemoryAccess.search`. Ranks by the share of words that a passage holds; knows blocks alone."""
        terms = query_terms(query)
        hits = [
            MemoryHit(
                f"memory block {block.label}",
                excerpt(passage, terms),
                block.updated_at_ms,
                score,
                words=tuple(term for term in terms if term in query_terms(passage)),
            )
            for block in self._blocks.values()
            if narrowing.scope in {"", block.scope} and (not narrowing.kinds or "block" in narrowing.kinds)
            for passage in block_passages(block.text)
            if (score := _share(passage, terms)) > 0.0
        ]
        return tuple(sorted(hits, key=lambda hit: -hit.score)[:limit])


def _share(passage: str, terms: tuple[str, ...]) -> float:
    words = query_terms(passage)
    return sum(term in words for term in terms) / max(1, len(terms))


def append_memory_event(tx: Transaction, change: ProposedChange, *, at_ms: int) -> int:
    """Append the event of a change, for tests of the stores below the composition, and give its number."""
    event = block_event(change, "a test")
    return append(tx, CONSTELLATION_STREAM, event, actor=Actor.PERSONA, origin=Origin.MODEL, at_ms=at_ms).seq
