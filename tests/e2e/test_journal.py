"""The journal from beside a running agent: it is followed live, and a session that survived a kill replays the same."""

import signal
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.abc
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor import JsonDict
from tests.support.process import AgentProcess, Launch, agent_environment, running_process, write_script

pytestmark = pytest.mark.e2e

SECONDS = 60

FACT = {"label": "human", "operation": "append", "text": "Likes tests."}

SCRIPT = [
    [{"text": "Let me look."}, {"tool": "list_directory", "arguments": {"path": "."}}],
    [{"tool": "memory_write", "arguments": FACT}],
    [{"text": "Done."}],
    [{"text": "I begin, "}, {"wait_ms": 1200}, {"text": "and go on"}, {"wait_for": "cancel"}],
]


def journal(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pattern_acp", "journal", *arguments]


async def next_line(lines: anyio.abc.ByteReceiveStream, buffered: bytearray) -> str:
    with anyio.fail_after(SECONDS):
        while b"\n" not in buffered:
            buffered += await lines.receive()
    line, _, rest = bytes(buffered).partition(b"\n")
    buffered[:] = rest
    return line.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="a signal to one process is not Ctrl-C there")
async def test_events_are_followed_while_they_are_recorded_until_ctrl_c(tmp_path: Path):
    async with running_process(Launch(tmp_path, environment=write_script(tmp_path, SCRIPT))) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        command = journal("tail", session, "--lines", "1")
        async with await anyio.open_process(command, env=agent_environment(tmp_path)) as followed:
            assert followed.stdout is not None
            assert followed.stderr is not None
            buffered = bytearray()
            seen = [await next_line(followed.stdout, buffered)]
            await agent.editor.prompt(session, "Look at what nobody may see on a terminal.")
            while "turn_ended" not in seen[-1]:
                seen.append(await next_line(followed.stdout, buffered))
            followed.send_signal(signal.SIGINT)
            with anyio.fail_after(SECONDS):
                code = await followed.wait()
            told = b"".join([chunk async for chunk in followed.stderr])
    kinds = "\n".join(seen)
    assert all(kind in kinds for kind in ("turn_started", "model_requested", "tool_call_finished", "block_committed"))
    assert "nobody may see" not in kinds
    assert (code, told) == (130, b"")


async def prompt_until_killed(agent: AgentProcess, session: str) -> None:
    with suppress(ConnectionClosedError, RemoteError):
        await agent.editor.prompt(session, "Go on.")


async def test_a_session_that_survived_a_kill_replays_the_same(tmp_path: Path):
    launch = Launch(tmp_path, environment=write_script(tmp_path, SCRIPT))
    async with running_process(launch) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "Look.")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt_until_killed, agent, session)
            await agent.editor.wait_until(lambda: "and go on" in agent.editor.said(), seconds=SECONDS)
            agent.kill()
        await agent.wait()
    async with running_process(launch) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        await agent.editor.request("session/load", params)
        await agent.editor.prompt(session, "And again.")
    done = await anyio.run_process(journal("replay", session), env=agent_environment(tmp_path), check=False)
    printed = done.stdout.decode()
    assert "run again the same: 3 turns, 7 model requests, 4 tool calls" in printed, printed + done.stderr.decode()
    assert "turns that the end of their process cut, compared up to their last request: 1" in printed
    assert done.returncode == 0
