"""The board: what `/board` and `_pattern/board` say of the open sessions, while one works and while one waits."""

import anyio

from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import calls, gate, says, uses

WRITE = calls("write_file", path="a.py", content="new\n")


async def test_a_plugin_reads_who_works_on_what_and_which_question_waits_for_its_user():
    asked, answered = anyio.Event(), anyio.Event()

    async def think(_params: JsonDict) -> JsonDict:
        asked.set()
        await answered.wait()
        return {"outcome": "selected", "optionId": "allow_once"}

    model = ScriptedProvider([WRITE, says("Done.")])
    async with running_agent(model) as agent:
        agent.editor.permission = think
        session = await agent.editor.open_session(str(agent.folder))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.prompt, session, "Write the parser")
            await asked.wait()
            (row,) = (await agent.editor.request("_pattern/board", {}))["sessions"]
            assert (row["sessionId"], row["title"], row["editor"]) == (session, "Write the parser", "fake-editor")
            assert row["alive"]
            (question,) = row["waitsFor"]
            assert "a.py" in question
            assert row["step"] == question
            answered.set()
        (row,) = (await agent.editor.request("_pattern/board", {}))["sessions"]
        assert (row["step"], row["waitsFor"]) == ("answered", [])
        assert [(claim["kind"], claim["state"]) for claim in row["claims"]] == [("file", "active")]
        assert row["claims"][0]["path"].endswith("a.py")


async def test_the_board_says_the_last_step_the_budget_and_the_editor_in_words():
    waits = gate()
    model = ScriptedProvider([calls("list_directory", path=".") + uses(900, 100), (waits, *says("Done."))])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/budget session 5000 tokens")
        second = await agent.editor.open_session(str(agent.folder))
        shown: list[str] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.prompt, session, "Look around")
            await waits.reached.wait()
            agent.editor.updates.clear()
            await agent.editor.prompt(second, "/board")
            shown.append(agent.editor.said())
            waits.opened.set()
        (board,) = shown
        assert "| Look around | " in board
        assert "fake-editor, process " in board
        assert "| just now: List . |" in board
        assert "1,000 tokens used, 4,000 tokens left" in board
        assert "| just now: runs /board |" in board
