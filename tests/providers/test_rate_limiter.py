from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Secret
from pattern_acp.domain.usage import Usage
from pattern_acp.providers.rate_limiter import BucketState, RateLimiter, RateLimiters, read_levels
from tests.support.constellation import FakeClock

NOON_MS = 1_800_000_000_000
OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "6000",
    "x-ratelimit-remaining-tokens": "1000",
    "x-ratelimit-reset-tokens": "50s",
}
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "50",
    "anthropic-ratelimit-requests-remaining": "49",
    "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:02Z",
    "anthropic-ratelimit-input-tokens-limit": "30000",
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:01:00Z",
}


@dataclass(slots=True)
class Filled:
    """Buckets that were told of, and their clock."""

    clock: FakeClock = field(default_factory=lambda: FakeClock(NOON_MS))
    buckets: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        self.buckets = RateLimiter(self.clock)


def test_the_headers_of_openai_and_anthropic_are_read():
    assert read_levels(OPENAI, NOON_MS) == {
        "requests": BucketState(60, 59, 1_000),
        "tokens": BucketState(6000, 1000, 50_000),
    }
    assert read_levels(ANTHROPIC, NOON_MS) == {
        "requests": BucketState(50, 49, 2_000),
        "input-tokens": BucketState(30_000, 0, 60_000),
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("6m0s", 360_000),
        ("20ms", 20),
        ("1h2m3.5s", 3_723_500),
        ("12", 12_000),
        ("1d", 86_400_000),
        ("9d", 86_400_000),
        ("2027-01-15T07:00:00Z", 0),
        ("2027-01-15T08:00:00", None),
        ("soon", None),
        ("", None),
    ],
)
def test_a_reset_is_read_in_all_its_forms(text: str, expected: int | None):
    headers = {**OPENAI, "x-ratelimit-reset-requests": text}
    level = read_levels(headers, NOON_MS).get("requests")
    assert (level.full_in_ms if level else None) == expected


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "9" * 30])
def test_a_limit_that_is_none_is_left_out(text: str):
    assert "requests" not in read_levels({**OPENAI, "x-ratelimit-limit-requests": text}, NOON_MS)


@given(st.dictionaries(st.sampled_from(sorted({*OPENAI, *ANTHROPIC})), st.text(max_size=30)))
def test_any_headers_can_be_read(headers: dict[str, str]):
    assert all(0 <= level.left <= level.limit for level in read_levels(headers, NOON_MS).values())


def test_nobody_waits_before_an_answer_has_told_of_limits():
    assert Filled().buckets.reserve(10**7).wait_ms == 0


def test_who_takes_more_than_is_left_waits_until_it_came_back():
    filled = Filled()
    filled.buckets.observe(OPENAI)
    # 1000 tokens are left and 100 come back each second; both requests need 1000.
    assert filled.buckets.reserve(4000).wait_ms == 0
    assert filled.buckets.reserve(4000).wait_ms == 10_001
    assert filled.buckets.reserve(4000).wait_ms == 20_001
    filled.clock.advance(30_000)
    assert filled.buckets.reserve(400).wait_ms <= 1_001


def test_what_waits_is_taken_off_what_a_later_answer_says():
    filled = Filled()
    filled.buckets.observe(OPENAI)
    filled.buckets.sent(filled.buckets.reserve(4000))
    waiting = filled.buckets.reserve(4000)
    filled.buckets.observe(OPENAI)
    assert filled.buckets.reserve(4000).wait_ms == 10_001
    filled.buckets.release(waiting)


def test_what_was_given_back_is_there_again():
    filled = Filled()
    filled.buckets.observe(OPENAI)
    filled.buckets.release(filled.buckets.reserve(4000))
    assert filled.buckets.reserve(4000).wait_ms == 0


def test_a_request_that_never_fits_waits_only_until_the_bucket_is_full():
    filled = Filled()
    filled.buckets.observe(OPENAI)
    assert filled.buckets.reserve(10**9).wait_ms == 50_001


def test_a_full_bucket_comes_back_within_a_minute():
    filled = Filled()
    filled.buckets.observe({**OPENAI, "x-ratelimit-remaining-tokens": "6000", "x-ratelimit-reset-tokens": "0s"})
    filled.buckets.reserve(24_000)
    assert filled.buckets.reserve(24_000).wait_ms == 60_001


def test_a_refusal_holds_up_everyone_until_its_time():
    filled = Filled()
    filled.buckets.refused(7_000)
    filled.buckets.refused(3_000)
    filled.buckets.refused(None)
    assert filled.buckets.reserve(1).wait_ms == 7_000
    filled.clock.advance(7_000)
    assert filled.buckets.reserve(1).wait_ms == 0


def test_what_the_last_request_counted_as_is_what_the_next_one_needs():
    filled = Filled()
    filled.buckets.charged(Usage(200, 50, 800), 4000)
    filled.buckets.observe({**ANTHROPIC, "anthropic-ratelimit-input-tokens-remaining": "200"})
    # At Anthropic what comes from the cache does not count.
    filled.buckets.charged(Usage(200, 50, 800), 4000)
    assert filled.buckets.reserve(4000).wait_ms == 0
    assert filled.buckets.reserve(4000).wait_ms > 0


def test_sessions_share_buckets_by_server_key_and_model_and_counting_has_its_own():
    every = RateLimiters(FakeClock())
    one = ProviderSettings("a", "openai", "http://x", Secret("k" * 9))
    same = ProviderSettings("b", "openai", "http://x", Secret("k" * 9))
    other = ProviderSettings("a", "openai", "http://x", Secret("l" * 9))
    assert every.of(one, "m") is every.of(same, "m")
    assert every.of(one, "m") is not every.of(other, "m")
    assert every.of(one, "m") is not every.of(one, "n")
    assert every.of(one, "m") is not every.of(one, "m", counting=True)


@given(st.lists(st.tuples(st.integers(1, 40_000), st.booleans(), st.integers(0, 5_000)), max_size=40))
def test_over_any_time_no_more_goes_out_than_was_there_and_came_back(taken: list[tuple[int, bool, int]]):
    filled = Filled()
    filled.buckets.observe(OPENAI)
    sent: list[tuple[int, float]] = []
    for size, is_given_back, passes in taken:
        got = filled.buckets.reserve(size)
        if is_given_back:
            filled.buckets.release(got)
        else:
            sent.append((filled.clock.now_ms() - NOON_MS + got.wait_ms, got.amounts["tokens"]))
        filled.clock.advance(passes)
    for until, _ in sent:
        gone = sum(amount for at, amount in sent if at <= until)
        assert gone <= 1000 + 0.1 * until + 1


LAB = ProviderSettings("lab", "openai", "http://localhost:9/v1", Secret("key-1"))


def test_another_process_knows_what_the_newest_answer_said(tmp_path: Path):
    clock = FakeClock(NOON_MS)
    one, two = (RateLimiters(clock, tmp_path).of(LAB, "m") for _ in range(2))
    one.observe({**OPENAI, "x-ratelimit-remaining-tokens": "0"})
    assert two.reserve(400).wait_ms == one.reserve(400).wait_ms > 0
    other = RateLimiters(clock, tmp_path)
    assert other.of(LAB, "other").reserve(400).wait_ms == 0
    assert other.of(replace(LAB, api_key=Secret("key-2")), "m").reserve(400).wait_ms == 0
    assert [path for path in tmp_path.rglob("*.json") if "key-1" in path.read_text()] == []


def test_a_refusal_holds_up_other_processes_as_well(tmp_path: Path):
    clock = FakeClock(NOON_MS)
    one, two = (RateLimiters(clock, tmp_path).of(LAB, "m") for _ in range(2))
    assert two.reserve(4).wait_ms == 0
    one.refused(7_000)
    assert two.reserve(4).wait_ms == 7_000


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"at_ms": 1}', '{"at_ms": 9e15, "blocked_until_ms": 9, "buckets": {}}']
)
def test_a_file_that_cannot_be_true_is_as_if_there_were_none(tmp_path: Path, text: str):
    clock = FakeClock(NOON_MS)
    one, two = (RateLimiters(clock, tmp_path).of(LAB, "m") for _ in range(2))
    one.refused(7_000)
    (path,) = tmp_path.rglob("*.json")
    path.write_text(text, "utf-8")
    assert two.reserve(4).wait_ms == 0


def test_a_directory_that_cannot_be_written_changes_nothing(tmp_path: Path):
    (tmp_path / "file").write_text("", "utf-8")
    buckets = RateLimiters(FakeClock(NOON_MS), tmp_path / "file").of(LAB, "m")
    buckets.refused(7_000)
    assert buckets.reserve(4).wait_ms == 7_000


def test_a_clock_that_is_set_back_lets_nobody_wait_longer():
    filled = Filled()
    filled.buckets.observe(OPENAI)
    filled.buckets.refused(20_000)
    filled.clock.advance(5_000)
    assert filled.buckets.reserve(400).wait_ms == 15_000
    filled.clock.advance(-3_600_000)
    assert filled.buckets.reserve(400).wait_ms == 15_000
    filled.clock.advance(15_000)
    assert filled.buckets.reserve(400).wait_ms == 0
