"""Whole requests against the local model server, on both wires."""

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Secret, Wire
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.base import (
    Provider,
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    RateLimitWait,
    Retrying,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    TokenCounter,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
    UsageMissing,
)
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.event_streams import MAX_EVENT_BYTES
from pattern_acp.providers.http import Deadlines, HttpClient
from pattern_acp.providers.http_errors import (
    ContentFilteredError,
    ContextTooLongError,
    EmptyAnswerError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
    ProviderTooSlowError,
)
from pattern_acp.providers.rate_limiter import RateLimiters
from pattern_acp.providers.registry import build_wire
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.scripted import ScriptStep, ScriptUsage
from pattern_acp.providers.streaming import WireProvider, joined_texts
from tests.support.constellation import FakeClock
from tests.support.conversations import request, user
from tests.support.model_server import ModelServer, Reply, serve_models
from tests.support.wires import WIRES, stream_of

KEY = "sk-planted-0123456789"

HELLO = [ScriptStep(text="Hello."), ScriptStep(usage=ScriptUsage(7, 3, 20, 1))]


STALLS: dict[Wire, int] = {"anthropic": 4, "openai": 3, "responses": 4, "gemini": 2}
"""Frames of an answer of two texts, the second of which is the last before its end."""


@dataclass(slots=True)
class Sleeps:
    """Takes the place of sleeping: remembers for how long, in seconds, and lets that time pass."""

    clock: FakeClock = field(default_factory=FakeClock)

    taken: list[float] = field(default_factory=list[float])

    async def sleep(self, seconds: float) -> None:
        self.taken.append(seconds)
        self.clock.advance(round(seconds * 1000))


@dataclass(slots=True)
class Setup:
    server: ModelServer
    provider: Provider
    sleeps: Sleeps

    async def events(self, asked: ProviderRequest | None = None) -> list[ProviderEvent]:
        async with self.provider.stream(asked or request(user("Hi"), model="test-model")) as events:
            return [event async for event in events]


@asynccontextmanager
async def playing(
    wire: Wire,
    *replies: Reply | list[ScriptStep],
    idle: float = 30,
    first_byte: float = 30,
    total: float = 60,
    key: str = KEY,
) -> AsyncGenerator[Setup, None]:
    sleeps = Sleeps()
    with anyio.fail_after(30):
        async with serve_models(replies) as server:
            settings = ProviderSettings(
                "mine", wire, server.url, Secret(key, "$MINE_KEY") if key else None, "MINE_KEY", configured=True
            )
            http = HttpClient(Deadlines(first_byte=first_byte, idle=idle, total=total), sleeps.clock)

            async def client() -> HttpClient:
                return http

            retry = RetryPolicy(sleep=sleeps.sleep, jitter=lambda: 0.0)
            provider = WireProvider(
                settings,
                build_wire(settings, partial(describe, "mine")),
                client,
                retry,
                RateLimiters(sleeps.clock),
                needs_key=False,
            )
            try:
                yield Setup(server, provider, sleeps)
            finally:
                await http.aclose()


@pytest.mark.parametrize("wire", WIRES)
async def test_text_and_usage_arrive(wire: Wire):
    async with playing(wire, HELLO) as setup:
        events = await setup.events()
    assert TextDelta("Hello.") in events
    assert events[-1] == Stopped(ProviderStop.END)
    written = 1 if wire in {"anthropic", "responses"} else 0
    last = [event for event in events if isinstance(event, UsageKnown)][-1]
    assert last.usage == Usage(8 - written, 3, 20, written)


async def test_a_server_that_tells_no_usage_is_named_as_one():
    stream = 'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    async with playing("openai", Reply(raw=stream)) as setup:
        events = await setup.events()
    assert events == [TextDelta("Hi"), UsageMissing(), Stopped(ProviderStop.END)]


@pytest.mark.parametrize("wire", WIRES)
async def test_parallel_calls_arrive_in_fragments(wire: Wire):
    steps = [
        ScriptStep(text="Two."),
        ScriptStep(tool="read_file", arguments={"path": "äöü"}, id="call_a"),
        ScriptStep(tool="run_command", arguments={"command": "ls"}, id="call_b"),
    ]
    async with playing(wire, Reply(steps, chunk=3)) as setup:
        events = await setup.events()
    begun = [event for event in events if isinstance(event, ToolCallBegun)]
    assert [(call.call_id, call.name) for call in begun] == [("call_a", "read_file"), ("call_b", "run_command")]
    texts = [
        "".join(event.text for event in events if isinstance(event, ToolCallFragment) and event.index == call.index)
        for call in begun
    ]
    assert texts == ['{"path":"äöü"}', '{"command":"ls"}']
    assert events[-1] == Stopped(ProviderStop.TOOL_CALLS)


async def test_anthropics_reasoning_arrives_with_its_signature():
    steps = [ScriptStep(thinking="Hm.", signature="c2ln"), ScriptStep(redacted="cmVk"), ScriptStep(text="So.")]
    async with playing("anthropic", steps) as setup:
        events = [event for event in await setup.events() if not isinstance(event, UsageKnown)]
    assert events == [
        ThinkingDelta("Hm."),
        ThinkingEnded("c2ln", wire="anthropic"),
        ThinkingEnded("", "cmVk", "anthropic"),
        TextDelta("So."),
        Stopped(ProviderStop.END),
    ]


async def test_openais_reasoning_ends_where_the_answer_begins():
    async with playing("openai", [ScriptStep(thinking="Hm."), ScriptStep(text="So.")]) as setup:
        events = await setup.events()
    assert events[:3] == [ThinkingDelta("Hm."), ThinkingEnded(wire="openai"), TextDelta("So.")]


@pytest.mark.parametrize("wire", WIRES)
async def test_bytes_that_trickle_in_make_the_same_events(wire: Wire):
    async with playing(wire, HELLO, Reply(HELLO, bytes_per_write=1)) as setup:
        assert await setup.events() == await setup.events()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_connection_is_used_again(wire: Wire):
    async with playing(wire, HELLO, HELLO) as setup:
        await setup.events()
        await setup.events()
        assert setup.server.connections == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_connection_that_was_closed_while_nothing_was_asked_is_replaced(wire: Wire):
    async with playing(wire, Reply(HELLO, closes=True), HELLO) as setup:
        first = await setup.events()
        # A request that crosses the closing on its way would be one that is tried again.
        await setup.server.wait_ended(1)
        assert await setup.events() == first
        assert setup.server.connections == 2
        assert setup.sleeps.taken == []


async def test_the_key_goes_where_each_wire_wants_it():
    async with playing("anthropic", HELLO) as setup:
        await setup.events()
        sent = setup.server.requests[0]
    assert (sent.path, sent.headers["x-api-key"]) == ("/v1/messages", KEY)
    assert sent.headers["anthropic-version"] == "2023-06-01"
    async with playing("openai", HELLO) as setup:
        await setup.events()
        sent = setup.server.requests[0]
    assert (sent.path, sent.headers["authorization"]) == ("/v1/chat/completions", f"Bearer {KEY}")
    async with playing("responses", HELLO) as setup:
        await setup.events()
        sent = setup.server.requests[0]
    assert (sent.path, sent.headers["authorization"]) == ("/v1/responses", f"Bearer {KEY}")
    async with playing("gemini", HELLO) as setup:
        await setup.events()
        sent = setup.server.requests[0]
    assert (sent.path, sent.headers["x-goog-api-key"]) == (
        "/v1beta/models/test-model:streamGenerateContent?alt=sse",
        KEY,
    )


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_busy_provider_is_asked_again(wire: Wire, status: int):
    async with playing(wire, Reply(status=status, body="<html>busy</html>"), HELLO) as setup:
        events = await setup.events()
        assert setup.sleeps.taken == [0.25]
    assert isinstance(events[0], Retrying)
    assert (events[0].attempt, events[0].delay_ms) == (1, 250)
    assert "html" not in events[0].sentence
    assert events[-1] == Stopped(ProviderStop.END)


async def test_retry_after_is_obeyed_whole():
    busy = [Reply(status=429, retry_after=text, body="{}") for text in ("7", "290")]
    async with playing("openai", *busy, HELLO) as setup:
        await setup.events()
        assert setup.sleeps.taken == [7.0, 290.0]


async def test_a_retry_after_that_is_too_long_is_told_at_once():
    async with playing("openai", Reply(status=429, retry_after="900", body="{}")) as setup:
        with pytest.raises(ProviderOverloadedError, match="takes more in 15 min"):
            await setup.events()
        assert setup.sleeps.taken == []


async def test_five_attempts_are_all():
    async with playing("openai", *[Reply(status=503, body="")] * 6) as setup:
        with pytest.raises(ProviderOverloadedError, match=r"mine has a fault on its side \(status 503\)"):
            await setup.events()
        assert len(setup.server.requests) == 5
        assert setup.sleeps.taken == [0.25, 0.5, 1.0, 2.0]


@pytest.mark.parametrize("wire", WIRES)
async def test_an_overload_inside_the_stream_before_content_is_tried_again(wire: Wire):
    async with playing(wire, [ScriptStep(error="overloaded")], HELLO) as setup:
        events = await setup.events()
    assert any(isinstance(event, Retrying) for event in events)
    assert events[-1] == Stopped(ProviderStop.END)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_cut_before_content_is_tried_again(wire: Wire):
    async with playing(wire, Reply(HELLO, cut_after=1), HELLO) as setup:
        events = await setup.events()
    assert sum(isinstance(event, Retrying) for event in events) == 1
    assert events[-1] == Stopped(ProviderStop.END)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stream_cut_after_content_ends_with_what_came(wire: Wire):
    steps = [ScriptStep(text="Hello."), ScriptStep(text="More.")]
    async with playing(wire, Reply(steps, cut_after=2 if wire in {"gemini", "openai"} else 4)) as setup:
        events = await setup.events()
        assert len(setup.server.requests) == 1
    assert TextDelta("Hello.") in events
    last = events[-1]
    assert isinstance(last, Stopped)
    assert last.reason is ProviderStop.INTERRUPTED
    assert "mine" in last.detail


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stall_before_content_is_tried_once_more_and_then_named(wire: Wire):
    stall = Reply(HELLO, stall_after=1)
    async with playing(wire, stall, stall, idle=0.05, first_byte=0.05) as setup:
        with pytest.raises(ProviderStalledError, match=r"mine sent nothing for 0\.05 s"):
            await setup.events()
        # Not the requests of the server, which may not have come to read one within its time.
        assert len(setup.sleeps.taken) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_stall_after_content_ends_with_what_came(wire: Wire):
    async with playing(wire, Reply([*HELLO, ScriptStep(text="x")], stall_after=STALLS[wire]), idle=0.5) as setup:
        events = await setup.events()
    assert isinstance(events[-1], Stopped)
    assert events[-1].reason is ProviderStop.INTERRUPTED


def finishing(wire: Wire, word: str, steps: list[ScriptStep]) -> Reply:
    """An answer that ends for the reason `word`."""
    own = {"anthropic": "max_tokens", "openai": "length", "gemini": "MAX_TOKENS", "responses": "max_output_tokens"}[
        wire
    ]
    stream = stream_of(wire, [*steps, ScriptStep(stop="max_tokens")]).decode()
    assert stream.count(own) == 1
    return Reply(raw=stream.replace(own, word))


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_that_ends_in_an_error_before_any_text_is_tried_again(wire: Wire):
    async with playing(wire, finishing(wire, "network_error", []), HELLO) as setup:
        events = await setup.events()
    assert [event.sentence.split(";")[0] for event in events if isinstance(event, Retrying)] == [
        "mine/test-model did not finish its answer"
    ]
    assert events[-1] == Stopped(ProviderStop.END)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("word", ["network_error", "something_new"])
async def test_an_answer_that_ends_in_an_error_after_text_is_interrupted_with_the_word(wire: Wire, word: str):
    async with playing(wire, finishing(wire, word, [ScriptStep(text="First half of the ans")])) as setup:
        events = await setup.events()
        assert len(setup.server.requests) == 1
    assert TextDelta("First half of the ans") in events
    assert isinstance(events[-1], Stopped)
    assert events[-1].reason is ProviderStop.INTERRUPTED
    assert word in events[-1].detail


GEMINI_PIECES: list[Mapping[str, object]] = [
    {"parts": [{"text": ""}]},
    {"parts": [{"text": "One "}]},
    {"parts": [{"text": "two "}]},
    {"parts": [{"functionCall": {"name": "read_file", "args": {}}}]},
]


@pytest.mark.parametrize("bytes_per_write", [0, 120])
async def test_gemini_is_read_to_the_end_whatever_reason_each_chunk_gives(bytes_per_write: int):
    chunks = [
        {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": {"candidatesTokenCount": count}}
        for count, content in enumerate(GEMINI_PIECES, 1)
    ]
    raw = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    reply = Reply(raw=raw, bytes_per_write=bytes_per_write, write_delay_ms=20 if bytes_per_write else 0)
    async with playing("gemini", reply) as setup:
        events = await setup.events()
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["One ", "two "]
    assert any(isinstance(event, ToolCallBegun) for event in events)
    assert [event.usage.output_tokens for event in events if isinstance(event, UsageKnown)][-1] == 4
    assert events[-1] == Stopped(ProviderStop.TOOL_CALLS)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("bytes_per_write", [0, 1, 200])
async def test_done_behind_an_answer_changes_nothing_however_the_network_cuts_it(wire: Wire, bytes_per_write: int):
    stream = stream_of(wire, HELLO).decode()
    replies = (Reply(raw=stream), Reply(raw=f"{stream}data: [DONE]\n\n", bytes_per_write=bytes_per_write))
    async with playing(wire, *replies) as setup:
        assert await setup.events() == await setup.events()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_connection_that_breaks_behind_the_reason_of_the_end_has_given_a_whole_answer(wire: Wire):
    steps = [*HELLO, ScriptStep(tool="look", arguments={"n": 1}, id="call_a")]
    stream = stream_of(wire, steps).decode().removesuffix("data: [DONE]\n\n").partition("event: message_stop")[0]
    async with playing(wire, Reply(raw=stream, cut_after=1)) as setup:
        assert (await setup.events())[-1] == Stopped(ProviderStop.TOOL_CALLS)


@pytest.mark.parametrize("wire", WIRES)
async def test_leaving_early_cuts_the_connection(wire: Wire):
    async with playing(wire, Reply([*HELLO, ScriptStep(wait_for="cancel")]), HELLO) as setup:
        async with setup.provider.stream(request(user("Hi"), model="test-model")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
        assert (await setup.events())[-1] == Stopped(ProviderStop.END)
        assert setup.server.connections == 2


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_names_its_source_and_never_itself(wire: Wire, status: int):
    body = '{"error":{"message":"Incorrect API key provided: ' + KEY + '"}}'
    async with playing(wire, Reply(status=status, body=body)) as setup:
        with pytest.raises(ProviderAuthError, match=r"refused the key from \$MINE_KEY") as caught:
            await setup.events()
    assert KEY not in str(caught.value)


async def test_a_key_that_google_refuses_with_status_400_is_a_refused_key():
    body = (
        '{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}'
    )
    async with playing("gemini", Reply(status=400, body=body)) as setup:
        with pytest.raises(ProviderAuthError, match=r"refused the key from \$MINE_KEY"):
            await setup.events()


@pytest.mark.parametrize("wire", WIRES)
async def test_a_missing_key_names_its_variable(wire: Wire):
    async with playing(wire, Reply(status=401, body="{}"), key="") as setup:
        with pytest.raises(ProviderAuthError, match="set MINE_KEY"):
            await setup.events()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("reply", "error", "sentence"),
    [
        (Reply(body="<html>portal</html>", content_type="text/html"), ProviderProtocolError, "a web page"),
        (Reply(body="{}", content_type="application/json"), ProviderProtocolError, "application/json"),
        (Reply(raw="data: {broken\n\n"), ProviderProtocolError, "not in the format of its wire"),
        (Reply(raw='data: "text"\n\n'), ProviderProtocolError, "not in the format of its wire"),
        (
            Reply(status=404, body="<html>", content_type="text/html"),
            ProviderProtocolError,
            "no reason that can be read",
        ),
        (
            Reply(status=404, body='{"error":{"message":"model: x"}}'),
            ProviderRequestError,
            "knows no model 'test-model' at this address: model: x.",
        ),
        (Reply(status=400, body='{"error":{"message":"bad"}}'), ProviderRequestError, "refused the request: bad."),
        (
            Reply(status=400, body='{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}'),
            ContextTooLongError,
            "longer than mine/test-model can read",
        ),
        (
            Reply(status=400, body='{"error":{"message":"x","code":"context_length_exceeded"}}'),
            ContextTooLongError,
            "longer than",
        ),
        (Reply(status=413, body=""), ContextTooLongError, "longer than"),
        (Reply(status=400, body='{"error":{"code":"content_filter"}}'), ContentFilteredError, "content filter"),
        (
            Reply(status=429, body='{"error":{"message":"x","code":"insufficient_quota"}}'),
            ProviderRequestError,
            "no credit or quota",
        ),
    ],
)
async def test_every_fault_has_its_error(wire: Wire, reply: Reply, error: type[ProviderError], sentence: str):
    async with playing(wire, reply) as setup:
        with pytest.raises(error, match=sentence) as caught:
            await setup.events()
        assert len(setup.server.requests) == 1
    assert "<html" not in str(caught.value)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("steps", [[], [ScriptStep(thinking="Hm.")], [ScriptStep(text=" \n")]])
async def test_an_answer_without_text_and_call_is_an_error(wire: Wire, steps: list[ScriptStep]):
    async with playing(wire, steps) as setup:
        with pytest.raises(EmptyAnswerError, match="ended without an answer"):
            await setup.events()
        assert len(setup.server.requests) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_an_unreachable_server_is_named(wire: Wire):
    async with playing(wire) as setup:
        provider = setup.provider
    # The server is gone now; the port is free.
    setup = Setup(setup.server, provider, setup.sleeps)
    with anyio.fail_after(30), pytest.raises(ProviderConnectionError, match=r"mine cannot be reached at 127\.0\.0\.1"):
        await setup.events()


async def test_a_key_that_cannot_be_sent_is_not_shown():
    async with playing("openai", key="sk-schlüssel\n") as setup:
        with pytest.raises(ProviderRequestError, match="cannot be sent") as caught:
            await setup.events()
    assert "schl" not in str(caught.value)


async def test_the_cost_is_computed_where_the_price_is_known():
    async with playing("anthropic", HELLO) as setup:
        events = await setup.events(request(user("Hi"), model="claude-sonnet-4-5"))
    last = [event for event in events if isinstance(event, UsageKnown)][-1]
    # Dollars a million tokens: 7 at 3, 3 at 15, 20 at 0.30, 1 at 3.75.
    assert last.cost == Cost(76)


async def test_openais_own_tool_limits_do_not_bind_other_servers():
    async with playing("openai", HELLO) as setup:
        assert (await setup.events(request(user("Hi"), model="gpt-6-astra")))[-1] == Stopped(ProviderStop.END)


async def test_a_stream_that_ends_without_done_or_an_empty_line_is_whole():
    raw = 'data: {"choices":[{"delta":{"content":"Hi"},"finish_reason":"stop"}]}'
    async with playing("openai", Reply(raw=raw)) as setup:
        assert await setup.events() == [TextDelta("Hi"), UsageMissing(), Stopped(ProviderStop.END)]


async def test_an_event_that_never_ends_is_a_protocol_error():
    async with playing("openai", Reply(raw="data: " + "x" * MAX_EVENT_BYTES)) as setup:
        with pytest.raises(ProviderProtocolError):
            await setup.events()


async def test_an_error_with_status_200_is_read():
    body = '{"error":{"message":"overloaded","code":529}}'
    async with playing("openai", Reply(body=body), HELLO) as setup:
        assert isinstance((await setup.events())[0], Retrying)


async def test_anthropic_counts_a_request_before_it_is_sent():
    async with playing("anthropic", Reply(body='{"input_tokens": 77}')) as setup:
        assert isinstance(setup.provider, TokenCounter)
        assert await setup.provider.count_tokens(request(user("Hi"), model="test-model")) == 77
        (asked,) = setup.server.requests
    assert asked.path.endswith("/v1/messages/count_tokens")
    assert set(asked.json()) == {"model", "messages", "system", "tools"}


async def test_a_count_that_cannot_be_had_is_an_error_and_other_wires_have_none():
    refusal = '{"type": "error", "error": {"type": "not_found_error", "message": "There is no such path."}}'
    replies = (Reply(status=404, body=refusal), Reply(body="<html>"))
    async with playing("anthropic", *replies) as setup:
        assert isinstance(setup.provider, TokenCounter)
        for kind in (ProviderRequestError, ProviderProtocolError):
            with pytest.raises(kind):
                await setup.provider.count_tokens(request(user("Hi"), model="test-model"))
    async with playing("openai") as setup:
        assert isinstance(setup.provider, TokenCounter)
        assert await setup.provider.count_tokens(request(user("Hi"), model="test-model")) is None


LIMITS = {
    "x-ratelimit-limit-requests": "10",
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": "60s",
}


async def test_a_used_up_limit_is_waited_for_and_the_person_is_told_for_how_long():
    async with playing("openai", Reply([*HELLO], headers=LIMITS), HELLO) as setup:
        assert not any(isinstance(event, RateLimitWait) for event in await setup.events())
        events = await setup.events()
        assert events[0] == RateLimitWait(6_001, "The rate limit of mine for test-model is used up. Waiting 7 s.")
        assert setup.sleeps.taken == [6.001]
    assert events[-1] == Stopped(ProviderStop.END)


async def test_a_limit_that_comes_back_too_late_is_an_error_at_once():
    async with playing("openai", Reply([*HELLO], headers=LIMITS), HELLO) as setup:
        await setup.events()
        with pytest.raises(ProviderOverloadedError, match="is used up for 7 s; wait or choose another model"):
            await setup.events(replace(request(user("Hi"), model="test-model"), patience_ms=6_000))
        assert len(setup.server.requests) == 1


async def test_a_refusal_with_a_time_holds_up_the_next_request_too():
    async with playing("openai", Reply(status=429, retry_after="7", body="{}"), HELLO, HELLO) as setup:
        asked = replace(request(user("Hi"), model="test-model"), patience_ms=1_000)
        with pytest.raises(ProviderOverloadedError):
            await setup.events(asked)
        with pytest.raises(ProviderOverloadedError, match="is used up for 7 s"):
            await setup.events(asked)
        setup.sleeps.clock.advance(7_000)
        assert (await setup.events(asked))[-1] == Stopped(ProviderStop.END)


async def test_a_wait_for_a_limit_can_be_cancelled_and_takes_nothing():
    async with playing("openai", Reply([*HELLO], headers=LIMITS), HELLO) as setup:
        await setup.events()
        async with setup.provider.stream(request(user("Hi"), model="test-model")) as events:
            assert isinstance(await anext(events), RateLimitWait)
        await setup.events()
        assert setup.sleeps.taken == [6.001]


async def test_an_answer_that_drips_for_too_long_is_ended():
    reply = Reply([ScriptStep(text="x" * 40)], bytes_per_write=1, write_delay_ms=20)
    async with playing("openai", reply, total=0.2) as setup:
        with pytest.raises(ProviderTooSlowError, match=r"mine took longer than 0\.2 s"):
            await setup.events()


async def test_a_redirect_is_not_followed():
    async with playing("openai", Reply(status=307, body="", headers={"location": "http://127.0.0.1:1/"})) as setup:
        with pytest.raises(ProviderRequestError, match=r"sends requests elsewhere \(status 307\)"):
            await setup.events()


def test_texts_that_follow_one_another_in_one_read_are_handed_on_as_one():
    thought, end = ThinkingDelta("Hm."), Stopped(ProviderStop.END)
    events = [TextDelta("a"), TextDelta("b"), thought, thought, TextDelta("c"), end]
    assert [*joined_texts(events)] == [TextDelta("ab"), thought, thought, TextDelta("c"), end]


def test_texts_before_an_error_of_the_same_read_are_handed_on_before_it():
    def read() -> Iterator[ProviderEvent]:
        yield TextDelta("a")
        yield TextDelta("b")
        raise ProviderOverloadedError("Too much to do.")

    events = joined_texts(read())
    assert next(events) == TextDelta("ab")
    with pytest.raises(ProviderOverloadedError):
        next(events)
