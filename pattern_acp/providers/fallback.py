"""The fallback of a request: another model when one is unavailable, and the same without images that it refuses.

The other models are the chain that the user set up in `fallback`.

Owns: when the next model is asked, and for how long it stays: each object lives for one turn, so a model that took over
answers the rest of the turn, and the next turn starts with the chosen one again. Must not know: wires and sessions.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.errors import ConfigError, ProviderError
from pattern_acp.domain.messages import ImagePart, Message, ToolResultPart, begins_with
from pattern_acp.providers.base import (
    ModelInfo,
    ModelSwitched,
    Provider,
    ProviderEvent,
    ProviderNotice,
    ProviderRequest,
    TokenCounter,
    nearest_level,
)
from pattern_acp.providers.catalogue import USUAL_ANSWER_TOKENS, answer_beside
from pattern_acp.providers.http_errors import (
    ImagesRefusedError,
    NoModelLeftError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderRequestError,
    ProviderStalledError,
)
from pattern_acp.providers.retry import is_content

TokensOf = Callable[[ProviderRequest], int]
"""About how many tokens a request has for the model that it names."""

Refusal = Callable[[ModelInfo, int, int], Awaitable[str]]
"""Returns why a model may not replace another for a request of so many tokens and so long an answer; empty when it may,
and then the request is sent."""

Resolve = Callable[[str], tuple[Provider, ModelInfo]]
"""The provider and model of `PROVIDER/MODEL`."""


class _Current(Struct, frozen=True):
    provider: Provider
    info: ModelInfo | None = None
    """None for the model that the user chose, whose requests stay as they are."""


class FallbackProvider:
    """`Provider` and `TokenCounter` of one turn: `first`, and when it is out, the models of `chain`."""

    def __init__(
        self,
        first: Provider,
        chain: Sequence[str],
        resolve: Resolve,
        tokens_of: TokensOf,
        patience_ms: int,
        refusal: Refusal | None = None,
    ) -> None:
        """`patience_ms` is the longest rate limit that is waited for while another model is left."""
        self._current = _Current(first)
        self._left = list(chain)
        self._resolve = resolve
        self._tokens_of = tokens_of
        self._patience_ms = patience_ms
        self._refusal = refusal
        self._name = first.name

    @property
    def name(self) -> str:
        """See `Provider.name`: that of the chosen one."""
        return self._name

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`."""
        return aclosing(self._events(request))

    async def count_tokens(self, request: ProviderRequest) -> int | None:
        """See `TokenCounter.count_tokens`."""
        provider = self._current.provider
        return await provider.count_tokens(self._adapted(request)) if isinstance(provider, TokenCounter) else None

    async def _events(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        failed: list[str] = []
        reported = 0
        if self._current.info is not None:
            # The one who reckons the costs of a turn knows those of the chosen model.
            if problem := await self._cannot_take(self._current.info, request):
                raise NoModelLeftError(f"{self._current.info.qualified} cannot continue: {problem}.")
            yield ModelSwitched(self._current.info.qualified, info=self._current.info)
        while True:
            has_content = False
            try:
                async with self._current.provider.stream(self._adapted(request)) as events:
                    async for event in events:
                        has_content = has_content or is_content(event)
                        yield event
            except ProviderError as error:
                # Whatever keeps the next one from taking over, it is the outage before that ends the turn.
                if has_content or not (is_outage(error) or failed):
                    raise
                failed.append(error.sentence)
                qualified = await self._take_next(failed, request)
                if not qualified:
                    raise NoModelLeftError(" ".join(failed)) from error
            else:
                return
            sentence = f"{' '.join(failed[reported:])} {qualified} continues this turn."
            yield ModelSwitched(qualified, sentence, self._current.info)
            reported = len(failed)

    async def _take_next(self, failed: list[str], request: ProviderRequest) -> str:
        """Make the next model that there is the current one; its name, empty when none is left."""
        while self._left:
            try:
                provider, info = self._resolve(self._left.pop(0))
            except (ProviderError, ConfigError) as error:
                failed.append(error.sentence)
                continue
            problem = await self._cannot_take(info, request)
            if problem:
                failed.append(f"{info.qualified} cannot continue: {problem}.")
                continue
            self._current = _Current(provider, info)
            return info.qualified
        return ""

    async def _cannot_take(self, info: ModelInfo, request: ProviderRequest) -> str:
        """Return why a model cannot take a request; empty when it can. Tools are no reason: they can go as text."""
        if not info.sees_images and has_images(request.messages):
            return "it sees no images, and there are some in this conversation"
        most = min(request.max_output_tokens, info.max_output_tokens, info.context_window // 2, USUAL_ANSWER_TOKENS)
        tokens = self._tokens_of(replace(request, model=info.name))
        if tokens > info.context_window - most:
            return f"its window of {info.context_window:,} tokens is too small for this conversation of {tokens:,}"
        return "" if self._refusal is None else await self._refusal(info, tokens, most)

    def _adapted(self, request: ProviderRequest) -> ProviderRequest:
        """The request as the current model takes it."""
        if self._left:
            request = replace(request, patience_ms=min(self._patience_ms, request.patience_ms))
        info = self._current.info
        if info is None:
            return request
        level = nearest_level(request.thought_level, info.thought_levels)
        most = min(request.max_output_tokens, info.max_output_tokens)
        if most > USUAL_ANSWER_TOKENS:
            most = answer_beside(info, most, level, self._tokens_of(replace(request, model=info.name)))
        return replace(request, model=info.name, thought_level=level, max_output_tokens=most)


def has_images(messages: Sequence[Message]) -> bool:
    """Return whether there are images in messages, or in results of tools."""
    # Loops, as each request goes through all of its conversation here.
    for message in messages:
        for part in message.parts:
            if isinstance(part, ImagePart) or (isinstance(part, ToolResultPart) and part.images):
                return True
    return False


def is_outage(error: ProviderError) -> bool:
    """Return whether another model may succeed instead of this one: never after a refusal, a wrong request or key."""
    return isinstance(error, ProviderOverloadedError | ProviderConnectionError | ProviderStalledError)


IMAGES_REFUSED = (400, 415, 422)
"""Statuses with which servers refuse content that a model does not take, in words that not everybody knows."""


class LearnImages(Protocol):
    """Keeps what a request taught about a model."""

    def __call__(self, model: str, *, refused: bool) -> Awaitable[None]:
        """Keep that a model takes no images, or that it was not for them that it refused a request."""
        ...


class ImageTrial:
    """`Provider` that sends images, until the first refusal, to models of which nobody knows whether they take any."""

    def __init__(self, inner: Provider, tries: Callable[[str], bool], learn: LearnImages) -> None:
        """`tries` returns whether a model is sent images on trial."""
        self._inner = inner
        self._tries = tries
        self._learn = learn
        self._without: Sequence[Message] = ()
        """The conversation of the request before, if it has no image."""

    @property
    def name(self) -> str:
        """See `Provider.name`."""
        return self._inner.name

    def stream(self, request: ProviderRequest) -> AbstractAsyncContextManager[AsyncIterator[ProviderEvent]]:
        """See `Provider.stream`. A model that refuses images is asked once more, with words in their place."""
        on_trial = self._tries(request.model) and self._has_images(request.messages)
        return aclosing(self._events(request)) if on_trial else self._inner.stream(request)

    async def count_tokens(self, request: ProviderRequest) -> int | None:
        """See `TokenCounter.count_tokens`."""
        return await self._inner.count_tokens(request) if isinstance(self._inner, TokenCounter) else None

    def _has_images(self, messages: Sequence[Message]) -> bool:
        # Only what is new: a conversation of 600 turns took as long to look through as all else of a turn.
        known = len(self._without) if begins_with(messages, self._without) else 0
        if has_images(messages[known:]):
            return True
        self._without = messages
        return False

    async def _events(self, request: ProviderRequest) -> AsyncGenerator[ProviderEvent, None]:
        has_content = False
        try:
            async with self._inner.stream(request) as events:
                async for event in events:
                    has_content = has_content or is_content(event)
                    yield event
        except ProviderRequestError as error:
            is_named = isinstance(error, ImagesRefusedError)
            if has_content or not (is_named or error.status in IMAGES_REFUSED):
                raise
            refusal = error
        else:
            return
        await self._learn(request.model, refused=True)
        notice: ProviderNotice | None = ProviderNotice(
            f"{self.name}/{request.model} takes no images; it reads a description instead."
        )
        try:
            async with self._inner.stream(request) as events:
                async for event in events:
                    if notice is not None and is_content(event):
                        yield notice
                        notice = None
                    yield event
        except ProviderError:
            if not is_named:
                await self._learn(request.model, refused=False)
            raise refusal from None
