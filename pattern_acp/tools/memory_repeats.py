"""Facts that say nearly the same, as one session is told of them.

Owns: which of them are in a session's sight, and that each pair is told in one turn. Must not know: how likeness is
found (`memory.repeats`), or how it is said to the model.
"""

from collections.abc import Sequence

from pattern_acp.db.connection import Transaction
from pattern_acp.memory.permissions import Isolation
from pattern_acp.memory.repeats import Pair, untold_repeats
from pattern_acp.memory.sharing import visible_rows
from pattern_acp.tools.memory_scope import MemoryOwner


class SessionRepeats:
    """The pairs that one session may be told of."""

    def __init__(self, owner: MemoryOwner, isolation: Isolation) -> None:
        self._owner = owner
        self._isolation = isolation
        self._told: tuple[Pair, ...] = ()

    def untold(self, tx: Transaction) -> tuple[tuple[Pair, str], ...]:
        """Pairs that were not told yet, each with its sentence; for a read that finds more. Nothing is noted."""
        owners = [owner for _, owner in self._owner.owners]
        searched = owners[1:] if self._isolation is not Isolation.NONE else owners
        seen = visible_rows(tx, self._owner.owners, isolation=self._isolation)
        return untold_repeats(tx, searched, [one.block.id for one in seen if one.shared_from])

    def telling(self, found: Sequence[tuple[Pair, str]]) -> tuple[str, ...]:
        """The sentences of these pairs, which are told in this turn."""
        self._told = tuple(pair for pair, _ in found)
        return tuple(sentence for _, sentence in found)

    def taken(self) -> tuple[Pair, ...]:
        """The pairs that were told since this was asked last."""
        told, self._told = self._told, ()
        return told
