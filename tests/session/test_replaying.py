"""A session is replayed from its events, also when the person went back in it."""

from pathlib import Path

from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session_row_rebuild import replay
from tests.support.agent import running_agent
from tests.support.scripts import calls, says


async def test_a_session_that_was_rewound_and_cleared_replays_the_same(tmp_path: Path):
    answers = [says("One."), calls("read_file", path="a.txt"), says("Two."), says("Three."), says("Four.")]
    async with running_agent(ScriptedProvider(answers)) as agent:
        session = await agent.editor.open_session(str(tmp_path))
        for text in ("first", "second", "/rewind 2 conversation", "third", "/clear", "fourth"):
            await agent.editor.prompt(session, text)
        report = await agent.database.read(lambda tx: replay(tx, session))
    assert report.difference is None
    assert report.requests == 5
