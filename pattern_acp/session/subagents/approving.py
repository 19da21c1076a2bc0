"""Questions of a subagent to the person.

Owns: that they name who asks, and come one at a time in the call that the person knows. Must not know: policy.
"""

import anyio
from msgspec.structs import replace

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.policy.approver import Answer, ApprovalRequest, Approver
from pattern_acp.session.subagents.activity import Activity
from pattern_acp.turn.events import ToolCallWaits
from pattern_acp.turn.sink import TurnSink


class NamedApprover:
    """`Approver` that asks in the name of a subagent.

    The client knows no call of a subagent but the one that it runs for, so each question is about that one; two at a
    time would hide each other.
    """

    def __init__(self, approver: Approver, name: str, call_id: ToolCallId, sink: TurnSink, activity: Activity) -> None:
        """`sink` is the session's."""
        self._approver = approver
        self._name = name
        self._call_id = call_id
        self._sink = sink
        self._activity = activity
        self._one_at_a_time = anyio.Lock()

    async def ask(self, request: ApprovalRequest) -> Answer:
        """See `Approver.ask`."""
        call = replace(request.call, call_id=self._call_id, title=f"{self._name}: {request.call.title}")
        async with self._one_at_a_time, self._activity.interrupted():
            await self._sink.show(ToolCallWaits(self._call_id))
            return await self._approver.ask(replace(request, call=call))
