"""What is met when the files under an open constellation change: another has its name, a newer program, a fork."""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from pattern_acp.db.backup import full_check
from pattern_acp.db.connection import Transaction, open_database, read_file
from pattern_acp.db.driver import ApswConnection, sync_folder
from pattern_acp.db.errors import DatabaseNewerError, DatabaseUnreachableError
from pattern_acp.db.migrate import load_migrations, migrate
from tests.support.constellation import temporary_constellation

KEPT_OPEN = pytest.mark.skipif(sys.platform == "win32", reason="Windows lets nobody delete an open file")


def add(tx: Transaction, name: str) -> None:
    tx.execute("INSERT INTO blobs VALUES (?, 1, 'raw', zeroblob(1))", (name,))


def names(tx: Transaction) -> list[str]:
    return [str(row[0]) for row in tx.all("SELECT hash FROM blobs ORDER BY hash")]


@pytest.fixture
def opened(tmp_path: Path) -> Generator[ApswConnection, None, None]:
    """A new constellation that is open."""
    driver = ApswConnection(tmp_path / "constellation.db", read_only=False, busy_seconds=1)
    driver.open()
    migrate(driver, load_migrations(), now_ms=1)
    yield driver
    driver.close()


@KEPT_OPEN
@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
@pytest.mark.parametrize("becomes", ["gone", "another file", "a file of the same bytes"])
def test_nothing_is_written_once_a_file_of_it_has_lost_its_name(opened: ApswConnection, ending: str, becomes: str):
    opened.write(lambda tx: add(tx, "before"))
    file = Path(f"{opened.path}{ending}")
    content = file.read_bytes()
    kept = file.rename(file.with_name("kept"))
    if becomes != "gone":
        file.write_bytes(content if "same" in becomes else b"another")
    taken = kept.read_bytes()
    with pytest.raises(DatabaseUnreachableError, match=r"deleted, moved or replaced.*start pattern-acp again"):
        opened.write(lambda tx: add(tx, "after"))
    assert kept.read_bytes() == taken


@KEPT_OPEN
async def test_a_file_that_is_replaced_during_a_transaction_is_noticed_before_the_commit():
    async with temporary_constellation() as constellation:
        kept = constellation.path.with_name("kept")

        def replace(tx: Transaction) -> None:
            add(tx, "ghost")
            constellation.path.rename(kept)
            constellation.path.touch()

        with pytest.raises(DatabaseUnreachableError, match="replaced"):
            await constellation.database.write(replace)
        kept.replace(constellation.path)
        assert await constellation.database.read(names) == []
        await constellation.database.write(lambda tx: add(tx, "real"))
        assert await constellation.database.read(names) == ["real"]


async def test_a_newer_program_that_changes_the_schema_meanwhile_stops_this_one_with_a_sentence():
    async with temporary_constellation() as constellation:
        known = constellation.database.facts.schema_version
        async with open_database(constellation.path, clock=constellation.clock) as newer:
            await newer.write(lambda tx: tx.all("PRAGMA user_version = 999"))
        said = f"newer pattern-acp has brought .* to schema version 999 .*up to {known}.*start pattern-acp again"
        with pytest.raises(DatabaseNewerError, match=said):
            await constellation.database.write(lambda tx: add(tx, "a"))
        with pytest.raises(DatabaseNewerError, match=said):
            await constellation.database.read(names)


async def test_the_schema_cannot_change_between_the_check_and_the_commit():
    entered, release = threading.Event(), threading.Event()

    def slow(tx: Transaction) -> None:
        add(tx, "a")
        entered.set()
        release.wait(30)

    async with (
        temporary_constellation() as constellation,
        open_database(constellation.path, clock=constellation.clock, busy_seconds=0.05) as newer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(constellation.database.write, slow)
        await anyio.to_thread.run_sync(entered.wait, 30)
        with pytest.raises(Exception, match="locked by another process"):
            await newer.write(lambda tx: tx.all("PRAGMA user_version = 999"))
        release.set()


_FORKED = """
import os, sys, warnings
from pathlib import Path
import anyio
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import DatabaseError

warnings.simplefilter("ignore", DeprecationWarning)

def count(tx):
    return tx.one("SELECT count(*) FROM blobs")[0]

async def parent(path):
    async with open_database(path, clock=SystemClock()) as database:
        if not os.fork():
            try:
                for _ in range(2):
                    try:
                        await database.write(lambda tx: tx.execute("DELETE FROM blobs"))
                    except DatabaseError as error:
                        print(error.sentence, flush=True)
                print(await database.close(), flush=True)
            finally:
                os._exit(0)
        os.wait()
        sql = "INSERT INTO blobs VALUES ('a', 1, 'raw', zeroblob(1))"
        await database.write(lambda tx: tx.execute(sql))
        print(await database.read(count), flush=True)

anyio.run(parent, Path(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_is_refused_at_once_and_the_process_that_opened_the_file_goes_on(tmp_path: Path):
    path = tmp_path / "constellation.db"
    command = [sys.executable, "-c", _FORKED, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    *refused, closed, counted = ended.stdout.splitlines()
    assert len(refused) == 2
    assert all("of which this one is a copy; open it again in this process" in each for each in refused)
    assert (closed, counted) == ("True", "1")


async def test_the_folders_of_a_new_constellation_are_made_for_this_user_alone(tmp_path: Path):
    path = tmp_path / "one" / "two" / "constellation.db"
    async with temporary_constellation() as constellation, open_database(path, clock=constellation.clock):
        pass
    if sys.platform != "win32":
        assert path.parent.stat().st_mode & 0o077 == 0


def test_a_folder_that_is_gone_cannot_be_brought_to_the_disk(tmp_path: Path):
    sync_folder(tmp_path)
    if sys.platform != "win32":
        with pytest.raises(FileNotFoundError):
            sync_folder(tmp_path / "none")


@KEPT_OPEN
def test_closing_a_file_that_lost_its_name_leaves_the_files_that_have_it_now_alone(tmp_path: Path):
    path = tmp_path / "constellation.db"
    old, new = (ApswConnection(path, read_only=False, busy_seconds=1) for _ in range(2))
    old.open()
    migrate(old, load_migrations(), now_ms=1)
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").rename(f"{path}{ending}.moved")
    new.open()
    migrate(new, load_migrations(), now_ms=1)
    new.write(lambda tx: add(tx, "acknowledged"))
    old.close()
    # What a process that is killed now leaves: nothing is in the file yet, all of it in the log.
    left = tmp_path / "left.db"
    for ending in ("", "-wal"):
        if Path(f"{path}{ending}").exists():
            shutil.copyfile(f"{path}{ending}", f"{left}{ending}")
    new.close()
    assert read_file(left, names) == ["acknowledged"]


@KEPT_OPEN
def test_what_was_acknowledged_survives_when_only_the_log_is_deleted(opened: ApswConnection):
    opened.write(lambda tx: add(tx, "acknowledged"))
    Path(f"{opened.path}-wal").unlink()
    with pytest.raises(DatabaseUnreachableError):
        opened.checkpoint()
    opened.close()
    assert read_file(opened.path, names) == ["acknowledged"]


_OTHER = """
import os, sys
from pathlib import Path
from pattern_acp.db.driver import ApswConnection

driver = ApswConnection(Path(sys.argv[1]), read_only=False, busy_seconds=5)
driver.open()
for number in range(50):
    driver.write(lambda tx: tx.execute("INSERT INTO blobs VALUES (?, 1, 'raw', zeroblob(3000))", (f"other {number}",)))
if sys.argv[2] == "checkpointed":
    driver.checkpoint()
os._exit(0)
"""


@KEPT_OPEN
@pytest.mark.parametrize("left", ["in its log", "checkpointed"])
def test_closing_after_the_log_was_replaced_writes_nothing_over_what_others_wrote_since(
    opened: ApswConnection, left: str
):
    opened.checkpoint()
    opened.write(lambda tx: add(tx, "lost with its log"))
    for ending in ("-wal", "-shm"):
        Path(f"{opened.path}{ending}").unlink()
    subprocess.run([sys.executable, "-c", _OTHER, str(opened.path), left], timeout=30, check=True)
    opened.close()
    assert read_file(opened.path, full_check) == ()
    assert read_file(opened.path, names) == sorted(f"other {number}" for number in range(50))
