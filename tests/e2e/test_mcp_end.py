"""MCP servers and the end of the process (invariant 9), and that none are paid for where there are none."""

import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from pattern_acp.config.load import process_environment
from tests.support.mcp_fakes import passed
from tests.support.process import Launch, agent_environment, running_process, write_script

WITHOUT_SERVERS = """
import asyncio, sys
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import says

async def main():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.prompt(session, "/mcp")
        print(sorted({"mcp", "mcp_types", "httpx2"} & set(sys.modules)))

asyncio.run(main())
"""


@pytest.mark.e2e
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
@pytest.mark.parametrize("leave", ["end of input", "SIGTERM"])
async def test_servers_and_their_children_die_with_the_process_in_time(tmp_path: Path, leave: str):
    note = tmp_path / "child"
    os.mkfifo(note)
    script = write_script(tmp_path, [[{"text": "Hello."}]])
    launch = Launch(
        tmp_path / "home", ("--model", "scripted/scripted"), {**agent_environment(tmp_path / "home"), **script}
    )
    async with running_process(launch) as agent:
        servers = [passed("child", str(note)), passed("rude"), passed("mute")]
        answer = await agent.editor.request("session/new", {"cwd": str(tmp_path), "mcpServers": servers})
        await agent.editor.prompt(answer["sessionId"], "Hi")
        with anyio.fail_after(30):
            # A pipe with a name: the first prompt waits for servers only so long, reading waits for the number.
            child = int(await anyio.to_thread.run_sync(note.read_text, abandon_on_cancel=True))
        assert is_running(child)
        if leave == "SIGTERM":
            agent.terminate()
        else:
            await agent.close_input()
        assert await agent.wait() == 0
        with anyio.fail_after(30):
            # A signal takes its time.
            while is_running(child):
                await anyio.lowlevel.checkpoint()


def is_running(pid: int) -> bool:
    """Whether a process is there and not only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_session_without_servers_never_imports_the_mcp_package():
    environment = {name: value for name, value in process_environment().items() if not name.startswith("COV")}
    ran = subprocess.run(
        (sys.executable, "-c", WITHOUT_SERVERS),
        capture_output=True,
        check=False,
        env=environment,
        text=True,
        timeout=50,
    )
    assert ran.stdout == "[]\n", ran.stderr[-2000:]
