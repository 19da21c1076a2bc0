"""Questions to the user that are recorded as a call: asked, answered, and ended, also when the turn is cancelled.

Owns: the events around a question, and what the call ends with where nothing else is said. Must not know: what is
asked. A question about a tool call is `turn.permissions`'.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio

from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.tool_calls import TextContent, ToolCallStatus, ToolCallView
from pattern_acp.journal.events import PermissionAnswered, PermissionAsked, ToolCallFinished, ToolCallStarted
from pattern_acp.policy.approver import ApprovalOption, ApprovalRequest, Approver, PermissionAnswer
from pattern_acp.turn.recorder import NewEvent, TurnRecorder
from pattern_acp.turn.tool_runner import CLEANUP_SECONDS


class RecordedQuestion:
    """A question that is open until its context ends.

    `told` is what the call ends with, without it the label of the answer; `done` whether it ends well, without it
    whether the answer allows. `events` are recorded with the answer.
    """

    def __init__(self, approver: Approver, request: ApprovalRequest) -> None:
        self._approver = approver
        self._request = request
        self.answer = PermissionAnswer.CANCELLED
        self.told = ""
        self.failure = ""
        self.done: bool | None = None
        self.events: list[NewEvent] = []

    async def put(self) -> PermissionAnswer:
        """Ask the user and return the answer."""
        self.answer = await self._approver.ask(self._request)
        return self.answer

    def ending(self, turn_id: TurnId) -> tuple[NewEvent, ...]:
        """The events that end it."""
        call, options = self._request.call, self._request.options
        done = self.answer.allows if self.done is None else self.done
        status = ToolCallStatus.COMPLETED if done else ToolCallStatus.FAILED
        told = self.told or next((each.name for each in options if each.answer is self.answer), "Nobody answered.")
        content = (*call.content, TextContent(told)) if self.told else ()
        finished = ToolCallFinished(turn_id, call.call_id, status, told, content, failure=self.failure)
        answered = PermissionAnswered(turn_id, call.call_id, self.answer.value)
        return (
            NewEvent(answered, Actor.HUMAN, Origin.PERSON),
            *self.events,
            NewEvent(finished, Actor.SYSTEM),
        )


@asynccontextmanager
async def recorded_question(
    approver: Approver,
    recorder: TurnRecorder,
    turn_id: TurnId,
    call: ToolCallView,
    reason: str,
    options: Sequence[ApprovalOption],
) -> AsyncGenerator[RecordedQuestion, None]:
    """Show a question, which the block puts, and record how it ended.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    question = RecordedQuestion(approver, ApprovalRequest(call, reason, tuple(options)))
    asked = PermissionAsked(turn_id, call.call_id, reason, tuple(option.answer.value for option in options))
    await recorder.record(NewEvent(ToolCallStarted(turn_id, call), Actor.SYSTEM), NewEvent(asked, Actor.SYSTEM))
    try:
        yield question
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CLEANUP_SECONDS):
            await recorder.record(*question.ending(turn_id))


async def ask_recorded(
    approver: Approver,
    recorder: TurnRecorder,
    turn_id: TurnId,
    call: ToolCallView,
    reason: str,
    options: Sequence[ApprovalOption],
) -> PermissionAnswer:
    """Put a question that the label of its answer ends.

    Raises:
        DatabaseError: it could not be recorded; the turn stops.
    """
    async with recorded_question(approver, recorder, turn_id, call, reason, options) as question:
        return await question.put()
