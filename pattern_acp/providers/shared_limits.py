"""What processes of this person tell each other of a provider's limits.

Owns: one small file for each server, key and model in the cache directory, with what the newest answer said. Must not
know: what is made of it. The newest answer counts, so there is no lock; a file that cannot be read or written is as if
there were none.
"""

import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

FOLDER = "limits"
MAX_BYTES = 16 * 1024


class Told(msgspec.Struct, frozen=True):
    """What one answer said. Times are in milliseconds since 1970; `per_ms` is what comes back in one."""

    at_ms: int
    blocked_until_ms: int
    buckets: dict[str, tuple[float, float, float]]
    """Limit, what is left, and `per_ms`, by the bucket's name."""


class SharedLimits:
    """What was said last of one `place`: a server, a key and a model."""

    def __init__(self, directory: Path, place: tuple[str, ...]) -> None:
        digest = hashlib.sha256("\n".join(place).encode()).hexdigest()[:32]
        self._path = directory / FOLDER / f"{digest}.json"
        self._seen: tuple[int, int] | None = None

    def news(self, now_ms: int) -> Told | None:
        """What another process wrote since the last look; None when there is nothing, or nothing that can be true."""
        try:
            found = self._path.stat()
            state = (found.st_mtime_ns, found.st_ino)
            if state == self._seen or found.st_size > MAX_BYTES:
                return None
            self._seen = state
            told = msgspec.json.decode(self._path.read_bytes(), type=Told)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return told if told.at_ms <= now_ms else None

    def tell(self, at_ms: int, blocked_until_ms: int, buckets: Mapping[str, tuple[float, float, float]]) -> None:
        """Write what an answer has just said."""
        partial = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                partial.write_bytes(msgspec.json.encode(Told(at_ms, blocked_until_ms, dict(buckets))))
                found = partial.stat()
                partial.replace(self._path)
                self._seen = (found.st_mtime_ns, found.st_ino)
            finally:
                partial.unlink(missing_ok=True)
