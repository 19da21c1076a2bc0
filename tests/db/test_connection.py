import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import apsw
import pytest

from pattern_acp.db.connection import Database, Transaction, WorkerConnection, open_database, worker_connections
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.errors import (
    ConstraintError,
    DatabaseBusyError,
    DatabaseClosedError,
    DatabaseCorruptError,
    DatabaseForeignError,
    DatabaseNewerError,
    DatabaseReadOnlyError,
    DatabaseUnreachableError,
    DiskFullError,
)
from pattern_acp.db.migrate import load_migrations
from pattern_acp.db.raw import connect
from pattern_acp.db.transaction import storable
from pattern_acp.domain.errors import DatabaseError
from tests.support.constellation import FakeClock, temporary_constellation

CREATE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE

NEWEST = len(load_migrations())


def add_blob(tx: Transaction, name: str, size: int = 1) -> None:
    tx.execute("INSERT INTO blobs VALUES (?, ?, 'raw', zeroblob(?))", (name, size, size))


def blob_names(tx: Transaction) -> list[str]:
    return [str(row[0]) for row in tx.all("SELECT hash FROM blobs ORDER BY hash")]


async def test_a_write_is_seen_by_the_next_read_and_by_another_connection():
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add_blob(tx, "a"))
        assert await constellation.database.read(blob_names) == ["a"]
        async with open_database(constellation.path, clock=constellation.clock) as other:
            assert await other.read(blob_names) == ["a"]


@pytest.mark.parametrize("read_only", [True, False])
def test_opening_waits_for_a_process_that_has_the_file_alone_for_a_moment(tmp_path: Path, read_only: bool):
    path = tmp_path / "constellation.db"
    anyio.run(_made, path)
    # As the first to come after a crash, and the last to leave, have it: longer than SQLite itself waits.
    alone = connect(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    alone.pragma("locking_mode", "EXCLUSIVE")
    alone.execute("BEGIN IMMEDIATE").fetchall()
    leaves = threading.Timer(0.6, alone.close)
    leaves.start()
    try:
        assert anyio.run(_read_alone, path, read_only) == []
    finally:
        leaves.join()


async def _made(path: Path) -> None:
    async with open_database(path, clock=FakeClock()):
        pass


async def _read_alone(path: Path, read_only: bool) -> list[str]:
    async with open_database(path, clock=FakeClock(), read_only=read_only) as database:
        return await database.read(blob_names)


async def test_a_write_returns_what_its_function_returns():
    async with temporary_constellation() as constellation:

        def insert_and_count(tx: Transaction) -> tuple[int, int]:
            rowid = tx.insert("INSERT INTO backups (at_ms, from_version, to_version, path) VALUES (1, 0, 1, 'x')")
            return rowid, tx.execute("UPDATE backups SET path = :path", {"path": "y"})

        assert await constellation.database.write(insert_and_count) == (1, 1)


@pytest.mark.parametrize("error", [ValueError("a fault"), SystemExit(3)])
async def test_any_exception_rolls_back_and_reaches_the_caller(error: BaseException):
    def fail(tx: Transaction) -> None:
        add_blob(tx, "a")
        raise error

    async with temporary_constellation() as constellation:
        with pytest.raises(type(error)):
            await constellation.database.write(fail)
        assert await constellation.database.read(blob_names) == []


async def test_a_cancelled_caller_has_written_whole_and_holds_no_lock():
    entered, release = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        add_blob(tx, "a")
        entered.set()
        release.wait(30)
        add_blob(tx, "b")

    async with temporary_constellation() as constellation:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(constellation.database.write, slow)
                await anyio.to_thread.run_sync(entered.wait, 30)
                group.cancel_scope.cancel()
                release.set()
            # Who is cancelled does not wait for a slow disk; this comes behind what was written.
            await constellation.database.write(lambda tx: None)
            assert await constellation.database.read(blob_names) == ["a", "b"]
            async with open_database(constellation.path, clock=constellation.clock, busy_seconds=0) as other:
                await other.write(lambda tx: add_blob(tx, "c"))


async def test_a_caller_that_is_cancelled_meanwhile_still_has_what_its_write_gave():
    entered, release = threading.Event(), threading.Event()
    results: list[object] = []

    def slow(tx: Transaction) -> int:
        entered.set()
        release.wait(30)
        add_blob(tx, "a")
        return 7

    def refuse(_: Transaction) -> None:
        raise LookupError

    async with temporary_constellation() as constellation, patient_writer(constellation.path) as writer:

        async def keep() -> None:
            results.append(await writer.run(lambda driver: driver.write(slow)))
            try:
                await writer.run(lambda driver: driver.write(refuse))
            except LookupError as error:
                results.append(type(error))
            await anyio.sleep_forever()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(keep)
                await anyio.to_thread.run_sync(entered.wait, 30)
                group.cancel_scope.cancel()
                release.set()
        assert results == [7, LookupError]


@asynccontextmanager
async def patient_writer(path: Path) -> AsyncGenerator[WorkerConnection, None]:
    """A connection whose cancelled callers wait for a slow disk."""
    driver = ApswConnection(path, read_only=False, busy_seconds=30)
    [writer] = worker_connections(driver, patience_seconds=60)
    await writer.start()
    try:
        await writer.run(ApswConnection.open)
        driver.opened.version = NEWEST
        yield writer
    finally:
        await writer.close_within(60)


async def test_a_cancelled_caller_does_not_wait_for_a_lock_and_its_write_comes_in_its_turn():
    entered, release = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        add_blob(tx, "a")
        entered.set()
        release.wait(30)

    async with (
        temporary_constellation() as constellation,
        open_database(constellation.path, clock=constellation.clock) as other,
    ):
        async with anyio.create_task_group() as holder:
            holder.start_soon(other.write, hold)
            await anyio.to_thread.run_sync(entered.wait, 30)
            with anyio.move_on_after(0.01) as waiting:
                await constellation.database.write(lambda tx: add_blob(tx, "b"))
            assert waiting.cancelled_caught
            assert not release.is_set()
            release.set()
        await constellation.database.write(lambda tx: add_blob(tx, "c"))
        assert await other.read(blob_names) == ["a", "b", "c"]


async def test_a_write_that_fails_after_its_caller_was_cancelled_is_logged(caplog: pytest.LogCaptureFixture):
    entered, release = threading.Event(), threading.Event()

    def fail(tx: Transaction) -> None:
        del tx
        entered.set()
        release.wait(30)
        raise LookupError("words that belong to nobody's log")

    async with temporary_constellation() as constellation:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(constellation.database.write, fail)
                await anyio.to_thread.run_sync(entered.wait, 30)
                tasks.cancel_scope.cancel()
            release.set()
            await constellation.database.write(lambda tx: add_blob(tx, "a"))
    [record] = caplog.records
    assert "LookupError" in record.getMessage()
    assert "words" not in caplog.text


async def test_no_thread_of_a_database_keeps_a_process_alive():
    before = set(threading.enumerate())
    async with temporary_constellation():
        started = set(threading.enumerate()) - before
    assert started
    assert all(thread.daemon for thread in started)


def test_a_call_that_outlives_its_loop_is_done_and_ends_its_thread_without_a_word(tmp_path: Path):
    path, entered, release = tmp_path / "constellation.db", threading.Event(), threading.Event()
    before = set(threading.enumerate())

    def slow(tx: Transaction) -> None:
        del tx
        entered.set()
        release.wait(60)

    async def leave() -> None:
        async with open_database(path, clock=FakeClock()) as database, anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, slow)
            await anyio.to_thread.run_sync(entered.wait, 60)
            tasks.cancel_scope.cancel()

    try:
        anyio.run(leave)
    finally:
        release.set()
    # pytest makes an error of an exception that ends a thread.
    for left in set(threading.enumerate()) - before:
        left.join(60)
    assert not path.with_name("constellation.db-wal").exists()


async def test_a_reader_never_waits_for_a_writer():
    entered, release = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        add_blob(tx, "a")
        entered.set()
        release.wait(30)

    async with temporary_constellation() as constellation:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(constellation.database.write, slow)
                await anyio.to_thread.run_sync(entered.wait, 30)
                assert await constellation.database.read(blob_names) == []
                release.set()


def log_size(database: Database) -> int:
    return Path(f"{database.path}-wal").stat().st_size


async def test_a_log_that_has_become_long_starts_over_though_another_process_has_read_from_it():
    async with (
        temporary_constellation() as constellation,
        open_database(constellation.path, clock=constellation.clock) as other,
    ):
        sizes: list[int] = []
        for number in range(10):
            await constellation.database.write(lambda tx, name=f"{number}": add_blob(tx, name, 2_000_000))
            await other.read(blob_names)
            sizes.append(log_size(constellation.database))
        # Two of them fill a log of 4 MB; the next but one overwrites it from its beginning.
        assert max(sizes) < 9_000_000
        assert len(await other.read(blob_names)) == 10


async def test_a_log_that_somebody_reads_from_grows_until_they_have_ended():
    entered, release = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        blob_names(tx)
        entered.set()
        release.wait(30)

    async with (
        temporary_constellation() as constellation,
        open_database(constellation.path, clock=constellation.clock) as other,
    ):
        database = constellation.database
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                await database.write(lambda tx: add_blob(tx, "read"))
                group.start_soon(other.read, slow)
                await anyio.to_thread.run_sync(entered.wait, 30)
                for number in range(4):
                    await database.write(lambda tx, name=f"{number}": add_blob(tx, name, 5_000_000))
                release.set()
        grown = log_size(database)
        assert grown > 20_000_000
        for number in range(4, 8):
            await database.write(lambda tx, name=f"{number}": add_blob(tx, name, 5_000_000))
        assert log_size(database) < grown


async def test_a_read_cannot_write():
    async with temporary_constellation() as constellation:
        with pytest.raises(DatabaseReadOnlyError):
            await constellation.database.read(lambda tx: add_blob(tx, "a"))


async def test_a_transaction_is_of_no_use_after_its_function():
    async with temporary_constellation() as constellation:
        kept = await constellation.database.write(lambda tx: tx)
        with pytest.raises(RuntimeError, match="after its function"):
            kept.all("SELECT 1")


async def test_a_row_without_its_event_cannot_be_committed():
    def forget_the_event(tx: Transaction) -> None:
        tx.execute("INSERT INTO leases VALUES ('nobody', 'h', 1, '', '', 0, 0, '')")

    async with temporary_constellation() as constellation:
        with pytest.raises(ConstraintError, match="FOREIGN KEY"):
            await constellation.database.write(forget_the_event)


async def test_a_closed_database_says_so():
    async with temporary_constellation() as constellation:
        await constellation.database.close()
        with pytest.raises(DatabaseClosedError):
            await constellation.database.read(blob_names)


async def test_closing_stops_a_statement_that_would_run_for_hours():
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    started = threading.Event()

    def count(tx: Transaction) -> None:
        started.set()
        tx.all(endless)

    async def run(database: Database) -> None:
        with pytest.raises(DatabaseError):
            await database.read(count)

    async with temporary_constellation() as constellation:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(run, constellation.database)
                await anyio.to_thread.run_sync(started.wait, 30)
                await constellation.database.close()


async def test_the_constellation_is_set_up_as_measured():
    async with temporary_constellation() as constellation:

        def settings(tx: Transaction) -> list[object]:
            names = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "cache_size", "mmap_size")
            return [row[0] for name in names for row in tx.all(f"PRAGMA {name}")]

        assert await constellation.database.write(settings) == ["wal", 2, 1, 0, -8_192, 1 << 30]
        assert await constellation.database.read(settings) == ["wal", 2, 1, 0, -65_536, 1 << 30]


STATISTICS = "SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'"
"""Those of a constellation that was small made SQLite scan whole tables once it had grown."""


async def test_a_constellation_is_closed_without_statistics():
    async with temporary_constellation() as constellation:
        async with open_database(constellation.path, clock=constellation.clock) as other:
            await other.write(lambda tx: add_blob(tx, "a"))
            await other.read(blob_names)
        assert await constellation.database.read(lambda tx: tx.all(STATISTICS)) == []


async def test_statistics_of_earlier_versions_are_dropped(tmp_path: Path):
    path, steps = tmp_path / "constellation.db", load_migrations()
    at = next(index for index, step in enumerate(steps) if step.name.endswith("no_statistics"))
    async with open_database(path, clock=FakeClock(), migrations=steps[:at]) as before:
        await before.write(lambda tx: add_blob(tx, "a"))
        await before.write(lambda tx: tx.execute("ANALYZE"))
        assert await before.read(lambda tx: tx.all(STATISTICS))
    async with open_database(path, clock=FakeClock(), migrations=steps[: at + 1]) as after:
        assert await after.read(lambda tx: tx.all(STATISTICS)) == []


async def test_the_facts_name_versions():
    async with temporary_constellation() as constellation:
        facts = constellation.database.facts
        assert facts.sqlite_version == apsw.sqlite_lib_version()
        assert facts.fts5
        assert facts.schema_version == NEWEST
        assert constellation.database.path == constellation.path
        await constellation.database.checkpoint()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
async def test_file_and_folder_are_private(tmp_path: Path):
    path = tmp_path / "new" / "constellation.db"
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(lambda tx: add_blob(tx, "a"))
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert {entry.stat().st_mode & 0o777 for entry in path.parent.iterdir()} == {0o600}


async def test_a_locked_database_is_named_with_its_remedy():
    async with (
        temporary_constellation() as constellation,
        open_database(constellation.path, clock=constellation.clock, busy_seconds=0) as other,
    ):
        blocker = connect(str(constellation.path), flags=CREATE)
        blocker.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusyError, match="locked by another process"):
            await other.write(lambda tx: add_blob(tx, "a"))
        blocker.execute("ROLLBACK")
        blocker.close()
        await other.write(lambda tx: add_blob(tx, "a"))


async def test_a_writer_waits_for_another_process_to_let_go():
    def write(tx: Transaction) -> None:
        add_blob(tx, "a")

    async with temporary_constellation() as constellation:
        blocker = connect(str(constellation.path), flags=CREATE)
        blocker.execute("BEGIN IMMEDIATE")
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(constellation.database.write, write)
                await constellation.database.read(blob_names)
                blocker.execute("ROLLBACK")
        blocker.close()
        assert await constellation.database.read(blob_names) == ["a"]


async def test_a_database_opened_for_reading_is_read_and_not_written():
    async with temporary_constellation() as constellation:
        await constellation.database.write(lambda tx: add_blob(tx, "a"))
        async with open_database(constellation.path, clock=constellation.clock, read_only=True) as other:
            assert await other.read(blob_names) == ["a"]
            with pytest.raises(DatabaseReadOnlyError, match="cannot be written"):
                await other.write(lambda tx: add_blob(tx, "b"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everything")
async def test_a_file_without_write_permission_refuses_a_write(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(lambda tx: add_blob(tx, "a"))
    path.chmod(0o400)
    async with open_database(path, clock=FakeClock()) as database:
        assert await database.read(blob_names) == ["a"]
        with pytest.raises(DatabaseReadOnlyError):
            await database.write(lambda tx: add_blob(tx, "b"))


async def test_reading_a_missing_file_creates_nothing(tmp_path: Path):
    path = tmp_path / "constellation.db"
    with pytest.raises(DatabaseUnreachableError):
        async with open_database(path, clock=FakeClock(), read_only=True):
            pass
    assert not path.exists()


async def test_a_folder_in_the_way_is_unreachable(tmp_path: Path):
    with pytest.raises(DatabaseUnreachableError):
        async with open_database(tmp_path, clock=FakeClock()):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
async def test_a_place_whose_name_is_not_utf8_is_named(tmp_path: Path):
    with pytest.raises(DatabaseUnreachableError, match="its name is not UTF-8 text"):
        async with open_database(tmp_path / "a\udcff" / "constellation.db", clock=FakeClock()):
            pass


async def test_a_file_where_the_folder_should_be_is_unreachable(tmp_path: Path):
    (tmp_path / "folder").write_text("not a folder", encoding="utf-8")
    with pytest.raises(DatabaseUnreachableError, match="folder"):
        async with open_database(tmp_path / "folder" / "constellation.db", clock=FakeClock()):
            pass


async def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path):
    path = tmp_path / "constellation.db"
    path.write_bytes(b"this is a diary, not a database\n" * 200)
    with pytest.raises(DatabaseCorruptError, match="backup"):
        async with open_database(path, clock=FakeClock()):
            pass


async def test_a_damaged_page_is_corrupt(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(lambda tx: [add_blob(tx, str(number), 3000) for number in range(50)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(DatabaseCorruptError):
        async with open_database(path, clock=FakeClock()) as database:
            await database.read(blob_names)


async def test_a_newer_database_is_refused_with_both_versions(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with open_database(path, clock=FakeClock()):
        pass
    raw = connect(str(path), flags=CREATE)
    raw.execute("PRAGMA user_version = 99")
    raw.close()
    with pytest.raises(DatabaseNewerError, match=rf"version 99.* up to {NEWEST}\b") as caught:
        async with open_database(path, clock=FakeClock()):
            pass
    assert (caught.value.found, caught.value.known) == (99, NEWEST)


async def test_the_database_of_another_program_is_refused_and_unchanged(tmp_path: Path):
    path = tmp_path / "constellation.db"
    raw = connect(str(path), flags=CREATE)
    raw.execute("CREATE TABLE diary (line TEXT)")
    raw.close()
    with pytest.raises(DatabaseForeignError, match="another program"):
        async with open_database(path, clock=FakeClock()):
            pass
    raw = connect(str(path), flags=CREATE)
    assert raw.execute("SELECT name FROM sqlite_schema").fetchall() == [("diary",)]
    raw.close()


async def test_a_full_disk_leaves_nothing_half_written():
    def fill(tx: Transaction) -> None:
        add_blob(tx, "small")
        add_blob(tx, "large", 1_000_000)

    async with temporary_constellation() as constellation:
        database = constellation.database
        await database.write(lambda tx: tx.all("PRAGMA max_page_count = 100"))
        with pytest.raises(DiskFullError, match="no disk space left"):
            await database.write(fill)
        assert await database.read(blob_names) == []
        await database.write(lambda tx: add_blob(tx, "a"))


def test_a_process_that_forgets_to_close_still_ends(tmp_path: Path):
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        import anyio
        from pattern_acp.db.connection import open_database
        from pattern_acp.domain.clock import SystemClock

        async def main():
            opened = open_database(Path(sys.argv[1]), clock=SystemClock())
            database = await opened.__aenter__()
            await database.write(lambda tx: tx.execute("INSERT INTO blobs VALUES ('a', 0, 'raw', x'')"))
            print("written", flush=True)
            sys.exit(7)

        anyio.run(main)
    """)
    command = [sys.executable, "-c", script, str(tmp_path / "constellation.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert (done.stdout, done.returncode) == ("written\n", 7), done.stderr


async def test_after_damage_was_met_nothing_is_written_and_the_rest_is_read(tmp_path: Path):
    path = tmp_path / "c.db"

    def fill(tx: Transaction) -> None:
        for number in range(9):
            row = (f"hash {number}", b"%d" % number * 3000)
            tx.execute("INSERT INTO blobs (hash, size, encoding, content) VALUES (?, 1, 'raw', ?)", row)

    async with open_database(path, clock=FakeClock()) as database:
        await database.write(fill)
    content = bytearray(path.read_bytes())
    at = content.index(b"hash 4")
    content[at - at % 4096 : at - at % 4096 + 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(lambda tx: tx.execute("UPDATE sessions SET title = ''"))
        assert database.damage == ""
        with pytest.raises(DatabaseCorruptError):
            await database.read(lambda tx: tx.all("SELECT content FROM blobs"))
        assert "restore --latest" in database.damage
        with pytest.raises(DatabaseCorruptError, match="is damaged"):
            await database.write(lambda tx: tx.execute("UPDATE sessions SET title = ''"))
        assert await database.read(lambda tx: tx.one("SELECT count(*) FROM sessions")) == (0,)


async def test_a_damaged_search_index_stops_no_writing():
    async with temporary_constellation() as constellation:
        database = constellation.database
        other = apsw.Connection(str(constellation.database.path))
        other.cursor().execute("DELETE FROM search_fts_data")  # pyright: ignore[reportUnknownMemberType]  open in its stubs
        other.close()
        with pytest.raises(DatabaseCorruptError):
            await database.read(lambda tx: tx.all("SELECT rowid FROM search_fts WHERE search_fts MATCH 'plum'"))
        assert database.damage == ""


async def test_half_of_a_surrogate_pair_is_asked_for_as_it_is_stored():
    def write_and_look(tx: Transaction) -> list[str]:
        tx.execute("INSERT INTO blobs VALUES (:hash, 0, 'raw', x'')", {"hash": "x\ud800"})
        assert tx.one("SELECT 1 FROM blobs WHERE hash = ?", ("x\ud800",)) is not None
        return blob_names(tx)

    async with temporary_constellation() as constellation:
        assert await constellation.database.write(write_and_look) == [storable("x\ud800")]


async def test_whoever_waits_for_the_next_write_is_woken_by_it_and_not_by_a_quiet_one(tmp_path: Path):
    async with open_database(tmp_path / "c.db", clock=FakeClock()) as database:
        seen = database.writes
        await database.write(lambda tx: None, quietly=True)
        assert database.writes == seen
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.next_write, seen)
            await anyio.wait_all_tasks_blocked()
            await database.write(lambda tx: None)
        # It has been meanwhile, so nobody waits any more.
        await database.next_write(seen)
