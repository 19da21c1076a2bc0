"""Comparison of the rows of memory with the journal: who wrote what, when, why, and with what outcome.

Owns: which column follows from which event. Must not know: documents (`memory/integrity.py`), or who asks. The events
are chained, and the rows are not: the one who changes a row, or puts those of another copy in its place, cannot change
its event without breaking the chain. Every column of `blocks`, `block_updates` and `block_archives` is compared here or
read back as a document there; a test changes each of them that the schema has.

Words that were taken out of an event match anything. Journals of before say less of a write; what they say is compared.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.table_rows import all_rows, columns_of
from pattern_acp.db.transaction import storable
from pattern_acp.domain.access import Actor
from pattern_acp.domain.canonical import Json, sha256_hex
from pattern_acp.domain.errors import JournalError
from pattern_acp.journal.events import (
    MOVE,
    BlockCommitted,
    BlockConfigured,
    BlockDeleted,
    BlockForgotten,
    BlockHealed,
    BlockRestored,
    EntryArchived,
    EntryStatusChanged,
    EntryVerified,
    EventsRedacted,
    MemoryForkEnded,
)
from pattern_acp.journal.reader import Recorded, read_about, read_everywhere
from pattern_acp.memory.archive import entry_facts, same_text_hash
from pattern_acp.memory.block_loader import text_hash
from pattern_acp.memory.blocks import fork_in
from pattern_acp.memory.configuring import settings_hash
from pattern_acp.memory.edits import Operation
from pattern_acp.memory.forgotten import lost_words, reads_like
from pattern_acp.memory.integrity import StoredRows, stored_rows
from pattern_acp.memory.store import facts_hash

_Row: TypeAlias = Mapping[str, SqlValue]
_Write: TypeAlias = BlockCommitted | BlockDeleted | BlockRestored | BlockForgotten

_KINDS = (BlockCommitted, BlockDeleted, BlockRestored, BlockForgotten, BlockConfigured, BlockHealed)

_SAID_ELSEWHERE = frozenset({"block_id", "data", "actor", "origin", "reason", "at_ms", "last_seq"})
"""Columns of a write that its event says on their own; the SHA-256 of all others is in it."""

_OF_ENTRIES = (("archival_entries", "id"), ("bound_entries", "entry"))

_WHOLE = 2
"""`deleted` of a block that was forgotten as a whole, or discarded."""


class Mismatch(Struct, frozen=True):
    """Something of a block that is not what the journal says, as a clause."""

    block_id: str
    label: str
    problem: str


def mismatches(tx: Transaction, only: Collection[str] | None = None) -> Iterator[Mismatch]:
    """Yield the differences between the journal and the rows of every block, or of those with the ids `only`."""
    blocks = tuple(stored_rows(tx, only))
    about: dict[str, list[Recorded]] = {rows.id: [] for rows in blocks}
    try:
        for recorded in read_about(tx, _KINDS, tuple(about)):
            about[recorded.item].append(recorded)
    except JournalError as error:
        for rows in blocks:
            yield Mismatch(rows.id, rows.label, f"its events cannot be read ({error.sentence})")
        return
    for rows in blocks:
        for problem in _problems(rows, about[rows.id]):
            yield Mismatch(rows.id, rows.label, problem)


def archive_mismatches(tx: Transaction) -> Iterator[Mismatch]:
    """Yield the differences between the journal and the rows of archival entries, traps, constraints and decisions."""
    entries, bound = ({str(row[key]): row for row in _rows(tx, table)} for table, key in _OF_ENTRIES)
    about: dict[str, list[Recorded]] = {}
    try:
        for recorded in read_about(tx, (EntryArchived, EntryVerified, EntryStatusChanged), tuple(entries)):
            about.setdefault(recorded.item, []).append(recorded)
        forgettings = [one.seq for one in read_everywhere(tx, BlockForgotten) if not _ends_fork(one)]
        put = read_everywhere(tx, EntryArchived)
        # A move takes entries elsewhere, and the words of their events with them.
        redacted = ((one, one.event) for one in read_everywhere(tx, EventsRedacted))
        moves = [one.seq for one, event in redacted if isinstance(event, EventsRedacted) and event.cause == MOVE]
        ended = {
            one.event.fork_id for one in read_everywhere(tx, MemoryForkEnded) if isinstance(one.event, MemoryForkEnded)
        }
    except JournalError as error:
        yield Mismatch("", "archive", f"its events cannot be read ({error.sentence})")
        return
    for entry_id, row in entries.items():
        recorded = about.get(entry_id, [])
        found = ((one, one.event) for one in recorded if isinstance(one.event, EntryArchived))
        archived, event = next(found, (None, None))
        if archived is None or event is None:
            yield Mismatch(entry_id, "archive", f"entry {entry_id} is in no event")
            continue
        wrong = [
            *_of_entry(row, archived, event, recorded, entries.keys(), forgettings),
            *_of_terms(bound.get(entry_id), archived, event, recorded, forgettings),
        ]
        if wrong:
            yield Mismatch(
                entry_id, "archive", f"{', '.join(wrong)} of entry {entry_id} is not what event {archived.seq} says"
            )

    # Forgetting deletes entries and names none, so one that is older than it may be gone for that reason.
    last_forgetting = max((*forgettings, *moves), default=0)
    for one in put:
        if not isinstance(one.event, EntryArchived) or fork_in(one.event.owner) in ended:
            continue
        if one.event.entry_id not in entries and one.seq > last_forgetting:
            yield Mismatch(one.event.entry_id, "archive", f"entry {one.event.entry_id} of event {one.seq} is gone")


def _ends_fork(recorded: Recorded) -> bool:
    """Tell whether the program removed a block of a fork, and no entry that anybody stored."""
    event = recorded.event
    is_of_fork = isinstance(event, BlockForgotten) and event.whole and bool(fork_in(event.owner))
    return is_of_fork and recorded.actor is Actor.SYSTEM


def _of_entry(
    row: _Row,
    archived: Recorded,
    event: EntryArchived,
    recorded: Sequence[Recorded],
    known: Collection[str],
    forgettings: Sequence[int],
) -> Iterator[str]:
    checked = [one for one in recorded if isinstance(one.event, EntryVerified)]
    gone = event.supersedes and event.supersedes not in known
    first = archived.at_ms if row["check_command"] else None
    expected: dict[str, Json] = {
        "scope": event.scope,
        "owner": event.owner,
        "actor": archived.actor.value,
        "origin": archived.origin.value,
        "at_ms": archived.at_ms,
        "supersedes": None if gone else event.supersedes or None,
        "text_hash": same_text_hash(str(row["text"])),
        "verified_ms": checked[-1].at_ms if checked else first,
    }
    yield from (name for name, value in expected.items() if row[name] != value)
    if not reads_like(storable(event.reason), str(row["reason"])):
        yield "reason"
    if not _agrees(entry_facts(str(row["text"]), str(row["check_command"])), event.facts_hash):
        yield "text or check_command"
    if not _is_last(row["last_seq"], (checked or [archived])[-1].seq, forgettings):
        yield "last_seq"


def _of_terms(
    row: _Row | None,
    archived: Recorded,
    event: EntryArchived,
    recorded: Sequence[Recorded],
    forgettings: Sequence[int],
) -> Iterator[str]:
    """Yield the terms of a trap, constraint or decision that differ from the journal."""
    if row is None or not event.kind:
        if row is not None or event.kind:
            yield "kind"
        return
    changed = [(one, one.event) for one in recorded if isinstance(one.event, EntryStatusChanged)]
    last, said = changed[-1] if changed else (archived, None)
    expected: dict[str, Json] = {
        "scope": event.scope,
        "owner": event.owner,
        "kind": event.kind,
        "severity": event.severity,
        "until_ms": event.until_ms,
        "host": event.host,
        "status": "active" if said is None else said.status,
        "status_actor": "" if said is None else last.actor.value,
        "status_ms": 0 if said is None else last.at_ms,
    }
    yield from (name for name, value in expected.items() if row[name] != value)
    paths = json.dumps(list(event.paths), ensure_ascii=False)
    if not reads_like(paths, str(row["paths"])):
        yield "paths"
    if not reads_like("" if said is None else storable(said.reason), str(row["status_reason"])):
        yield "status_reason"
    if not _is_last(row["last_seq"], last.seq, forgettings):
        yield "last_seq of its terms"


def _is_last(found: SqlValue, seq: int, forgettings: Sequence[int]) -> bool:
    """Tell whether a row was changed last by its newest event, or since then by a forgetting."""
    return found == seq or (found in forgettings and _number(found) > seq)


def _rows(tx: Transaction, table: str) -> list[_Row]:
    names = columns_of(tx, table)
    return [dict(zip(names, row, strict=True)) for row in all_rows(tx, table, names)]


def _problems(rows: StoredRows, recorded: Sequence[Recorded]) -> Iterator[str]:
    events = [(one, event) for one in recorded if (event := _as_write(one, rows)) is not None]
    is_gone = bool(events) and isinstance(last := events[-1][1], BlockForgotten) and last.whole
    history_from = _number(rows.block["history_from"])
    written = {_number(row["number"]): row for row in rows.writes}
    begun = _begun_anew(events)
    for number in sorted({*written, *range(1, len(events) + 1)}):
        row = written.get(number)
        one = events[number - 1] if 1 <= number <= len(events) else None
        if one is None:
            yield f"write {number} is in no event of it"
        elif row is None:
            if number >= begun:
                yield f"the write of event {one[0].seq} is gone"
        elif wrong := ", ".join(_of_write(row, one[0], one[1], history_from, is_gone=is_gone)):
            yield f"{wrong} of write {row['number']} is not what event {one[0].seq} says"
    if not events:
        return
    state = _State.of(events)
    if wrong := ", ".join((*_of_block(rows, events, state, recorded), *_settings(rows.block, recorded))):
        yield f"{wrong} of the block is not what its events say"
    if rows.archive is not None and (wrong := _of_archive(rows, rows.archive, recorded)):
        yield f"{wrong} of its archive is not what its events say"


def _begun_anew(events: Sequence[tuple[Recorded, _Write]]) -> int:
    """The last write with which the program began a damaged history again; what was missing before it stays so."""
    begun = [
        number
        for number, (recorded, event) in enumerate(events, 1)
        if isinstance(event, BlockForgotten) and recorded.actor is Actor.SYSTEM and not event.whole
    ]
    return max(begun, default=0)


def _as_write(recorded: Recorded, rows: StoredRows) -> _Write | None:
    """The event, if the block has a write for it; forgetting writes only to a block that had the words."""
    event = recorded.event
    if isinstance(event, BlockForgotten):
        wrote = event.update_hash or any(row["last_seq"] == recorded.seq for row in rows.writes)
        return event if wrote else None
    return event if isinstance(event, BlockCommitted | BlockDeleted | BlockRestored) else None


def _of_write(row: _Row, recorded: Recorded, event: _Write, history_from: int, *, is_gone: bool) -> Iterator[str]:
    """The columns of a write that are not what its event says. Forgetting emptied those before `history_from`.

    Where the whole block `is_gone`, the reasons went too.
    """
    committed = event if isinstance(event, BlockCommitted) else None
    expected: dict[str, Json] = {
        "last_seq": recorded.seq,
        "actor": recorded.actor.value,
        "origin": recorded.origin.value,
        "at_ms": recorded.at_ms,
        "operation": _operation(event),
        "target": None if committed is None else committed.target,
    }
    yield from (name for name, value in expected.items() if row[name] != value)
    emptied = _number(row["number"]) < history_from
    if row["reason"] if emptied and is_gone else not reads_like(storable(event.reason), str(row["reason"])):
        yield "reason"
    if emptied or isinstance(event, BlockDeleted | BlockRestored):
        is_right = not row["data"]
    else:
        is_right = _agrees(row["data"], event.update_hash)
    if not is_right:
        yield "data"
    if committed is not None:
        for name, value in (
            ("frontiers_before", committed.frontiers_before),
            ("frontiers_after", committed.frontiers_after),
        ):
            if not reads_like(value, _hex(row[name])):
                yield name
    facts = {name: value for name, value in row.items() if name not in _SAID_ELSEWHERE}
    if not _agrees(facts_hash(facts), event.facts_hash):
        yield "number, peer, size or another fact"


class _State(Struct, frozen=True):
    """The state of a block after its writes. `deleted` has each value that is right."""

    text_hash: str
    conflicts_hash: str
    deleted: frozenset[int]
    history_from: int

    @classmethod
    def of(cls, events: Sequence[tuple[Recorded, _Write]]) -> "_State":
        state = cls("", "", frozenset({0}), 1)
        for number, (_, event) in enumerate(events, 1):
            match event:
                case BlockCommitted():
                    known = event.conflicts_hash if event.facts_hash else "?"
                    state = cls(event.after_hash, known, frozenset({0}), state.history_from)
                case BlockDeleted():
                    # Journals of before do not tell which of both it was.
                    either = {1, _WHOLE} if not event.facts_hash else {_WHOLE if event.discarded else 1}
                    state = cls(event.text_hash, state.conflicts_hash, frozenset(either), state.history_from)
                case BlockRestored():
                    state = cls(event.text_hash, state.conflicts_hash, frozenset({0}), state.history_from)
                case BlockForgotten():
                    deleted = frozenset({_WHOLE}) if event.whole else state.deleted
                    state = cls(event.after_hash, "", deleted, number)
        return state


def _of_block(
    rows: StoredRows, events: Sequence[tuple[Recorded, _Write]], state: _State, recorded: Sequence[Recorded]
) -> Iterator[str]:
    """The columns of a block that are not what its events say, apart from its settings."""
    block, newest = rows.block, events[-1][1]
    expected: dict[str, Json] = {
        "id": newest.block_id,
        "scope": newest.scope,
        "owner": newest.owner,
        "label": newest.label,
        "text_hash": text_hash(str(block["text"])),
        "head_update": len(events),
        "created_ms": events[0][0].at_ms,
        "updated_ms": events[-1][0].at_ms,
        "last_seq": max((one.seq for one in recorded if _changes_row(one, events)), default=0),
        "history_from": state.history_from,
    }
    yield from (name for name, value in expected.items() if block[name] != value)
    if not _agrees(text_hash(str(block["text"])), state.text_hash):
        yield "text"
    if block["deleted"] not in state.deleted:
        yield "deleted"
    conflicts = str(block["conflicts"])
    if state.conflicts_hash != "?" and state.conflicts_hash != (sha256_hex(conflicts.encode()) if conflicts else ""):
        yield "conflicts"
    if rows.writes and block["frontiers"] != rows.writes[-1]["frontiers_after"]:
        yield "frontiers"
    if not _is_whole(_number(block["base_update"]), rows, recorded):
        yield "base_update"


def _changes_row(recorded: Recorded, events: Sequence[tuple[Recorded, _Write]]) -> bool:
    return not isinstance(recorded.event, BlockForgotten) or any(recorded is one for one, _ in events)


def _settings(block: _Row, recorded: Sequence[Recorded]) -> Iterator[str]:
    """The settings that are not what the creation and the changes of settings since come to, gone through backwards."""
    settings: dict[str, Json] = {
        "description": str(block["description"]),
        "limit": str(block["char_limit"]),
        "permission": str(block["permission"]),
        "pinned": {0: "no", 1: "yes"}.get(_number(block["pinned"]), "?"),
        "tier": str(block["tier"]),
        "schema": str(block["schema"]),
    }
    for one in reversed(recorded):
        if isinstance(event := one.event, BlockConfigured):
            if not reads_like(event.after, str(settings[event.setting])):
                yield event.setting
            settings[event.setting] = event.before
        elif isinstance(event, BlockCommitted) and event.operation == Operation.CREATE.value:
            masked = any(lost_words(str(value)) for value in settings.values())
            if not masked and not _agrees(settings_hash(settings), event.settings_hash):
                yield "a setting or the schema"


def _of_archive(rows: StoredRows, archive: _Row, recorded: Sequence[Recorded]) -> str:
    upto, seq = _number(archive["upto"]), archive["last_seq"]
    write = _write_of(rows, upto)
    if write is None:
        return "upto"
    is_right = write["last_seq"] == seq or (upto, seq) in _healings(rows, recorded)
    return "" if is_right else "upto or last_seq"


def _is_whole(number: int, rows: StoredRows, recorded: Sequence[Recorded]) -> bool:
    """Tell whether a base can contain all up to this write: it brought an update, or the block was healed after it."""
    write, history_from = _write_of(rows, number), _number(rows.block["history_from"])
    if write is None:
        return False
    return (number >= history_from and bool(write["data"])) or number in {at for at, _ in _healings(rows, recorded)}


def _healings(rows: StoredRows, recorded: Sequence[Recorded]) -> set[tuple[int, SqlValue]]:
    """Each time that the block was healed: after which write, and its event."""
    healed = (one.seq for one in recorded if isinstance(one.event, BlockHealed))
    return {
        (max((_number(write["number"]) for write in rows.writes if _number(write["last_seq"]) < seq), default=0), seq)
        for seq in healed
    }


def _write_of(rows: StoredRows, number: int) -> _Row | None:
    return next((write for write in rows.writes if write["number"] == number), None)


def _operation(event: _Write) -> str:
    match event:
        case BlockCommitted():
            return event.operation
        case BlockDeleted():
            return Operation.DELETE.value
        case BlockRestored():
            return Operation.RESTORE.value
        case BlockForgotten():
            return Operation.FORGET.value


def _agrees(found: SqlValue, recorded: str) -> bool:
    """Tell whether a hash is the recorded one. One that is not recorded, or was taken out, agrees with any."""
    return not recorded or lost_words(recorded) or found == recorded


def _number(value: SqlValue) -> int:
    return value if isinstance(value, int) else -1


def _hex(value: SqlValue) -> str:
    return value.hex() if isinstance(value, bytes) else ""
