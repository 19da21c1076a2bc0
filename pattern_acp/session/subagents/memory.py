"""Memory as a subagent may use it.

Owns: that what it writes carries its name, and what a rewrite of its is worked out from. Must not know: how memory is
stored, or whether a write is allowed: the session's own memory says that, with its isolation and permissions.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.memory.service.access import (
    EVERYTHING,
    MemoryAccess,
    MemoryBlockView,
    MemoryChange,
    MemoryEdit,
    MemoryHit,
    MemoryNarrowing,
    MemoryProposal,
)


class SubagentMemory:
    """`MemoryAccess` of a subagent, over that of its session."""

    def __init__(self, memory: MemoryAccess, name: str) -> None:
        """`name` stands in the reason of every write."""
        self._memory = memory
        self._name = name
        self._seen: dict[str, str] = {}
        self.changed: dict[str, None] = {}
        """Labels that it wrote, in order."""

    async def blocks(self) -> tuple[MemoryBlockView, ...]:
        """See `MemoryAccess.blocks`."""
        blocks = await self._memory.blocks()
        self._seen = {block.label: block.text for block in blocks}
        return blocks

    def unreadable(self) -> Mapping[str, str]:
        """See `MemoryAccess.unreadable`."""
        return self._memory.unreadable()

    def touch(self, label: str) -> None:
        """See `MemoryAccess.touch`."""
        self._memory.touch(label)

    def recalled(self, entries: Sequence[int]) -> None:
        """See `MemoryAccess.recalled`."""
        self._memory.recalled(entries)

    async def preview(self, edit: MemoryEdit) -> MemoryChange:
        """See `MemoryAccess.preview`."""
        return await self._memory.preview(self._signed(edit))

    async def commit(self, edit: MemoryEdit, call_id: ToolCallId | None) -> MemoryChange:
        """See `MemoryAccess.commit`."""
        return (await self.commit_all((edit,), call_id))[0]

    async def preview_all(self, edits: Sequence[MemoryEdit]) -> MemoryProposal:
        """See `MemoryAccess.preview_all`."""
        return await self._memory.preview_all([self._signed(edit) for edit in edits])

    async def commit_all(
        self, edits: Sequence[MemoryEdit], call_id: ToolCallId | None, *, consented: bool = False
    ) -> tuple[MemoryChange, ...]:
        """See `MemoryAccess.commit_all`."""
        changes = await self._memory.commit_all([self._signed(edit) for edit in edits], call_id, consented=consented)
        for change in changes:
            self.changed[change.label] = None
            self._seen[change.label] = change.after
        return changes

    async def search(self, query: str, limit: int, narrowing: MemoryNarrowing = EVERYTHING) -> tuple[MemoryHit, ...]:
        """See `MemoryAccess.search`."""
        return await self._memory.search(query, limit, narrowing)

    def _signed(self, edit: MemoryEdit) -> MemoryEdit:
        reason = f"Subagent {self._name}: {edit.reason}" if edit.reason else f"Subagent {self._name}"
        base = edit.base
        if edit.operation == "rewrite" and not edit.field and base is None:
            # What this subagent saw, not what others were shown since: or their writes would be lost.
            base = self._seen.get(edit.label)
        return replace(edit, reason=reason, base=base)
