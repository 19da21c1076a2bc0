"""JSON Schema -> the subset of it that Gemini's function declarations take.

Owns: the conversion. Pure. What is kept: type, description, enumerations of text, items, properties, required, anyOf,
format and the limits of length, size and value. `$ref` is put in place, `oneOf` becomes anyOf, `allOf` one object,
`const` an enumeration, null in a list of types becomes `nullable`. Everything else is left out: the arguments are
checked against the whole schema when a call comes.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pattern_acp.domain.canonical import Json, JsonObject

_KEPT = (
    "description",
    "format",
    "maximum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "minimum",
    "minItems",
    "minLength",
    "minProperties",
    "pattern",
    "title",
)
_FORMATS = {"string": ("enum", "date-time"), "integer": ("int32", "int64"), "number": ("float", "double")}
"""Gemini refuses a whole request for a format that it does not know."""

_DEEPEST = 16
"""What is nested deeper is an object of any form, as is a definition inside itself."""

_Seen: TypeAlias = frozenset[str]
"""References that the node at hand is inside of."""


def convert_schema(schema: JsonObject) -> JsonObject:
    """The declaration's `parameters`; empty for a tool without arguments, which must have none."""
    converted = _convert(schema, schema, frozenset(), 0)
    return converted if converted.get("properties") else {}


def _convert(node: Json, root: JsonObject, seen: _Seen, depth: int) -> dict[str, Json]:
    if not isinstance(node, Mapping) or depth > _DEEPEST:
        return {"type": "object"}
    node, seen = _resolved(node, root, seen)
    node, seen = _merged(node, root, seen)
    kind, is_nullable = _type_of(node)
    converted: dict[str, Json] = {"type": kind} if kind else {}
    if is_nullable:
        converted["nullable"] = True
    converted |= {key: node[key] for key in _KEPT if key in node}
    if converted.get("format") not in _FORMATS.get(kind, ()):
        converted.pop("format", None)
    words = [node["const"]] if "const" in node else _list(node.get("enum"))
    if words and all(isinstance(word, str) for word in words):
        converted |= {"type": "string", "enum": [*words]}
    choices = [
        _convert(choice, root, seen, depth + 1) for choice in _list(node.get("anyOf")) or _list(node.get("oneOf"))
    ]
    _add_choices(converted, choices)
    if kind == "array":
        converted["items"] = _convert(node.get("items") or {"type": "string"}, root, seen, depth + 1)
    properties = _object(node.get("properties"))
    if properties:
        converted["properties"] = {
            name: _convert(properties[name], root, seen, depth + 1) for name in sorted(properties)
        }
        required = [name for name in _list(node.get("required")) if isinstance(name, str) and name in properties]
        converted |= {"required": required} if required else {}
    return converted or {"type": "object"}


def _add_choices(converted: dict[str, Json], choices: list[dict[str, Json]]) -> None:
    """One choice is taken as it is; the choice null says that the value may be left empty."""
    kinds = [choice for choice in choices if choice.get("type") != "null"]
    if len(kinds) < len(choices):
        converted["nullable"] = True
    if len(kinds) == 1:
        converted |= {key: value for key, value in kinds[0].items() if key not in converted}
    elif kinds:
        converted.pop("type", None)
        converted["anyOf"] = [*kinds]


def _resolved(node: JsonObject, root: JsonObject, seen: _Seen) -> tuple[JsonObject, _Seen]:
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return node, seen
    found: Json = root
    for step in reference.removeprefix("#/").split("/"):
        found = _object(found).get(step.replace("~1", "/").replace("~0", "~"))
    target = _object(found)
    if not target or "$ref" in target or reference in seen:
        return {"type": "object"}, seen
    return {**target, **{key: value for key, value in node.items() if key != "$ref"}}, seen | {reference}


def _merged(node: JsonObject, root: JsonObject, seen: _Seen) -> tuple[JsonObject, _Seen]:
    """A node with its `allOf` laid together."""
    merged: dict[str, Json] = {key: value for key, value in node.items() if key != "allOf"}
    for part in _list(node.get("allOf")):
        resolved, seen = _resolved(_object(part), root, seen)
        for key, value in resolved.items():
            known = merged.get(key)
            if isinstance(known, Mapping):
                merged[key] = {**known, **_object(value)}
            elif key == "required":
                merged[key] = [*_list(known), *(name for name in _list(value) if name not in _list(known))]
            else:
                merged.setdefault(key, value)
    return merged, seen


def _type_of(node: JsonObject) -> tuple[str, bool]:
    """The type, empty when the node names none, and whether null is one of several."""
    kind = node.get("type")
    if isinstance(kind, str):
        return kind, node.get("nullable") is True
    kinds = _list(kind)
    named = [str(item) for item in kinds if item != "null"]
    return (named[0] if named else "object" if "properties" in node else ""), "null" in kinds


def _list(value: Json) -> Sequence[Json]:
    return () if isinstance(value, str) or not isinstance(value, Sequence) else value


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}
