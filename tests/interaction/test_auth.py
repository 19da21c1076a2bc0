"""authenticate, logout, and credentials that are missing."""

import pytest

from pattern_acp.acp.agent import AUTH_METHOD, TERMINAL_AUTH_METHOD
from pattern_acp.config.settings import DelegateSettings, MemorySettings, Settings
from pattern_acp.jsonrpc.messages import AUTH_REQUIRED, INVALID_PARAMS
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.requests import bare_agent, option, refused
from tests.support.scripts import says

NO_KEY = "The provider scripted needs a key; set SCRIPTED_API_KEY in the agent's environment."


async def test_authenticate_with_the_listed_method_is_instant_and_may_be_repeated():
    async with bare_agent() as editor:
        await editor.initialize()
        for _ in range(3):
            assert await editor.request("authenticate", {"methodId": AUTH_METHOD}) == {}


@pytest.mark.parametrize("method", ["oauth", "", "Environment", TERMINAL_AUTH_METHOD])
async def test_authenticate_with_a_method_that_is_not_offered_is_refused(method: str):
    async with bare_agent() as editor:
        await editor.initialize()
        assert (await refused(editor, "authenticate", {"methodId": method})).code == INVALID_PARAMS


async def test_the_terminal_method_is_refused_at_once_since_the_client_runs_it_itself():
    async with bare_agent() as editor:
        await editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {"auth": {"terminal": True}}})
        error = await refused(editor, "authenticate", {"methodId": TERMINAL_AUTH_METHOD})
        assert error.code == INVALID_PARAMS
        assert "terminal" in error.message


async def test_a_key_that_goes_out_unencrypted_is_warned_of_once():
    async with running_agent(ScriptedProvider([says("Hello."), says("Again.")])) as agent:
        agent.models.warnings["scripted"] = "The key can be read on the way."
        session = await agent.editor.open_session(str(agent.folder))
        for _ in range(2):
            await agent.editor.prompt(session, "Hi")
        assert agent.editor.said().count("> The key can be read on the way.") == 1


@pytest.mark.parametrize(
    "settings",
    [
        Settings(fallback=("spare/m",)),
        Settings(delegate=DelegateSettings(reviewer_model="spare/m")),
        Settings(memory=MemorySettings(embedder="spare/m")),
    ],
    ids=["fallback", "subagents", "embedder"],
)
async def test_a_key_of_another_model_in_use_that_goes_out_unencrypted_is_warned_of_too(settings: Settings):
    async with running_agent(ScriptedProvider([says("Hello.")]), settings=settings) as agent:
        agent.models.warnings["spare"] = "The spare key can be read on the way."
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        assert agent.editor.said().count("> The spare key can be read on the way.") == 1


async def test_after_logout_sessions_want_authentication_and_after_authenticate_they_work_again():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        editor, cwd = agent.editor, str(agent.folder)
        session = await editor.open_session(cwd)
        assert await editor.request("logout", {}) == {}
        assert await editor.request("logout", {}) == {}
        requests: list[tuple[str, JsonDict]] = [
            ("session/new", {"cwd": cwd, "mcpServers": []}),
            ("session/load", {"sessionId": session, "cwd": cwd, "mcpServers": []}),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}),
        ]
        for method, params in requests:
            assert (await refused(editor, method, params)).code == AUTH_REQUIRED
        await editor.request("authenticate", {"methodId": AUTH_METHOD})
        await editor.open_session(cwd)
        assert await editor.prompt(session, "Hi") == {"stopReason": "end_turn"}


@pytest.mark.first_version("the error belongs to the state and has other data")
async def test_a_configured_model_without_its_key_is_refused_with_the_variable_named():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        editor, cwd = agent.editor, str(agent.folder)
        session = await editor.open_session(cwd)
        await editor.prompt(session, "Hi")
        agent.models.without_key["scripted"] = NO_KEY

        requests: list[tuple[str, JsonDict]] = [
            ("session/new", {"cwd": cwd, "mcpServers": []}),
            ("session/load", {"sessionId": session, "cwd": cwd, "mcpServers": []}),
            ("session/resume", {"sessionId": session, "cwd": cwd, "mcpServers": []}),
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}),
        ]
        for method, params in requests:
            error = await refused(editor, method, params)
            assert (method, error.code, error.message) == (method, AUTH_REQUIRED, NO_KEY)
            shown = {"shown": True} if method == "session/prompt" else {}
            assert error.data == {"details": NO_KEY, "code": "provider.key-refused", **shown}
        assert editor.said() == f"Hello.{NO_KEY}"


async def test_a_session_goes_on_once_the_key_is_there():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        agent.models.without_key["scripted"] = NO_KEY
        params: JsonDict = {"sessionId": session, "prompt": [{"type": "text", "text": "Hi"}]}
        assert (await refused(agent.editor, "session/prompt", params)).code == AUTH_REQUIRED
        agent.models.without_key.clear()
        assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}
        assert agent.editor.said() == f"{NO_KEY}Hello."


async def test_a_session_whose_own_model_lost_its_key_goes_on_with_the_default_and_says_so():
    async with running_agent(ScriptedProvider([says("Hi.")]), others={"other": ScriptedProvider([])}) as agent:
        editor, cwd = agent.editor, str(agent.folder)
        session = await editor.open_session(cwd)
        await editor.request(
            "session/set_config_option", {"sessionId": session, "configId": "model", "value": "other/test"}
        )
        agent.models.without_key["other"] = "The provider other needs a key; set OTHER_API_KEY."
        loaded = await editor.request("session/load", {"sessionId": session, "cwd": cwd, "mcpServers": []})
        assert option(loaded["configOptions"], "model")["currentValue"] == "scripted/test"
        await editor.prompt(session, "Hi")
        assert "OTHER_API_KEY" in editor.said()
        assert editor.said().endswith("Hi.")
