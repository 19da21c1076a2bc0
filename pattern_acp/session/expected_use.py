"""What the next model request will use, as far as can be said before it is sent.

Owns: the estimate from the request's tokens, the cache, and how long answers were so far. Must not know: budgets.
"""

from typing import TYPE_CHECKING

from msgspec import Struct

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.usage import Usage
from pattern_acp.journal.usage import last_used, usual_output
from pattern_acp.providers.base import ModelInfo
from pattern_acp.providers.catalogue import cost_of

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

FIRST_OUTPUT_TOKENS = 500
"""Of the first answer of a model in a session: some sentences and a call or two."""


class Expected(Struct, frozen=True):
    """What a request is expected to use; `micro_units` None where no price is known."""

    tokens: int
    micro_units: int | None


async def expected_use(session: "Session", info: ModelInfo, tokens: int, most_output: int) -> Expected:
    """For a request of so many tokens whose answer has `most_output` tokens at most.

    Raises:
        DatabaseError: what requests used before could not be read.
    """

    def read(tx: Transaction) -> tuple[Usage | None, int | None]:
        return (
            last_used(tx, session.session_id, info.qualified),
            usual_output(tx, session.session_id, info.qualified),
        )

    before, usual = await session.constellation.database.read(read)
    output = min(FIRST_OUTPUT_TOKENS if usual is None else usual, most_output)
    if info.is_free:
        return Expected(tokens + output, 0)
    # What was sent the last time is read from the cache, where this model has one.
    has_cache = before is not None and bool(before.cache_read_tokens or before.cache_write_tokens)
    cached = min(before.context_tokens, tokens) if before is not None and has_cache else 0
    cost = cost_of(info, Usage(tokens - cached, output, cache_read_tokens=cached))
    return Expected(tokens + output, None if cost is None else cost.micro_units)
