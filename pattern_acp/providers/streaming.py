"""The common part of all wires: one request, its attempts, and the reading of its stream.

Owns: `WireProvider`, the `Provider` over any wire, and text that servers cut or mark in ways of their own: emoji in two
halves, thoughts between `<think>` and `</think>`, and what an answer repeats that continues with another. Must not
know: a vendor's format (a `ProviderWire` does).
"""

import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import anyio
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    RateLimitWait,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
    UsageMissing,
)
from pattern_acp.providers.endpoints import HttpRequest, model_mismatch
from pattern_acp.providers.event_streams import MAX_EVENT_BYTES, EventStreamError, SseEvent, SseParser, SseTooLargeError
from pattern_acp.providers.http_errors import (
    EMPTY,
    EmptyAnswerError,
    ModelMismatchError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
    auth_error,
    broken_event,
    error_of_event,
    error_of_status,
    not_a_stream,
    parse_failure,
    time_in_words,
)
from pattern_acp.providers.rate_limiter import RateLimiter, RateLimiters
from pattern_acp.providers.retry import RetryPolicy, with_retries
from pattern_acp.providers.wire_json import json_values

_TEXTS = (TextDelta, ThinkingDelta, ToolCallFragment)
_Texts: TypeAlias = TextDelta | ThinkingDelta | ToolCallFragment


class HalvesJoiner:
    """Joins the halves of surrogate pairs that come in two events, as an emoji of servers that cut by UTF-16 units.

    A half that stays alone becomes a replacement character, as do bytes that are no UTF-8.
    """

    def __init__(self) -> None:
        self._half: _Texts | None = None

    def take(self, event: ProviderEvent) -> Iterator[ProviderEvent]:
        """Yield what is whole with this event."""
        if not isinstance(event, _TEXTS):
            if not isinstance(event, UsageKnown):
                yield from self.end()
            if isinstance(event, ToolCallBegun):
                event = replace(event, call_id=_whole_characters(event.call_id), name=_whole_characters(event.name))
            yield event
            return
        held, self._half = self._half, None
        if held is not None:
            if _is_same_text(held, event):
                event = replace(event, text=held.text + event.text)
            else:
                yield _with_whole_characters(held)
        if event.text[-1:] and "\ud800" <= event.text[-1] <= "\udbff":
            self._half = replace(event, text=event.text[-1])
            event = replace(event, text=event.text[:-1])
        if event.text:
            yield _with_whole_characters(event)

    def end(self) -> Iterator[ProviderEvent]:
        """Yield the half that stays alone, if there is one."""
        held, self._half = self._half, None
        if held is not None:
            yield _with_whole_characters(held)


def _is_same_text(first: _Texts, second: _Texts) -> bool:
    if isinstance(first, ToolCallFragment):
        return isinstance(second, ToolCallFragment) and first.index == second.index
    return type(first) is type(second)


def _with_whole_characters(event: _Texts) -> _Texts:
    text = _whole_characters(event.text)
    return event if text is event.text else replace(event, text=text)


def _whole_characters(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
}
"""Marks of thoughts in the templates of Qwen, DeepSeek, MiniMax and others, of Magistral, and of Seed."""

_OPENS = late_pattern("|".join(map(re.escape, _TAGS)))
_LONE = late_pattern(r"</think>\s*")
_MAY_OPEN = frozenset(tag[:length] for tag in (*_TAGS, "</think>") for length in range(1, len(tag)))


class ThoughtTags:
    """Takes the thoughts out of the text of an answer that begins with them.

    Only at the head of the text are such marks those of a template: an answer that mentions them later means them.
    """

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._held = ""
        self._closing = ""
        """The mark that ends the thought in which the text is; empty outside one."""
        self._is_fresh = False
        """True while nothing of that thought has come."""
        self._is_over = False
        """True once the answer itself has begun."""
        self.has_thoughts = False
        self.has_text = False

    def take(self, event: ProviderEvent) -> Iterator[ProviderEvent]:
        """Yield what is known with this event."""
        if not isinstance(event, TextDelta):
            if not isinstance(event, UsageKnown | ThinkingDelta | ThinkingEnded):
                yield from self.end()
            # The text behind a call begins again.
            self._is_over = self._is_over and not isinstance(event, ToolCallBegun)
            yield event
        elif self._is_over:
            self.has_text = self.has_text or bool(event.text.strip())
            yield event
        else:
            self._held += event.text
            yield from self._read()

    def end(self) -> Iterator[ProviderEvent]:
        """Yield what was held back, at the end of the text."""
        held, self._held = self._held, ""
        if self._closing:
            self._closing = ""
            yield from self._thought(held)
            yield ThinkingEnded(wire=self._wire)
        elif held.strip() or (held and not self.has_thoughts):
            yield from self._text(held)

    def _read(self) -> Iterator[ProviderEvent]:
        while self._held and not self._is_over:
            if self._closing:
                yield from self._inside()
                if self._closing:
                    return
            blanks = len(self._held) - len(self._held.lstrip())
            opens = _OPENS.match(self._held, blanks)
            if opens is not None:
                self._closing, self._held = _TAGS[opens[0]], self._held[opens.end() :]
                self._is_fresh = True
                continue
            lone = _LONE.match(self._held, blanks)
            if lone is not None and not self.has_thoughts:
                # The template itself wrote the mark that opens, and the server has shown the thought as such.
                self._held = self._held[lone.end() :]
                continue
            rest = self._held[blanks:]
            if rest and rest not in _MAY_OPEN:
                held, self._held, self._is_over = self._held, "", True
                yield from self._text(held.lstrip("\r\n") if self.has_thoughts else held)
            return

    def _inside(self) -> Iterator[ProviderEvent]:
        self._held = self._held.lstrip() if self._is_fresh else self._held
        place = self._held.find(self._closing)
        if place >= 0:
            thought, self._held = self._held[:place], self._held[place + len(self._closing) :]
            self._closing = ""
            yield from self._thought(thought.rstrip())
            yield ThinkingEnded(wire=self._wire)
            return
        # What may be the beginning of the mark waits, and the blanks before it do.
        cut = next((n for n in range(len(self._closing) - 1, 0, -1) if self._held.endswith(self._closing[:n])), 0)
        sure = self._held[: len(self._held) - cut].rstrip()
        self._held = self._held[len(sure) :]
        yield from self._thought(sure)

    def _thought(self, text: str) -> Iterator[ProviderEvent]:
        self.has_thoughts = True
        if text:
            self._is_fresh = False
            yield ThinkingDelta(text)

    def _text(self, text: str) -> Iterator[ProviderEvent]:
        self.has_text = self.has_text or bool(text.strip())
        if text:
            yield TextDelta(text)


class ContinuedText:
    """Takes out of the text that continues an answer what the answer already has.

    Some servers send its beginning once more (Mistral), and blanks at its end are not sent to the server.
    """

    def __init__(self, begun: str) -> None:
        self._begun = begun.rstrip()
        self._blanks = begun[len(self._begun) :]
        self._held = ""
        self._is_over = not begun

    def take(self, event: ProviderEvent) -> Iterator[ProviderEvent]:
        """Yield what is new with this event."""
        if self._is_over:
            yield event
        elif isinstance(event, TextDelta):
            self._held += event.text
            if len(self._held) >= len(self._begun) or not self._begun.startswith(self._held):
                yield from self._new()
        else:
            if not isinstance(event, UsageKnown):
                yield from self.end()
            yield event

    def end(self) -> Iterator[ProviderEvent]:
        """Yield what was held back, at the end of the text."""
        yield from self._new()
        self._is_over = True

    def _new(self) -> Iterator[ProviderEvent]:
        text, self._held = self._held.removeprefix(self._begun) if self._begun else self._held, ""
        self._begun = ""
        while text and self._blanks and text[0] == self._blanks[0]:
            text, self._blanks = text[1:], self._blanks[1:]
        if text:
            self._is_over = True
            yield TextDelta(text)


logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    # At run time it is imported with the first client, in a worker thread (registry.py).
    from pattern_acp.providers.http import HttpClient, HttpResponse

DRAIN_SECONDS = 0.1
"""After the last event the end of the body is read, so that the connection can be used again (a new one costs a TLS
handshake); a server that needs longer than this gets a new one."""


QUIET_SECONDS = 5.0
"""Longest wait for more events after the reason for the end of an answer. Gemini, above all with its own tools, sends
such a reason early and continues; other servers send no more and leave the connection open."""

REFUSED = (400, 422)
"""Statuses with which a server refuses the form of a request."""

SHORTEST_SHOWN_MS = 1_000
"""Waits for a rate limit that are shorter are not worth a line."""


class Decoder(Protocol):
    """Turns the events of one answer into ours; sans I/O."""

    is_done: bool
    """True if the last event has been seen."""
    finish: str
    """The server's word for why the answer ended, once it is known; more of the answer may follow all the same."""

    def feed(self, event: SseEvent) -> Sequence[ProviderEvent]:
        """Our events for one of the stream; see `feed_all`.

        Raises:
            ProviderError: the event is an error, or not in the wire's format.
        """
        ...

    def end(self) -> Sequence[ProviderEvent]:
        """The last events, once `is_done` or once the stream is over.

        Raises:
            ProviderConnectionError: the answer was not complete.
            EmptyAnswerError: the model ended without text and without a call.
        """
        ...


def feed_all(decoder: Decoder, events: Iterable[SseEvent]) -> Iterator[ProviderEvent]:
    """Yield our events for some of a stream, up to its last one; the rest is not read.

    Additions of gateways on any wire are skipped here: pings, events without data, and OpenAI's `[DONE]`, which ends
    the stream wherever it comes. Raises like `Decoder.feed`.
    """
    for event in events:
        if decoder.is_done:
            return
        data = event.data.strip()
        if data == "[DONE]":
            decoder.is_done = True
        elif data and data != "null" and event.event != "ping":
            yield from decoder.feed(event)


def joined_texts(events: Iterable[ProviderEvent]) -> Iterator[ProviderEvent]:
    """The same events with one text instead of several that follow one another: each piece costs its way on.

    Text before an error in the same read is handed on before the error.
    """
    texts: list[str] = []
    try:
        for event in events:
            if isinstance(event, TextDelta):
                texts.append(event.text)
                continue
            if texts:
                yield TextDelta("".join(texts))
                texts.clear()
            yield event
    except ProviderError:
        if texts:
            yield TextDelta("".join(texts))
        raise
    if texts:
        yield TextDelta("".join(texts))


class ProviderWire(Protocol):
    """One vendor's format."""

    def encode(self, request: ProviderRequest) -> HttpRequest:
        """The request as HTTP. Raises ProviderRequestError where this wire cannot carry it."""
        ...

    def new_decoder(self, request: ProviderRequest) -> Decoder:
        """A decoder for one attempt of `request`."""
        ...


class StreamParser(Protocol):
    """Cuts the bytes of one answer into events; sans I/O."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that these bytes complete. Raises ValueError where the bytes are not in the framing."""
        ...

    def end(self) -> list[SseEvent]:
        """The last events, once the stream is over."""
        ...


@runtime_checkable
class FramedWire(Protocol):
    """A wire whose stream is not framed as server-sent events."""

    def new_parser(self) -> StreamParser:
        """A parser for one attempt."""
        ...


Sign = Callable[[HttpRequest], Awaitable[HttpRequest]]
"""The request as it goes out, with a signature where its server wants one.

Raises:
    ProviderError: there is nothing to sign it with.
"""


@runtime_checkable
class CountingWire(Protocol):
    """A wire whose vendor counts the tokens of a request before it is sent."""

    def encode_count(self, request: ProviderRequest) -> HttpRequest:
        """The question as HTTP."""
        ...

    def read_count(self, body: bytes) -> int:
        """Read the tokens from an answer. Raises ProviderProtocolError where it gives none."""
        ...


class WireProvider:
    """`Provider` over one wire. `http` returns the client, built at the first request."""

    def __init__(
        self,
        settings: ProviderSettings,
        wire: ProviderWire,
        http: "Callable[[], Awaitable[HttpClient]]",
        retry: RetryPolicy,
        limiters: RateLimiters,
        *,
        needs_key: bool,
        sign: Sign | None = None,
    ) -> None:
        self._settings = settings
        self._wire = wire
        # Once: to look whether an object fits a protocol takes longer than to read a short answer.
        self._new_parser: Callable[[], StreamParser] = wire.new_parser if isinstance(wire, FramedWire) else SseParser
        self._http = http
        self._retry = retry
        self._limiters = limiters
        self._needs_key = needs_key
        self._sign = sign
        self._refuse_begun: set[str] = set()
        """Models that do not continue with an answer that is sent as begun."""

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return self._settings.name

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`."""
        return aclosing(self._events(request))

    async def count_tokens(self, request: ProviderRequest) -> int | None:
        """See `TokenCounter.count_tokens`. Tried once: who counts can do without."""
        if not isinstance(self._wire, CountingWire) or (self._needs_key and self._settings.api_key is None):
            return None
        encoded, limiter = (
            self._wire.encode_count(request),
            self._limiters.of(self._settings, request.model, counting=True),
        )
        reservation = limiter.reserve(len(encoded.body))
        if reservation.wait_ms:
            limiter.release(reservation)
            return None
        limiter.sent(reservation)
        http = await self._http()
        async with http.post(encoded) as response:
            limiter.observe(response.rate_headers)
            body = await response.read()
            if response.status != 200:
                limiter.refused(response.retry_after_ms)
                raise error_of_status(self._settings, request.model, response.status, body, response.retry_after_ms)
            return self._wire.read_count(body)

    async def _events(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        if self._needs_key and self._settings.api_key is None:
            raise auth_error(self._settings, None)
        if mismatch := model_mismatch(self._settings, request.model):
            raise ModelMismatchError(mismatch)
        encoded = self._wire.encode(request)
        if encoded.instead is not None:
            if request.model not in self._refuse_begun:
                try:
                    async with aclosing(self._attempts(request, encoded)) as events:
                        async for event in events:
                            yield event
                except ProviderRequestError as error:
                    # Once for all: a server that refuses does so before the first word.
                    if error.status not in REFUSED:
                        raise
                    logger.info("%s/%s does not continue an answer; it is asked to in words", self.name, request.model)
                    self._refuse_begun.add(request.model)
                else:
                    return
            encoded = encoded.instead
        async with aclosing(self._attempts(request, encoded)) as events:
            async for event in events:
                yield event

    async def _attempts(self, request: ProviderRequest, encoded: HttpRequest) -> AsyncGenerator[ProviderEvent, None]:
        def attempt() -> AsyncGenerator[ProviderEvent, None]:
            return self._attempt(request, encoded)

        async with aclosing(with_retries(attempt, self._retry, request.patience_ms)) as events:
            async for event in events:
                yield event

    async def _attempt(self, request: ProviderRequest, encoded: HttpRequest) -> AsyncGenerator[ProviderEvent, None]:
        http = await self._http()
        limiter, size, usage = self._limiters.of(self._settings, request.model), len(encoded.body), Usage()
        async with aclosing(self._wait_for_limit(request, limiter, size)) as waits:
            async for wait in waits:
                yield wait
        # Again for each attempt: a signature is valid for a few minutes.
        signed = encoded if self._sign is None else await self._sign(encoded)
        async with http.post(signed) as response:
            limiter.observe(response.rate_headers)
            if response.status != 200:
                limiter.refused(response.retry_after_ms)
            await self._check(response, request.model)
            decoder, text = self._wire.new_decoder(request), _Text(self._settings.wire, encoded.begun)
            async with aclosing(response.chunks()) as chunks:
                async with aclosing(self._decoded(chunks, decoder, response, request.model)) as events:
                    async for event in events:
                        usage = event.usage if isinstance(event, UsageKnown) else usage
                        for whole in text.take(event):
                            yield whole
                await _drain(chunks)
            if usage != Usage():
                limiter.charged(usage, size)
            else:
                yield UsageMissing()
            for event in decoder.end():
                if isinstance(event, Stopped) and event.reason is ProviderStop.END and text.is_thought_alone:
                    raise EmptyAnswerError(f"{self.name}/{request.model} {EMPTY}; try again.")
                for whole in text.take(event):
                    yield whole

    async def _wait_for_limit(
        self, request: ProviderRequest, limiter: RateLimiter, size: int
    ) -> AsyncGenerator[RateLimitWait, None]:
        reservation = limiter.reserve(size)
        used_up = f"The rate limit of {self.name} for {request.model} is used up"
        words = time_in_words(reservation.wait_ms)
        if reservation.wait_ms > request.patience_ms:
            limiter.release(reservation)
            raise ProviderOverloadedError(f"{used_up} for {words}; wait or choose another model.", reservation.wait_ms)
        try:
            if reservation.wait_ms >= SHORTEST_SHOWN_MS:
                yield RateLimitWait(reservation.wait_ms, f"{used_up}. Waiting {words}.")
            if reservation.wait_ms:
                await self._retry.sleep(reservation.wait_ms / 1000)
        except BaseException:
            limiter.release(reservation)
            raise
        limiter.sent(reservation)

    async def _decoded(
        self, chunks: AsyncIterator[bytes], decoder: Decoder, response: "HttpResponse", model: str
    ) -> AsyncGenerator[ProviderEvent, None]:
        parser = self._new_parser()
        head: bytes | None = b"" if isinstance(parser, SseParser) else None
        try:
            while not decoder.is_done and (chunk := await _next(chunks, decoder)) is not None:
                if head is not None:
                    # Whatever type the server names: no stream of events begins like JSON.
                    head += chunk
                    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
                    if first in {b"{", b"["}:
                        for event in self._whole(await _rest(chunks, head), decoder, response, model):
                            yield event
                        return
                    chunk, head = (head, None) if first else (b"", head)
                for event in joined_texts(feed_all(decoder, parser.feed(chunk))):
                    yield event
            for event in feed_all(decoder, parser.feed(head or b"")):
                yield event
            try:
                for event in feed_all(decoder, parser.end()):
                    yield event
            except ProviderProtocolError:
                # Server-sent events drop an event without its closing empty line (HTML standard, 9.2.6).
                logger.debug("the answer broke off within an event")
        except (SseTooLargeError, EventStreamError) as error:
            raise broken_event(self._settings) from error

    def _whole(self, body: bytes, decoder: Decoder, response: "HttpResponse", model: str) -> Iterator[ProviderEvent]:
        """Yield our events for an answer that is no stream: JSON, a list of it, or lines of it."""
        failure = parse_failure(body)
        if failure is not None:
            raise error_of_event(self._settings, model, failure)
        try:
            for data in json_values(body):
                yield from feed_all(decoder, (SseEvent("", data),))
        except ProviderProtocolError as error:
            raise not_a_stream(self._settings, response.content_type) from error
        if not decoder.is_done and not decoder.finish:
            raise not_a_stream(self._settings, response.content_type)

    async def _check(self, response: "HttpResponse", model: str) -> None:
        if response.status != 200:
            body = await response.read()
            raise error_of_status(self._settings, model, response.status, body, response.retry_after_ms)
        # Some servers name no type, or another one, and stream all the same.
        if response.content_type in {"text/html", "application/xml", "text/xml"}:
            raise not_a_stream(self._settings, response.content_type)


class _Text:
    """The stages that repair the text of one answer."""

    def __init__(self, wire: str, begun: str) -> None:
        self._halves = HalvesJoiner()
        self._continued = ContinuedText(begun)
        self._tags = ThoughtTags(wire)

    @property
    def is_thought_alone(self) -> bool:
        return self._tags.has_thoughts and not self._tags.has_text

    def take(self, event: ProviderEvent) -> Iterator[ProviderEvent]:
        for whole in self._halves.take(event):
            for new in self._continued.take(whole):
                yield from self._tags.take(new)


async def _rest(chunks: AsyncIterator[bytes], head: bytes) -> bytes:
    async for chunk in chunks:
        head += chunk
        if len(head) > MAX_EVENT_BYTES:
            raise SseTooLargeError(f"An answer is longer than {MAX_EVENT_BYTES} bytes.")
    return head


async def _next(chunks: AsyncIterator[bytes], decoder: Decoder) -> bytes | None:
    """More of the body; None at its end, and when nothing follows the reason for which the answer ended.

    Servers and proxies also close behind that reason without the end that HTTP asks for.
    """
    if not decoder.finish:
        return await anext(chunks, None)
    try:
        with anyio.move_on_after(QUIET_SECONDS):
            return await anext(chunks, None)
    except (ProviderStalledError, ProviderConnectionError):
        pass
    return None


async def _drain(chunks: AsyncIterator[bytes]) -> None:
    """Read past the end of a whole answer, which a connection that breaks there no longer harms."""
    try:
        with anyio.move_on_after(DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except ProviderError:
        logger.debug("the connection broke behind a whole answer")
