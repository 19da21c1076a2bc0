"""/import over the wire: what a file brings, the questions, and what is remembered afterwards."""

from pathlib import Path

from pattern_acp.carry.export import Choice
from pattern_acp.providers.scripted import ScriptedProvider
from tests.carry.test_archive import fill, home, leave
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, PermissionAnswer, choose


async def archived(folder: Path) -> Path:
    async with home(folder / "one") as one:
        await fill(one)
        await leave(one, folder / "a team.car", Choice(project="/project"))
    return folder / "a team.car"


async def told(agent: RunningAgent, session: str, prompt: str) -> str:
    before = len(agent.editor.said())
    await agent.editor.prompt(session, prompt)
    return agent.editor.said()[before:]


def by_name(*beginnings: str) -> PermissionAnswer:
    """Answers each question with the option whose name begins so."""
    left = list(beginnings)

    async def answer(params: JsonDict) -> JsonDict:
        wanted = left.pop(0)
        option = next(one["optionId"] for one in params["options"] if one["name"].startswith(wanted))
        return {"outcome": "selected", "optionId": option}

    return answer


async def test_what_a_colleague_exported_is_asked_for_and_becomes_memory_of_this_project(tmp_path: Path):
    file = await archived(tmp_path)
    async with running_agent(ScriptedProvider([]), permission=by_name("Yes", "All of it")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        answer = await told(agent, session, f'/import "{file}"')
        assert "2 facts" in answer
        questions = [one["toolCall"]["title"] for one in agent.editor.asked]
        assert questions[0].startswith("The memory in it belongs to the project /project.")
        assert questions[1].startswith("Take over all of it")
        assert "Build with make." in await told(agent, session, "/memory project")
        assert "already" in await told(agent, session, f'/import "{file}"')


async def test_one_by_one_what_is_left_out_stays_out(tmp_path: Path):
    file = await archived(tmp_path)
    permission = by_name("No", "Ask for each", "Leave", "Take it over", "Take over no more")
    async with running_agent(ScriptedProvider([]), permission=permission) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "1 fact, " in await told(agent, session, f'/import "{file}"')


async def test_what_is_typed_needs_no_question_and_a_withdrawn_one_changes_nothing(tmp_path: Path):
    file = await archived(tmp_path)
    async with running_agent(ScriptedProvider([]), permission=choose("nothing like it")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await told(agent, session, f'/import "{file}"')
        answer = await told(agent, session, f'/import "{file}" facts mine')
        assert "0 memory blocks, 2 facts" in answer
        assert "Say which file" in await told(agent, session, "/import")
        assert "cannot be read" in await told(agent, session, "/import none.car")
