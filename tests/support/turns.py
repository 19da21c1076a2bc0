"""Short ways to drive a turn of a `running_agent` and to look at what came of it.

Owns: nothing but helpers of tests.
"""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar, cast

import anyio

from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.messages import Role, ToolResultPart
from pattern_acp.journal.events import Event, SubagentRecorded
from pattern_acp.journal.reader import read_stream
from pattern_acp.providers.base import ProviderRequest
from tests.support.agent import RunningAgent
from tests.support.editor import FakeEditor, JsonDict

T = TypeVar("T")

CANCEL_SECONDS = 20.0
"""A cancel is answered within 2 s (architecture.md, invariant 3); the rest is what a loaded test machine may add.

Less than `running_agent` waits for an editor that does not answer, so that a turn which waits for it is found out."""


@dataclass(slots=True)
class PromptInFlight:
    """A prompt that was sent and may not be answered yet."""

    answered: anyio.Event = field(default_factory=anyio.Event)
    answer: JsonDict = field(default_factory=dict[str, object])

    async def stop_reason(self, *, seconds: float = 30.0) -> str:
        """Wait for the answer."""
        with anyio.fail_after(seconds):
            await self.answered.wait()
        return cast("str", self.answer["stopReason"])


@asynccontextmanager
async def prompting(editor: FakeEditor, session_id: str, text: str = "Go on.") -> AsyncGenerator[PromptInFlight, None]:
    """Send a prompt and go on while it runs; it is waited for when the context ends."""
    flight = PromptInFlight()

    async def run() -> None:
        flight.answer = await editor.prompt(session_id, text)
        flight.answered.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        yield flight


async def events_of(agent: RunningAgent, session_id: str) -> list[Event]:
    """The session's journal."""
    return [item.event for item in await agent.database.read(lambda tx: read_stream(tx, session_id))]


def thread_of_call(events: Iterable[Event], call_id: str) -> list[Event]:
    """What the subagent that ran for a call did, in order; empty when none did."""
    return [event.event for event in events if isinstance(event, SubagentRecorded) and event.call_id == call_id]


def of_type(events: Sequence[object], kind: type[T]) -> list[T]:
    """The events, or other things, of one type, in order."""
    return [event for event in events if isinstance(event, kind)]


def statuses(editor: FakeEditor) -> dict[str, list[str]]:
    """All statuses that each call was shown with, in order."""
    seen: dict[str, list[str]] = {}
    for update in (wrapper["update"] for wrapper in editor.updates):
        if update["sessionUpdate"] in {"tool_call", "tool_call_update"} and "status" in update:
            seen.setdefault(update["toolCallId"], []).append(update["status"])
    return seen


def results_of(request: ProviderRequest) -> list[ToolResultPart]:
    """All results that the model was given, in order."""
    return [part for message in request.messages for part in message.parts if isinstance(part, ToolResultPart)]


def last_result(request: ProviderRequest) -> ToolResultPart:
    """The newest result that the model was given."""
    return results_of(request)[-1]


def unpaired_calls(request: ProviderRequest) -> list[ToolCallId]:
    """Calls that do not have exactly one result directly behind the message that asked for them (invariant 4)."""
    wrong: list[ToolCallId] = []
    messages = request.messages
    for position, message in enumerate(messages):
        if message.role is Role.TOOL or not message.tool_calls:
            continue
        follower = messages[position + 1] if position + 1 < len(messages) else None
        answered = [part.call_id for part in follower.parts if isinstance(part, ToolResultPart)] if follower else []
        wrong += [call.call_id for call in message.tool_calls if answered.count(call.call_id) != 1]
    return wrong


def answers_to(editor: FakeEditor, method: str) -> list[JsonDict]:
    """The agent's answers to all requests of one method, in order."""
    ids: list[object] = []
    answers: list[JsonDict] = []
    for by_agent, line in editor.recording.both:
        message = cast("JsonDict", json.loads(line))
        if not by_agent and message.get("method") == method:
            ids.append(message.get("id"))
        elif by_agent and "method" not in message and message.get("id") in ids:
            answers.append(message)
    return answers
