"""Taking words out of the journal of one session, and out of everything that was made from it.

Owns: which events lose what, and the one transaction that does it with the event that says so. Must not know: who is
asked before. Words that memory blocks hold are `tools/memory_forgetting.py`'s.

The file is written anew afterwards, since SQLite leaves deleted words in free pages and in the write-ahead log.
"""

import json
from collections.abc import Callable

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal.bundle_masks import mask_texts
from pattern_acp.journal.errors import RedactionError
from pattern_acp.journal.events import BlockForgotten, EventsRedacted, MessageRecorded, SessionTitled, TurnStarted
from pattern_acp.journal.file_contents import contents_with, drop_contents
from pattern_acp.journal.reader import Recorded, read_stream
from pattern_acp.journal.redact import (
    PlannedRedaction,
    digest_of,
    mask_titles,
    partial_events,
    plan_redaction,
    redact,
    sessions_with,
    with_requests,
)
from pattern_acp.journal.writer import append
from pattern_acp.memory.forget import clean_indexes, forget_message
from pattern_acp.memory.forgotten import REDACTED, Forgotten, forget_passage
from pattern_acp.tools.kept_names import with_names

SHORTEST = 4
"""Characters of a text to look for: a shorter one is part of too many words."""


@dataclass(frozen=True, slots=True)
class RedactionWanted:
    """What is to go: the event of this place in the session, or a text wherever the session recorded it."""

    session_id: str
    place: int = 0
    match: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RedactionPlan:
    """What would lose words: events, and contents of files that were kept for going back."""

    events: tuple[PlannedRedaction, ...]
    kinds: tuple[str, ...]
    files: tuple[str, ...] = ()


def plan(tx: Transaction, wanted: RedactionWanted) -> RedactionPlan:
    """What the redaction would do, in words of events; nothing when it was done before.

    Raises:
        RedactionError: there is nothing to redact, or an event could not be read afterwards.
        JournalError: an event cannot be understood.
        DatabaseError: the file cannot be read.
    """
    recorded = read_stream(tx, wanted.session_id)
    if wanted.match:
        if len(wanted.match.strip()) < SHORTEST:
            raise RedactionError(f"A text to redact has at least {SHORTEST} characters.")
        words = with_names(tx, forget_passage(wanted.match))
        planned = _matching(tx, recorded, words)
        files = contents_with(tx, words.is_in)
    else:
        planned, files = _whole(tx, recorded, wanted.place), ()
    was_redacted = any(isinstance(entry.event, EventsRedacted) for entry in recorded)
    if not planned and not files and not was_redacted:
        raise RedactionError("There is nothing left to redact there; nothing was changed.")
    names = {entry.seq: type(entry.event).__name__ for entry in recorded}
    return RedactionPlan(planned, tuple(sorted({names.get(one.seq, "") for one in planned})), files)


def held_elsewhere(tx: Transaction, wanted: RedactionWanted) -> tuple[str, ...]:
    """Other sessions from which the text can be taken out too; none when an event was to go as a whole.

    Raises:
        DatabaseError: the file cannot be read.
    """
    if not wanted.match:
        return ()
    words = with_names(tx, forget_passage(wanted.match))

    def would_lose(text: str) -> bool:
        if not words.is_in(text):
            return False
        payload: JsonObject = json.loads(text)
        return words.mask_json(payload) != payload

    found = sessions_with(tx, would_lose)
    return tuple(session for session in found if session != wanted.session_id)


async def redact_session(database: Database, wanted: RedactionWanted, *, at_ms: int) -> tuple[RedactionPlan, bool]:
    """Do it. False: other processes kept the file from being written anew, and something may be left in it.

    One that was done before is finished: it may have been killed before the file was written anew.

    Raises:
        RedactionError: there is nothing to redact, or an event would break.
        DatabaseError: the file cannot be written.
    """
    done = await database.write(lambda tx: take_out(tx, wanted, at_ms=at_ms))
    return done, await database.rewrite()


def take_out(tx: Transaction, wanted: RedactionWanted, *, at_ms: int) -> RedactionPlan:
    """The transaction of a redaction, after which only the write-ahead log and the segments may hold the words.

    Raises:
        RedactionError: there is nothing to redact, or an event would break.
        DatabaseError: the file cannot be written.
    """
    tx.overwrite_deleted()
    done = plan(tx, wanted)
    if not done.events and not done.files:
        return done
    mask: Callable[[str], str] = forget_passage(wanted.match).mask if wanted.match else str
    event = EventsRedacted(mask(wanted.reason), len(done.events), len(done.files), digest_of(done.events))
    audit = append(tx, wanted.session_id, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=at_ms)
    redact(tx, done.events, audit_seq=audit.seq, at_ms=at_ms)
    drop_contents(tx, done.files)
    if any(isinstance(one.event, SessionTitled) for one in done.events):
        titles = [e.event.title for e in read_stream(tx, wanted.session_id) if isinstance(e.event, SessionTitled)]
        # The newest one, which may be another than the one that lost words.
        mask_titles(tx, lambda _: titles[-1], audit_seq=audit.seq, only=wanted.session_id)
    for one in done.events:
        if isinstance(one.event, TurnStarted | MessageRecorded):
            message = one.event.message
            forget_message(tx, one.stream, message.message_id, message.searched, seq=audit.seq)
    clean_indexes(tx)
    return done


def _matching(tx: Transaction, recorded: list[Recorded], words: Forgotten) -> tuple[PlannedRedaction, ...]:
    planned = plan_redaction(tx, [entry.seq for entry in recorded], words.mask_json)
    return with_requests(tx, _with_partials(tx, planned), words.mask_json)


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
    return with_requests(tx, _with_partials(tx, plan_redaction(tx, seqs, _blank)), dict)


def _begins(said: str, title: str) -> bool:
    return bool(title) and said.startswith(" ".join(title.split()).removesuffix("…").rstrip())


def _with_partials(tx: Transaction, planned: tuple[PlannedRedaction, ...]) -> tuple[PlannedRedaction, ...]:
    """Unfinished forms of a message may end in the middle of the words, where nothing recognises them."""
    messages = [one.event.message.message_id for one in planned if isinstance(one.event, MessageRecorded)]
    partial = set(partial_events(tx, messages))
    return (*(one for one in planned if one.seq not in partial), *plan_redaction(tx, tuple(partial), _blank))


def _blank(payload: JsonObject) -> JsonObject:
    return mask_texts(payload, lambda text: REDACTED if text else "")
