"""What stands between the wire and the sessions."""

import anyio

from pattern_acp.acp import schema
from pattern_acp.acp.session_methods import COMMANDS_DELAY, opening_of, servers_of
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.requests import kinds_of, refused, updates_of
from tests.support.scripts import says


def test_an_opening_takes_folder_directories_and_servers():
    request = schema.LoadSessionRequest(
        session_id="s",
        cwd="/work",
        additional_directories=("/more",),
        mcp_servers=(
            schema.McpServer(name="files", command="x", args=("-y",), env=(schema.EnvVariable(name="A", value="b"),)),
            schema.McpServer(
                name="web", type="http", url="http://x", headers=(schema.HttpHeader(name="K", value="v"),)
            ),
        ),
    )
    opening = opening_of(request)
    assert (opening.cwd, opening.additional_directories) == ("/work", ("/more",))
    assert [(server.name, server.command, server.url) for server in opening.servers] == [
        ("files", "x", ""),
        ("web", "", "http://x"),
    ]
    assert servers_of(()) == ()


def test_the_commands_wait_long_enough_for_clients_that_register_late_and_not_longer():
    assert 0.05 <= COMMANDS_DELAY <= 0.1


async def test_a_session_that_is_closed_before_its_commands_are_told_is_told_nothing():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        first = await agent.editor.open_session(str(agent.folder))
        await agent.editor.request("session/close", {"sessionId": first})
        second = await agent.editor.open_session(str(agent.folder))
        await agent.editor.wait_until(lambda: bool(updates_of(agent.editor, second)))
        assert updates_of(agent.editor, first) == []


async def test_a_session_that_is_closed_and_resumed_tells_its_commands_at_the_first_prompt_again():
    async with running_agent(ScriptedProvider([says("one"), says("two")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.request("session/close", {"sessionId": session})
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/resume", params)
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "Hi again")
        assert kinds_of(updates_of(agent.editor, session))[0] == "available_commands_update"


async def test_a_refused_prompt_leaves_the_session_free():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await refused(agent.editor, "session/prompt", {"sessionId": session, "prompt": []})
        assert not agent.sessions.get(session).is_busy
        with anyio.fail_after(30):
            assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
