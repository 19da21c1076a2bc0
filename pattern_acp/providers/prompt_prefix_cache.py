"""Conversations as a wire has them with their tools, of which only what is new is encoded for the next request.

Owns: how far a conversation is settled, and what it was encoded to. Must not know: any wire's format. In memory only,
and nothing depends on it but time: the body of a request is the same bytes with it and without.
"""

from collections import ChainMap
from collections.abc import Callable, MutableMapping, Sequence
from operator import itemgetter
from typing import TypeAlias, cast

import msgspec
from msgspec import Struct

from pattern_acp.domain.canonical import Json
from pattern_acp.domain.messages import Message, Role, begins_with
from pattern_acp.providers.base import ToolSpec
from pattern_acp.providers.history import pair_calls
from pattern_acp.providers.wire_json import to_bytes

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
