"""The choice of a connection's version, at its first initialize."""

import json
from typing import cast

import pytest

from pattern_acp.acp.initialize_response import answer_plainly
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.requests import refused
from tests.support.scripts import says
from tests.support.second_editor import SECOND, send, until_idle

IN_TERMINAL: JsonDict = {"auth": {"terminal": {}}}
FIRST: JsonDict = {"protocolVersion": 1, "clientCapabilities": {}}


def line_of(params: JsonDict) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).encode()


@pytest.mark.parametrize("version", [2, 3, 65535])
async def test_a_client_that_asks_in_the_form_of_version_2_gets_it_also_for_newer_numbers(version: int):
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        answer = await agent.editor.initialize(SECOND | {"protocolVersion": version})
        assert answer["protocolVersion"] == 2
        assert answer["info"]["name"] == "pattern-acp"
        assert {"prompt", "mcp", "delete", "additionalDirectories"} <= set(answer["capabilities"]["session"])
        assert [method["methodId"] for method in answer["authMethods"]] == ["environment"]


@pytest.mark.parametrize(
    "introduction",
    [
        FIRST,
        FIRST | {"protocolVersion": 2},
        SECOND | {"protocolVersion": 1},
        FIRST | {"protocolVersion": 7, "info": {"name": "x"}},
    ],
)
async def test_any_other_form_or_number_is_version_1(introduction: JsonDict):
    async with running_agent(ScriptedProvider([says("Hi.")]), introduce=False) as agent:
        assert (await agent.editor.initialize(introduction))["protocolVersion"] == 1
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Hi"))["stopReason"] == "end_turn"


async def test_version_0_in_the_form_of_version_2_is_unsupported_and_the_client_may_ask_again():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        error = await refused(agent.editor, "initialize", SECOND | {"protocolVersion": 0})
        assert error.code == -32022
        assert {"requested": 0, "supported": [1, 2]}.items() <= cast("JsonDict", error.data).items()
        assert (await agent.editor.initialize(SECOND))["protocolVersion"] == 2


async def test_a_connection_keeps_the_version_of_its_first_initialize():
    async with running_agent(ScriptedProvider([says("Hi.")]), introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        assert (await agent.editor.initialize(FIRST))["protocolVersion"] == 2
        session = await agent.editor.open_session(str(agent.folder))
        await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        await agent.editor.initialize(FIRST)
        assert (await agent.editor.initialize(SECOND))["protocolVersion"] == 1


async def test_sign_in_and_out_are_served_as_the_answer_to_initialize_promises():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        answer = await agent.editor.initialize(SECOND | {"capabilities": IN_TERMINAL})
        kinds = {method["methodId"]: method["type"] for method in answer["authMethods"]}
        assert kinds == {"environment": "agent", "login": "terminal", "doctor": "terminal"}
        assert await agent.editor.request("auth/logout", {}) == {}
        assert (await refused(agent.editor, "session/list", {})).code == -32000
        assert await agent.editor.request("auth/login", {"methodId": "environment"}) == {}
        assert "sessions" in await agent.editor.request("session/list", {})
        assert (await refused(agent.editor, "auth/login", {"methodId": "login"})).code == -32602


@pytest.mark.parametrize("introduction", [SECOND, SECOND | {"capabilities": IN_TERMINAL}])
async def test_the_answer_before_everything_is_loaded_is_the_same(introduction: JsonDict):
    plain = answer_plainly(line_of(introduction))
    assert plain is not None
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        assert json.loads(plain)["result"] == await agent.editor.initialize(introduction)


def test_version_0_is_left_to_the_ordinary_way():
    assert answer_plainly(line_of(SECOND | {"protocolVersion": 0})) is None
