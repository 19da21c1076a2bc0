"""Errors of the journal.

Owns: the refinement of `JournalError`. Must not know: SQL.
"""

from collections.abc import Sequence

from pattern_acp.domain.clock import local_minute
from pattern_acp.domain.errors import JournalError


class UnknownEventError(JournalError):
    """A stored event has a kind or a version that this program does not know."""

    failure_code = "journal.event-unknown"

    def __init__(self, kind: str, version: int) -> None:
        super().__init__(
            f"The journal holds an event of kind {kind!r}, version {version}, that this pattern-acp does not know; "
            "upgrade pattern-acp to read this session."
        )
        self.kind = kind
        self.version = version


class DamagedEventError(JournalError):
    """A stored event does not have the form of its kind."""

    failure_code = "journal.event-damaged"


class MissingSessionError(JournalError):
    """No session has this id, or it was deleted."""

    failure_code = "session.unknown"

    def __init__(self, session_id: str) -> None:
        super().__init__(f"There is no session {session_id!r}; list the sessions and choose one of them.")
        self.session_id = session_id


class AmbiguousSessionError(JournalError):
    """Several sessions have ids that begin as the given one does."""

    failure_code = "session.unknown"

    def __init__(self, beginning: str, found: Sequence[str]) -> None:
        super().__init__(f"More than one session begins with {beginning}: {', '.join(found)}. Give more of the id.")


class BadCursorError(JournalError):
    """A list's cursor was not made by this program."""

    failure_code = "session.cursor-unusable"

    def __init__(self) -> None:
        super().__init__("The cursor is not one that session/list returned; ask for the list again without a cursor.")


class LeaseHeldError(JournalError):
    """The session runs in another process that is alive. `remedy` says what the user can do."""

    failure_code = "session.held-elsewhere"

    def __init__(
        self,
        session_id: str,
        *,
        pid: int,
        host: str,
        since_ms: int,
        remedy: str = "close it there, or start a new session",
    ) -> None:
        since = local_minute(since_ms)
        super().__init__(f"Session {session_id} is in use by process {pid} on {host} since {since}; {remedy}.")
        self.session_id = session_id
        self.pid = pid
        self.host = host
        self.since_ms = since_ms


class LeaseLostError(JournalError):
    """Another process has the session now; nothing may be added to it from here."""

    failure_code = "session.taken-over"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"Session {session_id} is open in another window now, so nothing can be added to it from here. "
            "What was recorded before is there; the next prompt asks where to continue."
        )
        self.session_id = session_id


class NotDeletedError(JournalError):
    """There is no deleted session to bring back, or its time is over."""

    failure_code = "session.not-deleted"


class AnchorError(JournalError):
    """An anchor cannot be read or stored."""

    failure_code = "journal.anchor-unusable"


class RedactionError(JournalError):
    """Words cannot be taken out of an event; nothing was changed."""

    failure_code = "journal.redaction-refused"


class SegmentsError(JournalError):
    """No constellation can be made from these segments."""

    failure_code = "journal.segments-unusable"
