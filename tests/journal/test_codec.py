import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import Json, JsonObject, canonical_json
from pattern_acp.domain.clock import MessageId, ToolCallId, TurnId
from pattern_acp.domain.messages import ImagePart, Message, Role, TextPart, ToolResultPart
from pattern_acp.domain.tool_calls import (
    DiffContent,
    ImageContent,
    LinkContent,
    Location,
    Plan,
    PlanEntry,
    TerminalContent,
    TextContent,
    ToolCallStatus,
    ToolCallView,
    ToolContent,
    ToolKind,
)
from pattern_acp.journal import events
from pattern_acp.journal.codec import DamagedEventError, UnknownEventError, decode, decode_value, encode, encode_value
from pattern_acp.journal.events import Event
from pattern_acp.journal.turn_ends import put_together

TEXTS = st.text(st.characters(exclude_categories=()), max_size=20)
KEYS = st.one_of(st.sampled_from(["$float", "$object"]), TEXTS)
SCALARS: st.SearchStrategy[Json] = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=8,
)
OBJECTS: st.SearchStrategy[JsonObject] = st.dictionaries(KEYS, VALUES, max_size=3)
CONTENTS: st.SearchStrategy[ToolContent] = st.one_of(
    st.from_type(TextContent),
    st.from_type(ImageContent),
    st.from_type(DiffContent),
    st.from_type(TerminalContent),
    st.from_type(LinkContent),
)
CALLS = st.tuples(
    TEXTS.map(ToolCallId),
    TEXTS,
    TEXTS,
    st.sampled_from(ToolKind),
    OBJECTS,
    st.lists(st.from_type(Location), max_size=2).map(tuple),
    st.lists(CONTENTS, max_size=3).map(tuple),
).map(lambda fields: ToolCallView(*fields))
EVENT_TYPES: tuple[type[Event], ...] = get_args(Event)
PLAIN_EVENTS: st.SearchStrategy[Event] = st.one_of(
    *(
        st.builds(events.ToolCallStarted, turn_id=TEXTS.map(TurnId), call=CALLS)
        if event_type is events.ToolCallStarted
        else st.from_type(event_type)
        for event_type in EVENT_TYPES
        if event_type is not events.SubagentRecorded
    )
)
EVENTS: st.SearchStrategy[Event] = st.one_of(
    PLAIN_EVENTS,
    st.builds(
        events.SubagentRecorded,
        turn_id=TEXTS.map(TurnId),
        call_id=TEXTS.map(ToolCallId),
        thread_id=TEXTS,
        name=TEXTS,
        event=PLAIN_EVENTS,
    ),
)
CALL = ToolCallView(
    ToolCallId("call_1"),
    "read_file",
    "Read a.py",
    ToolKind.READ,
    {"path": "a.py", "ratio": 0.5},
    (Location("/w/a.py", 3),),
    (TextContent("hi"),),
)


def stored(event: Event) -> dict[str, Any]:
    """The payload of an event as it is read back from the database."""
    return json.loads(canonical_json(encode(event).payload))


@given(EVENTS)
def test_every_event_survives_canonical_json(event: Event):
    encoded = encode(event)
    parsed = json.loads(canonical_json(encoded.payload).decode("utf-8", "surrogatepass"))
    assert decode(encoded.kind, encoded.version, parsed) == event


@given(VALUES)
def test_any_value_of_a_model_survives_without_floats(value: Json):
    stored = json.loads(canonical_json(encode_value(value)).decode("utf-8", "surrogatepass"))
    found = decode_value(stored)
    assert found == value
    assert canonical_json(encode_value(found)) == canonical_json(encode_value(value))


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), -0.0, 1e308, 5e-324])
def test_extreme_floats_survive(number: float):
    assert repr(decode_value(encode_value(number))) == repr(number)


def test_the_stored_form_is_the_fields_by_name_and_a_type_for_each_part():
    message = Message(MessageId("msg_1"), Role.USER, (TextPart("hello"),))
    assert stored(events.TurnStarted(TurnId("turn_1"), message)) == {
        "turn_id": "turn_1",
        "message": {"message_id": "msg_1", "role": "user", "parts": [{"type": "text", "text": "hello"}]},
        "command": "",
    }
    assert stored(events.ToolCallStarted(TurnId("turn_1"), CALL)) == {
        "turn_id": "turn_1",
        "call": {
            "call_id": "call_1",
            "name": "read_file",
            "title": "Read a.py",
            "kind": "read",
            "raw_input": {"path": "a.py", "ratio": {"$float": "0.5"}},
            "locations": [{"path": "/w/a.py", "line": 3}],
            "content": [{"type": "text", "text": "hi"}],
        },
    }


def test_an_image_has_a_type_only_where_a_part_can_be_something_else():
    image = ImagePart("image/png", "AA==")
    fields = {"media_type": "image/png", "data": "AA==", "name": "", "width": 0, "height": 0}
    result = ToolResultPart(ToolCallId("call_1"), "seen", images=(image,))
    message = Message(MessageId("msg_1"), Role.TOOL, (image, result))
    parts = stored(events.MessageRecorded(TurnId("turn_1"), message))["message"]["parts"]
    assert parts[0] == {"type": "image", **fields}
    assert parts[1]["images"] == [fields]
    finished = events.ToolCallFinished(
        TurnId("turn_1"), ToolCallId("call_1"), ToolCallStatus.COMPLETED, "seen", images=(image,)
    )
    assert stored(finished)["images"] == [fields]


def test_fields_added_later_take_their_defaults_and_unknown_ones_are_ignored():
    stored = {"turn_id": "t", "call_id": "c", "status": "failed", "result_text": "no", "from_the_future": 1}
    expected = events.ToolCallFinished(TurnId("t"), ToolCallId("c"), ToolCallStatus.FAILED, "no")
    assert decode("tool_call_finished", 1, stored) == expected
    entry: JsonObject = {"content": "step", "note": "new"}
    assert decode("plan_updated", 1, {"turn_id": "t", "plan": {"entries": [entry]}}) == events.PlanUpdated(
        TurnId("t"), Plan((PlanEntry("step"),))
    )


def test_a_part_of_the_first_version_held_the_message_from_its_beginning():
    stored: JsonObject = {"turn_id": "t", "message_id": "m", "text": "One two", "thinking": "Hm"}
    whole = events.MessagePartial(TurnId("t"), MessageId("m"), "One two", "Hm")
    assert decode("message_partial", 1, stored) == whole
    assert put_together(events.MessagePartial(TurnId("t"), MessageId("m"), "One", ""), whole) == whole


@pytest.mark.parametrize(("kind", "version"), [("dream_recorded", 1), ("turn_ended", 7)])
def test_an_unknown_kind_or_version_is_named(kind: str, version: int):
    with pytest.raises(UnknownEventError, match=f"{kind}.*{version}") as caught:
        decode(kind, version, {})
    assert (caught.value.kind, caught.value.version) == (kind, version)


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("turn_ended", {"turn_id": "t"}),
        ("turn_ended", {"turn_id": "t", "stop_reason": "bored"}),
        ("turn_started", {"turn_id": "t", "message": "hello"}),
        (
            "turn_started",
            {"turn_id": "t", "message": {"message_id": "m", "role": "user", "parts": [{"type": "smell"}]}},
        ),
        ("tool_call_started", {"turn_id": "t", "call": {}}),
        ("tool_call_finished", {"turn_id": 3, "call_id": "c", "status": "failed", "result_text": ""}),
        ("message_recorded", {"turn_id": "t", "message": {}, "complete": 1}),
        ("subagent_recorded", {"turn_id": "t", "call_id": "c", "thread_id": "h", "name": "n", "event": {}}),
    ],
)
def test_a_payload_that_is_not_of_its_kind_is_damaged(kind: str, payload: JsonObject):
    with pytest.raises(DamagedEventError, match=kind):
        decode(kind, 1, payload)
