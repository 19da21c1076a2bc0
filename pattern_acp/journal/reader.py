"""Reading streams back, the newest event of each, and checking the chain of one or of all.

Owns: rows to events, and what a sound chain is. Must not know: what a replay shows of an event.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import LiteralString, cast

import msgspec
from msgspec import Struct

from pattern_acp.db.columns import data, integer, text
from pattern_acp.db.connection import Params, Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import JsonObject, canonical_json, sha256_hex
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import JournalError
from pattern_acp.journal.codec import CHECKPOINTS, DamagedEventError, decode, decode_stored, kinds_of
from pattern_acp.journal.contents import PackedError, read_content, unpack
from pattern_acp.journal.events import (
    ArchiveImported,
    BlockForgotten,
    Event,
    EventsRedacted,
    RewindStarted,
    TurnStarted,
)
from pattern_acp.journal.writer import CONSTELLATION_STREAM, FIRST_PREV_HASH, Link, salted_hash

QUERIES = load_queries("pattern_acp.journal")

_CHAIN_PAGE = 500

_LAST = (1 << 63) - 1


class Recorded(Struct, frozen=True):
    """An event and what the journal knows about it. `seq` orders all streams, `session_seq` counts within one."""

    seq: int
    session_seq: int
    at_ms: int
    actor: Actor
    origin: Origin
    item: str
    event: Event


class ChainReport(Struct, frozen=True):
    """The result of checking a stream: how many events were sound, and the first that is not.

    `first_bad_seq` counts over all streams, `first_bad_index` within this one; either may be unknown.
    """

    events: int
    ok: bool
    first_bad_seq: int | None = None
    first_bad_index: int | None = None
    problem: str = ""
    redacted: int = 0
    """Events whose words were taken out by an audited redaction (journal/redact.py), and which are sound."""


def read_stream(
    tx: Transaction,
    stream: str,
    *,
    after: int = 0,
    upto: int | None = None,
    kinds: Sequence[type[Event]] = (),
) -> list[Recorded]:
    """The events of `stream` in order, those with a `session_seq` above `after` and, if one is passed, up to `upto`.

    With `kinds`, only these; others are not looked at, so that one that cannot be understood is in nobody's way.
    """
    wanted: dict[str, SqlValue] = {"stream": stream, "after": after, "upto": _LAST if upto is None else upto}
    if not kinds:
        return _recorded(tx, QUERIES["read_stream"], wanted)
    return _recorded(tx, QUERIES["read_stream_kinds"], wanted | {"kinds": json.dumps(kinds_of(kinds))})


def read_item(tx: Transaction, stream: str, item: str) -> list[Recorded]:
    """The events of `stream` about one call, message, turn or block, in order."""
    return _recorded(tx, QUERIES["read_item"], {"stream": stream, "item": item})


def read_everywhere(tx: Transaction, kind: type[Event]) -> list[Recorded]:
    """The events of one kind in all streams, in order. Goes through every event."""
    return _recorded(tx, QUERIES["read_everywhere"], {"kind": kinds_of((kind,))[0]})


def read_about(tx: Transaction, kinds: Sequence[type[Event]], items: Sequence[str]) -> list[Recorded]:
    """The events of some kinds about some calls, messages, turns or blocks, in all streams, in order.

    Goes through every event.
    """
    asked: Params = {"kinds": json.dumps(kinds_of(kinds)), "items": json.dumps(list(items))}
    return _recorded(tx, QUERIES["read_about"], asked)


def read_jobs(tx: Transaction, stream: str) -> list[Recorded]:
    """The events of `stream` about background commands, in order."""
    return _recorded(tx, QUERIES["read_jobs"], {"stream": stream})


def count_prompts(tx: Transaction, stream: str, *, upto_seq: int) -> int:
    """Count the prompts of a stream that began a turn up to an event; slash commands do not count."""
    params: Params = {"stream": stream, "seq": upto_seq}
    row = tx.one(QUERIES["count_prompts"], params)
    large = _recorded(tx, QUERIES["read_large_turns"], params)
    return (0 if row is None else integer(row[0])) + sum(is_prompt(entry.event) for entry in large)


def is_prompt(event: Event) -> bool:
    """Return whether a prompt for the model begins a turn here."""
    return isinstance(event, TurnStarted) and not event.command


def earliest_rewind(tx: Transaction, stream: str) -> int | None:
    """The `session_seq` up to which every event counts whatever was gone back to; None when nobody ever went back."""
    rewinds = _recorded(tx, QUERIES["read_rewinds"], {"stream": stream, "item": CHECKPOINTS})
    return min((e.event.position for e in rewinds if isinstance(e.event, RewindStarted)), default=None)


def last_messages(tx: Transaction, stream: str, *, upto_seq: int, limit: int) -> list[Recorded]:
    """The newest prompts and answers of `stream` up to an event's number, newest first."""
    return _recorded(tx, QUERIES["last_messages"], {"stream": stream, "upto": upto_seq, "limit": limit})


def verify_stream(tx: Transaction, stream: str) -> ChainReport:
    """Check every hash, the numbering and the end of `stream`; stops at the first problem."""
    state, redacted_by = _ChainState(), list[int]()
    while True:
        rows = tx.all(QUERIES["read_chain"], {"stream": stream, "after": state.session_seq, "limit": _CHAIN_PAGE})
        if not rows:
            break
        for row in rows:
            problem = _check(stream, row, state)
            if problem:
                return ChainReport(
                    state.session_seq,
                    ok=False,
                    first_bad_seq=integer(row[0]),
                    first_bad_index=state.session_seq + 1,
                    problem=problem,
                )
            state = _ChainState(integer(row[0]), integer(row[1]), text(row[10]))
            if row[12] is not None:
                redacted_by.append(integer(row[12]))
    missing = tx.one(QUERIES["missing_projection_event"], {"stream": stream})
    if missing:
        problem = "the session's row was changed by an event that is gone"
        return ChainReport(
            state.session_seq,
            ok=False,
            first_bad_seq=integer(missing[0]),
            first_bad_index=state.session_seq + 1,
            problem=problem,
        )
    broken = tx.one(QUERIES["broken_fork"], {"stream": stream})
    if broken:
        problem = "the history that it shares with the session it was forked from is gone or was changed"
        return ChainReport(
            state.session_seq, ok=False, first_bad_seq=integer(broken[0]), first_bad_index=1, problem=problem
        )
    for audit_seq in sorted(set(redacted_by)):
        if not _is_audited(tx, audit_seq):
            problem = "words were taken out of events in another way than this event says"
            return ChainReport(state.session_seq, ok=False, first_bad_seq=audit_seq, problem=problem)
    return ChainReport(state.session_seq, ok=True, redacted=len(redacted_by))


def problem_of_event(tx: Transaction, seq: int) -> str:
    """Problem with one event's hashes, as the end of a sentence; empty when its content is as it was recorded."""
    stream, place = tx.one(QUERIES["place_of_event"], {"seq": seq}) or ("", 0)
    (row,) = tx.all(QUERIES["read_chain"], {"stream": stream, "after": integer(place) - 1, "limit": 1})
    return _check(text(stream), row, _ChainState(0, integer(place) - 1, text(row[9])))


def redaction_digest(redacted: Sequence[tuple[int, str]]) -> str:
    """The SHA-256 that an audit event gives for what it did: the events' numbers with their new payload hashes."""
    return sha256_hex(canonical_json([[seq, payload_hash] for seq, payload_hash in redacted]))


def origins_digest(rows: Iterable[Row]) -> str:
    """The SHA-256 that an import gives for where its events came from: number, hash, store and number there, each."""
    digest = sha256(b"[")
    for number, row in enumerate(rows):
        digest.update((b"," if number else b"") + canonical_json(list(row)))
    digest.update(b"]")
    return digest.hexdigest()


def _is_audited(tx: Transaction, audit_seq: int) -> bool:
    row = tx.one(QUERIES["read_event"], {"seq": audit_seq})
    if row is None:
        return False
    try:
        event = decode(text(row[5]), integer(row[6]), _parse(stored_payload(row[0], row[1], row[2])))
    except (JournalError, TypeError):
        return False
    done = [(integer(seq), text(hashed)) for seq, hashed in tx.all(QUERIES["redactions_of"], {"last_seq": audit_seq})]
    return isinstance(event, BlockForgotten | EventsRedacted) and event.redaction == redaction_digest(done)


class _ChainState(Struct, frozen=True):
    """The newest sound event."""

    seq: int = 0
    session_seq: int = 0
    hash: str = FIRST_PREV_HASH


def _check(stream: str, row: Row, before: _ChainState) -> str:
    seq, session_seq, kind, actor, origin, item, payload, blob, payload_hash, prev_hash, stored_hash = row[:11]
    if session_seq != before.session_seq + 1:
        return f"event {before.session_seq + 1} of the stream is missing"
    if integer(seq) <= before.seq:
        return "the events are not in the order in which they were appended"
    at_ms, version, salt, form = integer(row[15]), integer(row[16]), text(row[17]), integer(row[18])
    try:
        stored = stored_payload(payload, row[13], row[14])
    except (DamagedEventError, TypeError):
        return "its payload cannot be read"
    content_hash = sha256_hex(stored)
    is_its_own = content_hash == row[11] if row[11] is not None else salted_hash(salt, stored) == payload_hash
    if not is_its_own or (blob is not None and blob != content_hash):
        return "its payload was changed"
    if prev_hash != before.hash:
        return "it does not follow the event before it"
    place = integer(session_seq)
    link = Link(
        before.hash,
        text(payload_hash),
        text(kind),
        text(actor),
        text(origin),
        text(item),
        place,
        version,
        at_ms,
        stream,
        form,
    )
    return "" if link.hash == stored_hash else "its kind, version, time, actor, origin, item or place was changed"


def _recorded(tx: Transaction, sql: LiteralString, params: Params) -> list[Recorded]:
    return [_record(row) for row in tx.all(sql, params)]


class _Head(Struct, frozen=True, array_like=True):
    """The columns of an event before its payload."""

    seq: int
    session_seq: int
    at_ms: int
    kind: str
    version: int
    actor: Actor
    origin: Origin
    item: str


def _record(row: Row) -> Recorded:
    try:
        head = msgspec.convert(row[:8], _Head)
    except msgspec.ValidationError as error:
        raise TypeError(f"A column of an event holds something else than it should: {error}.") from error
    stored = stored_payload(row[8], row[9], row[10])
    event = decode_stored(head.kind, head.version, stored) or decode(head.kind, head.version, _parse(stored))
    return Recorded(head.seq, head.session_seq, head.at_ms, head.actor, head.origin, head.item, event)


def stored_payload(payload: SqlValue, encoding: SqlValue, content: SqlValue) -> bytes:
    """The canonical bytes of a payload, from its row or from its blob.

    Raises:
        DamagedEventError: the blob cannot be unpacked.
        TypeError: a column holds something else than it should.
    """
    if payload is not None:
        return text(payload).encode("utf-8")
    try:
        return unpack(text(encoding), data(content))
    except (PackedError, TypeError) as error:
        raise DamagedEventError("The blob of an event cannot be unpacked; run pattern-acp doctor.") from error


def _parse(stored: bytes) -> JsonObject:
    try:
        return cast("JsonObject", msgspec.json.decode(stored))
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Lone surrogates are the one thing that canonical JSON keeps and msgspec refuses.
        return _parse_with_surrogates(stored)


def _parse_with_surrogates(stored: bytes) -> JsonObject:
    try:
        return cast("JsonObject", json.loads(stored.decode("utf-8", "surrogatepass")))
    except ValueError as error:
        raise DamagedEventError("The payload of an event is not JSON; run pattern-acp doctor.") from error


def broken_streams(tx: Transaction) -> tuple[int, tuple[tuple[str, ChainReport], ...]]:
    """Count the streams, and find those whose chain is broken, with where and why."""
    streams = [text(row[0]) for row in tx.all(QUERIES["all_streams"])]
    reports = ((stream, verify_stream(tx, stream)) for stream in streams)
    return len(streams), tuple((stream, report) for stream, report in reports if not report.ok)


def wrong_origins(tx: Transaction) -> tuple[str, ...]:
    """A sentence for each import whose rows about where events came from are not what its event says.

    Raises:
        JournalError: the event of an import cannot be understood.
    """
    wrong: list[str] = []
    for entry in read_everywhere(tx, ArchiveImported):
        digest = origins_digest(tx.each(QUERIES["origins_of"], {"last_seq": entry.seq}))
        if isinstance(entry.event, ArchiveImported) and digest != entry.event.origins_hash:
            wrong.append(f"the import of event {entry.seq} says another origin of its events")
    return tuple(wrong)


def recorded_here(tx: Transaction, entries: Sequence[Recorded]) -> list[Recorded]:
    """Those of some events that no import and no exchange brought from another constellation."""
    asked: dict[str, SqlValue] = {"seqs": json.dumps([entry.seq for entry in entries])}
    copied = {integer(row[0]) for row in tx.all(QUERIES["copied_among"], asked)}
    return [entry for entry in entries if entry.seq not in copied]


def damaged_contents(tx: Transaction) -> tuple[int, tuple[str, ...]]:
    """Count the stored contents of files, with a sentence for each that is not what it was."""
    hashes = [text(row[0]) for row in tx.all(QUERIES["file_content_hashes"])]
    damaged: list[str] = []
    for digest in hashes:
        try:
            read_content(tx, digest)
        except DamagedEventError:
            damaged.append(f"the stored file {digest[:12]} is not what it was")
    return len(hashes), tuple(damaged)


def newest_times(tx: Transaction) -> tuple[int, int]:
    """The time of the newest event, and the latest time of the newest 10,000; in ms since 1970, 0 without one."""
    row = tx.one(QUERIES["newest_times"])
    return (0, 0) if row is None or row[0] is None else (integer(row[0]), integer(row[1]))


def count_events(tx: Transaction, *, upto: int) -> int:
    """Count the events up to the one of a number."""
    row = tx.one(QUERIES["count_events"], {"upto": upto})
    return 0 if row is None else integer(row[0])


class StreamPosition(Struct, frozen=True):
    """The newest event of a stream: its place there and its hash; and the newest event of all streams."""

    session_seq: int
    hash: str
    global_seq: int


class EventHead(Struct, frozen=True):
    """An event without what it says; `size` is that of its payload in bytes."""

    seq: int
    stream: str
    session_seq: int
    at_ms: int
    kind: str
    actor: str
    origin: str
    item: str
    size: int


def stream_position(tx: Transaction, stream: str) -> StreamPosition:
    """The position of `stream` now; 0 and the first hash when it is empty."""
    head = tx.one(QUERIES["stream_head"], {"stream": stream})
    place, chained = (integer(head[0]), text(head[1])) if head else (0, FIRST_PREV_HASH)
    return StreamPosition(place, chained, newest_event(tx))


def streams_by_use(tx: Transaction, *, limit: int) -> tuple[SessionId, ...]:
    """The sessions that were used last, the newest first, deleted ones too."""
    return tuple(SessionId(text(row[0])) for row in tx.all(QUERIES["streams_by_use"], {"limit": limit}))


def is_stream(tx: Transaction, stream: str) -> bool:
    """Return whether anything was recorded in a stream."""
    return tx.one(QUERIES["is_stream"], {"stream": stream}) is not None


def event_hash(tx: Transaction, stream: str, session_seq: int) -> str | None:
    """The hash of an event by its place in its stream; None when there is none."""
    row = tx.one(QUERIES["event_hash"], {"stream": stream, "session_seq": session_seq})
    return None if row is None else text(row[0])


def newest_heads(tx: Transaction, stream: str | None, *, after: int, limit: int) -> tuple[EventHead, ...]:
    """The newest events of a stream, or of all, behind the event number `after` of all streams; oldest first."""
    rows = tx.all(QUERIES["tail_of_stream"], {"stream": stream, "after": after, "limit": limit})
    return tuple(
        EventHead(
            integer(row[0]),
            text(row[1]),
            integer(row[2]),
            integer(row[3]),
            text(row[4]),
            text(row[5]),
            text(row[6]),
            text(row[7]),
            integer(row[8]),
        )
        for row in rows
    )


def session_streams(tx: Transaction) -> tuple[SessionId, ...]:
    """The streams of sessions, oldest first, deleted ones too."""
    streams = (text(row[0]) for row in tx.all(QUERIES["all_streams"]))
    return tuple(SessionId(stream) for stream in streams if stream != CONSTELLATION_STREAM)


def newest_event(tx: Transaction) -> int:
    """The number of the newest event of all streams, 0 without one."""
    row = tx.one(QUERIES["newest_event"])
    return 0 if row is None else integer(row[0])
