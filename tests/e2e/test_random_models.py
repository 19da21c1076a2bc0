"""A real process and models that do anything at all, over each wire: nothing ends it, and its journal holds."""

import random
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from pattern_acp.config.settings import Wire
from pattern_acp.providers.scripted import ScriptStep, ScriptUsage
from pattern_acp.tools.registry import default_tools
from tests.support.agent import FULL_CLIENT
from tests.support.editor import choose
from tests.support.model_server import Reply, serve_models
from tests.support.odd_arguments import TEXTS, OddArguments
from tests.support.odd_files import fill_with_odd_files, state_of
from tests.support.process import Launch, run_command_line, running_process
from tests.support.vendor_types import judge_body
from tests.support.wires import MODELS, WIRES

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(sys.platform == "win32", reason="pipes and links are made in another way there"),
]

ENDS = {"end_turn", "max_tokens", "max_turn_requests", "refusal"}

TOOLS = default_tools()

HUGE = 10**20
"""Tokens that no vendor counts and no database takes."""


def whole(text: str) -> str:
    """A text as a wire can carry it: JSON escapes halves of surrogate pairs, UTF-8 has none."""
    return text.encode("utf-8", "replace").decode()


def call(draw: random.Random) -> ScriptStep:
    """A call of any tool, or of one that is not there."""
    tool = draw.choice(TOOLS).spec
    text = OddArguments(draw).text_for(tool.name, tool.input_schema, leaves=False)
    name = draw.choice((*[tool.name] * 12, "", "nope", "x" * 200, "👍"))
    return ScriptStep(tool=name, arguments=whole(text), id=draw.choice((*[""] * 8, "same", "👍", "x" * 300)))


def reply(draw: random.Random) -> Reply:
    """What a model streams in answer to one request."""
    steps: list[ScriptStep] = []
    for _ in range(draw.choice((0, 1, 2, 4))):
        match draw.randrange(5):
            case 0:
                steps.append(ScriptStep(text=whole(draw.choice(TEXTS))))
            case 1:
                steps.append(ScriptStep(thinking=whole(draw.choice(TEXTS)), signature=draw.choice(("", "c2ln"))))
            case _:
                steps += [call(draw) for _ in range(draw.choice((1, 1, 3)))]
    if draw.random() < 0.3:
        steps.append(ScriptStep(usage=ScriptUsage(*(draw.choice((0, 1, 500, HUGE)) for _ in range(5)))))
    if draw.random() < 0.1:
        steps.append(ScriptStep(stop=draw.choice(("end", "max_tokens", "refusal", "content_filter"))))
    return Reply(steps)


@pytest.mark.parametrize("wire", WIRES)
async def test_nothing_a_model_streams_ends_the_process_or_breaks_its_journal(wire: Wire, tmp_path: Path):
    draw = random.Random(wire)
    home, work, outside = tmp_path / "home", tmp_path / "work", tmp_path / "outside"
    fill_with_odd_files(work, outside)
    home.mkdir()
    before = state_of(outside)
    async with serve_models([reply(draw) for _ in range(20)], repeat=True) as server:
        provider = f'mode = "auto"\n[providers.mine]\nwire = "{wire}"\nbase_url = "{server.url}"\n'
        (home / "config.toml").write_text(provider, encoding="utf-8")
        chosen = {"PATTERN_ACP_MODEL": f"mine/{MODELS[wire]}"}
        launch = Launch(home, (), chosen, capabilities=FULL_CLIENT, permission=choose("reject_once"))
        async with running_process(launch) as agent:
            session = await agent.editor.open_session(str(work))
            for number in range(2):
                assert (await agent.editor.prompt(session, f"Go {number}."))["stopReason"] in ENDS
            await agent.close_input()
            assert await agent.wait() == 0
            assert "Traceback" not in agent.stderr()
    for request in server.requests:
        judge_body(wire, request.body)
        assert b"the log has details" not in request.body
    assert state_of(outside) == before
    for arguments in (("journal", "verify"), ("journal", "replay", session)):
        ended = await anyio.to_thread.run_sync(run_command_line, home, *arguments)
        assert ended.returncode == 0, ended.stdout + ended.stderr
