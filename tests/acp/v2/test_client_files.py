"""Files through an MCP server that a client of version 2 offers over its connection."""

from pathlib import Path
from typing import cast

import pytest

from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.client_server import BY_META, BY_NAME, PASSED, ClientServer, file_tool
from tests.support.editor import JsonDict
from tests.support.scripts import calls, says
from tests.support.second_editor import SECOND, send, until_idle

EDIT = calls("edit_file", path="a.txt", edits=[{"old_text": "unsaved", "new_text": "edited"}])


async def opened(agent: RunningAgent, *servers: JsonDict) -> str:
    await agent.editor.initialize(SECOND)
    answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": list(servers)})
    session = cast("str", answer["sessionId"])
    await agent.sessions.get(session).mcp.servers.wait_settled(60)
    return session


def told(model: ScriptedProvider) -> str:
    """The last request's messages as text."""
    return str(model.requests[-1].messages)


@pytest.mark.parametrize("tools", [BY_META, BY_NAME], ids=["by _meta", "by name and annotations"])
async def test_unsaved_text_counts_and_edits_land_in_the_buffer(tools: tuple[JsonDict, ...]):
    server = ClientServer(*tools)
    model = ScriptedProvider([calls("read_file", path="a.txt"), EDIT, says("Done.")])
    async with running_agent(model, introduce=False, also=server.handlers()) as agent:
        path = agent.folder / "a.txt"
        path.write_text("saved\n", encoding="utf-8")
        server.buffers[str(path)] = "unsaved\n"
        session = await opened(agent, PASSED)
        await send(agent.editor, session, "Edit")
        await until_idle(agent.editor)
        assert "unsaved" in str(model.requests[1].messages)
        assert server.buffers[str(path)] == "edited\n"
        assert path.read_text(encoding="utf-8") == "edited\n"
        assert [call["status"] for call in agent.editor.of_kind("tool_call_update")][-1] == "completed"


async def test_a_file_that_the_prompt_names_is_read_with_its_unsaved_text():
    server = ClientServer(*BY_META)
    model = ScriptedProvider([says("Done.")])
    async with running_agent(model, introduce=False, also=server.handlers()) as agent:
        path = agent.folder / "a.txt"
        path.write_text("saved\n", encoding="utf-8")
        server.buffers[str(path)] = "unsaved\n"
        session = await opened(agent, PASSED)
        await send(agent.editor, session, "Look at @a.txt")
        await until_idle(agent.editor)
        assert "unsaved" in told(model)


async def test_what_a_command_wrote_counts_before_a_buffer_that_is_older():
    server = ClientServer(*BY_META)
    model = ScriptedProvider(
        [
            calls("read_file", path="a.txt"),
            calls("run_command", command="echo newer > a.txt"),
            calls("read_file", path="a.txt"),
            says("Done."),
        ]
    )
    async with running_agent(model, introduce=False, also=server.handlers()) as agent:
        path = agent.folder / "a.txt"
        path.write_text("older\n", encoding="utf-8")
        server.buffers[str(path)] = "older\n"
        session = await opened(agent, PASSED)
        await send(agent.editor, session, "Go on")
        await until_idle(agent.editor)
        assert "newer" in told(model)


async def test_an_edit_of_text_that_changed_since_it_was_read_is_refused():
    server = ClientServer(*BY_META)
    model = ScriptedProvider([calls("read_file", path="a.txt"), EDIT, says("Well.")])
    async with running_agent(model, introduce=False, also=server.handlers(), permission=None) as agent:
        path = agent.folder / "a.txt"
        path.write_text("unsaved\n", encoding="utf-8")
        server.buffers[str(path)] = "unsaved\n"

        async def change(params: JsonDict) -> JsonDict:
            del params
            server.buffers[str(path)] = "unsaved, and more\n"
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = change
        session = await opened(agent, PASSED)
        await send(agent.editor, session, "Edit")
        await until_idle(agent.editor)
        assert server.buffers[str(path)] == "unsaved, and more\n"
        assert agent.editor.of_kind("tool_call_update")[-1]["status"] == "failed"


async def test_the_disk_stands_in_for_a_server_that_is_gone():
    server = ClientServer(*BY_META)
    model = ScriptedProvider([says("Hi."), calls("read_file", path="a.txt"), says("Done.")])
    async with running_agent(model, introduce=False, also=server.handlers()) as agent:
        (agent.folder / "a.txt").write_text("saved\n", encoding="utf-8")
        session = await opened(agent, PASSED)
        await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
        server.is_gone = True
        await send(agent.editor, session, "Read")
        await until_idle(agent.editor, 2)
        assert "saved" in told(model)


async def test_the_model_is_offered_the_other_tools_of_the_server_alone():
    server = ClientServer(*BY_META)
    model = ScriptedProvider([says("Hi.")])
    async with running_agent(model, introduce=False, also=server.handlers()) as agent:
        session = await opened(agent, PASSED)
        await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
        names = [tool.name for tool in model.requests[0].tools if "editor" in tool.name]
        assert len(names) == 1
        assert "look_around" in names[0]


@pytest.mark.parametrize(
    "tools",
    [
        (file_tool("read_text_file", "path"), file_tool("write_text_file", "path", "content")),
        (file_tool("fs/read_text_file", "path", "encoding", annotations={"readOnlyHint": True}),),
        (file_tool("fs/read_text_file", "path", annotations={"readOnlyHint": False}),),
    ],
    ids=["without annotations", "with another argument", "not read-only"],
)
async def test_other_tools_are_tools_like_any_and_files_are_on_the_disk(tools: tuple[JsonDict, ...]):
    server = ClientServer(*tools)
    model = ScriptedProvider([calls("read_file", path="a.txt"), says("Hi.")])
    async with running_agent(model, introduce=False, also=server.handlers()) as agent:
        path = agent.folder / "a.txt"
        path.write_text("saved\n", encoding="utf-8")
        server.buffers[str(path)] = "unsaved\n"
        session = await opened(agent, PASSED)
        await send(agent.editor, session, "Read")
        await until_idle(agent.editor)
        assert "unsaved" not in told(model)
        assert len([tool for tool in model.requests[0].tools if "editor" in tool.name]) == 1 + len(tools)


async def test_a_server_that_the_client_does_not_have_is_reported_and_the_session_goes_on(tmp_path: Path):
    del tmp_path
    server = ClientServer(*BY_META)
    model = ScriptedProvider([says("Hi.")])
    async with running_agent(model, introduce=False, also=server.handlers()) as agent:
        session = await opened(agent, {**PASSED, "serverId": "another"}, {"type": "acp", "name": "nameless"})
        await send(agent.editor, session, "Hi")
        await until_idle(agent.editor)
        (notice,) = agent.editor.of_kind("notice")
        assert "editor (" in notice["title"]
        assert "nameless (it has no id)" in notice["title"]
        assert agent.editor.said() == "Hi."
