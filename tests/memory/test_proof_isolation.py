"""Issue 3, section 8: what stands in one constellation never appears in another, whatever is done there."""

from pathlib import Path

import pytest

from pattern_acp.journal.events import ToolCallFinished
from pattern_acp.journal.reader import read_stream
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep
from pattern_acp.tools.registry import default_tools
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import Turn, calls, says

CANARY = "quartzvejle-58213"
FACT = f"The zeppelin hangar opens with {CANARY}."

COMMANDS = (
    "/memory",
    "/memory human",
    "/memory history human",
    "/memory blame human",
    "/memory diff human",
    "/memory undo human",
    "/memory redo human",
    "/recall zeppelin hangar",
    "/tasks all hangar",
    "/task 1",
    "/task 1 graph",
    "/board",
)

EVERY_TOOL: Turn = (
    calls("write_file", path="b.txt", content="hello\n")
    + calls("read_file", path="b.txt")
    + calls("edit_file", path="b.txt", edits=[{"old_text": "hello", "new_text": "hi"}])
    + calls("list_directory", path=".")
    + calls("find_files", pattern="*")
    + calls("search_text", pattern="hangar")
    + calls("run_command", command="echo zeppelin")
    + calls("update_plan", entries=[{"content": "look", "status": "pending"}])
    + calls("memory_read")
    + calls("memory_read", label="human", history=True)
    + calls("memory_write", label="human", operation="append", text="Likes tea.", reason="said so")
    + calls("memory_search", query="zeppelin hangar")
    + calls("session_search", query="zeppelin hangar")
    + calls("apply_patch", input="*** Begin Patch\n*** Add File: c.txt\n+hangar\n*** End Patch")
    + calls("code_map", operation="find", query="hangar")
    + calls("job", action="list")
    + calls("delegate", kind="explorer", name="finder", task="Who opens the zeppelin hangar?")
    + calls("task", operation="list", text="hangar")
    + calls("ask_user", question="Which hangar?")
    + calls("read_attachment", id="att_1")
    + calls("fetch_url", url="http://127.0.0.1:9/")
)

HAVE_NOTHING_TO_READ = 2
"""The last two calls: nothing long was given, and no page of this machine is fetched."""


def raw(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in path.parent.iterdir() if each.name.startswith(path.name))


async def plant(agent: RunningAgent, folder: Path) -> None:
    """The canary in blocks, messages, a task and the archive of a constellation, about the folder that both work in."""
    session = await agent.editor.open_session(str(folder))
    for text in (
        *(f"/remember me: {FACT}", f"/remember project: {FACT}", f"/tasks add {FACT}", f"/task 1 comment {FACT}"),
        *("/task 1 start", "/board claim hangar/", FACT),
    ):
        await agent.editor.prompt(session, text)
    assert CANARY in str(agent.model.requests)
    assert CANARY.encode() in raw(agent.database.path)


async def finished(agent: RunningAgent, session: str) -> list[str]:
    recorded = await agent.database.read(lambda tx: read_stream(tx, session))
    return [str(item.event.status) for item in recorded if isinstance(item.event, ToolCallFinished)]


@pytest.mark.slow
async def test_a_canary_of_one_constellation_is_in_no_file_prompt_search_or_line_of_another():
    theirs = ScriptedProvider([says("Noted: " + FACT)])
    finder = (calls("memory_search", query="zeppelin hangar"), says("Nobody knows."))
    model = ScriptedProvider([EVERY_TOOL, says("Done."), says("I do not know.")], subagents={"finder": finder})
    async with running_agent(model) as agent, running_agent(theirs) as other:
        await plant(other, agent.folder)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/tasks add Open the hangar")
        await agent.editor.prompt(session, "Use everything about the zeppelin hangar.")
        for command in COMMANDS:
            await agent.editor.prompt(session, command)
        second = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(second, "What opens the zeppelin hangar?")

        used = {tool.spec.name for tool in default_tools()}
        ended = await finished(agent, session)
        assert ended.count("completed") >= len(EVERY_TOOL) - HAVE_NOTHING_TO_READ
        assert len(ended) - ended.count("completed") == ended.count("failed") == HAVE_NOTHING_TO_READ
        assert {step.tool for step in EVERY_TOOL if isinstance(step, ScriptStep)} == used
        assert CANARY not in str(model.requests)
        assert CANARY.encode() not in b"".join(line for _, line in agent.editor.recording.both)
        assert CANARY.encode() not in raw(agent.database.path)
        assert CANARY.encode() in raw(other.database.path)
