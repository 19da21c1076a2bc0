"""A model with a window: it counts what it is sent, refuses what is too long, and answers by a rule.

Owns: the counting and the answers of tests about the window. Must not know: sessions.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio.lowlevel
import msgspec

from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.messages import ImagePart, Role
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    ToolCallBegun,
    ToolCallFragment,
    UsageKnown,
)
from pattern_acp.providers.http_errors import ContextTooLongError, ProviderConnectionError, ProviderRequestError
from pattern_acp.providers.scripted import ScriptStep
from tests.support.scripts import Turn, says

SUMMARY_MARK = "<transcript>"
"""What a request for a summary holds and no other."""

Answer = Callable[[ProviderRequest], Turn]


class WindowModel:
    """`Provider` and `TokenCounter` with a window of so many tokens, `bytes_per_token` of them each.

    `answer` gives the turn for a request; a request for a summary gets `summary`. What is too long raises a `refusal`.
    """

    name = "scripted"

    def __init__(
        self,
        window: int,
        answer: Answer,
        *,
        summary: Turn | None = None,
        bytes_per_token: float = 3.3,
        counts: bool = False,
        refusal: type[ProviderError] = ContextTooLongError,
    ) -> None:
        self.window = window
        self._answer = answer
        self._summary = summary if summary is not None else says("## Done\n- We talked.\n## Open\n- Going on.")
        self._bytes_per_token = bytes_per_token
        self._counts = counts
        self._refusal = refusal
        self.requests: list[ProviderRequest] = []
        """Those that were not for a summary."""
        self.summaries: list[ProviderRequest] = []
        self.sizes: list[int] = []
        """Tokens of all requests, in order."""
        self.refused = 0
        """Requests that were too long."""
        self.counted = 0
        """Requests that were only counted."""

    def tokens(self, request: ProviderRequest) -> int:
        """What this model counts: everything that is sent, by its bytes, and 1,000 for an image."""
        parts = [part for message in request.messages for part in message.parts]
        texts = [part for part in parts if not isinstance(part, ImagePart)]
        sent = (request.system, request.tools, request.volatile, [message.role for message in request.messages], texts)
        return int(len(msgspec.json.encode(sent)) / self._bytes_per_token) + 1_000 * (len(parts) - len(texts))

    async def count_tokens(self, request: ProviderRequest) -> int | None:
        """See `TokenCounter.count_tokens`; one that cannot count cannot be reached."""
        self.counted += 1
        if not self._counts:
            raise ProviderConnectionError("Counting is out of order.")
        return self.tokens(request)

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`."""
        return self._stream(request)

    @asynccontextmanager
    async def _stream(self, request: ProviderRequest) -> AsyncGenerator[AsyncIterator[ProviderEvent], None]:
        yield self._events(request)

    async def _events(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        await anyio.lowlevel.checkpoint()
        size = self.tokens(request)
        if size > self.window:
            self.refused += 1
            if issubclass(self._refusal, ProviderRequestError):
                raise self._refusal("scripted refused the request: It is not to our taste.", 400)
            raise self._refusal(f"The request has {size} tokens, and the window is {self.window}.")
        self.sizes.append(size)
        is_summary = SUMMARY_MARK in request.messages[-1].text and not request.tools
        (self.summaries if is_summary else self.requests).append(request)
        turn = self._summary if is_summary else self._answer(request)
        written = 0
        calls = sum(len(m.tool_calls) for m in request.messages if m.role is Role.ASSISTANT)
        asked = False
        for index, step in enumerate(turn):
            for event in _played(step, index, f"call_{len(self.requests)}_{calls}_{index}"):
                asked = asked or isinstance(event, ToolCallBegun)
                written += len(event.text) if isinstance(event, TextDelta | ToolCallFragment) else 0
                if isinstance(event, Stopped):
                    yield UsageKnown(Usage(size, written // 4))
                    yield event
                    return
                yield event
        yield UsageKnown(Usage(size, max(written // 4, 1)))
        yield Stopped(ProviderStop.TOOL_CALLS if asked else ProviderStop.END)


def _played(step: object, index: int, call_id: str) -> list[ProviderEvent]:
    if isinstance(step, Exception):
        raise step
    if isinstance(step, ScriptStep) and step.tool is not None:
        return [ToolCallBegun(index, call_id, step.tool), ToolCallFragment(index, step.argument_text)]
    if isinstance(step, TextDelta | Stopped | UsageKnown):
        return [step]
    raise TypeError("A turn of this model is text, calls, an error or a stop.")
