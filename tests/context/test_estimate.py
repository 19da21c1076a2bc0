"""What is remembered of a conversation gives the same estimate as looking at it again."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.context.window import MessageTokens, messages_tokens, text_weight, tool_weight
from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.providers.base import ToolSpec

MODELS = ("claude-x", "gpt-x", "other")


@given(st.lists(st.tuples(st.text(max_size=30), st.sampled_from(MODELS), st.booleans()), max_size=12))
def test_messages_that_are_known_count_as_those_that_are_not(steps: list[tuple[str, str, bool]]):
    known, history = MessageTokens(), list[Message]()
    for text, model, starts_anew in steps:
        history = [] if starts_anew else history
        history.append(Message(MessageId("msg_1"), Role.USER, (TextPart(text),)))
        assert known.of(history, model) == messages_tokens(history, model)


def test_tools_of_the_same_name_have_their_own_size():
    sizes = [tool_weight(ToolSpec("a", "b" * number, {"type": "object"})) for number in range(2_000)]
    assert sizes == [sizes[0] + number for number in range(2_000)]


def test_digits_and_marks_weigh_more_than_letters_blanks_and_other_scripts():
    assert text_weight("ab c\n") == 5
    assert text_weight("äß你") == 7
    assert text_weight("1,2") == 9
    assert text_weight('{"a":1}') == 6 * 3 + 1
    assert text_weight("\ud800") == 3
