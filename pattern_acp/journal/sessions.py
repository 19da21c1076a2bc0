"""The row of each session: what a list begins with and what a resumed session starts from.

Owns: the `sessions` table. Must not know: the events that cause a change; every write takes the `seq` of its event
(rule R1) and says with its result whether there was such a session.
"""

import base64
import json
import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from enum import StrEnum
from typing import LiteralString, TypeAlias

import msgspec
from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Row, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import JournalError
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.journal.codec import BadCursorError, MissingSessionError
from pattern_acp.journal.events import Event, MessageRecorded, TurnStarted
from pattern_acp.journal.history import ancestors
from pattern_acp.journal.leases import Holder, held_elsewhere, lease_of
from pattern_acp.journal.reader import last_messages

_WINDOWS_PATH = late_pattern(r"^(?:[A-Za-z]:[\\/]|[\\/]{2}[^\\/])")


MOVED_AWAY = 2
"""The column `deleted` of a session that moved to another constellation."""


def cwd_key(path: str, *, platform: str = sys.platform) -> str:
    """`path` in the form that is compared: symlinks resolved, no trailing slash, and `/` for every separator.

    Case and Unicode composition do not count where the platform's file systems ignore them (Windows, macOS). A drive
    letter or share path is treated as Windows' own on every platform, since a client on Windows may run us in WSL.
    """
    if platform == "win32" or _WINDOWS_PATH.match(path):
        resolved = os.path.realpath(path) if sys.platform == "win32" else path
        return _trim(resolved.replace("\\", "/").casefold())
    resolved = os.path.realpath(path)
    if platform == "darwin":
        resolved = unicodedata.normalize("NFC", resolved).casefold()
    return _trim(resolved)


def _trim(path: str) -> str:
    collapsed = re.sub(r"(?<!^)/{2,}", "/", path)
    return collapsed.rstrip("/") or "/"


QUERIES = load_queries("pattern_acp.journal")

_NEWEST = (1 << 63) - 1


class NewSession(Struct, frozen=True):
    """A session as it begins. `parent` and `fork_seq` say where it was forked, if it was."""

    session_id: SessionId
    cwd: str
    additional_directories: tuple[str, ...]
    persona: str
    persona_identity: str
    model: str
    mode: str
    thought_level: str = "off"
    parent: SessionId | None = None
    fork_seq: int | None = None


class SessionRow(Struct, frozen=True):
    """A session as stored. Times are milliseconds since 1970 UTC; `title` is empty before the first prompt."""

    session_id: SessionId
    cwd: str
    additional_directories: tuple[str, ...]
    title: str
    persona: str
    persona_identity: str
    model: str
    mode: str
    thought_level: str
    created_ms: int
    updated_ms: int
    prompt_count: int
    parent: SessionId | None
    fork_seq: int | None
    last_seq: int
    archived: bool = False
    message_count: int = 0
    """Prompts and answers, those of the history that it was forked with too."""


def create_session(tx: Transaction, session: NewSession, *, seq: int, at_ms: int) -> None:
    """Add the row of a session; `seq` is its SessionCreated event's.

    Raises:
        ConstraintError: the id is taken, or `seq` names no event.
    """
    tx.insert(
        QUERIES["create_session"],
        {
            "id": session.session_id,
            "cwd": storable(session.cwd),
            "cwd_key": storable(cwd_key(session.cwd)),
            "additional_directories": json.dumps(session.additional_directories),
            "persona": session.persona,
            "persona_identity": session.persona_identity,
            "model": session.model,
            "mode": session.mode,
            "thought_level": session.thought_level,
            "at_ms": at_ms,
            "parent": session.parent,
            "fork_seq": session.fork_seq,
            "last_seq": seq,
        },
    )


def get_session(tx: Transaction, session_id: SessionId) -> SessionRow | None:
    """The session, or None when there is none or it was deleted."""
    row = tx.one(QUERIES["get_session"], {"id": storable(session_id)})
    return _session(row) if row else None


def sessions_beginning(tx: Transaction, beginning: str) -> tuple[str, ...]:
    """The ids that begin with `beginning`, deleted sessions too; the five used last, if there are more."""
    params = {"beginning": storable(beginning), "length": len(beginning)}
    return tuple(text(row[0]) for row in tx.all(QUERIES["sessions_beginning"], params))


def note_prompt(tx: Transaction, session_id: SessionId, *, seq: int, at_ms: int) -> None:
    """The session got a prompt: it is listed from now on, as the newest.

    Raises:
        MissingSessionError: there is no such session.
    """
    _expect_one(tx.execute(QUERIES["count_prompt"], {"id": session_id, "at_ms": at_ms, "last_seq": seq}), session_id)


def touch(tx: Transaction, session_id: SessionId, *, seq: int, at_ms: int) -> None:
    """The session answered. Raises MissingSessionError where there is no such session."""
    _expect_one(tx.execute(QUERIES["touch_session"], {"id": session_id, "at_ms": at_ms, "last_seq": seq}), session_id)


def set_title(tx: Transaction, session_id: SessionId, title: str, *, seq: int, at_ms: int) -> None:
    """Give the session a title. Raises MissingSessionError where there is no such session."""
    _set(tx, session_id, QUERIES["set_title"], title, seq=seq, at_ms=at_ms)


def newest_mode(tx: Transaction, cwd: str, persona: str) -> str | None:
    """Return the mode of the session of a folder and persona that was used last; None when there was none."""
    row = tx.one(QUERIES["newest_mode"], {"cwd_key": storable(cwd_key(cwd)), "persona": persona})
    return None if row is None else text(row[0])


def newest_modes(tx: Transaction, persona: str) -> list[tuple[str, str]]:
    """Return the folders in which a persona had sessions, as many as matter, with the mode of the last one in each."""
    return [(text(row[0]), text(row[1])) for row in tx.all(QUERIES["newest_modes"], {"persona": persona})]


def set_option(tx: Transaction, session_id: SessionId, option: str, value: str, *, seq: int, at_ms: int) -> None:
    """Give an option of the session, such as `mode` or `persona`, a new value.

    `tools` and `overlapping` have no column: they are needed only when a session is opened, and read from its events.

    Raises:
        MissingSessionError: there is no such session.
        ValueError: there is no such option.
    """
    match option:
        case "mode":
            sql = QUERIES["set_mode"]
        case "model":
            sql = QUERIES["set_model"]
        case "thought_level":
            sql = QUERIES["set_thought_level"]
        case "persona":
            sql = QUERIES["set_persona"]
        case "tools" | "overlapping":
            changed = tx.execute(QUERIES["note_option"], {"id": session_id, "at_ms": at_ms, "last_seq": seq})
            _expect_one(changed, session_id)
            return
        case _:
            raise ValueError(f"A session has no option {option!r}.")
    _set(tx, session_id, sql, value, seq=seq, at_ms=at_ms)


def set_persona_identity(tx: Transaction, session_id: SessionId, identity: str, *, seq: int) -> None:
    """Note which content of its persona the session has."""
    tx.execute(QUERIES["set_persona_identity"], {"id": session_id, "identity": identity, "last_seq": seq})


def remember_thinking(tx: Transaction, session_id: SessionId, level: str, *, seq: int) -> None:
    """Keep how much the user lets the session's model think, for the sessions that are opened from now on."""
    tx.execute(QUERIES["remember_thinking"], {"id": session_id, "level": level, "last_seq": seq})


def remembered_thinking(tx: Transaction, model: str) -> str:
    """The level that the user last chose for a model, `PROVIDER/MODEL`; empty if they never did."""
    row = tx.one(QUERIES["remembered_thinking"], {"model": model})
    return text(row[0]) if row else ""


def set_place(
    tx: Transaction, session_id: SessionId, cwd: str, additional_directories: tuple[str, ...], *, seq: int
) -> None:
    """The session was opened with these folders; its place in a list stays.

    Raises:
        MissingSessionError: there is no such session.
    """
    params = {
        "id": session_id,
        "cwd": storable(cwd),
        "cwd_key": storable(cwd_key(cwd)),
        "additional_directories": json.dumps(additional_directories),
        "last_seq": seq,
    }
    _expect_one(tx.execute(QUERIES["set_directories"], params), session_id)


def mark_deleted(tx: Transaction, session_id: SessionId, *, seq: int, at_ms: int) -> bool:
    """Mark the session as deleted. False: there was none, which `session/delete` treats as done."""
    params = {"id": storable(session_id), "last_seq": seq, "at_ms": at_ms}
    return tx.execute(QUERIES["delete_session"], params) == 1


def mark_restored(tx: Transaction, session_id: SessionId, *, seq: int) -> None:
    """The session is back. Raises MissingSessionError where there is no such deleted session."""
    _expect_one(tx.execute(QUERIES["restore_session"], {"id": session_id, "last_seq": seq}), session_id)


def set_archived(tx: Transaction, session_id: SessionId, *, archived: bool, seq: int) -> None:
    """Put the session away, or back into the list. Raises MissingSessionError where there is no such session."""
    params = {"id": session_id, "archived": int(archived), "last_seq": seq}
    _expect_one(tx.execute(QUERIES["archive_session"], params), session_id)


def set_inherited(tx: Transaction, session_id: SessionId, *, prompts: int, messages: int, seq: int) -> None:
    """Store the number of prompts and messages that a fork begins with: with any, it is listed.

    Raises:
        MissingSessionError: there is no such session.
    """
    params = {"id": session_id, "prompt_count": prompts, "message_count": messages, "last_seq": seq}
    _expect_one(tx.execute(QUERIES["set_inherited"], params), session_id)


def deleted_sessions(tx: Transaction, *, since_ms: int, limit: int) -> tuple[SessionRow, ...]:
    """Sessions with a prompt that were deleted since then, deleted last first."""
    rows = tx.all(QUERIES["deleted_sessions"], {"since_ms": since_ms, "limit": limit})
    return tuple(_session(row) for row in rows)


def living_forks(tx: Transaction, session_id: SessionId) -> tuple[tuple[SessionId, int], ...]:
    """Sessions that share the history of this one and were not deleted, with the number of the last shared event."""
    rows = tx.all(QUERIES["living_forks"], {"parent": session_id})
    return tuple((SessionId(text(row[0])), integer(row[1])) for row in rows)


def deleted_at(tx: Transaction, session_id: SessionId) -> tuple[int, str] | None:
    """The time at which a session was deleted, and its folder; None when it was not."""
    row = tx.one(QUERIES["deleted_session"], {"id": storable(session_id)})
    return None if row is None else (integer(row[0]), text(row[1]))


def mark_moved(tx: Transaction, session_id: SessionId, *, seq: int) -> None:
    """Store that a session moved to another constellation; `seq` is the event that says so.

    Nothing is appended to its stream, which continues elsewhere and may come back.
    """
    tx.execute(QUERIES["move_away"], {"id": session_id, "last_seq": seq})


def was_swept(tx: Transaction, session_id: str) -> bool:
    """Return whether a session lost its words because it was deleted long ago: nothing is left to bring back."""
    return tx.one(QUERIES["was_swept"], {"id": storable(session_id)}) is not None


def has_earlier_session(tx: Transaction, session_id: SessionId) -> bool:
    """True if anything was said in a session that began before this one."""
    return tx.one(QUERIES["has_earlier_session"], {"id": session_id}) is not None


def list_sessions(
    tx: Transaction, *, cwd: str | None, cursor: str | None, limit: int, archived: bool | None = False
) -> tuple[tuple[SessionRow, ...], str | None]:
    """Sessions that are about something, newest first, of one folder or of all, and the cursor of the next page.

    One that had no prompt, or slash commands alone, has no title and is left out. Those that are archived are a list of
    their own; `archived` of None lists all. A cursor is the place of the last session that was shown: what is used
    meanwhile moves to the front, and no other session is left out or shown twice; it is None behind the last page.

    Raises:
        BadCursorError: `cursor` is not one that this function returned.
    """
    before_ms, before_id = _decode_cursor(cursor) if cursor is not None else (_NEWEST, "")
    params = {
        "before_ms": before_ms,
        "before_id": before_id,
        "limit": limit + 1,
        "archived": int(archived is True),
        "also": int(archived is not False),
    }
    if cwd is None:
        rows = tx.all(QUERIES["list_sessions"], params)
    else:
        rows = tx.all(QUERIES["list_sessions_of_cwd"], {**params, "cwd_key": storable(cwd_key(cwd))})
    sessions = tuple(_session(row) for row in rows[:limit])
    return sessions, cursor_behind(sessions[-1]) if len(rows) > limit else None


def _set(tx: Transaction, session_id: SessionId, sql: LiteralString, value: str, *, seq: int, at_ms: int) -> None:
    params = {"id": session_id, "value": storable(value), "at_ms": at_ms, "last_seq": seq}
    _expect_one(tx.execute(sql, params), session_id)


def _session(row: Row) -> SessionRow:
    parent, fork_seq = row[12], row[13]
    return SessionRow(
        session_id=SessionId(text(row[0])),
        cwd=text(row[1]),
        additional_directories=msgspec.json.decode(text(row[2]), type=tuple[str, ...]),
        title=text(row[3]),
        persona=text(row[4]),
        persona_identity=text(row[5]),
        model=text(row[6]),
        mode=text(row[7]),
        thought_level=text(row[8]),
        created_ms=integer(row[9]),
        updated_ms=integer(row[10]),
        prompt_count=integer(row[11]),
        parent=None if parent is None else SessionId(text(parent)),
        fork_seq=None if fork_seq is None else integer(fork_seq),
        last_seq=integer(row[14]),
        archived=row[15] == 1,
        message_count=integer(row[16]),
    )


def _expect_one(changed: int, session_id: SessionId) -> None:
    if changed != 1:
        raise MissingSessionError(session_id)


def cursor_behind(last: SessionRow) -> str:
    """The cursor of the page behind a session."""
    return base64.urlsafe_b64encode(msgspec.json.encode((last.updated_ms, last.session_id))).decode("ascii")


def _decode_cursor(cursor: str) -> tuple[int, str]:
    try:
        place = base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True)
        before_ms, before_id = msgspec.json.decode(place, type=tuple[int, str])
    except ValueError as error:
        raise BadCursorError from error
    if not 0 <= before_ms <= _NEWEST:
        raise BadCursorError
    return before_ms, before_id


SessionState: TypeAlias = dict[str, str | int]
"""The part of a session's row that follows from its events alone, by the names of the columns."""

_STATE = ("title", "mode", "model", "thought_level", "cwd", "deleted", "archived", "prompt_count")


def session_state(tx: Transaction, session_id: SessionId) -> SessionState:
    """The stored part of a session's row that follows from its events alone; empty without a row."""
    row = tx.one(QUERIES["session_state"], {"id": storable(session_id)})
    if row is None:
        return {}
    return {name: value for name, value in zip(_STATE, row, strict=True) if isinstance(value, str | int)}


def set_session_state(tx: Transaction, session_id: SessionId, state: SessionState) -> None:
    """Store what follows from a session's events."""
    cwd = str(state["cwd"])
    params = {**state, "id": session_id, "cwd": storable(cwd), "cwd_key": storable(cwd_key(cwd))}
    tx.execute(QUERIES["set_session_state"], params)


def every_session(tx: Transaction) -> tuple[tuple[SessionId, str, bool], ...]:
    """All sessions, oldest first, with their folders, and whether they were deleted or moved away."""
    rows = tx.all(QUERIES["every_session"])
    return tuple((SessionId(text(row[0])), text(row[1]), row[2] != 0) for row in rows)


def session_folders(tx: Transaction) -> tuple[str, ...]:
    """The folders of all sessions, also of those that were deleted, each once."""
    return tuple(text(row[0]) for row in tx.all(QUERIES["session_folders"]))


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
    """The rows with their details, as `asking`, this process, sees them."""
    return [_listed(tx, row, asking, now_ms) for row in rows]


PAGE_SIZE = 50


class SessionPage(Struct, frozen=True):
    """One page of the list; `next_cursor` is None on the last."""

    rows: tuple[ListedSession, ...]
    next_cursor: str | None


class PageWanted(Struct, frozen=True):
    """A page of the list, for the process that is `holder`; see `list_sessions`."""

    cwd: str | None
    cursor: str | None
    archived: bool | None
    holder: Holder
    now_ms: int


def read_page(tx: Transaction, wanted: PageWanted) -> SessionPage:
    """A page of the sessions of one constellation. Raises BadCursorError where the cursor is not one of ours."""
    rows, cursor_after = list_sessions(
        tx, cwd=wanted.cwd, cursor=wanted.cursor, limit=PAGE_SIZE, archived=wanted.archived
    )
    return SessionPage(tuple(with_details(tx, rows, wanted.holder, wanted.now_ms)), cursor_after)


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
