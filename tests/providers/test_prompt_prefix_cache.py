"""A conversation that is encoded piece by piece gives the bytes of one that is encoded whole, on every wire."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.messages import Message, ThinkingPart
from pattern_acp.providers import anthropic as anthropic_wire
from pattern_acp.providers import gemini as gemini_wire
from pattern_acp.providers import openai as openai_wire
from pattern_acp.providers import openai_responses as responses_wire
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.wire_json import (
    CONVERSATIONS_KEPT,
    SEPARATE_ITEMS,
    EncodedHistories,
    EncodedHistory,
    WireItem,
    has_earlier_user_message,
    to_bytes,
)
from tests.support.conversations import PIXEL, assistant, call, everything, request, result, results, user

Encode: TypeAlias = Callable[[ProviderRequest, EncodedHistory], bytes]


def encode_anthropic(asked: ProviderRequest, history: EncodedHistory) -> bytes:
    return anthropic_wire.encode_body(asked, describe("anthropic", "claude-sonnet-5-5"), "anthropic", history)


def encode_openai(asked: ProviderRequest, history: EncodedHistory) -> bytes:
    facts = describe("openai", "gpt-6.1-terra", is_openai=True)
    return openai_wire.encode_body(asked, facts, "openai", is_openai=True, history=history)


def encode_responses(asked: ProviderRequest, history: EncodedHistory) -> bytes:
    facts = describe("openai", "gpt-6.1-terra", is_openai=True)
    return responses_wire.encode_body(asked, facts, "openai", history)


def encode_gemini(asked: ProviderRequest, history: EncodedHistory) -> bytes:
    return gemini_wire.encode_body(asked, describe("gemini", "gemini-3-pro"), "gemini", history)


WIRES: dict[str, Encode] = {
    "anthropic": encode_anthropic,
    "openai": encode_openai,
    "responses": encode_responses,
    "gemini": encode_gemini,
}

every_wire = pytest.mark.parametrize("encode", WIRES.values(), ids=WIRES.keys())

STEPS: tuple[tuple[Message, ...], ...] = (
    (user("Look."),),
    (user(" "),),
    (user(PIXEL),),
    (assistant("Done."),),
    (assistant("a\ud800"),),
    (assistant(" "),),
    (assistant(ThinkingPart("Hm.", provider="elsewhere")),),
    (assistant(ThinkingPart("Hm.", signature="c2ln", provider="anthropic"), "Read.", call("a")), results(result("a"))),
    (assistant(call("a"), call("b c")), results(result("b c", images=(PIXEL,)), result("a", is_error=True))),
    (assistant(call("cut")),),
    (results(result("stray")),),
    everything("anthropic"),
)


def conversation(steps: int) -> tuple[Message, ...]:
    one = (user("Read it."), assistant("Yes.", call("a")), results(result("a")), assistant("It says nothing."))
    return tuple(replace(message) for _ in range(steps) for message in one)


LONG = conversation(SEPARATE_ITEMS // 4 + 2)
"""So many items that the settled ones are joined."""

BLANK_AMONG_PROMPTS = (STEPS[0], (assistant(" "),), STEPS[0], STEPS[3], STEPS[3])


@every_wire
@example(steps=[(added, "", "goes on") for added in BLANK_AMONG_PROMPTS])
@example(steps=[(added, "now", "goes on") for added in (LONG, STEPS[4], STEPS[0], LONG, STEPS[7], STEPS[4])])
@example(steps=[(LONG, "", "goes on"), (STEPS[0], "", "again"), (STEPS[3], "", "cut"), (LONG, "now", "goes on")])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.sampled_from(["", "now"]), st.sampled_from(["goes on", "again", "cut"])),
        max_size=14,
    )
)
def test_every_request_of_a_conversation_has_the_bytes_of_one_encoded_whole(
    encode: Encode, steps: Sequence[tuple[tuple[Message, ...], str, str]]
):
    history, messages = EncodedHistory(), tuple[Message, ...]()
    for added, volatile, change in steps:
        # Also what makes a conversation another: compaction, and another model.
        messages = messages[len(messages) // 2 :] if change == "cut" else messages
        messages = (*messages, *(replace(message) for message in added))
        asked = request(*messages, volatile=volatile, model="other" if change == "again" else "m")
        assert encode(asked, history) == encode(asked, EncodedHistory())


def encode_roles(messages: Sequence[Message], *, encoded: list[int]) -> list[WireItem]:
    encoded.append(len(messages))
    return [{"role": "user" if message.role.value != "assistant" else "assistant"} for message in messages]


def test_what_is_settled_is_not_encoded_again():
    history, encoded, messages = EncodedHistory(), list[int](), conversation(50)
    encode = partial(encode_roles, encoded=encoded)
    before = history.of(messages, "m", encode, has_earlier_user_message)
    encoded.clear()
    longer = (*messages, *conversation(1))
    after = history.of(longer, "m", encode, has_earlier_user_message)
    assert sum(encoded) < 12
    assert len(after.prefix) + len(after.last) == len(longer)
    assert after.prefix[: len(before.prefix)] == before.prefix


def test_many_settled_items_are_joined_and_are_the_same_items():
    history, encode = EncodedHistory(), partial(encode_roles, encoded=[])
    lengths: list[int] = []
    for length in range(4, len(LONG) + 1, 4):
        found = history.of(LONG[:length], "m", encode, has_earlier_user_message)
        assert json.loads(to_bytes([*found.prefix, *found.last])) == encode(LONG[:length])
        lengths.append(len(found.prefix))
    assert lengths[-1] < max(lengths) <= SEPARATE_ITEMS


def test_the_last_conversations_are_kept_and_one_without_a_key_is_not():
    histories = EncodedHistories()
    first, second = histories.of("0"), histories.of("1")
    for number in range(2, CONVERSATIONS_KEPT):
        histories.of(str(number))
    assert histories.of("0") is first
    histories.of("one more")
    assert histories.of("0") is first
    assert histories.of("1") is not second
    assert histories.of("") is not histories.of("")
