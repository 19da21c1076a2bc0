"""Both encoders against the vendors' own types, and against the prefix rule of prompt caches."""

import itertools
import json
import re
from collections.abc import Callable
from typing import Literal, cast

import anthropic.types
import openai.types.chat
import pytest
from pydantic import TypeAdapter

from pattern_acp.domain.canonical import Json
from pattern_acp.domain.messages import Message, ThinkingPart
from pattern_acp.providers import anthropic as anthropic_wire
from pattern_acp.providers import openai as openai_wire
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel
from pattern_acp.providers.catalogue import ModelFacts, describe
from tests.support.conversations import (
    PIXEL,
    assistant,
    call,
    everything,
    request,
    result,
    results,
    user,
)

ANTHROPIC = TypeAdapter(anthropic.types.message_create_params.MessageCreateParamsStreaming)
OPENAI = TypeAdapter(openai.types.chat.completion_create_params.CompletionCreateParamsStreaming)

SONNET = describe("anthropic", "claude-sonnet-5-5")
GPT = describe("openai", "gpt-6.1-terra", is_openai=True)
PLAIN = describe("local", "some-model")


def anthropic_bytes(asked: ProviderRequest, facts: ModelFacts = SONNET) -> bytes:
    return anthropic_wire.encode_body(asked, facts, "anthropic")


def openai_bytes(asked: ProviderRequest, facts: ModelFacts = GPT, *, is_openai: bool = True) -> bytes:
    return openai_wire.encode_body(asked, facts, "openai", is_openai=is_openai)


def body_of(data: bytes) -> dict[str, Json]:
    return cast("dict[str, Json]", json.loads(data))


def messages_of(data: bytes) -> list[dict[str, Json]]:
    return cast("list[dict[str, Json]]", body_of(data)["messages"])


LEVELS = list(ThoughtLevel)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "model", ["claude-sonnet-5-5", "claude-opus-5-5", "claude-sonnet-4-5", "claude-3-5-haiku", "x"]
)
def test_anthropics_types_accept_every_request(model: str, level: ThoughtLevel):
    asked = request(*everything("anthropic"), model=model, level=level)
    ANTHROPIC.validate_python(body_of(anthropic_bytes(asked, describe("anthropic", model))), extra="forbid")


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", ["gpt-6.1-terra", "gpt-5.2", "gpt-5", "gpt-5.4", "gpt-4.1", "o3", "x"])
def test_openais_types_accept_every_request(model: str, level: ThoughtLevel):
    asked = request(*everything("openai"), model=model, level=level)
    facts = describe("openai", model, is_openai=True)
    OPENAI.validate_python(body_of(openai_bytes(asked, facts)), extra="forbid")
    OPENAI.validate_python(body_of(openai_bytes(asked, facts, is_openai=False)), extra="forbid")


def steps_of_a_session() -> list[tuple[Message, ...]]:
    """The histories of five requests of one session, each longer than the one before."""
    turns = (
        (user("one", PIXEL),),
        (
            assistant(ThinkingPart("t", "sig", provider="anthropic"), call("a"), call("b")),
            results(result("b"), result("a")),
        ),
        (assistant(call("c"), number=2), results(result("c", images=(PIXEL,)), number=2)),
        (assistant("done", number=3), user("two", number=2)),
        (assistant(call("d"), number=4), user("three", number=3)),
    )
    return [tuple(message for turn in turns[: count + 1] for message in turn) for count in range(len(turns))]


def test_anthropics_stable_prefix_is_the_same_bytes_from_request_to_request():
    """Marks and volatile text set apart: the cache keys on content, and reads up to a mark."""
    stable: list[bytes] = []
    for number, history in enumerate(steps_of_a_session()):
        plain = anthropic_bytes(request(*history, volatile=f"state {number}"))
        unmarked = plain.replace(b',"cache_control":{"type":"ephemeral"}', b"")
        end = unmarked.index(f',{{"type":"text","text":"state {number}"}}'.encode())
        stable.append(unmarked[:end])
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(stable))


def test_anthropics_marks_stand_at_the_ends_of_what_is_stable():
    plain = anthropic_bytes(request(*steps_of_a_session()[2]))
    body = body_of(plain)
    assert plain.count(b"cache_control") == 4
    tools, system = cast("list[dict[str, Json]]", body["tools"]), cast("list[dict[str, Json]]", body["system"])
    assert "cache_control" in tools[-1]
    assert "cache_control" in system[-1]
    ends = [cast("list[dict[str, Json]]", message["content"]) for message in messages_of(plain)]
    assert "cache_control" in ends[-1][-2]
    assert ends[-1][-1] == {"type": "text", "text": "now"}
    assert "cache_control" in ends[-3][-1]


def test_openais_stable_prefix_is_the_same_bytes_from_request_to_request():
    stable: list[bytes] = []
    for number, history in enumerate(steps_of_a_session()):
        plain = openai_bytes(request(*history, volatile=f"state {number}"))
        stable.append(re.split(rb'(\\n\\n|,\{"type":"text","text":")state ', plain)[0])
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(stable))


def test_the_same_request_is_the_same_bytes():
    asked = request(*everything("anthropic"))
    assert anthropic_bytes(asked) == anthropic_bytes(asked)
    assert openai_bytes(asked) == openai_bytes(asked)


def test_anthropic_gets_own_reasoning_back_byte_for_byte_and_no_other():
    content = messages_of(anthropic_bytes(request(*everything("anthropic"))))[1]["content"]
    assert cast("list[dict[str, Json]]", content)[:3] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "cmVk"},
        {"type": "text", "text": "I read both. "},
    ]


def test_anthropic_gets_no_answer_that_ends_with_reasoning():
    """It refuses every later request with `The final block in an assistant message cannot be thinking`."""
    sealed, hidden = (ThinkingPart("Hm.", "c2ln", redacted, "anthropic/m", "anthropic") for redacted in ("", "cmVk"))
    said = assistant(sealed, "So.", sealed, hidden)
    messages = messages_of(anthropic_bytes(request(user("a"), assistant(sealed, hidden), user("b"), said, user("c"))))
    assert [message["role"] for message in messages] == ["user", "user", "assistant", "user"]
    assert [block["type"] for block in cast("list[dict[str, Json]]", messages[2]["content"])] == ["thinking", "text"]


def test_reasoning_of_another_model_of_the_provider_is_left_out_when_the_model_is_known():
    own = ThinkingPart("own", "s", provider="anthropic/m")
    other = ThinkingPart("other", "s", provider="anthropic/n")
    plain = anthropic_bytes(request(user("a"), assistant(own, other, "b"), user("c")))
    assert b'"own"' in plain
    assert b'"other"' not in plain


def test_anthropic_pairs_calls_with_results_in_their_order():
    content = cast(
        "list[dict[str, Json]]", messages_of(anthropic_bytes(request(*everything("anthropic"))))[2]["content"]
    )
    assert [block["tool_use_id"] for block in content] == ["call_1", "call_2"]
    assert content[1] == {
        "type": "tool_result",
        "tool_use_id": "call_2",
        "content": [{"type": "text", "text": "exit 1"}],
        "is_error": True,
    }
    assert {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL.data}} in cast(
        "list[Json]", content[0]["content"]
    )


@pytest.mark.parametrize("encode", [anthropic_bytes, openai_bytes])
def test_a_call_without_a_result_is_filled_in(encode: Callable[[ProviderRequest], bytes]):
    assert b"No result was recorded for this call." in encode(request(*everything("anthropic")))


def test_images_become_a_sentence_for_a_model_that_does_not_see_them():
    for plain in (
        anthropic_bytes(request(*everything("anthropic")), PLAIN),
        openai_bytes(request(*everything("openai")), PLAIN),
    ):
        assert plain.count(b"this model takes no images") == 2
        assert PIXEL.data.encode() not in plain


def test_openai_gets_images_of_results_after_all_results():
    roles = [message["role"] for message in messages_of(openai_bytes(request(*everything("openai"))))]
    assert roles[:6] == ["system", "user", "assistant", "tool", "tool", "user"]


def test_openai_never_gets_two_messages_of_the_person_in_a_row():
    plain = openai_bytes(request(user("one"), user("two", PIXEL), user("three")))
    assert [message["role"] for message in messages_of(plain)] == ["system", "user"]


def test_volatile_text_follows_results_without_a_message_of_its_own():
    plain = openai_bytes(request(user("a"), assistant(call("c")), results(result("c", "out"))))
    assert messages_of(plain)[-1] == {"role": "tool", "tool_call_id": "c", "content": "out\n\nnow"}


@pytest.mark.parametrize(
    ("model", "level", "thinking", "effort"),
    [
        ("claude-sonnet-5-5", ThoughtLevel.OFF, {"type": "disabled"}, None),
        ("claude-sonnet-5-5", ThoughtLevel.LOW, {"type": "adaptive", "display": "summarized"}, {"effort": "low"}),
        ("claude-opus-5-5", ThoughtLevel.OFF, {"type": "adaptive", "display": "summarized"}, None),
        ("claude-sonnet-4-5", ThoughtLevel.OFF, None, None),
        ("claude-sonnet-4-5", ThoughtLevel.LOW, {"type": "enabled", "budget_tokens": 4096}, None),
        ("some-model", ThoughtLevel.HIGH, None, None),
    ],
)
def test_anthropic_is_asked_to_think_as_the_model_takes_it(
    model: str, level: ThoughtLevel, thinking: Json, effort: Json
):
    body = body_of(anthropic_bytes(request(user("a"), level=level), describe("anthropic", model)))
    assert (body.get("thinking"), body.get("output_config")) == (thinking, effort)


@pytest.mark.parametrize("level", LEVELS)
def test_a_thinking_budget_leaves_room_for_the_answer(level: ThoughtLevel):
    body = body_of(anthropic_bytes(request(user("a"), level=level), describe("anthropic", "claude-sonnet-4-5")))
    budget = cast("dict[str, int]", body.get("thinking") or {"budget_tokens": 0})["budget_tokens"]
    assert cast("int", body["max_tokens"]) >= budget + 8192


@pytest.mark.parametrize(
    ("model", "level", "is_openai", "effort"),
    [
        ("gpt-6.1-terra", ThoughtLevel.HIGH, True, "high"),
        ("gpt-5.4", ThoughtLevel.HIGH, True, "high"),
        ("gpt-5.2", ThoughtLevel.HIGH, True, "high"),
        ("gpt-5.2", ThoughtLevel.OFF, True, "none"),
        ("gpt-5", ThoughtLevel.OFF, True, "minimal"),
        ("o3", ThoughtLevel.OFF, True, None),
        ("gpt-4.1", ThoughtLevel.HIGH, True, None),
        ("openai/gpt-6.1-terra", ThoughtLevel.HIGH, False, "high"),
        ("qwen3:8b", ThoughtLevel.HIGH, False, None),
    ],
)
def test_effort_is_sent_where_the_model_and_server_take_it(
    model: str, level: ThoughtLevel, is_openai: Literal[True, False], effort: str | None
):
    facts = describe("p", model, is_openai=is_openai)
    body = body_of(openai_bytes(request(user("a"), level=level), facts, is_openai=is_openai))
    assert body.get("reasoning_effort") == effort


def test_only_openai_gets_its_own_parameter_names():
    own, other = openai_bytes(request(user("a"))), openai_bytes(request(user("a")), PLAIN, is_openai=False)
    assert {"max_completion_tokens", "prompt_cache_key"} <= body_of(own).keys()
    assert {"max_completion_tokens", "prompt_cache_key"}.isdisjoint(body_of(other))
    assert "max_tokens" in body_of(other)


THINKERS = ("deepseek-reasoner", "moonshotai/kimi-k2.6", "mimo-v2", "glm-4.7")


@pytest.mark.parametrize("model", THINKERS)
def test_calls_of_another_model_or_without_a_thought_have_the_reasoning_that_some_servers_insist_on(model: str):
    history = [
        user("a"),
        assistant(ThinkingPart("of another", provider="other/x", wire="openai"), call("c1")),
        results(result("c1")),
        assistant("Just text."),
        user("b"),
        assistant(ThinkingPart("own", provider="openai/m", wire="openai"), call("c2")),
        results(result("c2")),
    ]
    sent = messages_of(openai_bytes(request(*history), describe("openai", model), is_openai=False))
    assert [message.get("reasoning_content") for message in sent if message["role"] == "assistant"] == [
        " ",
        None,
        "own",
    ]


def test_reasoning_goes_back_in_the_text_where_the_template_wants_it_there():
    thought = ThinkingPart("why", provider="openai/m", wire="openai")
    history = [user("a"), assistant(thought, "So.", call("c1")), results(result("c1"))]
    sent = messages_of(openai_bytes(request(*history), describe("openai", "MiniMax-M2"), is_openai=False))
    assert sent[2]["content"] == "<think>\nwhy\n</think>\n\nSo."
    assert "reasoning_content" not in sent[2]


MISTRALS = [
    ("mistral", "any-model"),
    ("vllm", "mistralai/Devstral-Small-2507"),
    ("x", "codestral-latest"),
    ("x", "Mixtral-8x7B"),
]


@pytest.mark.parametrize(("provider", "model"), MISTRALS)
def test_ids_and_order_are_as_mistral_takes_them(provider: str, model: str):
    history = [
        user("a"),
        assistant(call("call_LoNg_0123456789abcdef"), call("abcDEF123"), call("functions.x:0")),
        results(result("call_LoNg_0123456789abcdef", images=(PIXEL,)), result("abcDEF123"), result("functions.x:0")),
        user("b"),
        assistant("Yes."),
        user("c"),
    ]
    facts = describe(provider, model)
    asked = request(*history)
    body = openai_wire.encode_body(asked, facts, provider, is_openai=False)
    assert body == openai_wire.encode_body(asked, facts, provider, is_openai=False)
    sent = messages_of(body)
    roles = [message["role"] for message in sent]
    assert roles == ["system", "user", "assistant", "tool", "tool", "tool", "assistant", "user", "assistant", "user"]
    calls = [call["id"] for call in cast("list[dict[str, str]]", sent[2]["tool_calls"])]
    assert calls == [message["tool_call_id"] for message in sent[3:6]]
    assert len({*calls}) == 3
    assert calls[1] == "abcDEF123"
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", each) for each in calls)


def test_other_servers_get_ids_and_order_as_they_are():
    history = [user("a"), assistant(call("call_1")), results(result("call_1")), user("b")]
    sent = messages_of(openai_bytes(request(*history), PLAIN, is_openai=False))
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "user"]
    assert sent[3]["tool_call_id"] == "call_1"


def test_reasoning_is_echoed_to_models_that_want_it():
    history = (user("a"), assistant(ThinkingPart("why", provider="openai"), call("c")), results(result("c")))
    echoed = openai_bytes(request(*history), describe("openai", "deepseek-reasoner"), is_openai=False)
    assert messages_of(echoed)[2]["reasoning_content"] == "why"
    assert b"reasoning_content" not in openai_bytes(request(*history))


def test_a_lone_surrogate_does_not_break_a_request():
    assert b"a?b" in anthropic_bytes(request(user("a\ud800b")))
    assert b"a?b" in openai_bytes(request(user("a\ud800b")))


def test_a_request_with_nothing_in_it_still_has_a_message():
    empty = ProviderRequest("m", "", (), (), volatile="now")
    for plain in (anthropic_bytes(empty), openai_bytes(empty)):
        assert len(messages_of(plain)) == 1
        assert "tools" not in body_of(plain)
