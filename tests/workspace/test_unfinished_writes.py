"""Files that a process leaves in a project when it is killed in an edit go at the next start, and nothing else does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.leases import is_running
from pattern_acp.workspace.local_files import ELSEWHERE_MS, LocalFileSystem, UnfinishedWrites, temporary_beside

NOW = SystemClock().now_ms()

DIES_WRITING = """
import os, signal, sys
from pathlib import Path
from pattern_acp.workspace.local_files import UnfinishedWrites, temporary_beside
target = Path(sys.argv[2])
beside = temporary_beside(target)
with UnfinishedWrites(Path(sys.argv[1]), os.getpid()).noted(beside):
    beside.write_text("half", encoding="utf-8")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def alive(_pid: int, _mark: str) -> bool:
    return True


def dead(_pid: int, _mark: str) -> bool:
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="a process cannot kill itself there")
def test_what_a_killed_process_was_writing_is_removed_at_the_next_start(tmp_path: Path):
    notes, project = tmp_path / "notes", tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("old", encoding="utf-8")
    subprocess.run([sys.executable, "-c", DIES_WRITING, str(notes), str(project / "a.txt")], check=False)
    assert len(names_in(project)) == 2
    assert UnfinishedWrites(notes).clear(is_running, NOW) == 1
    assert names_in(project) == ["a.txt"]
    assert (project / "a.txt").read_text(encoding="utf-8") == "old"
    assert names_in(notes) == []


async def test_a_write_leaves_no_note_and_works_without_a_place_for_one(tmp_path: Path):
    notes = tmp_path / "notes"
    target = tmp_path / "a.txt"
    await LocalFileSystem(UnfinishedWrites(notes)).write_text_file(str(target), "new")
    assert names_in(notes) == []
    (tmp_path / "file").touch()
    await LocalFileSystem(UnfinishedWrites(tmp_path / "file" / "notes")).write_text_file(str(target), "newer")
    assert target.read_text(encoding="utf-8") == "newer"


def test_the_files_of_a_process_that_runs_stay(tmp_path: Path):
    unfinished = UnfinishedWrites(tmp_path / "notes")
    beside = temporary_beside(tmp_path / "a.txt")
    with unfinished.noted(beside):
        beside.touch()
        assert unfinished.clear(alive, NOW) == 0
        assert beside.exists()


def test_a_process_of_another_machine_counts_as_running_for_a_day(tmp_path: Path):
    notes, beside = tmp_path / "notes", temporary_beside(tmp_path / "a.txt")
    with UnfinishedWrites(notes, host="container").noted(beside):
        beside.touch()
        here = UnfinishedWrites(notes, host="here")
        assert here.clear(dead, NOW) == 0
        assert beside.exists()
        assert here.clear(dead, NOW + ELSEWHERE_MS + 3_600_000) == 1
        assert not beside.exists()


async def test_a_file_that_was_set_aside_gets_its_name_back(tmp_path: Path):
    unfinished = UnfinishedWrites(tmp_path / "notes")
    target = tmp_path / "project" / "a.txt"
    target.parent.mkdir()
    target.write_text("mine", encoding="utf-8")
    await LocalFileSystem(unfinished).move_file(str(target), str(temporary_beside(target)))
    assert unfinished.clear(dead, NOW) == 1
    assert target.read_text(encoding="utf-8") == "mine"
    assert names_in(target.parent) == ["a.txt"]


@pytest.mark.parametrize("ends_by", ["removing", "moving back"])
async def test_a_file_that_was_set_aside_and_is_not_any_more_has_no_note(tmp_path: Path, ends_by: str):
    files = LocalFileSystem(UnfinishedWrites(tmp_path / "notes"))
    target = tmp_path / "a.txt"
    target.write_text("mine", encoding="utf-8")
    beside = str(temporary_beside(target))
    await files.move_file(str(target), beside)
    assert len(names_in(tmp_path / "notes")) == 1
    if ends_by == "removing":
        await files.remove_file(beside)
    else:
        await files.move_file(beside, str(target))
    assert names_in(tmp_path / "notes") == []


def test_no_note_removes_what_it_does_not_name(tmp_path: Path):
    notes = tmp_path / "notes"
    notes.mkdir()
    mine, theirs = tmp_path / "mine.txt", tmp_path / ".a.txt.0123456789ab.tmp"
    mine.touch()
    theirs.touch()
    about = {"pid": 1, "mark": "", "host": "", "aside": None}
    (notes / "0123456789ab").write_text(json.dumps({**about, "temporary": str(mine)}), encoding="utf-8")
    (notes / "ba9876543210").write_text(json.dumps({**about, "temporary": str(theirs)}), encoding="utf-8")
    (notes / "odd").write_bytes(b"\xff not JSON")
    assert UnfinishedWrites(notes).clear(dead, NOW) == 0
    assert mine.exists()
    assert theirs.exists()


def test_a_link_in_the_place_of_a_temporary_file_is_left_alone(tmp_path: Path):
    unfinished = UnfinishedWrites(tmp_path / "notes")
    beside, mine = temporary_beside(tmp_path / "a.txt"), tmp_path / "mine.txt"
    mine.touch()
    with unfinished.noted(beside):
        beside.symlink_to(mine)
        assert unfinished.clear(dead, NOW) == 0
    assert mine.exists()
