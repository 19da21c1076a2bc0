"""What every `Clock` does. A new implementation adds itself to `CLOCKS`."""

from collections.abc import Callable

import pytest

from pattern_acp.domain.clock import Clock, SystemClock
from tests.support.constellation import FakeClock

CLOCKS: dict[str, Callable[[], Clock]] = {"system": SystemClock, "fake": FakeClock}

JANUARY_2020_MS = 1_577_836_800_000
JANUARY_2100_MS = 4_102_444_800_000


@pytest.fixture(params=list(CLOCKS))
def clock(request: pytest.FixtureRequest) -> Clock:
    return CLOCKS[request.param]()


def test_the_time_is_in_whole_milliseconds_since_1970(clock: Clock):
    now = clock.now_ms()
    assert type(now) is int
    assert JANUARY_2020_MS < now < JANUARY_2100_MS


def test_durations_never_go_back(clock: Clock):
    readings = [clock.monotonic() for _ in range(1000)]
    assert readings == sorted(readings)


def test_both_go_on_together_when_a_fake_is_turned():
    clock = FakeClock()
    time, duration = clock.now_ms(), clock.monotonic()
    clock.advance(1500)
    assert clock.now_ms() - time == 1500
    assert clock.monotonic() - duration == pytest.approx(1.5)
