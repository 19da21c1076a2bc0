"""Which backups there are, when a snapshot is due, which stay, and going back."""

import os
from pathlib import Path

import anyio
import pytest

from pattern_acp.config.settings import BackupSettings
from pattern_acp.db.connection import open_database, read_file
from pattern_acp.db.errors import DatabaseCorruptError
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.recovery.backups import (
    HOUR_MS,
    Backup,
    keep_snapshots,
    list_backups,
    lost_constellation,
    make_backup,
    restore,
    snapshots_to_keep,
    stamp,
    take_snapshot,
)
from tests.support.constellation import FakeClock

NOW = 1_800_000_000_000 - 1_800_000_000_000 % HOUR_MS + 60_000
DAY_MS = 24 * HOUR_MS
SETTINGS = BackupSettings()


async def make(path: Path, *blobs: str) -> None:
    async with open_database(path, clock=FakeClock()) as database:
        for blob in blobs:
            await database.write(
                lambda tx, blob=blob: tx.execute(
                    "INSERT INTO blobs (hash, size, encoding, content) VALUES (?, 1, 'raw', x'00')", (blob,)
                )
            )


def blobs(path: Path) -> list[object]:
    return [row[0] for row in read_file(path, lambda tx: tx.all("SELECT hash FROM blobs ORDER BY hash"))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "constellation.db"
    anyio.run(make, path, "a")
    touch(path, NOW - HOUR_MS)
    return path


def touch(path: Path, at_ms: int) -> None:
    os.utime(path, (at_ms / 1000, at_ms / 1000))


def snapshot(at_ms: int) -> Backup:
    return Backup(Path(f"snapshot-{stamp(at_ms)}.db"), "snapshot", at_ms, 1)


def test_a_copy_that_was_asked_for_is_listed(path: Path, tmp_path: Path):
    made = make_backup(path, None, now_ms=NOW)
    assert made.path == tmp_path / "backups" / f"backup-{stamp(NOW)}.db"
    outside = make_backup(path, tmp_path / "mine.db", now_ms=NOW)
    assert outside.path.exists()
    (tmp_path / "constellation.v3.1234.backup.db").touch()
    (tmp_path / "backups" / "notes.txt").touch()
    (tmp_path / "backups" / "backup-99999999T999999Z.db").touch()
    assert [(one.kind, one.at_ms) for one in list_backups(path)] == [
        ("backup", NOW // 1000 * 1000),
        ("migration", 1234),
    ]


def test_two_backups_and_two_restores_of_one_second_stand_beside_each_other(path: Path):
    made = [make_backup(path, None, now_ms=NOW).path.name for _ in range(3)]
    assert len(set(made)) == 3
    assert {one.path.name for one in list_backups(path)} == set(made)
    safe = [restore(path, None, now_ms=NOW)[1] for _ in range(2)]
    assert all(one is not None and (one / path.name).exists() for one in safe)
    assert len(set(safe)) == 2


def test_what_cannot_be_copied_is_said(path: Path, tmp_path: Path):
    with pytest.raises(DatabaseError, match="first session makes it"):
        make_backup(tmp_path / "none.db", None, now_ms=NOW)
    with pytest.raises(DatabaseError, match="exists already"):
        make_backup(path, path, now_ms=NOW)
    (tmp_path / "backups").write_text("a file", encoding="utf-8")
    with pytest.raises(DatabaseError, match="cannot be written"):
        make_backup(path, None, now_ms=NOW)


def test_a_snapshot_is_taken_once_an_hour_when_something_was_written(path: Path):
    assert take_snapshot(path, SETTINGS, now_ms=NOW) is not None
    assert take_snapshot(path, SETTINGS, now_ms=NOW + 60_000) is None
    taken = list_backups(path)[0]
    touch(taken.path, NOW)
    assert take_snapshot(path, SETTINGS, now_ms=NOW + HOUR_MS) is None
    touch(path, NOW + HOUR_MS)
    assert take_snapshot(path, SETTINGS, now_ms=NOW + HOUR_MS) is not None
    assert len(list_backups(path)) == 2


def test_a_clock_that_was_ahead_does_not_stop_snapshots(path: Path):
    assert take_snapshot(path, SETTINGS, now_ms=NOW + 1000 * DAY_MS) is not None
    assert take_snapshot(path, SETTINGS, now_ms=NOW) is not None


def test_no_snapshot_is_taken_of_nothing_or_when_none_is_wanted(path: Path, tmp_path: Path):
    assert take_snapshot(path, BackupSettings(0, 0, 0), now_ms=NOW) is None
    assert take_snapshot(tmp_path / "none.db", SETTINGS, now_ms=NOW) is None


def test_a_snapshot_that_another_process_is_taking_is_left_to_it(path: Path, tmp_path: Path):
    folder = tmp_path / "backups"
    folder.mkdir()
    part = folder / f"snapshot-{stamp(NOW - 60_000)}.db.part"
    part.touch()
    touch(part, NOW)
    assert take_snapshot(path, SETTINGS, now_ms=NOW) is None
    touch(part, NOW - 2 * HOUR_MS)
    assert take_snapshot(path, SETTINGS, now_ms=NOW) is not None
    assert not part.exists()


def test_snapshots_that_are_not_kept_leave_and_backups_stay(path: Path):
    make_backup(path, None, now_ms=NOW - 900 * DAY_MS)
    for hours in range(4):
        touch(path, NOW + hours * HOUR_MS)
        assert take_snapshot(path, BackupSettings(2, 0, 0), now_ms=NOW + hours * HOUR_MS) is not None
        touch(list_backups(path)[0].path, NOW + hours * HOUR_MS)
    assert [one.kind for one in list_backups(path)] == ["snapshot", "snapshot", "backup"]


def test_the_newest_of_each_hour_day_and_month_stay():
    every_hour = [snapshot(NOW - hours * HOUR_MS) for hours in range(24 * 400)]
    stay = sorted(snapshots_to_keep(every_hour, SETTINGS), key=lambda one: one.at_ms, reverse=True)
    assert stay[:24] == every_hour[:24]
    assert 24 + 5 <= len(stay) <= 24 + 7 + 6
    assert stay[-1].at_ms > NOW - 190 * DAY_MS
    assert snapshots_to_keep(every_hour, BackupSettings(0, 0, 0)) == frozenset()


def test_going_back_uses_the_newest_copy_that_is_sound(path: Path, tmp_path: Path):
    make_backup(path, None, now_ms=NOW)
    anyio.run(make, path, "b")
    damaged = tmp_path / "backups" / f"backup-{stamp(NOW + HOUR_MS)}.db"
    damaged.write_bytes(b"\xff" * 5000)
    used, safety = restore(path, None, now_ms=NOW)
    assert (used.name, blobs(path)) == (f"backup-{stamp(NOW)}.db", ["a"])
    assert safety is not None
    assert blobs(safety / "constellation.db") == ["a", "b"]
    assert restore(path, safety / "constellation.db", now_ms=NOW + 1000)[0] == safety / "constellation.db"
    assert blobs(path) == ["a", "b"]


def test_a_snapshot_is_newer_than_a_backup_of_the_same_hour_that_was_made_before(path: Path):
    backup = make_backup(path, None, now_ms=NOW)
    touch(backup.path, 1000)
    snapshot = take_snapshot(path, SETTINGS, now_ms=NOW + 1000)
    assert snapshot is not None
    assert restore(path, None, now_ms=NOW + 2000)[0] == snapshot.path


def test_going_back_to_nothing_is_refused(path: Path, tmp_path: Path):
    with pytest.raises(DatabaseError, match="There is no backup of"):
        restore(path, None, now_ms=NOW)
    with pytest.raises(DatabaseError, match="There is no file"):
        restore(path, tmp_path / "none.db", now_ms=NOW)
    (tmp_path / "diary").write_bytes(b"dear diary " * 500)
    with pytest.raises(DatabaseCorruptError):
        restore(path, tmp_path / "diary", now_ms=NOW)
    assert blobs(path) == ["a"]


def test_a_constellation_that_is_gone_is_noticed_where_there_are_backups(path: Path):
    assert lost_constellation(path) == ""
    make_backup(path, None, now_ms=NOW)
    assert lost_constellation(path) == ""
    path.write_bytes(b"")
    assert "was empty, so a new one was begun" in lost_constellation(path)
    path.unlink()
    assert "was missing, so a new one was begun" in lost_constellation(path)
    list_backups(path)[0].path.unlink()
    assert lost_constellation(path) == ""


async def test_snapshots_go_on_after_one_that_failed(path: Path, caplog: pytest.LogCaptureFixture):
    pauses = iter([None, None])
    ended = anyio.Event()

    async def pause() -> None:
        if next(pauses, "end") == "end":
            ended.set()
            await anyio.sleep_forever()
        backups = path.parent / "backups"
        await anyio.Path(backups).unlink(missing_ok=True) if failed else await anyio.Path(backups).touch()
        failed.append(True)

    failed: list[bool] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_snapshots, path, SETTINGS, FakeClock(NOW), pause)
        with anyio.fail_after(30):
            await ended.wait()
        tasks.cancel_scope.cancel()
    assert "could not be taken" in caplog.text
    assert len(list_backups(path)) == 1
