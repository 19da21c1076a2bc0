"""Archival entries: facts of their own, never changed, found by search; some are bound to files, and act.

Owns: the rows of `archival_entries`, and of those that act (traps, constraints, decisions, notes of one machine) what
each is beside its text (kind, patterns of files, severity, end) and whether it still holds. Must not know: the disk,
who is warned (`session/edit_warnings.py`), the journal; every write carries the number of the event whose fact it
stores (rule R1). A correction, or other terms, is a new entry that supersedes the old one, which stays in history and
leaves search; only whether an entry holds changes, with who said so and why.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from pathlib import PurePath

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Row, SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.db.transaction import storable
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import canonical_json, sha256_hex
from pattern_acp.domain.clock import day_began_ms, day_of, local_minute
from pattern_acp.domain.errors import BlockError, WorkspaceError
from pattern_acp.domain.globs import Glob, compile_glob
from pattern_acp.domain.late_pattern import late_pattern
from pattern_acp.domain.text_limits import cut_middle, one_line, plural
from pattern_acp.domain.tool_calls import Advised
from pattern_acp.journal.leases import host_name
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.dates import is_stale, local_bounds
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
    """The entry of this id. Raises EntryMissingError where there is none."""
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
    """Note that the fact was found true at `verified_ms`. Raises EntryMissingError where there is no such entry."""
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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_DAY_MS = 24 * 60 * 60_000

MOST_PATTERNS = 30
"""Limit for one entry; more patterns should be a folder."""


class NoteKind(StrEnum):
    """Kinds of entries."""

    TRAP = "trap"
    CONSTRAINT = "constraint"
    DECISION = "decision"
    RUNTIME = "runtime"
    """Something that runs on this machine for a while: a server, a port, a container."""
    MACHINE = "machine"
    """Something that is so on this machine alone: a path, a version, a mount."""


class Severity(StrEnum):
    """Harm from overlooking an entry, the worst first."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Status(StrEnum):
    """Standing of an entry."""

    ACTIVE = "active"
    RESOLVED = "resolved"
    EXPIRED = "expired"
    """Its end has passed; nobody had to say so."""


OF_MACHINE = (NoteKind.RUNTIME, NoteKind.MACHINE)
"""Those that are about one machine; no other one shows them."""

RUNTIME_MS = _DAY_MS
"""Life of a runtime note that says nothing else."""

WARNING_KINDS = (NoteKind.TRAP, NoteKind.CONSTRAINT)
"""Those that are reported before an edit; a decision is reported along with them."""


class NoteRule(Struct, frozen=True):
    """Properties of an entry besides its text. `paths` are patterns as in `.gitignore`, relative to the project."""

    kind: NoteKind
    paths: tuple[str, ...] = ()
    severity: Severity = Severity.MEDIUM
    until_ms: int | None = None
    """From when on it holds no longer, in milliseconds since 1970-01-01 UTC."""
    host: str = ""
    """The machine that it is about; empty for any."""


class NoteStatusChange(Struct, frozen=True):
    """Who said that an entry holds, or does no longer, when and why."""

    actor: Actor
    at_ms: int
    reason: str


class PathNote(Struct, frozen=True):
    """An entry with its terms, as stored."""

    entry: ArchivalEntry
    terms: NoteRule
    stored_status: Status
    changed: NoteStatusChange | None = None
    """The last change of its status; None where nobody changed it."""

    @property
    def seen_ms(self) -> int | None:
        """The time from which its age counts: its last check, or that of a trap's writing; None where it never ages."""
        return self.entry.verified_ms or (self.entry.at_ms if self.terms.kind is NoteKind.TRAP else None)

    def status(self, now_ms: int) -> Status:
        """True when it holds now."""
        until = self.terms.until_ms
        if self.stored_status is Status.ACTIVE and until is not None and until <= now_ms:
            return Status.EXPIRED
        return self.stored_status


def end_of_day(text: str) -> int:
    """The moment after a day written like 2026-12-31, in the time zone of this machine.

    Raises:
        ValueError: it is no day.
    """
    # A time behind the day is left out.
    return local_bounds(datetime.fromisoformat(text.strip()).date())[1] + 1


_SPAN = late_pattern(r"(\d{1,5})\s*(min|m|h|d)")
_SPANS = {"m": 60_000, "min": 60_000, "h": 3_600_000, "d": _DAY_MS}


def end_of_span(text: str, now_ms: int) -> int | None:
    """The end of a span that begins now, written like 45min, 2h or 3d; None for another text."""
    found = _SPAN.fullmatch(text.strip())
    return None if found is None else now_ms + int(found[1]) * _SPANS[found[2]]


def last_day(until_ms: int) -> str:
    """The day that `end_of_day` got, or on which a span ends."""
    try:
        return day_of(until_ms - 1)
    except (OverflowError, OSError, ValueError):
        return (_EPOCH + timedelta(milliseconds=until_ms - 1)).date().isoformat()


def _ends_with_day(until_ms: int) -> bool:
    try:
        return day_began_ms(until_ms) == until_ms
    except (OverflowError, OSError, ValueError):
        return until_ms % _DAY_MS == 0


def head_of(bound: PathNote) -> str:
    """Summary of an entry in a few words: kind, severity, patterns."""
    terms = bound.terms
    parts = [terms.kind.value, f"{terms.severity} severity", *((", ".join(terms.paths),) if terms.paths else ())]
    if terms.until_ms is not None:
        is_day = _ends_with_day(terms.until_ms)
        parts.append(f"until {last_day(terms.until_ms) if is_day else local_minute(terms.until_ms)}")
    if terms.host:
        parts.append("on this machine" if terms.host == host_name() else f"on the machine {terms.host}")
    return ", ".join(parts)


def bind_entry(tx: Transaction, entry: ArchivalEntry, terms: NoteRule, *, seq: int) -> None:
    """Store the terms of an entry, which holds from now on.

    Raises:
        EntryRefusedError: it acts before edits and names no files, or too many patterns.
    """
    if not terms.paths and terms.kind in WARNING_KINDS:
        raise EntryRefusedError(
            f"A {terms.kind} needs `paths`: patterns of the files that it is about, such as src/db/** or *.sql."
        )
    if len(terms.paths) > MOST_PATTERNS:
        raise EntryRefusedError(f"{len(terms.paths)} patterns are too many, at most {MOST_PATTERNS}; name a folder.")
    fields: dict[str, SqlValue] = {
        "entry": entry.id,
        "scope": entry.scope.value,
        "owner": entry.owner,
        "kind": terms.kind.value,
        "paths": storable(json.dumps(terms.paths, ensure_ascii=False)),
        "severity": terms.severity.value,
        "until_ms": terms.until_ms,
        "host": terms.host,
        "seq": seq,
    }
    tx.execute(_QUERIES["bind_entry"], fields)


def set_status(tx: Transaction, entry_id: str, status: Status, change: NoteStatusChange, *, seq: int) -> PathNote:
    """Note that an entry holds no longer, or does again.

    Raises:
        EntryMissingError: there is no such entry.
        EntryRefusedError: it is a plain fact, or its status is that already.
    """
    bound = bound_of(tx, [entry_id]).get(entry_id)
    if bound is None:
        load_entry(tx, entry_id)
        raise EntryRefusedError(
            f"The archival entry {entry_id!r} is a plain fact, which has no status; replace it when it is wrong."
        )
    until_ms = bound.terms.until_ms
    if status is Status.ACTIVE and until_ms is not None and until_ms <= change.at_ms:
        raise EntryRefusedError(
            f"The archival entry {entry_id!r} expired after {last_day(until_ms)}; replace it by one with a "
            "later `until`, or with `never`."
        )
    if bound.stored_status is status:
        raise EntryRefusedError(f"The archival entry {entry_id!r} is {status} already.")
    fields: dict[str, SqlValue] = {
        "entry": entry_id,
        "status": status.value,
        "actor": change.actor.value,
        "at_ms": change.at_ms,
        "reason": storable(change.reason),
        "seq": seq,
    }
    tx.execute(_QUERIES["set_entry_status"], fields)
    return bound


def acting_entries(tx: Transaction, owners: Sequence[tuple[Scope, str]], *, now_ms: int) -> tuple[PathNote, ...]:
    """Entries in force for these owners, oldest first."""
    return tuple(_bound(tx, row) for row in tx.all(_QUERIES["acting_entries"], _asked(owners, now_ms)))


def bound_entries(tx: Transaction, owners: Sequence[tuple[Scope, str]]) -> tuple[PathNote, ...]:
    """All that were not superseded, also what holds no longer, oldest first."""
    return tuple(_bound(tx, row) for row in tx.all(_QUERIES["bound_entries"], {"owners": json.dumps(owners)}))


def bound_of(tx: Transaction, ids: Sequence[str]) -> dict[str, PathNote]:
    """The terms of those of these entries that have any, by their ids."""
    rows = tx.all(_QUERIES["bound_of"], {"ids": json.dumps(ids)})
    return {columns.text(row[0]): _bound(tx, row) for row in rows}


def notes_elsewhere(tx: Transaction, ids: Sequence[str], *, now_ms: int) -> frozenset[str]:
    """Those of some archival entries that are about another machine, or say what ran here and have run out."""
    asked: dict[str, SqlValue] = {"ids": json.dumps(ids), "host": host_name(), "now_ms": now_ms}
    return frozenset(columns.text(row[0]) for row in tx.all(_QUERIES["notes_elsewhere"], asked)) if ids else frozenset()


def mask_bound(tx: Transaction, mask: Callable[[str], str], *, seq: int) -> None:
    """Mask words in the patterns of all entries, and in the reasons of what was resolved."""
    for row in tx.all(_QUERIES["bound_texts"]):
        paths: list[str] = json.loads(columns.text(row[1]))
        reason = columns.text(row[2])
        masked = [mask(path) for path in paths]
        if masked != paths or mask(reason) != reason:
            fields: dict[str, SqlValue] = {"paths": json.dumps(masked, ensure_ascii=False), "reason": mask(reason)}
            tx.execute(_QUERIES["mask_bound"], {"entry": row[0], "seq": seq, **fields})


def _asked(owners: Sequence[tuple[Scope, str]], now_ms: int) -> dict[str, SqlValue]:
    return {"owners": json.dumps(owners), "now_ms": now_ms, "host": host_name()}


def _bound(tx: Transaction, row: Row) -> PathNote:
    paths: list[str] = json.loads(columns.text(row[2]))
    terms = NoteRule(
        NoteKind(columns.text(row[1])),
        tuple(paths),
        Severity(columns.text(row[3])),
        None if row[4] is None else columns.integer(row[4]),
        columns.text(row[9]),
    )
    actor = columns.text(row[6])
    changed = NoteStatusChange(Actor(actor), columns.integer(row[7]), columns.text(row[8])) if actor else None
    return PathNote(load_entry(tx, columns.text(row[0])), terms, Status(columns.text(row[5])), changed)


MOST_TOLD = 6
"""Entries that are reported in full; of the others only the ids are."""

MOST_SHOWN = 1_200
"""Limit for the text of one entry, which `memory_search` has in full."""

MOST_IN_ALL = 4_000
"""Characters of all entries of one warning, the worst first; the first is reported however long it is."""

_AUTHORS = {Actor.HUMAN: "the user", Actor.PERSONA: "the agent", Actor.IMPORT: "an import"}


class MatchedNote(Struct, frozen=True):
    """An entry and the files, relative to the project, that its patterns mean."""

    bound: PathNote
    files: tuple[str, ...]


def relative_names(paths: Iterable[str], root: str) -> tuple[str, ...]:
    """The names below the project's `root` of those absolute paths that lie there, with forward slashes."""
    names: list[str] = []
    for path in paths:
        try:
            names.append(PurePath(path).relative_to(root).as_posix())
        except ValueError:
            continue
    return tuple(dict.fromkeys(names))


def entries_about(entries: Sequence[PathNote], names: Sequence[str], root: str) -> tuple[MatchedNote, ...]:
    """The entries that mean one of the names, the worst first and among equals the newest."""
    found = [MatchedNote(bound, files) for bound in entries if (files := _files_meant(bound, names, root))]
    ranks = tuple(Severity)
    return tuple(sorted(found, key=lambda meant: (ranks.index(meant.bound.terms.severity), -meant.bound.entry.at_ms)))


def warning_text(unknown: Sequence[MatchedNote], decisions: Sequence[MatchedNote], *, now_ms: int) -> Advised:
    """Text instead of the effect: the notes about the files."""
    texts, size = list[str](), 0
    for meant in unknown[:MOST_TOLD]:
        text = _told(meant, now_ms)
        size += len(text)
        if texts and size > MOST_IN_ALL:
            break
        texts.append(text)
    told = unknown[: len(texts)]
    things = plural(len(unknown), "thing")
    count = things if len(told) == len(unknown) else f"{len(told)} of {things}"
    lines = [f"Not done yet, nothing was changed. Memory has {count} to heed about what this call would change:"]
    lines += [f"{number}. {text}" for number, text in enumerate(texts, 1)]
    if len(told) < len(unknown):
        rest = ", ".join(meant.bound.entry.id for meant in unknown[len(told) :])
        lines.append(f"Less severe, or older, and not shown here: {rest}.")
    lines += [f"Decided about these files: {_told(meant, now_ms)}" for meant in decisions[:MOST_TOLD]]
    if len(decisions) > MOST_TOLD:
        lines.append(f"({MOST_TOLD} of {len(decisions)} decisions.)")
    search = "memory_search finds what is not shown. " if len(told) < len(unknown) else ""
    advice = (
        f"{search}Change the call if it goes against one of these; the same call once more is done. What does not hold "
        "any more, resolve: memory_write with operation resolve, its id as old_text, and the reason."
    )
    return Advised("\n".join(lines), advice)


def again_text(held: Sequence[MatchedNote]) -> Advised:
    """Text for the model on a second call in one message, whose warning it could not read yet."""
    ids = ", ".join(meant.bound.entry.id for meant in held)
    return Advised(
        f"Not done yet either, nothing was changed: {ids} above is about this call too.", "Send it once more."
    )


def unknown_of(meant: Sequence[MatchedNote], known: Collection[str]) -> tuple[MatchedNote, ...]:
    """Those that have to be reported before an edit and are not among the known ids."""
    return tuple(one for one in meant if one.bound.terms.kind in WARNING_KINDS and one.bound.entry.id not in known)


def _told(meant: MatchedNote, now_ms: int) -> str:
    entry = meant.bound.entry
    day = day_of(entry.at_ms)
    author = _AUTHORS.get(entry.actor, entry.actor.value)
    files = ", ".join(meant.files[:3]) + (f" and {len(meant.files) - 3} more" if len(meant.files) > 3 else "")
    lines = [
        f"[{head_of(meant.bound)}; {author}, {day}; archival entry {entry.id}; because of {files}]",
        cut_middle(entry.text, MOST_SHOWN).text,
    ]
    if entry.reason:
        lines.append(f"Why it was noted: {one_line(entry.reason, 300)}")
    if is_stale(meant.bound.seen_ms, now_ms=now_ms):
        how = f"; offer the user to run `{entry.check_command}`, which tells" if entry.check_command else ""
        lines.append(f"(not checked for long, so find out whether it still holds{how}; then verify or resolve it)")
    return "\n".join(lines)


def _files_meant(bound: PathNote, names: Sequence[str], root: str) -> tuple[str, ...]:
    globs = [glob for pattern in bound.terms.paths if (glob := _glob(pattern, root)) is not None]
    return tuple(name for name in names if _means(globs, name))


def _glob(pattern: str, root: str) -> Glob | None:
    # As in `.gitignore`, a slash at the end alone binds a pattern to no folder.
    plain = pattern.removeprefix("!")
    if plain.endswith("/") and "/" not in plain[:-1]:
        pattern = f"{'!' if plain != pattern else ''}**/{plain}"
    try:
        return compile_glob(pattern, root)
    except WorkspaceError:
        # Refused when it was written; words that were forgotten may have made it another one since.
        return None


def _means(globs: Sequence[Glob], name: str) -> bool:
    """True when the last pattern that says anything of the name, or of a folder above it, means it."""
    parts = name.split("/")
    candidates = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
    for glob in reversed(globs):
        if any(glob.regex.fullmatch(candidate) for candidate in candidates):
            return not glob.negated
    return False
