"""Taking words out of the journal of one session, and out of everything that was made from it.

Owns: which events lose what, and the one transaction that does it with the event that says so. Must not know: who is
asked before. Words that memory blocks hold are `memory/service/forget.py`'s.

The file is written anew afterwards, since SQLite leaves deleted words in free pages and in the write-ahead log.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.domain.structural_keys import Role
from pattern_acp.journal.bundle_masks import mask_texts
from pattern_acp.journal.contents import contents_with, drop_contents
from pattern_acp.journal.errors import RedactionError
from pattern_acp.journal.events import (
    BlockForgotten,
    EventsRedacted,
    MessagePartial,
    MessageRecorded,
    SessionTitled,
    TurnStarted,
)
from pattern_acp.journal.reader import Recorded, read_stream
from pattern_acp.journal.redact import (
    PlannedRedaction,
    digest_of,
    drop_grants,
    mask_subagents,
    mask_titles,
    partial_events,
    plan_redaction,
    redact,
    with_requests,
)
from pattern_acp.journal.turn_ends import put_together
from pattern_acp.journal.writer import append
from pattern_acp.memory.forget import clean_indexes, forget_message, mask_reasons
from pattern_acp.memory.forgotten import REDACTED, Forgotten, forget_passage
from pattern_acp.memory.recall import mask_entries
from pattern_acp.memory.service.forget import with_names
from pattern_acp.tools.registry import parameter_names

SHORTEST = 4
"""Characters of a text to look for: a shorter one is part of too many words."""


class RedactionWanted(Struct, frozen=True):
    """What is to go: the event of this place in the session, or a text wherever the session recorded it."""

    session_id: str
    place: int = 0
    match: str = ""
    reason: str = ""


class RedactionPlan(Struct, frozen=True):
    """What would lose words: events, contents of files that were kept for going back, and rows made from events."""

    events: tuple[PlannedRedaction, ...]
    kinds: tuple[str, ...]
    files: tuple[str, ...] = ()
    rows: int = 0
    """Titles, passages of the search index, permissions and the like; known once it is done."""


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
    """Do it. False: other processes kept the file from being written anew, and something may be left in it.

    One that was done before is finished: it may have been killed before the file was written anew.

    Raises:
        NothingLeftError: there is nothing to redact, and never was.
        RedactionError: an event would break.
        DatabaseError: the file cannot be written.
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
        DatabaseError: the file cannot be written.
    """
    tx.overwrite_deleted()
    done = plan(tx, wanted)
    session, words = wanted.session_id, forget_passage(wanted.match) if wanted.match else None
    reason = wanted.reason if words is None else words.mask(wanted.reason)
    event = EventsRedacted(reason, len(done.events), len(done.files), digest_of(done.events))
    audit = append(tx, session, event, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=at_ms)
    rows = 0 if words is None else _mask_rows(tx, session, words, seq=audit.seq)
    if not done.events and not done.files and not rows:
        raise NothingLeftError("There is nothing left to redact there; nothing was changed.")
    redact(tx, done.events, audit_seq=audit.seq, at_ms=at_ms)
    drop_contents(tx, done.files)
    if any(isinstance(one.event, SessionTitled) for one in done.events):
        titles = [e.event.title for e in read_stream(tx, session) if isinstance(e.event, SessionTitled)]
        # The newest one, which may be another than the one that lost words.
        mask_titles(tx, lambda _: titles[-1], audit_seq=audit.seq, only=session)
    for one in done.events:
        if isinstance(one.event, TurnStarted | MessageRecorded):
            message = one.event.message
            forget_message(tx, one.stream, message.message_id, message.searched, seq=audit.seq)
    clean_indexes(tx)
    return replace(done, rows=rows)


def _mask_rows(tx: Transaction, session_id: str, words: Forgotten, *, seq: int) -> int:
    """Take the words out of all rows that were made from events of the session; how many had any.

    Whether an event still has them does not matter: an earlier redaction may have left the row.
    """
    return (
        mask_entries(tx, session_id, words.mask, seq=seq)
        + mask_titles(tx, words.mask, audit_seq=seq, only=session_id)
        + drop_grants(tx, session_id, words.mask)
        + mask_subagents(tx, session_id, words.mask)
        + mask_reasons(tx, words.mask, stream=session_id)
    )


def _matching(tx: Transaction, recorded: list[Recorded], words: Forgotten) -> tuple[PlannedRedaction, ...]:
    planned = plan_redaction(tx, [entry.seq for entry in recorded], words.mask_json)
    joined = joined_partials(entry.event for entry in recorded if isinstance(entry.event, MessagePartial))
    # Its pieces hold the words though none of them does, such as those of a message that was never finished.
    cut = [name for name, text in joined.items() if words.holds(text)]
    return with_requests(tx, _with_partials(tx, planned, cut), words.mask_json)


def joined_partials(partials: Iterable[MessagePartial]) -> dict[str, str]:
    """What was committed of unfinished messages, by their ids: thinking and text, put together from their pieces."""
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
    return mask_texts(kind, payload, lambda text: REDACTED if text else "", stays={Role.KIND, Role.NAME})
