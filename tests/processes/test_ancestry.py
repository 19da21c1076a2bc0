"""Finding out that a process comes from an agent."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pattern_acp.processes.ancestry import ParentProcess, descends_from_agent, read_by_psutil, read_proc
from pattern_acp.processes.confinement import LAUNCHER

SHELL = ParentProcess(("/bin/zsh", "-c", "pattern-acp trust"))
"""As macOS shows it: without its environment."""


def process(proc: Path, pid: str, parent: int, *, environ: bytes = b"", cmdline: bytes = b"") -> None:
    (proc / pid).mkdir()
    (proc / pid / "stat").write_bytes(f"{pid} (a) b) S {parent} 1 1".encode())
    (proc / pid / "environ").write_bytes(environ)
    (proc / pid / "cmdline").write_bytes(cmdline)


def test_a_mark_of_any_ancestor_counts_and_one_of_its_own_does_not(tmp_path: Path):
    process(tmp_path, "self", 9, environ=b"MARK=1\0")
    process(tmp_path, "9", 7, environ=b"PATH=/bin\0")
    process(tmp_path, "7", 1)
    assert not descends_from_agent("MARK", read_proc(tmp_path), ())
    (tmp_path / "7" / "environ").write_bytes(b"A=1\0MARK=1\0")
    assert descends_from_agent("MARK", read_proc(tmp_path), ())


def test_the_launcher_of_a_confined_command_counts(tmp_path: Path):
    process(tmp_path, "self", 9)
    process(tmp_path, "9", 0, cmdline=b"python\0-I\0-S\0" + str(LAUNCHER).encode() + b"\0p\0--\0sh\0")
    assert descends_from_agent("MARK", read_proc(tmp_path), ())


def test_without_proc_nobody_is_known(tmp_path: Path):
    assert not descends_from_agent("MARK", read_proc(tmp_path / "none"), ())


@pytest.mark.parametrize(
    "words",
    [
        ("/usr/bin/python3.12", "/home/me/.local/bin/pattern-acp", "acp"),
        ("python3", "-P", "-m", "pattern_acp"),
        ("C:\\Python\\python.exe", "C:\\bin\\pattern-acp.exe", "--mode", "auto", "acp"),
        ("pattern-acp.exe", "serve"),
    ],
)
def test_what_an_agent_of_ours_started_is_known_without_any_environment(words: tuple[str, ...]):
    assert descends_from_agent("MARK", [SHELL, ParentProcess(words)], ("trust",))
    assert descends_from_agent("MARK", [SHELL, ParentProcess(words)], ("acp",))


@pytest.mark.parametrize(
    "chain",
    [
        [("uvx", "pattern-acp", "acp"), ("code",)],
        [("sh", "-c", "pattern-acp acp"), ("zed",)],
        [("python", "-m", "pattern_acp", "chat")],
        [("python.exe", "pattern-acp.exe", "acp"), ("pattern-acp.exe", "acp"), ("code.exe",)],
        [("vim", "pattern_acp")],
        [()],
    ],
)
def test_what_an_editor_or_a_chat_of_the_user_started_is_not(chain: list[tuple[str, ...]]):
    assert not descends_from_agent("MARK", map(ParentProcess, chain), ("acp",))


def test_psutil_reads_the_processes_of_every_system():
    code = (
        "from pattern_acp.processes.ancestry import read_by_psutil as r; [*map(print, [one.words for one in r()][:1])]"
    )
    ran = subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True)
    assert ran.stdout == f"{tuple(psutil.Process().cmdline())}\n"
    assert any("PATH" in one.variables for one in read_by_psutil())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_env_i_does_not_hide_the_agent():
    code = "from pattern_acp.processes.ancestry import is_of_agent as d; print(d('PATTERN_ACP_TEST_MARK', {}))"
    line = f'env -i {sys.executable} -c "{code}"; true'
    for environment, expected in (({"PATTERN_ACP_TEST_MARK": "1"}, "True\n"), ({}, "False\n")):
        command = ("/bin/sh", "-c", line)
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout == expected
