"""Runs of groups over the pipes of a real process that is killed."""

import json
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from pattern_acp.jsonrpc.messages import ConnectionClosedError, RemoteError
from tests.support.editor import JsonDict, choose
from tests.support.process import AgentProcess, Launch, running_process

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]

SHIP = '[ship]\nkind = "pipeline"\nsteps = ["planner", "reviewer", "doctor"]\n'
COMMAND = '/group ship "Add a flag"'


def script(folder: Path, **subagents: object) -> dict[str, str]:
    file = folder / "script.json"
    turns = [[{"text": "Fine."}]] * 2
    file.write_text(json.dumps({"turns": turns, "subagents": subagents}), encoding="utf-8")
    return {"PATTERN_ACP_SCRIPT": str(file), "PATTERN_ACP_MODEL": "scripted/scripted"}


async def prompt_until_killed(agent: AgentProcess, session: str) -> None:
    with suppress(ConnectionClosedError, RemoteError):
        await agent.editor.prompt(session, COMMAND)


async def said_after(agent: AgentProcess, session: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, "Go on.")
    return str(agent.editor.updates)


async def test_a_pipeline_that_a_kill_cuts_off_is_named_once_when_the_session_is_opened_again(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    (work / ".pattern").mkdir(parents=True)
    (work / ".pattern" / "groups.toml").write_text(SHIP, encoding="utf-8")
    hangs = script(tmp_path, planner=[[{"text": "A plan."}]], reviewer=[[{"wait_for": "cancel"}]])
    async with running_process(Launch(home, (), hangs, permission=choose("allow_always"))) as agent:
        session = await agent.editor.open_session(str(work))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prompt_until_killed, agent, session)
            await agent.editor.wait_until(lambda: "Explorer: reviewer" in str(agent.editor.updates))
            agent.kill()
            await agent.wait()
    async with running_process(Launch(home, (), script(tmp_path))) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(work), "mcpServers": []}
        await agent.editor.request("session/load", params)
        said = await said_after(agent, session)
        assert "The run of the group ship was cut off and does not continue" in said
        assert "planner finished; reviewer did not finish." in said
        assert f"`{COMMAND}` runs all of it again" in said
        assert "was cut off" not in await said_after(agent, session)
