"""`pattern-acp tasks`, on a real constellation."""

import json
import stat
import sys
from contextlib import chdir
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.command_runner import run_call
from pattern_acp.commands.parameters import CommandMisusedError, TypedCommand
from pattern_acp.domain.errors import PatternError

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the editor of the test is a shell script")


class Terminal:
    """A user in a folder, with a constellation of their own."""

    def __init__(self, process: Process, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.process = process
        self.folder = folder
        self.capsys = capsys

    def __call__(self, *words: str) -> str:
        """What a command answers."""
        call = parse_arguments(["tasks", *words])
        assert isinstance(call, TypedCommand), call
        with chdir(self.folder):
            assert run_call(call, self.process) == 0
        return self.capsys.readouterr().out

    def fails(self, *words: str) -> str:
        """The sentence with which a command fails."""
        with pytest.raises(PatternError) as caught:
            self(*words)
        return caught.value.sentence

    def edits_with(self, script: str) -> None:
        """Let the editor be a shell script; the file is "$1"."""
        editor = self.folder.parent / "editor"
        editor.write_text(f"#!/bin/sh\n{script}\n")
        editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
        process = self.process
        self.process = Process(process.loaded, {**process.environ, "EDITOR": str(editor)}, process.load_project)


@pytest.fixture
def tasks(home: Process, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    folder = tmp_path / "project"
    folder.mkdir()
    return Terminal(home, folder, capsys)


def test_before_the_first_task_there_is_a_sentence(tasks: Terminal):
    assert tasks() == "There are no open tasks. pattern-acp tasks add TITLE adds one.\n"
    assert tasks("list", "--json") == "[]\n"
    assert "no tasks to export" in tasks("export")
    assert tasks.fails("show", "3") == "There is no task '3'. There are no open tasks."


def test_tasks_are_added_listed_filtered_and_shown(tasks: Terminal):
    assert tasks("add", "Write", "it", "--priority", "high", "--label", "core", "--description", "All") == (
        "Added [ ] #1 Write it (high priority)\n"
    )
    tasks("add", "Test it", "--owner", "ana")
    assert tasks("link", "1", "blocks", "2") == "Linked [ ] #1 Write it (high priority)\n"
    assert "#2    todo   medium    Test it   ana; blocked by #1" in tasks()
    for words, numbers in (
        (["list", "write"], [1]),
        (["list", "--owner", "ana"], [2]),
        (["list", "--blocked"], [2]),
        (["list", "--label", "core"], [1]),
        (["list", "--status", "done"], []),
    ):
        assert [row["task"]["number"] for row in json.loads(tasks(*words, "--json"))] == numbers
    assert "blocked by #1 Write it" in tasks("show", "2")
    assert "labels core" in tasks("show", "#1")
    assert tasks("graph", "1") == "[ ] #1 Write it (high priority)\n  blocks [ ] #2 Test it (ana)\n"
    assert [one["number"] for one in json.loads(tasks("graph", "1", "--json"))["tasks"]] == [1, 2]
    assert tasks("link", "1", "blocks", "2", "--remove").startswith("Unlinked")


def test_a_task_goes_through_its_states_and_is_commented_on(tasks: Terminal):
    tasks("add", "a")
    for verb, box in (("start", ">"), ("block", "!"), ("todo", " "), ("drop", "-"), ("done", "x")):
        assert f"[{box}] #1 a" in tasks(verb, "1")
    assert tasks() == "There are no open tasks. pattern-acp tasks add TITLE adds one.\n"
    assert "#1    done" in tasks("list", "--all")
    tasks("comment", "1", "well", "done")
    assert json.loads(tasks("show", "1", "--json"))["task"]["comments"][0]["text"] == "well done"
    with pytest.raises(CommandMisusedError, match="use blocks, relates or parent"):
        tasks("link", "1", "needs", "1")


@POSIX
def test_a_task_is_edited_in_the_editor_and_merged_with_what_changed_meanwhile(tasks: Terminal):
    tasks("add", "Write", "--description", "one")
    tasks.edits_with("sed -e 's/title: Write/title: Rewrite/' -e 's/^one$/one\\n\\n## Steps\\n\\n- [ ] go/' -i \"$1\"")
    assert tasks("edit", "1") == "Edited [ ] #1 Rewrite (0/1 steps)\n"
    tasks.edits_with("true")
    assert tasks("edit", "1") == "Nothing of the task #1 was changed.\n"
    tasks.edits_with('echo broken > "$1"')
    sentence = tasks.fails("edit", "1")
    assert "task-1.md, line 1: the head is missing" in sentence
    assert Path(sentence.partition(", line")[0]).read_text() == "broken\n"


def test_a_task_is_taken_from_a_file(tasks: Terminal):
    tasks("add", "a")
    (tasks.folder / "t.md").write_text("---\ntask: 1\ntitle: b\nstatus: done\n---\n")
    assert tasks("edit", "1", "--file", "t.md") == "Edited [x] #1 b\n"


def test_importing_twice_is_once_and_what_changed_there_is_taken(tasks: Terminal):
    (tasks.folder / "TODO.md").write_text("# TODO\n### Todo\n- [ ] a\n- [ ] b #x\n### Done\n- [x] c\n")
    assert tasks("import", "TODO.md").startswith("3 new, 0 changed, 0 as they were.\n[ ] #1 a\n[ ] #2 b\n[x] #3 c")
    tasks("start", "1")
    assert tasks("import", "TODO.md") == "0 new, 0 changed, 3 as they were.\n"
    (tasks.folder / "TODO.md").write_text("# TODO\n### Done\n- [x] b #x\n### Todo\n- [ ] d\n")
    assert tasks("import", "TODO.md") == "1 new, 1 changed, 0 as they were.\n[ ] #4 d\n[x] #2 b\n"
    assert "- [>] a <!-- task_" in tasks("export")


def test_issues_of_github_come_and_go(tasks: Terminal):
    issue = {
        "number": 7,
        "title": "Crash",
        "state": "OPEN",
        "labels": [{"name": "bug"}],
        "body": "x",
        "url": "https://h/7",
    }
    (tasks.folder / "issues.json").write_text(json.dumps([issue]))
    tasks("import", "issues.json")
    tasks("import", "issues.json")
    tasks("done", "1")
    tasks("export", "out.json", "--all")
    (written,) = json.loads((tasks.folder / "out.json").read_text())
    assert {name: written[name] for name in issue} == {**issue, "state": "CLOSED"}
    assert tasks("import", "out.json") == "0 new, 0 changed, 1 as they were.\n"


def test_an_export_never_writes_over_a_file_unasked(tasks: Terminal):
    tasks("add", "a")
    assert tasks("export", "TODO.md") == "Wrote 1 task into TODO.md.\n"
    assert "### Todo\n\n- [ ] a <!-- task_" in (tasks.folder / "TODO.md").read_text()
    assert tasks.fails("export", "TODO.md") == "TODO.md is there already; say --replace to write over it."
    tasks("start", "1")
    tasks("export", "TODO.md", "--replace")
    assert "### In Progress\n\n- [>] a" in (tasks.folder / "TODO.md").read_text()
    assert tasks("import", "TODO.md") == "0 new, 0 changed, 1 as they were.\n"


def test_a_file_that_cannot_be_imported_is_one_sentence(tasks: Terminal):
    (tasks.folder / "data").write_bytes(b"\xff\xfe")
    assert tasks.fails("import", "data") == "data is no UTF-8 text; save it as UTF-8 and import it again."
    assert tasks.fails("import", "none.md").startswith("none.md cannot be read (No such file or directory)")
    (tasks.folder / "a.md").write_text("words\n- [y] b\n")
    assert tasks.fails("import", "a.md").startswith("a.md, line 2: the box [y] is unknown")
    assert tasks() == "There are no open tasks. pattern-acp tasks add TITLE adds one.\n"
