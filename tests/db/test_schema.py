import re
from pathlib import Path

import apsw

import pattern_acp.db
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import APPLICATION_ID, load_migrations, migrate
from pattern_acp.db.raw import RawConnection, connect

SCHEMA = Path(pattern_acp.db.__file__).parent / "schema.sql"


def described(raw: RawConnection) -> dict[str, object]:
    """Everything that SQLite says about the schema, comments and white space aside."""
    described: dict[str, object] = {}
    for kind, name, sql in raw.execute("SELECT type, name, sql FROM sqlite_schema").fetchall():
        lines = (line.partition("--")[0] for line in str(sql).splitlines())
        # ALTER TABLE writes a blank before its comma and none before the last bracket.
        text = re.sub(r" (?=[,)])", "", " ".join(" ".join(lines).split()))
        columns = raw.execute("SELECT * FROM pragma_table_xinfo(?)", (name,)).fetchall()
        indexes = raw.execute("SELECT * FROM pragma_index_list(?) ORDER BY name", (name,)).fetchall()
        keys = raw.execute("SELECT * FROM pragma_foreign_key_list(?)", (name,)).fetchall()
        described[f"{kind} {name}"] = (text, columns, indexes, keys)
    return described


def test_schema_and_migrations_describe_the_same_database():
    by_schema, by_migrations = (connect(":memory:", flags=apsw.SQLITE_OPEN_READWRITE) for _ in range(2))
    by_schema.execute(SCHEMA.read_text(encoding="utf-8")).fetchall()
    for migration in load_migrations():
        by_migrations.execute(migration.sql).fetchall()
    assert described(by_schema) == described(by_migrations)


def made(path: Path, *, first: int) -> tuple[dict[str, object], list[object], dict[str, object]]:
    """A file that began with the first migrations and got the others later: schema, header and triggers, all rows."""
    driver = ApswConnection(path, read_only=False, busy_seconds=5)
    driver.open()
    migrate(driver, load_migrations()[:first], now_ms=1)
    migrate(driver, load_migrations(), now_ms=1)
    names = driver.raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    # What was there before a migration is copied, and a row says where.
    rows: dict[str, object] = {
        str(name): driver.raw.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608  names of our schema
        for (name,) in names
        if name != "backups"
    }
    # SQLite runs triggers in the order in which they were made.
    triggers = driver.raw.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger' ORDER BY rowid").fetchall()
    header: list[object] = [driver.raw.pragma("application_id"), driver.raw.pragma("user_version"), *triggers]
    schema = described(driver.raw)
    driver.close()
    return schema, header, rows


def test_a_new_file_is_what_an_old_one_becomes(tmp_path: Path):
    newest = len(load_migrations())
    whole = made(tmp_path / "new.db", first=newest)
    assert whole == made(tmp_path / "old.db", first=1) == made(tmp_path / "older.db", first=newest // 2)
    assert whole[1][:2] == [APPLICATION_ID, newest]


def test_every_table_is_strict():
    raw = connect(":memory:", flags=apsw.SQLITE_OPEN_READWRITE)
    raw.execute(SCHEMA.read_text(encoding="utf-8")).fetchall()
    loose = raw.execute(
        "SELECT name FROM pragma_table_list WHERE type = 'table' AND schema = 'main' AND NOT strict"
        " AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    assert loose == []


def test_every_state_table_names_the_event_it_follows_from():
    raw = connect(":memory:", flags=apsw.SQLITE_OPEN_READWRITE)
    raw.execute(SCHEMA.read_text(encoding="utf-8")).fetchall()
    journal_itself = {"events", "blobs"}
    without_history = {
        "leases",
        "claims",
        "reservations",
        "backups",
        "search_fts",
        "embedding_models",
        "embedding_queue",
        "index_leftovers",
        "vector_codes",
        "replica_forgettings",
        "replica_marks",
        "sync_device",
        "sync_forgettings",
        "sync_peers",
        "sync_sessions",
    }
    for (name,) in raw.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        table = str(name)
        if table in journal_itself | without_history or table.startswith(("sqlite_", "search_fts_")):
            continue
        keys = raw.execute('SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)', (table,)).fetchall()
        assert ("last_seq", "events", "seq") in keys, f"{table} breaks rule R1"
