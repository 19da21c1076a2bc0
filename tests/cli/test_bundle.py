"""`pattern-acp bundle` in a terminal."""

import json
from pathlib import Path

import pytest

from pattern_acp.bootstrap.constellation import read_persona
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.main import run_with
from tests.support.bundles import MANIFEST, write_bundle
from tests.support.process import typed


def test_a_bundle_is_shown_installed_compared_updated_and_removed(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = write_bundle(tmp_path / "team")
    for words, code, told in (
        (("list",), 0, "No bundle is installed."),
        (("add", str(tmp_path)), 1, "it has no pattern-bundle.toml"),
        (("add", str(folder)), 1, "say --yes"),
        (("list",), 0, "No bundle is installed."),
        (("add", str(folder), "--yes"), 0, "is installed: 1 hook, 1 command, 1 skill, 1 persona and 2 files."),
        (("add", str(folder), "--yes"), 1, "is installed; `pattern-acp bundle update team"),
        (("show", "team"), 0, "echo NOTE-ONE"),
        (("show", "../x"), 1, "There is no bundle"),
        (("list",), 0, "at aaaaaaaaaaaa  in use"),
        (("update", "team"), 0, "is what its source has; nothing changed."),
    ):
        assert run_with(typed("bundle", *words), home) == code, words
        shown = capsys.readouterr()
        assert told in shown.out + shown.err, words
    assert "team's reviewer" in read_persona(home, "teamreview").prompt
    write_bundle(folder, note="echo NOTE-TWO\n")
    for words, code, told in (
        (("update", "team"), 1, "-echo NOTE-ONE\n  +echo NOTE-TWO"),
        (("update", "team", "--yes"), 0, "is up to date now"),
        (("remove", "team"), 1, "say --yes"),
        (("remove", "team", "--yes"), 0, "is removed, with all that it brought"),
        (("remove", "team", "--yes"), 1, "There is no bundle 'team'"),
        (("update", "team"), 1, "There is no bundle 'team'"),
        (("list",), 0, "No bundle is installed."),
    ):
        assert run_with(typed("bundle", *words), home) == code, words
        shown = capsys.readouterr()
        assert told in shown.out + shown.err, words
    assert not (home.loaded.paths.config / "bundles" / "team").exists()
    run_with(typed("trust", "list"), home)
    assert "No folder is trusted." in capsys.readouterr().out


def test_an_update_that_changes_a_hook_shows_the_command_before_it_runs(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = write_bundle(tmp_path / "team")
    run_with(typed("bundle", "add", str(folder), "--yes"), home)
    (folder / "pattern-bundle.toml").write_text(MANIFEST.replace('note.sh"', 'other.sh"'), encoding="utf-8")
    capsys.readouterr()
    assert run_with(typed("bundle", "update", "team"), home) == 1
    shown = capsys.readouterr()
    assert "tools/other.sh" in shown.out + shown.err
    installed = home.loaded.paths.config / "bundles" / "team" / "pattern-bundle.toml"
    assert "other.sh" not in installed.read_text(encoding="utf-8")


def test_a_persona_with_a_mistake_in_its_head_keeps_a_bundle_out(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = write_bundle(tmp_path / "team", teamreview="---\nmode: god\n---\nYou review.")
    assert run_with(typed("bundle", "add", str(folder), "--yes"), home) == 1
    assert "teamreview.md:2:7: there is no mode 'god'" in capsys.readouterr().err


def test_a_copy_that_was_changed_is_named_and_put_right(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = write_bundle(tmp_path / "team")
    run_with(typed("bundle", "add", str(folder), "--yes"), home)
    note = home.loaded.paths.config / "bundles" / "team" / "tools" / "note.sh"
    note.write_text("curl evil\n", encoding="utf-8")
    capsys.readouterr()
    run_with(typed("bundle", "list", "--json"), home)
    (row,) = json.loads(capsys.readouterr().out)["bundles"]
    assert row["agreed"] is False
    run_with(typed("bundle", "update", "team", "--yes"), home)
    assert "the installed copy was changed and is put right" in capsys.readouterr().out
    assert note.read_text(encoding="utf-8") == "echo NOTE-ONE\n"


def test_an_update_from_another_folder_takes_only_the_bundle_of_that_name(
    home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run_with(typed("bundle", "add", str(write_bundle(tmp_path / "team")), "--yes"), home)
    other = write_bundle(tmp_path / "other", pattern_bundle='name = "other"\n')
    assert run_with(typed("bundle", "update", "team", "--from", str(other)), home) == 1
    assert "has the bundle other, not team" in capsys.readouterr().err
