"""`pattern-acp backup` and `pattern-acp restore` in a terminal."""

import json
from pathlib import Path

import anyio
import pytest

from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.cli.arguments import BackUp, BadUsage, Restore, Sweep
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.backup import listed, run_backup, run_restore, run_sweep
from pattern_acp.cli.rendering import lines_of, plain
from pattern_acp.config.settings import Flags
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.journal.retention import size_text
from pattern_acp.recovery.backups import Backup


@pytest.fixture
def process(tmp_path: Path) -> Process:
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(tmp_path), "PATTERN_ACP_MODEL": "offline/offline"})
    anyio.run(_make, process.loaded.paths.constellation_path("default"))
    return process


async def _make(path: Path) -> None:
    async with open_database(path, clock=SystemClock()):
        pass


def test_the_arguments_say_what_is_meant():
    assert parse_arguments(["backup"]) == BackUp()
    assert parse_arguments(["backup", "-o", "x.db", "--json"]) == BackUp(output="x.db", json=True)
    assert parse_arguments(["backup", "--list"]) == BackUp(list_only=True)
    assert parse_arguments(["restore", "x.db"]) == Restore(file="x.db")
    assert parse_arguments(["restore", "--latest"]) == Restore()
    for words in (["restore"], ["restore", "x", "--latest"], ["backup", "--list", "-o", "x"], ["backup", "x"]):
        assert isinstance(parse_arguments(words), BadUsage)


def test_a_backup_is_made_listed_and_gone_back_to(process: Process, capsys: pytest.CaptureFixture[str]):
    assert run_backup(BackUp(list_only=True), process) == 0
    assert capsys.readouterr().out == "There are no backups yet.\n"
    assert run_backup(BackUp(), process) == 0
    assert "it was checked and can be restored" in capsys.readouterr().out
    assert run_backup(BackUp(list_only=True), process) == 0
    assert "backup-" in capsys.readouterr().out
    assert run_restore(Restore(), process) == 0
    assert "The state before it is in" in capsys.readouterr().out


def test_scripts_get_json(process: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run_backup(BackUp(output=str(tmp_path / "x.db"), json=True), process) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["bytes"] == (tmp_path / "x.db").stat().st_size
    assert run_backup(BackUp(list_only=True, json=True), process) == 0
    assert json.loads(capsys.readouterr().out) == {"backups": []}
    assert run_restore(Restore(file=str(tmp_path / "x.db"), json=True), process) == 0
    assert json.loads(capsys.readouterr().out)["restored"] == str(tmp_path / "x.db")


def test_sizes_are_read_at_a_glance():
    assert [size_text(size) for size in (0, 4096, 5_300_000, 7_120_000_000)] == [
        "0.0 kB",
        "4.1 kB",
        "5.3 MB",
        "7.12 GB",
    ]


def test_what_serves_nothing_is_shown_and_goes_only_when_asked(process: Process, capsys: pytest.CaptureFixture[str]):
    assert parse_arguments(["gc", "--dry-run", "--json"]) == Sweep(dry_run=True, json=True)
    old = process.loaded.paths.constellation_path("default").with_name("constellation.v1.5.backup.db")
    old.write_bytes(b"12345")
    assert run_sweep(Sweep(dry_run=True), process) == 0
    assert "0.0 kB would be deleted." in capsys.readouterr().out
    assert old.exists()
    assert run_sweep(Sweep(json=True), process) == 0
    swept = json.loads(capsys.readouterr().out)
    assert (swept["swept"], swept["bytes"], swept["found"][0]["path"]) == (True, 5, str(old))
    assert not old.exists()
    assert run_sweep(Sweep(), process) == 0
    assert "There is nothing to delete." in capsys.readouterr().out


def test_a_path_with_blanks_stays_whole_in_a_narrow_terminal():
    path = Path("/a folder/with many blanks/and a copy.db")
    parts = listed((Backup(path, "backup", 0, 1_000_000),)).document
    assert str(path) in "".join(text for text, _ in lines_of(parts, 20)[1])
    assert len(plain(parts).splitlines()) == 2
