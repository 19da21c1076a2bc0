"""What every wire's requests must be: one suite for all of them, judged by the vendors' own types."""

import itertools
import json
import re
from functools import partial
from typing import cast

import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ModelSettings, ProviderSettings, Wire
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.messages import Message, ThinkingPart
from pattern_acp.providers.anthropic import BedrockWire, VertexWire
from pattern_acp.providers.anthropic import encode_body as encode_anthropic
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.providers.catalogue import WELL_KNOWN, configure, describe
from pattern_acp.providers.gemini import encode_body as encode_gemini
from pattern_acp.providers.openai import encode_body as encode_openai
from tests.support.conversations import PIXEL, assistant, call, everything, request, result, results, user
from tests.support.vendor_types import judge_body
from tests.support.wires import MODELS, WIRES, body_for

LEVELS = list(ThoughtLevel)
PATCH = ToolSpec(
    "apply_patch",
    "Edit files.",
    {"type": "object", "properties": {"input": {"type": "string", "description": "A patch."}}, "required": ["input"]},
    free_form="input",
)

Body = dict[str, Json]


def body_of(data: bytes) -> Body:
    return cast("Body", json.loads(data))


def own(wire: Wire, text: str, signature: str = "", redacted: str = "") -> ThinkingPart:
    """A reasoning block that the wire's model made."""
    return ThinkingPart(text, signature, redacted, f"mine/{MODELS[wire]}", wire)


SIGNATURES: dict[Wire, str] = {
    "anthropic": "c2ln",
    "openai": "",
    "responses": '{"id":"rs_1","encrypted_content":"c2ln"}',
    "gemini": "c2ln",
}


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("model", ["", "some-model"])
def test_the_vendors_types_accept_every_request(wire: Wire, level: ThoughtLevel, model: str):
    thinking = own(wire, "Hm.", SIGNATURES[wire])
    history = (*everything("mine"), assistant(thinking, "So. ", thinking, call("z"), number=9), results(result("z")))
    judge_body(wire, body_for(wire, replace(request(*history, level=level), tools=(PATCH,)), model=model))


@pytest.mark.parametrize("model", ["gemini-2.5-flash", "gemini-2.5-pro", "gemini-3-pro-preview", "gemini-2.0-flash"])
@pytest.mark.parametrize("level", LEVELS)
def test_googles_types_accept_every_way_to_ask_for_reasoning(model: str, level: ThoughtLevel):
    judge_body("gemini", body_for("gemini", request(*everything("mine"), level=level), model=model))


def steps_of_a_session(wire: Wire) -> list[tuple[Message, ...]]:
    """The histories of five requests of one session, each longer than the one before."""
    turns = (
        (user("one", PIXEL),),
        (
            assistant(own(wire, "t", SIGNATURES[wire]), call("a"), call("b")),
            results(result("b"), result("a")),
        ),
        (assistant(call("c"), number=2), results(result("c", images=(PIXEL,)), number=2)),
        (assistant("done", number=3), user("two", number=2)),
        (assistant(call("d"), number=4), user("three", number=3)),
    )
    return [tuple(message for turn in turns[: count + 1] for message in turn) for count in range(len(turns))]


@pytest.mark.parametrize("wire", WIRES)
def test_the_stable_prefix_is_the_same_bytes_from_request_to_request(wire: Wire):
    stable: list[bytes] = []
    for number, history in enumerate(steps_of_a_session(wire)):
        plain = body_for(wire, request(*history, volatile=f"state {number}"))
        # Marks of a cache are not content, and what stands around the volatile text is the wire's affair.
        unmarked = plain.replace(b',"cache_control":{"type":"ephemeral"}', b"")
        stable.append(re.split(rb'(\\n\\n|,?\{[^{}]*(\{[^{}]*|"content":\[\{[^{}]*)?)state \d', unmarked)[0])
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(stable))


@pytest.mark.parametrize("wire", WIRES)
def test_the_same_request_is_the_same_bytes(wire: Wire):
    asked = request(*everything("mine"))
    assert body_for(wire, asked) == body_for(wire, asked)


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_without_a_result_is_filled_in(wire: Wire):
    assert b"No result was recorded for this call." in body_for(wire, request(*everything("mine")))


@pytest.mark.parametrize("wire", WIRES)
def test_images_go_to_models_that_see_them_and_become_a_sentence_for_others(wire: Wire):
    seen = body_for(wire, request(*everything("mine")))
    assert seen.count(PIXEL.data.encode()) == 2
    unseen = body_for(wire, request(*everything("mine")), model="some-model")
    assert unseen.count(b"this model takes no images") == 2
    assert PIXEL.data.encode() not in unseen


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("other", WIRES)
def test_what_one_vendor_said_of_its_reasoning_never_reaches_another(wire: Wire, other: Wire):
    """Not even under the same names of provider and model, as when the provider's wire was changed in the settings."""
    if wire == other:
        return
    planted = ThinkingPart("PLANTED", "PLANTED", "PLANTED", f"mine/{MODELS[wire]}", other)
    sealed = replace(planted, redacted="", signature='{"id":"PLANTED","encrypted_content":"PLANTED"}')
    history = (user("a"), assistant(planted, sealed, "b", call("c")), results(result("c")), user("d", number=2))
    assert b"PLANTED" not in body_for(wire, request(*history))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("maker", ["mine/another-model", "elsewhere"])
def test_reasoning_of_another_model_or_provider_is_left_out(wire: Wire, maker: str):
    planted = replace(own(wire, "PLANTED", '{"id":"PLANTED","encrypted_content":"PLANTED"}'), provider=maker)
    assert b"PLANTED" not in body_for(wire, request(user("a"), assistant(planted, "b"), user("c", number=2)))


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "openai"])
def test_own_reasoning_goes_back_right_before_what_it_led_to(wire: Wire):
    first, second = SIGNATURES[wire].replace("c2ln", "Zmlyc3Q="), SIGNATURES[wire].replace("c2ln", "c2Vjb25k")
    history = (
        user("a"),
        assistant(own(wire, "", first), call("c1", arguments='{"path":"ONE"}'), own(wire, "", second), call("c2")),
        results(result("c1"), result("c2")),
    )
    plain = body_for(wire, request(*history)).decode()
    # On Gemini the signature is a field of the call's own part.
    places = [plain.index(text) for text in ("Zmlyc3Q=", "ONE", "c2Vjb25k")]
    if wire == "gemini":
        places[:2] = reversed(places[:2])
    assert places == sorted(places)


@pytest.mark.parametrize("wire", WIRES)
def test_a_lone_surrogate_does_not_break_a_request(wire: Wire):
    assert b"a?b" in body_for(wire, request(user("a\ud800b")))


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_with_nothing_in_it_still_has_a_message(wire: Wire):
    plain = body_for(wire, ProviderRequest("m", "", (), (), volatile="now"))
    assert b'"now"' in plain
    assert "tools" not in body_of(plain)
    judge_body(wire, plain)


@pytest.mark.parametrize("wire", WIRES)
def test_a_failed_result_says_so(wire: Wire):
    plain = body_for(wire, request(user("a"), assistant(call("c")), results(result("c", "exit 1", is_error=True))))
    assert b"Error: exit 1" in plain or b'"is_error":true' in plain or b'"error":"exit 1' in plain


def test_a_tool_of_plain_text_is_a_custom_one_where_the_wire_has_them_and_a_function_elsewhere():
    history = (user("a"), assistant(call("c", "apply_patch", '{"input":"*** Begin"}')), results(result("c", "ok")))
    asked = replace(request(*history), tools=(PATCH,))
    body = body_of(body_for("responses", asked))
    assert body["tools"] == [
        {"type": "custom", "name": "apply_patch", "description": "Edit files. A patch.", "format": {"type": "text"}}
    ]
    items = cast("list[Body]", body["input"])
    assert [item["type"] for item in items[1:3]] == ["custom_tool_call", "custom_tool_call_output"]
    assert items[1]["input"] == "*** Begin"
    for wire in ("anthropic", "openai", "gemini"):
        assert b"custom" not in body_for(wire, asked)
    # A model that is not known to take them gets a function too.
    assert b"custom" not in body_for("responses", asked, model="some-model")


def test_a_call_of_plain_text_with_other_arguments_stays_a_function_call():
    history = (user("a"), assistant(call("c", "apply_patch", '{"patch":"x"}')), results(result("c", "ok")))
    items = cast("list[Body]", body_of(body_for("responses", replace(request(*history), tools=(PATCH,))))["input"])
    assert [item["type"] for item in items[1:3]] == ["function_call", "function_call_output"]


def test_reasoning_that_led_to_nothing_is_not_sent_to_openai():
    history = (user("a"), assistant("b", own("responses", "cut", SIGNATURES["responses"])), user("c", number=2))
    assert b'encrypted_content":' not in body_for("responses", request(*history))


def test_nothing_is_stored_at_openai_and_encrypted_reasoning_is_asked_for():
    body = body_of(body_for("responses", request(user("a"), level=ThoughtLevel.HIGH)))
    assert (body["store"], body["include"]) == (False, ["reasoning.encrypted_content"])
    assert body["reasoning"] == {"effort": "high", "summary": "auto"}
    assert "include" not in body_of(body_for("responses", request(user("a")), model="gpt-4.1"))


def test_the_phase_of_a_message_goes_back_with_it():
    history = (
        user("a"),
        assistant(own("responses", "", '{"phase":"commentary"}'), "b", call("c")),
        results(result("c")),
    )
    items = cast("list[Body]", body_of(body_for("responses", request(*history)))["input"])
    assert items[1] == {"type": "message", "role": "assistant", "content": "b", "phase": "commentary"}


def test_calls_of_another_model_get_the_word_that_newer_gemini_models_want_and_older_do_not():
    history = (user("a"), assistant(call("c"), call("d")), results(result("c"), result("d")))
    assert body_for("gemini", request(*history)).count(b"skip_thought_signature_validator") == 1
    assert b"thoughtSignature" not in body_for("gemini", request(*history), model="gemini-2.5-flash")


def test_images_of_results_stand_inside_them_for_newer_gemini_models_and_behind_them_for_older():
    history = (user("a"), assistant(call("c")), results(result("c", images=(PIXEL,))))
    last = cast("list[Body]", body_of(body_for("gemini", request(*history)))["contents"])[-1]
    assert len(cast("list[Json]", last["parts"])) == 1
    older = cast("list[Body]", body_of(body_for("gemini", request(*history), model="gemini-2.5-flash"))["contents"])[-1]
    assert [next(iter(part)) for part in cast("list[Body]", older["parts"])] == ["functionResponse", "inlineData"]


def test_gemini_is_asked_to_think_as_the_model_takes_it():
    def thinking(model: str, level: ThoughtLevel) -> Json:
        body = body_of(body_for("gemini", request(user("a"), level=level), model=model))
        return cast("Body", body["generationConfig"]).get("thinkingConfig")

    assert thinking("gemini-2.5-flash", ThoughtLevel.OFF) == {"thinkingBudget": 0}
    assert thinking("gemini-2.5-flash", ThoughtLevel.LOW) == {"thinkingBudget": 4096, "includeThoughts": True}
    assert thinking("gemini-2.5-pro", ThoughtLevel.OFF) is None
    assert thinking("gemini-3-pro-preview", ThoughtLevel.HIGH) == {"thinkingLevel": "HIGH", "includeThoughts": True}
    assert thinking("some-model", ThoughtLevel.HIGH) is None


KNOWN: dict[Wire, tuple[str, ...]] = {
    "anthropic": (*WELL_KNOWN["anthropic"], "claude-opus-4-6", "claude-sonnet-4-5", "claude-3-haiku", "claude-new"),
    "openai": (
        *WELL_KNOWN["openai"],
        "gpt-5",
        "gpt-5-nano",
        "o3",
        "gpt-oss:20b",
        "openai/gpt-5",
        "deepseek-r1",
        "gpt-4o",
    ),
    "responses": (*WELL_KNOWN["responses"], "gpt-5", "gpt-5.2-codex", "gpt-5-pro", "o3", "gpt-4.1"),
    "gemini": (*WELL_KNOWN["gemini"], "gemini-2.5-flash-lite", "gemini-3-pro-preview", "gemini-2.0-flash"),
}


@pytest.mark.parametrize("wire", WIRES)
def test_by_default_no_request_says_anything_of_reasoning(wire: Wire):
    for model in ("some-model", *KNOWN[wire]):
        body = body_of(body_for(wire, request(user("a"), level=ThoughtLevel.AUTO), model=model))
        said = {"thinking", "output_config", "reasoning", "reasoning_effort"} & body.keys()
        assert (model, said) == (model, set())
        assert "thinkingConfig" not in cast("Body", body.get("generationConfig", {}))


def test_the_clouds_requests_say_nothing_of_reasoning_by_default_either():
    for wire in (BedrockWire, VertexWire):
        settings = ProviderSettings("cloud", "anthropic", "https://127.0.0.1:1", project="p", region="r")
        for model in ("anthropic.claude-opus-5-5-v1:0", "claude-sonnet-5-5", "claude-sonnet-4-5@20250929"):
            asked = replace(request(user("a"), level=ThoughtLevel.AUTO), model=model)
            body = body_of(wire(settings, partial(describe, "cloud")).encode(asked).body)
            assert not {"thinking", "output_config"} & body.keys()


def test_a_model_that_the_user_says_thinks_is_asked_for_nothing_by_default():
    facts = configure(describe("lab", "m"), ModelSettings(thinking=("off", "low")))
    asked = request(user("a"), level=ThoughtLevel.AUTO)
    bodies = [
        body_of(encode_openai(asked, facts, "lab", is_openai=False)),
        body_of(encode_anthropic(asked, facts, "lab")),
        body_of(encode_gemini(asked, facts, "lab")),
    ]
    assert not any({"thinking", "output_config", "reasoning_effort"} & body.keys() for body in bodies)
    assert "thinkingConfig" not in cast("Body", bodies[2]["generationConfig"])


@pytest.mark.parametrize(
    ("wire", "model", "level", "tokens"),
    [
        ("responses", "gpt-6.1-terra", ThoughtLevel.AUTO, 8_192 + 10_240),
        ("gemini", "gemini-2.5-flash", ThoughtLevel.AUTO, 8_192 + 10_240),
        ("openai", "gpt-4.1", ThoughtLevel.AUTO, 8_192),
        ("responses", "gpt-6.1-terra", ThoughtLevel.OFF, 8_192),
        ("responses", "gpt-6.1-terra", ThoughtLevel.HIGH, 8_192 + 24_576),
        ("responses", "gpt-5.2-codex", ThoughtLevel.OFF, 8_192 + 10_240),
        ("responses", "gpt-4.1", ThoughtLevel.HIGH, 8_192),
        ("gemini", "gemini-2.5-flash", ThoughtLevel.OFF, 8_192),
        ("gemini", "gemini-3-pro-preview", ThoughtLevel.OFF, 8_192 + 10_240),
        ("openai", "gpt-oss-20b", ThoughtLevel.OFF, 8_192 + 10_240),
        ("openai", "some-model", ThoughtLevel.HIGH, 8_192),
    ],
)
def test_reasoning_has_room_beside_the_answer_also_where_it_cannot_be_turned_off(
    wire: Wire, model: str, level: ThoughtLevel, tokens: int
):
    body = body_of(body_for(wire, request(user("a"), level=level), model=model))
    limits = {"responses": body.get("max_output_tokens"), "openai": body.get("max_tokens")}
    config = cast("Body", body.get("generationConfig", {}))
    assert (limits.get(wire) or config.get("maxOutputTokens")) == tokens


@pytest.mark.parametrize(
    ("model", "level", "effort"),
    [
        ("gpt-5.2", ThoughtLevel.OFF, {"effort": "none"}),
        ("gpt-5", ThoughtLevel.OFF, {"effort": "minimal"}),
        ("gpt-5-codex", ThoughtLevel.OFF, None),
        ("gpt-5.1-codex-max", ThoughtLevel.LOW, {"effort": "low", "summary": "auto"}),
        ("gpt-5.2-pro", ThoughtLevel.LOW, None),
        ("o3", ThoughtLevel.OFF, None),
    ],
)
def test_openais_models_are_asked_for_efforts_that_they_take(model: str, level: ThoughtLevel, effort: Json):
    assert body_of(body_for("responses", request(user("a"), level=level), model=model)).get("reasoning") == effort
