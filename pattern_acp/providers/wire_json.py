"""JSON as requests carry it, of which only what is new is encoded, and numbers of tokens as servers report them.

Owns: one stable byte form: the keys of an object that we build come in the order we build them, the keys of what others
gave us (schemas) are sorted. The same request is therefore always the same bytes, which is what prompt caches key on.
Also how far a conversation is settled, and what it was encoded to; that is in memory only, and nothing but time depends
on it. Must not know: any wire's format.
"""

import json
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import cache
from operator import itemgetter
from types import NoneType, UnionType
from typing import Any, TypeAlias, TypeGuard, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from pattern_acp.domain.argument_repair import read_object
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.messages import Message, Role, begins_with
from pattern_acp.providers.base import ToolSpec
from pattern_acp.providers.history import pair_calls

MOST_TOKENS = 1_000_000_000
"""A hundred times the largest window there is; more is no count of one request."""

_DIGITS = len(str(MOST_TOKENS))


def is_object(raw: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether a decoded value is a JSON object, whose keys are always text."""
    return isinstance(raw, dict)


def is_list(raw: object) -> TypeGuard[list[object]]:
    """Return whether a decoded value is a JSON array."""
    return isinstance(raw, list)


def token_count(raw: object, *path: str) -> int | None:
    """The count at `path` inside a decoded JSON object; None when there is none that can be believed."""
    for name in path:
        if not is_object(raw):
            return None
        raw = raw.get(name)
    if isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) <= _DIGITS:
        raw = int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= MOST_TOKENS:
        return None
    return int(raw)


T = TypeVar("T")


def to_bytes(body: JsonObject | Sequence[Json]) -> bytes:
    """The body of a request. A lone surrogate, which UTF-8 cannot carry, becomes a question mark."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(body))


def _encodable(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {str(_encodable(key)): _encodable(item) for key, item in value.items()}
    # Values that were encoded before (`msgspec.Raw`) have no lone surrogates.
    return [*map(_encodable, value)] if isinstance(value, Sequence) else value


def decode_event(data: str, kind: type[T]) -> T:
    """One event of a stream as `kind`, with the slips of servers read as what they plainly mean (`_fitted`).

    Servers that cut their text by UTF-16 units send an emoji in two events: each half stays, until it meets the other
    (`streaming.HalvesJoiner`).

    Raises:
        msgspec.MsgspecError: the event is not JSON, or does not fit.
        UnicodeError: it holds a character that no JSON can.
        RecursionError: it is nested too deep.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        parsed = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        # Only the other parser reads half a pair of surrogates; it also reads NaN, which no server sends as a number.
        if "\\u" not in data:
            raise
        try:
            parsed = json.loads(data)
        except ValueError:
            raise error from None
    return cast("T", _fitted(parsed, kind))


def json_values(body: bytes) -> Iterator[str]:
    """Yield the text of each value in a body that is one, a list of them, or has one a line.

    A body that is neither is yielded as it is.
    """
    text = body.decode("utf-8-sig", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        if text.lstrip().startswith("["):
            yield from (bytes(item).decode() for item in msgspec.json.decode(text, type=list[msgspec.Raw]))
            return
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        yield from lines if all(line.lstrip().startswith("{") for line in lines) else [text]
    else:
        yield text


def _fitted(value: object, kind: object) -> object:
    """A decoded value as `kind`, with slips of servers read as what they mean.

    These are null, an empty text or an empty list for what is not there, null among the items of a list, a number as
    text and text as a number, one object for a list of one, and text in parts.

    Raises:
        msgspec.ValidationError: it is something else.
    """
    if kind is object:
        return value
    if _is_struct(kind):
        return _fitted_object(value, kind)
    members: tuple[Any, ...] = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    if value is None and NoneType in members:
        return None
    for member in members:
        plain: Any = get_origin(member) or member
        if type(value) is plain:
            return _fitted_list(value, member) if is_list(value) else value
    for member in members:
        try:
            return _coerced(value, member)
        except msgspec.ValidationError:
            continue
    if NoneType in members and not value and not isinstance(value, bool):
        return None
    raise msgspec.ValidationError("a value of another type")


def _is_struct(kind: object) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _fitted_object(value: object, kind: type[msgspec.Struct]) -> msgspec.Struct:
    if not is_object(value):
        raise msgspec.ValidationError("no object")
    if not isinstance(value.get("type") or "", str):
        raise msgspec.ValidationError("a kind that is no text")
    hints = _hints(kind)
    fields = {
        name: (attribute, hints[attribute])
        for attribute, name in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    }
    found = {
        fields[key][0]: _fitted(item, fields[key][1])
        for key, item in value.items()
        if key in fields and item is not None
    }
    return kind(**found)


def _fitted_list(value: Sequence[object], kind: object) -> list[object]:
    item = (get_args(kind) or (object,))[0]
    return [_fitted(each, item) for each in value if each is not None]


def _coerced(value: object, kind: object) -> object:
    if _is_struct(kind):
        return _fitted_object(value, kind)
    if is_object(value) and get_origin(kind) is list:
        return _fitted_list([value] if value else [], kind)
    if kind is int:
        count = token_count(value)
        if count is not None:
            return count
    if kind is str:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if (text := _text_inside(value)) is not None:
            return text
    if kind is bool and isinstance(value, int | str) and str(value).lower() in _TRUTHS:
        return _TRUTHS[str(value).lower()]
    raise msgspec.ValidationError("a value of another type")


_TRUTHS = {"true": True, "1": True, "false": False, "0": False}
_TEXT_KEYS = ("text", "content", "thinking", "summary", "reasoning", "value")


def _text_inside(value: object) -> str | None:
    """The text in the parts of a value; None where there is no part with one."""
    if isinstance(value, str):
        return value
    if is_list(value):
        parts = [text for each in value if (text := _text_inside(each)) is not None]
        return "".join(parts) if parts else None
    if is_object(value):
        return next((text for key in _TEXT_KEYS if (text := _text_inside(value.get(key))) is not None), None)
    return None


@cache
def _hints(kind: type[msgspec.Struct]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def sort_keys(value: Json) -> Json:
    """The same value with all objects' keys in code point order."""
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Mapping):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    if isinstance(value, Sequence):
        return [sort_keys(item) for item in value]
    return value


_sorted_schemas: dict[int, tuple[JsonObject, Json]] = {}
"""Sorted schemas by identity; the schema beside each prevents its reuse by another."""

_SORTED_SCHEMAS_KEPT = 1024


def sorted_schema(schema: JsonObject) -> Json:
    """`sort_keys` of the schema of a tool, which is the same one in every request of a session."""
    found = _sorted_schemas.get(id(schema))
    if found is None:
        if len(_sorted_schemas) >= _SORTED_SCHEMAS_KEPT:
            _sorted_schemas.clear()
        found = _sorted_schemas[id(schema)] = (schema, sort_keys(schema))
    return found[1]


def arguments_object(text: str) -> JsonObject:
    """Return a call's arguments as the object that ran, repaired if they were near-valid.

    Text that is no object goes under a key that says so, for the model to see.
    """
    valid = _valid_object(text)
    return _mended_object(text) if valid is None else valid


def arguments_text(text: str) -> str:
    """A call's arguments as the text of an object; unchanged when they are one."""
    return json.dumps(_mended_object(text), ensure_ascii=False) if _valid_object(text) is None else text


def _valid_object(text: str) -> JsonObject | None:
    try:
        return cast("JsonObject", msgspec.json.decode(text, type=dict[str, object]))
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return None


def _mended_object(text: str) -> JsonObject:
    try:
        return read_object(text).value
    except (ValueError, RecursionError):
        return {"invalid_json": text}


CONVERSATIONS_KEPT = 8
"""Limit on encoded conversations of one provider, the last used ones: each takes as much memory as its text."""

SEPARATE_ITEMS = 256
"""Limit on settled items that are apart: joined they are copied at once, so that a body takes no time for each."""

WireItem: TypeAlias = dict[str, Json]
"""One message or item, as a wire has it."""

EncodeMessages: TypeAlias = Callable[[Sequence[Message]], list[WireItem]]
"""Encodes messages whose calls are paired. The items of a message of the model must depend on it and on later ones
alone, and so they do everywhere: no wire joins it to earlier ones."""

IsEnough: TypeAlias = Callable[[list[WireItem]], bool]
"""Returns whether these items, the last ones, include all that a wire changes at the end of a history."""


class WireHistory(Struct, frozen=True):
    """A conversation as a wire has it."""

    prefix: tuple[Json, ...]
    """Settled items as JSON; the first may be many of them with commas between."""
    last: list[WireItem]
    """These may be changed."""


class EncodedHistory:
    """One conversation. Messages never change, so those that it began with before are known by their identity."""

    def __init__(self) -> None:
        self._messages: tuple[Message, ...] = ()
        self._settled: list[msgspec.Raw] = []
        self._used: dict[str, int] = {}
        self._form: object = None
        self._tools: tuple[tuple[ToolSpec, ...], object, msgspec.Raw] | None = None

    def tools(
        self, tools: tuple[ToolSpec, ...], form: object, encode: Callable[[tuple[ToolSpec, ...]], list[Json]]
    ) -> Json:
        """The tools encoded, which hardly ever change within a conversation. `form` is as in `of`."""
        kept = self._tools
        if kept is None or kept[:2] != (tools, form):
            kept = self._tools = (tools, form, msgspec.Raw(to_bytes(encode(tools))))
        return cast("Json", kept[2])

    def of(
        self, messages: tuple[Message, ...], form: object, encode: EncodeMessages, is_enough: IsEnough = bool
    ) -> WireHistory:
        """The conversation encoded. `form` is all that decides on the encoding besides the messages."""
        if form != self._form or not begins_with(messages, self._messages):
            self._messages, self._settled, self._used, self._form = (), [], {}, form
        new = messages[len(self._messages) :]
        cut = _second_last_answer(new)
        last = self._settle(new[:cut], new[cut:], encode, is_enough) if cut else None
        if last is None:
            last = encode(pair_calls(new, _beyond(self._used)))
        else:
            self._messages = messages[: len(self._messages) + cut]
        return WireHistory(cast("tuple[Json, ...]", tuple(self._settled)), last)

    def _settle(
        self, first: Sequence[Message], rest: Sequence[Message], encode: EncodeMessages, is_enough: IsEnough
    ) -> list[WireItem] | None:
        """Settle `first`, when the rest alone is enough to stay open; the items of the rest then."""
        used = _beyond(self._used)
        paired = pair_calls(first, used)
        last = encode(pair_calls(rest, _beyond(used)))
        # An answer that a wire leaves out, as one of blanks, does not part what is before it from what is behind it.
        if not is_enough(last) or not encode(pair_calls(rest[:1], _beyond(used))):
            return None
        self._settled += [msgspec.Raw(to_bytes(item)) for item in encode(paired)]
        if len(self._settled) > SEPARATE_ITEMS:
            self._settled = [msgspec.Raw(b",".join(self._settled))]
        self._used.update(used.maps[0])
        return last


def _beyond(used: MutableMapping[str, int]) -> ChainMap[str, int]:
    """A place for more ids, without a copy of those that a long conversation has."""
    return ChainMap({}, used)


class EncodedHistories:
    """Those of one provider, by the key that names a conversation."""

    def __init__(self) -> None:
        self._kept: dict[str, EncodedHistory] = {}

    def of(self, key: str) -> EncodedHistory:
        """The history of the conversation with this key; an empty one for one that has no key."""
        if not key:
            return EncodedHistory()
        found = self._kept.pop(key, None) or EncodedHistory()
        self._kept[key] = found
        while len(self._kept) > CONVERSATIONS_KEPT:
            del self._kept[next(iter(self._kept))]
        return found


def has_earlier_user_message(items: Sequence[WireItem]) -> bool:
    """Return whether an item of the user's side comes before the last one."""
    return "user" in map(itemgetter("role"), items[:-1])


def _second_last_answer(messages: Sequence[Message]) -> int:
    """Index of the model's message before its last one; 0 if there is none, or it is the first.

    Everything before it has all its results, and no wire joins the message of the model to it.
    """
    seen = 0
    for place in range(len(messages) - 1, 0, -1):
        seen += messages[place].role is Role.ASSISTANT
        if seen == 2:
            return place
    return 0
