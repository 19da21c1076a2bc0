"""Appending to a stream.

Owns: the place of an event in its chain, what it is about, and where a large payload goes. Must not know: what happens
because of the event; rows that follow from it take `Appended.seq` in the same transaction (rule R1).
"""

import contextlib
import os
from collections.abc import Mapping

from msgspec import Struct

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import Json, canonical_json, sha256_hex
from pattern_acp.journal.codec import EncodedEvent, encode, item_of
from pattern_acp.journal.contents import pack
from pattern_acp.journal.events import Event

FIRST_PREV_HASH = "0" * 64
"""The `prev_hash` of the first event of a stream."""

FORM = 2
"""The form of the hash that new events get."""


class Link(Struct, frozen=True):
    """The fields that the hash of one event covers."""

    prev_hash: str
    payload_hash: str
    kind: str
    actor: str
    origin: str
    item: str
    session_seq: int
    version: int = 1
    at_ms: int = 0
    stream: str = ""
    form: int = FORM

    @property
    def hash(self) -> str:
        """The hash that the next event names as its `prev_hash`, 64 hexadecimal digits."""
        covered: list[Json] = [
            self.prev_hash,
            self.payload_hash,
            self.kind,
            self.actor,
            self.origin,
            self.item,
            self.session_seq,
        ]
        if self.form != 1:
            covered += [self.version, self.at_ms, self.stream, self.form]
        return sha256_hex(canonical_json(covered))


def salted_hash(salt: str, canonical: bytes) -> str:
    """The `payload_hash` of a payload in its canonical form."""
    return sha256_hex(salt.encode("ascii") + canonical)


QUERIES = load_queries("pattern_acp.journal")

CONSTELLATION_STREAM = "constellation"
"""The stream of events that belong to no session."""

INLINE_BYTES = 8192
"""Largest payload stored in the event's row; a larger one is a blob, so that walking a stream stays cheap."""

_SALT_BYTES = 16
"""128 bits: as much as nobody can try."""


class Appended(Struct, frozen=True):
    """The place of an appended event. The rows that follow from it store `seq` as `last_seq`."""

    seq: int
    session_seq: int
    hash: str
    at_ms: int


def append(
    tx: Transaction, stream: str, event: Event, *, actor: Actor, origin: Origin, at_ms: int, salt: str = ""
) -> Appended:
    """Add `event` to the end of `stream`, a session's id or `CONSTELLATION_STREAM`.

    With a `salt` of the caller's, the same events get the same hashes; without one it is random.

    Raises:
        DatabaseError: the event could not be stored.
    """
    return append_stored(tx, stream, encode(event), item_of(event), actor=actor, origin=origin, at_ms=at_ms, salt=salt)


def append_stored(
    tx: Transaction,
    stream: str,
    encoded: EncodedEvent,
    item: str,
    *,
    actor: Actor,
    origin: Origin,
    at_ms: int,
    salt: str = "",
) -> Appended:
    """Add an event in its stored form to the end of `stream`; `item` is what it is about.

    Raises:
        DatabaseError: the event could not be stored.
    """
    canonical = canonical_json(encoded.payload)
    salt = salt or os.urandom(_SALT_BYTES).hex()
    last_seq, prev_hash = _head(tx, stream)
    link = Link(
        prev_hash,
        salted_hash(salt, canonical),
        encoded.kind,
        actor.value,
        origin.value,
        storable(item),
        last_seq + 1,
        encoded.version,
        at_ms,
        stream,
    )
    row: dict[str, SqlValue] = {
        "stream": stream,
        "session_seq": link.session_seq,
        "at_ms": at_ms,
        "kind": link.kind,
        "version": encoded.version,
        "actor": link.actor,
        "origin": link.origin,
        "item": link.item,
        "payload_hash": link.payload_hash,
        "prev_hash": prev_hash,
        "hash": link.hash,
        "salt": salt,
        "chain": FORM,
    }
    appended = Appended(append_copy(tx, row, canonical), link.session_seq, link.hash, at_ms)
    tx.found[Appended, stream] = appended
    return appended


def _head(tx: Transaction, stream: str) -> tuple[int, str]:
    """The number and the hash of a stream's newest event."""
    newest = tx.found.get((Appended, stream))
    if isinstance(newest, Appended):
        return newest.session_seq, newest.hash
    head = tx.one(QUERIES["stream_head"], {"stream": stream})
    return (integer(head[0]), text(head[1])) if head else (0, FIRST_PREV_HASH)


def append_copy(tx: Transaction, row: Mapping[str, SqlValue], canonical: bytes) -> int:
    """Add an event with its place in its chain, which the caller knows to be right; its number.

    Raises:
        DatabaseError: the event could not be stored, or its place is taken.
    """
    payload, blob = store_payload(tx, canonical)
    tx.found.pop((Appended, row["stream"]), None)
    return tx.insert(QUERIES["append_event"], {**row, "payload": payload, "blob": blob})


def store_payload(tx: Transaction, canonical: bytes) -> tuple[str | None, str | None]:
    """The columns `payload` and `blob`: one of them is None."""
    if len(canonical) <= INLINE_BYTES:
        # A lone surrogate from a model's escaped output: SQLite's text cannot hold it, a blob can.
        with contextlib.suppress(UnicodeDecodeError):
            return canonical.decode("utf-8"), None
    content_hash = sha256_hex(canonical)
    encoding, content = pack(canonical)
    row: dict[str, SqlValue] = {
        "hash": content_hash,
        "size": len(canonical),
        "encoding": encoding,
        "content": content,
    }
    tx.execute(QUERIES["store_blob"], row)
    return None, content_hash
