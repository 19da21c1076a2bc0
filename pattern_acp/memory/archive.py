"""Archival entries: facts of their own, never changed, found by search alone.

Owns: the rows of `archival_entries`. Must not know: the journal; every write carries the number of the event whose
fact it stores (rule R1). A correction is a new entry that supersedes the old one, which stays in history and leaves
search.
"""

import json
from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import canonical_json, sha256_hex
from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.recall import index_archival, remove_source

_QUERIES = load_queries("pattern_acp.memory")

MOST_CHARACTERS = 8_000
"""The longest entry: as much as a block's usual limit; longer texts are documents, not facts."""

_LAST_MS = 1 << 62


class NewEntry(Struct, frozen=True):
    """A fact to keep. `supersedes` is the id of the entry that it corrects, empty for none."""

    id: str
    scope: Scope
    owner: str
    text: str
    actor: Actor
    origin: Origin
    reason: str = ""
    supersedes: str = ""
    verified_ms: int | None = None
    check_command: str = ""


class ArchivalEntry(Struct, frozen=True):
    """A fact as stored. Times are milliseconds since 1970-01-01 UTC."""

    id: str
    scope: Scope
    owner: str
    text: str
    actor: Actor
    origin: Origin
    reason: str
    at_ms: int
    supersedes: str
    superseded_by: str
    """Id of the entry that replaced it; empty while it is in force."""
    verified_ms: int | None
    check_command: str
    seq: int

    @property
    def is_current(self) -> bool:
        """True when nothing has superseded it."""
        return not self.superseded_by


class EntryMissingError(BlockError):
    """There is no archival entry of this id."""

    failure_code = "memory.entry-missing"

    def __init__(self, entry: str) -> None:
        """Name the id that was asked for."""
        super().__init__(f"There is no archival entry {entry!r}; search memory to find the ids that there are.")
        self.entry = entry


class EntryRefusedError(BlockError):
    """The entry cannot be stored; nothing was changed."""

    failure_code = "memory.entry-refused"


def insert_entry(tx: Transaction, new: NewEntry, *, at_ms: int, seq: int) -> ArchivalEntry:
    """Store an entry and make it searchable; what it supersedes leaves search.

    Raises:
        EntryRefusedError: the text is empty or too long, or the entry to supersede was superseded before.
        EntryMissingError: the entry to supersede does not exist or is another owner's.
    """
    text = storable(new.text).strip()
    if not text:
        raise EntryRefusedError("An archival entry needs a text; nothing was stored.")
    if len(text) > MOST_CHARACTERS:
        raise EntryRefusedError(
            f"The text has {len(text)} characters, and an archival entry holds at most {MOST_CHARACTERS}; split it."
        )
    if new.supersedes:
        _supersede(tx, new, seq=seq)
    fields: dict[str, SqlValue] = {
        "id": new.id,
        "scope": new.scope.value,
        "owner": new.owner,
        "text": text,
        "text_hash": same_text_hash(text),
        "actor": new.actor.value,
        "origin": new.origin.value,
        "reason": storable(new.reason),
        "at_ms": at_ms,
        "supersedes": new.supersedes or None,
        "verified_ms": new.verified_ms,
        "check_command": storable(new.check_command),
        "seq": seq,
    }
    tx.insert(_QUERIES["insert_archival"], fields)
    index_archival(tx, entry_id=new.id, owner=new.owner, text=text, at_ms=at_ms, seq=seq)
    return load_entry(tx, new.id)


def entry_facts(text: str, check_command: str) -> str:
    """SHA-256 of what is stored of an entry that its event does not name on its own."""
    return sha256_hex(canonical_json([storable(text).strip(), storable(check_command)]))


def load_entry(tx: Transaction, entry_id: str) -> ArchivalEntry:
    """The entry of this id.

    Raises:
        EntryMissingError: there is none.
    """
    row = tx.one(_QUERIES["read_archival"], {"id": storable(entry_id)})
    if row is None:
        raise EntryMissingError(entry_id)
    return _entry(row)


def list_entries(
    tx: Transaction,
    owners: Sequence[tuple[Scope, str]],
    *,
    limit: int,
    until_ms: int = _LAST_MS,
    with_superseded: bool = False,
) -> tuple[ArchivalEntry, ...]:
    """The entries of these owners that were stored until a moment, newest first."""
    asked = {"owners": json.dumps(owners), "superseded": int(with_superseded), "until_ms": until_ms, "limit": limit}
    return tuple(_entry(row) for row in tx.all(_QUERIES["list_archival"], asked))


def find_same(tx: Transaction, scope: Scope, owner: str, text: str) -> ArchivalEntry | None:
    """The entry in force that says the same, case and white space aside."""
    asked = {"scope": scope.value, "owner": owner, "text_hash": same_text_hash(storable(text))}
    row = tx.one(_QUERIES["same_archival"], asked)
    return None if row is None else load_entry(tx, columns.text(row[0]))


def verify_entry(tx: Transaction, entry_id: str, *, verified_ms: int, seq: int) -> None:
    """Note that the fact was found true at `verified_ms`.

    Raises:
        EntryMissingError: there is no such entry.
    """
    asked: dict[str, SqlValue] = {"id": storable(entry_id), "verified_ms": verified_ms, "seq": seq}
    if tx.execute(_QUERIES["verify_archival"], asked) != 1:
        raise EntryMissingError(entry_id)


def forget_entry(tx: Transaction, entry_id: str, *, seq: int) -> None:
    """Take the entry out of history and search, with its vectors; an entry that superseded it stays.

    Raises:
        EntryMissingError: there is no such entry.
    """
    wanted = storable(entry_id)
    tx.execute(_QUERIES["unlink_archival"], {"id": wanted, "seq": seq})
    if tx.execute(_QUERIES["delete_archival"], {"id": wanted}) != 1:
        raise EntryMissingError(entry_id)
    remove_source(tx, wanted)


def index_copied(tx: Transaction, entry_id: str) -> None:
    """Make an entry findable whose row was stored as it was elsewhere, and what it supersedes no longer a fact.

    Raises:
        EntryMissingError: there is none.
    """
    entry = load_entry(tx, entry_id)
    index_archival(tx, entry_id=entry.id, owner=entry.owner, text=entry.text, at_ms=entry.at_ms, seq=entry.seq)
    for old in (entry.supersedes, "" if entry.is_current else entry.id):
        if old:
            tx.execute(_QUERIES["supersede_entries"], {"source": old, "seq": entry.seq})


def same_text_hash(text: str) -> str:
    """SHA-256 of `text` with case and white space evened out: equal for texts that say the same."""
    return sha256(" ".join(text.casefold().split()).encode("utf-8")).hexdigest()


def _supersede(tx: Transaction, new: NewEntry, *, seq: int) -> None:
    old = load_entry(tx, new.supersedes)
    if (old.scope, old.owner) != (new.scope, new.owner):
        raise EntryMissingError(new.supersedes)
    if not old.is_current:
        raise EntryRefusedError(
            f"The entry {old.id!r} was superseded by {old.superseded_by!r} before; supersede that one instead."
        )
    tx.execute(_QUERIES["supersede_entries"], {"source": old.id, "seq": seq})


def _entry(row: Row) -> ArchivalEntry:
    return ArchivalEntry(
        id=columns.text(row[0]),
        scope=Scope(columns.text(row[1])),
        owner=columns.text(row[2]),
        text=columns.text(row[3]),
        actor=Actor(columns.text(row[4])),
        origin=Origin(columns.text(row[5])),
        reason=columns.text(row[6]),
        at_ms=columns.integer(row[7]),
        supersedes=columns.text(row[8]),
        superseded_by=columns.text(row[9]),
        verified_ms=None if row[10] is None else columns.integer(row[10]),
        check_command=columns.text(row[11]),
        seq=columns.integer(row[12]),
    )
