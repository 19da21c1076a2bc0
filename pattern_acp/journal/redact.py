"""Taking words out of events that are stored already: the audited exception to an append-only journal.

Owns: finding the events that hold the words, the triggers, the row that says what was done to an event, and blobs that
nobody needs any more. Must not know: why words are to be forgotten, or how they are recognised. The event that says who
did it and why is appended by the caller, before, in the same transaction.

An event keeps its `payload_hash`, so that its own hash and the chain hold, and loses its salt, so that the hash cannot
be used to try out what the words were; `redactions` says what its payload hashes to
now. Nobody can therefore change an event and call it redacted without an event that says so.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, cast

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import Json, JsonObject, canonical_json, sha256_hex
from pattern_acp.journal.codec import DamagedEventError, RedactionError, UnknownEventError, decode
from pattern_acp.journal.events import Event
from pattern_acp.journal.reader import redaction_digest, stored_payload
from pattern_acp.journal.writer import store_payload

QUERIES = load_queries("pattern_acp.journal")

Mask: TypeAlias = Callable[[str, JsonObject], JsonObject]
"""A change of the payload of an event of a kind."""

_PAGE = 200
"""Events read at a time: payloads can be large."""


class PlannedRedaction(Struct, frozen=True):
    """The change that a redaction would make to one event."""

    seq: int
    stream: str
    canonical: bytes
    event: Event | None
    """The event as it would read; None when this program cannot read it."""

    @property
    def payload_hash(self) -> str:
        """SHA-256 of the payload as it would be."""
        return sha256_hex(self.canonical)


class StoredEvent(Struct, frozen=True):
    """An event as it is stored.

    `blob` is the hash of its payload where that is large, else empty; `payload` is None where it cannot be read.
    """

    seq: int
    stream: str
    kind: str
    blob: str
    payload: JsonObject | None


def find_events(tx: Transaction, holds: Callable[[str], bool], *, after: int = 0) -> tuple[int, ...]:
    """The numbers of all events, of every stream, above `after` whose payload `holds` says yes to.

    It gets the payload's canonical JSON.
    """
    return tuple(columns.integer(row[3]) for row in _payloads(tx, after) if holds(_text(row)))


def stored_events(tx: Transaction) -> Iterator[StoredEvent]:
    """Every event of every stream as it is stored, oldest first."""
    for row in _payloads(tx, 0):
        blob = "" if row[6] is None else columns.text(row[6])
        found = cast("JsonObject", json.loads(_text(row)))
        # Of a damaged one `_text` gives an empty object, as those events have that say nothing.
        payload = None if not found and blob else found
        yield StoredEvent(columns.integer(row[3]), columns.text(row[4]), columns.text(row[5]), blob, payload)


def drop_grants(tx: Transaction, session_id: str, mask: Callable[[str], str]) -> int:
    """Delete the permissions of a session whose patterns hold words that `mask` takes out; how many those were."""
    rows = tx.all(QUERIES["read_patterns"], {"id": session_id})
    dropped = [row[0] for row in rows if mask(columns.text(row[1])) != row[1]]
    for grant in dropped:
        tx.execute(QUERIES["drop_grant"], {"id": grant})
    return len(dropped)


def mask_subagents(tx: Transaction, session_id: str, mask: Callable[[str], str]) -> int:
    """Mask words in the names of subagents that requests of a session were counted for; how many had any."""
    names = [columns.text(row[0]) for row in tx.all(QUERIES["read_subagents"], {"id": session_id})]
    changed = [name for name in names if mask(name) != name]
    for name in changed:
        tx.execute(QUERIES["rename_subagent"], {"id": session_id, "name": name, "masked": mask(name)})
    return len(changed)


def plan_redaction(tx: Transaction, seqs: Sequence[int], mask: Mask) -> tuple[PlannedRedaction, ...]:
    """The changes that `mask` would make to these events, in their order; events without one are left out.

    Raises:
        RedactionError: an event could not be read afterwards.
    """
    rows = (tx.one(QUERIES["read_event"], {"seq": seq}) for seq in sorted(set(seqs)))
    return tuple(planned for row in rows if row is not None for planned in _plan(row, mask))


def events_of_block(tx: Transaction, block_id: str) -> tuple[int, ...]:
    """The numbers of the events that show what was written into a block: its tool calls, and commands of a user."""
    return _numbers(tx.all(QUERIES["events_of_block"], {"block_id": block_id}))


def title_events(tx: Transaction) -> tuple[int, ...]:
    """The numbers of the events that gave sessions their titles, which may be the beginning of anything."""
    return _numbers(tx.all(QUERIES["titled_events"]))


def partial_events(tx: Transaction, message_ids: Sequence[str]) -> tuple[int, ...]:
    """The numbers of the events that hold unfinished forms of these messages."""
    return _numbers(tx.all(QUERIES["partial_events"], {"items": json.dumps(list(message_ids))}))


def with_requests(tx: Transaction, planned: Sequence[PlannedRedaction], mask: Mask) -> tuple[PlannedRedaction, ...]:
    """`planned`, and the digests of requests that held the words: one can try out what short texts they are of.

    `mask` is what becomes of everything else in such an event. Sessions that were forked off are looked at too.
    """
    first: dict[str, int] = {}
    for one in planned:
        first[one.stream] = min(one.seq, first.get(one.stream, one.seq))
    found = [tx.all(QUERIES["requests_behind"], {"stream": stream, "seq": seq - 1}) for stream, seq in first.items()]
    rows = [row for each in found for row in each]
    requests = {columns.integer(row[0]) for row in rows if not row[1] or _is_request(tx, columns.integer(row[0]))}
    others = tuple(one for one in planned if one.seq not in requests)
    return (*others, *plan_redaction(tx, tuple(requests), lambda kind, payload: _without_digests(mask(kind, payload))))


def _without_digests(payload: JsonObject) -> JsonObject:
    """The payload of a `ModelRequested`, also of a subagent's, that nothing of its request can be tried out with."""
    if isinstance(inner := payload.get("event"), dict):
        return {**payload, "event": _without_digests(inner)}
    return {**payload, "digest": "", "parts": None}


def _is_request(tx: Transaction, seq: int) -> bool:
    row = tx.one(QUERIES["read_event"], {"seq": seq})
    return row is not None and cast("JsonObject", json.loads(_text(row))).get("kind") == "model_requested"


def redacted_among(tx: Transaction, seqs: Sequence[int]) -> frozenset[int]:
    """Those of the events of these numbers that lost words."""
    return frozenset(_numbers(tx.all(QUERIES["redacted_among"], {"seqs": json.dumps(list(seqs))})))


def is_redacted_after(tx: Transaction, after: int) -> bool:
    """True when there is a redaction behind an event's number, of any stream; every request asks, few have one."""
    return tx.one(QUERIES["is_redacted_after"], {"after": after}) is not None


def is_forgotten_after(tx: Transaction, after: int) -> bool:
    """True when words were forgotten or redacted behind an event's number, also such as no event had.

    Goes through the events behind it.
    """
    return tx.one(QUERIES["is_forgotten_after"], {"after": after}) is not None


def newest_redaction(tx: Transaction, stream: str, *, after: int) -> int:
    """The number of the event behind the newest redaction of a stream; `after` when none came after that."""
    row = tx.one(QUERIES["newest_redaction"], {"stream": stream, "after": after})
    return after if row is None or row[0] is None else columns.integer(row[0])


def mask_titles(tx: Transaction, mask: Callable[[str], str], *, audit_seq: int, only: str = "") -> int:
    """Take the words out of the titles of sessions, or of one; how many had any."""
    changed = 0
    for session_id, title in tx.all(QUERIES["read_titles"]):
        masked = mask(columns.text(title))
        if masked != title and only in {"", session_id}:
            tx.execute(QUERIES["replace_title"], {"id": session_id, "title": masked, "seq": audit_seq})
            changed += 1
    return changed


def digest_of(planned: Sequence[PlannedRedaction]) -> str:
    """The value of `redaction` that the audit event must have."""
    return redaction_digest([(one.seq, one.payload_hash) for one in sorted(planned, key=lambda one: one.seq)])


def redact(tx: Transaction, planned: Sequence[PlannedRedaction], *, audit_seq: int, at_ms: int) -> None:
    """Carry out a planned redaction; `audit_seq` is the event that says who wanted it and why.

    Raises:
        DatabaseError: the file cannot be written; the transaction is then to be rolled back.
    """
    tx.execute(QUERIES["drop_update_guard"])
    for one in planned:
        payload, blob = store_payload(tx, one.canonical)
        tx.execute(QUERIES["replace_payload"], {"seq": one.seq, "payload": payload, "blob": blob})
        note = {"event_seq": one.seq, "last_seq": audit_seq, "payload_hash": one.payload_hash, "at_ms": at_ms}
        tx.execute(QUERIES["note_redaction"], note)
    # All of them: those of earlier redactions, or of a process that ended too early, may hold the words as well.
    tx.execute(QUERIES["sweep_blobs"])
    tx.execute(QUERIES["restore_update_guard"])


class ReturnedEvent(Struct, frozen=True):
    """An event that moved away and came back: its number here, its payload, and its salt."""

    seq: int
    canonical: bytes
    salt: str


def moved_events(tx: Transaction, stream: str) -> dict[int, int]:
    """The events of a stream that moved to another constellation: the number of each by its place in the stream."""
    rows = tx.all(QUERIES["moved_events"], {"stream": stream})
    return {columns.integer(row[0]): columns.integer(row[1]) for row in rows}


def was_moved(tx: Transaction) -> bool:
    """Return whether anything moved from this constellation to another one, or came back."""
    return tx.one(QUERIES["was_moved"]) is not None


def put_back(tx: Transaction, events: Iterable[ReturnedEvent], *, audit_seq: int, at_ms: int) -> None:
    """Store again what events said before they moved away; `audit_seq` is the event that says that they came back.

    Raises:
        DatabaseError: the file cannot be written; the transaction is then to be rolled back.
    """
    tx.execute(QUERIES["drop_update_guard"])
    for one in events:
        payload, blob = store_payload(tx, one.canonical)
        row: dict[str, SqlValue] = {"seq": one.seq, "payload": payload, "blob": blob, "salt": one.salt}
        tx.execute(QUERIES["put_back_payload"], row)
        hashed = sha256_hex(one.canonical)
        note = {"event_seq": one.seq, "last_seq": audit_seq, "payload_hash": hashed, "at_ms": at_ms}
        tx.execute(QUERIES["note_redaction"], note)
    tx.execute(QUERIES["restore_update_guard"])


def _plan(row: Row, mask: Mask) -> Iterator[PlannedRedaction]:
    before = cast("JsonObject", json.loads(_text(row)))
    kind, version = columns.text(row[5]), columns.integer(row[6])
    after = cast("JsonObject", without_broken_seals(before, mask(kind, before)))
    if after == before:
        return
    event = _decoded(kind, version, after)
    if event is None and _decoded(kind, version, before) is not None:
        raise RedactionError(
            f"The words cannot be taken out of event {columns.integer(row[3])} without breaking it; forget a longer "
            "passage. Nothing was changed."
        )
    yield PlannedRedaction(columns.integer(row[3]), columns.text(row[4]), canonical_json(after), event)


def without_broken_seals(before: Json, after: Json) -> Json:
    """`after`, in which reasoning whose words changed lost its signature and hidden form.

    A provider refuses reasoning that is not what it signed, and the hidden form may hold the words; without them the
    reasoning is not sent back.
    """
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [without_broken_seals(old, new) for old, new in zip(before, after, strict=True)]
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    if before.get("type") == "thinking" and before != after:
        return {**after, **{key: "" for key in ("signature", "redacted") if key in after}}
    return {key: without_broken_seals(before.get(key), value) for key, value in after.items()}


def _decoded(kind: str, version: int, payload: JsonObject) -> Event | None:
    try:
        return decode(kind, version, payload)
    except (DamagedEventError, UnknownEventError):
        return None


def _numbers(rows: Sequence[Row]) -> tuple[int, ...]:
    return tuple(columns.integer(row[0]) for row in rows)


def _payloads(tx: Transaction, after: int) -> Iterator[Row]:
    while rows := tx.all(QUERIES["read_payloads"], {"after": after, "limit": _PAGE}):
        yield from rows
        after = columns.integer(rows[-1][3])


def _text(row: Row) -> str:
    """The payload of a row that begins with payload, encoding and content."""
    try:
        return stored_payload(row[0], row[1], row[2]).decode("utf-8", "surrogatepass")
    except (DamagedEventError, TypeError):
        # A payload that cannot be read cannot be searched; verifying the chain reports it.
        return "{}"
