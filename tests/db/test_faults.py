"""Damage to the files of a constellation: what was acknowledged is read, or a sentence says why not; nothing is lost
by looking."""

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.db.backup import quick_check
from pattern_acp.db.connection import read_file
from pattern_acp.db.driver import ApswConnection
from pattern_acp.db.migrate import load_migrations, migrate
from pattern_acp.db.transaction import Transaction
from pattern_acp.domain.errors import DatabaseError

COMMITS = 8
FLIPS = 150
STEP = 512


def add(tx: Transaction, number: int) -> None:
    tx.execute(
        "INSERT INTO blobs (hash, size, encoding, content) VALUES (?, 1, 'raw', zeroblob(900))", (f"{number:03}",)
    )


def numbers(tx: Transaction) -> list[int]:
    return [int(str(row[0])) for row in tx.all("SELECT hash FROM blobs ORDER BY hash")]


def look(path: Path) -> tuple[str, int]:
    """What is said about the file, and how many rows were read."""
    try:
        problems = read_file(path, quick_check)
        count = read_file(path, lambda tx: len(tx.all("SELECT hash FROM blobs")))
    except DatabaseError as error:
        return error.sentence, 0
    return f"{len(problems)} problems.", count


@pytest.fixture
def running(tmp_path: Path) -> Path:
    """A constellation with everything in the write-ahead log but its schema, as a process that died leaves it."""
    path = tmp_path / "running" / "constellation.db"
    driver = ApswConnection(path, read_only=False, busy_seconds=1)
    driver.open()
    migrate(driver, load_migrations(), now_ms=1)
    driver.checkpoint()
    for number in range(COMMITS):
        driver.write(lambda tx, number=number: add(tx, number))
    left = tmp_path / "left" / "constellation.db"
    left.parent.mkdir()
    for ending in ("", "-wal"):
        shutil.copyfile(f"{path}{ending}", f"{left}{ending}")
    driver.close()
    return left


def start(path: Path) -> tuple[list[int], tuple[str, ...]]:
    """What a process that starts on the file reads, and what is wrong with it."""
    driver = ApswConnection(path, read_only=False, busy_seconds=1)
    try:
        driver.open()
        return driver.read(numbers), driver.read(quick_check)
    finally:
        driver.close()


def test_a_log_that_was_cut_anywhere_gives_what_was_committed_before(running: Path, tmp_path: Path):
    log = Path(f"{running}-wal").read_bytes()
    seen: list[int] = []
    for length in range(0, len(log) + 1, STEP):
        path = tmp_path / "cut" / "constellation.db"
        path.parent.mkdir()
        shutil.copyfile(running, path)
        Path(f"{path}-wal").write_bytes(log[:length])
        found, problems = start(path)
        assert found == list(range(len(found))), length
        assert problems == (), length
        seen.append(len(found))
        shutil.rmtree(path.parent)
        if len(found) == COMMITS:
            break  # what follows in the log is older than a checkpoint
    assert seen == sorted(seen), "a longer log never gives less"
    assert (seen[0], max(seen)) == (0, COMMITS)


def test_a_log_that_is_gone_gives_the_state_of_the_file(running: Path):
    Path(f"{running}-wal").unlink()
    assert start(running) == ([], ())


def test_a_log_whose_middle_was_changed_ends_before_the_change(running: Path):
    log = bytearray(Path(f"{running}-wal").read_bytes())
    log[30_000] ^= 0x10
    Path(f"{running}-wal").write_bytes(log)
    found, problems = start(running)
    assert found == list(range(len(found)))
    assert (len(found) < COMMITS, problems) == (True, ())


def test_a_flipped_bit_anywhere_is_read_over_or_told_and_never_written_over(running: Path, tmp_path: Path):
    start(running)
    content = running.read_bytes()
    chosen = random.Random(5)
    for _ in range(FLIPS):
        damaged = bytearray(content)
        place = chosen.randrange(len(damaged))
        damaged[place] ^= 1 << chosen.randrange(8)
        path = tmp_path / "flipped.db"
        path.write_bytes(damaged)
        sentence, found = look(path)
        assert sentence.endswith("."), place
        assert found <= COMMITS, place
        assert path.read_bytes() == damaged, place


_WRITER = """
import resource, sys
from pathlib import Path
from pattern_acp.db.connection import change_file
from pattern_acp.domain.errors import DatabaseError
path = Path(sys.argv[1])
size = path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + int(sys.argv[2]), resource.RLIM_INFINITY))
sql = "INSERT INTO blobs (hash, size, encoding, content) VALUES (?, 1, 'raw', zeroblob(20000))"
for number in range(100, 200):
    try:
        change_file(path, lambda tx: tx.execute(sql, (str(number),)))
    except DatabaseError as error:
        print("refused", error.sentence)
        break
    print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize("room", [0, 4096, 65_536, 300_000])
def test_when_there_is_no_room_everything_acknowledged_is_kept_and_the_rest_is_told(running: Path, room: int):
    start(running)
    ended = subprocess.run(
        [sys.executable, "-B", "-c", _WRITER, str(running), str(room)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    *written, last = ended.stdout.splitlines()
    assert last.startswith("refused ")
    found, problems = start(running)
    assert problems == ()
    assert found == [*range(COMMITS), *(int(number) for number in written)]
