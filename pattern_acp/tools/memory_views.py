"""Blocks as tools and context see them.

Owns: what is told of a block beside its text. Must not know: SQL, the model.
"""

from collections.abc import Container

from pattern_acp.memory.blocks import Scope, Tier
from pattern_acp.memory.freshness import stale_sentence
from pattern_acp.memory.merging import Conflict, open_conflicts
from pattern_acp.memory.permissions import Isolation, Permission
from pattern_acp.memory.refusals import IsolationDeniedError
from pattern_acp.memory.schemas.describing import describe
from pattern_acp.memory.sharing import VisibleBlock
from pattern_acp.tools.base import MemoryBlockView

_SHOWN = 200
"""Characters of each side of a double change."""


def view_of(
    visible: VisibleBlock, touched: Container[str], *, now_ms: int, isolation: Isolation = Isolation.NONE
) -> MemoryBlockView:
    """The view of a block; `touched` holds the ids of those that the session wrote or read."""
    block = visible.block
    notes = [conflict_note(conflict) for conflict in open_conflicts(block.text, block.conflicts)]
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


def conflict_note(conflict: Conflict) -> str:
    """A double change in words."""
    theirs, ours = (side if len(side) <= _SHOWN else side[:_SHOWN] + "…" for side in (conflict.theirs, conflict.ours))
    return (
        f"Two writers changed the same lines at once, and both are in the text: “{theirs}” and “{ours}”. "
        f"Replace them by what is right."
    )
