"""Definitions that a session has once it uses them: tool sets of MCP servers, kinds of subagents, templates."""

from pathlib import Path

import pytest

from pattern_acp.providers.base import ToolSpec
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.mcp_fakes import passed
from tests.support.scripts import Turn, calls, says


async def opened(agent: RunningAgent, *servers: JsonDict) -> str:
    answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": list(servers)})
    await agent.sessions.get(answer["sessionId"]).mcp.servers.wait_settled(30)
    return answer["sessionId"]


async def reopened(agent: RunningAgent, session: str, *servers: JsonDict) -> None:
    await agent.editor.request("session/close", {"sessionId": session})
    where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": list(servers)}
    await agent.editor.request("session/resume", where)
    await agent.sessions.get(session).mcp.servers.wait_settled(30)


def server(kind: str) -> JsonDict:
    """A server that is called the same, whatever it offers."""
    return {**passed(kind), "name": "tools"}


def tools_of_server(model: ScriptedProvider) -> list[ToolSpec]:
    """The tools of the server in the last request."""
    return [tool for tool in model.requests[-1].tools if tool.name.startswith("tools__")]


async def definitions(agent: RunningAgent, session: str, verb: str = "") -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, f"/definitions {verb}".strip())
    return agent.editor.said()


@pytest.mark.parametrize(("answer", "adopted"), [("reject_once", False), ("allow_once", True)])
async def test_a_session_goes_on_with_its_tool_sets_until_the_user_adopts_todays(answer: str, *, adopted: bool):
    model = ScriptedProvider([says(f"{n}.") for n in range(9)])
    async with running_agent(model, permission=choose(answer)) as agent:
        session = await opened(agent, server("changing"))
        await agent.editor.prompt(session, "Hello.")
        before = tools_of_server(model)
        assert "| mcp `tools` |" in await definitions(agent, session)
        await reopened(agent, session, server("usual"))
        await agent.editor.prompt(session, "Go on.")
        (asked,) = agent.editor.asked
        assert "The tools of the MCP server tools have changed" in str(asked)
        assert "+Always fails." in str(asked)
        assert (tools_of_server(model) == before) != adopted
        assert ("tools__fail" in str(tools_of_server(model))) == adopted
        assert ("changed" in await definitions(agent, session)) == (not adopted)
        # What was decided counts when it is opened again, and is not asked again.
        await reopened(agent, session, server("usual"))
        await agent.editor.prompt(session, "And on.")
        assert len(agent.editor.asked) == 1
        assert ("tools__fail" in str(tools_of_server(model))) == adopted
        await definitions(agent, session, "adopt")
        await agent.editor.prompt(session, "Adopted.")
        assert "tools__fail" in str(tools_of_server(model))


async def test_a_session_offers_the_same_bytes_of_tools_when_it_is_opened_again():
    model = ScriptedProvider([says(f"{n}.") for n in range(3)])
    async with running_agent(model) as agent:
        session = await opened(agent, server("usual"))
        await agent.editor.prompt(session, "Hello.")
        await reopened(agent, session, server("usual"))
        await agent.editor.prompt(session, "Go on.")
        assert model.requests[0].tools == model.requests[1].tools
        assert model.requests[0].system == model.requests[1].system
        assert agent.editor.asked == []


async def test_a_server_that_is_not_set_up_any_more_is_named_once():
    model = ScriptedProvider([says(f"{n}.") for n in range(4)])
    async with running_agent(model) as agent:
        session = await opened(agent, server("usual"))
        await agent.editor.prompt(session, "Hello.")
        await reopened(agent, session)
        await agent.editor.prompt(session, "Go on.")
        await agent.editor.prompt(session, "And on.")
        assert agent.editor.said().count("The MCP server tools, whose tools this session had, is not set up") == 1


async def test_a_kind_of_subagent_is_a_definition_once_it_is_used():
    delegate = calls("delegate", kind="explorer", name="finder", task="Look around.")
    model = ScriptedProvider([delegate, says("Done.")], subagents={"finder": [says("Nothing there.")]})
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "subagent" not in await definitions(agent, session)
        await agent.editor.prompt(session, "Look around.")
        assert "| subagent `explorer` |" in await definitions(agent, session)
        await reopened(agent, session)
        assert "| subagent `explorer` |" in await definitions(agent, session)


async def test_the_users_rules_for_a_kind_of_subagent_count_and_a_changed_file_waits_for_the_user(tmp_path: Path):
    def delegate(name: str) -> Turn:
        return calls("delegate", kind="explorer", name=name, task="Look around.")

    def words(name: str) -> str:
        return next(one.system for one in model.requests if one.cache_key.endswith(f"/{name}"))

    file = tmp_path / "subagents" / "explorer.md"
    file.parent.mkdir()
    file.write_text("---\ndescription: mine\n---\nLook under every stone.\n", encoding="utf-8")
    turns = [delegate("one"), says("1."), delegate("two"), says("2."), delegate("three"), says("3.")]
    reports = {name: [says("Nothing there.")] for name in ("one", "two", "three")}
    model = ScriptedProvider(turns, subagents=reports)
    async with running_agent(model, permission=choose("reject_once")) as agent:
        agent.shared.own_instructions = tmp_path / "AGENTS.md"
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Look.")
        assert words("one").endswith("\nLook under every stone.")
        file.write_text("Look at the surface.\n", encoding="utf-8")
        await agent.editor.prompt(session, "Look again.")
        assert "The kind of subagent explorer has changed" in str(agent.editor.asked[0])
        assert words("two").endswith("\nLook under every stone.")
        await agent.editor.prompt(session, "/definitions adopt")
        await agent.editor.prompt(session, "Once more.")
        assert words("three").endswith("\nLook at the surface.")


async def test_a_session_makes_blocks_of_the_template_that_it_used_first_until_todays_is_adopted(tmp_path: Path):
    (tmp_path / "notes.toml").write_text('description = "The first form."\n', encoding="utf-8")

    def create(label: str) -> Turn:
        return calls("memory_write", label=label, operation="create", template="notes")

    model = ScriptedProvider([create("one"), says("1."), create("two"), says("2."), create("three"), says("3.")])
    async with running_agent(model) as agent:
        agent.shared.template_folder = tmp_path
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Begin notes.")
        assert "| template `notes` |" in await definitions(agent, session)
        (tmp_path / "notes.toml").write_text('description = "The second form."\n', encoding="utf-8")
        agent.editor.permission = choose("reject_once")
        await agent.editor.prompt(session, "More notes.")
        assert "The template notes has changed" in str(agent.editor.asked[0])
        agent.editor.permission = choose("allow_once")
        await definitions(agent, session, "adopt")
        await agent.editor.prompt(session, "More notes.")
        blocks = {each.label: each.description for each in await agent.sessions.get(session).memory.blocks()}
        assert (blocks["one"], blocks["three"]) == ("The first form.", "The second form.")
