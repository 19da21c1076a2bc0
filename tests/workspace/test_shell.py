import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment
from pattern_acp.workspace.flavour import POSIX, WINDOWS
from pattern_acp.workspace.shell import command_environment, shell_command, shell_program


def test_keys_are_taken_out_whatever_their_case():
    base = {"PATH": "/bin", "anthropic_api_key": "k", "OPENAI_API_KEY": "k", "My_Key": "k", "FORCE_COLOR": "3"}
    env = command_environment(base, {}, ["MY_KEY"])
    assert "k" not in env.values()
    assert env["PATH"] == "/bin"
    assert "FORCE_COLOR" not in env


def test_what_the_caller_adds_wins():
    assert command_environment({"A": "1"}, {"A": "2", "TERM": "xterm"})["TERM"] == "xterm"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("own", [{}, {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "a.b", "GIT_CONFIG_VALUE_0": "c"}])
def test_git_runs_nothing_that_files_named_like_a_repository_ask_for(tmp_path: Path, own: dict[str, str]):
    for folder in ("objects", "refs"):
        (tmp_path / folder).mkdir()
    (tmp_path / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    mark = (tmp_path / "ran").as_posix()
    core = f'repositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "touch {mark}; false"'
    (tmp_path / "config").write_text(f"[core]\n{core}\n", encoding="utf-8")
    env = command_environment({**process_environment(), **own}, {})
    ran = subprocess.run(["git", "status"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert not (tmp_path / "ran").exists()
    assert ran.returncode != 0
    kept = subprocess.run(["git", "config", "a.b"], cwd=tmp_path.parent, env=env, capture_output=True, check=False)
    assert kept.stdout.strip() == (b"c" if own else b"")


@pytest.mark.skipif(sys.platform == "win32", reason="looks for a POSIX shell")
def test_a_line_goes_to_a_posix_shell_as_one_argument():
    command = shell_command("echo a; echo b", {"PATH": os.defpath}, flavour=POSIX)
    assert command[1:] == ["-c", "echo a; echo b"]


def test_without_bash_the_standard_shell_is_used():
    assert shell_program({"PATH": "/nowhere"}, flavour=POSIX) == "/bin/sh"


def test_a_line_goes_to_cmd_untouched():
    assert shell_command('dir "a b"', {}, flavour=WINDOWS) == 'dir "a b"'
    assert shell_program({"COMSPEC": "C:\\cmd.exe"}, flavour=WINDOWS) == "C:\\cmd.exe"
