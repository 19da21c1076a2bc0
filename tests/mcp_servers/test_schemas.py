"""What is sent to models as the schema of a server's tool is sound, whatever the server wrote."""

import json
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from msgspec.structs import replace

from pattern_acp.config.settings import Wire
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.mcp_servers.listing import (
    UnusableSchemaError,
    is_sound,
    named_arguments,
    own_names,
    plain_arguments,
    plain_name,
    usable_schema,
)
from pattern_acp.providers.base import ToolSpec
from tests.support.conversations import everything, request
from tests.support.vendor_types import judge_body
from tests.support.wires import WIRES, body_for

TEXT: JsonObject = {"type": "string"}


def with_argument(schema: Json) -> JsonObject:
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "usable"),
    [
        (None, {"type": "object", "properties": {}}),
        ([], {"type": "object", "properties": {}}),
        ({}, {"type": "object", "properties": {}}),
        ({"$schema": "x", "$id": "y"}, {"type": "object", "properties": {}}),
        ({"type": None, "properties": {"a": TEXT}}, with_argument(TEXT)),
        ({"type": ["object", "null"], "properties": {"a": TEXT}}, with_argument(TEXT)),
        ({"type": "object", "properties": None, "required": None}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": [], "required": True}, {"type": "object", "properties": {}}),
        (
            {"type": "object", "properties": {"a": TEXT, "required": ["a", "gone"]}},
            {**with_argument(TEXT), "required": ["a"]},
        ),
        (with_argument({"type": "string", "required": True}), {**with_argument(TEXT), "required": ["a"]}),
        (with_argument({"type": "string", "required": False}), with_argument(TEXT)),
        (with_argument(None), with_argument({})),
        (with_argument(True), with_argument({})),
        (with_argument(False), {"type": "object", "properties": {}}),
        (with_argument("string"), with_argument(TEXT)),
        (with_argument({"enum": ["A"], "type": "null"}), with_argument({"enum": ["A"], "type": "string"})),
        (
            with_argument({"type": "string", "enum": ["A", None]}),
            with_argument({"type": ["string", "null"], "enum": ["A", None]}),
        ),
        (with_argument({"type": "number", "enum": [1, 2]}), with_argument({"type": "number", "enum": [1, 2]})),
        (with_argument({"type": "string", "enum": []}), with_argument(TEXT)),
        (with_argument({"type": "any"}), with_argument({})),
        (with_argument({"type": "STRING"}), with_argument(TEXT)),
        (with_argument({"type": "int"}), with_argument({"type": "integer"})),
        (with_argument({"type": "array"}), with_argument({"type": "array", "items": {}})),
        (with_argument({"type": "array", "items": [TEXT]}), with_argument({"type": "array", "items": TEXT})),
        (
            with_argument({"type": "array", "items": [TEXT, {"type": "null"}], "additionalItems": False}),
            with_argument({"type": "array", "items": {"anyOf": [TEXT, {"type": "null"}]}}),
        ),
        (
            with_argument({"type": "integer", "minimum": 0, "exclusiveMinimum": True, "maximum": "9", "multipleOf": 0}),
            with_argument({"type": "integer", "minimum": 0}),
        ),
        (with_argument({"type": "string", "description": 5, "anyOf": []}), with_argument(TEXT)),
        (with_argument({"$ref": "https://elsewhere/schema"}), with_argument({})),
        (with_argument({"$ref": "#/$defs/Gone"}), with_argument({})),
    ],
)
def test_what_is_unsound_is_repaired(schema: Json, usable: JsonObject):
    assert usable_schema(schema) == usable


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("object", "no JSON Schema"),
        (5, "no JSON Schema"),
        ([TEXT], "no JSON Schema"),
        (TEXT, "of type string"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"anyOf": [TEXT, {"type": "null"}]}, "string or null"),
        ({"$defs": {"A": {"anyOf": [{"$ref": "#/$defs/A"}]}}, "$ref": "#/$defs/A"}, "refers to itself"),
    ],
)
def test_what_cannot_be_arguments_is_refused_with_the_reason(schema: Json, words: str):
    with pytest.raises(UnusableSchemaError, match=words):
        usable_schema(schema)


def test_a_schema_that_is_nested_without_end_is_refused():
    schema: JsonObject = TEXT
    for _ in range(100):
        schema = with_argument(schema)
    with pytest.raises(UnusableSchemaError, match="deeper than"):
        usable_schema(schema)


def test_alternatives_at_the_root_become_one_object():
    one = {"type": "object", "properties": {"path": TEXT, "id": TEXT}, "required": ["id", "path"]}
    other = {"properties": {"id": {"type": "integer"}}, "required": ["id"]}
    joined: JsonObject = {
        "type": "object",
        "properties": {"path": TEXT, "id": {"anyOf": [TEXT, {"type": "integer"}]}},
        "required": ["id"],
    }
    assert usable_schema({"anyOf": [one, other]}) == joined
    assert usable_schema({"oneOf": [one, other]}) == joined
    assert usable_schema({"allOf": [one, other]}) == {**joined, "required": ["id", "path"]}
    # A tool that takes one of two arguments, as it is mostly written.
    either = {**with_argument(TEXT), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert usable_schema(either) == with_argument(TEXT)
    referring = {"$ref": "#/$defs/A", "$defs": {"A": {**with_argument(TEXT), "required": ["a"]}}}
    assert usable_schema(referring) == {**with_argument(TEXT), "required": ["a"], "$defs": referring["$defs"]}


def test_a_sound_schema_stays_as_it_is():
    schema: JsonObject = {
        "type": "object",
        "title": "Arguments",
        "properties": {
            "a": {"type": "string", "default": None, "minLength": 1, "x-hint": {"required": True}},
            "b": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/B"}]},
            "required": {"type": "array", "items": {"type": ["integer", "null"]}, "uniqueItems": True},
            "enum": {"const": None, "examples": [{"type": "any"}]},
        },
        "required": ["a"],
        "additionalProperties": False,
        "$defs": {"B": {"type": "object", "properties": {"again": {"$ref": "#/$defs/B"}}}},
    }
    assert usable_schema(schema) == schema
    assert is_sound(schema)
    assert is_sound({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert is_sound(TEXT)
    assert not is_sound(None)
    assert not is_sound(with_argument(None))


def test_arguments_have_names_that_every_vendor_takes_and_the_server_gets_its_own():
    inner: JsonObject = {"type": "object", "properties": {"a b": TEXT}, "required": ["a b"]}
    schema: JsonObject = {
        "type": "object",
        "properties": {"$filter": TEXT, "größe": inner, "rows": {"type": "array", "items": inner}, "x" * 70: TEXT},
        "required": ["$filter", "rows"],
        "anyOf": [{"properties": {"a b": {"$ref": "#/properties/$filter"}}}],
    }
    plain = plain_arguments(schema)
    properties = plain["properties"]
    assert isinstance(properties, dict)
    names = [*properties]
    assert all(re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name) for name in names)
    assert plain["required"] == [names[0], "rows"]
    assert plain["anyOf"] == [{"properties": {plain_name("a b"): {"$ref": f"#/properties/{names[0]}"}}}]
    inside: JsonObject = {plain_name("a b"): "v"}
    written: JsonObject = {names[0]: "q", names[1]: inside, "rows": [inside], "?": 1}
    own: JsonObject = {"$filter": "q", "größe": {"a b": "v"}, "rows": [{"a b": "v"}], "?": 1}
    assert named_arguments(written, own_names(schema)) == own


def test_a_schema_whose_arguments_have_plain_names_stays_as_it_is():
    schema: JsonObject = {**with_argument({"type": "array", "items": with_argument(TEXT)}), "required": ["a"]}
    assert plain_arguments(schema) == schema
    assert own_names(schema) == {}


WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "required",
        "enum",
        "const",
        "items",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
        "$defs",
        "a",
        "b",
        "not",
        "if",
        "additionalProperties",
        "minimum",
        "exclusiveMaximum",
        "minLength",
        "multipleOf",
        "pattern",
        "description",
        "default",
        "uniqueItems",
        "prefixItems",
        "dependencies",
        "dependentRequired",
        "patternProperties",
        "examples",
        "title",
        "format",
        "contains",
        "$odd name",
    ]
)
VALUES = st.sampled_from(
    ["string", "object", "null", "array", "any", "#/$defs/a", "#", "#/properties/a", "https://x/y", "a", "[", ""]
)
LEAVES = st.none() | st.booleans() | st.integers(-2, 10**30) | st.floats(allow_nan=False) | VALUES
ODD = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4))


@given(st.dictionaries(WORDS, ODD, max_size=5) | ODD)
def test_whatever_a_server_writes_is_refused_or_becomes_a_sound_object_that_stays_so(schema: Json):
    try:
        usable = usable_schema(schema)
    except UnusableSchemaError:
        return
    # Patterns are those of another language than the one they would be checked in.
    Draft202012Validator.check_schema(usable, format_checker=FormatChecker(()))
    assert usable["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$ref", "not", "enum"} & usable.keys()
    assert usable_schema(usable) == usable
    json.dumps(usable)


@pytest.mark.parametrize("wire", WIRES)
@given(st.dictionaries(WORDS, ODD, max_size=5) | ODD)
def test_every_vendors_types_accept_a_request_with_whatever_tool_a_server_has(wire: Wire, schema: Json):
    try:
        usable = plain_arguments(usable_schema(schema))
    except UnusableSchemaError:
        return
    Draft202012Validator.check_schema(usable, format_checker=FormatChecker(()))
    asked = replace(request(*everything("mine")), tools=(ToolSpec("odd__tool", "Odd.", usable),))
    body = body_for(wire, asked)
    judge_body(wire, body)
    for properties, required in objects_in(json.loads(body)):
        assert all(re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name) for name in properties)
        if wire == "gemini":
            assert set(required) <= set(properties), "Google refuses to need what there is not"


def objects_in(value: Json) -> Iterator[tuple[JsonObject, list[str]]]:
    """The properties of all schemas of objects in a body, and which of them are required."""
    if isinstance(value, dict):
        properties, required = value.get("properties"), value.get("required", [])
        if isinstance(properties, dict) and value.get("type") == "object" and isinstance(required, list):
            yield properties, [str(name) for name in required]
        for key, item in value.items():
            yield from objects_in(item) if key not in {"default", "const", "enum", "examples"} else ()
    elif isinstance(value, list):
        for item in value:
            yield from objects_in(item)
