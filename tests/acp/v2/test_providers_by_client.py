"""Ways to providers, and the state of keys, for a client of ACP v2."""

from typing import cast

import pytest

from pattern_acp.config.settings import ProviderSettings, Secret, Settings
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.base import Route
from pattern_acp.providers.http_errors import UnusableModelError
from pattern_acp.providers.registry import Providers
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.second_editor import SECOND

GATEWAY = "http://127.0.0.1:9/v1"
"""Nobody listens there."""


async def listed(agent: RunningAgent) -> list[JsonDict]:
    return cast("list[JsonDict]", (await agent.editor.request("providers/list", {}))["providers"])


async def code_of(agent: RunningAgent, method: str, **params: object) -> int:
    with pytest.raises(RemoteError) as raised:
        await agent.editor.request(method, dict(params))
    return raised.value.code


async def test_a_client_lists_sets_and_disables_providers_and_sees_no_secret():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        offered = cast("JsonDict", (await agent.editor.initialize(SECOND))["capabilities"])
        assert "providers" in offered
        agent.models.known_routes["anthropic"] = Route("anthropic", "anthropic", "", "")
        assert await listed(agent) == [{"providerId": "anthropic", "supported": ["anthropic"], "required": False}]
        headers = {"Authorization": "Bearer secret"}
        about: JsonDict = {"providerId": "anthropic", "apiType": "anthropic", "baseUrl": GATEWAY, "headers": headers}
        assert await agent.editor.request("providers/set", about) == {}
        (one,) = await listed(agent)
        assert one["current"] == {"apiType": "anthropic", "baseUrl": GATEWAY}
        assert agent.models.headers["anthropic"] == headers
        assert await agent.editor.request("providers/disable", {"providerId": "anthropic"}) == {}
        assert "current" not in (await listed(agent))[0]


async def test_a_provider_an_api_or_an_address_that_is_none_is_refused():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        await agent.editor.initialize(SECOND)
        agent.models.known_routes["anthropic"] = Route("anthropic", "anthropic", "", "")
        about: JsonDict = {"providerId": "anthropic", "apiType": "anthropic", "baseUrl": GATEWAY}
        for odd in ({"providerId": "none"}, {"apiType": "openai"}, {"baseUrl": "file:///etc"}, {"baseUrl": "http://"}):
            assert await code_of(agent, "providers/set", **{**about, **odd}) == -32602
        assert await code_of(agent, "providers/disable", providerId="none") == -32602


async def test_the_state_of_keys_is_told_also_to_a_client_that_is_signed_out():
    async with running_agent(ScriptedProvider([]), introduce=False) as agent:
        offered = cast("JsonDict", (await agent.editor.initialize(SECOND))["capabilities"])
        assert offered["auth"] == {"status": {}}
        assert await agent.editor.request("auth/status", {}) == {"state": "not_required"}
        agent.models.without_key["scripted"] = "There is no key."
        assert await agent.editor.request("auth/status", {}) == {"state": "unauthenticated"}
        agent.models.keys["scripted"] = "SCRIPTED_API_KEY (…abcd)"
        account = {"label": "scripted: SCRIPTED_API_KEY (…abcd)", "active": True}
        assert await agent.editor.request("auth/status", {}) == {"state": "authenticated", "accounts": [account]}
        await agent.editor.request("auth/logout", {})
        assert await agent.editor.request("auth/status", {}) == {"state": "unauthenticated"}


async def test_no_key_of_the_user_goes_where_the_client_sends_requests():
    key = Secret("user-key", "ANTHROPIC_API_KEY")
    own = ProviderSettings("anthropic", "anthropic", api_key=key, configured=True)
    providers = Providers(Settings(providers={"anthropic": own}))
    try:
        assert providers.key_in_use("anthropic/x")
        route = next(one for one in providers.routes() if one.name == "anthropic")
        assert route.base_url == "https://api.anthropic.com/v1"
        await providers.set_route("anthropic", GATEWAY, {"X-Key": "theirs"})
        route = next(one for one in providers.routes() if one.name == "anthropic")
        assert route.base_url == GATEWAY
        assert providers.key_in_use("anthropic/x") == providers.missing_key("anthropic/x") == ""
        providers.disable("anthropic")
        assert next(one for one in providers.routes() if one.name == "anthropic").base_url == ""
        with pytest.raises(UnusableModelError):
            providers.resolve("anthropic/x")
        assert providers.default().provider == "offline"
        await providers.set_route("anthropic", GATEWAY, {})
        assert providers.resolve("anthropic/x")[1].qualified == "anthropic/x"
    finally:
        await providers.aclose()
