"""The index file: where it is, and that any state of it can be opened."""

from pathlib import Path

import pytest

from pattern_acp.codemap.store import INDEX_VERSION, files_at, index_path, open_index, references_to, symbols_named
from pattern_acp.db.connection import Transaction
from pattern_acp.domain.clock import SystemClock

CLOCK = SystemClock()


def add_file(tx: Transaction, path: str) -> int:
    return tx.insert(
        "INSERT INTO files (path, base_name, language, status, size, mtime_ns, ctime_ns, inode, read_ns, content_hash, "
        "lines, is_test, note) VALUES (?, ?, 'python', 'parsed', 1, 1, 1, 1, 1, 'x', 1, 0, '')",
        (path, path.rpartition("/")[2]),
    )


async def paths_in(index: Path) -> list[str]:
    async with open_index(index, clock=CLOCK) as database:
        return [record.path for record in await database.read(lambda tx: files_at(tx, ""))]


async def test_what_was_written_is_there_after_opening_again(tmp_path: Path):
    index = index_path(tmp_path, "/work")
    async with open_index(index, clock=CLOCK) as database:
        await database.write(lambda tx: add_file(tx, "a.py"))
    assert await paths_in(index) == ["a.py"]


@pytest.mark.parametrize("damage", [b"", b"not a database" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
async def test_a_damaged_file_is_replaced_by_an_empty_index(tmp_path: Path, damage: bytes):
    index = index_path(tmp_path, "/work")
    index.parent.mkdir(parents=True)
    index.write_bytes(damage)
    assert await paths_in(index) == []


async def test_an_older_version_is_deleted_and_a_newer_one_left_alone(tmp_path: Path):
    index = index_path(tmp_path, "/work")
    index.parent.mkdir(parents=True)
    older, newer = index.with_name(f"index-{INDEX_VERSION - 1}.db"), index.with_name(f"index-{INDEX_VERSION + 1}.db")
    older.touch()
    newer.touch()
    await paths_in(index)
    assert (older.exists(), newer.exists()) == (False, True)


def test_two_roots_have_two_files_and_a_link_to_a_root_has_its_file(tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "root")
    assert index_path(tmp_path, str(tmp_path / "root")) == index_path(tmp_path, str(tmp_path / "link"))
    assert index_path(tmp_path, str(tmp_path / "root")) != index_path(tmp_path, str(tmp_path))


async def test_files_are_read_one_by_one_or_by_folder(tmp_path: Path):
    async with open_index(tmp_path / "index.db", clock=CLOCK) as database:
        for path in ("a.py", "pkg/a.py", "pkg/sub/a.py", "pkg0/a.py", "pkg-x/a.py"):
            await database.write(lambda tx, path=path: add_file(tx, path))

        async def paths(where: str) -> list[str]:
            return [record.path for record in await database.read(lambda tx: files_at(tx, where))]

        assert await paths("pkg/") == ["pkg/a.py", "pkg/sub/a.py"]
        assert await paths("a.py") == ["a.py"]
        assert len(await paths("")) == 5
        assert await paths("none.py") == []


async def test_an_empty_index_answers_with_nothing(tmp_path: Path):
    async with open_index(tmp_path / "index.db", clock=CLOCK) as database:
        assert await database.read(lambda tx: symbols_named(tx, "a")) == []
        assert await database.read(lambda tx: references_to(tx, "a")) == []
