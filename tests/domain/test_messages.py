"""Conversations that continue from earlier ones."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.messages import Message, Role, TextPart, begins_with


def prompt(text: str) -> Message:
    return Message(MessageId(text), Role.USER, (TextPart(text),))


CONVERSATIONS = st.lists(st.sampled_from("ab").map(prompt), max_size=5)


@given(CONVERSATIONS, CONVERSATIONS)
def test_a_conversation_continues_from_another_that_has_its_first_messages(
    messages: list[Message], before: list[Message]
):
    assert begins_with(messages, before) == (messages[: len(before)] == before)
    assert begins_with(tuple(messages), before) == begins_with(messages, tuple(before))
    assert begins_with([*before, *messages], before)
