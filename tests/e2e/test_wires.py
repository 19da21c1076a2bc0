"""A whole turn with a tool on each wire, through the real process and a server that speaks the vendor's format."""

import json
from pathlib import Path
from typing import cast

import pytest

from pattern_acp.domain.canonical import Json
from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_server import serve_models
from tests.support.process import Launch, running_process

pytestmark = pytest.mark.e2e

STEPS = [
    [
        ScriptStep(thinking="Let me look.", signature="c2VhbGVk"),
        ScriptStep(tool="read_file", arguments={"path": "a.txt"}),
    ],
    [ScriptStep(text="It says hello.")],
]


@pytest.mark.parametrize(
    ("wire", "model", "path"),
    [
        ("responses", "gpt-5.2", "/v1/responses"),
        ("gemini", "gemini-3-pro-preview", "/v1beta/models/gemini-3-pro-preview:streamGenerateContent?alt=sse"),
    ],
)
async def test_a_turn_with_a_tool_keeps_its_reasoning(tmp_path: Path, wire: str, model: str, path: str):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "a.txt").write_text("hello from the file\n", encoding="utf-8")
    async with serve_models(STEPS) as server:
        (home / "config.toml").write_text(
            f'[providers.mine]\nwire = "{wire}"\nbase_url = "{server.url}"\n', encoding="utf-8"
        )
        async with running_process(Launch(home, (), {"PATTERN_ACP_MODEL": f"mine/{model}"})) as agent:
            session = await agent.editor.open_session(str(work))
            answer = await agent.editor.prompt(session, "What does it say?")
            await agent.close_input()
            assert await agent.wait() == 0
        assert cast("dict[str, Json]", answer)["stopReason"] == "end_turn"
        first, second = server.requests
    assert first.path == second.path == path
    sent = json.dumps(second.json())
    assert "c2VhbGVk" in sent
    assert "hello from the file" in sent
