"""A session leaves where it stood, without a model, and the next one is told once."""

from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import Transaction
from pattern_acp.journal.events import HandoffLeft
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session_row_rebuild import replay
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import calls, gate, says
from tests.support.turns import events_of, of_type, prompting

EDIT = Settings(editor_deadline_seconds=5, mode="edit")
STEPS = [
    {"content": "Write the README", "priority": "high", "status": "pending"},
    {"content": "Choose a name", "priority": "high", "status": "completed"},
]
WROTE = calls("write_file", path="src/a.py", content="a\n")
WORK = calls("update_plan", entries=STEPS) + WROTE


async def opened(agent: RunningAgent) -> str:
    return await agent.editor.open_session(str(agent.folder))


async def close(agent: RunningAgent, session: str) -> None:
    await agent.editor.request("session/close", {"sessionId": session})


async def said(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def test_the_next_session_is_told_first_where_the_last_one_stood_and_only_once():
    model = ScriptedProvider([WORK, says("Half done."), says("Hello."), says("Hello again.")])
    async with running_agent(model, settings=EDIT) as agent:
        first = await opened(agent)
        await agent.editor.prompt(first, "Document   the\nbuilder")
        await close(agent, first)
        (left,) = of_type(await events_of(agent, first), HandoffLeft)
        assert (left.state, left.steps, left.files) == ("finished", ("Write the README",), ("src/a.py",))
        second = await opened(agent)
        await agent.editor.prompt(second, "Hi")
        told = model.requests[-1].volatile
        assert (
            "finished\n  last asked: Document the builder\n  1 open step: Write the README\n  1 changed file: src/a.py"
            in told
        )
        shown = agent.editor.of_kind("tool_call")[-1]
        assert shown["title"].startswith("“Document the” before this: finished; 1 open step: Write the README")
        assert shown["kind"] == "other"
        await close(agent, second)
        third = await opened(agent)
        await agent.editor.prompt(third, "Hi")
        assert "<catch_up" not in model.requests[-1].volatile

        def replayed(tx: Transaction) -> object:
            return replay(tx, first).difference

        assert await agent.database.read(replayed) is None


async def test_a_session_that_finished_a_moment_ago_with_nothing_open_is_not_told_of():
    model = ScriptedProvider([WROTE, says("Done."), says("Hello.")])
    async with running_agent(model, settings=EDIT) as agent:
        first = await opened(agent)
        await agent.editor.prompt(first, "Write it")
        await close(agent, first)
        assert len(of_type(await events_of(agent, first), HandoffLeft)) == 1
        agent.editor.updates.clear()
        await agent.editor.prompt(await opened(agent), "Hi")
        assert agent.editor.of_kind("tool_call") == []
        assert "<catch_up" not in model.requests[-1].volatile


async def test_a_session_with_nothing_to_go_on_with_leaves_none():
    async with running_agent(ScriptedProvider([says("Hello.")], repeat=True)) as agent:
        session = await opened(agent)
        assert "nothing to hand off" in await said(agent, session, "/handoff")
        assert "No session of this folder left a handoff." in await said(agent, session, "/handoff list")
        await agent.editor.prompt(session, "Hello")
        await close(agent, session)
        assert of_type(await events_of(agent, session), HandoffLeft) == []


async def test_a_cancelled_turn_and_one_that_failed_are_told_as_such():
    waits = gate()
    model = ScriptedProvider([(*says("Let me see."), waits)])
    async with running_agent(model) as agent:
        session = await opened(agent)
        async with prompting(agent.editor, session, "Look for it") as prompt:
            await waits.reached.wait()
            await close(agent, session)
            await prompt.stop_reason()
        (left,) = of_type(await events_of(agent, session), HandoffLeft)
        assert (left.state, left.request) == ("cancelled", "Look for it")


async def test_the_end_of_the_editor_leaves_one_too():
    model = ScriptedProvider([WORK, says("Half done.")])
    async with running_agent(model, settings=EDIT) as agent:
        session = await opened(agent)
        await agent.editor.prompt(session, "Begin")
        await agent.sessions.cancel_all()
        assert len(of_type(await events_of(agent, session), HandoffLeft)) == 1


async def test_handoff_leaves_one_now_and_shows_the_last_ones():
    model = ScriptedProvider([WORK, says("Half done.")])
    async with running_agent(model, settings=EDIT) as agent:
        session = await opened(agent)
        await agent.editor.prompt(session, "Begin")
        shown = await said(agent, session, "/handoff")
        assert "Left for the next session in this folder." in shown
        assert "- Last asked: Begin\n- Open: Write the README\n- Changed: `src/a.py`" in shown
        assert "Left for the next" not in await said(agent, session, "/handoff list")
        assert "/handoff list only shows" in await said(agent, session, "/handoff what")
        await close(agent, session)
        assert len(of_type(await events_of(agent, session), HandoffLeft)) == 1
