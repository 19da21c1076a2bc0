"""The diagnosis, on a screen, through a pipe and as JSON."""

import json
import os
from pathlib import Path

import anyio
import pytest
from inline_snapshot import snapshot

from pattern_acp.bootstrap.diagnosis import Diagnosis
from pattern_acp.bootstrap.process import start_process
from pattern_acp.cli.arguments import Doctor
from pattern_acp.cli.rendering import lines_of, plain
from pattern_acp.cli.setup import in_folder, run_doctor
from pattern_acp.config.settings import Flags
from pattern_acp.db.connection import open_database
from pattern_acp.domain.clock import SystemClock
from pattern_acp.recovery.backups import make_backup
from pattern_acp.recovery.checks import Finding, Health

OK = Finding("Python", Health.OK, "3.11.7")
SETTING = Finding("Setting mode", Health.OK, "ask from default")
NOTE = Finding("Text search", Health.NOTE, "ripgrep is not installed; our own search is used.", "Install ripgrep.")
BROKEN = Finding("Database", Health.BROKEN, "The file is damaged.", "Restore a backup.")


def shown(*findings: Finding, width: int | None = None, whole: bool = True) -> str:
    lines = lines_of(Diagnosis(findings, whole).document, width)
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def test_a_terminal_has_settings_below_the_findings_and_remedies_on_lines_of_their_own():
    assert shown(OK, SETTING, NOTE, width=60) == snapshot("""\
STATE  WHAT         DETAIL
note   Text search  ripgrep is not installed; our own search
                    is used.
                    Remedy: Install ripgrep.
ok     Python       3.11.7

Settings
STATE  WHAT  DETAIL
ok     mode  ask from default

Everything that is needed works; 1 remark above.\
""")


def test_what_is_broken_comes_first_and_in_the_last_sentence():
    assert shown(OK, BROKEN, width=60) == snapshot("""\
STATE   WHAT      DETAIL
broken  Database  The file is damaged.
                  Remedy: Restore a backup.
ok      Python    3.11.7

Broken: Database.\
""")
    [(_, style)] = lines_of(Diagnosis((BROKEN,)).document)[-1]
    assert style == "bold red"


def test_a_pipe_gets_one_line_a_finding():
    assert shown(OK, NOTE) == snapshot("""\
STATE  WHAT         DETAIL
note   Text search  ripgrep is not installed; our own search is used. Remedy: Install ripgrep.
ok     Python       3.11.7

Everything that is needed works; 1 remark above.\
""")


def test_what_is_well_is_counted_where_its_place_or_value_tells_nothing():
    chosen = Finding("Setting persona", Health.OK, "mallory from $PATTERN_ACP_PERSONA")
    log, cache = Finding("Log", Health.OK, "/state/log"), Finding("Cache", Health.OK, "/cache")
    system = Finding("System", Health.OK, "Linux")
    assert shown(OK, log, SETTING, chosen, cache, system, NOTE, BROKEN, whole=False) == snapshot("""\
STATE   WHAT         DETAIL
broken  Database     The file is damaged. Remedy: Restore a backup.
note    Text search  ripgrep is not installed; our own search is used. Remedy: Install ripgrep.
ok      Log          /state/log
ok      3 more       Python, Cache, System (pattern-acp doctor --all tells more)

Settings
STATE  WHAT     DETAIL
ok     persona  mallory from $PATTERN_ACP_PERSONA
ok     1 more   have their defaults (pattern-acp doctor --all lists them)

Broken: Database.\
""")


def test_a_file_cannot_steer_the_terminal():
    assert "\x1b" not in plain(Diagnosis((Finding("Setting x", Health.NOTE, "key \x1b[2J", "use \x1b[2J"),)).document)


@pytest.mark.parametrize(
    ("findings", "sentence"),
    [
        ((OK,), "Everything that is needed works."),
        ((OK, NOTE), "Everything that is needed works; 1 remark above."),
        ((OK, NOTE, NOTE), "Everything that is needed works; 2 remarks above."),
        ((BROKEN, NOTE), "Broken: Database."),
    ],
)
def test_the_summary_is_one_sentence(findings: tuple[Finding, ...], sentence: str):
    assert Diagnosis(findings).summary == sentence


def test_json_is_one_object_and_the_exit_code_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(tmp_path), "PATTERN_ACP_MODEL": "offline/offline"})
    assert run_doctor(Doctor(json=True), process) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is True
    assert {"name", "health", "detail", "remedy", "repair", "code"} == report["findings"][0].keys()
    database = tmp_path / "constellations" / "default" / "constellation.db"
    database.parent.mkdir(parents=True)
    database.write_bytes(b"not a database, and long enough to be taken for one" * 100)
    assert run_doctor(Doctor(), process) == 1
    said = capsys.readouterr().out
    assert "Broken: Database." in said
    assert " [database.corrupt] Remedy: " in said


def test_a_constellation_that_is_gone_though_it_can_be_had_back_is_broken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(tmp_path), "PATTERN_ACP_MODEL": "offline/offline"})
    path = process.loaded.paths.constellation_path("default")
    anyio.run(_make, path)
    make_backup(path, None, now_ms=0)
    path.unlink()
    for verify in (False, True):
        assert run_doctor(Doctor(json=True, verify=verify), process) == 1
        broken = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["health"] == "broken"]
        assert [(one["name"], one["code"]) for one in broken] == [("Database", "database.lost")]
        assert "pattern-acp restore --latest" in broken[0]["detail"]
    assert not path.exists()


def test_the_settings_are_those_of_a_session_in_the_folder(tmp_path: Path):
    project = tmp_path / "shop"
    (project / ".pattern").mkdir(parents=True)
    (project / ".pattern" / "config.toml").write_text('mode = "plan"\npersona = "mallory"\n')
    process = in_folder(start_process(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)}), project)
    assert process.loaded.settings.mode == "plan"
    assert [problem.key for problem in process.loaded.problems] == ["persona"]


def test_repairs_that_lose_nothing_are_done_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    process = start_process(Flags(), {"PATTERN_ACP_HOME": str(tmp_path), "PATTERN_ACP_MODEL": "offline/offline"})
    path = process.loaded.paths.constellation_path("default")
    anyio.run(_make, path)
    assert run_doctor(Doctor(repair=True, verify=True), process) == 0
    said = capsys.readouterr().out
    assert "Nothing can be repaired" in said
    assert "Verified journal" in said
    leftover = path.with_name("constellation.db.restoring")
    leftover.touch()
    os.utime(leftover, (1, 1))
    assert run_doctor(Doctor(repair=True, json=True), process) == 0
    [repaired] = json.loads(capsys.readouterr().out)["repaired"]
    assert (repaired["action"], repaired["target"], repaired["safe"]) == ("move", str(leftover), True)
    assert not leftover.exists()


async def _make(path: Path) -> None:
    async with open_database(path, clock=SystemClock()):
        pass
