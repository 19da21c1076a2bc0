from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import ProviderEvent, ProviderStop, Retrying, Stopped, TextDelta, UsageKnown
from pattern_acp.providers.http_errors import (
    ContextTooLongError,
    EmptyAnswerError,
    ProviderAuthError,
    ProviderConnectionError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRequestError,
    ProviderStalledError,
)
from pattern_acp.providers.retry import RetryPolicy, attempts_for, with_retries, without_advice

PATIENCE_MS = 300_000
END = Stopped(ProviderStop.END)


@dataclass(slots=True)
class Attempts:
    """Plays one list of events and errors an attempt."""

    script: Sequence[Sequence[ProviderEvent | ProviderError]]
    slept: list[float] = field(default_factory=list[float])
    made: int = 0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def once(self) -> AsyncGenerator[ProviderEvent, None]:
        self.made += 1
        for step in self.script[self.made - 1]:
            if isinstance(step, ProviderError):
                raise step
            yield step

    async def play(self) -> list[ProviderEvent]:
        policy = RetryPolicy(sleep=self.sleep, jitter=lambda: 0.5)
        async with aclosing(with_retries(self.once, policy, PATIENCE_MS)) as events:
            return [event async for event in events]


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (ProviderConnectionError("x"), 5),
        (ProviderOverloadedError("x"), 5),
        (ProviderStalledError("x"), 2),
        (ProviderAuthError("x"), 1),
        (ProviderRequestError("x"), 1),
        (ContextTooLongError("x"), 1),
        (ProviderProtocolError("x"), 1),
        (EmptyAnswerError("x"), 1),
    ],
)
def test_only_what_may_pass_is_tried_again(error: ProviderError, attempts: int):
    assert attempts_for(error, 5) == attempts


async def test_the_person_sees_each_retry_and_then_the_answer():
    attempts = Attempts([[ProviderConnectionError("Gone.")], [TextDelta("a"), END]])
    assert await attempts.play() == [
        Retrying(1, 375, "Gone. Trying again in 0.4 s."),
        TextDelta("a"),
        END,
    ]
    assert attempts.slept == [0.375]


@pytest.mark.parametrize(
    ("sentence", "left"),
    [
        ("The connection to lab broke; try again.", "The connection to lab broke."),
        ("lab sent nothing for 60 s; try again, or choose another model.", "lab sent nothing for 60 s."),
        ("lab has a fault (status 503); try again later or choose another model.", "lab has a fault (status 503)."),
        ("lab is asked too often; wait a minute and try again.", "lab is asked too often."),
        ("lab did not finish; the reason that it gives is 'try again'.", ""),
        ("It is not in the format of its wire; check wire and base_url.", ""),
    ],
)
def test_what_is_tried_again_by_itself_asks_nobody_to_try_again(sentence: str, left: str):
    assert without_advice(sentence) == (left or sentence)


async def test_usage_is_not_content():
    attempts = Attempts([[UsageKnown(Usage(3)), ProviderOverloadedError("Busy.")], [TextDelta("a"), END]])
    assert (await attempts.play())[-1] == END


async def test_after_content_a_failure_ends_the_stream():
    attempts = Attempts([[TextDelta("a"), ProviderConnectionError("Gone.")]])
    assert await attempts.play() == [TextDelta("a"), Stopped(ProviderStop.INTERRUPTED, "Gone.")]


async def test_an_empty_answer_is_an_error_even_after_reasoning():
    with pytest.raises(EmptyAnswerError):
        await Attempts([[TextDelta(" "), EmptyAnswerError("Nothing.")]]).play()


async def test_what_cannot_pass_is_raised_at_once():
    attempts = Attempts([[ProviderAuthError("Key.")]])
    with pytest.raises(ProviderAuthError):
        await attempts.play()
    assert not attempts.slept


@given(st.integers(1, 4), st.floats(0, 1, exclude_max=True), st.none() | st.integers(0, 10**9))
def test_delays_stay_in_their_bounds(attempt: int, jitter: float, asked: int | None):
    delay = RetryPolicy(jitter=lambda: jitter).delay_ms(ProviderOverloadedError("x", asked), attempt, PATIENCE_MS)
    if asked is None:
        assert delay is not None
        assert 250 * 2 ** (attempt - 1) <= delay <= 500 * 2 ** (attempt - 1)
    else:
        assert delay == (asked if asked <= PATIENCE_MS else None)


async def test_a_pause_between_attempts_can_be_cancelled():
    attempts = Attempts([[ProviderOverloadedError("Busy.", 60_000)]])
    with anyio.fail_after(30):
        async with aclosing(with_retries(attempts.once, RetryPolicy(), PATIENCE_MS)) as events:
            assert isinstance(await anext(events), Retrying)
            with anyio.move_on_after(0.01) as scope:
                await anext(events)
    assert scope.cancelled_caught
