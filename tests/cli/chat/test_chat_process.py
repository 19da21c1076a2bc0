"""The command, as a person or a script runs it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from pattern_acp.bootstrap.process import start_process
from pattern_acp.cli.arguments import Chat
from pattern_acp.cli.chat.agent_process import AgentGoneError, ChatError, open_agent
from pattern_acp.cli.chat.run import Connect, run
from pattern_acp.cli.chat.screen import UNICODE
from pattern_acp.config.load import process_environment
from pattern_acp.config.settings import Flags
from tests.support.process import COMMAND, agent_environment, write_script

pytestmark = pytest.mark.e2e

POSIX = os.name == "posix"

END_SECONDS = 30.0
"""What a busy machine may need to end the processes that were told to."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (path / "a.txt").write_text("hello world\n", encoding="utf-8")
    return path


def chat(
    home: Path, project: Path, *words: str, stdin: str = "", script: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, "chat", *words],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=project,
        env=agent_environment(home, PYTHONUTF8="1", **(script or {})),
        timeout=50,
        check=False,
    )


def sessions(home: Path, project: Path, *words: str) -> str:
    command = [*COMMAND, "sessions", *words]
    return subprocess.check_output(command, cwd=project, env=agent_environment(home, PYTHONUTF8="1"), encoding="utf-8")


def left_running(home: Path) -> list[str]:
    """What does not end that was started with this home; only where the system tells."""
    for pid in processes_of(home):
        with suppress(ProcessLookupError):
            process = os.pidfd_open(int(pid))
            select.select([process], [], [], END_SECONDS)
            os.close(process)
    return processes_of(home)


def processes_of(home: Path) -> list[str]:
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PATTERN_ACP_HOME={home}".encode() in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


def test_a_prompt_is_answered_on_stdout_and_the_rest_goes_to_stderr(home: Path, project: Path):
    done = chat(home, project, "read a.txt")
    assert done.returncode == 0
    assert "hello world" in done.stdout
    assert "Read a.txt" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert left_running(home) == []


def test_nothing_of_the_folder_is_imported(home: Path, project: Path):
    for name in ("anyio", "pickle", "pattern_acp"):
        (project / f"{name}.py").write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    done = chat(home, project, "hello")
    assert done.returncode == 0, done.stderr
    assert not (project / "ran").exists()


def test_a_reader_that_goes_away_ends_a_prompt_quietly(home: Path, project: Path):
    running = subprocess.Popen(
        [*COMMAND, "chat", "hi"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project,
        env=agent_environment(home, PYTHONUTF8="1"),
    )
    assert running.stdout is not None
    running.stdout.close()
    running.stdout = None
    _, told = running.communicate(timeout=50)
    assert (running.returncode, told) == (0, b"")


@pytest.mark.skipif(not POSIX, reason="SIGINT to a process is POSIX")
def test_ctrl_c_cancels_the_turn_and_leaves_nothing_behind(home: Path, project: Path):
    script = write_script(home, [[{"text": "This takes long.\n\n"}, {"wait_for": "cancel"}]])
    process = subprocess.Popen(
        [*COMMAND, "chat", "go"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=project,
        env=agent_environment(home, **script),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"This takes long.\n"
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=50)
    assert process.returncode == 130
    assert b"cancelled" in stderr
    assert left_running(home) == []


@pytest.mark.skipif(not POSIX, reason="SIGTERM to a process is POSIX")
def test_being_told_to_end_ends_the_agent_and_its_commands(home: Path, project: Path):
    program = "print('ready', flush=True); import time; time.sleep(60)"
    script = write_script(
        home, [[{"tool": "run_command", "arguments": {"command": f'echo x > ran; "{sys.executable}" -c "{program}"'}}]]
    )
    process = subprocess.Popen(
        [*COMMAND, "chat", "--yes", "--json", "go"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=project,
        env=agent_environment(home, **script),
    )
    assert process.stdout is not None
    for line in process.stdout:
        if b'"terminal"' in line:
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=50)
    assert process.returncode == 143
    assert left_running(home) == []


def starting(command: Sequence[str]) -> Connect:
    return lambda _: open_agent(command, process_environment())


def dying_agent(code: str) -> Sequence[str]:
    return [sys.executable, "-c", code]


def test_an_agent_that_dies_early_says_why_in_one_sentence(home: Path, project: Path):
    process = start_process(Flags(), agent_environment(home))
    arguments = Chat(prompt="hi", cwd=str(project))
    noisy = dying_agent("import sys; sys.stderr.write('x' * 300_000 + '\\nboom\\n'); sys.exit(3)")
    with pytest.raises(AgentGoneError, match=r"^The agent ended with exit code 3: boom$"):
        run(arguments, process, starting(noisy))
    with pytest.raises(AgentGoneError, match="did not say why"):
        run(arguments, process, starting(dying_agent("import sys; sys.stdin.readline()")))
    with pytest.raises(AgentGoneError, match="could not be started"):
        run(arguments, process, starting([str(home / "no-such-program")]))


DIES_IN_A_TURN = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    results = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s1"}}
    if message["method"] not in results:
        sys.exit("out of luck")
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}), flush=True)
"""


def test_an_agent_that_dies_in_a_turn_is_an_error_of_the_turn(
    home: Path, project: Path, capsys: pytest.CaptureFixture[str]
):
    process = start_process(Flags(), agent_environment(home))
    code = run(Chat(prompt="hi", cwd=str(project)), process, starting(dying_agent(DIES_IN_A_TURN)))
    assert code == 1
    assert "The agent ended with exit code 1: out of luck" in capsys.readouterr().err


def test_an_agent_of_another_version_is_refused(home: Path, project: Path):
    process = start_process(Flags(), agent_environment(home))
    other = DIES_IN_A_TURN.replace('"protocolVersion": 1', '"protocolVersion": 7')
    with pytest.raises(ChatError, match="version 7"):
        run(Chat(prompt="hi", cwd=str(project)), process, starting(dying_agent(other)))


class Terminal:
    """A chat on a pseudo terminal."""

    def __init__(self, home: Path, project: Path, *words: str, **more: str) -> None:
        import pty

        self._master, slave = pty.openpty()
        environ = agent_environment(home, TERM="xterm-256color", COLUMNS="80", LINES="30", PYTHONUTF8="1", **more)
        self._process = subprocess.Popen(
            [*COMMAND, "chat", *words], stdin=slave, stdout=slave, stderr=slave, cwd=project, env=environ
        )
        self._slave = slave
        self.seen = ""
        self._position = 0

    def wait_for(self, text: str) -> None:
        """Wait for `text` behind what was waited for before."""
        while (found := self.seen.find(text, self._position)) < 0:
            assert select.select([self._master], [], [], 50)[0], self.seen
            self._read()
        self._position = found + len(text)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def end(self) -> int:
        while self._process.poll() is None or select.select([self._master], [], [], 0)[0]:
            # Its last output is waited for by the chat itself.
            if select.select([self._master], [], [], 0.05)[0]:
                self._read()
        code = self._process.wait(50)
        self.left_over = bool(select.select([self._slave], [], [], 0)[0])
        os.close(self._slave)
        os.close(self._master)
        return code

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65536)
        except OSError:  # Linux's way to say that the other side is closed
            return False
        self.seen += data.decode("utf-8", "replace")
        return bool(data)


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_a_question_of_the_agent_takes_a_typed_line_in_a_terminal(home: Path, project: Path, tmp_path: Path):
    call = {"tool": "ask_user", "arguments": {"question": "Which?", "options": ["SQLite", "Files"]}}
    script = write_script(tmp_path, [[call], [{"text": "So be it."}]])
    terminal = Terminal(home, project, "set it up", **script)
    terminal.wait_for("no answer")
    terminal.press("Neither of them.\n")
    terminal.wait_for("So be it.")
    assert terminal.end() == 0
    assert "Neither of them." in terminal.seen


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_a_key_answers_a_question(home: Path, project: Path):
    terminal = Terminal(home, project, 'replace "hello" with "bye" in a.txt')
    terminal.wait_for("[R]")
    assert "bye world" in terminal.seen
    terminal.press("a")
    assert terminal.end() == 0
    assert (project / "a.txt").read_text(encoding="utf-8") == "bye world\n"


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_ctrl_c_at_a_question_cancels_and_changes_nothing(home: Path, project: Path):
    terminal = Terminal(home, project, 'replace "hello" with "bye" in a.txt')
    terminal.wait_for("[R]")
    terminal.interrupt()
    assert terminal.end() == 130
    assert (project / "a.txt").read_text(encoding="utf-8") == "hello world\n"


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_an_interactive_chat_goes_from_prompt_to_prompt(home: Path, project: Path):
    terminal = Terminal(home, project)
    terminal.wait_for("mode ask")
    terminal.press("read a.txt\r")
    terminal.wait_for("hello world")
    terminal.wait_for("read a.txt \u00b7 mode ask")
    terminal.wait_for(UNICODE.prompt)
    terminal.press("/quit\r")
    assert terminal.end() == 0
    replayed = Terminal(home, project, "--continue", NO_COLOR="1")
    replayed.wait_for("hello world")
    replayed.wait_for("mode ask")
    replayed.wait_for(UNICODE.prompt)
    replayed.press("\x04")
    assert replayed.end() == 0


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_what_is_pasted_behind_the_end_of_a_chat_is_not_left_to_the_shell(home: Path, project: Path):
    terminal = Terminal(home, project)
    terminal.wait_for(UNICODE.prompt)
    terminal.press("\x04touch it\n")
    assert terminal.end() == 0
    assert not terminal.left_over


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_ctrl_c_gives_a_line_up_without_losing_it_and_does_not_stay_armed(home: Path, project: Path):
    terminal = Terminal(home, project)
    terminal.wait_for(UNICODE.prompt)
    terminal.press("\x03")
    terminal.wait_for("Ctrl-C again")
    terminal.wait_for(UNICODE.prompt)
    terminal.press("read a.txt")
    terminal.wait_for("read a.txt")
    terminal.press("\x03")
    terminal.wait_for("brings the line back. Ctrl-C again")
    terminal.wait_for(UNICODE.prompt)
    terminal.press("\x1b[A")
    terminal.wait_for("read a.txt")
    terminal.press("\r")
    terminal.wait_for("hello world")
    terminal.wait_for("mode ask")
    terminal.wait_for(UNICODE.prompt)
    terminal.press("\x04")
    assert terminal.end() == 0


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_a_prompt_that_is_typed_while_a_turn_runs_waits_for_it(home: Path, project: Path, tmp_path: Path):
    command = f'"{sys.executable}" -c "input()" < pipe'
    os.mkfifo(project / "pipe")
    script = write_script(
        tmp_path,
        [[{"tool": "run_command", "arguments": {"command": command}}], [{"text": "First."}], [{"text": "Second."}]],
    )
    terminal = Terminal(home, project, "--yes", **script)
    terminal.wait_for(UNICODE.prompt)
    terminal.press("begin\r")
    terminal.wait_for("Ctrl-C cancels")
    terminal.press("go on then\r")
    terminal.wait_for(f"{UNICODE.waiting} go on then")
    terminal.press("third")
    terminal.wait_for("Enter queues it")
    with (project / "pipe").open("w") as pipe:
        pipe.write("\n")
    terminal.wait_for("First.")
    terminal.wait_for(f"{UNICODE.prompt} go on then")
    terminal.wait_for("Second.")
    terminal.wait_for("mode ask")
    terminal.wait_for("third")
    terminal.press("\x03")
    terminal.wait_for("brings the line back")
    terminal.wait_for(UNICODE.prompt)
    terminal.press("\x04")
    assert terminal.end() == 0


@pytest.mark.skipif(not POSIX, reason="pseudo terminals are POSIX")
def test_a_chat_begins_new_sessions_goes_back_to_old_ones_and_changes_its_mode(home: Path, project: Path):
    terminal = Terminal(home, project)
    terminal.wait_for("mode ask")
    terminal.press("read a.txt\r")
    terminal.wait_for("hello world")
    terminal.wait_for(UNICODE.prompt)
    terminal.press("/mode edit\r")
    terminal.wait_for("Mode edit.")
    terminal.press("/new\r")
    terminal.wait_for("A new session.")
    terminal.wait_for("mode ask")
    terminal.press("/mode nothing\r")
    terminal.wait_for("/mode takes ask, edit, plan or auto")
    terminal.press("/resume\r")
    terminal.wait_for("1  read a.txt")
    terminal.press("1\r")
    terminal.wait_for("hello world")
    terminal.wait_for("read a.txt \u00b7 mode edit")
    terminal.press("\x04")
    assert terminal.end() == 0
