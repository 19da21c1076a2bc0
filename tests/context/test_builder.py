"""The three segments of a request."""

from msgspec.structs import replace

from pattern_acp.context.builder import MemoryView, Stable, build_request, volatile_segment
from pattern_acp.domain.clock import MessageId, SessionId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel, ToolSpec

MODEL = ModelInfo("wire", "model", max_output_tokens=4_000, thought_levels=(ThoughtLevel.HIGH,))
STABLE = Stable("You are Pattern.", (ToolSpec("read_file", "Read.", {"type": "object"}),))
HUMAN = MemoryView("human", "Who the person is.", "Likes tea.", 8_000)


def built(model: ModelInfo = MODEL, memory: tuple[MemoryView, ...] = (HUMAN,)) -> ProviderRequest:
    return build_request(
        session_id=SessionId("ses_1"),
        stable=STABLE,
        model=model,
        thought_level=ThoughtLevel.HIGH,
        history=[Message(MessageId("msg_1"), Role.USER, (TextPart("Go."),))],
        memory=memory,
        max_output_tokens=8_192,
    )


def test_a_change_of_memory_changes_the_last_segment_alone():
    before, after = built(), built(memory=(replace(HUMAN, text="Likes coffee."),))
    assert before.volatile != after.volatile
    assert replace(before, volatile="") == replace(after, volatile="")


def test_the_limits_of_the_model_are_kept():
    assert built().max_output_tokens == 4_000
    assert built().thought_level is ThoughtLevel.HIGH
    # A model without native calls gets them as text (providers/text_tools.py).
    assert built(replace(MODEL, calls_tools=False)).tools == built().tools


def test_the_cache_is_named_after_the_session():
    assert built().cache_key == "ses_1"


def test_memory_is_shown_with_its_label_and_its_size_once_it_is_half_full():
    full = replace(HUMAN, label="house", text="word " * 1_000)
    text = volatile_segment([HUMAN, replace(HUMAN, label="project", text=""), full], ["Plan mode."])
    assert '<memory_block label="human">' in text
    assert '<memory_block label="house" used="5000" limit="8000">' in text
    assert "Likes tea." in text
    assert "(empty)" in text
    assert "<note>Plan mode.</note>" in text
    assert volatile_segment([], []) == ""
