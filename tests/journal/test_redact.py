"""What masking words leaves of reasoning that its provider signed."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import Json, canonical_json
from pattern_acp.domain.clock import MessageId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart, ThinkingPart
from pattern_acp.journal.codec import decode, encode
from pattern_acp.journal.events import MessageRecorded
from pattern_acp.journal.redact import without_broken_seals

SCALARS: st.SearchStrategy[Json] = st.one_of(st.none(), st.booleans(), st.text(max_size=5))
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "signature", "text"]), inner, max_size=3),
    ),
    max_leaves=8,
)


def masked(value: Json) -> Json:
    if isinstance(value, str):
        return value.replace("plum", "[forgotten]")
    if isinstance(value, list):
        return [masked(item) for item in value]
    return {key: masked(item) for key, item in value.items()} if isinstance(value, dict) else value


def test_reasoning_whose_words_changed_loses_its_signature_and_other_reasoning_keeps_it():
    parts = (
        ThinkingPart("They like plums.", signature="sealed-1", wire="anthropic"),
        ThinkingPart("They asked.", signature="sealed-2", wire="anthropic"),
        TextPart("A plum."),
    )
    stored = encode(MessageRecorded(TurnId("t"), Message(MessageId("m"), Role.ASSISTANT, parts)))
    before = json.loads(canonical_json(stored.payload))
    payload = without_broken_seals(before, masked(before))
    assert isinstance(payload, dict)
    event = decode(stored.kind, stored.version, payload)
    assert isinstance(event, MessageRecorded)
    changed, kept, text = event.message.parts
    assert changed == ThinkingPart("They like [forgotten]s.", wire="anthropic")
    assert (kept, text) == (parts[1], TextPart("A [forgotten]."))


@given(VALUES)
def test_what_was_not_changed_stays_as_it_is(value: Json):
    assert without_broken_seals(value, value) == value
