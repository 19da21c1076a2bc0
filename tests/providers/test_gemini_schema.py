"""JSON Schema in the subset that Gemini takes."""

from google.genai import types as google
from hypothesis import example, given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.providers.gemini import convert_schema
from pattern_acp.tools.registry import default_tools


def converted(**property_schema: Json) -> Json:
    """What becomes of one property."""
    properties = convert_schema({"type": "object", "properties": {"x": property_schema}})["properties"]
    assert isinstance(properties, dict)
    return properties["x"]


def test_what_gemini_knows_is_kept_and_the_rest_left_out():
    schema: JsonObject = {
        "type": "object",
        "$schema": "x",
        "additionalProperties": False,
        "properties": {
            "b": {"type": "integer", "minimum": 1, "exclusiveMaximum": 9, "default": 3, "description": "A number."},
            "a": {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}, "minItems": 1},
        },
        "required": ["b", "gone"],
    }
    assert convert_schema(schema) == {
        "type": "object",
        "properties": {
            "a": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["p", "q"]}},
            "b": {"type": "integer", "minimum": 1, "description": "A number."},
        },
        "required": ["b"],
    }


def test_a_tool_without_arguments_declares_none():
    assert convert_schema({"type": "object", "properties": {}}) == {}


def test_null_among_types_or_choices_makes_a_value_nullable():
    expected = {"type": "string", "nullable": True}
    assert converted(type=["string", "null"]) == expected
    assert converted(anyOf=[{"type": "string"}, {"type": "null"}]) == {"nullable": True, "type": "string"}


def test_choices_constants_and_references_find_a_form():
    assert converted(oneOf=[{"type": "string"}, {"type": "integer"}]) == {
        "anyOf": [{"type": "string"}, {"type": "integer"}]
    }
    assert converted(const="on") == {"type": "string", "enum": ["on"]}
    assert converted(enum=[1, 2], type="integer") == {"type": "integer"}
    schema: JsonObject = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a~1b", "description": "Own."}},
        "$defs": {"a/b": {"type": "string", "format": "uri"}},
    }
    assert convert_schema(schema)["properties"] == {"x": {"type": "string", "description": "Own."}}


def test_parts_of_one_object_are_laid_together():
    one: Json = {"properties": {"a": {"type": "string"}}, "required": ["a"]}
    two: Json = {"properties": {"b": {"type": "string"}}, "required": ["b"]}
    assert converted(type="object", allOf=[one, two]) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "required": ["a", "b"],
    }


def test_a_schema_that_refers_to_itself_ends():
    schema: JsonObject = {
        "type": "object",
        "properties": {"child": {"$ref": "#/$defs/node"}, "lost": {"$ref": "#/nowhere"}},
        "$defs": {"node": {"type": "object", "properties": {"child": {"$ref": "#/$defs/node"}}}},
    }
    assert google.Schema.model_validate(convert_schema(schema))


def test_every_tool_of_ours_is_a_declaration_that_google_takes():
    for tool in default_tools():
        parameters = convert_schema(tool.spec.input_schema)
        google.Schema.model_validate(parameters)
        assert parameters["properties"]


_LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["string", "object", "array", "null", "x"])
_KEYS = st.sampled_from(
    ["type", "properties", "items", "required", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "format", "x"]
)
_SCHEMAS = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


@example({"required": [[]], "properties": {"type": None}})
@given(st.dictionaries(_KEYS, _SCHEMAS, max_size=5))
def test_no_schema_of_a_server_breaks_the_conversion(schema: dict[str, Json]):
    assert isinstance(convert_schema({"type": "object", "properties": {"x": schema}}), dict)
