"""What may go, and that nothing else goes."""

import json
from pathlib import Path

import anyio
import pytest

from pattern_acp.config.settings import BackupSettings, RetentionSettings
from pattern_acp.db.connection import Transaction, change_file, open_database, read_file
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.writer import CONSTELLATION_STREAM, append
from pattern_acp.recovery.backups import list_backups, make_backup, stamp
from pattern_acp.recovery.garbage_collection import RetentionPolicy, find_sweepable, gc_summary, sweep
from pattern_acp.workspace.worker_tree import Leftover
from tests.support.constellation import FakeClock

NOW = FakeClock().now_ms()
DAY_MS = 24 * 3_600_000
POLICY = RetentionPolicy(NOW)


async def _make(path: Path) -> None:
    async with open_database(path, clock=FakeClock()):
        pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "constellation.db"
    anyio.run(_make, path)
    return path


def copy_to(path: Path, name: str) -> Path:
    target = path.parent / "backups" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if not name.endswith(".db"):
        target.mkdir()
        target = target / "constellation.db"
    target.write_bytes(bytes(1000))
    return target


def forget(tx: Transaction) -> None:
    seq = append(
        tx, CONSTELLATION_STREAM, SessionTitled("a title"), actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=NOW
    ).seq
    tx.execute("INSERT INTO redactions VALUES (?, ?, 'hash', ?)", (seq, seq, NOW))


def test_old_safety_copies_go_and_what_was_asked_for_stays(path: Path):
    make_backup(path, None, now_ms=NOW - 900 * DAY_MS)
    snapshot = copy_to(path, f"snapshot-{stamp(NOW - 40 * DAY_MS)}.db")
    old = copy_to(path, f"before-restore-{stamp(NOW - 40 * DAY_MS)}")
    new = copy_to(path, f"before-restore-{stamp(NOW - DAY_MS)}")
    migration = path.with_name(f"constellation.v3.{NOW - 40 * DAY_MS}.backup.db")
    migration.write_bytes(b"12345")
    found = find_sweepable(path, POLICY)
    assert {(one.path, one.size, one.reason) for one in found} == {
        (str(old.parent), 1000, "older than 30 days"),
        (str(migration), 5, "older than 30 days"),
    }
    sweep(path, found, POLICY)
    assert find_sweepable(path, POLICY) == []
    assert new.exists()
    assert snapshot.exists()
    assert [one.kind for one in list_backups(path)] == ["snapshot", "backup"]


def test_copies_that_may_hold_forgotten_words_go(path: Path):
    before = copy_to(path, f"snapshot-{stamp(NOW - DAY_MS)}.db")
    after = copy_to(path, f"snapshot-{stamp(NOW + DAY_MS)}.db")
    change_file(path, forget)
    found = find_sweepable(path, POLICY)
    assert [(one.path, "forgotten" in one.reason) for one in found] == [(str(before), True)]
    sweep(path, found, POLICY)
    assert (before.exists(), after.exists()) == (False, True)


def test_payloads_of_no_event_go_and_those_of_events_stay(path: Path):
    def add(tx: Transaction) -> None:
        long = SessionTitled("x" * 20_000)
        append(tx, SessionId("s"), long, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=NOW)
        tx.execute("INSERT INTO blobs (hash, size, encoding, content) VALUES ('lost', 3, 'raw', x'010203')")

    change_file(path, add)
    found = find_sweepable(path, POLICY)
    assert [(one.path, one.size, one.reason) for one in found] == [("", 3, "1 large payload of no event")]
    sweep(path, found, POLICY)
    assert find_sweepable(path, POLICY) == []
    assert read_file(path, lambda tx: tx.one("SELECT count(*) FROM blobs")) == (1,)


def test_folders_of_workers_that_were_killed_go_with_what_their_repository_notes_of_them(tmp_path: Path, path: Path):
    folder, repository = tmp_path / "worker", tmp_path / "project" / ".git"
    noted = repository / "worktrees" / "tree"
    for each in (folder / "tree", noted):
        each.mkdir(parents=True)
    (noted / "gitdir").write_text(f"{folder / 'tree' / '.git'}\n")
    owner = {"pid": 1, "mark": "", "host": "host"}
    (folder / "owner.json").write_text(json.dumps({"owner": owner, "common_dir": str(repository)}))
    policy = RetentionPolicy(NOW, worker_folders=(Leftover(str(folder), 10),))
    for constellation in (tmp_path / "none.db", path):
        (found,) = find_sweepable(constellation, policy)
        assert (found.kind, found.path, found.size) == ("worker folder", str(folder), 10)
    sweep(path, [found], policy)
    assert not folder.exists()
    assert not noted.exists()


def test_without_a_constellation_there_is_nothing(tmp_path: Path):
    assert find_sweepable(tmp_path / "none.db", POLICY) == []


def test_snapshots_beyond_their_room_go_but_the_newest(path: Path):
    taken = [copy_to(path, f"snapshot-{stamp(NOW - days * DAY_MS)}.db") for days in (1, 2, 3)]
    made = make_backup(path, None, now_ms=NOW)
    two = RetentionPolicy(NOW, RetentionSettings(snapshots_mb=1))
    taken[0].write_bytes(bytes(2_000_000))
    found = find_sweepable(path, two)
    assert [(one.path, one.reason) for one in found] == [
        (str(each), "beyond retention.snapshots_mb") for each in taken[1:]
    ]
    sweep(path, found, two)
    assert taken[0].exists()
    assert made.path.exists()


def test_segments_that_are_not_wanted_any_more_go(path: Path):
    segment = path.parent / "segments" / "0001" / "seg-000000000001.jsonl"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(bytes(10))
    assert find_sweepable(path, POLICY) == []
    unwanted = RetentionPolicy(NOW, backup=BackupSettings(segments=False))
    found = find_sweepable(path, unwanted)
    assert [(one.kind, one.size, one.reason) for one in found] == [("segments", 10, "backup.segments is false")]
    sweep(path, found, unwanted)
    assert not segment.parent.exists()


def test_a_start_tells_what_gc_would_free_only_when_it_is_as_much_as_the_person_said(path: Path):
    copy_to(path, f"before-restore-{stamp(NOW - 40 * DAY_MS)}").write_bytes(bytes(1_500_000))
    told = gc_summary(path, RetentionPolicy(NOW, RetentionSettings(tell_mb=1)))
    assert told == "`pattern-acp gc` would free 1.5 MB; `pattern-acp gc --dry-run` shows what."
    assert gc_summary(path, RetentionPolicy(NOW, RetentionSettings(tell_mb=2))) == ""
    assert gc_summary(path, POLICY) == ""
