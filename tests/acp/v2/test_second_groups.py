"""Groups in version 2: members, and what a watch wakes, are sessions of their own; the end of one wakes the session."""

from pattern_acp.journal.events import OWN_TURN, TurnStarted
from tests.acp.v2.test_second_subagents import beside, opened
from tests.interaction.test_group_watches import GUARD, Looks
from tests.interaction.test_groups import PANEL, grouped
from tests.support.scripts import gate, says
from tests.support.second_editor import send, subagents, until_idle
from tests.support.turns import events_of, of_type


async def test_each_member_of_a_panel_is_a_session_of_its_own():
    async with grouped(
        PANEL, introduce=False, planner=[says("A.")], builder=[says("B.")], critic_decides=[says("Chosen: planner\nA.")]
    ) as agent:
        session = await opened(agent)
        await send(agent.editor, session, "/group storage Which?")
        await until_idle(agent.editor)
        announced = {
            each["sessionId"]: each["title"] for each in agent.editor.of_kind("subagent_update") if "title" in each
        }
        assert sorted(str(title) for title in announced.values()) == ["builder", "critic decides", "planner"]
        assert beside(agent, session)[-1] == []
        assert "**critic decided, citing planner.**" in agent.editor.said()


async def test_what_a_watch_wakes_is_listed_in_the_background_and_its_report_begins_a_turn_of_the_agents_own():
    held = gate()
    report = [(held, *says("a.txt has a fault."))]
    async with grouped(GUARD, says("It found a fault."), introduce=False, guard=report) as agent:
        looks = Looks()
        agent.shared.pause_of_watches = looks.pause
        session = await opened(agent)
        await send(agent.editor, session, "/group watch guard on")
        await until_idle(agent.editor)
        (agent.folder / "a.txt").write_text("1\n")
        await looks.look()
        await held.reached.wait()
        (child,) = subagents(agent.editor)
        await agent.editor.wait_until(lambda: beside(agent, session)[-1:] == [[child]])
        held.opened.set()
        await agent.editor.wait_until(lambda: "It found a fault." in agent.editor.said())
        await until_idle(agent.editor, times=2)
        assert beside(agent, session)[-1] == []
        own = [each for each in of_type(await events_of(agent, session), TurnStarted) if each.command == OWN_TURN]
        assert len(own) == 1
        told = str([each.messages for each in agent.model.requests if "/guard" not in each.cache_key])
        assert "guard has finished in the background." in told
        assert "a.txt has a fault." in told
