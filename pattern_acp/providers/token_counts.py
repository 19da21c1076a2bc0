"""What servers say of tokens -> counts that can be added up.

Owns: which values are counts. Must not know: the names that a wire has for them. A server's mistake in its bookkeeping
must not cost the answer that it belongs to: whatever is no count is as if it had not been said.
"""

from collections.abc import Mapping
from typing import TypeGuard

MOST_TOKENS = 1_000_000_000
"""A hundred times the largest window there is; more is no count of one request."""

_DIGITS = len(str(MOST_TOKENS))


def is_object(raw: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a decoded value is a JSON object, whose keys are always text."""
    return isinstance(raw, dict)


def token_count(raw: object, *path: str) -> int | None:
    """The count at `path` inside a decoded JSON object; None when there is none that can be believed."""
    for name in path:
        if not is_object(raw):
            return None
        raw = raw.get(name)
    if isinstance(raw, str) and raw.isascii() and raw.isdigit() and len(raw) <= _DIGITS:
        raw = int(raw)
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not 0 <= raw <= MOST_TOKENS:
        return None
    return int(raw)
