"""The table of methods, and what is answered while the services are being built or cannot be."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import anyio
import pytest

from pattern_acp.acp import schema
from pattern_acp.acp.agent import Agent
from pattern_acp.acp.errors import to_rpc_error
from pattern_acp.acp.session_methods import SessionMethods
from pattern_acp.domain.errors import PatternError
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import INTERNAL_ERROR, METHOD_NOT_FOUND
from pattern_acp.jsonrpc.transport import loopback_pair
from tests.support.editor import FakeEditor, JsonDict
from tests.support.requests import refused


class StubbornServices:
    """`Services` that are never built, and say why when they are told to."""

    def __init__(self) -> None:
        self.began = 0
        self.failure: PatternError | None = None

    def begin(
        self, dispatcher: Dispatcher, client: schema.ClientCapabilities, info: schema.Implementation | None
    ) -> None:
        """See `Services.begin`."""
        del dispatcher, client, info
        self.began += 1

    async def methods(self, request: object = None) -> SessionMethods:
        """See `Services.methods`."""
        if self.failure is not None:
            raise self.failure
        await anyio.sleep_forever()
        raise AssertionError("nothing ends a sleep for ever")

    def methods_if_ready(self, request: object = None) -> SessionMethods | None:
        """See `Services.methods_if_ready`."""

    def all_ready(self) -> Sequence[SessionMethods]:
        """See `Services.all_ready`."""
        return ()

    async def forget_keys(self) -> None:
        """See `Services.forget_keys`."""

    async def has_kept_keys(self) -> bool:
        """See `Services.has_kept_keys`."""
        return False


@asynccontextmanager
async def connected(services: StubbornServices, *, is_introduced: bool = False) -> AsyncGenerator[FakeEditor, None]:
    near, far = loopback_pair()
    editor = FakeEditor(far)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Agent(near, services, to_rpc_error, is_introduced=is_introduced).dispatcher.run)
        tasks.start_soon(editor.dispatcher.run)
        yield editor
        tasks.cancel_scope.cancel()


async def test_initialize_and_auth_are_answered_while_sessions_are_not_there_yet():
    services = StubbornServices()
    async with connected(services) as editor, anyio.create_task_group() as tasks:
        await editor.initialize()
        tasks.start_soon(editor.open_session, "/")
        assert await editor.request("authenticate", {"methodId": "environment"}) == {}
        assert (await editor.initialize())["protocolVersion"] == 1
        tasks.cancel_scope.cancel()


async def test_the_services_begin_after_initialize_was_answered():
    services = StubbornServices()
    async with connected(services) as editor:
        assert services.began == 0
        await editor.initialize()
        with anyio.fail_after(30):
            while services.began == 0:
                await anyio.lowlevel.checkpoint()
        assert services.began == 1


async def test_an_initialize_that_was_answered_already_begins_the_services_and_gets_no_second_answer():
    services = StubbornServices()
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    async with connected(services, is_introduced=True) as editor:
        await editor.recording.send(json.dumps(initialize).encode() + b"\n")
        with anyio.fail_after(30):
            while services.began == 0:
                await anyio.lowlevel.checkpoint()
        assert editor.recording.lines == []
        assert (await editor.initialize())["protocolVersion"] == 1


async def test_a_failure_to_open_is_one_sentence_for_every_request_that_needs_sessions():
    services = StubbornServices()
    services.failure = PatternError("The constellation is locked.")
    async with connected(services) as editor:
        await editor.initialize()
        requests: list[tuple[str, JsonDict]] = [("session/new", {"cwd": "/", "mcpServers": []}), ("session/list", {})]
        for method, params in requests:
            error = await refused(editor, method, params)
            assert (error.code, error.message) == (INTERNAL_ERROR, "The constellation is locked.")


async def test_a_cancel_while_nothing_is_there_is_quiet():
    async with connected(StubbornServices()) as editor:
        await editor.cancel("ses_unknown")
        await editor.initialize()


@pytest.mark.parametrize("method", sorted(schema.AGENT_METHODS))
async def test_every_method_of_the_table_is_known(method: str):
    services = StubbornServices()
    services.failure = PatternError("Not now.")
    async with connected(services) as editor:
        params = {"sessionId": "x", "cwd": "/", "modeId": "m", "configId": "c", "value": "v", "methodId": "m"}
        full: JsonDict = {**params, "prompt": [{"type": "text", "text": "Hi"}], "protocolVersion": 1, "mcpServers": []}
        await editor.recording.send(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": full}).encode() + b"\n"
        )
        with anyio.fail_after(30):
            while not editor.recording.lines:
                await anyio.lowlevel.checkpoint()
        assert str(METHOD_NOT_FOUND).encode() not in editor.recording.lines[0]
