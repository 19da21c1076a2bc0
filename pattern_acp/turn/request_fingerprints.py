"""Fingerprint of a request in the journal (rule R4): its SHA-256, its size and its parts, recorded before it is sent.

Owns: computing them without encoding a long history again for every request. Must not
know: providers, or who records it. The ids of messages are left out: no model sees them, and a replay has others.
"""

import hashlib
import json
from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.messages import Message, begins_with
from pattern_acp.journal.events import OfferedTool, RequestParts, ToolsOffered
from pattern_acp.providers.base import ProviderRequest, ToolSpec

SHORT_DIGITS = 16
"""Hexadecimal digits of the digest of one part: 64 bits tell the parts of one session apart."""


class _Known(Struct, frozen=True):
    """A message that was encoded before. It is stored, so that no other one can get its identity."""

    message: Message
    digest: bytes
    short: str
    size: int


class RequestKnown(Struct, frozen=True):
    """A request as the journal knows it. `tools` is passed when they have to be recorded before it."""

    digest: str
    size: int
    parts: RequestParts
    tools: ToolsOffered | None = None


class _Last(Struct, frozen=True):
    """The request that was recorded last."""

    messages: tuple[str, ...] = ()
    tools: str = ""
    volatile: str = ""


class RequestDigests:
    """Digests of the requests of one session.

    The digest of a request is that of everything but its messages, followed by the digest of each of them. Messages
    never change, so each is encoded once as long as the history holds it.
    """

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._messages: Sequence[Message] = ()
        self._digests = bytearray()
        self._shorts: list[str] = []
        self._size = 0
        self._last = _Last()
        self._sent = _Last()

    def of(self, request: ProviderRequest) -> tuple[str, int]:
        """SHA-256 in hexadecimal digits, and the bytes of the request as JSON but for commas between messages."""
        known = self.known(request, 0)
        return known.digest, known.size

    def known(self, request: ProviderRequest, context_window: int) -> RequestKnown:
        """Compute the record of a request to a model with this window, in tokens; then call `recorded`."""
        self._look_at(request.messages)
        pieces = (
            request.system.encode("utf-8", "surrogatepass"),
            _encoded(request.tools),
            request.volatile.encode("utf-8", "surrogatepass"),
        )
        rest = _encoded(replace(request, system="", tools=(), messages=(), volatile=""))
        # The name of the level in earlier releases, whose digests stay the same.
        rest = rest.replace(b'"thought_level":"auto"', b'"thought_level":"default"')
        whole = hashlib.sha256(hashlib.sha256(rest).digest())
        names: list[str] = []
        for piece in pieces:
            digest = hashlib.sha256(piece).digest()
            whole.update(digest)
            names.append(_short(digest))
        whole.update(self._digests)
        size = len(rest) + sum(map(len, pieces)) + self._size
        last, self._last = self._last, _Last()
        system, tools, told = names
        shorts = tuple(self._shorts)
        kept = _common(last.messages, shorts)
        self._sent = _Last(shorts, tools, told)
        parts = RequestParts(
            system,
            tools,
            told,
            kept,
            shorts[kept:],
            context_window,
            request.max_output_tokens,
            request.thought_level.value,
            None if told == last.volatile else request.volatile,
            request.tool_form.value,
        )
        offered = tools_offered(request.tools) if tools != last.tools else None
        return RequestKnown(whole.hexdigest(), size, parts, offered)

    def recorded(self) -> None:
        """The request that was asked for last is in the journal, so that the next can refer to it."""
        self._last = self._sent

    def _look_at(self, messages: Sequence[Message]) -> None:
        before: dict[int, _Known] = {}
        if not begins_with(messages, self._messages):
            # Only those that are still there: what left the history does not stay for its sake.
            before = {id(one.message): one for one in self._known}
            self._known, self._digests, self._shorts, self._size = [], bytearray(), [], 0
        for message in messages[len(self._known) :]:
            known = before.get(id(message))
            if known is None:
                data = message_bytes(message)
                digest = hashlib.sha256(data).digest()
                known = _Known(message, digest, _short(digest), len(data))
            self._known.append(known)
            self._digests += known.digest
            self._shorts.append(known.short)
            self._size += known.size
        self._messages = messages


def tools_offered(tools: Sequence[ToolSpec]) -> ToolsOffered:
    """Tools as they are recorded."""
    return ToolsOffered(
        tuple(OfferedTool(tool.name, tool.description, json.dumps(tool.input_schema), tool.free_form) for tool in tools)
    )


def message_bytes(message: Message) -> bytes:
    """The bytes that the digest of a message is taken over: its role and parts, without the tags of their types."""
    parts = msgspec.to_builtins(message.parts)
    for part in parts:
        for tagged in (part, *part.get("images", ())):
            del tagged["type"]
    try:
        return msgspec.json.encode((message.role, parts))
    except UnicodeEncodeError:
        return _escaped((message.role, message.parts))


def _common(before: Sequence[str], now: Sequence[str]) -> int:
    if before == now[: len(before)]:
        return len(before)
    return next(place for place, (old, new) in enumerate(zip((*before, ""), (*now, ""), strict=False)) if old != new)


def _short(digest: bytes) -> str:
    return digest.hex()[:SHORT_DIGITS]


def _encoded(value: ProviderRequest | tuple[ToolSpec, ...]) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return _escaped(value)


def _escaped(value: object) -> bytes:
    # JSON cannot hold a lone surrogate, which models write in escapes.
    return repr(value).encode("utf-8", "surrogatepass")
