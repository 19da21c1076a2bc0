"""A model that stands in for the chosen one: told, recorded, kept for the turn and given up with it."""

from pattern_acp.journal.events import MessageRecorded, UsageReported
from pattern_acp.providers.errors import ProviderOverloadedError
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep, ScriptUsage
from pattern_acp.testing.agent import running_agent
from pattern_acp.testing.heard import conversation
from pattern_acp.testing.scripts import Turn, calls, says
from pattern_acp.testing.turns import events_of, of_type


async def test_the_other_model_answers_the_turn_and_the_chosen_one_the_next():
    model = ScriptedProvider([(ProviderOverloadedError("scripted is out."),), says("Back.")])
    spare = ScriptedProvider([calls("list_directory", path="."), says("Looked.")], name="spare")
    async with running_agent(model, others={"spare": spare}) as agent:
        agent.models.fallback = ("spare/test",)
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        told = "> scripted is out. spare/test goes on for this turn.\n\n"
        assert agent.editor.said() == f"{told}Looked."
        await agent.editor.prompt(session, "Again.")
        assert agent.editor.said().endswith("Back.")
        assert (len(model.requests), len(spare.requests)) == (2, 2)
        recorded = of_type(await events_of(agent, session), MessageRecorded)
        assert [item.message.text for item in recorded if not item.for_model] == [told]
        assert told not in [message.text for message in conversation(model.requests[-1])]


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
