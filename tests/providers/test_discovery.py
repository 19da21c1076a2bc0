import json
from collections.abc import Mapping

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.providers.catalogue import ListedModel
from pattern_acp.providers.choose import LOCAL_SERVERS
from pattern_acp.providers.discovery import (
    fetch_models,
    find_local_servers,
    ollama_tags_url,
    parse_gemini_models,
    parse_models,
)
from pattern_acp.providers.http_errors import ProviderError, ProviderProtocolError
from tests.support.model_server import real_http, serve_models
from tests.support.web_server import Answer, web_server


def listing(*models: Mapping[str, object]) -> bytes:
    return json.dumps({"data": models}).encode()


def test_anthropics_list_tells_windows_images_and_thinking():
    capabilities = {
        "image_input": {"supported": True},
        "thinking": {"supported": True, "types": {"adaptive": {"supported": True}, "disabled": {"supported": False}}},
    }
    model = {"id": "a", "max_input_tokens": 9, "max_tokens": 5, "capabilities": capabilities, "lifecycle": "active"}
    retired = {"id": "b", "lifecycle": "retired"}
    (listed,) = parse_models(listing(model, retired), "x").models
    assert listed == ListedModel("a", 9, 5, sees_images=True, thinking="always")


@pytest.mark.parametrize(
    ("types", "thinking"),
    [
        ({"adaptive": {"supported": True}, "disabled": {"supported": True}}, "adaptive"),
        ({"enabled": {"supported": True}}, "budget"),
        ({}, "none"),
    ],
)
def test_the_kind_of_thinking_is_read(types: dict[str, object], thinking: str):
    model = {"id": "a", "capabilities": {"thinking": {"supported": True, "types": types}}}
    assert parse_models(listing(model), "x").models[0].thinking == thinking


@pytest.mark.parametrize(
    "model",
    [
        {"id": "a", "max_model_len": 7},
        {"id": "a", "context_length": 7},
        {"id": "a", "meta": {"n_ctx_train": 7}},
        {"id": "a", "meta": {"n_ctx": 7, "n_ctx_train": 9}},
    ],
)
def test_every_servers_name_for_the_window_is_known(model: dict[str, object]):
    assert parse_models(listing(model), "x").models == (ListedModel("a", 7),)


def test_llama_servers_list_of_capabilities_does_no_harm():
    listed = parse_models(listing({"id": "a", "capabilities": ["completion"], "meta": None}), "x")
    assert listed.models == (ListedModel("a"),)


@pytest.mark.parametrize(
    ("props", "listed"),
    [
        (Answer(b'{"chat_template_caps":{"supports_tools":false}}'), ListedModel("a", calls_tools=False)),
        (Answer(b'{"chat_template_caps":{"supports_tools":true}}'), ListedModel("a", calls_tools=True)),
        (Answer(b'{"chat_template":"x"}'), ListedModel("a")),
        (Answer(b'{"error":{"code":400,"message":"model name is missing"}}', status=400), ListedModel("a")),
        (Answer(b"<html>"), ListedModel("a")),
    ],
)
async def test_llama_server_tells_beside_its_list_whether_tools_reach_the_model(props: Answer, listed: ListedModel):
    """It leaves tools out of the prompt of a model without a place for them, and says so nowhere else."""
    models = Answer(listing({"id": "a", "owned_by": "llamacpp"}))
    with anyio.fail_after(30):
        async with real_http() as http, web_server({"/v1/models": models, "/props": props}) as server:
            settings = replace(LOCAL_SERVERS[2], base_url=server.url("/v1"))
            assert await fetch_models(http, settings) == (listed,)
            (found,) = await find_local_servers(http, [settings], seconds=30)
            assert found.models == (listed,)


async def test_a_llama_server_that_is_slow_to_tell_more_is_found_all_the_same():
    answers = {"/v1/models": Answer(listing({"id": "a", "owned_by": "llamacpp"})), "/props": Answer(hangs=True)}
    with anyio.fail_after(30):
        async with real_http() as http, web_server(answers) as server:
            candidate = replace(LOCAL_SERVERS[2], base_url=server.url("/v1"))
            found = ()
            while not found:
                # Less than it is asked for more; a busy machine may need that for the list alone.
                found = await find_local_servers(http, [candidate], seconds=0.5)
    assert [each.models for each in found] == [(ListedModel("a"),)]


async def test_other_servers_are_asked_for_nothing_beside_their_list():
    answers = {"/v1/models": Answer(listing({"id": "a", "owned_by": "vllm"}))}
    with anyio.fail_after(30):
        async with real_http() as http, web_server(answers) as server:
            assert await fetch_models(http, replace(LOCAL_SERVERS[2], base_url=server.url("/v1")))
            assert len(server.asked) == 1


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"models":[]}', b'{"data":[{"name":"a"}]}', b"\xff"])
def test_what_is_no_list_is_a_protocol_error(body: bytes):
    with pytest.raises(ProviderProtocolError):
        parse_models(body, "x")


async def test_a_list_is_fetched():
    with anyio.fail_after(30):
        async with real_http() as http, serve_models([], models=("a", "b")) as server:
            found = await fetch_models(http, ProviderSettings("x", "openai", f"{server.url}/v1"))
    assert [model.name for model in found] == ["a", "b"]


async def test_a_list_that_is_not_there_is_an_error():
    with anyio.fail_after(30):
        async with real_http() as http, serve_models([]) as server:
            with pytest.raises(ProviderError):
                await fetch_models(http, ProviderSettings("x", "openai", f"{server.url}/elsewhere/x?"))


async def test_servers_that_answer_are_found_in_the_order_of_preference():
    with anyio.fail_after(30):
        async with real_http() as http, serve_models([], models=("a",)) as one, serve_models([], models=("b",)) as two:
            candidates = [
                replace(LOCAL_SERVERS[0], base_url=f"{one.url}/v1"),
                replace(LOCAL_SERVERS[1], base_url="http://127.0.0.1:1/v1"),
                replace(LOCAL_SERVERS[2], base_url=f"{two.url}/v1"),
            ]
            found = await find_local_servers(http, candidates, seconds=30)
    assert [(server.settings.name, server.models[0].name) for server in found] == [
        ("ollama", "a"),
        ("llama-server", "b"),
    ]


async def test_a_server_that_says_nothing_is_given_up_in_time():
    async def silent(stream: SocketStream) -> None:
        async with stream:
            await anyio.sleep_forever()

    with anyio.fail_after(30):
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra_attributes[SocketAttribute.local_port]()
        async with real_http() as http, listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, silent)
            candidate = replace(LOCAL_SERVERS[1], base_url=f"http://127.0.0.1:{port}/v1")
            assert await find_local_servers(http, [candidate], seconds=0.05) == ()
            tasks.cancel_scope.cancel()


def test_ollamas_own_list_is_beside_v1():
    assert ollama_tags_url(LOCAL_SERVERS[0]) == "http://127.0.0.1:11434/api/tags"
    proxied = replace(LOCAL_SERVERS[0], base_url="http://host/sub/v1")
    assert ollama_tags_url(proxied) == "http://host/sub/api/tags"


async def test_googles_list_is_read_without_what_answers_no_prompts():
    models = [
        {
            "name": "models/a",
            "inputTokenLimit": 9,
            "outputTokenLimit": 5,
            "supportedGenerationMethods": ["generateContent"],
        },
        {"name": "models/b", "supportedGenerationMethods": ["embedContent"]},
    ]
    assert parse_gemini_models(json.dumps({"models": models}).encode(), "x") == (ListedModel("a", 9, 5),)
    with pytest.raises(ProviderProtocolError, match="no model list"):
        parse_gemini_models(b"[]", "x")


async def test_googles_list_comes_from_googles_address():
    with anyio.fail_after(30):
        async with serve_models([], models=["a"]) as server, real_http() as http:
            found = await fetch_models(http, ProviderSettings("gemini", "gemini", server.url))
    assert found == (ListedModel("a", 1000),)
