"""The line that a person types a prompt into."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp.cli.chat.interactive import INSERTED, completions, looking
from tests.support.process import agent_environment


def test_a_line_that_begins_with_a_slash_completes_to_commands():
    assert completions("/", ["status", "memory"]) == ["/memory ", "/quit ", "/status "]
    assert completions("/st", ["status", "memory"]) == ["/status "]
    assert completions("/x", ["status"]) == []


def test_other_lines_are_left_alone():
    assert completions("st", ["status"]) == []
    assert completions("", ["status"]) == []


def test_a_backslash_at_the_end_goes_on_in_the_next_line(tmp_path: Path):
    assert lines_read(tmp_path, b"one\\\ntwo\nthree\nfour\\\n") == ["one\ntwo", "three", "four"]


def lines_read(folder: Path, typed: bytes) -> list[str]:
    """The prompts that a process of its own reads, since `input` reads the process's stdin."""
    code = (
        "import sys; from pathlib import Path; from pattern_acp.cli.chat.interactive import LinePrompt\n"
        "prompt = LinePrompt(Path(sys.argv[1]), lambda: ['status']); prompt.open(); lines = []\n"
        "while (line := prompt.read('>')) is not None: lines.append(line)\n"
        "prompt.close(); sys.stderr.write(repr(lines))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, input=typed, capture_output=True, check=True, timeout=50)
    return ast.literal_eval(done.stderr.decode())


@pytest.mark.skipif(sys.platform == "win32", reason="the console itself keeps lines there")
def test_news_come_in_above_the_line_that_is_typed_and_leave_it_as_it_is(tmp_path: Path):
    import pty

    code = (
        "import sys; from pathlib import Path; from pattern_acp.cli.chat.interactive import INSERTED\n"
        "from pattern_acp.cli.chat.interactive import LinePrompt\n"
        "def news(columns):\n"
        "    if columns > 2: sys.stdout.write(INSERTED.format(line=f'{columns} columns')); sys.stdout.flush()\n"
        "prompt = LinePrompt(Path(sys.argv[1]), lambda: [], news); prompt.open()\n"
        "sys.stdout.write(f'got {prompt.read(chr(62))!r}\\n')"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=agent_environment(tmp_path),
    ) as child:
        os.close(theirs)
        try:
            read_until(ours, b"> ")
            os.write(ours, b"hello")
            read_until(ours, INSERTED.format(line="7 columns").encode())
            os.write(ours, b" world\r")
            read_until(ours, b"got 'hello world'")
        finally:
            child.kill()
            os.close(ours)


def read_until(terminal: int, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        seen += os.read(terminal, 4096)


@pytest.mark.skipif(sys.platform == "win32", reason="nothing looks there")
def test_a_ctrl_c_in_the_moment_of_a_look_stays_one():
    def look() -> None:
        raise SystemError("returned a result with an exception set") from KeyboardInterrupt()

    with pytest.raises(KeyboardInterrupt), looking(look):
        signal.raise_signal(signal.SIGALRM)


PASTED = {
    "by a terminal that says so": b"\x1b[200~one\\\rtwo\rthree\r\x1b[201~\r",
    "line by line": b"one\\\rtwo\rthree\r",
}


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo terminals are POSIX")
@pytest.mark.parametrize("pasted", PASTED.values(), ids=PASTED)
def test_pasted_lines_are_one_prompt(tmp_path: Path, pasted: bytes):
    import pty

    code = (
        "import sys; from pathlib import Path; from pattern_acp.cli.chat.interactive import LinePrompt\n"
        "prompt = LinePrompt(Path(sys.argv[1]), lambda: []); prompt.open()\n"
        "for _ in range(2): sys.stdout.write(f'got {prompt.read(chr(62))!r}\\n')"
    )
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=agent_environment(tmp_path, TERM="xterm"),
    ) as child:
        os.close(theirs)
        try:
            read_until(ours, b"> ")
            os.write(ours, pasted)
            read_until(ours, rb"got 'one\\\ntwo\nthree'")
            os.write(ours, b"next\r")
            read_until(ours, b"got 'next'")
        finally:
            child.kill()
            os.close(ours)


@pytest.mark.skipif(sys.platform == "win32", reason="the console itself keeps lines there")
def test_the_history_is_for_the_person_alone(tmp_path: Path):
    lines_read(tmp_path / "new", b"one\n")
    assert (tmp_path / "new" / "chat_history").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(sys.platform == "win32", reason="the console itself keeps lines there")
@pytest.mark.parametrize(
    ("command", "left"),
    [
        ("/memory forget project the vault code", ["likes tea"]),
        ("/memory forget --yes archive “VAULT CODE”", ["likes tea"]),
        ("/memory forget project --all", ["likes tea", "the Vault\u00a0code is 4711"]),
        ("forget the vault code", ["likes tea", "the Vault\u00a0code is 4711"]),
    ],
)
def test_what_is_forgotten_is_not_brought_back_by_the_arrow_key(tmp_path: Path, command: str, left: list[str]):
    code = (
        "import readline, sys; from pathlib import Path; from pattern_acp.cli.chat.interactive import LinePrompt\n"
        "prompt = LinePrompt(Path(sys.argv[1]), lambda: []); prompt.open()\n"
        "[readline.add_history(line) for line in ('likes tea', 'the Vault\\u00a0code is 4711', sys.argv[2])]\n"
        "prompt.close(); prompt.forget(sys.argv[2])"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path), command], env=agent_environment(tmp_path), check=True)
    lines = (tmp_path / "chat_history").read_text("utf-8").splitlines()
    assert [line for line in lines if line not in {command, "_HiStOrY_V2_"}] == left
