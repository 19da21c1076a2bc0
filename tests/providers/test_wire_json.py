"""JSON as requests carry it."""

import json

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.providers.wire_json import arguments_object, decode_event, to_bytes

ANY_TEXT = st.text(st.characters(codec=None))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(ANY_TEXT, VALUES, max_size=4))
def test_a_body_has_the_same_bytes_whichever_way_it_is_written(body: JsonObject) -> None:
    written = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    assert to_bytes(body) == written.encode("utf-8", "replace")


def test_a_lone_surrogate_becomes_a_question_mark() -> None:
    assert to_bytes({"text": "a\ud800b"}) == b'{"text":"a?b"}'


def test_arguments_nested_deeper_than_a_parser_goes_are_kept_as_text():
    deep = '{"a":' * 100_000 + "1" + "}" * 100_000
    assert arguments_object(deep) == {"invalid_json": deep}


@given(ANY_TEXT)
def test_half_of_a_surrogate_pair_in_an_event_becomes_a_replacement_character(text: str):
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert decode_event(json.dumps({"text": text}), dict[str, str]) == {"text": whole}


def test_a_written_out_escape_is_no_half():
    text = json.dumps({"text": "the escape \\ud83d"})[:-2] + '\\ud83d"}'
    assert decode_event(text, dict[str, str]) == {"text": "the escape \\ud83d\ufffd"}
