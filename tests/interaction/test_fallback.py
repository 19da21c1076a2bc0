"""A model that stands in for the chosen one: told, recorded, kept for the turn and given up with it."""

from msgspec.structs import replace

from pattern_acp.config.settings import BudgetSettings, Settings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.journal.events import MessageRecorded, UsageReported
from pattern_acp.providers.base import ProviderStop, Stopped, TextDelta, UsageKnown
from pattern_acp.providers.http_errors import ProviderConnectionError, ProviderOverloadedError
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep, ScriptUsage
from tests.support.agent import running_agent
from tests.support.heard import conversation
from tests.support.scripts import Turn, calls, says
from tests.support.turns import events_of, of_type


async def test_the_other_model_answers_the_turn_and_the_chosen_one_the_next():
    model = ScriptedProvider([(ProviderOverloadedError("scripted is out."),), says("Back.")])
    spare = ScriptedProvider([calls("list_directory", path="."), says("Looked.")], name="spare")
    async with running_agent(model, others={"spare": spare}) as agent:
        agent.models.fallback = ("spare/test",)
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        told = "> scripted is out. spare/test continues this turn.\n\n"
        assert agent.editor.said() == f"{told}Looked."
        await agent.editor.prompt(session, "Again.")
        assert agent.editor.said().endswith("Back.")
        assert (len(model.requests), len(spare.requests)) == (2, 2)
        recorded = of_type(await events_of(agent, session), MessageRecorded)
        assert [item.message.text for item in recorded if not item.for_model] == [told]
        assert told not in [message.text for message in conversation(model.requests[-1])]


async def test_another_model_goes_on_with_an_answer_that_broke_off_when_its_own_is_out():
    broken = (TextDelta("Half an ans"), Stopped(ProviderStop.INTERRUPTED, "scripted broke off."))
    model = ScriptedProvider([broken, (ProviderOverloadedError("scripted is out."),)])
    spare = ScriptedProvider([says("wer.")], name="spare")
    async with running_agent(model, others={"spare": spare}) as agent:
        agent.models.fallback = ("spare/test",)
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        assert agent.editor.said().startswith("Half an ans")
        assert agent.editor.said().endswith("wer.")
        texts = [message.text for message in conversation(spare.requests[0])]
        assert texts[-2] == "Half an ans"
        assert "exactly where it stops" in texts[-1]


async def test_what_a_request_used_is_counted_for_the_model_that_answered():
    used: Turn = (*says("Looked."), ScriptStep(usage=ScriptUsage(input_tokens=100, output_tokens=20)))
    model = ScriptedProvider([(ProviderOverloadedError("scripted is out."),), says("Back.")])
    spare = ScriptedProvider([used], name="spare")
    async with running_agent(model, others={"spare": spare}) as agent:
        agent.models.fallback = ("spare/test",)
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        reports = of_type(await events_of(agent, session), UsageReported)
        assert [report.model for report in reports] == ["spare/test"]


async def test_a_cut_answer_of_the_other_model_is_estimated_with_its_prices():
    model = ScriptedProvider([(ProviderOverloadedError("scripted is out."),)])
    spare = ScriptedProvider([(TextDelta("Half of the"), ProviderConnectionError("spare broke off."))], name="spare")
    async with running_agent(model, others={"spare": spare}) as agent:
        agent.models.fallback = ("spare/test",)
        infos = agent.models.infos
        infos["spare"] = replace(infos["spare"], input_price=3_000_000, output_price=15_000_000, prices="table 1")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        [report] = of_type(await events_of(agent, session), UsageReported)
        assert (report.model, report.prices, report.estimated) == ("spare/test", "table 1", True)
        assert report.spent is not None
        assert report.spent.micro_units > 0


async def test_a_model_that_costs_something_does_not_stand_in_where_the_budget_is_zero():
    model = ScriptedProvider([(ProviderOverloadedError("scripted is out."),)])
    spare = ScriptedProvider([says("For money.")], name="spare")
    settings = Settings(budget=BudgetSettings(session="0 USD"))
    async with running_agent(model, others={"spare": spare}, settings=settings) as agent:
        agent.models.fallback = ("spare/test",)
        infos = agent.models.infos
        infos["scripted"] = replace(infos["scripted"], is_free=True)
        infos["spare"] = replace(infos["spare"], input_price=3_000_000, output_price=15_000_000, prices="table 1")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert not spare.requests
        assert "spare/test cannot continue: This session has used 0.0000 USD of 0.0000 USD" in agent.editor.said()


async def test_a_model_that_stood_in_stops_where_a_budget_has_no_more_room_for_it():
    model = ScriptedProvider([(ProviderOverloadedError("scripted is out."),)])
    dear = UsageKnown(Usage(160_000, 1), Cost(480_015))
    spare = ScriptedProvider([(*calls("list_directory", path="."), dear), says("Too dear.")], name="spare")
    settings = Settings(budget=BudgetSettings(session="0.50 USD"))
    async with running_agent(model, others={"spare": spare}, settings=settings) as agent:
        agent.models.fallback = ("spare/test",)
        infos = agent.models.infos
        infos["scripted"] = replace(infos["scripted"], is_free=True)
        infos["spare"] = replace(infos["spare"], input_price=3_000_000, output_price=15_000_000, prices="table 1")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        said = agent.editor.said()
        assert (len(spare.requests), "Too dear." in said) == (1, False)
        assert "spare/test cannot continue: This session has used" in said
