import json
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import Json, canonical_json, is_deeper


def nested(levels: int) -> Json:
    value: Json = 1
    for level in range(levels):
        value = [value, "text"] if level % 2 else {"a": value}
    return value


@given(levels=st.integers(0, 40), allowed=st.integers(0, 40))
def test_the_levels_of_objects_and_arrays_are_counted(levels: int, allowed: int):
    assert is_deeper(nested(levels), allowed) == (levels > allowed)


def test_nesting_deeper_than_the_call_stack_is_found():
    assert is_deeper(nested(100_000), 32)


class Colour(StrEnum):
    RED = "red"


texts = (
    st.text()
    | st.text(st.characters(categories=("Cs", "Cc", "Ll")))
    | st.just('\x7f\u2028\\/"\ud800')
    | st.just(Colour.RED)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(texts, inner),
)


@pytest.mark.slow
@given(value=values)
def test_the_canonical_form_is_that_of_the_json_module_with_sorted_keys(value: Json):
    spelled = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert canonical_json(value) == spelled.encode("utf-8", "surrogatepass")


@pytest.mark.slow
@given(value=values, place=st.integers(0, 2))
def test_a_float_is_refused_wherever_it_stands(value: Json, place: int):
    holder: tuple[Json, ...] = (1.5, {"a": [value, 1.5]}, (value, {"b": {"c": -0.0}}))
    with pytest.raises(TypeError, match="floats"):
        canonical_json(holder[place])


class Word(str):
    """Text of a type of its own."""

    __slots__ = ()


@pytest.mark.parametrize("value", [{"b": Word("x"), "a": 2**70}, {"\ud800": 1}, [Colour.RED, (), {}, None]])
def test_what_the_quick_encoder_cannot_write_has_the_same_form(value: Json):
    spelled = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    assert canonical_json(value) == spelled.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, [{"a": b""}]])
def test_what_json_has_no_form_for_is_refused(value: Json):
    with pytest.raises(TypeError):
        canonical_json(value)
