"""Remembered decisions of the person.

Owns: what a grant is, and its row. Must not know: what it covers (`covers.py`), or the event that records it (the
caller appends `GrantStored` first, in the same transaction, and hands over its `seq`: rule R1).
"""

from enum import StrEnum

from msgspec import Struct

from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.errors import PolicyError
from pattern_acp.domain.ids import SessionId

LIFETIME = "session"
"""How long every grant lasts, as its label says: no file of a project and no later session can bring one back."""


class Effect(StrEnum):
    """What a grant does."""

    ALLOW = "allow"
    DENY = "deny"


class GrantKind(StrEnum):
    """What a grant is about; see `decision.GrantScope` for the form of each pattern."""

    COMMAND_PREFIX = "command_prefix"
    EXACT_COMMAND = "exact_command"
    EDIT_FOLDER = "edit_folder"
    READ_FOLDER = "read_folder"
    MEMORY_BLOCK = "memory_block"
    SERVER_TOOL = "server_tool"
    FETCH_HOST = "fetch_host"


class Grant(Struct, frozen=True):
    """One remembered answer: an always of either kind, and how far it reaches."""

    effect: Effect
    kind: GrantKind
    pattern: str


def load_grants(tx: Transaction, session_id: SessionId) -> tuple[Grant, ...]:
    """The grants and refusals of a session, oldest first.

    Raises:
        PolicyError: a row is not one that this version understands; nothing is allowed on a guess.
        DatabaseError: the file cannot be read.
    """
    rows = tx.all(load_queries("pattern_acp.policy")["load_grants"], {"session_id": session_id})
    try:
        return tuple(Grant(Effect(str(effect)), GrantKind(str(kind)), str(pattern)) for effect, kind, pattern in rows)
    except ValueError as error:
        raise PolicyError(
            "A remembered permission of this session is of a kind that this version does not know; update pattern-acp "
            "or start a new session."
        ) from error


def store_grant(tx: Transaction, session_id: SessionId, grant: Grant, *, seq: int, at_ms: int) -> None:
    """Remember a grant for the session; storing the same one again changes nothing.

    Args:
        tx: the transaction that also appended the event `seq`.
        session_id: the session it lasts for.
        grant: what to remember.
        seq: the journal event that records it.
        at_ms: milliseconds since 1970 UTC.

    Raises:
        DatabaseError: the file cannot be written.
    """
    queries = load_queries("pattern_acp.policy")
    values = {"session_id": session_id, "effect": grant.effect, "kind": grant.kind, "pattern": grant.pattern}
    if tx.one(queries["has_grant"], values) is None:
        tx.execute(queries["store_grant"], values | {"created_ms": at_ms, "last_seq": seq})
