"""JSON that came from a model, kept without loss in JSON that holds no floats.

Owns: the tags. Must not know: events. A float `1.5` is stored as `{"$float": "1.5"}`; an object that has such a tag as
its only key is itself wrapped as `{"$object": {…}}`.
"""

from collections.abc import Mapping, Sequence

from pattern_acp.domain.canonical import Json, JsonObject

_FLOAT = "$float"
_OBJECT = "$object"


def encode_value(value: Json) -> Json:
    """`value` without floats. Undone by `decode_value`."""
    if isinstance(value, float):
        return {_FLOAT: repr(value)}
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Mapping):
        return encode_object(value)
    if isinstance(value, Sequence):
        return [encode_value(item) for item in value]
    return value


def encode_object(value: JsonObject) -> JsonObject:
    """`encode_value` of an object."""
    encoded: JsonObject = {key: encode_value(item) for key, item in value.items()}
    return {_OBJECT: encoded} if _is_tagged(value) else encoded


def decode_value(value: Json) -> Json:
    """The value that `encode_value` was given."""
    if isinstance(value, Mapping):
        return _decode_tag(value) if _is_tagged(value) else _decode_items(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [decode_value(item) for item in value]
    return value


def as_object(value: Json) -> JsonObject:
    """`value`, which must be an object.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, Mapping):
        raise TypeError("an object was expected")
    return value


def as_list(value: Json) -> Sequence[Json]:
    """`value`, which must be a list.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, list):
        raise TypeError("a list was expected")
    return value


def as_text(value: Json) -> str:
    """`value`, which must be a string.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, str):
        raise TypeError("a string was expected")
    return value


def as_flag(value: Json) -> bool:
    """`value`, which must be true or false.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, bool):
        raise TypeError("true or false was expected")
    return value


def as_number(value: Json) -> int:
    """`value`, which must be an integer.

    Raises:
        TypeError: it is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("an integer was expected")
    return value


def _is_tagged(value: JsonObject) -> bool:
    return len(value) == 1 and (_FLOAT in value or _OBJECT in value)


def _decode_tag(value: JsonObject) -> Json:
    if _FLOAT in value:
        return float(as_text(value[_FLOAT]))
    return _decode_items(as_object(value[_OBJECT]))


def _decode_items(value: JsonObject) -> JsonObject:
    return {key: decode_value(item) for key, item in value.items()}
