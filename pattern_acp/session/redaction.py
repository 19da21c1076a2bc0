"""Taking words out of the journal of one session, out of everything that was made from it, and checking that they are.

Owns: which events lose what, the one transaction that does it with the event that says so, and reading back where words
are left. Must not know: who is asked before. Words that memory blocks hold are `memory/service/forget.py`'s.

The file is written again afterwards, since SQLite leaves deleted words in free pages and in the write-ahead log.
"""

import base64
import json
import mmap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import cast
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.columns import text
from pattern_acp.db.connection import Database, SqlValue, Transaction, read_file
from pattern_acp.db.segment_files import FOLDER as SEGMENTS
from pattern_acp.db.segment_files import SegmentReading, read_lines
from pattern_acp.db.table_rows import columns_of, each_row, ordinary_tables
from pattern_acp.definitions.identity import forget_in_sources, sources_with
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.domain.errors import BlockError, DatabaseError
from pattern_acp.domain.messages import Message
from pattern_acp.domain.structural_keys import TextRole, walk
from pattern_acp.journal.bundle import mask_texts
from pattern_acp.journal.codec import JournalError, RedactionError, decode
from pattern_acp.journal.contents import PackedError, contents_with, drop_contents, unpack
from pattern_acp.journal.events import (
    BlockForgotten,
    EventsRedacted,
    InstructionsCompiled,
    MessagePartial,
    MessageRecorded,
    SessionTitled,
    TurnStarted,
)
from pattern_acp.journal.reader import Recorded, newest_event, read_stream
from pattern_acp.journal.redact import (
    PlannedRedaction,
    StoredEvent,
    digest_of,
    drop_grants,
    mask_subagents,
    mask_titles,
    partial_events,
    plan_redaction,
    redact,
    stored_events,
    with_requests,
)
from pattern_acp.journal.turn_ends import put_together
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.memory.blocks import Block
from pattern_acp.memory.forget import (
    clean_indexes,
    every_block,
    forget_message,
    is_in_word_index,
    labels_of_blocks,
    look_through,
    mask_reasons,
)
from pattern_acp.memory.forgotten import MARKS, REDACTED, Forgotten, forget_passage
from pattern_acp.memory.history import run_on_history
from pattern_acp.memory.recall import mask_entries
from pattern_acp.memory.service.forget import ForgettingElsewhere, with_names
from pattern_acp.session.projections import ANSWER_EVENTS, WholeAnswers
from pattern_acp.tasks.claims import drop_claims
from pattern_acp.tasks.forget import forget_in_tasks, tasks_with
from pattern_acp.tools.registry import parameter_names

SHORTEST = 4
"""Characters of a text to look for: a shorter one is part of too many words."""


class RedactionWanted(Struct, frozen=True):
    """Target of a redaction: the event of this place in the session, or a text wherever the session recorded it."""

    session_id: str
    place: int = 0
    match: str = ""
    reason: str = ""


class RedactionPlan(Struct, frozen=True):
    """Texts that would lose words: events, contents of saved files, and rows made from events."""

    events: tuple[PlannedRedaction, ...]
    kinds: tuple[str, ...]
    files: tuple[str, ...] = ()
    rows: int = 0
    """Titles, passages of the search index, permissions and the like; known once it is done."""


def plan(tx: Transaction, wanted: RedactionWanted) -> RedactionPlan:
    """Plan the redaction, in words of events; empty when it was done before.

    Raises:
        RedactionError: there is nothing to redact, or an event could not be read afterwards.
    """
    recorded = read_stream(tx, wanted.session_id)
    if wanted.match:
        if len(wanted.match.strip()) < SHORTEST:
            raise RedactionError(f"A text to redact has at least {SHORTEST} characters.")
        words = with_names(tx, forget_passage(wanted.match), parameter_names())
        planned = _matching(tx, recorded, words)
        # As texts and not as JSON: what is escaped there is not in a file.
        files = contents_with(tx, words.holds)
    else:
        planned, files = _whole(tx, recorded, wanted.place), ()
    names = {entry.seq: type(entry.event).__name__ for entry in recorded}
    return RedactionPlan(planned, tuple(sorted({names.get(one.seq, "") for one in planned})), files)


class NothingLeftError(RedactionError):
    """The session has nothing that could be taken out."""

    failure_code = "journal.redaction-refused"


async def redact_session(database: Database, wanted: RedactionWanted, *, at_ms: int) -> tuple[RedactionPlan, bool]:
    """Do it. False: other processes prevented the file from being written again, and something may be left in it.

    One that was done before is finished: it may have been killed before the file was written again.

    Raises:
        NothingLeftError: there is nothing to redact, and never was.
        RedactionError: an event would break.
    """
    try:
        done = await database.write(lambda tx: take_out(tx, wanted, at_ms=at_ms))
    except NothingLeftError:
        if not await database.read(lambda tx: read_stream(tx, wanted.session_id, kinds=(EventsRedacted,))):
            raise
        done = RedactionPlan((), ())
    return done, await database.rewrite()


def take_out(tx: Transaction, wanted: RedactionWanted, *, at_ms: int) -> RedactionPlan:
    """The transaction of a redaction, after which only the write-ahead log and the segments may hold the words.

    Raises:
        NothingLeftError: there is nothing to redact.
        RedactionError: an event would break.
    """
    tx.overwrite_deleted()
    done = plan(tx, wanted)
    session, words = wanted.session_id, forget_passage(wanted.match) if wanted.match else None
    reason = wanted.reason if words is None else words.mask(wanted.reason)
    event = EventsRedacted(reason, len(done.events), len(done.files), digest_of(done.events))
    audit = append(tx, session, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=at_ms)
    rows = 0 if words is None else _mask_rows(tx, session, words, seq=audit.seq, at_ms=at_ms)
    if not done.events and not done.files and not rows:
        raise NothingLeftError("There is nothing left to redact there; nothing was changed.")
    redact(tx, done.events, audit_seq=audit.seq, at_ms=at_ms)
    drop_contents(tx, done.files)
    if any(isinstance(one.event, SessionTitled) for one in done.events):
        titles = [e.event.title for e in read_stream(tx, session) if isinstance(e.event, SessionTitled)]
        # The newest one, which may be another than the one that lost words.
        mask_titles(tx, lambda _: titles[-1], audit_seq=audit.seq, only=session)
    for stream in {one.stream for one in done.events}:
        changed = {
            one.event.message.message_id
            for one in done.events
            if one.stream == stream and isinstance(one.event, TurnStarted | MessageRecorded)
        }
        for message in _searched_of(tx, stream, changed):
            forget_message(tx, stream, message.message_id, message.searched, seq=audit.seq)
    clean_indexes(tx)
    return replace(done, rows=rows)


def _searched_of(tx: Transaction, stream: str, changed: AbstractSet[str]) -> list[Message]:
    """The prompts and whole answers that some messages of a stream are, or are part of."""
    answers = WholeAnswers()
    found: dict[str, Message] = {}
    for entry in read_stream(tx, stream, kinds=ANSWER_EVENTS) if changed else ():
        event, answer = entry.event, answers.follow(entry.event)
        if isinstance(event, TurnStarted | MessageRecorded):
            message = answer or event.message
            if event.message.message_id in changed or message.message_id in found:
                found[message.message_id] = message
    return list(found.values())


def _mask_rows(tx: Transaction, session_id: str, words: Forgotten, *, seq: int, at_ms: int) -> int:
    """Take the words out of all rows that were made from events of the session; how many had any.

    Whether an event still has them does not matter: an earlier redaction may have left the row.
    """
    return (
        mask_entries(tx, session_id, words.mask, seq=seq)
        + mask_titles(tx, words.mask, audit_seq=seq, only=session_id)
        + drop_grants(tx, session_id, words.mask)
        + drop_claims(tx, session_id, words.mask)
        + forget_in_tasks(tx, words, at_ms=at_ms, session=session_id)
        + forget_in_sources(tx, words.holds, words.mask, seq=seq, only=_definitions_of(tx, session_id))
        + mask_subagents(tx, session_id, words.mask)
        + mask_reasons(tx, words.mask, stream=session_id)
    )


def _definitions_of(tx: Transaction, session_id: str) -> frozenset[str]:
    """The identities of all that defined the session at any time."""
    return frozenset(
        identity
        for entry in read_stream(tx, session_id)
        if isinstance(entry.event, InstructionsCompiled)
        for identity in entry.event.identities
    )


def _sources_with(tx: Transaction, words: Forgotten) -> int:
    return sources_with(tx, words.holds)


def _forget_in_sources(tx: Transaction, words: Forgotten, at_ms: int) -> int:
    del at_ms
    # The newest event is the one that says what is forgotten.
    return forget_in_sources(tx, words.holds, words.mask, seq=newest_event(tx))


KEPT_SOURCES = ForgettingElsewhere(_sources_with, _forget_in_sources)
"""The part of stored sources in the forgetting of memory."""


def _matching(tx: Transaction, recorded: list[Recorded], words: Forgotten) -> tuple[PlannedRedaction, ...]:
    planned = plan_redaction(tx, [entry.seq for entry in recorded], words.mask_json)
    joined = joined_partials(entry.event for entry in recorded if isinstance(entry.event, MessagePartial))
    # Its pieces hold the words though none of them does, such as those of a message that was never finished.
    cut = [name for name, text in joined.items() if words.holds(text)]
    return with_requests(tx, _with_partials(tx, planned, cut), words.mask_json)


def joined_partials(partials: Iterable[MessagePartial]) -> dict[str, str]:
    """Committed parts of unfinished messages, by message id: thinking and text, put together from their pieces."""
    joined: dict[str, MessagePartial] = {}
    for one in partials:
        joined[one.message_id] = put_together(joined.get(one.message_id), one)
    return {message_id: f"{one.thinking}\n{one.text}" for message_id, one in joined.items()}


def _whole(tx: Transaction, recorded: list[Recorded], place: int) -> tuple[PlannedRedaction, ...]:
    entry = next((entry for entry in recorded if entry.session_seq == place), None)
    if entry is None:
        raise RedactionError(f"The session has no event {place}; it has {len(recorded)}. `journal tail` shows them.")
    if isinstance(entry.event, EventsRedacted | BlockForgotten):
        raise RedactionError(f"Event {place} says what was taken out of others, so it stays.")
    seqs = [entry.seq]
    if isinstance(entry.event, TurnStarted):
        # A title is the beginning of a prompt: of all of it in old journals, else of what the user typed.
        message = entry.event.message
        said = [" ".join(text.split()) for text in (message.text, message.words)]
        titled = ((one, one.event) for one in recorded)
        seqs += [
            one.seq
            for one, event in titled
            if isinstance(event, SessionTitled) and any(_begins(text, event.title) for text in said)
        ]
    return with_requests(tx, _with_partials(tx, plan_redaction(tx, seqs, _blank)), lambda _, payload: payload)


def _begins(said: str, title: str) -> bool:
    return bool(title) and said.startswith(" ".join(title.split()).removesuffix("…").rstrip())


def _with_partials(
    tx: Transaction, planned: tuple[PlannedRedaction, ...], unfinished: Sequence[str] = ()
) -> tuple[PlannedRedaction, ...]:
    """Unfinished forms of a message may end in the middle of the words, where nothing recognises them."""
    messages = [one.event.message.message_id for one in planned if isinstance(one.event, MessageRecorded)]
    partial = set(partial_events(tx, [*messages, *unfinished]))
    return (*(one for one in planned if one.seq not in partial), *plan_redaction(tx, tuple(partial), _blank))


def _blank(kind: str, payload: JsonObject) -> JsonObject:
    # Providers refuse a call of a tool that has no name of a tool.
    return mask_texts(kind, payload, lambda text: REDACTED if text else "", stays={TextRole.KIND, TextRole.NAME})


_JSON_TEXTS = frozenset({"arguments", "definition", "schema"})
_MEMORY = frozenset({"blocks", "block_updates", "block_archives", "block_shares"})
_ARCHIVE = frozenset({"archival_entries", "bound_entries"})
_TASKS = frozenset({"tasks", "task_updates", "task_lists"})
_PACKINGS = (("zstd", b"\x28\xb5\x2f\xfd"), ("zlib", b"\x78"))
_LIVE = ("", "-wal")
_UNREAD = ("-shm", "lock")
_REDACT = "`pattern-acp journal redact {} --match TEXT`"
_FORGET = "`pattern-acp memory forget {} PASSAGE`"


class LeftOver(Struct, frozen=True):
    """Words that are left: the kind of place, the number of places, the remedy there, and the spelling.

    `remedy` is empty where the words name something and stay, `spelling` where they are copies of the search text.
    """

    where: str
    places: int
    remedy: str = ""
    spelling: str = ""


class ReadBack:
    """Findings so far. `places` counts the texts that were read."""

    def __init__(self, session_id: str, match: str, words: Forgotten) -> None:
        """`words` are those of `match` that leave alone what names things."""
        self.places = 0
        self.sessions: dict[str, None] = {}
        """Other sessions from which a redaction takes the words out."""
        self._session_id = session_id
        self._words = words
        self._spellings = _Spellings(match.strip())
        self._found: dict[tuple[str, str, str], int] = {}

    @property
    def left(self) -> tuple[LeftOver, ...]:
        """Places where copies of the words are left."""
        return tuple(one for one in self._all() if not one.spelling)

    @property
    def other_spellings(self) -> tuple[LeftOver, ...]:
        """Places where the words are left in another form: with other accents, or encoded."""
        return tuple(one for one in self._all() if one.spelling)

    def look(self, found: str, where: str, remedy: str = "") -> None:
        """Look at a text."""
        self.places += 1
        rest = self._words.mask(found)
        if rest != found:
            self.note(where, remedy)
        for mark in MARKS:
            rest = rest.replace(mark, "\x00")
        if spelling := self._spellings.in_text(rest):
            self.note(where, remedy, spelling)

    def note(self, where: str, remedy: str = "", spelling: str = "") -> None:
        """Note that the words are left somewhere."""
        key = (where, remedy, spelling)
        self._found[key] = self._found.get(key, 0) + 1

    def constellation(self, tx: Transaction) -> None:
        """Look at everything that the database holds but the histories of memory blocks."""
        partials: list[MessagePartial] = []
        large: set[str] = set()
        for event in stored_events(tx):
            large.add(event.blob)
            self._event(event)
            if event.stream == self._session_id and event.kind == "message_partial":
                partials += _partial(event)
        for joined in joined_partials(partials).values():
            self.look(joined, "pieces of a message that was never finished")
        names = _Names(tx, self._session_id)
        for table, row in _rows(tx):
            if table == "events":
                self._value(row["item"], f"`item` of {names.stream(text(row['stream']))}")
            elif table != "blobs" or row["hash"] not in large:
                encoding = row.get("encoding")
                for column, value in row.items():
                    where, remedy = names.place(table, column, row)
                    self._value(value, where, remedy, encoding if column == "content" else None)
        if count := tasks_with(tx, forget_passage(self._spellings.match)):
            self.places += count
            self.note("tasks and their history", _FORGET.format("archive"))
        if is_in_word_index(tx, self._spellings.match):
            self.note("the word index of the search", "`pattern-acp doctor --verify`")

    async def memory(self, database: Database) -> None:
        """Look at the histories of all memory blocks, which hold what the blocks once said."""
        known = {one.where for one in self.left}
        plain = forget_passage(self._spellings.match)
        for block, _ in await database.read(every_block):
            self.places += 1
            where = _block(block.key.label)
            if where in known:
                continue
            holds, readable = await _in_history(database, block, plain)
            if holds:
                self.note(where, _FORGET.format(block.key.label))
            elif not readable:
                self.note(f"{where}, whose history is damaged and may hold it", _FORGET.format(block.key.label))

    def files(self, path: Path, logs: Sequence[Path]) -> None:
        """Look at all files beside the constellation `path`, which nothing of this process has open, and at logs."""
        for file in (*sorted(path.parent.rglob("*")), *logs):
            if not file.is_file() or file.name.endswith(_UNREAD):
                continue
            try:
                self._file(path, file)
            except (DatabaseError, OSError):
                self.note(f"{file}, which cannot be read and may hold it", "delete it once you do not need it")

    def _file(self, path: Path, file: Path) -> None:
        if file in {path.with_name(path.name + ending) for ending in _LIVE}:
            # What it stores was read already; here it is about old bytes, so nothing is known when that is left.
            if not any(one.remedy != _DELETE for one in self.left) and _holds_bytes(file, self._spellings.forms):
                self.note(f"old bytes of {file}", "end all other pattern-acp processes and run the command again")
            self.places += 1
        elif file.suffix == ".db":
            read_file(file, lambda tx: self._copy(tx, str(file)))
        elif SEGMENTS in file.relative_to(path.parent).parts[:1] if file.is_relative_to(path.parent) else False:
            for value in _segment_values(file):
                self._value(value, "the segments", _REPEATED)
        else:
            self._value(file.read_bytes(), str(file), _DELETE)

    def _copy(self, tx: Transaction, where: str) -> None:
        for _, row in _rows(tx):
            encoding = row.get("encoding")
            for column, value in row.items():
                self._value(value, where, _DELETE, encoding if column == "content" else None)

    def _value(self, value: SqlValue, where: str, remedy: str = "", encoding: SqlValue = None) -> None:
        if isinstance(value, str):
            self.look(value, where, remedy)
        elif isinstance(value, bytes):
            self.look(_unpacked(value, encoding).decode("utf-8", "replace"), where, remedy)

    def _event(self, event: StoredEvent) -> None:
        own = event.stream == self._session_id
        if event.payload is None:
            self.note(f"event {event.seq}, which cannot be read and may hold it", "`pattern-acp journal verify`")
            return
        remedy = ""
        if not own and self._words.mask_json(event.kind, event.payload) != event.payload:
            self.sessions[event.stream] = None
            remedy = _REDACT.format(event.stream)

        def leaf(role: TextRole, key: str, value: Json) -> Json:
            where = f"`{key}` of {event.kind} events" if own else _session(event.stream)
            for found in self._texts(role, key, value):
                self.look(found, where, remedy)
            return value

        walk(event.kind, event.payload, leaf)

    def _texts(self, role: TextRole, key: str, value: Json) -> Iterator[str]:
        """The texts of a value that is one, is JSON as text, or is what a model gave a tool."""
        if role is TextRole.ARGUMENTS:
            yield from self._deep(value)
        elif isinstance(value, str) and key in _JSON_TEXTS:
            try:
                yield from self._deep(cast("Json", json.loads(value)))
            except (ValueError, RecursionError):
                yield value
        elif isinstance(value, str):
            yield value

    def _deep(self, value: Json) -> Iterator[str]:
        if isinstance(value, Mapping):
            for key, item in value.items():
                if key not in self._words.parameters:
                    yield key
                yield from self._deep(item)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for item in value:
                yield from self._deep(item)
        elif value is not None:
            yield str(value)

    def _all(self) -> Iterator[LeftOver]:
        for (where, remedy, spelling), places in sorted(self._found.items()):
            yield LeftOver(where, places, remedy, spelling)


_DELETE = "delete it once you do not need it"
_REPEATED = "they repeat what the constellation holds"


async def read_back(database: Database, session_id: str, match: str) -> ReadBack:
    """Look for a text in everything that the constellation holds; `ReadBack.files` is for when it is closed."""

    def read(tx: Transaction) -> ReadBack:
        found = ReadBack(session_id, match, with_names(tx, forget_passage(match), parameter_names()))
        found.constellation(tx)
        return found

    found = await database.read(read)
    await found.memory(database)
    return found


class _Folds(dict[int, str]):
    """Forms in which characters are compared: without case, accents and width."""

    def __missing__(self, code: int) -> str:
        parts = unicodedata.normalize("NFKD", chr(code).casefold())
        self[code] = folded = "".join(one for one in parts if unicodedata.category(one) not in {"Cf", "Mn"})
        return folded


class _Spellings:
    """Forms of a text that are no copies of it: with other accents, or encoded for an address or as Base64."""

    def __init__(self, match: str) -> None:
        self.match = match
        self._folds = _Folds()
        self._folded = self._fold(match)
        encoded = match.encode("utf-8", "surrogatepass")
        escaped = {json.dumps(match)[1:-1], json.dumps(match, ensure_ascii=False)[1:-1]}
        self.forms = tuple(each.encode("utf-8", "surrogatepass") for each in {match, *escaped})
        self._encoded = {quote(encoded, safe="")} - {match}
        for shift in range(3):
            # What is around it decides on the characters at both ends.
            whole = base64.b64encode(b"\0" * shift + encoded).decode("ascii").rstrip("=")
            inner = whole[(shift * 8 + 5) // 6 : len(whole) - (1 if (shift + len(encoded)) % 3 else 0)]
            if len(inner) >= _SHORTEST_BASE64:
                self._encoded.add(inner)

    def in_text(self, found: str) -> str:
        """The first other form that a text holds, as it reads there; empty without one."""
        if any((form := each) in found for each in self._encoded):
            return form
        at = self._fold(found).find(self._folded) if self._folded else -1
        if at < 0:
            return ""
        places = [place for place, one in enumerate(found) for _ in self._fold(one)]
        return found[places[at] : places[at + len(self._folded) - 1] + 1]

    def _fold(self, found: str) -> str:
        return found.lower() if found.isascii() else found.translate(self._folds)


_SHORTEST_BASE64 = 6
"""Characters of Base64 that are looked for: fewer are in every image."""


class _Names:
    """Names for the rows of tables."""

    def __init__(self, tx: Transaction, session_id: str) -> None:
        self._session_id = session_id
        self._labels = labels_of_blocks(tx)

    def stream(self, stream: str) -> str:
        """A session, or this one."""
        return "events" if stream == self._session_id else f"events of session {stream}"

    def place(self, table: str, column: str, row: Mapping[str, SqlValue]) -> tuple[str, str]:
        """Name of a column of a row, and the remedy that takes words out of it."""
        if table in _MEMORY:
            label = self._labels.get(str(row["id"] if table == "blocks" else row["block_id"]), "")
            if column in {"label", "owner"}:
                return f"`{column}` of {_block(label)}", ""
            return _block(label), _FORGET.format(label)
        source = row.get("source")
        if table in _ARCHIVE or (table == "search_entries" and row["kind"] == "archival"):
            return "the archive of memory", _FORGET.format("archive")
        if table in _TASKS or table == "definition_sources":
            where = "tasks" if table in _TASKS else f"the stored source of {row['symbol']}"
            return where, _FORGET.format("archive")
        if table == "search_entries" and str(source) in self._labels:
            label = self._labels[str(source)]
            return _block(label), _FORGET.format(label)
        session = row.get("id") if table == "sessions" else row.get("session_id", source)
        if session in {None, self._session_id}:
            return f"`{column}` of the table {table}", ""
        if column in {"title", "text", "words"}:
            return _session(str(session)), _REDACT.format(session)
        return f"`{column}` of the table {table} of session {session}", ""


def _session(stream: str) -> str:
    return "events of no session" if stream == CONSTELLATION_STREAM else f"session {stream}"


def _block(label: str) -> str:
    return f"memory block {label}"


def _rows(tx: Transaction) -> Iterator[tuple[str, dict[str, SqlValue]]]:
    """Every row of every table with the names of its columns; the inner tables of search are looked at by its words."""
    for table in ordinary_tables(tx):
        if not table.startswith("sqlite_"):
            columns = columns_of(tx, table)
            for row in each_row(tx, table):
                yield table, dict(zip(columns, row, strict=True))


def _partial(event: StoredEvent) -> Iterable[MessagePartial]:
    for version in (1, 2):
        try:
            decoded = decode(event.kind, version, event.payload or {})
        except JournalError:
            continue
        return (decoded,) if isinstance(decoded, MessagePartial) else ()
    return ()


async def _in_history(database: Database, block: Block, words: Forgotten) -> tuple[bool, bool]:
    """Search a block's versions for the words. Returns two facts: found, and all versions readable."""
    try:
        return await run_on_history(database, block, look_through, words)
    except BlockError:
        return False, False


def _unpacked(value: bytes, encoding: SqlValue = None) -> bytes:
    """Unpack a value by its encoding or its first bytes; anything else stays as it is."""
    named = [encoding] if isinstance(encoding, str) else [name for name, begin in _PACKINGS if value.startswith(begin)]
    for name in named:
        try:
            return unpack(name, value)
        except PackedError:
            continue
    return value


def _segment_values(file: Path) -> Iterator[SqlValue]:
    """The texts and bytes of the lines of a segment, or of a large value that one names."""
    if file.suffix != ".jsonl":
        yield file.read_bytes()
        return
    reading = SegmentReading()
    for line in read_lines(file, reading):
        yield from _values(line)
    if reading.damaged or reading.torn:
        # What no line is can be read as bytes alone.
        yield file.read_bytes()


def _values(value: Json) -> Iterator[SqlValue]:
    match value:
        case str():
            yield value
        case {"b": str(encoded)} if len(value) == 1:
            yield base64.b64decode(encoded)
        case Mapping():
            for item in value.values():
                yield from _values(item)
        case Sequence():
            for item in value:
                yield from _values(item)
        case _:
            pass


def _holds_bytes(file: Path, forms: Iterable[bytes]) -> bool:
    if not file.stat().st_size:
        return False
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return any(content.find(form) >= 0 for form in forms)
