"""Anthropic's models at Vertex AI: what is sent, judged by Anthropic's own client, and what comes back."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import anyio
import pytest
from anthropic.lib.vertex import AsyncAnthropicVertex
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Secret
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import ProviderRequest, TextDelta, ThoughtLevel, ToolCallBegun, UsageKnown
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.http import Deadlines, HttpClient
from pattern_acp.providers.http_errors import ProviderAuthError, ProviderOverloadedError, ProviderRequestError
from pattern_acp.providers.keys import SignedProvider
from pattern_acp.providers.rate_limiter import RateLimiters
from pattern_acp.providers.registry import build_wire
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.scripted import ScriptStep, ScriptUsage
from pattern_acp.providers.streaming import CountingWire, WireProvider
from tests.support.constellation import FakeClock
from tests.support.conversations import everything, request, user
from tests.support.model_server import ModelServer, RecordedRequest, Reply, serve_models

TOKEN = "token-1"
MODEL = "claude-opus-4-5@20251101"
STEPS = [
    ScriptStep(thinking="Hm.", signature="c2ln"),
    ScriptStep(text="Grüße."),
    ScriptStep(tool="read_file", arguments={"path": "a"}),
    ScriptStep(usage=ScriptUsage(7, 3, 20, 1)),
]


def vertex_at(url: str, token: str = TOKEN) -> ProviderSettings:
    return ProviderSettings(
        "vertex",
        "anthropic",
        url,
        Secret(token, "a test"),
        configured=True,
        host="vertex",
        region="us-east5",
        project="my-project",
    )


def wire_at(url: str) -> CountingWire:
    wire = build_wire(vertex_at(url), partial(describe, "vertex"))
    assert isinstance(wire, CountingWire)
    return wire


class Renewing:
    """`ProviderKeys` that gives another token for a refused one."""

    def __init__(self) -> None:
        self.refused: list[str] = []

    def with_stored_keys(self, providers: Mapping[str, ProviderSettings]) -> Mapping[str, ProviderSettings]:
        return providers

    def used(self, settings: ProviderSettings) -> str:
        del settings
        return "a test"

    async def signed(self, settings: ProviderSettings, refused: Secret | None = None) -> ProviderSettings:
        if refused is not None:
            self.refused.append(refused.value)
        return replace(settings, api_key=Secret(f"token-{len(self.refused) + 1}", "a test"))

    async def sign(self, settings: ProviderSettings, request: HttpRequest) -> HttpRequest:
        raise NotImplementedError


async def ask(server: ModelServer, asked: ProviderRequest, keys: Renewing | None = None) -> tuple[str, Usage, int]:
    """The text, the usage and the number of calls of an answer."""
    clock = FakeClock()
    http = HttpClient(Deadlines(), clock)

    async def client() -> HttpClient:
        return http

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    def build(settings: ProviderSettings) -> WireProvider:
        retry = RetryPolicy(sleep=sleep, jitter=lambda: 0.0)
        wire = build_wire(settings, partial(describe, "vertex"))
        return WireProvider(settings, wire, client, retry, RateLimiters(clock), needs_key=False)

    text, usage, calls = "", Usage(), 0
    try:
        with anyio.fail_after(20):
            provider = SignedProvider(vertex_at(server.url), keys or Renewing(), build)
            async with provider.stream(asked) as events:
                async for event in events:
                    text += event.text if isinstance(event, TextDelta) else ""
                    usage = event.usage if isinstance(event, UsageKnown) else usage
                    calls += isinstance(event, ToolCallBegun)
            return text, usage, calls
    finally:
        await http.aclose()


def fields_of(body: bytes) -> dict[str, Json]:
    return cast("dict[str, Json]", json.loads(body))


async def as_anthropics_client_sends_it(body: dict[str, Json], *, counts: bool = False) -> RecordedRequest:
    """The request that Anthropic's client for Vertex makes of the same parameters."""
    parameters: dict[str, Any] = {key: value for key, value in body.items() if key != "stream"}
    reply = Reply(body='{"input_tokens": 12}') if counts else Reply([ScriptStep(text="Hi.")])
    async with serve_models([reply]) as server:
        async with AsyncAnthropicVertex(
            region="us-east5", project_id="my-project", access_token=TOKEN, base_url=f"{server.url}/v1", max_retries=0
        ) as client:
            if counts:
                assert (await client.messages.count_tokens(**parameters)).input_tokens == 12
            else:
                async with await client.messages.create(**parameters, stream=True):
                    pass
        return server.requests[0]


def address_of(sent: HttpRequest, url: str) -> str:
    return sent.url.removeprefix(url)


@pytest.mark.parametrize("level", list(ThoughtLevel))
@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-5-5"])
async def test_what_is_sent_is_what_anthropics_own_client_sends(model: str, level: ThoughtLevel):
    asked = request(*everything("anthropic"), model=model, level=level)
    sent = build_wire(vertex_at("http://h"), partial(describe, "vertex")).encode(asked)
    body = fields_of(sent.body)
    version = body.pop("anthropic_version")
    recorded = await as_anthropics_client_sends_it({**body, "model": model})
    theirs = recorded.json()
    # Ours is the version of Vertex's own documentation; their client sends the newest of Anthropic's.
    assert version == "vertex-2023-10-16"
    assert theirs.pop("anthropic_version")
    assert body == theirs
    assert address_of(sent, "http://h") == recorded.path
    assert sent.headers["authorization"] == recorded.headers["authorization"] == f"Bearer {TOKEN}"
    assert "x-api-key" not in sent.headers


async def test_tokens_are_counted_at_the_address_of_anthropics_own_client():
    asked = request(*everything("anthropic"), model=MODEL)
    sent = wire_at("http://h").encode_count(asked)
    body = fields_of(sent.body)
    assert body.pop("anthropic_version") == "vertex-2023-10-16"
    recorded = await as_anthropics_client_sends_it(body, counts=True)
    theirs = recorded.json()
    assert theirs.pop("anthropic_version")
    assert (address_of(sent, "http://h"), body) == (recorded.path, theirs)
    assert wire_at("http://h").read_count(b'{"input_tokens": 12}') == 12


async def test_an_answer_is_read_as_anthropics_own():
    async with serve_models([STEPS]) as server:
        asked = request(user("Hi"), model=MODEL)
        assert await ask(server, asked) == ("Grüße.", Usage(7, 3, 20, 1), 1)
        assert server.requests[0].path == (
            f"/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/{MODEL}:streamRawPredict"
        )


async def test_a_token_that_has_ended_is_renewed_once_and_the_request_sent_again():
    over = Reply(status=401, body='{"error":{"code":401,"message":"Invalid credentials.","status":"UNAUTHENTICATED"}}')
    async with serve_models([over, Reply(STEPS), over, over]) as server:
        keys = Renewing()
        assert (await ask(server, request(user("Hi"), model=MODEL), keys))[0] == "Grüße."
        assert [each.headers["authorization"] for each in server.requests] == ["Bearer token-1", "Bearer token-2"]
        assert keys.refused == ["token-1"]
        with pytest.raises(ProviderAuthError, match="refused the key from a test"):
            await ask(server, request(user("Hi"), model=MODEL), keys)
        assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("status", "body", "kind", "said", "asked"),
    [
        (
            403,
            '{"error":{"code":403,"message":"Permission denied on resource.","status":"PERMISSION_DENIED"}}',
            ProviderRequestError,
            f"does not let this account use {MODEL}: Permission denied on resource. Enable the model",
            1,
        ),
        (403, "<html>", ProviderRequestError, "it gave no reason. Enable the model", 1),
        (404, '{"error":{"code":404,"message":"Not found."}}', ProviderRequestError, "knows no model", 1),
        (
            429,
            '{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED"}}',
            ProviderOverloadedError,
            "limits",
            5,
        ),
    ],
)
async def test_a_refusal_of_google_is_one_sentence(
    status: int, body: str, kind: type[ProviderError], said: str, asked: int
):
    async with serve_models([Reply(status=status, body=body)], repeat=True) as server:
        keys = Renewing()
        with pytest.raises(kind, match=said):
            await ask(server, request(user("Hi"), model=MODEL), keys)
        # Another token would change nothing.
        assert (len(server.requests), keys.refused) == (asked, [])


def test_without_a_project_the_sentence_says_where_to_set_it():
    settings = replace(vertex_at("http://h"), project="")
    with pytest.raises(ProviderRequestError, match="GOOGLE_CLOUD_PROJECT"):
        build_wire(settings, partial(describe, "vertex")).encode(request(user("Hi"), model=MODEL))


@pytest.mark.parametrize("model", ["../../x", "a?b#c", "a;b", "ä b", "a:b"])
def test_no_name_of_a_model_leads_to_another_address(model: str):
    sent = build_wire(vertex_at("http://h"), partial(describe, "vertex")).encode(request(user("Hi"), model=model))
    last = sent.url.removeprefix("http://h/v1/projects/my-project/locations/us-east5/publishers/anthropic/models/")
    name, _, verb = last.rpartition(":")
    assert verb == "streamRawPredict"
    assert not set(name) & set("/?#;: ")


@pytest.mark.parametrize(
    ("model", "window"), [(MODEL, 200_000), ("claude-3-7-sonnet@20250219", 200_000), ("claude-opus-5-5", 1_000_000)]
)
def test_models_are_known_by_the_names_that_google_gives_them(model: str, window: int):
    facts = describe("vertex", model)
    assert facts.info.context_window == window
    assert facts.info.thought_levels
    assert facts.info.input_price
