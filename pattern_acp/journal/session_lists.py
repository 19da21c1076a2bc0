"""Sessions as lists show them: whether each is in use, the last thing that was said, and what was done in a folder.

Owns: status and preview, read when a list is asked for, so that neither can be out of date or outlive a redaction, and
the sessions of a folder for those who come back to it. Must not know: how a list is shown.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.errors import JournalError
from pattern_acp.domain.ids import SessionId
from pattern_acp.journal.events import Event, MessageRecorded, TurnStarted
from pattern_acp.journal.history import ancestors
from pattern_acp.journal.leases import Holder, held_elsewhere, lease_of
from pattern_acp.journal.reader import last_messages
from pattern_acp.journal.sessions import SessionRow, cwd_key

QUERIES = load_queries("pattern_acp.journal")

_PREVIEW_LENGTH = 160
"""Characters of a preview: two lines of a picker."""

_MESSAGES_LOOKED_AT = 4
"""The newest message may hold only tool calls."""

_LAST = (1 << 63) - 1


class SessionStatus(StrEnum):
    """The state of a session in a list."""

    IDLE = "idle"
    OPEN = "open"
    """A window has it."""
    RUNNING = "running"
    """A turn runs in it."""
    INTERRUPTED = "interrupted"
    """Its last turn was cut off, and nobody has opened it since."""


class ListedSession(Struct, frozen=True):
    """A session of a list; `elsewhere` says that another process has it."""

    row: SessionRow
    status: SessionStatus
    preview: str
    elsewhere: bool = False


def with_details(tx: Transaction, rows: Sequence[SessionRow], asking: Holder, now_ms: int) -> list[ListedSession]:
    """The rows with their details, as `asking`, this process, sees them.

    Raises:
        DatabaseError: the file cannot be read.
    """
    return [_listed(tx, row, asking, now_ms) for row in rows]


def _listed(tx: Transaction, row: SessionRow, asking: Holder, now_ms: int) -> ListedSession:
    lease = lease_of(tx, row.session_id)
    elsewhere = held_elsewhere(tx, row.session_id, asking, now_ms) is not None
    mine = lease is not None and lease.holder.holder == asking.holder
    newest = tx.one(QUERIES["last_turn_event"], {"stream": row.session_id})
    in_turn = newest is not None and newest[0] == "turn_started"
    if elsewhere or mine:
        status = SessionStatus.RUNNING if in_turn else SessionStatus.OPEN
    else:
        status = SessionStatus.INTERRUPTED if in_turn else SessionStatus.IDLE
    return ListedSession(row, status, preview(tx, row.session_id), elsewhere)


def preview(tx: Transaction, session_id: str) -> str:
    """The last thing that was said, on one line; empty when nothing was, or when it cannot be read."""
    streams = [(session_id, _LAST), *((one.session_id, one.seq) for one in ancestors(tx, session_id))]
    for stream, upto in streams:
        try:
            newest = last_messages(tx, stream, upto_seq=upto, limit=_MESSAGES_LOOKED_AT)
        except JournalError:
            # A list with a damaged session in it is still a list.
            return ""
        for entry in newest:
            said = " ".join(_said(entry.event).split())
            if said:
                return said if len(said) <= _PREVIEW_LENGTH else said[: _PREVIEW_LENGTH - 1] + "…"
    return ""


def _said(event: Event) -> str:
    if isinstance(event, TurnStarted):
        return event.message.words
    return event.message.text if isinstance(event, MessageRecorded) else ""


class Thread(Struct, frozen=True):
    """A session: its title, when it was used last, how its last turn ended ('' for not), and open steps of its plan."""

    title: str
    updated_ms: int
    stop_reason: str
    open_steps: tuple[str, ...]


def threads_since(
    tx: Transaction, persona: str, cwd: str, after: int, *, exclude: SessionId, limit: int
) -> tuple[Thread, ...]:
    """The sessions of a persona in a folder that did something after an event, newest first."""
    asked = {"persona": persona, "cwd_key": cwd_key(cwd), "after": after, "exclude": exclude, "limit": limit}
    return tuple(
        Thread(
            columns.text(row[0]),
            columns.integer(row[1]),
            "" if row[2] is None else columns.text(row[2]),
            () if row[3] is None else tuple(columns.text(row[3]).split("\n")),
        )
        for row in tx.all(QUERIES["sessions_since"], asked)
    )
