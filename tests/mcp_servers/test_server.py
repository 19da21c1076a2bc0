import sys

import anyio
import pytest

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.mcp_servers.catalogue import CannotStartError, Catalogue, RemoteTool, ServerError
from pattern_acp.mcp_servers.host import distinct, problem_of
from pattern_acp.mcp_servers.server import Server, ServerState
from tests.support.mcp_fakes import FakeConnection, FakeServers, hosted, silent

ECHO = RemoteTool("echo", "Echoes.", {"type": "object"})
SOUND = McpServerSettings("one", command=sys.executable)


async def state_becomes(server: Server, state: ServerState) -> None:
    with anyio.fail_after(30):
        while server.state is not state:
            await anyio.lowlevel.checkpoint()


async def test_a_server_is_ready_with_what_it_offers():
    fake = FakeServers(FakeConnection(Catalogue((ECHO,))))
    async with hosted(SOUND, load=fake.load) as session:
        await session.wait_settled(30)
        (server,) = session.ready
        assert server.catalogue.tool("echo") == ECHO
        assert (await server.call("echo", {"text": "hi"}, silent)).text == "echo {'text': 'hi'}"


async def test_a_server_that_ends_is_started_once_more_and_no_more():
    first, second = FakeConnection(Catalogue()), FakeConnection(Catalogue((ECHO,)))
    fake = FakeServers(first, second)
    async with hosted(SOUND, load=fake.load) as session:
        (server,) = session.servers
        await session.wait_settled(30)
        first.ended.set()
        await state_becomes(server, ServerState.STARTING)
        assert (await server.call("echo", {}, silent)).text == "echo {}", "a call waits for the second start"
        assert server.state is ServerState.READY
        assert server.catalogue.tools == (ECHO,)
        second.ended.set()
        await state_becomes(server, ServerState.FAILED)
        with pytest.raises(ServerError, match="cannot be used now: it ended"):
            await server.call("echo", {}, silent)
        assert fake.started == ["one", "one"]
        assert server.problem == "it ended"


async def test_a_server_that_cannot_be_started_is_not_tried_again():
    fake = FakeServers(CannotStartError("there is no program 'x'"))
    async with hosted(SOUND, load=fake.load) as session:
        await session.wait_settled(30)
        (server,) = session.servers
        assert (server.state, server.problem) == (ServerState.FAILED, "there is no program 'x'")
        assert fake.started == ["one"]


async def test_a_server_that_tells_of_a_change_is_listed_again():
    connection = FakeConnection(Catalogue())
    async with hosted(SOUND, load=FakeServers(connection).load) as session:
        await session.wait_settled(30)
        connection.offers = Catalogue((ECHO,))
        connection.on_change()
        with anyio.fail_after(30):
            while not session.servers[0].catalogue.tools:
                await anyio.lowlevel.checkpoint()


async def test_after_the_session_is_closed_its_servers_say_so():
    async with hosted(SOUND, load=FakeServers(FakeConnection(Catalogue())).load) as session:
        await session.wait_settled(30)
        session.close()
        await session.wait_closed()
        assert session.servers[0].state is ServerState.FAILED
        with pytest.raises(ServerError, match="session was closed"):
            await session.servers[0].read("x:y")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (McpServerSettings("a"), "no command"),
        (McpServerSettings("a", "telepathy"), "not known"),
        (McpServerSettings("a", "http", url="not a url"), "no http:// or https:// URL"),
        (McpServerSettings("a", "sse", url="http://[::1"), "no http:// or https:// URL"),
        (McpServerSettings("a", "http", url="file:///etc/passwd"), "no http:// or https:// URL"),
    ],
)
async def test_what_cannot_work_is_never_tried(settings: McpServerSettings, words: str):
    assert words in problem_of(settings)
    fake = FakeServers()
    async with hosted(settings, load=fake.load) as session:
        await session.wait_settled(30)
        assert session.servers[0].state is ServerState.FAILED
    assert fake.started == []


def test_a_name_counts_once_and_the_clients_server_beats_the_files():
    mine, theirs = McpServerSettings("a", command="mine"), McpServerSettings("a", command="theirs")
    other = McpServerSettings("b", command="x")
    assert distinct((theirs, mine), {"a": mine, "b": other}) == (theirs, other)


def test_values_that_may_be_keys_are_kept_out_of_the_repr():
    settings = McpServerSettings("a", env={"TOKEN": "hush-hush"}, headers={"Authorization": "hush-hush"})
    assert "hush-hush" not in repr(settings)
