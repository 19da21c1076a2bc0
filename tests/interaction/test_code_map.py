"""The code map in whole conversations: the tool, what an edit or a command does to it, and /code."""

from pathlib import Path

from pattern_acp.config.settings import Settings
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import calls, says
from tests.support.turns import last_result

AUTO = Settings(editor_deadline_seconds=30, mode="auto")


async def opened(agent: RunningAgent) -> str:
    (agent.folder / "app").mkdir()
    (agent.folder / "app" / "core.py").write_text("def first():\n    pass\n", encoding="utf-8")
    (agent.folder / "app" / ".env.py").write_text("def first():\n    pass\n", encoding="utf-8")
    return await agent.editor.open_session(str(agent.folder))


async def test_the_first_question_builds_the_index_and_shows_locations_and_progress():
    model = ScriptedProvider([calls("code_map", operation="find", query="first"), says("Done.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await agent.editor.prompt(session, "Go.")
        assert last_result(model.requests[1]).text.splitlines() == [
            "freshness: fresh",
            "first: 1 exact match",
            "app/core.py:1 function def first()",
        ]
        updates = agent.editor.of_kind("tool_call_update")
        assert updates[-1]["locations"] == [{"path": str(agent.folder / "app" / "core.py"), "line": 1}]
        assert "Indexing the code: " in str(updates)
        assert agent.editor.of_kind("tool_call")[0]["kind"] == "search"


async def test_an_edit_and_a_command_are_in_the_next_answer():
    model = ScriptedProvider(
        [
            calls("code_map", operation="find", query="first"),
            calls("write_file", path="app/new.py", content="def second():\n    first()\n"),
            calls("code_map", operation="find", query="second"),
            calls("run_command", command="printf 'def third(): pass' > app/third.py; rm app/core.py"),
            calls("code_map", operation="find", query="third"),
            calls("code_map", operation="outline", query="app/core.py"),
            says("Done."),
        ]
    )
    async with running_agent(model, settings=AUTO) as agent:
        session = await opened(agent)
        await agent.editor.prompt(session, "Go.")
        assert "app/new.py:1 function def second()" in last_result(model.requests[3]).text
        third = last_result(model.requests[5]).text
        assert third.startswith("freshness: fresh")
        assert "app/third.py:1 function def third()" in third
        assert "The index has no file" in last_result(model.requests[6]).text


async def test_what_the_person_refused_to_have_read_is_not_shown():
    model = ScriptedProvider([calls("code_map", operation="outline"), says("Done.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await agent.editor.prompt(session, "Go.")
        shown = last_result(model.requests[1]).text
        assert "app/core.py" in shown
        assert ".env" not in shown


async def test_the_tool_is_offered_in_a_workspace_and_not_in_the_persons_home():
    model = ScriptedProvider([says("Hello."), says("Hello.")])
    async with running_agent(model) as agent:
        await agent.editor.prompt(await opened(agent), "Hi.")
        await agent.editor.prompt(await agent.editor.open_session(str(Path.home())), "Hi.")
        offered = [[tool.name for tool in request.tools] for request in model.requests]
        assert "code_map" in offered[0]
        assert "code_map" not in offered[1]


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


async def test_the_command_answers_with_links():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        place = (agent.folder / "app" / "core.py").as_uri()
        found = await answer(agent, session, "/code first")
        assert f"- [app/core.py:1]({place}#L1) function def first()" in found
        assert "*freshness: fresh*" in found
        (call,) = agent.editor.of_kind("tool_call")
        assert (call["title"], call["kind"]) == ("Find in code: first", "search")
        ended = agent.editor.of_kind("tool_call_update")[-1]
        assert ended["status"] == "completed"
        assert ended["locations"] == [{"path": str(agent.folder / "app" / "core.py"), "line": 1}]
        assert f"[1-2]({place}#L1)" in await answer(agent, session, "/code outline app/core.py")
        assert "knows nothing for 'zzz'." in await answer(agent, session, "/code zzz")


async def test_the_command_says_what_it_needs():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await opened(agent)
        assert "/code NAME" in await answer(agent, session, "/code")
        assert "needs a name" in await answer(agent, session, "/code callers")
        home = await agent.editor.open_session(str(Path.home()))
        assert "no code map here" in await answer(agent, home, "/code first")


async def test_the_model_does_not_see_what_the_command_found():
    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model) as agent:
        session = await opened(agent)
        await answer(agent, session, "/code first")
        await agent.editor.prompt(session, "Hi.")
        assert "core.py" not in str(model.requests[0].messages)
