import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.db.errors import ConstraintError
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal import sessions
from pattern_acp.journal.codec import BadCursorError, MissingSessionError
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.sessions import NewSession, SessionRow
from pattern_acp.journal.writer import append
from tests.support.constellation import temporary_constellation


def event(tx: Transaction, session_id: str) -> int:
    return append(tx, session_id, SessionTitled("x"), actor=Actor.SYSTEM, origin=Origin.MODEL, at_ms=1).seq


def create(tx: Transaction, name: str, *, cwd: str = "/work", prompt_ms: int = 0) -> SessionId:
    session_id = SessionId(name)
    new = NewSession(session_id, cwd, ("/more",), "default", "identity", "offline/offline", "ask")
    sessions.create_session(tx, new, seq=event(tx, name), at_ms=10)
    if prompt_ms:
        seq = event(tx, name)
        sessions.note_prompt(tx, session_id, seq=seq, at_ms=prompt_ms)
        sessions.set_title(tx, session_id, "x", seq=seq, at_ms=prompt_ms)
    return session_id


def listed(tx: Transaction, cwd: str | None = None) -> list[str]:
    return [row.session_id for row in sessions.list_sessions(tx, cwd=cwd, cursor=None, limit=100)[0]]


async def test_a_session_is_stored_whole():
    async with temporary_constellation() as constellation:

        def use(tx: Transaction) -> SessionRow | None:
            session_id = create(tx, "s", prompt_ms=20)
            sessions.touch(tx, session_id, seq=event(tx, "s"), at_ms=30)
            sessions.set_title(tx, session_id, "A \ud800 title", seq=event(tx, "s"), at_ms=31)
            for option, value in (
                ("mode", "auto"),
                ("model", "openai/m"),
                ("thought_level", "high"),
                ("tools", "text"),
            ):
                sessions.set_option(tx, session_id, option, value, seq=event(tx, "s"), at_ms=32)
            sessions.set_place(tx, session_id, "/other", (), seq=event(tx, "s"))
            return sessions.get_session(tx, session_id)

        assert await constellation.database.write(use) == SessionRow(
            session_id=SessionId("s"),
            cwd="/other",
            additional_directories=(),
            title="A \ufffd\ufffd\ufffd title",
            persona="default",
            persona_identity="identity",
            model="openai/m",
            mode="auto",
            thought_level="high",
            created_ms=10,
            updated_ms=32,
            prompt_count=1,
            parent=None,
            fork_seq=None,
            last_seq=9,
            message_count=2,
        )


async def test_a_row_whose_event_does_not_exist_cannot_be_stored():
    async with temporary_constellation() as constellation:
        new = NewSession(SessionId("s"), "/w", (), "default", "identity", "offline/offline", "ask")
        with pytest.raises(ConstraintError):
            await constellation.database.write(lambda tx: sessions.create_session(tx, new, seq=99, at_ms=1))


async def test_a_deleted_session_is_neither_found_nor_listed_nor_changed():
    async with temporary_constellation() as constellation:

        def delete(tx: Transaction) -> tuple[bool, bool, SessionRow | None, list[str]]:
            session_id = create(tx, "s", prompt_ms=20)
            first = sessions.mark_deleted(tx, session_id, seq=event(tx, "s"), at_ms=50)
            again = sessions.mark_deleted(tx, session_id, seq=event(tx, "s"), at_ms=50)
            return first, again, sessions.get_session(tx, session_id), listed(tx)

        assert await constellation.database.write(delete) == (True, False, None, [])
        with pytest.raises(MissingSessionError, match="no session 's'"):
            await constellation.database.write(lambda tx: sessions.touch(tx, SessionId("s"), seq=1, at_ms=2))


async def test_an_unknown_option_is_refused():
    async with temporary_constellation() as constellation:
        with pytest.raises(ValueError, match="colour"):
            await constellation.database.write(
                lambda tx: sessions.set_option(tx, SessionId("s"), "colour", "red", seq=1, at_ms=1)
            )


async def test_lists_show_the_newest_first_and_no_session_without_a_prompt():
    async with temporary_constellation() as constellation:

        def fill(tx: Transaction) -> list[str]:
            create(tx, "old", prompt_ms=100)
            create(tx, "silent")
            create(tx, "new", prompt_ms=300)
            create(tx, "middle", prompt_ms=200)
            return listed(tx)

        assert await constellation.database.write(fill) == ["new", "middle", "old"]


async def test_pages_follow_each_other_without_a_gap_even_at_equal_times():
    async with temporary_constellation() as constellation:

        def fill(tx: Transaction) -> None:
            for number in range(7):
                create(tx, f"s{number}", prompt_ms=100 + number // 3)

        await constellation.database.write(fill)
        found: list[str] = []
        sizes: list[int] = []
        cursor: str | None = None
        while True:
            rows, cursor = await constellation.database.read(
                lambda tx, cursor=cursor: sessions.list_sessions(tx, cwd=None, cursor=cursor, limit=3)
            )
            found += [row.session_id for row in rows]
            sizes.append(len(rows))
            if cursor is None:
                break
        assert found == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]
        assert sizes == [3, 3, 1]


@pytest.mark.parametrize("cursor", ["", "nonsense", "é", "W10=", "WzEsMl0=", "Wy0xLCJhIl0=", "WzEsImEi"])
async def test_a_cursor_that_is_not_ours_is_refused(cursor: str):
    async with temporary_constellation() as constellation:
        with pytest.raises(BadCursorError, match="without a cursor"):
            await constellation.database.read(lambda tx: sessions.list_sessions(tx, cwd=None, cursor=cursor, limit=3))


async def test_a_list_of_one_folder_knows_its_other_spellings():
    async with temporary_constellation() as constellation:

        def fill(tx: Transaction) -> None:
            create(tx, "here", cwd="/work/a", prompt_ms=1)
            create(tx, "there", cwd="/work/b", prompt_ms=2)
            create(tx, "windows", cwd="C:\\Work\\A", prompt_ms=3)

        await constellation.database.write(fill)
        for cwd, expected in (("/work/a/", ["here"]), ("c:/work/a", ["windows"]), ("/work", [])):
            assert await constellation.database.read(lambda tx, cwd=cwd: listed(tx, cwd)) == expected


@pytest.mark.parametrize("name", ["list_sessions", "list_sessions_of_cwd"])
async def test_a_list_reads_only_the_rows_it_shows(name: str):
    params = {"cwd_key": "/w", "before_ms": 5, "before_id": "", "limit": 10, "archived": 0, "also": 1}
    named = params if name == "list_sessions_of_cwd" else {k: v for k, v in params.items() if k != "cwd_key"}

    def plan(tx: Transaction) -> str:
        return " ".join(str(row[3]) for row in tx.all(f"EXPLAIN QUERY PLAN {sessions.QUERIES[name]}", named))

    async with temporary_constellation() as constellation:
        found = await constellation.database.read(plan)
    assert "SEARCH sessions USING INDEX sessions_listed" in found
    assert "TEMP B-TREE" not in found
