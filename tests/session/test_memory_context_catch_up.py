"""A persona that comes back is told what went on, once."""

from pattern_acp.db.connection import Transaction
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import calls, says


async def go_away(agent: RunningAgent, hours: int) -> None:
    def shift(tx: Transaction) -> int:
        return tx.execute("UPDATE cursors SET active_ms = active_ms - ?", (hours * 3_600_000,))

    await agent.database.write(shift)


async def one_session(agent: RunningAgent, prompt: str) -> None:
    session = await agent.editor.open_session(str(agent.folder))
    await agent.editor.prompt(session, prompt)


def titles(agent: RunningAgent) -> list[str]:
    return [call["title"] for call in agent.editor.of_kind("tool_call") if call["title"].startswith("Since ")]


WROTE = calls("memory_write", label="project", operation="append", text="Ninja builds it.", reason="We chose ninja.")
PLANNED = calls("update_plan", entries=[{"content": "Write the README", "priority": "high", "status": "pending"}])


async def test_after_an_hour_it_is_told_headline_decisions_and_open_threads():
    model = ScriptedProvider([WROTE + PLANNED, says("Done for now."), says("Welcome back.")])
    async with running_agent(model) as agent:
        await one_session(agent, "Choose a builder")
        await go_away(agent, 5)
        await one_session(agent, "Hello again")
        told = model.requests[-1].volatile
        assert "You were last at work here 5 hours ago, in “Choose a builder”." in told
        assert "- project, by you: We chose ninja. (+1 -0 lines)" in told
        assert "- open: “Choose a builder”, 1 open step, next: Write the README" in told
        assert len(titles(agent)) == 1


async def test_tasks_that_were_changed_meanwhile_are_told_with_their_state():
    model = ScriptedProvider([says("Done for now."), says("Welcome back.")])
    async with running_agent(model) as agent:
        await one_session(agent, "Hello")
        for prompt in ("/tasks add Mend the hangar", "/tasks add Paint it", "/task 1 done"):
            await one_session(agent, prompt)
        await go_away(agent, 5)
        await one_session(agent, "What did we do yesterday?")
        told = model.requests[-1].volatile
        assert "- task #1 “Mend the hangar”: done\n- task #2 “Paint it”: todo\n" in told
        assert titles(agent)[-1].endswith(", 2 tasks")


async def test_what_was_undone_deleted_or_restored_is_told_by_its_name():
    async with running_agent(ScriptedProvider([says("Done.")], repeat=True)) as agent:
        await one_session(agent, "Begin")
        for prompt in (
            "/remember Likes tea.",
            "/memory undo human",
            "/memory create plans Plans.",
            "/memory delete plans",
        ):
            await one_session(agent, prompt)
        await one_session(agent, "/memory restore plans")
        await go_away(agent, 5)
        await one_session(agent, "Hello again")
        told = agent.model.requests[-1].volatile
        assert "- human, by the user: undo, +0 -1 lines" in told
        assert [line for line in told.split("\n") if line.startswith("- plans")] == [
            "- plans, by the user: restore",
            "- plans, by the user: delete",
        ]


async def test_within_the_hour_nothing_is_told():
    async with running_agent(ScriptedProvider([says("Done."), says("Hello.")])) as agent:
        await one_session(agent, "Choose a builder")
        await one_session(agent, "Hello again")
        assert titles(agent) == []


async def test_what_was_told_is_not_told_again_and_only_in_the_first_turn():
    async with running_agent(ScriptedProvider([says("Done.")], repeat=True)) as agent:
        await one_session(agent, "Choose a builder")
        await go_away(agent, 5)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello again")
        await agent.editor.prompt(session, "And now?")
        assert "<catch_up" not in agent.model.requests[-1].volatile
        await go_away(agent, 5)
        await one_session(agent, "Once more")
        told = agent.model.requests[-1].volatile
        assert "Hello again" in told
        assert "Choose a builder" not in told


async def test_another_folder_is_another_project():
    async with running_agent(ScriptedProvider([says("Done.")], repeat=True)) as agent:
        here, there = agent.folder / "here", agent.folder / "there"
        here.mkdir()
        there.mkdir()
        for folder in (here, there):
            session = await agent.editor.open_session(str(folder))
            await agent.editor.prompt(session, "Choose a builder")
            await go_away(agent, 5)
        assert titles(agent) == []
