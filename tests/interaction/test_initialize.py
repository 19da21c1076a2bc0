"""initialize: any client gets an answer, and only MCP's dates are refused."""

import pytest

from pattern_acp.jsonrpc.messages import INVALID_PARAMS
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.requests import bare_agent, refused
from tests.support.scripts import says


@pytest.mark.parametrize("version", [1, 2, 99, "1", "2", 0])
async def test_any_version_is_answered_with_the_one_we_speak(version: object):
    async with bare_agent() as editor:
        answer = await editor.request("initialize", {"protocolVersion": version})
        assert answer["protocolVersion"] == 1


@pytest.mark.parametrize("version", ["2024-11-05", "v1", "", None, 1.5, True, [1], {}, -1])
async def test_a_version_that_is_no_number_is_refused_with_one_sentence(version: object):
    async with bare_agent() as editor:
        error = await refused(editor, "initialize", {"protocolVersion": version})
        assert error.code == INVALID_PARAMS
        assert "protocolVersion" in error.message


async def test_a_missing_version_is_refused():
    async with bare_agent() as editor:
        error = await refused(editor, "initialize", {})
        assert error.code == INVALID_PARAMS
        assert "protocolVersion" in error.message


async def test_a_bare_version_is_enough_and_a_turn_works_without_any_capability():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        await agent.editor.request("initialize", {"protocolVersion": 1})
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}


@pytest.mark.parametrize(
    "params",
    [
        {"clientCapabilities": {}, "type": "initialize", "unheardOf": {"a": [1]}},
        {"clientCapabilities": {"fs": {"readTextFile": True, "deleteFile": True}, "clientInfo": {"name": "x"}}},
        {"clientCapabilities": {"fs": "yes", "terminal": "maybe", "_meta": 3}},
        {"capabilities": {}},
        {"clientCapabilities": None, "clientInfo": None},
        {"clientInfo": {"name": "no version"}},
        {"clientInfo": 7},
        {"_meta": {"self": 1, "protocolVersion": "2024-11-05", "sessionId": "x"}},
    ],
)
async def test_what_clients_add_or_get_wrong_is_forgiven(params: JsonDict):
    async with bare_agent() as editor:
        answer = await editor.request("initialize", {"protocolVersion": 1, **params})
        assert answer["protocolVersion"] == 1


async def test_initialize_may_be_called_twice_and_the_newest_promises_count():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        first = await agent.editor.request("initialize", {"protocolVersion": 1})
        with_terminal = {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": True}}}
        second = await agent.editor.request("initialize", with_terminal)
        assert len(first["authMethods"]) == 1
        assert [method["id"] for method in second["authMethods"]] == ["environment", "login", "doctor"]
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}


async def test_a_client_that_never_initializes_is_served_as_one_that_can_do_nothing():
    async with running_agent(ScriptedProvider([says("Hello.")]), introduce=False) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
