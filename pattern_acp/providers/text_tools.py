"""A provider whose models need no native tool calls: they write actions as text, and get results as text.

Owns: which requests are put that way, and that a model which refuses native tools is asked again so. To whoever reads
the stream there is no difference: calls come as calls, so policy, journal and editors see the same. Works over every
wire. Must not know: a wire's format, the wording (text_actions.py), sessions.
"""

import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from msgspec.structs import replace

from pattern_acp.domain.action_arguments import ToolVerb
from pattern_acp.domain.action_lines import Verbs
from pattern_acp.domain.action_runs import ActionReader, RunEnd
from pattern_acp.providers.base import (
    Provider,
    ProviderEvent,
    ProviderRequest,
    ProviderStop,
    Stopped,
    TextDelta,
    TokenCounter,
    Told,
    ToolCallBegun,
    ToolCallFragment,
    ToolCallUnread,
    ToolForm,
)
from pattern_acp.providers.errors import ToolsRefusedError
from pattern_acp.providers.retry import is_content
from pattern_acp.providers.text_actions import RESULT_MARK, instruction, usage, verbs_of, with_text_calls

logger = logging.getLogger(__name__)


class TextToolsProvider:
    """`Provider` and `TokenCounter` over another one.

    `calls_tools` says of a model whether it has native calls; `refused` is told of one that turns out to have none.
    """

    def __init__(
        self, inner: Provider, calls_tools: Callable[[str], bool], refused: Callable[[str], Awaitable[None]]
    ) -> None:
        self._inner = inner
        self._calls_tools = calls_tools
        self._refused = refused

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return self._inner.name

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`. A model that refuses tools is asked once more, with actions as text."""
        return self._stream(request)

    async def count_tokens(self, request: ProviderRequest) -> int | None:
        """See `TokenCounter.count_tokens`."""
        if not isinstance(self._inner, TokenCounter):
            return None
        return await self._inner.count_tokens(put_as_text(request) if self._wants_text(request) else request)

    @asynccontextmanager
    async def _stream(self, request: ProviderRequest) -> AsyncGenerator[AsyncIterator[ProviderEvent], None]:
        async with aclosing(self._events(request)) as events:
            yield events

    def _wants_text(self, request: ProviderRequest) -> bool:
        if request.tool_form is ToolForm.AUTO:
            return not self._calls_tools(request.model)
        return request.tool_form is ToolForm.TEXT

    async def _events(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        if not self._wants_text(request):
            has_content = False
            try:
                async with self._inner.stream(request) as events:
                    async for event in events:
                        has_content = has_content or is_content(event)
                        yield event
            except ToolsRefusedError:
                if has_content or request.tool_form is ToolForm.NATIVE:
                    raise
            else:
                return
            await self._refused(request.model)
            logger.info("%s/%s refuses tool calls; actions as text from here on", self.name, request.model)
            yield Told(f"{self.name}/{request.model} takes no tool calls, so it writes its actions as text (/tools).")
        async with aclosing(self._read_actions(request)) as read:
            async for event in read:
                yield event

    async def _read_actions(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        verbs = verbs_of(request.tools)
        reader, native = ActionReader(verbs, RESULT_MARK), 0
        async with self._inner.stream(put_as_text(request)) as events:
            async for event in events:
                match event:
                    case TextDelta(text):
                        shown = reader.feed(text)
                        if shown:
                            yield TextDelta(shown)
                    case Stopped(reason):
                        is_cut = reason is ProviderStop.MAX_TOKENS
                        for told in _end(reader.end(), verbs, native, f"action_{len(request.messages)}", is_cut=is_cut):
                            yield told
                        yield event
                    case _:
                        native = max(native, event.index + 1) if isinstance(event, ToolCallBegun) else native
                        yield event


def put_as_text(request: ProviderRequest) -> ProviderRequest:
    """The request without native tools: they are described in the system prompt, and calls are text."""
    told = instruction(request.tools)
    system = "\n\n".join(part for part in (request.system.rstrip("\n"), told) if part)
    return replace(
        request, system=system, tools=(), messages=with_text_calls(request.messages, verbs_of(request.tools))
    )


def _end(end: RunEnd, verbs: Verbs[ToolVerb], first: int, prefix: str, *, is_cut: bool) -> Iterator[ProviderEvent]:
    if end.text:
        yield TextDelta(end.text)
    for index, action in enumerate(end.actions, first):
        yield ToolCallBegun(index, f"{prefix}_{index}", action.verb)
        yield ToolCallFragment(index, json.dumps(action.arguments, ensure_ascii=False))
        if is_cut:
            # Such an answer runs as a whole or not at all, and what was cut off could have been an argument.
            yield ToolCallUnread(index, "The answer was cut before its end.")
    if end.problem:
        verb = verbs.find(end.verb)
        form = f" The form is: {usage(verb)}" if verb is not None else ""
        yield ToolCallBegun(first, f"{prefix}_{first}", end.verb)
        yield ToolCallFragment(first, end.raw)
        yield ToolCallUnread(first, end.problem + form)
