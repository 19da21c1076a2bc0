"""How the process may be started, and what the first line on its stdout is."""

import contextlib
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pattern_acp import __version__
from pattern_acp.acp.agent import AUTH_METHOD
from pattern_acp.domain.canonical import JsonObject
from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_server import serve_models
from tests.support.process import COMMAND, Launch, agent_environment, judge_conversation, running_process

pytestmark = pytest.mark.e2e

SECONDS = 50

LATE_FOR_THE_FIRST_REQUEST = {
    "certifi", "email", "filelock", "h11", "http", "httpcore", "httpx", "idna", "loro", "mcp", "pydantic",
    "urllib.request",
}  # fmt: skip
"""Nothing on the way to the first request to a model may import these, nor the rest of that turn."""


def call(number: int, method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


INITIALIZE = call(1, "initialize", protocolVersion=1)
LINES = [INITIALIZE, call(2, "authenticate", methodId=AUTH_METHOD)]


def run(home: Path, *arguments: str, written: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = agent_environment(home)
    return subprocess.run(
        [*COMMAND, *arguments], input=written, env=environment, capture_output=True, timeout=SECONDS, check=False
    )


def constellations_below(folder: Path) -> list[Path]:
    return list(folder.rglob("constellations/default/constellation.db"))


def is_initialize_response(message: JsonObject) -> bool:
    result = message.get("result")
    return message["id"] == 1 and isinstance(result, dict) and result["protocolVersion"] == 1


@pytest.mark.parametrize("arguments", [(), ("acp",), ("--acp",)])
def test_each_way_to_ask_for_acp_serves_it(tmp_path: Path, arguments: tuple[str, ...]):
    result = run(tmp_path, *arguments, written=INITIALIZE)

    [message] = judge_conversation([INITIALIZE], result.stdout)
    assert is_initialize_response(message)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
async def test_the_process_that_was_started_serves_and_starts_no_copy_of_itself(tmp_path: Path):
    async with running_process(Launch(tmp_path)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "/status")
        tasks = Path(f"/proc/{agent.process.pid}/task")
        children = " ".join(children_of(task) for task in list_folder(tasks)).split()
        assert [command for command in map(command_of, children) if b"pattern_acp" in command] == []


async def test_the_way_to_the_first_request_imports_no_library_that_it_does_not_need(tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    async with serve_models([[ScriptStep(text="Hello.")]]) as server:
        (home / "config.toml").write_text(
            f'[providers.mine]\nwire = "anthropic"\nbase_url = "{server.url}"\n', encoding="utf-8"
        )
        # Python writes each import to standard error.
        environment = {"PATTERN_ACP_MODEL": "mine/claude-sonnet-5", "PYTHONPROFILEIMPORTTIME": "1"}
        async with running_process(Launch(home, (), environment)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            await agent.editor.prompt(session, "Hello")
            imported = {line.rpartition("|")[2].strip() for line in agent.stderr().splitlines()}
    assert len(server.requests) == 1
    assert "pattern_acp.providers.http_transport" in imported
    assert imported & LATE_FOR_THE_FIRST_REQUEST == set()


def list_folder(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def children_of(task: Path) -> str:
    # Threads end when they like.
    with contextlib.suppress(OSError):
        return (task / "children").read_text(encoding="utf-8")
    return ""


def command_of(process: str) -> bytes:
    """The command line of a process; empty when it has ended."""
    with contextlib.suppress(OSError):
        return Path("/proc", process, "cmdline").read_bytes()
    return b""


async def test_a_bare_environment_without_home_at_the_root_directory_is_enough(tmp_path: Path):
    launch = Launch(tmp_path / "home", environment={"TERM": "dumb"}, cwd=tmp_path.anchor)
    async with running_process(launch) as agent:
        assert agent.initialized["protocolVersion"] == 1
        await agent.editor.open_session(str(tmp_path))
        assert agent.constellation.is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has its own variables for both directories")
async def test_without_any_home_directory_the_agent_works_in_the_temporary_one(tmp_path: Path):
    environment = {"PATTERN_ACP_HOME": "", "HOME": "", "TMPDIR": str(tmp_path)}
    async with running_process(Launch(tmp_path, environment=environment, cwd="/")) as agent:
        await agent.editor.open_session(str(tmp_path))
        assert constellations_below(tmp_path)


async def test_an_empty_home_directory_is_enough(tmp_path: Path):
    environment = dict.fromkeys(("HOME", "USERPROFILE", "LOCALAPPDATA", "APPDATA"), str(tmp_path))
    async with running_process(Launch(tmp_path, environment={"PATTERN_ACP_HOME": "", **environment})) as agent:
        await agent.editor.open_session(str(tmp_path))
        assert constellations_below(tmp_path)


def test_stdin_and_stdout_may_be_regular_files(tmp_path: Path):
    asked, answered = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    asked.write_bytes(b"".join(LINES))
    environment = agent_environment(tmp_path / "home")

    with asked.open("rb") as stdin, answered.open("wb") as stdout:
        done = subprocess.run(
            COMMAND, stdin=stdin, stdout=stdout, env=environment, timeout=SECONDS, stderr=subprocess.PIPE, check=False
        )

    first, second = judge_conversation(LINES, answered.read_bytes())
    assert is_initialize_response(first)
    assert "result" in second
    assert done.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a Windows socket is no descriptor")
def test_stdin_and_stdout_may_be_one_socket(tmp_path: Path):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # An editor's event loop leaves its end non-blocking, and the flag is shared by whoever holds the descriptor.
        theirs.setblocking(False)
        end = theirs.fileno()
        process = subprocess.Popen(COMMAND, stdin=end, stdout=end, env=agent_environment(tmp_path / "home"))
        theirs.close()
        ours.settimeout(SECONDS)
        ours.sendall(b"".join(LINES))
        ours.shutdown(socket.SHUT_WR)
        with ours.makefile("rb") as stream:
            answered = stream.read()
        code = process.wait(SECONDS)

    first, second = judge_conversation(LINES, answered)
    assert is_initialize_response(first)
    assert "result" in second
    assert code == 0


async def test_what_a_library_prints_at_import_does_not_reach_the_stream(tmp_path: Path):
    (tmp_path / "loro.py").write_text(
        "import os, sys\n"
        "print('a banner', flush=True)\n"
        "os.write(1, b'bytes to descriptor 1\\n')\n"
        "sys.__stdout__.write('to the first stdout\\n')\n"
        "sys.path.remove(os.path.dirname(__file__))\n"
        "del sys.modules['loro']\n"
        "import loro\n",
        encoding="utf-8",
    )
    async with running_process(Launch(tmp_path, environment={"PYTHONPATH": str(tmp_path)})) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "remember that banners are noise")
        await agent.close_input()
        assert await agent.wait() == 0
        assert "a banner" in agent.stderr()
        assert "bytes to descriptor 1" in agent.stderr()
        assert "to the first stdout" in agent.stderr()


def test_the_version_is_one_line(tmp_path: Path):
    result = run(tmp_path, "--version")

    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode().split() == ["pattern-acp", __version__]


@pytest.mark.parametrize("arguments", [("--stdio",), ("acp", "--no-such-flag"), ("no-such",), ("--log-level", "loud")])
def test_an_argument_that_is_unknown_ends_with_one_line_and_exit_code_2(tmp_path: Path, arguments: tuple[str, ...]):
    result = run(tmp_path, *arguments, written=INITIALIZE)

    assert (result.returncode, result.stdout) == (2, b"")
    assert result.stderr.count(b"\n") == 1
    assert result.stderr.endswith(b"\n")
    assert b"Traceback" not in result.stderr


def test_what_lies_in_the_current_folder_is_not_imported(tmp_path: Path):
    (tmp_path / "marks").mkdir()
    for name in ("anyio", "msgspec", "cryptography", "loro"):
        (tmp_path / f"{name}.py").write_text(f"open('marks/{name}', 'w').close()\n")
    for words in ([], ["doctor"]):
        command = [sys.executable, "-m", "pattern_acp", *words]
        environment = agent_environment(tmp_path / "home")
        result = subprocess.run(
            command, cwd=tmp_path, input=b"", env=environment, capture_output=True, timeout=SECONDS, check=False
        )
        assert b"Traceback" not in result.stderr
    assert list_folder(tmp_path / "marks") == []
