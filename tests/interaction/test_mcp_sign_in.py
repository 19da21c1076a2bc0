"""A server that wants a login is offered as a question; the browser does the rest, and nothing of it is recorded."""

import json
from collections.abc import Iterator

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.config.settings import McpServerSettings
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.reader import read_stream
from pattern_acp.mcp_servers.server import ServerState
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.mcp_logins import FakeLogins
from tests.support.mcp_oauth_server import OAuthServer, oauth_server
from tests.support.scripts import calls, says
from tests.support.turns import prompting


@pytest.fixture
def far() -> Iterator[OAuthServer]:
    with oauth_server() as server:
        yield server


async def opened(agent: RunningAgent, far: OAuthServer) -> str:
    server: JsonDict = {"type": "http", "name": "far", "url": f"{far.url}/mcp", "headers": []}
    answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": [server]})
    await agent.sessions.get(answer["sessionId"]).mcp.servers.wait_settled(30)
    return answer["sessionId"]


async def test_the_user_signs_in_and_the_first_prompt_has_the_tools(far: OAuthServer):
    model = ScriptedProvider([calls("far__echo", text="hi"), says("Done."), says("Again.")])
    logins = FakeLogins()
    async with running_agent(model, logins=logins) as agent:
        session = await opened(agent, far)
        await agent.editor.prompt(session, "Try it.")
        asked = agent.editor.asked[0]["toolCall"]
        assert asked["title"] == "Sign in at the MCP server far?"
        assert f"{far.url}/mcp" in json.dumps(asked["content"])
        assert far.mcp.calls == 1
        assert "missing" not in agent.editor.said()
        shown = json.dumps(agent.editor.updates)
        assert logins.opened[0] in shown
        assert "Signed in at far." in shown
        events = await agent.database.read(lambda tx: read_stream(tx, SessionId(session)))
        recorded = "".join(str(item.event) for item in events)
        (login,) = logins.stored.values()
        for secret in (logins.opened[0], login.access_token, login.refresh_token):
            assert secret not in recorded
        await agent.editor.prompt(session, "Once more.")
        assert [each["toolCall"]["title"] for each in agent.editor.asked].count(asked["title"]) == 1


async def test_a_no_goes_on_without_the_server_and_is_not_asked_again(far: OAuthServer):
    model = ScriptedProvider([says("One."), says("Two.")])
    logins = FakeLogins()
    async with running_agent(model, logins=logins, permission=choose("reject_once")) as agent:
        session = await opened(agent, far)
        await agent.editor.prompt(session, "Hi.")
        await agent.editor.prompt(session, "Hi again.")
        assert len(agent.editor.asked) == 1
        assert logins.opened == []
        assert "MCP servers that are missing: far (it wants a login (HTTP status 401)" in agent.editor.said()
        assert "pattern-acp mcp login far" in json.dumps(agent.editor.updates)


async def test_a_no_in_the_browser_says_so_and_the_turn_goes_on(far: OAuthServer):
    far.allows = False
    async with running_agent(ScriptedProvider([says("One.")]), logins=FakeLogins()) as agent:
        session = await opened(agent, far)
        await agent.editor.prompt(session, "Hi.")
        shown = json.dumps(agent.editor.updates)
        assert "it was refused in the browser" in shown
        assert "auth.denied" in shown
        assert "One." in agent.editor.said()


async def test_a_cancel_ends_the_wait_for_the_browser(far: OAuthServer):
    logins = FakeLogins(browses=False)
    async with running_agent(ScriptedProvider([]), logins=logins) as agent:
        session = await opened(agent, far)
        async with prompting(agent.editor, session, "Hi.") as flight:
            with anyio.fail_after(60):
                while not logins.opened:
                    await anyio.lowlevel.checkpoint()
            await agent.editor.cancel(session)
            assert await flight.stop_reason() == "cancelled"
        assert logins.stored == {}


async def test_where_nobody_would_see_a_browser_nothing_is_asked_and_the_command_is_named(far: OAuthServer):
    logins = FakeLogins(shows_browser=False)
    async with running_agent(ScriptedProvider([says("One.")]), logins=logins) as agent:
        session = await opened(agent, far)
        await agent.editor.prompt(session, "Hi.")
        assert agent.editor.asked == []
        assert "run `pattern-acp mcp login`" in agent.editor.said()


async def test_a_login_that_ends_in_mid_session_is_asked_for_at_the_next_prompt(far: OAuthServer):
    model = ScriptedProvider(
        [calls("far__echo", text="a"), says("One."), calls("far__echo", text="b"), says("Two."), says("Three.")]
    )
    logins = FakeLogins()
    async with running_agent(model, logins=logins, permission=choose("allow_once")) as agent:
        session = await opened(agent, far)
        await agent.editor.prompt(session, "One.")
        far.access.clear()
        far.refresh.clear()
        await agent.editor.prompt(session, "Two.")
        assert far.mcp.calls == 1
        await agent.editor.prompt(session, "Three.")
        assert len(logins.opened) == 2
        (server,) = agent.sessions.get(session).mcp.servers.servers
        assert (server.state, server.offers_login) == (ServerState.READY, False)
        assert isinstance(server.settings, McpServerSettings)
