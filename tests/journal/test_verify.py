from collections.abc import Sequence

import apsw
import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.raw import connect
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.events import SessionCreated, SessionTitled
from pattern_acp.journal.reader import ChainReport, verify_stream
from pattern_acp.journal.sessions import NewSession, create_session, set_title
from pattern_acp.journal.writer import append
from tests.support.constellation import temporary_constellation

SESSION = SessionId("s")
COUNT = 700


def record(tx: Transaction) -> None:
    created = SessionCreated("/w", (), "default", "id", "offline/offline", "ask")
    first = append(tx, SESSION, created, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=1)
    create_session(tx, NewSession(SESSION, "/w", (), "default", "id", "offline/offline", "ask"), seq=first.seq, at_ms=1)
    seq = first.seq
    for number in range(COUNT - 1):
        event = SessionTitled("a" * 9000 if number == 3 else f"title {number}")
        seq = append(tx, SESSION, event, actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1).seq
    set_title(tx, SESSION, "last", seq=seq, at_ms=1)


UNLOCK = ("DROP TRIGGER events_are_not_updated", "DROP TRIGGER events_are_not_deleted")
SWAP = (
    "UPDATE events SET session_seq = -1 WHERE seq = 10",
    "UPDATE events SET session_seq = 10 WHERE seq = 11",
    "UPDATE events SET session_seq = 11 WHERE seq = 10",
)


async def report_after(statements: Sequence[str]) -> ChainReport:
    async with temporary_constellation() as constellation:
        await constellation.database.write(record)
        forger = connect(str(constellation.path), flags=apsw.SQLITE_OPEN_READWRITE)
        for statement in (*UNLOCK, *statements):
            forger.execute(statement).fetchall()
        forger.close()
        return await constellation.database.read(lambda tx: verify_stream(tx, SESSION))


async def test_a_stream_as_it_was_written_is_sound():
    assert await report_after(()) == ChainReport(COUNT, ok=True)


async def test_a_stream_without_events_is_sound():
    async with temporary_constellation() as constellation:
        assert await constellation.database.read(lambda tx: verify_stream(tx, "none")) == ChainReport(0, ok=True)


@pytest.mark.parametrize(
    ("statements", "bad_seq", "problem"),
    [
        (['UPDATE events SET payload = \'{"title":"forged"}\' WHERE seq = 600'], 600, "payload was changed"),
        (["UPDATE events SET payload_hash = 'x' WHERE seq = 7"], 7, "payload was changed"),
        (["UPDATE blobs SET content = zeroblob(9), encoding = 'raw'"], 5, "payload was changed"),
        (["UPDATE blobs SET content = zeroblob(9)"], 5, "payload cannot be read"),
        (["UPDATE events SET actor = 'human' WHERE seq = 20"], 20, "actor"),
        (["UPDATE events SET origin = 'person' WHERE seq = 20"], 20, "origin"),
        (["UPDATE events SET kind = 'session_deleted' WHERE seq = 20"], 20, "kind"),
        (["UPDATE events SET item = 'x' WHERE seq = 20"], 20, "item"),
        (["UPDATE events SET at_ms = 2 WHERE seq = 20"], 20, "time"),
        (["UPDATE events SET version = 2 WHERE seq = 20"], 20, "version"),
        (["UPDATE events SET salt = '' WHERE seq = 20"], 20, "payload was changed"),
        (["UPDATE events SET chain = 1 WHERE seq = 20"], 20, "place was changed"),
        (["UPDATE events SET prev_hash = hash WHERE seq = 20"], 20, "does not follow"),
        (["UPDATE events SET hash = prev_hash WHERE seq = 20"], 20, "place was changed"),
        (["DELETE FROM events WHERE seq = 30"], 31, "event 30 of the stream is missing"),
        (SWAP, 11, "does not follow"),
        (["UPDATE events SET seq = seq + 5000 WHERE seq = 40"], 41, "order"),
    ],
)
async def test_a_change_is_found_where_it_was_made(statements: Sequence[str], bad_seq: int, problem: str):
    report = await report_after(statements)
    assert (report.ok, report.first_bad_seq) == (False, bad_seq)
    assert problem in report.problem


async def test_an_end_that_was_cut_off_is_found_by_the_row_that_came_from_it():
    report = await report_after(["DELETE FROM events WHERE seq = 700"])
    assert (report.ok, report.first_bad_seq, report.events) == (False, COUNT, COUNT - 1)
