"""Retries of failed requests.

Owns: the policy, and the loop that carries it out over a stream of events. Must not know: HTTP or wires.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import anyio
from msgspec import Struct

from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.providers.base import (
    ProviderEvent,
    ProviderStop,
    Retrying,
    Stopped,
    TextDelta,
    ThinkingDelta,
    ThinkingEnded,
    ToolCallBegun,
)
from pattern_acp.providers.http_errors import (
    ContentFilteredError,
    ContextTooLongError,
    EmptyAnswerError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderRequestError,
    ProviderStalledError,
)

MAX_ATTEMPTS = 5
"""Attempts in all; with the delays below a provider has about eight seconds to come back."""

MAX_STALLED_ATTEMPTS = 2
"""Each stall has already cost the user one of the limits of silence; a third would be as much again."""

_ADVICE = late_pattern(r"; (?:wait [\w ]+ and )?try again\b[^;.]*\.$")

FIRST_DELAY_MS = 500
MAX_DELAY_MS = 60_000


class RetryPolicy(Struct, frozen=True):
    """Number and delays of retries. `sleep` takes seconds; `jitter` returns numbers in [0, 1)."""

    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    jitter: Callable[[], float] = random.SystemRandom().random
    max_attempts: int = MAX_ATTEMPTS

    def delay_ms(self, error: ProviderError, attempt: int, patience_ms: int) -> int | None:
        """Milliseconds to wait after the failure of `attempt` (from 1), or None when it is not tried again.

        A provider that asks for more than `patience_ms` is not tried again: before that time it would refuse again.
        """
        if attempt >= attempts_for(error, self.max_attempts):
            return None
        asked = error.retry_after_ms if isinstance(error, ProviderOverloadedError) else None
        if asked is not None:
            return asked if asked <= patience_ms else None
        return self.backoff_ms(attempt)

    def backoff_ms(self, attempt: int) -> int:
        """Milliseconds to wait after the failure of `attempt` (from 1), unless the server says how long."""
        # Half fixed, half random: clients that failed together do not come back together.
        full = min(FIRST_DELAY_MS * 2 ** (attempt - 1), MAX_DELAY_MS)
        return int(full * (0.5 + self.jitter() / 2))


def attempts_for(error: ProviderError, most: int) -> int:
    """Number of attempts that an error is worth: one when trying again cannot help."""
    if isinstance(error, ProviderStalledError):
        return min(MAX_STALLED_ATTEMPTS, most)
    if isinstance(error, ProviderOverloadedError) and error.attempts is not None:
        return min(error.attempts, most)
    return most if isinstance(error, ProviderConnectionError | ProviderOverloadedError) else 1


def is_refusal(error: ProviderError) -> bool:
    """Return whether the provider would answer the same again."""
    return isinstance(error, ProviderAuthError | ProviderRequestError | ContextTooLongError | ContentFilteredError)


def without_advice(sentence: str) -> str:
    """The sentence of a failure without its advice to try again, for a request that is made again on its own."""
    return _ADVICE.sub(".", sentence)


def is_content(event: ProviderEvent) -> bool:
    """Return whether the event shows content of the answer to the user or adds it to the history."""
    return isinstance(event, TextDelta | ThinkingDelta | ThinkingEnded | ToolCallBegun)


async def with_retries(
    attempt: Callable[[], AsyncGenerator[ProviderEvent, None]], policy: RetryPolicy, patience_ms: int
) -> AsyncGenerator[ProviderEvent, None]:
    """The events of the first attempt that gets anywhere.

    Once content has come nothing is tried again: a later failure ends the stream as `INTERRUPTED` with its sentence.

    Raises:
        ProviderError: the last attempt's error, when no content came; `EmptyAnswerError` also after mere reasoning.
    """
    number = 1
    while True:
        has_content = False
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    has_content = has_content or is_content(event)
                    yield event
        except ProviderError as error:
            if has_content and not isinstance(error, EmptyAnswerError):
                attempts = error.attempts if isinstance(error, ProviderOverloadedError) else None
                yield Stopped(ProviderStop.INTERRUPTED, error.sentence, is_refusal(error), attempts)
                return
            delay = policy.delay_ms(error, number, patience_ms)
            if delay is None:
                raise
            sentence = f"{without_advice(error.sentence)} Trying again in {delay / 1000:.1f} s."
        else:
            return
        yield Retrying(number, delay, sentence)
        await policy.sleep(delay / 1000)
        number += 1
