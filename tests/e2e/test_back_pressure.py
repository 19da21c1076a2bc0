"""A client that stops reading: the turn waits, memory stays bounded, and all of it arrives once the client reads on."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import TurnEnded
from tests.support.editor import JsonDict
from tests.support.official_schema import official_schema
from tests.support.process import (
    COMMAND,
    EXIT_SECONDS,
    SLACK_SECONDS,
    agent_environment,
    read_events,
    write_script,
)
from tests.support.wire import WireJudge

pytestmark = pytest.mark.e2e

ANSWER_CHARACTERS = 3_000_000
"""Far more than a pipe, our queues and the growth that is allowed below can hold."""

GROWTH_KB = 24 * 1024
"""What an agent may grow while nobody reads: its write queue and a message in the making."""


PIPE_BYTES = 4096
"""The least that a pipe holds."""

IDLE_TICKS = 3
"""Hundredths of a second of work in half a second: less is idle."""


class Client:
    """A client of the plainest kind: it writes and reads when a test says so."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout
        self._judge = WireJudge(official_schema())
        self._last_id = 0

    def ask(self, method: str, **params: object) -> int:
        self._last_id += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self._last_id, "method": method, "params": params}).encode() + b"\n"
        self._judge.client_wrote(line)
        self._stdin.write(line)
        self._stdin.flush()
        return self._last_id

    def read_until_answer(self, request_id: int) -> Iterator[JsonDict]:
        """The messages up to the answer, which is the last."""
        while line := self._stdout.readline():
            self._judge.agent_wrote(line)
            message = json.loads(line)
            yield message
            if message.get("id") == request_id:
                return

    def answer_to(self, method: str, **params: object) -> JsonDict:
        *_, answer = self.read_until_answer(self.ask(method, **params))
        return answer["result"]


def resident_kb(process: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def wait_until_settled(process: subprocess.Popen[bytes]) -> int:
    """Wait until the process has written and no longer does anything; its size in kB."""
    before, now = -IDLE_TICKS, 0
    while now >= before + IDLE_TICKS or unread_bytes(process) < PIPE_BYTES:
        before = now
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        now = cpu_ticks(process)
    return resident_kb(process)


def unread_bytes(process: subprocess.Popen[bytes]) -> int:
    """What lies in the pipe that nobody reads."""
    import fcntl
    import termios

    assert process.stdout is not None
    return int.from_bytes(fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)


def cpu_ticks(process: subprocess.Popen[bytes]) -> int:
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sizes of processes are read from /proc")
def test_an_agent_whose_client_does_not_read_waits_and_does_not_grow(tmp_path: Path):
    piece = "0123456789" * 6_000
    turn = [{"text": piece}] * (ANSWER_CHARACTERS // len(piece))
    environment = {**agent_environment(tmp_path / "home"), **write_script(tmp_path, [turn], chunk=1_000)}
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        client = Client(process)
        client.answer_to("initialize", protocolVersion=1)
        session = client.answer_to("session/new", cwd=str(tmp_path), mcpServers=[])["sessionId"]
        before = resident_kb(process)

        prompt = client.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        grown = wait_until_settled(process) - before
        *updates, answer = client.read_until_answer(prompt)

        chunks = [message["params"]["update"] for message in updates]
        text = "".join(c["content"]["text"] for c in chunks if c["sessionUpdate"] == "agent_message_chunk")
        assert grown < GROWTH_KB
        assert answer["result"] == {"stopReason": "end_turn"}
        assert text == piece * len(turn)
        process.communicate(timeout=50)
        assert process.returncode == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sizes of processes are read from /proc")
def test_an_agent_that_waits_for_its_reader_still_ends_in_time(tmp_path: Path):
    turn = [{"text": "0123456789" * 300_000}]
    environment = {**agent_environment(tmp_path / "home"), **write_script(tmp_path, [turn], chunk=1_000)}
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        client = Client(process)
        client.answer_to("initialize", protocolVersion=1)
        session = client.answer_to("session/new", cwd=str(tmp_path), mcpServers=[])["sessionId"]
        client.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        wait_until_settled(process)

        assert process.stdin is not None
        process.stdin.close()
        code = process.wait(EXIT_SECONDS + SLACK_SECONDS)
    events = anyio.run(read_events, tmp_path / "home" / "constellations" / "default" / "constellation.db", session)

    assert code == 0
    assert [event.stop_reason for event in events if isinstance(event, TurnEnded)] == [StopReason.CANCELLED]
