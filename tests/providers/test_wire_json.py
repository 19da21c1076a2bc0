"""JSON as requests carry it."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.providers.base import ProviderEvent, TextDelta, ToolCallBegun, ToolCallFragment
from pattern_acp.providers.streaming import HalvesJoiner
from pattern_acp.providers.wire_json import arguments_object, decode_event, to_bytes

ANY_TEXT = st.text(st.characters(codec=None))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


def key_on_the_wire(item: tuple[str, object]) -> str:
    return item[0].encode("utf-8", "replace").decode()


@given(st.lists(st.tuples(ANY_TEXT, VALUES), max_size=4, unique_by=key_on_the_wire).map(dict))
def test_a_body_has_the_same_bytes_whichever_way_it_is_written(body: JsonObject) -> None:
    written = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    assert to_bytes(body) == written.encode("utf-8", "replace")


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert to_bytes({"text": "a\ud800b"}) == b'{"text":"a?b"}'


def test_arguments_nested_deeper_than_a_parser_goes_are_kept_as_text():
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    assert arguments_object(deep) == {"invalid_json": deep}


@given(ANY_TEXT)
def test_half_of_a_surrogate_pair_in_an_event_is_read(text: str):
    units = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    assert decode_event(json.dumps({"text": text}), dict[str, str]) == {"text": units}


@given(ANY_TEXT, st.lists(st.integers(1, 3)))
def test_a_text_that_is_cut_between_any_of_its_utf16_units_is_joined_exactly(text: str, sizes: list[int]):
    units = text.encode("utf-16-le", "surrogatepass")
    joiner, events, start = HalvesJoiner(), list[ProviderEvent](), 0
    for size in [*sizes, len(text) * 2]:
        piece = units[start : start + 2 * size].decode("utf-16-le", "surrogatepass")
        start += 2 * size
        events += joiner.take(TextDelta(piece))
    events += joiner.end()
    joined = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert joined == units[:start].decode("utf-16-le", "replace")


def test_halves_of_different_texts_are_not_joined():
    joiner = HalvesJoiner()
    events: list[ProviderEvent] = [
        TextDelta("a\ud83d"),
        ToolCallBegun(0, "c", "x\ud83d"),
        ToolCallFragment(0, "\ude00\ud83d"),
        ToolCallFragment(1, "\ude00"),
    ]
    assert [each for event in events for each in joiner.take(event)] == [
        TextDelta("a"),
        TextDelta("\ufffd"),
        ToolCallBegun(0, "c", "x\ufffd"),
        ToolCallFragment(0, "\ufffd"),
        ToolCallFragment(0, "\ufffd"),
        ToolCallFragment(1, "\ufffd"),
    ]


class Inner(msgspec.Struct):
    """One of a list."""

    index: int | None = None
    words: str | dict[str, object] | None = None


class Outer(msgspec.Struct):
    """An event."""

    name: str = ""
    is_last: bool | None = None
    inner: list[Inner] | None = None
    any: object = None


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ('{"name":null,"inner":[null,{"index":"1","words":5}],"any":[1]}', Outer("", None, [Inner(1, "5")], [1])),
        ('{"inner":{"index":2.0}}', Outer("", None, [Inner(2)])),
        ('{"inner":[]}', Outer("", None, [])),
        ('{"inner":"","is_last":"true","name":17}', Outer("17", True)),
        ('{"inner":{},"is_last":1}', Outer("", True, [])),
        ('{"name":["a",{"text":"b"},{"content":[{"text":"c"}]},{}]}', Outer("abc")),
        ('{"inner":[{"words":{"a":1}}]}', Outer("", None, [Inner(None, {"a": 1})])),
        ('{"name":null,"inner":[{"words":"null"}]}', Outer("", None, [Inner(None, "null")])),
        ('{"name":null,"other":{"deep":[1]}}', Outer()),
    ],
)
def test_slips_of_servers_are_read_as_what_they_mean(data: str, value: Outer):
    assert decode_event(data, Outer) == value


@pytest.mark.parametrize(
    "data", ["5", "[]", "null", '{"inner":5}', '{"inner":["a"]}', '{"inner":[{"index":"x"}]}', '{"name":true}']
)
def test_what_has_no_plain_meaning_does_not_fit(data: str):
    with pytest.raises(msgspec.ValidationError):
        decode_event(data, Outer)


def test_a_written_out_escape_is_no_half():
    text = json.dumps({"text": "the escape \\ud83d"})[:-2] + '\\ud83d"}'
    assert decode_event(text, dict[str, str]) == {"text": "the escape \\ud83d\ud83d"}
