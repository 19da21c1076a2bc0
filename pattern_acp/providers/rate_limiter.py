"""Token buckets: the capacity that a provider still has, as its answers report it.

Owns: the limits of the process, one set for each server, key and model (vendors limit each model on its own), and one
more for counting; all sessions and subagents draw on the same, and other processes read these reports (`SharedLimits`).
Must not know: HTTP, wires, and who waits.

A server reports how large a bucket is, how much is left, and when it is full again: `x-ratelimit-*` (OpenAI, Groq,
vLLM's gateways), `anthropic-ratelimit-*`. A reservation is subtracted at once, so that requests side by side do not all
spend the same rest; a bucket may go into debt, and its debtor waits until it is paid. A bucket that no answer has
mentioned delays nobody.
"""

import datetime
import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct, field

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.clock import Clock
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.usage import Usage

FOLDER = "limits"
MAX_BYTES = 16 * 1024


class RateLimitSnapshot(msgspec.Struct, frozen=True):
    """Limits in one answer. Times are in milliseconds since 1970; `per_ms` is the refill in one."""

    at_ms: int
    blocked_until_ms: int
    buckets: dict[str, tuple[float, float, float]]
    """Limit, what is left, and `per_ms`, by the bucket's name."""


class SharedLimits:
    """The latest limits of one `place`: a server, a key and a model."""

    def __init__(self, directory: Path, place: tuple[str, ...]) -> None:
        digest = hashlib.sha256("\n".join(place).encode()).hexdigest()[:32]
        self._path = directory / FOLDER / f"{digest}.json"
        self._seen: tuple[int, int] | None = None

    def latest(self, now_ms: int) -> RateLimitSnapshot | None:
        """Return news from another process since the last look; None when there are none, or none that can be true."""
        try:
            found = self._path.stat()
            state = (found.st_mtime_ns, found.st_ino)
            if state == self._seen or found.st_size > MAX_BYTES:
                return None
            self._seen = state
            told = msgspec.json.decode(self._path.read_bytes(), type=RateLimitSnapshot)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return told if told.at_ms <= now_ms else None

    def publish(self, at_ms: int, blocked_until_ms: int, buckets: Mapping[str, tuple[float, float, float]]) -> None:
        """Write the limits of the latest answer."""
        partial = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_bytes(msgspec.json.encode(RateLimitSnapshot(at_ms, blocked_until_ms, dict(buckets))))
                found = partial.stat()
                partial.replace(self._path)
                self._seen = (found.st_mtime_ns, found.st_ino)
            finally:
                partial.unlink(missing_ok=True)


BYTES_PER_TOKEN = 4
"""Bytes of a request's body a token, until a server has reported its count."""

_OPENAI = late_pattern(r"x-ratelimit-(limit|remaining|reset)-(requests|tokens)")
_ANTHROPIC = late_pattern(r"anthropic-ratelimit-(requests|tokens|input-tokens|output-tokens)-(limit|remaining|reset)")
_DURATION = late_pattern(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class BucketState(Struct, frozen=True):
    """One bucket in an answer. `full_in_ms` is relative to the answer."""

    limit: float
    left: float
    full_in_ms: int


class _Bucket(Struct):
    limit: float
    left: float
    """Tokens at `at_ms`; below zero: in debt."""
    at_ms: int
    per_ms: float
    """Refill in a millisecond."""

    def left_at(self, now_ms: int) -> float:
        return min(self.limit, self.left + self.per_ms * (now_ms - self.at_ms))

    def add(self, amount: float, now_ms: int) -> None:
        self.left, self.at_ms = min(self.limit, self.left_at(now_ms) + amount), now_ms

    def debt_ms(self) -> int:
        """Time until the debt is paid."""
        return 0 if self.left >= 0 or self.per_ms <= 0 else int(-self.left / self.per_ms) + 1


class TokenReservation(Struct, frozen=True):
    """Tokens that a request reserved, until it was sent."""

    wait_ms: int
    """Time until it may be sent."""
    amounts: Mapping[str, float] = field(default_factory=dict[str, float])


class RateLimiter(Struct):
    """Those of one server, key and model."""

    clock: Clock
    shared: SharedLimits | None = None
    _heard_at_ms: int = 0
    """Time of the answer behind the buckets' levels, here or in another process."""
    _buckets: dict[str, _Bucket] = field(default_factory=dict[str, _Bucket])
    _waiting: dict[str, float] = field(default_factory=dict[str, float])
    """Reservations of requests that were not sent yet, and that a server therefore does not know of."""
    _blocked_until_ms: int = 0
    _last_ms: int = 0
    """Time of the last reading of the clock."""
    _share: float = 1.0
    """Share of the estimate that the server subtracted for the last request: cached tokens often do not count."""

    def reserve(self, body_bytes: int) -> TokenReservation:
        """Take what a request with such a body needs; call `sent` or `release` afterwards."""
        now = self._now()
        self._learn(now)
        amounts: dict[str, float] = {}
        wait = self._blocked_until_ms - now
        for name, bucket in self._buckets.items():
            # More than fits in would never be there.
            amounts[name] = min(self._needed(name, body_bytes), bucket.limit)
            bucket.add(-amounts[name], now)
            self._waiting[name] = self._waiting.get(name, 0.0) + amounts[name]
            wait = max(wait, bucket.debt_ms())
        return TokenReservation(max(wait, 0), amounts)

    def sent(self, taken: TokenReservation) -> None:
        """The request is on its way; the server's next answer knows of it."""
        for name, amount in taken.amounts.items():
            self._waiting[name] -= amount

    def release(self, taken: TokenReservation) -> None:
        """The request will not be sent."""
        self.sent(taken)
        now = self._now()
        for name, amount in taken.amounts.items():
            if name in self._buckets:
                self._buckets[name].add(amount, now)

    def observe(self, headers: Mapping[str, str]) -> None:
        """Update the buckets from an answer."""
        now = self._now()
        for name, level in read_levels(headers, now).items():
            left = level.left - self._waiting.get(name, 0.0)
            is_known = level.full_in_ms > 0 and level.left < level.limit
            # A full bucket shows nothing of its speed; limits are a minute's with nearly all vendors.
            per_ms = (level.limit - level.left) / level.full_in_ms if is_known else level.limit / 60_000
            self._buckets[name] = _Bucket(level.limit, left, now, per_ms)
            self._heard_at_ms = now
        if self._heard_at_ms == now:
            self._tell(now)

    def refused(self, retry_after_ms: int | None) -> None:
        """The server takes nothing for so long (status 429 or 529); nobody else need try before."""
        if retry_after_ms is not None:
            now = self._now()
            self._blocked_until_ms = max(self._blocked_until_ms, now + retry_after_ms)
            self._tell(now)

    def charged(self, usage: Usage, body_bytes: int) -> None:
        """A request with such a body used so much."""
        tokens = usage.input_tokens + usage.cache_write_tokens
        if "input-tokens" not in self._buckets:
            # Only Anthropic, which reports input tokens separately, does not count cached ones.
            tokens += usage.cache_read_tokens
        self._share = min(max(tokens / max(body_bytes // BYTES_PER_TOKEN, 1), 0.01), 2.0)

    def _now(self) -> int:
        now, last = self.clock.now_ms(), self._last_ms
        self._last_ms = now
        if now < last:
            # The clock was set back (processes share no other): the old levels count from here on.
            back = last - now
            self._blocked_until_ms -= back
            self._heard_at_ms -= back
            for bucket in self._buckets.values():
                bucket.at_ms -= back
        return now

    def _learn(self, now: int) -> None:
        """Adopt the news of other processes."""
        told = self.shared.latest(now) if self.shared is not None else None
        if told is None:
            return
        self._blocked_until_ms = max(self._blocked_until_ms, told.blocked_until_ms)
        if told.at_ms <= self._heard_at_ms:
            return
        self._heard_at_ms = told.at_ms
        for name, (limit, left, per_ms) in told.buckets.items():
            self._buckets[name] = _Bucket(limit, left - self._waiting.get(name, 0.0), told.at_ms, per_ms)

    def _tell(self, now: int) -> None:
        if self.shared is not None:
            levels = {name: (each.limit, each.left_at(now), each.per_ms) for name, each in self._buckets.items()}
            self.shared.publish(now, self._blocked_until_ms, levels)

    def _needed(self, name: str, body_bytes: int) -> float:
        if name in {"tokens", "input-tokens"}:
            return max(body_bytes // BYTES_PER_TOKEN * self._share, 1.0)
        return 1.0


class RateLimiters:
    """The rate limiters of the process, made on demand. Processes share limits in `directory`."""

    def __init__(self, clock: Clock, directory: Path | None = None) -> None:
        self._clock = clock
        self._directory = directory
        self._all: dict[tuple[str, str, str, str], RateLimiter] = {}

    def of(self, settings: ProviderSettings, model: str, *, counting: bool = False) -> RateLimiter:
        """The buckets of a provider's server and key for `model`; counting has its own, as at Anthropic."""
        key = settings.api_key.value if settings.api_key is not None else ""
        # A digest, so that no key is stored in one more place.
        who = hashlib.sha256(key.encode()).hexdigest()
        place = (settings.base_url or settings.name, who, model, "count" if counting else "")
        if place not in self._all:
            shared = SharedLimits(self._directory, place) if self._directory is not None else None
            self._all[place] = RateLimiter(self._clock, shared)
        return self._all[place]


def read_levels(headers: Mapping[str, str], now_ms: int) -> dict[str, BucketState]:
    """Read the levels of each bucket from headers (names in lower case); incomplete ones are left out.

    Sources: OpenAI, guide on rate limits; Anthropic, API reference on rate limits (resets are RFC 3339 times).
    """
    found: dict[str, dict[str, str]] = {}
    for name, text in headers.items():
        if match := _OPENAI.fullmatch(name):
            found.setdefault(match[2], {})[match[1]] = text
        elif match := _ANTHROPIC.fullmatch(name):
            found.setdefault(match[1], {})[match[2]] = text
    levels = {name: _level(fields, now_ms) for name, fields in found.items()}
    return {name: level for name, level in levels.items() if level is not None}


def _level(fields: Mapping[str, str], now_ms: int) -> BucketState | None:
    limit, left = _number(fields.get("limit", "")), _number(fields.get("remaining", ""))
    full_in = _milliseconds(fields.get("reset", ""), now_ms)
    # Some servers write 0 or -1 for no limit at all.
    if limit is None or left is None or full_in is None or limit <= 0 or left < 0:
        return None
    return BucketState(limit, min(left, limit), full_in)


def _number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _milliseconds(text: str, now_ms: int) -> int | None:
    """Milliseconds to a reset in the form of a duration (`6m0s`, `20ms`), of seconds, or of a time (RFC 3339)."""
    pieces = list(_DURATION.finditer(text))
    if pieces and "".join(piece[0] for piece in pieces) == text:
        return _bounded(sum(float(piece[1]) * _UNIT_MS[piece[2]] for piece in pieces))
    if (seconds := _number(text)) is not None:
        return _bounded(seconds * 1000)
    try:
        at = datetime.datetime.fromisoformat(text)
        return _bounded(at.timestamp() * 1000 - now_ms) if at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def _bounded(milliseconds: float) -> int:
    # A day, which is the longest window that vendors have.
    return int(min(max(milliseconds, 0.0), 86_400_000.0))
