"""Planted keys are found nowhere, planted prompt text only in the journal, which is what it is for."""

import contextlib
from pathlib import Path

import pytest

from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers.scripted import ScriptStep
from tests.support.model_server import Reply, serve_models
from tests.support.process import AgentProcess, Launch, running_process

pytestmark = pytest.mark.e2e

KEY = "sk-planted-4711-abcdefghijklmnop"
PROMPT = "xylophonewords are what this prompt is made of"
RUDE = f'{{"error": {{"type": "authentication_error", "message": "Invalid key {KEY} in {PROMPT}"}}}}'


def files_with(folder: Path, text: str) -> set[str]:
    """The names of the files below `folder` that hold `text`."""
    return {path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()}


async def prompt(agent: AgentProcess, folder: Path) -> None:
    session = await agent.editor.open_session(str(folder))
    # What it is answered with, an error too, is among the recorded lines.
    with contextlib.suppress(RemoteError):
        await agent.editor.prompt(session, PROMPT)


@pytest.mark.parametrize("level", ["info", "debug"])
@pytest.mark.parametrize("status", [200, 401, 400])
async def test_no_key_reaches_a_file_and_no_prompt_a_log(tmp_path: Path, level: str, status: int):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    reply = (
        Reply(status=status, body=RUDE) if status != 200 else Reply([ScriptStep(text="Half an answer.")], cut_after=4)
    )
    async with serve_models([reply], repeat=True) as server:
        environment = {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": server.url,
            "PATTERN_ACP_MODEL": "anthropic/test-model",
        }
        launch = Launch(home, ("--log-level", level), environment)
        async with running_process(launch) as agent:
            await prompt(agent, work)
            await agent.close_input()
            assert await agent.wait() == 0
            seen = b"\n".join(agent.editor.recording.lines).decode()
            stderr = agent.stderr()
            assert server.requests[0].headers["x-api-key"] == KEY

    assert KEY not in seen + stderr
    assert PROMPT not in stderr
    assert files_with(home, KEY) == set()
    # A run that passes a full hour takes the hourly snapshot of the constellation.
    stored = {name for name in files_with(home, PROMPT) if not name.startswith("snapshot-")}
    assert stored <= {"constellation.db", "constellation.db-wal", "seg-000000000001.jsonl"}
