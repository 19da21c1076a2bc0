"""Plan steps and skills are found by the search over memory."""

from pattern_acp.db.connection import Transaction
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.scripts import calls, says
from tests.support.turns import last_result

STEPS = (
    {"content": "Migrate the zeppelin table", "status": "in_progress"},
    {"content": "Paint the hangar", "status": "pending"},
)
DONE = ({"content": "Migrate the zeppelin table", "status": "completed"},)


def indexed(tx: Transaction) -> list[tuple[object, ...]]:
    found = tx.all("SELECT id, kind, item, text FROM search_entries WHERE kind IN ('task', 'skill') ORDER BY id")
    return [tuple(row) for row in found]


async def asked(agent: RunningAgent, *prompts: str) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    for prompt in prompts:
        await agent.editor.prompt(session, prompt)
    return session


async def test_a_step_of_an_earlier_plan_is_found_with_how_far_it_got():
    search = calls("memory_search", query="zeppelin table", kinds=["task"])
    model = ScriptedProvider([calls("update_plan", entries=STEPS), says("ok"), search, says("ok")])
    async with running_agent(model) as agent:
        first = await asked(agent, "Plan it.")
        await asked(agent, "What of it?")
        assert f"plan step (in progress) of session {first}" in last_result(model.requests[-1]).text
        assert "Migrate the zeppelin table" in last_result(model.requests[-1]).text
        agent.editor.updates.clear()
        await asked(agent, "/recall paint hangar")
        assert "plan step (pending) of “Plan it.”" in agent.editor.said()


async def test_a_step_keeps_its_row_when_it_is_done_and_one_that_went_is_found_no_longer():
    plans = [calls("update_plan", entries=STEPS), calls("update_plan", entries=DONE), says("ok")]
    async with running_agent(ScriptedProvider(plans[:1] + plans[2:] + plans[1:])) as agent:
        session = await asked(agent, "Plan it.")
        before = await agent.database.read(indexed)
        assert [row[2:] for row in before] == [
            ("1.in_progress", "Migrate the zeppelin table"),
            ("2.pending", "Paint the hangar"),
        ]
        await agent.editor.prompt(session, "Go on.")
        after = await agent.database.read(indexed)
        assert after == [(before[0][0], "task", "1.completed", "Migrate the zeppelin table")]


async def test_what_is_forgotten_is_taken_out_of_plan_steps_too():
    model = ScriptedProvider([calls("update_plan", entries=STEPS), says("ok")])
    async with running_agent(model) as agent:
        session = await asked(agent, "Plan it.", "/remember me: The zeppelin table is secret.")
        await agent.editor.prompt(session, "/memory forget human zeppelin table")
        texts = [row[3] for row in await agent.database.read(indexed)]
        assert texts == ["Paint the hangar", "Migrate the [forgotten]"]
