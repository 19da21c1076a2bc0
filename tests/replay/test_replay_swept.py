"""A session of which `gc` took the words that no fork needs."""

from pattern_acp.cli.journal import current_means
from pattern_acp.domain.clock import SessionId
from pattern_acp.journal.history import read_history
from pattern_acp.journal.retention import sweep_session
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from tests.support.agent import running_agent
from tests.support.scripts import calls, says

LATER_MS = 1 << 50


async def test_turns_without_words_are_said_to_be_gone_and_those_that_a_fork_needs_replay_the_same():
    model = ScriptedProvider([says("One."), calls("list_directory", path="."), says("Two."), says("In the fork.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "first")
        opening: dict[str, object] = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/fork", opening)
        await agent.editor.prompt(session, "second")
        await agent.editor.request("session/delete", {"sessionId": session})
        swept = await agent.database.write(
            lambda tx: sweep_session(tx, SessionId(session), before_ms=LATER_MS, at_ms=LATER_MS)
        )
        assert swept > 0
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, recorded, current_means())
    assert (report.difference, report.turns, report.requests) == (None, 1, 1)
    assert report.not_compared == ("turns of which `gc` took the words, since the session was deleted: 1",)
