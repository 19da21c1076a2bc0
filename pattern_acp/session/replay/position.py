"""Where a replay is in its recorded turn: the request that is answered next, and the place where the turn was cut.

Owns: this position, which every port of a replayed turn reads. Must not know: what the ports do with it.
"""

from typing import NoReturn

import anyio

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.session.replay.recorded import RecordedCall, RecordedRequest, RecordedTurn


class Position:
    """The position in one turn. `scope` is cancelled where the recorded turn was."""

    def __init__(self, turn: RecordedTurn) -> None:
        self.turn = turn
        self.scope = anyio.CancelScope()
        self.is_beyond = False
        """Whether the loop asks for more than was recorded."""
        self._index = -1
        self._ended = {
            call_id: anyio.Event()
            for call_id, call in turn.calls.items()
            if call.finished is not None and not call.finished.interrupted
        }

    @property
    def current(self) -> RecordedRequest:
        """The request that was sent last."""
        return self.turn.requests[max(self._index, 0)]

    @property
    def following(self) -> RecordedRequest | None:
        """The request behind it; None behind the last."""
        place = self._index + 1
        return self.turn.requests[place] if place < len(self.turn.requests) else None

    def advance(self) -> RecordedRequest | None:
        """Go on to the next request; None when there is none."""
        found = self.following
        if found is not None:
            self._index += 1
        return found

    def go_back(self) -> None:
        """The request was not sent after all, since another model is asked."""
        self._index -= 1

    def call(self, call_id: str) -> RecordedCall:
        """What was recorded of a call; nothing of one that was not."""
        return self.turn.calls.get(ToolCallId(call_id)) or RecordedCall()

    def note_ended(self, call_id: ToolCallId) -> None:
        """A call has ended."""
        if call_id in self._ended:
            self._ended[call_id].set()

    async def cut(self) -> NoReturn:
        """Cancel the turn here, once the calls have ended that ended before it was cancelled."""
        for ended in self._ended.values():
            await ended.wait()
        self.scope.cancel()
        await anyio.sleep_forever()
        raise AssertionError
