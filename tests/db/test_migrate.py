import subprocess
import sys
import textwrap
from pathlib import Path

import apsw
import pytest

from pattern_acp.db.connection import Transaction, open_database, open_for_reading
from pattern_acp.db.migrate import APPLICATION_ID, Migration, load_migrations
from pattern_acp.db.raw import connect
from pattern_acp.domain.errors import DatabaseError
from tests.support.constellation import FakeClock

NEWEST = len(load_migrations())
NEXT = Migration(
    NEWEST + 1, "9999_moods", "CREATE TABLE moods (name TEXT NOT NULL) STRICT; INSERT INTO moods VALUES ('calm');"
)
BROKEN = Migration(NEWEST + 1, "9999_broken", "CREATE TABLE moods (name TEXT) STRICT; INSERT INTO nowhere VALUES (1);")


def tables(tx: Transaction) -> set[str]:
    return {str(row[0]) for row in tx.all("SELECT name FROM sqlite_schema WHERE type = 'table'")}


def header(path: Path) -> tuple[object, object]:
    raw = connect(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    numbers = raw.pragma("application_id"), raw.pragma("user_version")
    raw.close()
    return numbers


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


async def create(path: Path) -> None:
    async with open_database(path, clock=FakeClock()) as database:
        await database.write(lambda tx: tx.execute("INSERT INTO blobs VALUES ('kept', 0, 'raw', x'')"))


def test_migrations_are_numbered_without_a_gap():
    migrations = load_migrations()
    assert [migration.version for migration in migrations] == list(range(1, len(migrations) + 1))


async def test_a_new_file_gets_the_newest_version_and_no_backup(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with open_database(path, clock=FakeClock()) as database:
        assert await database.read(lambda tx: tx.all("SELECT * FROM backups")) == []
    assert names(tmp_path) == ["constellation.db"]
    assert header(path) == (APPLICATION_ID, len(load_migrations()))


async def test_opening_again_changes_nothing(tmp_path: Path):
    path = tmp_path / "constellation.db"
    await create(path)
    before = path.read_bytes()
    async with open_database(path, clock=FakeClock()):
        pass
    assert path.read_bytes() == before


async def test_an_older_file_is_copied_before_it_is_changed(tmp_path: Path):
    path = tmp_path / "constellation.db"
    await create(path)
    clock = FakeClock(1234)
    async with open_database(path, clock=clock, migrations=(*load_migrations(), NEXT)) as database:
        assert await database.read(lambda tx: tx.all("SELECT name FROM moods")) == [("calm",)]
        assert database.facts.schema_version == NEWEST + 1
        rows = await database.read(lambda tx: tx.all("SELECT at_ms, from_version, to_version, path FROM backups"))
    assert rows == [(1234, NEWEST, NEWEST + 1, f"constellation.v{NEWEST}.1234.backup.db")]
    backup = tmp_path / f"constellation.v{NEWEST}.1234.backup.db"
    assert header(backup) == (APPLICATION_ID, NEWEST)
    async with open_database(backup, clock=clock) as database:
        assert await database.read(lambda tx: tx.all("SELECT hash FROM blobs")) == [("kept",)]


async def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path):
    path = tmp_path / "constellation.db"
    await create(path)
    with pytest.raises(DatabaseError, match="nowhere"):
        async with open_database(path, clock=FakeClock(), migrations=(*load_migrations(), BROKEN)):
            pass
    assert header(path) == (APPLICATION_ID, NEWEST)
    async with open_database(path, clock=FakeClock()) as database:
        assert "moods" not in await database.read(tables)


async def test_reading_an_older_file_does_not_migrate_it(tmp_path: Path):
    path = tmp_path / "constellation.db"
    await create(path)
    newer = (*load_migrations(), NEXT)
    async with open_database(path, clock=FakeClock(), read_only=True, migrations=newer) as database:
        assert database.facts.schema_version == NEWEST
    assert header(path) == (APPLICATION_ID, NEWEST)


async def test_an_older_file_is_migrated_before_it_is_read_as_this_program_knows_it(tmp_path: Path):
    path = tmp_path / "constellation.db"
    async with open_database(path, clock=FakeClock(), migrations=load_migrations()[:6]):
        pass
    async with open_for_reading(path, clock=FakeClock()) as database:
        assert await database.read(lambda tx: tx.all("SELECT archived FROM sessions")) == []
    assert header(path) == (APPLICATION_ID, NEWEST)
    async with open_for_reading(path, clock=FakeClock()) as database:
        assert database.facts.read_only


def test_several_processes_may_create_one_file_at_once(tmp_path: Path):
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        import anyio
        from pattern_acp.db.connection import open_database
        from pattern_acp.domain.clock import SystemClock

        async def main():
            sys.stdin.readline()
            async with open_database(Path(sys.argv[1]), clock=SystemClock()) as database:
                await database.write(lambda tx: tx.execute("UPDATE blobs SET size = 0"))
                print(database.facts.schema_version)

        anyio.run(main)
    """)
    command = [sys.executable, "-c", script, str(tmp_path / "new" / "constellation.db")]
    children = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )
        for _ in range(3)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
    results = [child.communicate(timeout=50) for child in children]
    assert [result[0] for result in results] == [f"{len(load_migrations())}\n"] * 3, results
