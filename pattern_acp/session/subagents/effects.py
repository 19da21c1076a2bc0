"""What the commands of a subagent change in files.

Owns: the list of these files. Must not know: how they are found; the session's checkpoints do that.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from pattern_acp.domain.ids import TurnId
from pattern_acp.policy.access import Access
from pattern_acp.session.checkpoints import Checkpoints


class NotedEffects:
    """`turn.tool_hooks.AroundEffects` over the session's checkpoints."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.changed: dict[str, None] = {}
        """Absolute paths of files that its commands changed, in order."""

    def around(self, turn_id: TurnId, accesses: Sequence[Access]) -> AbstractAsyncContextManager[None]:
        """See `AroundEffects.around`."""
        return self._checkpoints.around(turn_id, accesses, found=self.changed)
