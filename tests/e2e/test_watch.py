"""`pattern-acp sessions watch` beside an agent in another process: live, read-only, and why it ends."""

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest

from tests.support.agent import temporary_folder
from tests.support.editor import JsonDict
from tests.support.process import COMMAND, AgentProcess, Launch, agent_environment, running_process, write_script

pytestmark = pytest.mark.e2e

SEEN_SECONDS = 60
"""For one line of a watcher, on a busy machine."""


class Watcher:
    """A process that watches, and what it wrote so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[JsonDict] = []

    async def until(self, words: str) -> JsonDict:
        """Read until a line has the words; that line."""
        while True:
            stdout = self.process.stdout
            assert stdout is not None
            with anyio.fail_after(SEEN_SECONDS):
                line = await anyio.to_thread.run_sync(stdout.readline, abandon_on_cancel=True)
            assert line, f"The watcher ended without {words!r}: {self.lines}"
            self.lines.append(json.loads(line))
            if words in line.decode():
                return self.lines[-1]


@contextmanager
def watching(home: Path, session: str) -> Generator[Watcher]:
    """Watch a session as a command of a terminal does, until the context ends."""
    command = [*COMMAND, "sessions", "watch", session, "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=agent_environment(home), cwd=home)
    try:
        yield Watcher(process)
    finally:
        process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


async def _killed(agent: AgentProcess, _session: str) -> None:
    agent.process.kill()


async def _left(agent: AgentProcess, _session: str) -> None:
    await agent.transport.close_input()


async def _deleted(agent: AgentProcess, session: str) -> None:
    await agent.editor.request("session/delete", {"sessionId": session})


ENDS = {"interrupted": _killed, "closed": _left, "deleted": _deleted}


@pytest.mark.parametrize("reason", ENDS)
async def test_a_turn_is_seen_while_it_runs_and_the_end_has_its_reason(reason: str) -> None:
    with temporary_folder() as home:
        script = write_script(home, [[{"text": "Half of it. "}, {"wait_for": "cancel"}]])
        async with running_process(Launch(home, environment=script)) as agent:
            session = await agent.editor.open_session(str(home))
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "Begin"}]}
            await agent.editor.dispatcher.post("session/prompt", prompt)
            with watching(home, session) as watcher:
                await watcher.until("Half of it.")
                assert watcher.lines[0]["sessionUpdate"] == "user_message_chunk"
                await ENDS[reason](agent, session)
                assert await watcher.until("done") == {"done": reason}
                assert await anyio.to_thread.run_sync(watcher.process.wait, 30) == 0
