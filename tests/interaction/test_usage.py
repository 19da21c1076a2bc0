"""Every model request is counted once, in the journal, in /usage and for every process that looks."""

from pattern_acp.config.settings import Settings
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import SubagentRecorded, UsageReported
from pattern_acp.journal.usage import usage_of_session, usage_since
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, of_type


def costs(micro_units: int | None, tokens: int = 10) -> Turn:
    return (UsageKnown(Usage(tokens, 2, 3, 4, 1), None if micro_units is None else Cost(micro_units)),)


async def test_each_request_has_its_own_cost_and_model_in_the_journal():
    model = ScriptedProvider(
        [
            calls("list_directory", path=".") + costs(500),
            says("There is nothing.") + costs(None),
            says("Yes.") + costs(7),
        ]
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "What is there?")
        await agent.editor.prompt(session, "Really?")
        reported = of_type(await events_of(agent, session), UsageReported)
        assert [event.spent for event in reported] == [Cost(500), None, Cost(7)]
        assert [event.cost for event in reported] == [Cost(500), Cost(500), Cost(507)]
        assert {event.model for event in reported} == {"scripted/test"}
        rows = await agent.database.read(lambda tx: usage_of_session(tx, SessionId(session)))
        assert [row.micro_units for row in rows] == [500, None, 7]
        assert len({row.turn_id for row in rows}) == 2
        assert rows[0].usage == Usage(10, 2, 3, 4, 1)


async def test_what_a_subagent_uses_is_counted_under_its_name():
    model = ScriptedProvider(
        [
            calls("delegate", kind="explorer", name="finder", task="Look.") + costs(1),
            says("Done.") + costs(4),
        ],
        subagents={"finder": [says("I looked.") + costs(2)]},
    )
    async with running_agent(model, settings=Settings(mode="auto")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Find it.")
        inner = [event.event for event in of_type(await events_of(agent, session), SubagentRecorded)]
        assert len(of_type(inner, UsageReported)) == 1
        rows = await agent.database.read(lambda tx: usage_since(tx, 0))
        assert [(row.subagent, row.micro_units) for row in rows] == [("", 1), ("finder", 2), ("", 4)]
        await agent.editor.prompt(session, "/usage")
        shown = agent.editor.said()
        assert "| finder | 1 | 17 | 3 | 2 | 1 | 0.0001 USD |" in shown
        assert "| This session | 3 |" in shown


async def test_usage_says_what_has_no_known_price():
    async with running_agent(ScriptedProvider([says("Hi.") + costs(None)])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/usage")
        await agent.editor.prompt(session, "Hello.")
        await agent.editor.prompt(session, "/usage")
        await agent.editor.prompt(session, "/usage please")
        shown = agent.editor.said()
        assert "No model was asked today" in shown
        assert "| Turn 1 of 1 | 1 | 17 | 3 | 2 | 1 | unknown |" in shown
        assert "No price is known of scripted/test" in shown
        assert "/usage takes no arguments" in shown
