"""Copies of a constellation that is in use, and putting one in its place."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import apsw
import pytest

from pattern_acp.db.backup import PART, alone, back_up, check_copy, copies_of, put_in_place
from pattern_acp.db.connection import change_file, open_database, read_file
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.errors import (
    DatabaseBusyError,
    DatabaseCorruptError,
    DatabaseForeignError,
    DatabaseUnreachableError,
    DiskFullError,
)
from pattern_acp.db.transaction import Transaction
from tests.support.constellation import Constellation, FakeClock, temporary_constellation

_ADD = "INSERT INTO blobs (hash, size, encoding, content) VALUES (?, 1, 'raw', zeroblob(?))"


@pytest.fixture
async def constellation() -> AsyncGenerator[Constellation, None]:
    async with temporary_constellation() as made:
        yield made


def add(tx: Transaction, name: str, size: int = 10) -> None:
    tx.execute(_ADD, (name, size))


def names(path: Path) -> list[object]:
    return [row[0] for row in read_file(path, lambda tx: tx.all("SELECT hash FROM blobs ORDER BY hash"))]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def make(path: Path, *blobs: str) -> None:
    async with open_database(path, clock=FakeClock()) as database:
        for blob in blobs:
            await database.write(lambda tx, blob=blob: add(tx, blob))


_HOLDER = """
import sys
from pathlib import Path
from pattern_acp.db.connection import read_file
def wait(tx):
    tx.one("SELECT count(*) FROM blobs")
    print("open", flush=True)
    sys.stdin.read()
read_file(Path(sys.argv[1]), wait)
"""


@contextmanager
def another_process_has(path: Path) -> Generator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"open\n"
        yield
        process.stdin.close()


async def test_a_copy_is_the_state_of_one_moment_however_much_is_written_meanwhile(
    constellation: Constellation, tmp_path: Path
):
    await constellation.database.write(lambda tx: [add(tx, f"a{number:02}", 1_000_000) for number in range(12)])
    target = tmp_path / "copy.db"
    writer = _Writer(constellation.path)
    size = back_up(constellation.path, target, between=writer.write)
    assert writer.written >= 2
    assert names(target) == [f"a{number:02}" for number in range(12)]
    assert size == target.stat().st_size
    if sys.platform != "win32":
        assert target.stat().st_mode & 0o077 == 0


class _Writer:
    """Commits in another connection at each call, on the same thread."""

    def __init__(self, path: Path) -> None:
        self.written = 0
        self._connection = ApswConnection(path, read_only=False, busy_seconds=1)
        self._connection.open()

    def write(self) -> None:
        self._connection.write(lambda tx: add(tx, f"z{self.written}"))
        self.written += 1


async def test_a_copy_stands_alone(constellation: Constellation, tmp_path: Path):
    await constellation.database.write(lambda tx: add(tx, "a"))
    back_up(constellation.path, tmp_path / "copy.db")
    assert names(tmp_path / "copy.db") == ["a"]
    assert files(tmp_path) == ["copy.db"]


async def test_a_copy_that_fails_leaves_nothing(constellation: Constellation, tmp_path: Path):
    await constellation.database.write(lambda tx: add(tx, "a", 5_000_000))

    def fail() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        back_up(constellation.path, tmp_path / "copy.db", between=fail)
    assert files(tmp_path) == []


async def test_no_file_is_overwritten(constellation: Constellation, tmp_path: Path):
    (tmp_path / "copy.db").write_text("mine", encoding="utf-8")
    with pytest.raises(FileExistsError):
        back_up(constellation.path, tmp_path / "copy.db")
    (tmp_path / f"other.db{PART}").write_text("another process", encoding="utf-8")
    with pytest.raises(FileExistsError):
        back_up(constellation.path, tmp_path / "other.db")
    assert (tmp_path / f"other.db{PART}").read_text(encoding="utf-8") == "another process"
    with pytest.raises(DatabaseUnreachableError):
        back_up(constellation.path, tmp_path / "no folder" / "copy.db")


async def test_a_copy_that_is_whole_leaves_alone_what_another_process_begins_under_the_same_name(
    constellation: Constellation, tmp_path: Path
):
    target = tmp_path / "copy.db"
    part = target.with_name(target.name + PART)

    def begin_the_next() -> None:
        while not target.exists():
            pass
        part.touch(exist_ok=False)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, begin_the_next)
        await anyio.to_thread.run_sync(back_up, constellation.database.path, target)
    assert files(tmp_path) == ["copy.db", f"copy.db{PART}"]


async def test_a_damaged_source_gives_no_copy(tmp_path: Path):
    path, target = tmp_path / "constellation.db", tmp_path / "copy.db"
    await make(path, "a")
    content = bytearray(path.read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path.write_bytes(content)
    with pytest.raises(DatabaseCorruptError):
        back_up(path, target)
    assert not target.exists()


async def test_only_a_sound_constellation_is_a_copy(tmp_path: Path):
    empty, foreign, diary = tmp_path / "empty.db", tmp_path / "foreign.db", tmp_path / "diary.db"
    empty.touch()
    diary.write_bytes(b"dear diary, " * 100)
    with pytest.raises(DatabaseCorruptError, match="it holds nothing"):
        check_copy(empty)
    with pytest.raises(DatabaseCorruptError, match=r"^The copy .* cannot be used \(.*\); choose another one\.$"):
        check_copy(diary)
    await make(foreign)
    content = bytearray(foreign.read_bytes())
    content[68:72] = b"else"
    foreign.write_bytes(content)
    with pytest.raises(DatabaseForeignError):
        check_copy(foreign)


async def test_a_copy_put_in_place_is_what_the_next_start_reads_and_the_old_state_is_kept(tmp_path: Path):
    path, copy, safety = tmp_path / "constellation.db", tmp_path / "copy.db", tmp_path / "kept"
    await make(path, "a")
    back_up(path, copy)
    await make(path, "b")
    log = path.with_name("constellation.db-wal")
    log.write_bytes(b"a log of the old file")
    put_in_place(copy, path, safety=safety)
    assert names(path) == ["a"]
    await make(path, "c")
    assert names(path) == ["a", "c"]
    assert (safety / "constellation.db-wal").read_bytes() == b"a log of the old file"
    (safety / "constellation.db-wal").unlink()
    assert names(safety / "constellation.db") == ["a", "b"]


async def test_a_copy_is_put_where_nothing_is(tmp_path: Path):
    await make(tmp_path / "constellation.db", "a")
    back_up(tmp_path / "constellation.db", tmp_path / "copy.db")
    put_in_place(tmp_path / "copy.db", tmp_path / "new" / "constellation.db", safety=tmp_path / "kept")
    assert names(tmp_path / "new" / "constellation.db") == ["a"]
    assert not (tmp_path / "kept").exists()


async def test_nothing_is_replaced_while_another_process_has_it_open(tmp_path: Path):
    path, copy = tmp_path / "constellation.db", tmp_path / "copy.db"
    await make(path, "a")
    back_up(path, copy)
    await make(path, "b")
    with another_process_has(path), pytest.raises(DatabaseBusyError, match="open in another process"):
        put_in_place(copy, path, safety=tmp_path / "kept")
    assert names(path) == ["a", "b"]
    assert not (tmp_path / "kept").exists()
    with alone(path):
        pass


async def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path: Path):
    path, copy = tmp_path / "constellation.db", tmp_path / "copy.db"
    await make(path, "a")
    back_up(path, copy)
    (tmp_path / "kept").write_text("a file where the folder would be", encoding="utf-8")
    with pytest.raises(DatabaseUnreachableError):
        put_in_place(copy, path, safety=tmp_path / "kept")
    assert names(path) == ["a"]
    assert not (tmp_path / "constellation.db.restoring").exists()


def test_copies_beside_a_constellation_are_named(tmp_path: Path):
    path = tmp_path / "constellation.db"
    (tmp_path / "backups").mkdir()
    assert copies_of(path) == ()
    (tmp_path / "backups" / "snapshot-20260101T000000Z.db").touch()
    (tmp_path / "constellation.v1.5.backup.db").touch()
    assert copies_of(path) == (tmp_path / "constellation.v1.5.backup.db", tmp_path / "backups")


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
async def test_a_constellation_behind_a_link_is_replaced_where_it_lies_and_kept_with_its_log(tmp_path: Path):
    path, copy, safety = tmp_path / "constellation.db", tmp_path / "copy.db", tmp_path / "kept"
    other_disk = tmp_path / "disk" / "large.db"
    await make(path, "a")
    back_up(path, copy)
    await make(path, "b")
    other_disk.parent.mkdir()
    path.replace(other_disk)
    path.symlink_to(other_disk)
    other_disk.with_name("large.db-wal").write_bytes(b"a log of the old file")
    put_in_place(copy, path, safety=safety)
    assert path.is_symlink()
    assert names(path) == ["a"]
    assert (safety / "large.db-wal").read_bytes() == b"a log of the old file"
    (safety / "large.db-wal").unlink()
    assert names(safety / "large.db") == ["a", "b"]


async def test_a_copy_that_finds_no_room_names_the_file_that_had_none(tmp_path: Path):
    path, target = tmp_path / "constellation.db", tmp_path / "copy.db"
    await make(path, "a")

    def fill() -> None:
        raise apsw.FullError("not an error")

    with pytest.raises(DiskFullError) as raised:
        back_up(path, target, between=fill)
    assert f"for the constellation {target} (FullError)" in str(raised.value)


LIMITED = """
import resource, sys
from pathlib import Path
from pattern_acp.db.backup import back_up
from pattern_acp.domain.errors import DatabaseError
resource.setrlimit(resource.RLIMIT_FSIZE, (2_097_152, 2_097_152))
try:
    back_up(Path(sys.argv[1]), Path(sys.argv[2]))
except DatabaseError as error:
    print(error.sentence)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no limit of file sizes")
async def test_a_copy_that_is_larger_than_a_file_may_be_says_which_limit_to_raise(tmp_path: Path):
    path, target = tmp_path / "constellation.db", tmp_path / "copy.db"
    await make(path, "a")
    blob = "INSERT INTO blobs (hash, size, encoding, content) VALUES ('large', 1, 'raw', zeroblob(3000000))"
    change_file(path, lambda tx: tx.execute(blob))
    done = await anyio.run_process([sys.executable, "-B", "-c", LIMITED, str(path), str(target)])
    said = done.stdout.decode()
    assert said.startswith(f"The constellation {target} is as large as a file may be here (2,097,152 bytes); raise")
    assert "ulimit -f unlimited" in said
    assert not target.exists()
