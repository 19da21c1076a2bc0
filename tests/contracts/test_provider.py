"""What every `Provider` does. A new implementation adds its factory to `PROVIDERS`."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Literal

import anyio
import pytest

from pattern_acp.config.settings import ProviderSettings, Settings
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.messages import Message, Role, ToolCallPart
from pattern_acp.providers.base import (
    Provider,
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
)
from pattern_acp.providers.offline import OfflineProvider
from pattern_acp.providers.registry import Providers
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep
from tests.support.conversations import request, result, results, user
from tests.support.model_server import Reply, serve_models

Turns = Sequence[list[ScriptStep]]
Factory = Callable[[Turns], AbstractAsyncContextManager[Provider]]
"""A factory's provider answers one request after the other with `turns`; one without a script has its own words."""

CHUNK = 3
"""Characters of a piece, so that every text comes in several."""


@asynccontextmanager
async def offline(turns: Turns) -> AsyncGenerator[Provider, None]:
    del turns
    yield OfflineProvider()


@asynccontextmanager
async def scripted(turns: Turns) -> AsyncGenerator[Provider, None]:
    yield ScriptedProvider(turns, chunk=CHUNK)


@asynccontextmanager
async def over_http(wire: Literal["anthropic", "openai"], turns: Turns) -> AsyncGenerator[Provider, None]:
    async with serve_models([Reply(turn, chunk=CHUNK) for turn in turns]) as server:
        url = server.url if wire == "anthropic" else f"{server.url}/v1"
        settings = ProviderSettings("mine", wire, url, models=("m",), configured=True)
        providers = Providers(Settings(providers={"mine": settings}))
        try:
            yield providers.resolve("mine/m")[0]
        finally:
            await providers.aclose()


PROVIDERS: dict[str, Factory] = {
    "offline": offline,
    "scripted": scripted,
    "anthropic": partial(over_http, "anthropic"),
    "openai": partial(over_http, "openai"),
}

ANSWER = [ScriptStep(text="Hello to you too.")]
READ = [ScriptStep(text="I look."), ScriptStep(tool="read_file", arguments={"path": "ä.py"})]
RUN = [ScriptStep(tool="run_command", arguments={"command": "ls"})]

HELLO = request(user("Hello"))
TWO_COMMANDS = request(user("read ä.py\nrun ls"))
"""What makes the offline provider do as the scripts `READ`, `RUN` and `ANSWER` do."""


@pytest.fixture(params=list(PROVIDERS))
def factory(request: pytest.FixtureRequest) -> Factory:
    return PROVIDERS[request.param]


async def events_of(provider: Provider, asked: ProviderRequest) -> list[ProviderEvent]:
    async with provider.stream(asked) as events:
        return [event async for event in events]


def text_of(events: Sequence[ProviderEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls_of(events: Sequence[ProviderEvent]) -> list[ToolCallPart]:
    """The calls, each fragment of which must come after the call's beginning."""
    names: dict[int, ToolCallBegun] = {}
    texts: dict[int, str] = {}
    for event in events:
        if isinstance(event, ToolCallBegun):
            assert event.index not in names
            names[event.index], texts[event.index] = event, ""
        elif isinstance(event, ToolCallFragment):
            texts[event.index] += event.text
    return [ToolCallPart(ToolCallId(call.call_id), call.name, texts[index]) for index, call in names.items()]


def with_results(asked: ProviderRequest, calls: Sequence[ToolCallPart]) -> ProviderRequest:
    """The request that follows, once the calls were run."""
    number = len(asked.messages)
    spoken = Message(MessageId(f"spoken_{number}"), Role.ASSISTANT, tuple(calls))
    answered = results(*(result(call.call_id) for call in calls), number=number)
    return request(*asked.messages, spoken, answered)


async def test_it_has_a_name_that_can_stand_in_a_model_choice(factory: Factory):
    async with factory([]) as provider:
        assert provider.name
        assert "/" not in provider.name


async def test_an_answer_is_text_and_exactly_one_stop_at_its_end(factory: Factory):
    with anyio.fail_after(30):
        async with factory([ANSWER]) as provider:
            events = await events_of(provider, HELLO)
    assert text_of(events)
    assert [event for event in events if isinstance(event, Stopped)] == [Stopped(ProviderStop.END)]
    assert events[-1] == Stopped(ProviderStop.END)


async def test_calls_come_whole_and_the_stop_says_so(factory: Factory):
    with anyio.fail_after(30):
        async with factory([READ]) as provider:
            events = await events_of(provider, TWO_COMMANDS)
    [call] = calls_of(events)
    assert call.name == "read_file"
    assert json.loads(call.arguments)["path"] == "ä.py"
    assert events[-1] == Stopped(ProviderStop.TOOL_CALLS)


async def test_a_turn_goes_on_from_the_results_with_calls_of_other_ids(factory: Factory):
    with anyio.fail_after(30):
        async with factory([READ, RUN, ANSWER]) as provider:
            first = calls_of(await events_of(provider, TWO_COMMANDS))
            asked = with_results(TWO_COMMANDS, first)
            second = calls_of(await events_of(provider, asked))
            last = await events_of(provider, with_results(asked, second))
    assert [call.name for call in (*first, *second)] == ["read_file", "run_command"]
    assert len({call.call_id for call in (*first, *second)}) == 2
    assert text_of(last)
    assert last[-1] == Stopped(ProviderStop.END)


async def test_leaving_a_stream_early_leaves_the_provider_usable(factory: Factory):
    with anyio.fail_after(30):
        async with factory([ANSWER, ANSWER]) as provider:
            async with provider.stream(HELLO) as events:
                async for _ in events:
                    break
            assert (await events_of(provider, HELLO))[-1] == Stopped(ProviderStop.END)


async def test_a_stream_that_nobody_iterates_can_be_left(factory: Factory):
    with anyio.fail_after(30):
        async with factory([ANSWER]) as provider, provider.stream(HELLO):
            pass


async def test_streams_side_by_side_do_not_mix(factory: Factory):
    ended: list[list[ProviderEvent]] = []
    with anyio.fail_after(30):
        async with factory([ANSWER, ANSWER, ANSWER]) as provider, anyio.create_task_group() as tasks:

            async def ask() -> None:
                ended.append(await events_of(provider, HELLO))

            for _ in range(3):
                tasks.start_soon(ask)
    assert len(ended) == 3
    assert {text_of(events) for events in ended} == {text_of(ended[0])}
    assert all(events[-1] == Stopped(ProviderStop.END) for events in ended)


async def test_an_error_inside_the_consumer_passes_through(factory: Factory):
    async def fail_at_first(provider: Provider) -> None:
        async with provider.stream(HELLO) as events:
            async for _ in events:
                raise LookupError("ours")

    with anyio.fail_after(30):
        async with factory([ANSWER]) as provider:
            with pytest.raises(LookupError, match="ours"):
                await fail_at_first(provider)
