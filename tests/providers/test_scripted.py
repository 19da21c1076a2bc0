import json
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.errors import ConfigError
from pattern_acp.domain.messages import Message, Role, ToolCallPart
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    Provider,
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.http_errors import ProviderOverloadedError, ProviderRequestError
from pattern_acp.providers.scripted import Script, ScriptedProvider, load_script, parse_script
from tests.support import scripts


def request(*messages: Message) -> ProviderRequest:
    return ProviderRequest("script", "", (), messages)


async def events_of(provider: Provider, asked: ProviderRequest | None = None) -> list[ProviderEvent]:
    async with provider.stream(asked or request()) as events:
        return [event async for event in events]


def provider_of(script: Script) -> ScriptedProvider:
    return ScriptedProvider(script.turns, chunk=script.chunk, repeat=script.repeat)


async def test_each_request_plays_one_turn_and_is_kept():
    provider = ScriptedProvider([scripts.says("one"), scripts.says("two")])
    assert await events_of(provider) == [TextDelta("one"), Stopped(ProviderStop.END)]
    assert await events_of(provider) == [TextDelta("two"), Stopped(ProviderStop.END)]
    assert len(provider.requests) == 2


async def test_a_request_beyond_the_end_says_so():
    assert (await events_of(ScriptedProvider([])))[0] == TextDelta("The script has no more turns.")


async def test_a_repeated_script_starts_again():
    provider = ScriptedProvider([scripts.says("one")], repeat=True)
    assert await events_of(provider) == await events_of(provider)


async def test_a_turn_with_a_call_stops_for_tool_calls():
    got = await events_of(ScriptedProvider([scripts.calls("read_file", path="a") + scripts.calls("x")]))
    assert got == [
        ToolCallBegun(0, "call_1", "read_file"),
        ToolCallFragment(0, '{"path": "a"}'),
        ToolCallBegun(1, "call_2", "x"),
        ToolCallFragment(1, "{}"),
        Stopped(ProviderStop.TOOL_CALLS),
    ]


async def test_call_ids_go_on_where_the_history_ends():
    earlier = Message(MessageId("m"), Role.ASSISTANT, (ToolCallPart(ToolCallId("call_1"), "x", "{}"),))
    got = await events_of(ScriptedProvider([scripts.calls("x")]), request(earlier))
    assert got[0] == ToolCallBegun(0, "call_2", "x")


async def test_a_file_of_every_step_is_played_in_chunks():
    turn = [
        {"thinking": "hmm", "signature": "s"},
        {"redacted": "r"},
        {"text": "abc"},
        {"tool": "t", "arguments": "{bad", "id": "given"},
        {"usage": {"input_tokens": 1, "cache_write_tokens": 2}},
        {"wait_ms": 0},
        {"stop": "max_tokens", "detail": "d"},
        {"text": "never"},
    ]
    script = parse_script(json.dumps({"turns": [turn], "chunk": 2}).encode(), "x")
    assert await events_of(provider_of(script)) == [
        ThinkingDelta("hm"),
        ThinkingDelta("m"),
        ThinkingEnded("s"),
        ThinkingEnded("", "r"),
        TextDelta("ab"),
        TextDelta("c"),
        ToolCallBegun(0, "given", "t"),
        ToolCallFragment(0, "{b"),
        ToolCallFragment(0, "ad"),
        UsageKnown(Usage(input_tokens=1, cache_write_tokens=2)),
        Stopped(ProviderStop.MAX_TOKENS, "d"),
    ]


@pytest.mark.parametrize(
    "data",
    [
        b'[[{"text":"a"}],[{"text":"b"}]]',
        b'[{"text":"a"}]\n[{"text":"b"}]\n',
        b'{"turns":[[{"text":"a"}],[{"text":"b"}]]}',
    ],
)
async def test_the_three_file_forms_mean_the_same(data: bytes):
    provider = provider_of(parse_script(data, "x"))
    assert (await events_of(provider))[0] == TextDelta("a")
    assert (await events_of(provider))[0] == TextDelta("b")


async def test_a_plain_list_of_steps_is_one_turn():
    provider = provider_of(parse_script(b'[{"text":"a"},{"text":"b"}]', "x"))
    assert (await events_of(provider))[:2] == [TextDelta("a"), TextDelta("b")]


@pytest.mark.parametrize("data", [b"", b"{", b'{"turns":1}', b'[[{"txt":"a"}]]', b"\xff", b"[1]"])
def test_a_broken_script_is_refused_with_its_name(data: bytes):
    with pytest.raises(ConfigError, match=r"The script demo\.json cannot be played"):
        parse_script(data, "demo.json")


def test_a_missing_script_is_refused_with_its_path(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"gone\.json cannot be read"):
        load_script(tmp_path / "gone.json")


async def test_an_error_step_raises():
    with pytest.raises(ProviderOverloadedError, match="busy"):
        await events_of(provider_of(parse_script(b'[[{"error":"overloaded","detail":"busy"}]]', "x")))


@pytest.mark.parametrize("step", [b'{"error":"none such"}', b'{"stop":"none such"}'])
async def test_an_unknown_error_or_stop_names_the_known_ones(step: bytes):
    with pytest.raises(ProviderRequestError, match="use one of"):
        await events_of(provider_of(parse_script(b"[[" + step + b"]]", "x")))


async def test_a_gate_holds_the_stream_until_it_is_opened():
    gate = scripts.gate()
    got: list[ProviderEvent] = []
    provider = ScriptedProvider([(*scripts.says("before"), gate, *scripts.says("after"))])

    async def play() -> None:
        got.extend(await events_of(provider))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await gate.reached.wait()
            gate.opened.set()
    assert got[:2] == [TextDelta("before"), TextDelta("after")]


async def test_waiting_for_cancel_can_be_cancelled():
    provider = provider_of(parse_script(b'[[{"text":"a"},{"wait_for":"cancel"}]]', "x"))
    with anyio.fail_after(30):
        async with provider.stream(request()) as events:
            assert await anext(events) == TextDelta("a")
            with anyio.move_on_after(0.01) as scope:
                await anext(events)
    assert scope.cancelled_caught


async def test_a_subagent_plays_turns_of_its_own_and_one_without_any_those_of_the_script():
    data = b'{"turns": [[{"text": "one"}], [{"text": "two"}]], "subagents": {"finder": [[{"text": "found"}]]}}'
    script = parse_script(data, "s")
    provider = ScriptedProvider(script.turns, subagents=script.subagents)

    async def said(cache_key: str) -> str:
        first = (await events_of(provider, replace(request(), cache_key=cache_key)))[0]
        return first.text if isinstance(first, TextDelta) else ""

    keys = ("ses_1", "ses_1/finder", "ses_1/other", "ses_1/finder")
    assert [await said(key) for key in keys] == ["one", "found", "two", "The script has no more turns."]
