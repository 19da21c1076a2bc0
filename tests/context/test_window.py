"""Limits of a window, the estimate and what is learnt about it, and what breaks a cached prefix."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.config.settings import CompactionSettings, TurnSettings
from pattern_acp.context.window import (
    IMAGE_TOKENS,
    BreakDetector,
    Calibration,
    changes,
    does_not_fit,
    limits_of,
    messages_tokens,
    output_limit,
    prompt_tokens,
    request_tokens,
    text_limit,
    tools_with_room,
    weight_per_token,
    with_answer_in_window,
)
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.messages import (
    ImagePart,
    Message,
    Part,
    ResourcePart,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolSpec
from pattern_acp.tools.read_file import ReadFileTool

REQUEST = ProviderRequest(
    "m",
    "You are Pattern.",
    (ToolSpec("read_file", "Reads.", {}), ToolSpec("write_file", "Writes.", {})),
    (Message(MessageId("a"), Role.USER, (TextPart("Hello?"),)),),
)
SETTINGS = CompactionSettings()


def message(*parts: Part) -> Message:
    return Message(MessageId("m"), Role.USER, parts)


@given(st.integers(1_000, 2_000_000), st.integers(1, 200_000), st.integers(30, 95), st.integers(10, 90))
def test_the_target_lies_below_the_trigger_and_that_within_the_window(
    window: int, output: int, threshold: int, target: int
):
    model = ModelInfo("lab", "m", context_window=window, max_output_tokens=output)
    limits = limits_of(model, CompactionSettings("summarise", threshold, target), output)
    assert limits.target < limits.trigger <= limits.usable < limits.window
    assert limits.usable + min(output_limit(model, output), 8_192) == window


def test_reasoning_has_room_in_the_window_beside_the_answer():
    levels = (ThoughtLevel.OFF, ThoughtLevel.HIGH)
    thinker = ModelInfo("lab", "m", context_window=200_000, max_output_tokens=64_000, thought_levels=levels)
    assert limits_of(thinker, SETTINGS, 8_192, None, ThoughtLevel.OFF).usable == 200_000 - 8_192
    assert limits_of(thinker, SETTINGS, 8_192).usable == 200_000 - 8_192 - 10_240
    assert limits_of(thinker, SETTINGS, 8_192, None, ThoughtLevel.HIGH).usable == 200_000 - 8_192 - 24_576
    small = ModelInfo("lab", "m", context_window=8_000, max_output_tokens=8_000, thought_levels=levels)
    assert limits_of(small, SETTINGS, 8_192, None, ThoughtLevel.HIGH).usable == 8_000 - 2_000 - 2_000
    assert limits_of(ModelInfo("lab", "m"), SETTINGS, 8_192, None, ThoughtLevel.HIGH).usable == 128_000 - 8_192


@given(st.integers(1_000, 2_000_000), st.integers(1, 200_000), st.integers(0, 2_000_000))
def test_a_long_answer_takes_what_the_conversation_leaves_of_the_window(window: int, output: int, tokens: int):
    model = ModelInfo("lab", "m", context_window=window, max_output_tokens=output)
    limits, wanted = limits_of(model, SETTINGS, 32_000), output_limit(model, 32_000)
    request = ProviderRequest("m", "", (), (), max_output_tokens=wanted)
    most = with_answer_in_window(request, model, min(tokens, limits.usable)).max_output_tokens
    assert min(wanted, 8_192) <= most <= wanted
    assert min(tokens, limits.usable) + most <= window
    assert with_answer_in_window(request, model, 0).max_output_tokens == wanted


def test_a_long_answer_leaves_the_place_of_compaction_where_it_is():
    model = ModelInfo("lab", "m", context_window=200_000, max_output_tokens=64_000)
    assert limits_of(model, SETTINGS, 32_000) == limits_of(model, SETTINGS, 8_192)
    assert limits_of(model, SETTINGS, 4_096).usable == 200_000 - 4_096
    tools = [ToolSpec("read_file", "x" * 200_000, {})]
    assert tools_with_room(tools, "", model, 32_000) == tools_with_room(tools, "", model, 8_192)


def test_small_windows_keep_room_for_an_answer_and_cut_texts_sooner():
    small = ModelInfo("lab", "m", context_window=4_096)
    assert output_limit(small, 8_192) == 1_024
    assert text_limit(small, 60_000) == 4_096
    assert text_limit(ModelInfo("lab", "m"), 60_000) == 60_000


def test_a_file_is_read_up_to_the_tokens_that_the_tool_tells_of():
    assert "up to 25,000 tokens or 1/4 window" in ReadFileTool().spec.description
    wanted = TurnSettings().tool_result_chars * 5 // 2
    for window, tokens in ((1_000_000, 25_000), (200_000, 25_000), (32_000, 8_000)):
        assert text_limit(ModelInfo("lab", "m", context_window=window), wanted) == 4 * tokens


def test_a_small_window_keeps_the_tools_that_matter_most():
    tools = [ToolSpec(name, "x" * 2_500, {}) for name in ("fetch_url", "read_file", "edit_file")]
    small = ModelInfo("lab", "m", context_window=4_096)
    assert tools_with_room(tools, "short", small, 1_000) == {"read_file", "edit_file"}
    assert tools_with_room(tools, "short", ModelInfo("lab", "m"), 1_000) == {"fetch_url", "read_file", "edit_file"}


def test_what_does_not_fit_is_said_in_one_sentence():
    model = ModelInfo("lab", "m", context_window=4_096)
    limits = limits_of(model, SETTINGS, 8_192)
    assert "System prompt and tools alone have about 5,000 tokens" in str(does_not_fit(model, limits, 6_000, 5_000))
    assert "takes 3,072 beside its answer" in str(does_not_fit(model, limits, 6_000, 500))


def test_every_part_of_a_message_counts():
    parts: tuple[Part, ...] = (
        TextPart("x" * 470),
        ThinkingPart("x" * 470),
        ResourcePart("file:///a", "a", "x" * 470),
        ToolCallPart(ToolCallId("1"), "read_file", "x" * 470),
        ToolResultPart(ToolCallId("1"), "x" * 470),
    )
    assert all(100 <= messages_tokens([message(part)], "m") <= 140 for part in parts)
    assert messages_tokens([message(ImagePart("image/png", "A" * 9_999))], "m") == IMAGE_TOKENS + 4
    assert messages_tokens([message(ImagePart("image/png", "A", "", 750, 200))], "m") == 204
    # Bytes, not characters: a character of Japanese is more than half a token, one of English a quarter.
    assert messages_tokens([message(TextPart("海" * 380))], "m") > 240
    assert weight_per_token("anthropic/claude-x") < weight_per_token("gpt-x")


@given(st.floats(0.5, 2.5), st.integers(500, 100_000))
def test_the_estimate_learns_from_counts(ratio: float, estimate: int):
    known = Calibration()
    assert known.tokens("m", estimate) == estimate
    for _ in range(8):
        known.learn("m", estimate, round(estimate * ratio))
    assert abs(known.tokens("m", estimate) - estimate * ratio) <= estimate * 0.02 + 1
    assert known.tokens("other", estimate) == estimate


def test_small_requests_and_absurd_counts_teach_little():
    known = Calibration()
    known.learn("m", 50, 5_000)
    assert known.known() == {}
    known.learn("m", 1_000, 90_000)
    assert known.known() == {"m": 3.0}
    assert prompt_tokens(Usage(1, 2, 3, 4)) == 8


def test_a_break_of_the_prefix_is_named():
    hello = REQUEST.messages[0]
    longer = replace(REQUEST, messages=(hello, replace(hello, message_id=MessageId("b"))))
    assert changes(REQUEST, longer) == ()
    assert changes(longer, REQUEST) == ("history",)
    assert changes(REQUEST, replace(REQUEST, volatile="other")) == ()
    assert changes(REQUEST, replace(REQUEST, model="n", system="Another.")) == ("model", "system")
    assert changes(REQUEST, replace(REQUEST, tools=REQUEST.tools[:1])) == ("tools (-write_file)",)
    assert changes(REQUEST, replace(REQUEST, tools=REQUEST.tools[::-1])) == ("tools (order)",)
    other = ToolSpec("read_file", "Reads files.", {})
    assert changes(REQUEST, replace(REQUEST, tools=(other, REQUEST.tools[1]))) == ("tools (read_file)",)


def test_the_detector_tells_what_happened_last():
    detector = BreakDetector()
    assert detector.saw(REQUEST) == ""
    assert detector.summary() == ""
    assert detector.saw(REQUEST) == ""
    assert detector.summary() == "every one of 2 requests began with the one before"
    detector.expect("compaction")
    assert detector.saw(replace(REQUEST, messages=())) == "history (compaction)"
    assert detector.summary() == "broken once in 3 requests, in the last one: history (compaction)"
    assert detector.saw(replace(REQUEST, messages=())) == ""
    assert detector.saw(replace(REQUEST, model="n")) == "model"
    assert detector.summary() == "broken 2 times in 5 requests, in the last one: model"
    assert request_tokens(REQUEST) > 0
