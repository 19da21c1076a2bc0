import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.paths import POSIX, WINDOWS
from pattern_acp.workspace.shell import client_command, plain_words, remove_script, script_text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pytest", ("pytest",)),
        ("pytest -q tests/test_a.py::test_b", ("pytest", "-q", "tests/test_a.py::test_b")),
        ("git log -n 3 --format=%h", ("git", "log", "-n", "3", "--format=%h")),
        ("./run --level=2", ("./run", "--level=2")),
    ],
)
def test_a_plain_line_is_split_into_words(line: str, words: tuple[str, ...]):
    assert plain_words(line, flavour=POSIX) == words


@pytest.mark.parametrize(
    "line",
    [
        "a && b",
        "a | b",
        "a; b",
        "a > b",
        "a $HOME",
        "a `b`",
        "a 'b c'",
        'a "b"',
        "ls *.py",
        "ls ~",
        "ls [ab]",
        "a\nb",
        "a  b",
        "a # b",
        "X=1 make",
        "cd src",
        "source venv",
        "a \\n",
        "git commit -m ünï",
        "! true",
        "(a)",
        "",
    ],
)
def test_a_line_that_needs_a_shell_is_not_split(line: str):
    assert plain_words(line, flavour=POSIX) == ()


def test_no_line_is_split_on_windows():
    assert plain_words("npm test", flavour=WINDOWS) == ()


def test_a_plain_line_needs_no_script(tmp_path: Path):
    command = client_command("git status", scratch=tmp_path / "scratch", flavour=POSIX)
    assert (command.command, command.args, command.script) == ("git", ("status",), None)
    assert list(tmp_path.iterdir()) == []


def test_a_shell_line_becomes_a_script_that_only_we_can_read(tmp_path: Path):
    command = client_command("echo a && echo b", scratch=tmp_path / "scratch", flavour=POSIX)
    assert command.script is not None
    assert (command.command, command.args) == ("/bin/sh", (str(command.script),))
    assert command.script.read_text(encoding="utf-8") == "exec </dev/null; echo a && echo b\n"
    if sys.platform != "win32":
        assert command.script.stat().st_mode & 0o077 == 0
    remove_script(command.script)
    remove_script(command.script)
    assert not command.script.exists()


def test_the_same_line_twice_gives_two_scripts(tmp_path: Path):
    scripts = {client_command("a;b", scratch=tmp_path, flavour=POSIX).script for _ in range(2)}
    assert len(scripts) == 2


def test_a_windows_line_becomes_a_batch_file_that_runs_it_as_typed(tmp_path: Path):
    command = client_command("npm i && echo 100%", scratch=tmp_path, flavour=WINDOWS)
    assert command.script is not None
    assert (command.command, command.args) == ("cmd.exe", ("/d", "/c", str(command.script)))
    assert command.script.read_bytes() == b'@cmd.exe /d /s /c "npm i && echo 100%%"\r\n'


@pytest.mark.skipif(sys.platform == "win32", reason="runs a POSIX shell")
def test_the_script_does_what_the_line_does(tmp_path: Path):
    line = 'for x in \'a b\' "c"; do echo "$x"; done | tr a-z A-Z; exit 3'
    command = client_command(line, scratch=tmp_path)
    done = subprocess.run([command.command, *command.args], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (3, "A B\nC\n")


@pytest.mark.skipif(sys.platform == "win32", reason="runs a POSIX shell")
@given(st.lists(st.text("abz09_./:=@%+,-", min_size=1, max_size=6), min_size=1, max_size=4))
def test_plain_words_survive_clients_that_join_them_for_a_shell(words: list[str]):
    split = plain_words(" ".join(words), flavour=POSIX)
    for word in split:
        assert word.isascii()
        assert not set(word) & set(" \t\n'\"`$&|;<>()*?[]{}~#!\\")


def test_a_script_ends_with_a_line_end():
    assert script_text("a", flavour=POSIX) == "exec </dev/null; a\n"


@pytest.mark.parametrize(
    "line", ["bc", "bc -l", "/usr/bin/psql", "python3", "python -m pdb -c continue a.py", "python -i a.py", "node"]
)
def test_a_program_that_reads_commands_is_a_script_without_input_in_a_terminal_of_the_client(tmp_path: Path, line: str):
    command = client_command(line, scratch=tmp_path, flavour=POSIX)
    assert command.script is not None
    assert command.script.read_text(encoding="utf-8") == f"exec </dev/null; {line}\n"


@pytest.mark.parametrize("line", ["python3 a.py", "python -m pytest -q", "node a.js", "cat a.txt", "python --version"])
def test_any_other_single_program_has_the_terminal_itself(tmp_path: Path, line: str):
    assert client_command(line, scratch=tmp_path, flavour=POSIX).script is None
