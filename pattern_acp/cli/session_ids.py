"""Short forms of session ids, as lists of memory writes show them: `ses_1a442a6f`, or only `1a442a6f`.

Owns: what a short form stands for. Must not know: what is done with the session.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pattern_acp.journal.errors import AmbiguousSessionError

if TYPE_CHECKING:
    from pattern_acp.db.connection import Database

SHORTEST = 4
"""Digits that a short form has at least, so that a slip of the finger names nothing."""


async def full_id(database: "Database", given: str) -> str:
    """The id that `given` is the beginning of; `given` itself when it is one, or of none.

    Raises:
        AmbiguousSessionError: several ids begin like that.
    """
    beginning = beginning_of(given)
    if not beginning:
        return given
    from pattern_acp.journal.sessions import sessions_beginning

    return meant(given, await database.read(lambda tx: sessions_beginning(tx, beginning)))


def beginning_of(given: str) -> str:
    """Return the beginning of the ids that `given` may stand for; empty when it is no short form."""
    digits = given.removeprefix("ses_")
    return f"ses_{digits}" if len(digits) >= SHORTEST and digits.isalnum() else ""


def meant(given: str, found: Sequence[str]) -> str:
    """Return the one of the ids `found`, all with the same beginning, that is meant; `given` itself when there is none.

    Raises:
        AmbiguousSessionError: several match, and `given` is none of them in full.
    """
    if given in found or not found:
        return given
    if len(found) > 1:
        raise AmbiguousSessionError(given, found)
    return found[0]
