"""What the built-in system prompt claims of a request is so in every request that it begins."""

import re

import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import Wire
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import calls, says
from tests.support.wires import WIRES, body_for

MEMORY_IS_WHERE = (
    "<memory>, before the first prompt: your blocks. <current_state>, at the end of the newest message: what is "
    "true now (time, git, jobs, changed memory, or all without <memory>)"
)
BLOCKS, STATE = b"<memory>\\nData, not the user", b"<current_state>\\nNot a message"


@pytest.mark.parametrize("wire", WIRES)
async def test_memory_is_in_the_request_where_the_prompt_says(wire: Wire):
    note = calls("memory_write", label="human", operation="append", text="Likes tea.", reason="Said so.")
    finder = calls("delegate", kind="explorer", name="finder", task="Look around.")
    model = ScriptedProvider([note, finder, says("Done.")], subagents={"finder": [says("Found nothing.")]})
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Make a start.")
    assert all(MEMORY_IS_WHERE in request.system for request in model.requests)
    first, changed, of_subagent, _ = [body_for(wire, request) for request in model.requests]
    assert 0 < first.index(BLOCKS) < first.index(b"Make a start.")
    assert (
        changed.index(BLOCKS) < changed.index(b"Make a start.") < changed.index(STATE) < changed.rindex(b"Likes tea.")
    )
    # A subagent has no such message: all of its memory is in the last place.
    assert BLOCKS not in of_subagent
    assert of_subagent.index(b"Look around.") < of_subagent.index(STATE) < of_subagent.index(b'label=\\"human\\"')
    assert STATE in body_for(wire, replace(model.requests[1], messages=model.requests[1].messages[-1:]))


async def test_every_tool_that_the_prompt_names_is_offered_where_no_mode_leaves_it_out():
    model = ScriptedProvider([says("Hello."), says("Planned.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello?")
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        await agent.editor.prompt(session, "And now?")
    persona = model.requests[0].system.partition("\n\nEnvironment")[0]
    named = set(re.findall(r"\b[a-z]+_[a-z]+\b", persona)) - {"current_state", "catch_up", "conversation_summary"}
    assert {"ask_user", "memory_write"} <= named
    at_first, in_plan = ({tool.name for tool in request.tools} for request in model.requests)
    assert named <= at_first
    assert named - in_plan
    assert "Nothing that changes anything is available." in model.requests[1].volatile
