"""Raw JSON to typed values, and misfits to sentences.

Owns: decoding of parameters and results, what is forgiven, and the one sentence that names what does not fit. Must not
know: which methods there are. The sentence never repeats a value, since values are prompts and file contents.

Forgiven everywhere, because clients do it: null where a default exists, and `[]` for an empty object or `{}` for an
empty array (Lua has one empty table for both).
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeAlias, TypeVar, cast

import msgspec

from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.jsonrpc.errors import INVALID_PARAMS, RpcError

T = TypeVar("T")

Repair: TypeAlias = Callable[[str, object], object]
"""Given the path of a misfit (`prompt[].type`) and its value: `KEEP`, `DROP`, or what to put in its place."""

KEEP = object()
"""The value stays, and with it the error."""
DROP = object()
"""The key is taken for absent."""

REPAIR_LIMIT = 20
"""Misfits that are repaired in one value; a limit so that a hostile message costs little."""

_WHERE = late_pattern(r"^(?P<what>.*?)(?: - at (?:`key` in )?`(?P<path>[^`]*)`)?$", re.DOTALL)
_EXPECTED = late_pattern(r"^Expected (?P<expected>.+?)(?:, got `(?P<got>[a-z]+)`)?$")
_MISSING = late_pattern(r"^Object missing required field `(?P<field>[^`]*)`$")
_NAMES = {
    "array": "an array",
    "object": "an object",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "null",
}


def keep_misfits(path: str, value: object) -> object:
    """The repair that repairs nothing."""
    del path, value
    return KEEP


def decode_params(raw: msgspec.Raw, kind: type[T], *, repair: Repair = keep_misfits) -> T:
    """The parameters as `kind`; absent and null parameters count as `{}`.

    Raises:
        RpcError: `INVALID_PARAMS`, with one sentence that names the parameter and what was expected.
    """
    try:
        return decode(raw, kind, repair=repair)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, describe_misfit(error)) from None


def decode(raw: msgspec.Raw, kind: type[T], *, repair: Repair = keep_misfits) -> T:
    """The JSON value as `kind`; an absent or null value counts as `{}`.

    Raises:
        msgspec.ValidationError: the value does not fit, and nothing of it is forgiven.
    """
    data = bytes(raw).strip()
    if data in (b"", b"null"):
        data = b"{}"
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        return _decode_forgiving(msgspec.json.decode(data), kind, repair)


def describe_misfit(error: msgspec.ValidationError) -> str:
    """One sentence that names the parameter and what was expected of it, without the value."""
    what, steps = _split(error)
    name = _spell(steps)
    subject = f"The parameter `{name}`" if name else "The parameters"
    if missing := _MISSING.match(what):
        field = missing["field"]
        return f"The parameter `{f'{name}.{field}' if name else field}` is missing."
    if expected := _EXPECTED.match(what):
        got = f", not {_NAMES.get(expected['got'], expected['got'])}" if expected["got"] else ""
        return f"{subject} must be {_name_types(expected['expected'])}{got}."
    return f"{subject} must hold one of the values that the protocol allows."


def _decode_forgiving(value: object, kind: type[T], repair: Repair) -> T:
    # A box, so that the whole value can be replaced like any part of it.
    box: dict[str, object] = {"$": value}
    for _ in range(REPAIR_LIMIT):
        try:
            return _convert(box["$"], kind)
        except msgspec.ValidationError as error:
            if not _mend(box, error, repair):
                raise
    return _convert(box["$"], kind)


def _convert(value: object, kind: type[T]) -> T:
    # Through JSON, since msgspec.convert cannot give the raw members that some types have.
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)


def _mend(box: dict[str, object], error: msgspec.ValidationError, repair: Repair) -> bool:
    what, steps = _split(error)
    # An error names one element; what is forgiven in it is forgiven in all, so that one pass mends them all.
    steps = ["[]" if step.startswith("[") else step for step in steps]
    mended = False
    for holder, key in list(_places(box, ["$", *steps])):
        path, value = _spell(steps), _get(holder, key)
        substitute = _substitute(what, path, value, repair)
        if substitute is DROP and isinstance(key, int):
            # An element cannot be left out; it can only be replaced.
            substitute = repair(path, value)
        mended = _put(holder, key, substitute) or mended
    return mended


def _substitute(what: str, path: str, value: object, repair: Repair) -> object:
    if value is None and ", got `null`" in what:
        return DROP
    if value == [] and what.startswith("Expected `object"):
        return dict[str, object]()
    if value == {} and what.startswith("Expected `array"):
        return list[object]()
    return repair(path, value)


def _get(holder: object, key: str | int) -> object:
    if isinstance(holder, dict):
        return cast("dict[str, object]", holder).get(str(key))
    return cast("list[object]", holder)[int(key)]


def _put(holder: object, key: str | int, substitute: object) -> bool:
    if substitute is KEEP:
        return False
    if isinstance(holder, dict):
        members = cast("dict[str, object]", holder)
        if substitute is DROP:
            return members.pop(str(key), KEEP) is not KEEP
        members[str(key)] = substitute
        return True
    if substitute is DROP:
        return False
    cast("list[object]", holder)[int(key)] = substitute
    return True


def _places(holder: object, steps: list[str]) -> Iterator[tuple[object, str | int]]:
    """Every place that the path means."""
    for key in _keys(holder, steps[0]):
        if len(steps) == 1:
            yield holder, key
        else:
            yield from _places(_get(holder, key), steps[1:])


def _keys(holder: object, step: str) -> list[str | int]:
    if isinstance(holder, dict):
        members = cast("dict[str, object]", holder)
        return list(members) if step == "[]" else [step] * (step in members)
    if isinstance(holder, list) and step == "[]":
        return list(range(len(cast("list[object]", holder))))
    return []


def _split(error: msgspec.ValidationError) -> tuple[str, list[str]]:
    match = _WHERE.match(str(error))
    if match is None:
        return str(error), []
    path = (match["path"] or "$").removeprefix("$").replace("[...]", "[]").replace("[", ".[")
    return match["what"], [step for step in path.split(".") if step]


def _spell(steps: list[str]) -> str:
    return ".".join(steps).replace(".[", "[")


def _name_types(expected: str) -> str:
    names = re.sub(r"`([^`]*)`", lambda match: match[1], expected).split(" | ")
    return " or ".join(_NAMES.get(name, name) for name in names)
