"""A local model that refuses tools, as Ollama says it, through the real process."""

import json
from pathlib import Path

import pytest

from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_server import Reply, serve_models
from tests.support.process import Launch, running_process

pytestmark = pytest.mark.e2e

REFUSAL = '{"error":{"message":"registry.ollama.ai/library/test-model does not support tools","type":"api_error"}}'
SCRIPT = [
    Reply(status=400, body=REFUSAL),
    [ScriptStep(text="Let me see.\n/read_file a.txt\n")],
    [ScriptStep(text="It says hello.")],
    [ScriptStep(text="You are welcome.")],
]


async def test_the_turn_goes_on_with_actions_as_text_and_the_next_process_knows(tmp_path: Path):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("hello from the file\n", encoding="utf-8")
    async with serve_models(SCRIPT) as server:
        (home / "config.toml").write_text(f'[providers.mine]\nbase_url = "{server.url}/v1"\n', encoding="utf-8")
        launch = Launch(home, (), {"PATTERN_ACP_MODEL": "mine/test-model"})
        async with running_process(launch) as agent:
            session = await agent.editor.open_session(str(work))
            await agent.editor.prompt(session, "What does it say?")
            told = "mine/test-model takes no tool calls, so it writes its actions as text (/tools)."
            assert agent.editor.said().count(told) == 1
            assert agent.editor.said().endswith("Let me see.\nIt says hello.")
            (call,) = agent.editor.of_kind("tool_call")
            assert call["rawInput"] == {"path": "a.txt"}
            await agent.close_input()
            assert await agent.wait() == 0
        async with running_process(launch) as agent:
            session = await agent.editor.open_session(str(work))
            await agent.editor.prompt(session, "Thanks.")
            assert agent.editor.said() == "You are welcome."
            await agent.close_input()
            assert await agent.wait() == 0
        bodies = [request.json() for request in server.requests]
    assert ["tools" in body for body in bodies] == [True, False, False, False]
    assert "hello from the file" in json.dumps(bodies[2]["messages"])
    assert '"role": "tool"' not in json.dumps(bodies)
