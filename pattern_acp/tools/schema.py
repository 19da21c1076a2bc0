"""Arguments of tools: from types to the schema that the model reads, and from what the model wrote to the types.

Owns: the JSON Schema form, the errors that go back to the model, and titles of calls that could not be prepared. Must
not know: what any tool does, or why a call failed.

Argument types are frozen msgspec structs. Reading is lenient exactly where models are known to slip (a number written
as a string, a list or object written as JSON text, one object where a list is wanted, null for "not given", the case of
an enumerated word) and strict everywhere else: a guess about what was meant could write to the wrong file.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import TypeVar

import msgspec
from msgspec import inspect as types

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.text_limits import SHOWN_NAME, one_line
from pattern_acp.tools.base import ToolInputError

LARGEST_NUMBER = 2**53 - 1
"""Largest whole number that every reader of JSON has exactly (RFC 8259, section 6)."""

_LEFT_OUT = frozenset({"title", "default", "minLength", "minItems", "minimum", "maximum", "additionalProperties"})
"""The constraints that we check ourselves when a call comes; the model would pay for them in every request."""

_NAMES: set[str] = set()
"""Names of the arguments of every type that became a schema."""

ArgumentsT = TypeVar("ArgumentsT", bound=msgspec.Struct)


def input_schema(arguments: type[msgspec.Struct], *, unlisted: Sequence[str] = ()) -> JsonObject:
    """The JSON Schema of an argument type: one inline object of names, types and descriptions.

    No request lists the optional arguments that `unlisted` names: few calls want them, or a result says when one does,
    and the model pays for every word. They are checked all the same when they come. A path leads to those of a list's
    items: "entries.priority".

    Raises:
        TypeError: the type uses something that no tool needs so far.
    """
    (root,), components = msgspec.json.schema_components((arguments,))
    # The docstring of an argument type speaks to programmers; the model pays for every word.
    definitions = {name: {**item, "description": None} for name, item in components.items()}
    schema = _compact(root, definitions)
    if not isinstance(schema, dict):
        raise TypeError("A tool's arguments must be one object.")
    _NAMES.update(_parameters(schema))
    for path in unlisted:
        _unlist(schema, path)
    return schema


def argument_names() -> frozenset[str]:
    """The names of the arguments of all tools that were imported, also of those that no request lists."""
    return frozenset(_NAMES)


def _parameters(schema: Json) -> Iterator[str]:
    """The names of what a schema describes, at any depth."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, Mapping) else ()
        for inner in schema.values():
            yield from _parameters(inner)
    elif isinstance(schema, Sequence) and not isinstance(schema, str):
        for inner in schema:
            yield from _parameters(inner)


def _unlist(schema: dict[str, Json], path: str) -> None:
    *lists, name = path.split(".")
    place: Json = schema
    for each in lists:
        place = _member(_member(_member(place, "properties"), each), "items")
    properties, required = _member(place, "properties"), _member(place, "required")
    if not isinstance(properties, dict) or name not in properties or (isinstance(required, list) and name in required):
        raise TypeError(f"There is no optional argument {path!r}.")
    del properties[name]


def _member(node: Json, name: str) -> Json:
    return node.get(name) if isinstance(node, dict) else None


@cache
def _form_of(arguments: type) -> types.Type:
    # Working it out takes a fifth of a millisecond, and each call asks.
    return types.type_info(arguments)


def parse_arguments(raw: JsonObject, arguments: type[ArgumentsT]) -> ArgumentsT:
    """Read the model's arguments.

    Raises:
        ToolInputError: the sentence names the field, what was expected and the type of what came, never its value.
    """
    value = _read(_form_of(arguments), raw, "")
    try:
        return msgspec.convert(value, arguments)
    except msgspec.ValidationError as error:
        sentence = f"The arguments do not fit the tool: {error}."
        raise ToolInputError(sentence) from error


def _compact(node: Json, definitions: Mapping[str, JsonObject]) -> Json:
    """The same schema with definitions in place and without what a model does not need: titles, defaults, null."""
    if isinstance(node, list):
        return [_compact(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _compact({**definitions[str(node["$ref"]).rpartition("/")[2]], **beside}, definitions)
    if "anyOf" in node:
        return _compact(_only_choice(node), definitions)
    compact: dict[str, Json] = {"type": "string"} if "enum" in node else {}
    for key, value in node.items():
        if key == "properties" and isinstance(value, dict):
            compact[key] = {name: _compact(item, definitions) for name, item in value.items()}
        elif key not in _LEFT_OUT and value not in ([], None):
            compact[key] = _compact(value, definitions)
    return compact


def _only_choice(node: dict[str, Json]) -> Json:
    choices = node["anyOf"]
    others = [item for item in choices if item != {"type": "null"}] if isinstance(choices, list) else []
    if len(others) != 1 or not isinstance(others[0], dict):
        sentence = "A tool argument is one type or null; write two arguments instead."
        raise TypeError(sentence)
    return {**{key: value for key, value in node.items() if key != "anyOf"}, **others[0]}


def _without_null(node: types.UnionType) -> types.Type:
    others = [item for item in node.types if not isinstance(item, types.NoneType)]
    if len(others) != 1:
        sentence = f"A tool argument is one type or null, not {node!r}."
        raise TypeError(sentence)
    return others[0]


def _read(node: types.Type, value: Json, path: str) -> Json:
    match node:
        case types.Metadata(type=inner):
            return _read(inner, value, path)
        case types.UnionType():
            return None if value is None else _read(_without_null(node), value, path)
        case types.StructType():
            return _read_struct(node, value, path)
        case types.VarTupleType():
            return _read_list(node, value, path)
        case types.EnumType(cls=cls):
            return _read_word(cls, value, path)
        case types.IntType():
            return _read_integer(node, value, path)
        case types.BoolType():
            return _read_boolean(value, path)
        case _:
            return _read_text(node, value, path)


def _read_struct(node: types.StructType, value: Json, path: str) -> Json:
    value = _from_json_text(value)
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object", value)
    fields = {field.encode_name: field for field in node.fields}
    read: dict[str, Json] = {}
    for key, item in value.items():
        place = f"{path}.{key}" if path else key
        field = fields.get(key)
        if field is None:
            raise ToolInputError(f"`{place}` is not an argument", advice=_arguments_hint(key, list(fields)))
        if item is None and not field.required:
            continue
        read[key] = _read(field.type, item, place)
    for name, field in fields.items():
        if field.required and name not in read:
            place = f"{path}.{name}" if path else name
            raise ToolInputError(f"`{place}` is missing", advice=f"give {_expected(field.type)}.")
    return read


def _arguments_hint(key: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    hint = f"did you mean `{near[0]}`? The" if near else "the"
    return f"{hint} arguments are {', '.join(known)}."


def _read_list(node: types.VarTupleType, value: Json, path: str) -> Json:
    value = _from_json_text(value)
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise _wrong(path, _expected(node), value)
    if node.min_length is not None and len(value) < node.min_length:
        sentence = f"`{path}` must have at least {node.min_length} item."
        raise ToolInputError(sentence)
    return [_read(node.item_type, item, f"{path}[{index}]") for index, item in enumerate(value)]


def _read_word(cls: type[Enum], value: Json, path: str) -> Json:
    words = [str(member.value) for member in cls]
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in words:
        came = "another word" if isinstance(value, str) else _json_type(value)
        sentence = f"`{path}` must be one of {', '.join(words)}, but {came} came."
        raise ToolInputError(sentence)
    return word


def _read_integer(node: types.IntType, value: Json, path: str) -> Json:
    number = _whole_number(value)
    if number is None:
        raise _wrong(path, "a whole number", value)
    if abs(number) > LARGEST_NUMBER:
        # Databases, slices and other programs' JSON end there, and nobody means such a number.
        sentence = f"`{path}` must be at most {LARGEST_NUMBER:,} either way."
        raise ToolInputError(sentence)
    if node.ge is not None and number < node.ge:
        sentence = f"`{path}` must be at least {node.ge}."
        raise ToolInputError(sentence)
    if node.le is not None and number > node.le:
        sentence = f"`{path}` must be at most {node.le}."
        raise ToolInputError(sentence)
    return number


def _whole_number(value: Json) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            return None
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    return value if isinstance(value, int) else None


def _read_boolean(value: Json, path: str) -> Json:
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise _wrong(path, "true or false", value)
    return value


def _read_text(node: types.Type, value: Json, path: str) -> Json:
    if not isinstance(value, str):
        raise _wrong(path, _expected(node), value)
    if isinstance(node, types.StrType) and node.min_length is not None and len(value.strip()) < node.min_length:
        sentence = f"`{path}` must not be empty."
        raise ToolInputError(sentence)
    return value


def _from_json_text(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    try:
        parsed: Json = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, dict | list) else value


def _wrong(path: str, expected: str, value: Json) -> ToolInputError:
    return ToolInputError(f"`{path or 'arguments'}` must be {expected}, but {_json_type(value)} came.")


def _expected(node: types.Type) -> str:
    match node:
        case types.Metadata(type=inner):
            return _expected(inner)
        case types.UnionType():
            return _expected(_without_null(node))
        case types.StructType():
            return "an object with " + ", ".join(field.encode_name for field in node.fields)
        case types.VarTupleType(item_type=item):
            return f"a list; each item is {_expected(item)}"
        case types.EnumType(cls=cls):
            return "one of " + ", ".join(str(member.value) for member in cls)
        case types.IntType():
            return "a whole number"
        case types.BoolType():
            return "true or false"
        case _:
            return "a string"


def _json_type(value: Json) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an object" if isinstance(value, Mapping) else "a list"


SHOWN_TITLE = 120
"""Most characters of a title."""

WORDS: Mapping[str, str] = {
    "apply_patch": "Edit",
    "edit_file": "Edit",
    "find_files": "Find",
    "list_directory": "List",
    "memory_read": "Read memory:",
    "memory_search": "Search memory:",
    "memory_write": "Write memory:",
    "read_file": "Read",
    "run_command": "",
    "search_text": "Search",
    "session_search": "Search sessions:",
    "write_file": "Write",
}
"""The words that introduce a tool's arguments in a title; other tools are called by their name."""

_NAMING = ("path", "command", "pattern", "query", "label")
"""The arguments that say what a call is about, the most telling first."""


def failed_title(name: str, arguments: JsonObject) -> str:
    """A short title for a call of the tool `name`, which there may not be, with arguments that may not fit it."""
    for key in _NAMING:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            words = WORDS.get(name, name[:SHOWN_NAME])
            return one_line(f"{words} {value.strip().splitlines()[0]}".strip(), SHOWN_TITLE)
    return name[:SHOWN_NAME] or "unnamed tool"
