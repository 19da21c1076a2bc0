"""`pattern-acp memory`, on a real constellation."""

import json
import stat
import sys
from contextlib import chdir
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import BadUsage
from pattern_acp.cli.argv import parse_arguments
from pattern_acp.cli.command_runner import run_call
from pattern_acp.cli.memory import EditingError, editor_command
from pattern_acp.commands.parameters import TypedCommand, Value
from pattern_acp.config.settings import Flags, MemorySettings
from pattern_acp.domain.errors import PatternError
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import record_session, running_agent

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="the editor of the test is a shell script")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    return path


def with_environment(process: Process, **more: str) -> Process:
    return Process(process.loaded, {**process.environ, **more}, process.load_project)


async def remember(database: Path, folder: Path) -> None:
    texts = ("likes tea", "works at night", "project: build with ninja")
    await record_session(database, folder, ScriptedProvider([]), *(f"/remember {text}" for text in texts))


@pytest.fixture
def remembered(home: Process, folder: Path) -> Process:
    anyio.run(remember, home.loaded.paths.constellation_path("default"), folder)
    return home


def ask(process: Process, folder: Path, line: str, *, code: int = 0) -> None:
    arguments = parse_arguments(["memory", *line.split()])
    assert isinstance(arguments, TypedCommand), arguments
    with chdir(folder):
        assert run_call(arguments, process) == code


def ask_words(process: Process, folder: Path, *words: str) -> None:
    arguments = parse_arguments(["memory", *words])
    assert isinstance(arguments, TypedCommand), arguments
    with chdir(folder):
        assert run_call(arguments, process) == 0


def answer(process: Process, folder: Path, capsys: pytest.CaptureFixture[str], line: str, *, code: int = 0) -> str:
    capsys.readouterr()
    ask(process, folder, line, code=code)
    return capsys.readouterr().out


def test_without_a_constellation_nothing_is_remembered(home: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    assert "Nothing is remembered here yet." in answer(home, folder, capsys, "list")
    assert json.loads(answer(home, folder, capsys, "list --json")) == {
        "blocks": [],
        "deleted": [],
        "healed": [],
        "damaged": [],
        "isolation": "none",
        "not_attached": [],
    }
    with pytest.raises(PatternError, match="nothing is remembered yet"):
        ask(home, folder, "show human")
    assert not home.loaded.paths.constellation_path("default").exists()


def test_the_list_is_that_of_the_persona_and_of_the_project_around(
    remembered: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    told = answer(remembered, folder, capsys, "list")
    assert told.splitlines()[0].split() == ["BLOCK", "OF", "CHARACTERS", "LAST", "CHANGE", "BEGINS"]
    assert "build with ninja" in told
    assert "\x1b" not in told
    elsewhere = answer(remembered, tmp_path, capsys, "list")
    assert "likes tea" in elsewhere
    assert "ninja" not in elsewhere
    assert "ninja" in answer(remembered, tmp_path, capsys, f"list --cwd {folder}")


def test_every_answer_has_a_json_form(remembered: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    for verb in ("list", "show human", "diff human", "blame human", "blame human 0-3", "archive", "traps"):
        json.loads(answer(remembered, folder, capsys, f"{verb} --json"))
    checked = json.loads(answer(remembered, folder, capsys, "verify --json"))
    assert checked[1] == {"label": "human", "writes": 3, "problems": []}
    (newest, *_) = json.loads(answer(remembered, folder, capsys, "history human --json"))
    assert (newest["number"], newest["actor"], newest["operation"]) == (3, "human", "append")


def test_undo_redo_and_rollback_are_the_persons_and_tell_the_diff(
    remembered: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    shown = answer(remembered, folder, capsys, "undo human 2 --reason wrong")
    assert "Write 2 of human was taken back; it is write 4" in shown
    assert "\n-likes tea\n" in shown
    assert "\n+likes tea\n" in answer(remembered, folder, capsys, "redo human")
    shown = answer(remembered, folder, capsys, "rollback human 2")
    assert "reads as in version 2 again" in shown
    assert "\n-works at night\n" in shown
    log = json.loads(answer(remembered, folder, capsys, "history human --json"))
    assert [(one["operation"], one["target"], one["actor"]) for one in log[:3]] == [
        ("rollback", 2, "human"),
        ("redo", 4, "human"),
        ("undo", 2, "human"),
    ]
    assert log[2]["reason"] == "wrong"
    assert log[0]["stream"] == "constellation"
    assert "rollback to 2" in answer(remembered, folder, capsys, "history human")


def test_forgetting_needs_a_yes(remembered: Process, folder: Path, capsys: pytest.CaptureFixture[str]):
    told = answer(remembered, folder, capsys, "forget project --all", code=1)
    assert "Nothing was forgotten; project is as it was." in told
    assert "is forgotten with its history" in answer(remembered, folder, capsys, "forget project --all --yes")


@pytest.mark.parametrize("passage", ["", " ", '""'])
def test_an_empty_passage_is_nothing_to_forget_and_not_the_whole_block(
    remembered: Process, folder: Path, passage: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(UnusableEditError, match="at least 4 characters"):
        ask_words(remembered, folder, "forget", "project", passage, "--yes")
    assert "ninja" in answer(remembered, folder, capsys, "show project")


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "editor"
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@POSIX
def test_an_edit_is_the_persons_and_keeps_what_came_meanwhile(
    remembered: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    other = f"{sys.executable} -c 'pass'"
    editor = script(tmp_path, f'{other}; sed -i.bak "s/tea/coffee/" "$1"')
    process = with_environment(remembered, EDITOR=editor)
    told = answer(process, folder, capsys, "edit human --reason corrected")
    assert "\n-likes tea\n" in told
    assert "\n+likes coffee\n" in told
    (newest, *_) = json.loads(answer(process, folder, capsys, "history human --json"))
    assert (newest["operation"], newest["actor"], newest["reason"]) == ("edit", "human", "corrected")


@POSIX
def test_an_edit_without_a_change_writes_nothing(
    remembered: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    # Editors put a line end at the end.
    process = with_environment(remembered, VISUAL=script(tmp_path, 'echo >> "$1"'), EDITOR="false")
    assert "Nothing was changed." in answer(process, folder, capsys, "edit human")
    assert len(json.loads(answer(process, folder, capsys, "history human --json"))) == 3


@POSIX
def test_an_edit_that_cannot_be_taken_is_kept_and_named(
    remembered: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    editor = script(tmp_path, 'head -c 9000 /dev/zero | tr "\\000" x > "$1"')
    told = json.loads(answer(with_environment(remembered, EDITOR=editor), folder, capsys, "edit human --json", code=1))
    kept = Path(told["file"])
    assert kept.read_text(encoding="utf-8") == "x" * 9000
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert "8,000" in told["error"] or "8000" in told["error"]


@POSIX
@pytest.mark.parametrize(
    ("text", "problem"), [("exit 3", "ended with 3"), ('printf "\\377\\376\\000x" > "$1"', "no UTF-8 text")]
)
def test_an_editor_that_fails_changes_nothing(
    remembered: Process, folder: Path, tmp_path: Path, text: str, problem: str
):
    process = with_environment(remembered, EDITOR=script(tmp_path, text))
    with pytest.raises(EditingError, match=problem):
        ask(process, folder, "edit human")


def test_a_block_can_be_edited_before_any_session_from_a_file(
    home: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "new.md"
    text.write_bytes("\ufeffprefers short answers\r\n".encode())
    assert "+prefers short answers" in answer(home, folder, capsys, f"edit human --file {text}")
    assert text.exists()


@POSIX
def test_a_block_with_typed_fields_is_edited_as_toml(
    remembered: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    answer(remembered, folder, capsys, "create decisions --template decision-record")
    text = tmp_path / "new.toml"
    text.write_text('[[items]]\ndecision = "Use ninja"\nwhy = "It is fast"\nat = 2026-11-27\n', encoding="utf-8")
    assert "+- decision: Use ninja" in answer(remembered, folder, capsys, f"edit decisions --file {text}")
    editor = script(tmp_path, 'test "${1%.toml}" != "$1" && sed -i.bak "s/fast/quick/" "$1"')
    told = answer(with_environment(remembered, EDITOR=editor), folder, capsys, "edit decisions")
    assert "+  why: It is quick" in told
    assert "at: 2026-11-27 00:00:00" in answer(remembered, folder, capsys, "show decisions")
    wrong = with_environment(remembered, EDITOR=script(tmp_path, 'echo "at = later" >> "$1"'))
    refused = json.loads(answer(wrong, folder, capsys, "edit decisions --json", code=1))
    assert "it is no TOML" in refused["error"]
    assert "line" in refused["error"]
    assert Path(refused["file"]).read_text(encoding="utf-8").endswith("at = later\n")
    assert len(json.loads(answer(remembered, folder, capsys, "history decisions --json"))) == 3
    unchanged = with_environment(remembered, EDITOR=script(tmp_path, 'echo >> "$1"'))
    assert "Nothing was changed." in answer(unchanged, folder, capsys, "edit decisions")


def test_options_may_stand_before_the_words_they_belong_to(
    home: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    answer(home, folder, capsys, "create --scope shared rules What holds everywhere.")
    assert "rules" in answer(home, tmp_path, capsys, f"--json list --cwd {folder}")
    answer(home, folder, capsys, "--cwd . create --template decision-record decisions")
    assert "decision (text, required" in answer(home, folder, capsys, "set decisions")
    text = tmp_path / "new.md"
    text.write_text("Tabs.", encoding="utf-8")
    answer(home, folder, capsys, f"edit --reason tidy --file {text} rules")
    (newest, *_) = json.loads(answer(home, folder, capsys, "history --json --no-pager rules"))
    assert (newest["operation"], newest["reason"]) == ("edit", "tidy")


def test_memory_that_is_kept_as_files_is_written_by_the_terminal_too(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    keeping = replace(home.loaded.settings, memory=MemorySettings(files=True))
    process = Process(replace(home.loaded, settings=keeping), home.environ, home.load_project)

    async def begin() -> None:
        path = home.loaded.paths.constellation_path("default")
        async with running_agent(ScriptedProvider([]), database=path, settings=keeping) as agent:
            await agent.editor.prompt(await agent.editor.open_session(str(folder)), "/remember likes tea")

    answer(process, folder, capsys, "create rules What holds everywhere.")
    assert not (folder / ".pattern").exists()
    anyio.run(begin)
    kept = folder / ".pattern" / "memory"
    assert "rules.md" in [path.name for path in kept.iterdir()]
    answer(process, folder, capsys, "undo human")
    assert "likes tea" not in (kept / "human.md").read_text(encoding="utf-8")
    (kept / "decisions.toml").write_text("mine", encoding="utf-8")
    answer(process, folder, capsys, "create decisions --template decision-record")
    capsys.readouterr()
    ask(process, folder, "delete rules")
    assert "this memory did not write it" in capsys.readouterr().err
    assert not (kept / "rules.md").exists()
    assert (kept / "decisions.toml").read_text(encoding="utf-8") == "mine"


def test_the_editor_is_the_persons_or_a_usual_one():
    assert editor_command({"VISUAL": "code --wait", "EDITOR": "vim"}) == ["code", "--wait"]
    assert editor_command({"VISUAL": " ", "EDITOR": "vim"}) == ["vim"]


def test_an_editor_that_nobody_chose_is_not_started_without_a_terminal():
    with pytest.raises(EditingError, match="no terminal to edit in; set VISUAL or EDITOR"):
        editor_command({"PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("text", "command", "expected"),
    [
        ("", "list", {}),
        ("show human", "show", {"label": "human", "version": None}),
        ("show human 3", "show", {"label": "human", "version": 3}),
        ("diff human 1 2 --words", "diff", {"label": "human", "old": 1, "new": 2, "words": True}),
        ("blame human 10-25", "blame", {"label": "human", "characters": "10-25"}),
        ("undo human --reason why", "undo", {"label": "human", "number": None, "reason": "why"}),
        ("delete --reason why human", "delete", {"label": "human", "reason": "why"}),
        ("edit human --file x.md", "edit", {"label": "human", "file": "x.md", "reason": ""}),
        ("restore notes 2 it is true", "restore", {"label": "notes", "number": 2, "reason": "it is true"}),
    ],
)
def test_a_command_line_is_understood(text: str, command: str, expected: dict[str, Value]):
    shared: dict[str, Value] = {"json": False, "cwd": "", "no_pager": False}
    assert parse_arguments(["memory", *text.split()]) == TypedCommand("memory", command, expected, shared)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("forget human secret --yes", ("secret", False, True)),
        ("forget human -", ("-", False, False)),
        ("forget human --all", (None, True, False)),
    ],
)
def test_what_is_to_be_forgotten_is_named(text: str, expected: tuple[str | None, bool, bool]):
    called = parse_arguments(["memory", *text.split()])
    assert isinstance(called, TypedCommand)
    assert (called.values["passage"], called.values["whole"], called.values["sure"]) == expected


def test_options_and_settings_may_stand_anywhere():
    called = parse_arguments(
        ["--persona", "p", "memory", "--json", "history", "human", "--no-pager", "--constellation", "w"]
    )
    assert isinstance(called, TypedCommand)
    assert called.flags == Flags(persona="p", constellation="w")
    assert called.shared == {"json": True, "cwd": "", "no_pager": True}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("show", "say which block: memory show LABEL"),
        ("list human", "memory list takes no arguments"),
        ("forget human x --all", "--all for the whole block"),
        ("forget human two words --yes", "not 'words' too"),
        ("paint human", "no such command 'paint'"),
        ("show human --words", "no such option '--words'"),
    ],
)
def test_a_command_line_that_means_nothing_is_refused_in_one_line(text: str, problem: str):
    refused = parse_arguments(["memory", *text.split()])
    assert isinstance(refused, BadUsage)
    assert problem in refused.sentence
    assert "\n" not in refused.sentence


def test_an_answer_in_words_is_that_of_a_terminal_also_as_json(
    home: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert "decision-record" in answer(home, folder, capsys, "create")
    made = answer(home, folder, capsys, "create rules What holds everywhere. --scope shared")
    assert "`" not in made
    assert "pattern-acp memory set rules" in made
    assert json.loads(answer(home, folder, capsys, "share rules persona:a --json")) == {
        "answer": "rules is shared with the persona a now, with the permission read_only."
    }
    answer(home, folder, capsys, "unshare rules project:.")
    assert json.loads(answer(home, folder, capsys, "list --json"))["not_attached"] == ["shared/rules"]
    assert "not attached here: shared/rules" in answer(home, folder, capsys, "list")


def test_a_block_is_sound_after_words_of_it_were_forgotten_and_its_lines_keep_their_authors(
    remembered: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    before = answer(remembered, folder, capsys, "blame human").splitlines()
    answer(remembered, folder, capsys, "forget human night --yes")
    assert all(row.endswith("sound") for row in answer(remembered, folder, capsys, "verify").splitlines()[1:])
    after = answer(remembered, folder, capsys, "blame human").splitlines()
    assert after[1].split() == before[1].split()
    assert after[1].endswith("likes tea")


def test_what_a_required_field_said_can_be_forgotten(
    remembered: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "decisions.md"
    text.write_text("- decision: use marmalade\n  why: sweet\n- decision: use butter\n  why: soft\n")
    answer(remembered, folder, capsys, "create dec --template decision-record")
    answer(remembered, folder, capsys, f"edit dec --file {text}")
    capsys.readouterr()
    ask_words(remembered, folder, "forget", "dec", "use marmalade", "--yes")
    told = answer(remembered, folder, capsys, "show dec")
    assert "- decision: [forgotten]\n  why: sweet" in told
    assert "- decision: use butter" in told


def test_items_of_records_that_are_alike_name_their_own_writes(
    remembered: Process, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "decisions.md"
    answer(remembered, folder, capsys, "create dec --template decision-record")
    told = ""
    for name in ("tea", "milk", "salt"):
        told += f"- decision: {name}\n  why: {name} is good\n  status: in force\n"
        text.write_text(told)
        answer(remembered, folder, capsys, f"edit dec --file {text}")
    rows = answer(remembered, folder, capsys, "blame dec").splitlines()[1:]
    assert [row.split()[1] for row in rows] == [*"222", *"333", *"444"]


def test_a_block_whose_label_is_only_code_marks_is_told_in_the_tables(
    remembered: Process, folder: Path, capsys: pytest.CaptureFixture[str]
):
    answer(remembered, folder, capsys, "create ``` What it is for.")
    assert len(answer(remembered, folder, capsys, "verify").splitlines()) == 5
