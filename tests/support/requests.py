"""Short ways to ask a fake editor for something, and to read what came of it.

Owns: nothing but helpers of tests. They speak raw JSON, like `FakeEditor`.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import anyio
from anyio.abc import TaskGroup

from pattern_acp.acp.agent import Agent
from pattern_acp.acp.errors import to_rpc_error
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.jsonrpc.transport import loopback_pair
from tests.support.agent import LateServices
from tests.support.editor import FakeEditor, JsonDict


@dataclass(slots=True)
class PendingPrompt:
    """A prompt that was sent, and its end."""

    _ended: anyio.Event = field(default_factory=anyio.Event)
    _end: JsonDict | RemoteError | None = None

    async def run(self, editor: FakeEditor, session_id: str, text: str) -> None:
        """Send it and wait for the end."""
        try:
            self._end = await editor.prompt(session_id, text)
        except RemoteError as error:
            self._end = error
        self._ended.set()

    async def end(self, *, seconds: float = 30.0) -> JsonDict | RemoteError | None:
        """The response or the error, once it is there."""
        with anyio.fail_after(seconds):
            await self._ended.wait()
        return self._end


def begin_prompt(tasks: TaskGroup, editor: FakeEditor, session_id: str, text: str) -> PendingPrompt:
    """Send a prompt and go on."""
    pending = PendingPrompt()
    tasks.start_soon(pending.run, editor, session_id, text)
    return pending


@asynccontextmanager
async def bare_agent() -> AsyncGenerator[FakeEditor, None]:
    """An agent that nobody introduced himself to, and no sessions behind it: what is before `initialize`."""
    near, far = loopback_pair()
    editor = FakeEditor(far)
    agent = Agent(near, LateServices(), to_rpc_error)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.dispatcher.run)
        tasks.start_soon(editor.dispatcher.run)
        yield editor
        tasks.cancel_scope.cancel()


async def refused(editor: FakeEditor, method: str, params: JsonDict) -> RemoteError:
    """The error that a request is answered with.

    Raises:
        AssertionError: it was answered with a result.
    """
    try:
        result = await editor.request(method, params)
    except RemoteError as error:
        return error
    raise AssertionError(f"{method} was answered with {result}")


def updates_of(editor: FakeEditor, session_id: str) -> list[JsonDict]:
    """What one session was told so far, in order."""
    return [cast("JsonDict", update["update"]) for update in editor.updates if update["sessionId"] == session_id]


def kinds_of(updates: Sequence[JsonDict]) -> list[str]:
    """The variants, in order."""
    return [cast("str", update["sessionUpdate"]) for update in updates]


def option(options: Sequence[JsonDict], option_id: str) -> JsonDict:
    """One config option by its id."""
    return next(item for item in options if item["id"] == option_id)
