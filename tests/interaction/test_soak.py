"""A hundred turns in one process leave nothing behind: no descriptor, no task, no thread (see benchmarks/soak.py)."""

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import Turn, calls, says

AUTO = Settings(editor_deadline_seconds=30, mode="auto")

TURNS = 100
WARM_UP = 20
PER_SESSION = 20
SLACK = (TURNS - WARM_UP) // 4
"""How many more there may be than after the first turns: worker threads come when several are needed at once, which
is up to the machine. What every fourth turn leaves behind is more."""


def script() -> list[Turn]:
    """Each turn reads and writes a file, every fifth runs a command and writes memory."""
    played: list[Turn] = []
    for number in range(TURNS):
        name = f"{number}.txt"
        work = calls("write_file", path=name, content=f"content {number}\n") + calls("read_file", path=name)
        if number % 5 == 0:
            work += calls("run_command", command="echo one")
            work += calls("memory_write", label="human", operation="append", text=f"Fact {number}.")
        played += [work, says("Done.")]
    return played


def counted() -> tuple[int, int, int]:
    """Open descriptors, tasks and threads."""
    return len([*Path("/proc/self/fd").iterdir()]), len(asyncio.all_tasks()), threading.active_count()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
@pytest.mark.timeout(180)
async def test_a_hundred_turns_leave_no_descriptor_task_or_thread_behind():
    async with running_agent(ScriptedProvider(script()), settings=AUTO) as agent:
        warm, session = (0, 0, 0), ""
        for number in range(TURNS):
            if number % PER_SESSION == 0:
                if session:
                    await agent.editor.request("session/close", {"sessionId": session})
                session = await agent.editor.open_session(str(agent.folder))
            assert await agent.editor.prompt(session, f"Prompt {number}") == {"stopReason": "end_turn"}
            if number == WARM_UP - 1:
                warm = counted()
        assert agent.editor.said().count("Done.") == TURNS
        left = counted()
        assert all(now < then + SLACK for now, then in zip(left, warm, strict=True)), (warm, left)
