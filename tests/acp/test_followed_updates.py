"""A message that is followed from the journal is shown once, however much of it was committed before its end."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp import schema
from pattern_acp.acp.updates import FollowedUpdates
from pattern_acp.domain.clock import MessageId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart, ThinkingPart
from pattern_acp.journal.events import MessagePartial, MessageRecorded

TURN, MESSAGE = TurnId("turn_1"), MessageId("msg_1")


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=5), st.integers(0, 5), st.booleans())
def test_text_and_reasoning_are_shown_once(pieces: list[tuple[str, str]], committed: int, whole: bool):
    events: list[MessagePartial | MessageRecorded] = []
    said = thought = ""
    for text, thinking in pieces[:committed]:
        if whole:
            # As the first releases recorded it.
            events.append(MessagePartial(TURN, MESSAGE, said + text, thought + thinking))
        else:
            events.append(MessagePartial(TURN, MESSAGE, text, thinking, len(said), len(thought)))
        said, thought = said + text, thought + thinking
    said = "".join(text for text, _ in pieces)
    thought = "".join(thinking for _, thinking in pieces)
    parts = (ThinkingPart(thought, ""), TextPart(said))
    events.append(MessageRecorded(TURN, Message(MESSAGE, Role.ASSISTANT, parts)))

    followed = FollowedUpdates()
    shown: dict[type, str] = {schema.AgentMessageChunk: "", schema.AgentThoughtChunk: ""}
    for update in (update for event in events for update in followed.updates_of(event)):
        assert isinstance(update, schema.AgentMessageChunk | schema.AgentThoughtChunk)
        assert isinstance(update.content, schema.TextContent)
        shown[type(update)] += update.content.text
    assert shown == {schema.AgentMessageChunk: said, schema.AgentThoughtChunk: thought}
