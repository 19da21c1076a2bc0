"""Calls that memory held until the model had read a trap, run again."""

from pattern_acp.cli.journal import current_means
from pattern_acp.journal.events import ToolCallFinished
from pattern_acp.journal.history import read_history
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.replay.comparison import replay_turns
from tests.support.agent import running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says
from tests.support.turns import events_of, of_type


async def test_calls_that_were_held_until_the_model_had_read_a_trap_replay_the_same():
    both = calls("edit_file", path="a.txt", edits=[{"old_text": "hello", "new_text": "bye"}]) + calls(
        "write_file", path="b.txt", content="b\n"
    )
    model = ScriptedProvider([both, both, says("Done.")])
    async with running_agent(model, permission=choose("allow_once")) as agent:
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/memory trap Keep it polite. --paths *.txt")
        await agent.editor.prompt(session, "Say bye.")
        finished = of_type(await events_of(agent, session), ToolCallFinished)
        assert [one.failure for one in finished] == ["memory.warned", "memory.warned", "", ""]
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, recorded, current_means(), turn=0)
    assert (report.difference, report.requests, report.calls, report.not_compared) == (None, 3, 4, ())
