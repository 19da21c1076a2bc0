"""Retention: what takes space, and what of deleted sessions and of saved files may go after a time.

Owns: which events of a deleted session still matter to others, what of the rest goes, and which contents of files are
still needed. Must not know: after what time, or who asks. Everything that goes is said by an event of its own, in the
same transaction, so that the chains hold (journal/redact.py); nothing of a row that others need goes.

A fork names its parent instead of copying it, so the parent's events up to the fork stay while a fork can still be
opened. What a session did to memory, what it used and what it agreed to stays too: it is not the session's alone.
"""

import contextlib
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import cast

from msgspec import Struct

from pattern_acp.db import backup, segment_files
from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.bundle import mask_texts
from pattern_acp.journal.codec import DamagedEventError, RedactionError
from pattern_acp.journal.contents import drop_contents
from pattern_acp.journal.events import RETENTION, Event, EventsRedacted
from pattern_acp.journal.history import ancestors
from pattern_acp.journal.reader import stored_payload
from pattern_acp.journal.redact import PlannedRedaction, digest_of, mask_titles, plan_redaction, redact
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append

QUERIES = load_queries("pattern_acp.journal")

logger = logging.getLogger(__name__)

CONTENT_KINDS = frozenset(
    {
        "session_titled",
        "instructions_compiled",
        "turn_started",
        "memory_shown",
        "context_added",
        "prompt_refused",
        "tools_offered",
        "model_requested",
        "message_partial",
        "message_recorded",
        "tool_call_started",
        "permission_decided",
        "permission_asked",
        "permission_answered",
        "tool_call_finished",
        "tool_result_extended",
        "plan_updated",
        "error_reported",
        "turn_ended",
        "grant_stored",
        "grant_revoked",
        "job_started",
        "job_ended",
        "job_reported",
        "job_quoted",
        "files_saved",
        "worker_ready",
        "landing_started",
        "landing_ended",
        "checkpoint_taken",
        "rewind_started",
        "session_rewound",
        "subagent_recorded",
        "context_compacted",
        "message_pinned",
        "handoff_left",
        "drift_told",
        "watch_switched",
    }
)
"""Events that are the session's alone. All others stay as they are: what the row of the session follows from, memory,
costs, agreements, and what says that something was taken out of others."""

_SOME_COMMAND = "command"
"""The name of every slash command: it alone tells a prompt from a slash command."""

_FILE_KINDS = (
    *("files_saved", "checkpoint_taken", "rewind_started", "landing_started", "subagent_recorded"),
    "job_reported",
)
_DIGEST_LENGTH = 64
_PAGE = 200


class OldSession(Struct, frozen=True):
    """A deleted session of which something may go: the events, and the bytes that this frees."""

    session_id: SessionId
    events: tuple[PlannedRedaction, ...]
    size: int


class OldContents(Struct, frozen=True):
    """Contents of files that may go: which, their bytes, and why in a clause."""

    digests: tuple[str, ...]
    size: int
    reason: str


def old_sessions(tx: Transaction, *, before_ms: int) -> Iterator[OldSession]:
    """Sessions that were deleted before a moment and hold what nobody needs any more, with that."""
    needed = _needed_by_forks(tx, before_ms)
    for row in tx.all(QUERIES["deleted_before"], {"before_ms": before_ms}):
        session_id = SessionId(text(row[0]))
        planned = plan_session(tx, session_id, after=needed.get(session_id, 0))
        if planned:
            seqs = json.dumps([one.seq for one in planned])
            found = tx.one(QUERIES["size_of_events"], {"seqs": seqs})
            before = 0 if found is None else integer(found[0])
            yield OldSession(session_id, planned, max(0, before - sum(len(one.canonical) for one in planned)))


def sweep_session(tx: Transaction, session_id: SessionId, *, before_ms: int, at_ms: int) -> int:
    """Take the words out of a session that was deleted before a moment; returns how many events lost any.

    What others need is looked up again, since a fork may have come back meanwhile.
    """
    row = tx.one(QUERIES["deleted_session"], {"id": session_id})
    if row is None or integer(row[0]) >= before_ms:
        return 0
    planned = plan_session(tx, session_id, after=_needed_by_forks(tx, before_ms).get(session_id, 0))
    if not planned:
        return 0
    event = EventsRedacted("the session was deleted", len(planned), 0, digest_of(planned), RETENTION)
    seq = _say(tx, session_id, event, at_ms)
    redact(tx, planned, audit_seq=seq, at_ms=at_ms)
    if any(
        integer(one[0]) in {each.seq for each in planned} for one in tx.all(QUERIES["titles_of"], {"id": session_id})
    ):
        mask_titles(tx, lambda _: "", audit_seq=seq, only=session_id)
    tx.execute(QUERIES["drop_grants"], {"id": session_id})
    return len(planned)


def old_contents(
    tx: Transaction, *, before_ms: int = 0, most_bytes: int = 0, without: Set[int] = frozenset()
) -> tuple[OldContents, ...]:
    """Contents of files that no event names any more, and beyond limits those that were named longest ago.

    Args:
        tx: Where they are.
        before_ms: Those that were named last before this moment go too; 0 for no such limit.
        most_bytes: As many of those named last stay as fit; 0 for no such limit.
        without: Numbers of events that count as gone, since they are to be swept first.

    Raises:
        DatabaseError: the file cannot be read.
    """
    named, is_complete = _newest_naming(tx, without)
    unused: dict[str, int] = {}
    recent: list[tuple[int, str, int]] = []
    for row in tx.all(QUERIES["file_content_sizes"]):
        digest, size = text(row[0]), integer(row[1])
        if digest in named:
            recent.append((named[digest], digest, size))
        elif is_complete:
            unused[digest] = size
    old: dict[str, int] = {}
    beyond: dict[str, int] = {}
    total = 0
    for at_ms, digest, size in sorted(recent, reverse=True):
        total += size
        if at_ms < before_ms:
            old[digest] = size
        elif most_bytes and total > most_bytes:
            beyond[digest] = size
    groups = (
        (unused, "of no checkpoint any more"),
        (old, "older than retention.files_days"),
        (beyond, "beyond retention.files_mb"),
    )
    return tuple(OldContents(tuple(group), sum(group.values()), reason) for group, reason in groups if group)


def sweep_contents(tx: Transaction, *, before_ms: int, most_bytes: int, at_ms: int) -> int:
    """Drop what `old_contents` finds now; returns how many contents went."""
    digests = [
        digest for group in old_contents(tx, before_ms=before_ms, most_bytes=most_bytes) for digest in group.digests
    ]
    if digests:
        event = EventsRedacted("stored contents of files", 0, len(digests), digest_of(()), RETENTION)
        _say(tx, CONSTELLATION_STREAM, event, at_ms)
        drop_contents(tx, digests)
    return len(digests)


def contents_of(tx: Transaction, session_id: str) -> frozenset[str]:
    """The contents of files that a session names: those of its checkpoints.

    Raises:
        DamagedEventError: an event cannot be read.
    """
    rows = tx.each(QUERIES["payloads_of_stream"], {"stream": session_id, "kinds": json.dumps(_FILE_KINDS)})
    stored = (stored_payload(*row).decode("utf-8", "surrogatepass") for row in rows)
    return frozenset(digest for each in stored for digest in _digests_in(cast("JsonObject", json.loads(each))))


def drop_unnamed(tx: Transaction, digests: Collection[str]) -> tuple[str, ...]:
    """Drop those of some contents of files that no event names any more; returns them."""
    named, is_complete = _newest_naming(tx, frozenset()) if digests else ({}, True)
    gone = tuple(digest for digest in digests if digest not in named) if is_complete else ()
    drop_contents(tx, gone)
    return gone


def _digests_in(value: Json) -> Iterator[str]:
    """Every digest of a file's content that a payload names."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "digest" and isinstance(item, str) and len(item) == _DIGEST_LENGTH:
                yield item
            else:
                yield from _digests_in(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in value:
            yield from _digests_in(item)


def blank(kind: str, payload: JsonObject) -> JsonObject:
    """The payload of an event of a kind without any text that is content; it can be read as before."""
    command = {"command": _SOME_COMMAND} if kind == "turn_started" and payload.get("command") else {}
    return {**mask_texts(kind, payload, lambda _: ""), **command}


def plan_session(tx: Transaction, session_id: str, *, after: int) -> tuple[PlannedRedaction, ...]:
    """Plan to take the words out of all that a session says behind one of its events, and that is its alone."""
    params = {"stream": session_id, "after": after, "kinds": json.dumps(sorted(CONTENT_KINDS))}
    planned: list[PlannedRedaction] = []
    for row in tx.all(QUERIES["events_of_kinds"], params):
        try:
            planned += plan_redaction(tx, (integer(row[0]),), blank)
        except RedactionError as error:
            logger.warning("An event of a deleted session stays as it is. %s", error)
    return tuple(planned)


def _needed_by_forks(tx: Transaction, before_ms: int) -> dict[SessionId, int]:
    """Up to which of their events sessions are part of another that can still be opened or brought back."""
    needed: dict[SessionId, int] = {}
    for row in tx.all(QUERIES["forks_in_use"], {"before_ms": before_ms}):
        for ancestor in ancestors(tx, text(row[0])):
            known = needed.get(ancestor.session_id, 0)
            needed[ancestor.session_id] = max(known, ancestor.session_seq)
    return needed


def _newest_naming(tx: Transaction, without: Set[int]) -> tuple[dict[str, int], bool]:
    """The time at which each content was named last, in milliseconds since 1970.

    False: an event cannot be read that may name others.
    """
    named: dict[str, int] = {}
    after, kinds, is_complete = 0, json.dumps(_FILE_KINDS), True
    while rows := tx.all(QUERIES["payloads_of_kinds"], {"after": after, "kinds": kinds, "limit": _PAGE}):
        for payload, encoding, content, seq, at_ms in rows:
            if seq in without:
                continue
            try:
                stored = json.loads(stored_payload(payload, encoding, content).decode("utf-8", "surrogatepass"))
            except (DamagedEventError, TypeError, ValueError):
                is_complete = False
                continue
            for digest in _digests_in(cast("JsonObject", stored)):
                named[digest] = max(integer(at_ms), named.get(digest, 0))
        after = integer(rows[-1][3])
    return named, is_complete


def _say(tx: Transaction, stream: str, event: Event, at_ms: int) -> int:
    return append(tx, stream, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=at_ms).seq


def unused_blobs(tx: Transaction) -> tuple[int, int]:
    """Count the large payloads that belong to no event, and their bytes."""
    row = tx.one(QUERIES["unused_blobs"])
    return (0, 0) if row is None else (integer(row[0]), integer(row[1]))


def delete_unused_blobs(tx: Transaction) -> None:
    """Delete them."""
    tx.execute(QUERIES["sweep_blobs"])


def newest_forgetting_ms(tx: Transaction) -> int:
    """The time at which words were last taken out of events, in milliseconds since 1970; 0 for never."""
    row = tx.one(QUERIES["newest_forgetting"])
    return 0 if row is None else integer(row[0])


_KB = 1000


class StorageBreakdown(Struct, frozen=True):
    """Sizes inside the file: bytes of files saved for checkpoints and of large payloads; number of deleted sessions."""

    contents: int
    payloads: int
    deleted: int


def storage_breakdown(tx: Transaction) -> StorageBreakdown:
    """Sizes inside the file."""
    row = tx.one(QUERIES["room_in_file"])
    return (
        StorageBreakdown(0, 0, 0)
        if row is None
        else StorageBreakdown(integer(row[0]), integer(row[2]), integer(row[1]))
    )


def storage_summary(path: Path, inside: StorageBreakdown) -> str:
    """One line with all sizes, of the constellation at `path`."""
    file = sum(_size(path.with_name(f"{path.name}{end}")) for end in ("", "-wal"))
    copies = _folder(path.parent / backup.FOLDER) + sum(map(_size, path.parent.glob(f"{path.stem}.v*.backup.db")))
    segments = _folder(path.parent / segment_files.FOLDER)
    sessions = "1 deleted session" if inside.deleted == 1 else f"{inside.deleted:,} deleted sessions"
    return (
        f"{size_text(file)} (stored files {size_text(inside.contents)}, large payloads {size_text(inside.payloads)}, "
        f"{sessions}), segments {size_text(segments)}, backups and snapshots {size_text(copies)}"
    )


def size_text(size: int) -> str:
    """Bytes as text for a user."""
    if size < _KB**2:
        return f"{size / _KB:.1f} kB"
    return f"{size / _KB**2:.1f} MB" if size < _KB**3 else f"{size / _KB**3:.2f} GB"


def _folder(folder: Path) -> int:
    return sum(map(_size, folder.rglob("*")))


def _size(path: Path) -> int:
    # A file that another process deletes meanwhile takes no space.
    with contextlib.suppress(OSError):
        return path.stat().st_size if path.is_file() else 0
    return 0
