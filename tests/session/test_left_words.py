"""After a redaction nothing is left, and where something is, that is said."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db.connection import Transaction, open_database
from pattern_acp.db.table_rows import columns_of, each_row, ordinary_tables
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId, SessionId, SystemClock, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.journal import sessions
from pattern_acp.journal.codec import encode
from pattern_acp.journal.contents import store_content, unpack
from pattern_acp.journal.events import (
    CheckpointTaken,
    Event,
    EventsRedacted,
    GrantStored,
    MessagePartial,
    MessageRecorded,
    SessionCreated,
    SessionTitled,
)
from pattern_acp.journal.reader import read_stream, verify_stream
from pattern_acp.journal.sessions import NewSession
from pattern_acp.journal.writer import append
from pattern_acp.memory.blocks import BlockKey, Scope
from pattern_acp.memory.edits import Append, Rewrite
from pattern_acp.memory.recall import insert_passage
from pattern_acp.session.redaction import (
    NothingLeftError,
    ReadBack,
    RedactionPlan,
    RedactionWanted,
    read_back,
    redact_session,
)
from tests.journal.test_structural_keys import NAMED, WORD, planted
from tests.support.history import record_edit

SESSION = "ses_1"
LARGE = " ".join(str(number) for number in range(4000))


class Stored:
    """A constellation with one session, and what becomes of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "constellation.db"

    async def write(self, *events: Event, stream: str = SESSION) -> None:
        async with open_database(self.path, clock=SystemClock()) as database:
            await database.write(lambda tx: add(tx, stream, events))

    async def redact(self, match: str = WORD) -> tuple[RedactionPlan, ReadBack]:
        async with open_database(self.path, clock=SystemClock()) as database:
            done, clean = await redact_session(database, RedactionWanted(SESSION, match=match), at_ms=1)
            assert clean
            found = await read_back(database, SESSION, match)
            report = await database.read(lambda tx: verify_stream(tx, SESSION))
            assert report.ok, report.problem
        found.files(self.path, ())
        return done, found

    async def read(self, match: str = WORD) -> ReadBack:
        async with open_database(self.path, clock=SystemClock()) as database:
            return await read_back(database, SESSION, match)

    async def grep(self, word: str = WORD) -> list[str]:
        """Where a word is in the file, unpacked; this goes through the tables by itself."""
        async with open_database(self.path, clock=SystemClock()) as database:
            return await database.read(
                lambda tx: [where for where, content in contents(tx) if word.encode() in content]
            )


def add(tx: Transaction, stream: str, events: tuple[Event, ...]) -> None:
    if tx.one("SELECT 1 FROM sessions WHERE id = ?", (stream,)) is None:
        created = SessionCreated("/w", (), "p", "i", "m/m", "ask")
        seq = append(tx, stream, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=0).seq
        new = NewSession(SessionId(stream), "/w", (), "p", "i", "m/m", "ask", parent=None, fork_seq=None)
        sessions.create_session(tx, new, seq=seq, at_ms=0)
    for event in events:
        append(tx, stream, event, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=0)


def contents(tx: Transaction) -> Iterator[tuple[str, bytes]]:
    for table in ordinary_tables(tx):
        columns = columns_of(tx, table)
        for values in each_row(tx, table):
            row = dict(zip(columns, values, strict=True))
            for column, value in row.items():
                if isinstance(value, str):
                    yield f"{table}.{column}", value.encode("utf-8", "surrogatepass")
                elif isinstance(value, bytes):
                    packed = "encoding" in row and column == "content"
                    yield f"{table}.{column}", unpack(str(row["encoding"]), value) if packed else value


def holds(content: bytes, word: str) -> bool:
    forms = {word, json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False)[1:-1]}
    return any(form.encode() in content for form in forms)


def of_words() -> list[Event]:
    return [event for where, event in planted() if where not in NAMED.split()]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


async def test_the_word_is_gone_from_every_text_of_every_event_small_or_large(stored: Stored):
    large = [event for where, event in planted(f"{WORD} {LARGE} {WORD}") if where not in NAMED.split()]
    await stored.write(*of_words(), *large)
    assert {where for where in await stored.grep() if "blobs" in where} == {"blobs.content"}
    done, found = await stored.redact()
    assert len(done.events) > 200
    assert await stored.grep() == []
    assert found.left == ()
    assert found.places > 1000


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.sampled_from([where for where, _ in planted() if where not in NAMED.split()]), min_size=1, max_size=4),
    st.text(st.characters(min_codepoint=33), max_size=12),
    st.sampled_from(["", " ", '"', "\\", "\n", "é", "\u200b"]),
)
async def test_any_word_is_gone_whatever_stands_in_it(fields: list[str], other: str, sign: str):
    # What is random alone may be a part of what stays, such as a name of ours; this is not.
    match = f"{WORD}{sign}{other}".strip()
    with TemporaryDirectory() as folder:
        stored = Stored(Path(folder))
        await stored.write(*(event for where, event in planted(f"x{match} y") if where in fields))
        _, found = await stored.redact(match)
        assert await stored.grep(match) == []
        assert found.left == ()


async def test_where_it_names_something_it_is_left_and_said_to_be(stored: Stored):
    names = [(where, event) for where, event in planted() if where in NAMED.split()]
    await stored.write(SessionTitled("A title"), *(event for _, event in names))
    await stored.write(SessionTitled(f"About {WORD}"))
    _, found = await stored.redact()
    left = {one.where for one in found.left}
    for where, event in names:
        field = where.partition(".")[2]
        assert f"`{field}` of {encode(event).kind} events" in left
    assert all(not one.remedy for one in found.left if one.where.startswith("`"))


async def test_rows_that_an_earlier_redaction_left_lose_the_words(stored: Stored):
    await stored.write(SessionTitled(f"About {WORD}"), GrantStored("allow", "command", f"echo {WORD}", "session"))
    await stored.redact()

    def spoil(tx: Transaction) -> None:
        tx.execute("UPDATE sessions SET title = ?", (f"Of {WORD}",))
        tx.execute(
            "INSERT INTO grants (session_id, effect, kind, pattern, created_ms, last_seq) VALUES (?, ?, ?, ?, 0, 1)",
            (SESSION, "allow", "command", f"echo {WORD}"),
        )
        insert_passage(tx, "task", SESSION, "p", "1.pending", f"Plant the {WORD}", 0, 1)
        insert_passage(tx, "user", SESSION, "p", "msg_9", f"Where is {WORD}?", 0, 1)

    async with open_database(stored.path, clock=SystemClock()) as database:
        await database.write(spoil)
    done, found = await stored.redact()
    assert (len(done.events), done.rows) == (0, 4)
    assert found.left == ()
    assert await stored.grep() == []
    done, found = await stored.redact()
    assert (done, found.left) == (RedactionPlan((), ()), ())


async def test_a_word_that_two_pieces_of_an_unfinished_message_share_goes(stored: Stored):
    turn, message = TurnId("t"), MessageId("m")
    await stored.write(
        MessagePartial(turn, message, "It is wist", "", 0), MessagePartial(turn, message, "eria, I say.", "", 10)
    )
    await stored.redact()
    async with open_database(stored.path, clock=SystemClock()) as database:
        events = await database.read(lambda tx: read_stream(tx, SESSION, kinds=(MessagePartial,)))
    assert "wist" not in str(events)
    assert "eria" not in str(events)


async def test_a_file_that_was_kept_goes_when_the_words_have_quotes_in_them(stored: Stored):
    async with open_database(stored.path, clock=SystemClock()) as database:
        await database.write(lambda tx: add(tx, SESSION, ()))
        content = f'say = "{WORD}"\n'.encode()
        await database.write(lambda tx: store_content(tx, "a" * 64, content, seq=1))
    async with open_database(stored.path, clock=SystemClock()) as database:
        plan, _ = await redact_session(database, RedactionWanted(SESSION, match=f'= "{WORD}"'), at_ms=1)
    assert plan.files == ("a" * 64,)


async def test_a_large_payload_of_no_event_goes_too(stored: Stored):
    await stored.write(SessionTitled(WORD))
    async with open_database(stored.path, clock=SystemClock()) as database:
        await database.write(
            lambda tx: tx.execute("INSERT INTO blobs VALUES (?, 9, 'raw', ?)", ("f" * 64, WORD.encode()))
        )
    assert [one.where for one in (await stored.read()).left if "blobs" in one.where]
    _, found = await stored.redact()
    assert found.left == ()


async def test_a_memory_block_of_which_an_older_version_holds_the_words_is_named(stored: Stored):
    block = BlockKey(Scope.PERSONA, "p", "notes")
    await stored.write(SessionTitled(WORD))
    async with open_database(stored.path, clock=SystemClock()) as database:
        await database.write(lambda tx: record_edit(tx, block, Append(f"{WORD}\n" * 200)))
        await database.write(lambda tx: record_edit(tx, block, Rewrite("nothing"), reason="no more of it"))
    _, found = await stored.redact()
    assert {(one.where, one.remedy) for one in found.left} == {
        ("memory block notes", "`pattern-acp memory forget notes PASSAGE`")
    }


async def test_other_sessions_and_events_of_none_are_named(stored: Stored):
    await stored.write(SessionTitled(WORD))
    await stored.write(CheckpointTaken("c", TurnId("t"), "person", WORD, 1, "h", 1), stream="ses_2")
    await stored.write(EventsRedacted(f"the {WORD}", 0, 0, ""), stream="constellation")
    _, found = await stored.redact()
    assert list(found.sessions) == ["ses_2", "constellation"]
    assert {(one.where, one.remedy) for one in found.left} == {
        ("session ses_2", "`pattern-acp journal redact ses_2 --match TEXT`"),
        ("events of no session", "`pattern-acp journal redact constellation --match TEXT`"),
    }


@pytest.mark.parametrize(
    "spelled",
    [
        "wistéria",
        "wiste\u0301ria",
        base64.b64encode(b"user:wisteria").decode(),
        base64.b64encode(b"a wisteria!").decode(),
    ],
)
async def test_other_spellings_are_never_passed_over(stored: Stored, spelled: str):
    await stored.write(SessionTitled(WORD), MessageRecorded(TurnId("t"), said(f"a {spelled} here")))
    _, found = await stored.redact()
    assert found.left == ()
    [other] = found.other_spellings
    assert other.where == "`text` of message_recorded events"
    assert other.spelling in spelled
    assert len(other.spelling) >= 6


@pytest.mark.parametrize("copy", ["WISTERIA", "Wisteria", "wis\u200bteria", "wis\u00adteria", r"wist\u0065ria"])
async def test_copies_in_another_case_or_unicode_form_go_too(stored: Stored, copy: str):
    await stored.write(SessionTitled(f"The {copy}"), MessageRecorded(TurnId("t"), said(f"a {copy} here")))
    _, found = await stored.redact()
    assert (found.left, found.other_spellings) == ((), ())
    assert await stored.grep(copy) == []


async def test_a_word_with_signs_is_found_as_an_address_has_it(stored: Stored):
    await stored.write(
        SessionTitled("k/e+y=1"), MessageRecorded(TurnId("t"), said(f"?key={quote('k/e+y=1', safe='')}"))
    )
    _, found = await stored.redact("k/e+y=1")
    assert [one.spelling for one in found.other_spellings] == ["k%2Fe%2By%3D1"]


async def test_nothing_is_changed_where_there_is_only_another_spelling(stored: Stored):
    await stored.write(SessionTitled("Wistéria"))
    async with open_database(stored.path, clock=SystemClock()) as database:
        with pytest.raises(NothingLeftError):
            await redact_session(database, RedactionWanted(SESSION, match=WORD), at_ms=1)
        assert not await database.read(lambda tx: read_stream(tx, SESSION, kinds=(EventsRedacted,)))
    assert [one.spelling for one in (await stored.read()).other_spellings] == ["Wistéria"]


async def test_files_beside_the_constellation_and_logs_are_read(stored: Stored, tmp_path: Path):
    await stored.write(SessionTitled(WORD))
    backups = tmp_path / "backups"
    backups.mkdir()
    async with open_database(backups / "snapshot-1.db", clock=SystemClock()) as copy:
        await copy.write(lambda tx: add(tx, SESSION, (MessageRecorded(TurnId("t"), said(f"{WORD} {LARGE}")),)))
    async with open_database(backups / "snapshot-2.db", clock=SystemClock()) as copy:
        await copy.write(lambda tx: add(tx, SESSION, ()))
    log = tmp_path / "a.log"
    log.write_text(f"failed: {WORD}\n", encoding="utf-8")
    (tmp_path / "notes.bin").write_bytes(b"\xff" + WORD.encode())
    _, found = await stored.redact()
    assert {Path(one.where).name for one in found.left} == {"snapshot-1.db", "a.log", "notes.bin"}


async def test_old_bytes_in_the_file_are_found(stored: Stored):
    await stored.write(SessionTitled("A title"))
    async with open_database(stored.path, clock=SystemClock()) as database:
        await database.write(lambda tx: tx.execute("UPDATE sessions SET title = ?", (WORD,)))
        await database.write(lambda tx: tx.execute("UPDATE sessions SET title = 'x'"))
    found = await stored.read()
    assert found.left == ()
    with stored.path.open("ab") as file:
        file.write(WORD.encode())
    found.files(stored.path, ())
    assert [one.where for one in found.left] == [f"old bytes of {stored.path}"]


def said(text: str) -> Message:
    return Message(MessageId("m"), Role.ASSISTANT, (TextPart(text),))
