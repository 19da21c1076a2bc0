"""Anthropic's models at Bedrock: requests judged by Anthropic's client and a check of signatures, and answers."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import anyio
import pytest
from anthropic.lib.bedrock import AsyncAnthropicBedrock
from botocore.credentials import Credentials
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Secret
from pattern_acp.credentials.aws_keys import AwsCredentials, AwsKeys
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ThoughtLevel,
    ToolCallBegun,
    UsageKnown,
)
from pattern_acp.providers.catalogue import describe, vendor_name
from pattern_acp.providers.endpoints import HttpRequest
from pattern_acp.providers.http import Deadlines, HttpClient
from pattern_acp.providers.http_errors import (
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
)
from pattern_acp.providers.keys import SignedProvider
from pattern_acp.providers.rate_limiter import RateLimiters
from pattern_acp.providers.registry import build_wire
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.scripted import ScriptStep, ScriptUsage
from pattern_acp.providers.streaming import WireProvider
from tests.support.amazon import ACCESS_KEY, SECRET_KEY, bedrock_frames, chunk_frame, exception_frame, is_signed
from tests.support.constellation import FakeClock
from tests.support.conversations import everything, request, user
from tests.support.fault_server import http_answer, serve_faults
from tests.support.model_server import RecordedRequest, Reply, serve_models
from tests.support.model_streams import CallIds, anthropic_frames

MODEL = "us.anthropic.claude-opus-4-1-20250805-v1:0"
PROFILE = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-sonnet-4-20250514-v1:0"
KEY = "bedrock-api-key-" + "planted"
STEPS = [
    ScriptStep(thinking="Hm.", signature="c2ln"),
    ScriptStep(text="Grüße."),
    ScriptStep(tool="read_file", arguments={"path": "a"}),
    ScriptStep(usage=ScriptUsage(7, 3, 20, 1)),
]
ASKED = request(user("Hi"), model=MODEL)
STREAM = b"".join(
    frame for frame in bedrock_frames(anthropic_frames(STEPS, "m", CallIds(), 2)) if isinstance(frame, bytes)
)
BINARY = "application/vnd.amazon.eventstream"


def bedrock_at(url: str, key: str = "") -> ProviderSettings:
    secret = Secret(key, "$AWS_BEARER_TOKEN_BEDROCK") if key else None
    return ProviderSettings("bedrock", "anthropic", url, secret, configured=True, host="bedrock", region="eu-west-1")


def credentials(access_key: str = ACCESS_KEY, token: str | None = None) -> AwsCredentials:
    return cast("Callable[..., AwsCredentials]", Credentials)(access_key, SECRET_KEY, token)


@dataclass
class Chain:
    """`ProviderKeys` over credentials, the first of which is found first and others when asked again."""

    found: list[AwsCredentials] = field(default_factory=lambda: [credentials()])

    def __post_init__(self) -> None:
        self.keys = AwsKeys(lambda: self.found.pop(0) if len(self.found) > 1 else self.found[0])

    def with_stored_keys(self, providers: Mapping[str, ProviderSettings]) -> Mapping[str, ProviderSettings]:
        return providers

    def used(self, settings: ProviderSettings) -> str:
        del settings
        return ""

    async def signed(self, settings: ProviderSettings, refused: Secret | None = None) -> ProviderSettings:
        if settings.api_key is not None:
            return settings
        key = await self.keys.key(settings.name, refused.value if refused is not None else "")
        return replace(settings, api_key=key, signs=True)

    async def sign(self, settings: ProviderSettings, request: HttpRequest) -> HttpRequest:
        headers = await self.keys.sign(settings.name, settings.region, request.url, request.headers, request.body)
        return replace(request, headers=headers)


@asynccontextmanager
async def bedrock(settings: ProviderSettings, chain: Chain | None = None) -> AsyncGenerator[SignedProvider, None]:
    clock, keys = FakeClock(), chain or Chain()
    http = HttpClient(Deadlines(), clock)

    async def client() -> HttpClient:
        return http

    async def sleep(seconds: float) -> None:
        clock.advance(round(seconds * 1000))

    def build(signed: ProviderSettings) -> WireProvider:
        retry, sign = RetryPolicy(sleep=sleep, jitter=lambda: 0.0), partial(keys.sign, signed) if signed.signs else None
        wire = build_wire(signed, partial(describe, "bedrock"))
        return WireProvider(signed, wire, client, retry, RateLimiters(clock), needs_key=False, sign=sign)

    try:
        with anyio.fail_after(40):
            yield SignedProvider(settings, keys, build)
    finally:
        await http.aclose()


async def ask(provider: SignedProvider, asked: ProviderRequest = ASKED) -> list[ProviderEvent]:
    async with provider.stream(asked) as stream:
        return [event async for event in stream]


def text_of(events: Sequence[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


async def as_anthropics_client_sends_it(body: dict[str, Json], model: str) -> RecordedRequest:
    """The request that Anthropic's client for Bedrock makes of the same parameters; it reads our frames, too."""
    parameters: dict[str, Any] = {**body, "model": model}
    async with (
        serve_models([STEPS]) as server,
        AsyncAnthropicBedrock(aws_region="eu-west-1", api_key=KEY, base_url=server.url, max_retries=0) as client,
        await client.messages.create(**parameters, stream=True) as stream,
    ):
        kinds: list[str] = [event.type async for event in stream]
        assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
        return server.requests[0]


@pytest.mark.parametrize("level", list(ThoughtLevel))
@pytest.mark.parametrize("model", [MODEL, "anthropic.claude-opus-4-7", PROFILE])
async def test_what_is_sent_is_what_anthropics_own_client_sends(model: str, level: ThoughtLevel):
    asked = request(*everything("anthropic"), model=model, level=level)
    sent = build_wire(bedrock_at("http://h", KEY), partial(describe, "bedrock")).encode(asked)
    body = cast("dict[str, Json]", json.loads(sent.body))
    version = body.pop("anthropic_version")
    recorded = await as_anthropics_client_sends_it(body, model)
    theirs = recorded.json()
    # Ours is the version of Bedrock's own documentation; their client sends the newest of Anthropic's.
    assert version == "bedrock-2023-05-31"
    assert theirs.pop("anthropic_version")
    assert body == theirs
    assert sent.url.removeprefix("http://h") == recorded.path
    assert sent.headers["authorization"] == recorded.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("model", [MODEL, PROFILE])
@pytest.mark.parametrize("token", [None, "session" + "-token"])
async def test_credentials_of_the_chain_sign_every_request(model: str, token: str | None):
    busy = Reply(status=503, body='{"message":"Busy."}')
    async with serve_models([busy, Reply(STEPS)]) as server:
        chain = Chain([credentials(token=token)])
        async with bedrock(bedrock_at(server.url), chain) as provider:
            events = await ask(provider, replace(ASKED, model=model))
    assert (text_of(events), len(server.requests)) == ("Grüße.", 2)
    for each in server.requests:
        assert is_signed("POST", each.path, each.headers, each.body)
        assert not is_signed("POST", each.path, each.headers, each.body + b" ")
        assert not is_signed("POST", each.path, each.headers, each.body, "another")
        assert f"Credential={ACCESS_KEY}/" in each.headers["authorization"]
        assert "/eu-west-1/bedrock/aws4_request" in each.headers["authorization"]
        assert each.headers.get("x-amz-security-token") == token


async def test_an_answer_is_read_as_anthropics_own():
    replies = [Reply(STEPS, chunk=1, bytes_per_write=7)]
    async with serve_models(replies) as server, bedrock(bedrock_at(server.url, KEY)) as provider:
        events = await ask(provider)
    assert text_of(events) == "Grüße."
    assert [event.usage for event in events if isinstance(event, UsageKnown)][-1] == Usage(7, 3, 20, 1)
    assert [event.name for event in events if isinstance(event, ToolCallBegun)] == ["read_file"]
    assert events[-1] == Stopped(ProviderStop.TOOL_CALLS)


async def test_a_stream_that_is_cut_anywhere_is_tried_again_or_ends_as_interrupted_with_what_came():
    async with serve_faults() as server, bedrock(bedrock_at(server.url, KEY)) as provider:
        server.pieces = [http_answer(STREAM, content_type=BINARY)]
        whole = await ask(provider)
        cuts = {*range(20), *range(20, len(STREAM), 61), *range(len(STREAM) - 8, len(STREAM))}
        for cut in sorted(cuts):
            server.pieces, before = [http_answer(STREAM[:cut], content_type=BINARY)], server.asked
            try:
                events = await ask(provider)
            except ProviderConnectionError:
                assert server.asked - before == 5
                continue
            assert text_of(whole).startswith(text_of(events))
            last = events[-1]
            assert isinstance(last, Stopped)
            assert last.reason in {ProviderStop.INTERRUPTED, ProviderStop.TOOL_CALLS}


@pytest.mark.parametrize(
    ("frame", "kind", "said", "asked"),
    [
        (exception_frame("throttlingException", "Too many requests."), ProviderOverloadedError, "overloaded", 5),
        (exception_frame("throttlingException", "Too many tokens, wait."), ProviderOverloadedError, "overloaded", 5),
        (exception_frame("internalServerException", ""), ProviderOverloadedError, "has a fault", 5),
        (exception_frame("modelStreamErrorException", "Retry."), ProviderOverloadedError, "has a fault", 5),
        (exception_frame("serviceUnavailableException", ""), ProviderOverloadedError, "has a fault", 5),
        (exception_frame("modelTimeoutException", ""), ProviderOverloadedError, "has a fault", 5),
        (exception_frame("validationException", "Malformed input."), ProviderRequestError, "Malformed input.", 1),
        (chunk_frame('{"type":"ping"}')[:-1] + b"\x00", ProviderProtocolError, "not in the format of its wire", 1),
        (b"data: {}\n\ndata: {}\n\n", ProviderProtocolError, "not in the format of its wire", 1),
    ],
)
async def test_an_exception_or_damage_before_content_has_its_error(
    frame: bytes, kind: type[ProviderError], said: str, asked: int
):
    async with serve_faults() as server, bedrock(bedrock_at(server.url, KEY)) as provider:
        server.pieces = [http_answer(frame, content_type=BINARY)]
        with pytest.raises(kind, match=said):
            await ask(provider)
        assert server.asked == asked


async def test_an_exception_behind_content_keeps_what_came():
    frames = [frame for frame in bedrock_frames(anthropic_frames(STEPS, "m", CallIds())) if isinstance(frame, bytes)]
    stream = b"".join([*frames[:-3], exception_frame("modelStreamErrorException", "Broken.")])
    async with serve_faults() as server, bedrock(bedrock_at(server.url, KEY)) as provider:
        server.pieces = [http_answer(stream, content_type=BINARY)]
        events = await ask(provider)
    last = events[-1]
    assert text_of(events) == "Grüße."
    assert isinstance(last, Stopped)
    assert last.reason is ProviderStop.INTERRUPTED


OVER = Reply(status=403, body='{"message":"The security token included in the request is expired"}')


async def test_credentials_that_have_ended_are_looked_for_once_more():
    newer = "AKIA" + "NEWERNEWERNEWER1"
    async with serve_models([OVER, Reply(STEPS)]) as server:
        chain = Chain([credentials(), credentials(newer)])
        async with bedrock(bedrock_at(server.url), chain) as provider:
            assert text_of(await ask(provider)) == "Grüße."
    assert [newer in each.headers["authorization"] for each in server.requests] == [False, True]


@pytest.mark.parametrize(
    ("reply", "kind", "said", "asked"),
    [
        (OVER, ProviderAuthError, "refused the key from the AWS credential chain", 1),
        (
            Reply(status=403, body='{"message":"The request signature we calculated does not match."}'),
            ProviderAuthError,
            "refused the key",
            1,
        ),
        (
            Reply(status=403, body='{"Message":"You don\'t have access to the model with the specified model ID."}'),
            ProviderRequestError,
            "does not let this account use .*You don't have access to the model",
            1,
        ),
        (
            Reply(status=400, body='{"message":"Invocation with on-demand throughput isn\'t supported."}'),
            ProviderRequestError,
            "on-demand throughput",
            1,
        ),
        # Not a conversation that is too long, which would be compacted.
        (
            Reply(status=429, body='{"message":"Too many tokens, please wait before trying again."}'),
            ProviderOverloadedError,
            "limits the rate of requests",
            5,
        ),
    ],
)
async def test_a_refusal_of_amazon_is_one_sentence(reply: Reply, kind: type[ProviderError], said: str, asked: int):
    async with serve_models([reply], repeat=True) as server, bedrock(bedrock_at(server.url)) as provider:
        with pytest.raises(kind, match=said):
            await ask(provider)
        assert len(server.requests) == asked


@pytest.mark.parametrize(
    ("name", "vendors"),
    [
        (MODEL, "claude-opus-4-1-20250805-v1:0"),
        ("global.anthropic.claude-sonnet-5-5", "claude-sonnet-5-5"),
        ("us-gov.anthropic.claude-3-7-sonnet-20250219-v1:0", "claude-3-7-sonnet-20250219-v1:0"),
        ("anthropic.claude-opus-4-7", "claude-opus-4-7"),
        ("claude-opus-4-7", "claude-opus-4-7"),
        ("not.of.anthropic.claude", "not.of.anthropic.claude"),
    ],
)
def test_a_model_is_known_by_its_vendors_name(name: str, vendors: str):
    assert vendor_name(name) == vendors


@pytest.mark.parametrize("name", [MODEL, PROFILE, "global.anthropic.claude-sonnet-5-5"])
def test_figures_and_prices_of_models_at_bedrock_are_known(name: str):
    facts = describe("bedrock", name)
    assert facts.info.context_window >= 200_000
    assert facts.info.input_price
    assert facts.info.thought_levels
