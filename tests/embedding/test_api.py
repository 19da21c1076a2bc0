from pathlib import Path

import acp
import pytest

from pattern_acp import api
from pattern_acp.providers.scripted import ScriptStep
from tests.support.serving import temporary_home

WRITE = ScriptStep(tool="write_file", arguments='{"path": "a.txt", "content": "hello"}')


async def test_a_prompt_is_answered_and_the_next_one_goes_on_in_its_session():
    async with temporary_home() as home:
        home.script([ScriptStep(text="Hello.")], [ScriptStep(text="Again.")])
        async with api.open_constellation(home.project, environ=home.environ) as constellation:
            first = await constellation.prompt("Hello")
            second = await constellation.prompt("And again", session=first.session)
    assert first == api.Answer("Hello.", "end_turn", first.session)
    assert second == api.Answer("Again.", "end_turn", first.session)


@pytest.mark.parametrize("permits", [True, False])
async def test_what_the_policy_asks_about_runs_only_where_the_program_permits_it(permits: bool):
    asked: list[str] = []

    def permit(call: acp.schema.ToolCallUpdate) -> bool:
        asked.append(call.tool_call_id)
        return permits

    async with temporary_home() as home:
        home.script([WRITE], [ScriptStep(text="Done.")])
        async with api.open_constellation(home.project, permit=permit, environ=home.environ) as constellation:
            await constellation.prompt("Write")
        assert len(asked) == 1
        assert (home.project / "a.txt").exists() is permits


async def test_memory_is_read_with_and_without_a_running_agent():
    async with temporary_home() as home:
        assert await api.read_memory(home.project, environ=home.environ) == ()
        home.script([ScriptStep(text="Hello.")])
        async with api.open_constellation(home.project, environ=home.environ) as constellation:
            await constellation.prompt("/remember I like short answers.")
            blocks = await api.read_memory(home.project, environ=home.environ)
        assert [block.scope for block in blocks] == sorted(block.scope for block in blocks)
        [human] = [block for block in blocks if block.label == "human"]
        assert "short answers" in human.text
        assert await api.read_memory(home.project, environ=home.environ) == blocks


async def test_a_session_that_is_not_there_is_refused():
    async with temporary_home() as home, api.open_constellation(home.project, environ=home.environ) as constellation:
        with pytest.raises(acp.RequestError):
            await constellation.prompt("Hello", session="nobody")


def test_the_public_names_are_in_the_documentation():
    text = Path("docs/how-to/embedding.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in text for name in (*api.__all__, "PatternAgent"))
