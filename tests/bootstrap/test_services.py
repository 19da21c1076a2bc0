"""The task that owns the services: built once, tried again after a failure, closed before the process ends."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.acp import schema
from pattern_acp.bootstrap.services import LazyServices
from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.config.settings import Flags
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import ConnectionClosedError
from pattern_acp.jsonrpc.transport import loopback_pair
from tests.support.serving import Home, temporary_home


@asynccontextmanager
async def services_of(home: Home) -> AsyncGenerator[LazyServices, None]:
    services = LazyServices(home.process(Flags()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(services.run)
        yield services
        services.stop()


def begin(services: LazyServices) -> None:
    near, _ = loopback_pair()
    dispatcher = Dispatcher(near, requests={}, notifications={}, translate=lambda _error: None)
    services.begin(dispatcher, schema.ClientCapabilities(), None)


async def test_nothing_is_opened_before_it_is_wanted():
    async with temporary_home() as home, services_of(home) as services:
        assert services.methods_if_ready() is None
        await anyio.lowlevel.checkpoint()
        assert not home.constellation.exists()


async def test_everyone_who_waits_gets_the_same_methods():
    async with temporary_home() as home, services_of(home) as services:
        begin(services)
        found: list[object] = []

        async def ask() -> None:
            found.append(await services.methods())

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(ask)
        assert len(found) == 5
        assert set(map(id, found)) == {id(services.methods_if_ready())}


async def test_an_agent_that_an_agent_started_serves_no_sessions_and_forgets_no_keys():
    async with temporary_home() as home:
        process = home.process(Flags())
        services = LazyServices(replace(process, environ={**process.environ, INSIDE_VARIABLE: "1"}))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(services.run)
            begin(services)
            for refused in (services.methods, services.methods, services.forget_keys):
                with pytest.raises(PatternError, match="in a terminal of your own") as caught:
                    await refused()
                assert caught.value.failure_code == "cli.started-by-agent"
            services.stop()
        assert not home.constellation.exists()


async def test_a_failure_is_for_everyone_who_waits_and_the_next_request_tries_again():
    async with temporary_home() as home, services_of(home) as services:
        home.constellation.mkdir(parents=True)
        begin(services)
        with anyio.fail_after(30):
            for _ in range(2):
                with pytest.raises(DatabaseError):
                    await services.methods()
            home.constellation.rmdir()
            assert await services.methods() is services.methods_if_ready()


async def test_threads_take_turns_as_before_once_the_file_is_opened():
    usual = sys.getswitchinterval()
    async with temporary_home() as home, services_of(home) as services:
        begin(services)
        with anyio.fail_after(30):
            await services.methods()
        assert sys.getswitchinterval() == usual


async def test_whoever_waits_when_the_agent_ends_is_told():
    async with temporary_home() as home:
        services = LazyServices(home.process(Flags()))
        services.stop()
        await services.run()
        with pytest.raises(ConnectionClosedError):
            await services.methods()


async def test_beginning_again_only_takes_the_new_promises():
    async with temporary_home() as home, services_of(home) as services:
        begin(services)
        with anyio.fail_after(30):
            methods = await services.methods()
            begin(services)
            assert await services.methods() is methods


def test_errors_of_opening_are_ours():
    assert issubclass(DatabaseError, PatternError)
