"""How the process ends (architecture.md, invariant 9): at the end of input and on SIGTERM, idle and in a turn."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import Event, JobEnded, ToolCallFinished, TurnEnded
from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.children import watched_command
from tests.support.editor import JsonDict
from tests.support.process import (
    AgentProcess,
    Launch,
    agent_environment,
    read_events,
    running_process,
    write_script,
)

pytestmark = pytest.mark.e2e

Leave = Callable[[AgentProcess], Coroutine[None, None, None]]


async def close_input(agent: AgentProcess) -> None:
    await agent.close_input()


async def terminate(agent: AgentProcess) -> None:
    agent.terminate()


async def hang_up(agent: AgentProcess) -> None:
    agent.process.send_signal(signal.Signals["SIGHUP"])


async def insist(agent: AgentProcess) -> None:
    agent.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        await agent.wait(0.1)
    agent.terminate()
    agent.process.send_signal(signal.SIGINT)


on_posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to be received")
ways = pytest.mark.parametrize(
    "leave", [close_input, pytest.param(terminate, marks=on_posix), pytest.param(hang_up, marks=on_posix)]
)


async def prompt_until_the_end(agent: AgentProcess, session: str) -> None:
    """A prompt that is cancelled by the end, answered so when there is time, or never when the process is gone."""
    with contextlib.suppress(RemoteError, ConnectionClosedError):
        assert await agent.editor.prompt(session, "go") == {"stopReason": "cancelled"}


@ways
async def test_an_idle_process_ends_in_time(tmp_path: Path, leave: Leave):
    async with running_process(Launch(tmp_path)) as agent:
        await leave(agent)
        assert await agent.wait() == 0
        assert agent.stderr() == ""


@ways
async def test_a_process_with_an_idle_session_ends_in_time_and_gives_up_its_lease(tmp_path: Path, leave: Leave):
    session = ""
    async with running_process(Launch(tmp_path)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.prompt(session, "list")
        await leave(agent)
        assert await agent.wait() == 0
    async with running_process(Launch(tmp_path)) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})


@ways
async def test_a_subscription_to_memory_ends_with_its_reason(tmp_path: Path, leave: Leave):
    async with running_process(Launch(tmp_path / "home")) as agent:
        await agent.editor.initialize()
        session = await agent.editor.open_session(str(tmp_path))
        await agent.editor.request("_pattern/memory/subscribe", {"sessionId": session})
        await agent.editor.request("session/list", {})
        await leave(agent)
        await agent.editor.wait_until(lambda: bool(agent.editor.memory_events))
        assert agent.editor.memory_events[-1]["event"] == {"type": "done", "reason": "shutdown"}
        assert await agent.wait() == 0


@ways
async def test_a_prompt_that_the_end_meets_is_answered_cancelled(tmp_path: Path, leave: Leave):
    answers: list[JsonDict] = []
    script = write_script(tmp_path, [[{"text": "One"}, {"wait_for": "cancel"}]])
    async with running_process(Launch(tmp_path, environment=script)) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(tmp_path))

        async def prompt() -> None:
            answers.append(await agent.editor.prompt(session, "go"))

        tasks.start_soon(prompt)
        with anyio.fail_after(30):
            await agent.editor.wait_until(lambda: bool(agent.editor.said()))
        await leave(agent)
        assert await agent.wait() == 0
    assert answers == [{"stopReason": "cancelled"}]


@on_posix
async def test_a_second_signal_does_not_keep_the_process_from_ending_its_command(tmp_path: Path):
    async with watched_command(tmp_path, "stubborn") as command:
        script = write_script(tmp_path, [[{"tool": "run_command", "arguments": {"command": command.line}}]])
        async with running_process(Launch(tmp_path, environment=script)) as agent, anyio.create_task_group() as tasks:
            session = await agent.editor.open_session(str(tmp_path))
            tasks.start_soon(prompt_until_the_end, agent, session)
            with anyio.fail_after(30):
                await command.wait_until_started()
            await insist(agent)
            assert await agent.wait() == 0
            with anyio.fail_after(30):
                await command.wait_until_gone()


@on_posix
async def test_an_interrupt_before_the_first_request_is_read_leaves_no_traceback(tmp_path: Path):
    code = (
        "import sys; sys.argv=['pattern-acp']; from pattern_acp.cli import main; import pattern_acp.cli.serving as s;"
        "import os, signal; s.claim_standard_streams = lambda: os.kill(os.getpid(), signal.SIGINT);"
        "sys.exit(main.run([]))"
    )
    ran = await anyio.run_process([sys.executable, "-c", code], env=agent_environment(tmp_path), check=False)
    assert ran.returncode == -signal.SIGINT
    assert ran.stderr == b""


@ways
@pytest.mark.parametrize("words", [(), ("parent",), ("stubborn",)])
async def test_a_running_command_dies_with_the_process_and_its_turn_is_recorded(
    tmp_path: Path, leave: Leave, words: tuple[str, ...]
):
    events: list[Event] = []
    async with watched_command(tmp_path, *words) as command:
        script = write_script(tmp_path, [[{"tool": "run_command", "arguments": {"command": command.line}}]])
        async with running_process(Launch(tmp_path, environment=script)) as agent, anyio.create_task_group() as tasks:
            session = await agent.editor.open_session(str(tmp_path))
            tasks.start_soon(prompt_until_the_end, agent, session)
            with anyio.fail_after(30):
                await command.wait_until_started()
            await leave(agent)
            assert await agent.wait() == 0
            with anyio.fail_after(30):
                await command.wait_until_gone()
            events += await read_events(agent.constellation, session)

    [ended] = [event for event in events if isinstance(event, TurnEnded)]
    [call] = [event for event in events if isinstance(event, ToolCallFinished)]
    assert ended.stop_reason is StopReason.CANCELLED
    assert (call.status, call.interrupted) == ("failed", True)


@ways
async def test_text_that_was_streamed_until_then_is_kept(tmp_path: Path, leave: Leave):
    script = write_script(tmp_path, [[{"text": "The first half."}, {"wait_for": "cancel"}]])
    session = ""
    async with running_process(Launch(tmp_path, environment=script)) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(tmp_path))
        tasks.start_soon(prompt_until_the_end, agent, session)
        await agent.editor.wait_until(lambda: agent.editor.said() == "The first half.")
        await leave(agent)
        assert await agent.wait() == 0
    async with running_process(Launch(tmp_path, environment=script)) as agent:
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []})
        assert agent.editor.said() == "The first half."


async def test_a_pending_permission_request_does_not_hold_the_process(tmp_path: Path):
    async def never(params: object) -> dict[str, object]:
        await anyio.sleep_forever()
        return {}

    script = write_script(tmp_path, [[{"tool": "run_command", "arguments": {"command": "touch made"}}]])
    launch = Launch(tmp_path, environment=script, permission=never)
    async with running_process(launch) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(tmp_path))
        tasks.start_soon(prompt_until_the_end, agent, session)
        await agent.editor.wait_until(lambda: bool(agent.editor.asked))
        await agent.close_input()
        assert await agent.wait() == 0
    assert not (tmp_path / "made").exists()


@ways
async def test_background_commands_die_with_the_process_in_time_and_are_recorded(tmp_path: Path, leave: Leave):
    async with watched_command(tmp_path, "stubborn") as command:
        arguments = {"command": command.line, "background": True}
        script = write_script(tmp_path, [[{"tool": "run_command", "arguments": arguments}], [{"text": "It runs."}]])
        async with running_process(Launch(tmp_path, environment=script)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            assert (await agent.editor.prompt(session, "go"))["stopReason"] == "end_turn"
            with anyio.fail_after(30):
                await command.wait_until_started()
            await leave(agent)
            assert await agent.wait() == 0
            with anyio.fail_after(30):
                await command.wait_until_gone()
            events = await read_events(agent.constellation, session)
    assert [event.outcome for event in events if isinstance(event, JobEnded)] == ["stopped"]


@on_posix
async def test_a_killed_agent_takes_its_running_command_with_it(tmp_path: Path):
    async with watched_command(tmp_path, "stubborn", "parent", "stubborn") as command:
        script = write_script(tmp_path, [[{"tool": "run_command", "arguments": {"command": command.line}}]])
        async with running_process(Launch(tmp_path, environment=script)) as agent, anyio.create_task_group() as tasks:
            session = await agent.editor.open_session(str(tmp_path))
            tasks.start_soon(prompt_until_the_end, agent, session)
            with anyio.fail_after(30):
                await command.wait_until_started()
                agent.process.kill()
                await command.wait_until_gone()


@on_posix
async def test_a_killed_agent_takes_its_background_commands_with_it_and_the_next_one_says_so(tmp_path: Path):
    async with watched_command(tmp_path, "parent") as command:
        arguments = {"command": command.line, "background": True}
        script = write_script(tmp_path, [[{"tool": "run_command", "arguments": arguments}], [{"text": "It runs."}]])
        async with running_process(Launch(tmp_path, environment=script)) as agent:
            session = await agent.editor.open_session(str(tmp_path))
            await agent.editor.prompt(session, "go")
            with anyio.fail_after(30):
                await command.wait_until_started()
            agent.process.kill()
            with anyio.fail_after(30):
                await command.wait_until_gone()
        async with running_process(Launch(tmp_path, environment=script)) as agent:
            params: JsonDict = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
            await agent.editor.request("session/load", params)
            await agent.editor.prompt(session, "/background")
            assert "was lost" in agent.editor.said()
