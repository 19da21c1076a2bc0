import json
from enum import StrEnum
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from pattern_acp.domain.canonical import Json
from pattern_acp.tools.base import ToolInputError
from pattern_acp.tools.schema import input_schema, parse_arguments


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    count: Annotated[int, Meta(ge=1)] = 1


class Order(Struct, frozen=True, forbid_unknown_fields=True):
    title: Annotated[str, Meta(description="What it is.", min_length=1)]
    items: Annotated[tuple[Item, ...], Meta(min_length=1)]
    size: Size = Size.SMALL
    rush: bool = False
    days: Annotated[int, Meta(ge=1, le=30)] | None = None


def read(**values: Json) -> Order:
    return parse_arguments({"title": "t", "items": [{"name": "a"}], **values}, Order)


def test_the_schema_is_one_inline_object_of_what_a_model_needs():
    assert input_schema(Order) == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "What it is."},
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string"}, "count": {"type": "integer"}},
                    "required": ["name"],
                },
            },
            "size": {"type": "string", "enum": ["large", "small"]},
            "rush": {"type": "boolean"},
            "days": {"type": "integer"},
        },
        "required": ["title", "items"],
    }


class Parcel(Struct, frozen=True, forbid_unknown_fields=True):
    size: Annotated[Size, Meta(description="Of the box.")] = Size.SMALL
    inner: Annotated[Size | None, Meta(description="Of what is in it.")] = None


def test_a_description_beside_enumerated_words_reaches_the_model():
    words = {"type": "string", "enum": ["large", "small"]}
    assert input_schema(Parcel)["properties"] == {
        "size": {**words, "description": "Of the box."},
        "inner": {**words, "description": "Of what is in it."},
    }


@pytest.mark.parametrize("days", [3, "3", " 3 ", 3.0])
def test_a_whole_number_may_come_as_text_or_as_a_float(days: Json):
    assert read(days=days).days == 3


def test_null_stands_for_an_optional_argument_that_is_not_given():
    assert read(days=None, rush=None, size=None) == read()


def test_a_list_may_come_as_json_text():
    assert read(items=json.dumps([{"name": "a"}, {"name": "b", "count": "2"}])).items == (Item("a"), Item("b", 2))


def test_one_object_is_taken_for_a_list_of_one():
    assert read(items={"name": "a"}).items == (Item("a"),)
    assert read(items='{"name": "a"}').items == (Item("a"),)


def test_an_item_of_a_list_may_come_as_json_text():
    assert read(items=['{"name": "a"}']).items == (Item("a"),)


def test_the_case_of_an_enumerated_word_does_not_count():
    assert read(size=" Large").size is Size.LARGE


def test_a_boolean_may_come_as_a_word():
    assert read(rush="True").rush is True


REFUSED: list[tuple[dict[str, Json], str]] = [
    ({"title": 5}, "`title` must be a string, but a number came."),
    ({"title": None}, "`title` must be a string, but null came."),
    ({"title": " "}, "`title` must not be empty."),
    ({"items": []}, "`items` must have at least 1 item."),
    ({"items": [{"name": ["x"]}]}, "`items[0].name` must be a string, but a list came."),
    ({"items": [{}]}, "`items[0].name` is missing; give a string."),
    ({"items": "no"}, "`items` must be a list; each item is an object with name, count, but a string came."),
    ({"days": "soon"}, "`days` must be a whole number, but a string came."),
    ({"days": 1.5}, "`days` must be a whole number, but a number came."),
    ({"days": True}, "`days` must be a whole number, but a boolean came."),
    ({"days": 0}, "`days` must be at least 1."),
    ({"days": 31}, "`days` must be at most 30."),
    ({"size": "huge"}, "`size` must be one of small, large, but another word came."),
    ({"rush": 1}, "`rush` must be true or false, but a number came."),
    (
        {"titel": "x"},
        "`titel` is not an argument; did you mean `title`? The arguments are title, items, size, rush, days.",
    ),
    ({"zzz": 1}, "`zzz` is not an argument; the arguments are title, items, size, rush, days."),
]


@pytest.mark.parametrize(("values", "sentence"), REFUSED)
def test_an_error_names_the_field_what_was_expected_and_what_came(values: dict[str, Json], sentence: str):
    with pytest.raises(ToolInputError) as caught:
        read(**values)
    assert str(caught.value) == sentence


def test_a_missing_argument_is_named():
    with pytest.raises(ToolInputError, match="`items` is missing; give a list"):
        parse_arguments({"title": "t"}, Order)


json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "count", "x"]), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["title", "items", "size", "rush", "days", "other"]), json_values))
def test_any_object_is_either_read_or_refused_with_a_sentence(raw: dict[str, Json]):
    sentence = "`nothing` is wrong."
    try:
        parse_arguments(raw, Order)
    except ToolInputError as error:
        sentence = str(error)
    assert sentence.startswith("`")
    assert sentence.endswith(".")


@pytest.mark.parametrize("count", [10**30, -(10**30), 2**63, "9" * 30, 1e300])
def test_a_number_that_no_database_or_list_takes_is_refused_in_a_sentence(count: Json):
    with pytest.raises(ToolInputError, match=r"`items\[0\]\.count` must be"):
        read(items=[{"name": "a", "count": count}])


def test_an_argument_that_is_not_listed_is_read_all_the_same():
    schema = input_schema(Order, unlisted=("days", "items.count"))
    listed = json.dumps(schema)
    assert "days" not in listed
    assert "count" not in listed
    assert read(days=3, items=[{"name": "a", "count": 2}]) == Order("t", (Item("a", 2),), days=3)


@pytest.mark.parametrize("name", ["title", "items.name", "nothing", "size.count"])
def test_only_an_optional_argument_can_be_left_out(name: str):
    with pytest.raises(TypeError, match="no optional argument"):
        input_schema(Order, unlisted=(name,))
