import os
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.acp.editor_ports import FIXED
from pattern_acp.config.keys import INSIDE_VARIABLE
from pattern_acp.config.load import process_environment
from pattern_acp.domain.paths import POSIX, WINDOWS
from pattern_acp.workspace.shell import (
    Machine,
    command_environment,
    machine_of,
    script_text,
    shell_command,
    shell_program,
)


def test_keys_are_taken_out_whatever_their_case():
    base = {"PATH": "/bin", "anthropic_api_key": "k", "OPENAI_API_KEY": "k", "My_Key": "k", "FORCE_COLOR": "3"}
    env = command_environment(base, {}, ["MY_KEY"])
    assert "k" not in env.values()
    assert env["PATH"] == "/bin"
    assert "FORCE_COLOR" not in env


def test_what_the_caller_adds_wins():
    assert command_environment({"A": "1"}, {"A": "2", "TERM": "xterm"})["TERM"] == "xterm"


@pytest.mark.needs("git")
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


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.needs("git")
@pytest.mark.parametrize("terminal", ["ours", "the client's"])
@pytest.mark.parametrize("setting", ["variables", "git"])
def test_no_command_of_git_waits_for_the_editor_of_the_user(tmp_path: Path, terminal: str, setting: str):
    opened = tmp_path / "opened"
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\ntouch {opened}\nexec sleep 600\n", encoding="utf-8")
    editor.chmod(0o700)
    names = ("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR") if setting == "variables" else ()
    home = {"GIT_CONFIG_GLOBAL": str(tmp_path / "settings"), "GIT_CONFIG_NOSYSTEM": "1"}
    base = {**process_environment()} | home | dict.fromkeys(names, str(editor))
    env = command_environment(base, {}) if terminal == "ours" else base | FIXED
    work = tmp_path / "work"
    work.mkdir()

    def git(*words: str) -> tuple[int, str]:
        command = ("git", *words)
        ended = subprocess.run(
            command,
            cwd=work,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return ended.returncode, ended.stdout

    (tmp_path / "settings").write_text(
        "[user]\nname = A\nemail = a@example.org\n[init]\ndefaultBranch = main\n"
        + (f"[core]\neditor = {editor}\n[sequence]\neditor = {editor}\n" if setting == "git" else ""),
        encoding="utf-8",
    )
    for words in (
        ("init",),
        ("commit", "--allow-empty", "-m", "one"),
        ("commit", "--allow-empty", "-m", "two"),
        ("commit", "--amend", "--allow-empty"),
        ("rebase", "-i", "--keep-empty", "HEAD~1"),
        ("switch", "-c", "other"),
        ("commit", "--allow-empty", "-m", "three"),
        ("switch", "main"),
        ("merge", "--no-ff", "other"),
        ("config", "--edit"),
    ):
        assert git(*words)[0] == 0, words
    for words in (("commit", "--allow-empty"), ("tag", "-a", "v1"), ("branch", "--edit-description")):
        git(*words)
    assert git("log", "--first-parent", "--format=%s")[1].splitlines() == ["Merge branch 'other'", "two", "one"]
    assert git("status", "--porcelain=2", "--branch")[1].count("#") == 2
    assert git("tag")[1] == ""
    assert not opened.exists()


def test_every_command_carries_the_mark_of_what_an_agent_starts_whoever_runs_it():
    assert command_environment({}, {})[INSIDE_VARIABLE] == "1"
    assert FIXED[INSIDE_VARIABLE] == "1"


@pytest.mark.parametrize("terminal", ["ours", "the client's"])
def test_programs_that_have_an_editor_or_a_pager_variable_of_their_own_open_none_either(terminal: str):
    own = {
        "EDITOR": "vi",
        "VISUAL": "code --wait",
        "HGEDITOR": "vi",
        "KUBE_EDITOR": "vi",
        "MANPAGER": "less",
        "AWS_PAGER": "",
    }
    env = command_environment(own, {}) if terminal == "ours" else own | FIXED
    assert {name: env[name] for name in own} == {
        "EDITOR": "true",
        "VISUAL": "true",
        "HGEDITOR": "true",
        "KUBE_EDITOR": "true",
        "MANPAGER": "cat",
        "AWS_PAGER": "cat",
    }


@pytest.mark.skipif(sys.platform == "win32", reason="looks for a POSIX shell")
def test_a_line_goes_to_a_posix_shell_as_one_argument():
    command = shell_command("echo a; echo b", {"PATH": os.defpath}, flavour=POSIX)
    assert command[1:] == ["-c", "echo a; echo b"]


def test_without_bash_the_standard_shell_is_used():
    assert shell_program({"PATH": "/nowhere"}, flavour=POSIX) == "/bin/sh"


def test_a_line_goes_to_cmd_untouched():
    assert shell_command('dir "a b"', {}, flavour=WINDOWS) == 'dir "a b"'
    assert shell_program({"COMSPEC": "C:\\cmd.exe"}, flavour=WINDOWS) == "C:\\cmd.exe"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.needs("git")
@pytest.mark.parametrize("terminal", ["ours", "the client's"])
def test_a_question_for_credentials_fails_at_once_and_opens_no_window(tmp_path: Path, terminal: str):
    opened = tmp_path / "opened"
    window = tmp_path / "window"
    window.write_text(f"#!/bin/sh\ntouch {opened}\nexec sleep 600\n", encoding="utf-8")
    window.chmod(0o700)
    asks = dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS"), str(window))
    base = {**process_environment(), **asks, "DISPLAY": ":0", "SSH_ASKPASS_REQUIRE": "prefer"}
    env = command_environment(base, {}) if terminal == "ours" else base | FIXED
    ended = subprocess.run(
        ["git", "credential", "fill"],
        input="protocol=https\nhost=example.org\n\n",
        env=env | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode != 0
    assert "terminal prompts disabled" in ended.stderr
    assert not opened.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX terminal")
@pytest.mark.needs("ssh-keygen")
def test_a_passphrase_is_asked_of_nobody_in_a_terminal_of_the_client(tmp_path: Path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", str(key)], check=True)
    shown, status = in_terminal(f"exec </dev/null; ssh-keygen -y -f {key}")
    assert status != 0
    assert "passphrase" in shown


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX terminal")
@pytest.mark.parametrize(("line", "shown"), [("read x; echo got $x", "got"), ("cat; echo end", "end")])
def test_what_reads_its_input_gets_the_end_of_it_in_a_terminal_of_the_client(line: str, shown: str):
    assert in_terminal(script_text(line, flavour=POSIX)) == (f"{shown}\r\n", 0)


def in_terminal(script: str) -> tuple[str, int]:
    """What a script shows in a terminal like an editor's, and its exit code."""
    import pty

    near, far = pty.openpty()
    command = ["/bin/sh", "-c", script]
    variables = {**process_environment(), **FIXED}
    with subprocess.Popen(command, env=variables, stdin=far, stdout=far, stderr=far, start_new_session=True) as process:
        os.close(far)
        status = process.wait(timeout=60)
    shown = os.read(near, 65_536).decode()
    os.close(near)
    return shown, status


@pytest.mark.skipif(sys.platform == "win32", reason="makes a program with a mode")
def test_the_shell_and_the_well_known_programs_of_the_path_are_found(tmp_path: Path):
    for name in ("rg", "make", "unknown"):
        (tmp_path / name).touch(mode=0o755)
    assert machine_of({"PATH": str(tmp_path)}) == Machine("sh", ("rg", "make"))
