"""A `FakeEditor` with nothing but a dispatcher on the agent's side, for tests of the adapters between them.

Owns: the connection. Must not know: sessions.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import anyio

from pattern_acp.jsonrpc.dispatcher import Dispatcher, RequestHandler
from pattern_acp.jsonrpc.transport import loopback_pair
from tests.support.editor import FakeEditor, leave_unexplained


@asynccontextmanager
async def connected_editor(
    also: Mapping[str, RequestHandler] | None = None,
) -> AsyncGenerator[tuple[FakeEditor, Dispatcher], None]:
    """The editor, with further handlers, and the dispatcher that its peer asks it with."""
    near, far = loopback_pair()
    editor = FakeEditor(far, also=also)
    dispatcher = Dispatcher(near, requests={}, notifications={}, translate=leave_unexplained)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(dispatcher.run)
        tasks.start_soon(editor.dispatcher.run)
        yield editor, dispatcher
        tasks.cancel_scope.cancel()
