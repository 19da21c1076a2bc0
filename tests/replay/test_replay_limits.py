"""Turns that a limit ended, run again."""

from msgspec.structs import replace

from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import Settings, TurnSettings
from pattern_acp.journal.history import read_history
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from tests.support.agent import running_agent
from tests.support.scripts import calls, says


async def test_a_limit_that_requests_of_a_subagent_helped_to_reach_replays_the_same():
    look = calls("list_directory", path=".")
    model = ScriptedProvider(
        [calls("delegate", kind="explorer", name="finder", task="Look."), look, look, says("Not any more.")],
        subagents={"finder": [look, says("Looked.")]},
    )
    few = replace(Settings(mode="auto"), turn=TurnSettings(max_model_requests=5))
    async with running_agent(model, settings=few) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert "its limit of 5 model requests" in agent.editor.said()
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, recorded, current_means())
    assert (report.difference, report.requests) == (None, 3)
