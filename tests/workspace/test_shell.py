import os
import sys

import pytest

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


@pytest.mark.skipif(sys.platform == "win32", reason="looks for a POSIX shell")
def test_a_line_goes_to_a_posix_shell_as_one_argument():
    command = shell_command("echo a; echo b", {"PATH": os.defpath}, flavour=POSIX)
    assert command[1:] == ["-c", "echo a; echo b"]


def test_without_bash_the_standard_shell_is_used():
    assert shell_program({"PATH": "/nowhere"}, flavour=POSIX) == "/bin/sh"


def test_a_line_goes_to_cmd_untouched():
    assert shell_command('dir "a b"', {}, flavour=WINDOWS) == 'dir "a b"'
    assert shell_program({"COMSPEC": "C:\\cmd.exe"}, flavour=WINDOWS) == "C:\\cmd.exe"
