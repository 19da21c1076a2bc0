"""The official package's server over streamable HTTP, started anew while a session of the real process uses it."""

from pathlib import Path

import anyio
import pytest

from pattern_acp.journal.events import ToolCallFinished
from tests.support.editor import choose
from tests.support.mcp_fakes import official
from tests.support.process import Launch, agent_environment, read_events, running_process, write_script


def adds(second: int) -> list[dict[str, object]]:
    return [{"tool": "official__add", "arguments": {"first": 1, "second": second}}]


@pytest.mark.e2e
@pytest.mark.slow
async def test_a_server_that_is_started_anew_in_mid_session_loses_no_call(tmp_path: Path):
    home = tmp_path / "home"
    turns = [adds(1), [{"text": "Two."}], adds(2), adds(3), [{"text": "Three and four."}]]
    environment = {**agent_environment(home), **write_script(tmp_path, turns)}
    async with running_process(Launch(home, (), environment, permission=choose("allow_always"))) as agent:
        async with official("http") as server:
            answer = await agent.editor.request("session/new", {"cwd": str(tmp_path), "mcpServers": [server]})
            session = answer["sessionId"]
            # A prompt waits for servers only so long, and a machine may be slow.
            with anyio.fail_after(60):
                while "official | ready" not in agent.editor.said():
                    await agent.editor.prompt(session, "/mcp")
            await agent.editor.prompt(session, "Add.")
        port = int(server["url"].split(":")[2].partition("/")[0])
        async with official("http", port):
            await agent.editor.prompt(session, "Add again, twice.")
            await agent.editor.prompt(session, "/mcp")
            assert "| official | ready (http) | 1 tool, 1 prompt, 1 resource |" in agent.editor.said()
        await agent.close_input()
        assert await agent.wait() == 0
    events = await read_events(agent.constellation, session)
    results = [event.result_text for event in events if isinstance(event, ToolCallFinished)]
    assert results == ["2.0", "3.0", "4.0"]
