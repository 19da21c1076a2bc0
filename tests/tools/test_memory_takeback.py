"""What the agent may do with the history of memory: look, and propose, which asks the person."""

import pytest

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import Json
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says


async def remembered(agent: RunningAgent) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    for text in ("likes tea", "works at night"):
        await agent.editor.prompt(session, f"/remember me: {text}")
    agent.editor.updates.clear()
    return session


async def text_of_human(agent: RunningAgent) -> object:
    def read(tx: Transaction) -> object:
        row = tx.one("SELECT text FROM blocks WHERE label = 'human' AND deleted = 0")
        return None if row is None else row[0]

    return await agent.database.read(read)


def results(model: ScriptedProvider) -> str:
    return str(model.requests[-1].messages[-1])


async def test_an_undo_asks_with_the_diff_and_is_done_when_allowed():
    model = ScriptedProvider(
        [calls("memory_write", label="human", operation="undo", version=2, reason="It was wrong."), says("Done.")]
    )
    async with running_agent(model, permission=choose("allow_once")) as agent:
        session = await remembered(agent)
        await agent.editor.prompt(session, "Take the tea back")
        (asked,) = agent.editor.asked
        diff = asked["toolCall"]["content"][0]
        assert (diff["type"], diff["oldText"], diff["newText"]) == (
            "diff",
            "likes tea\nworks at night",
            "works at night",
        )
        assert {option["kind"] for option in asked["options"]} == {"allow_once", "reject_once"}
        assert await text_of_human(agent) == "works at night"
        assert "take back write 2 of human" in results(model)

        def newest(tx: Transaction) -> object:
            return tx.one("SELECT actor, operation, target, reason FROM block_updates ORDER BY last_seq DESC LIMIT 1")

        assert await agent.database.read(newest) == ("persona", "undo", 2, "It was wrong.")


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["undo", "rollback"])
async def test_a_refused_proposal_changes_nothing(operation: str):
    model = ScriptedProvider([calls("memory_write", label="human", operation=operation, version=2), says("All right.")])
    async with running_agent(model, permission=choose("reject_once")) as agent:
        session = await remembered(agent)
        await agent.editor.prompt(session, "Take it back")
        assert len(agent.editor.asked) == 1
        assert await text_of_human(agent) == "likes tea\nworks at night"


async def test_every_proposal_asks_again():
    undo = calls("memory_write", label="human", operation="undo")
    model = ScriptedProvider([undo, undo, says("Done.")])
    async with running_agent(model, permission=choose("allow_once")) as agent:
        session = await remembered(agent)
        await agent.editor.prompt(session, "Take both back")
        assert len(agent.editor.asked) == 2
        assert await text_of_human(agent) == ""


async def test_a_change_between_the_question_and_the_answer_stops_it():
    model = ScriptedProvider([calls("memory_write", label="human", operation="undo"), says("Hm.")])

    async with running_agent(model) as agent:
        session = await remembered(agent)
        other = await agent.editor.open_session(str(agent.folder))

        async def write_then_allow(params: dict[str, object]) -> dict[str, object]:
            del params
            await agent.editor.prompt(other, "/remember speaks Dutch")
            return {"outcome": "selected", "optionId": "allow_once"}

        agent.editor.permission = write_then_allow
        await agent.editor.prompt(session, "Take it back")
        assert await text_of_human(agent) == "likes tea\nworks at night\nspeaks Dutch"
        assert "changed by someone else" in results(model)


async def test_plan_mode_denies_it():
    model = ScriptedProvider([calls("memory_write", label="human", operation="undo"), says("I cannot.")])
    async with running_agent(model) as agent:
        session = await remembered(agent)
        await agent.editor.request("session/set_mode", {"sessionId": session, "modeId": "plan"})
        await agent.editor.prompt(session, "Take it back")
        assert agent.editor.asked == []
        assert await text_of_human(agent) == "likes tea\nworks at night"


async def test_the_agent_reads_the_log_and_older_versions():
    model = ScriptedProvider(
        [
            calls("memory_read", label="human", history=True) + calls("memory_read", label="human", version=2),
            says("I see."),
        ]
    )
    async with running_agent(model) as agent:
        session = await remembered(agent)
        await agent.editor.prompt(session, "Who wrote that?")
        read = results(model)
        assert "3. " in read
        assert "human append, 24 characters" in read
        assert "likes tea" in read
        assert agent.editor.asked == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"operation": "undo"}, "`label` is missing"),
        ({"operation": "rollback", "label": "human"}, "`version` is missing"),
        ({"operation": "undo", "label": "human", "text": "x"}, "takes only"),
        ({"operation": "undo", "label": "nobody"}, "no memory block of this label"),
        ({"operation": "undo", "label": "human", "version": 1}, "delete the block instead"),
        ({"operation": "append", "label": "human", "text": "x", "version": 1}, "only for redo, rollback, undo"),
        ({"label": "human", "edits": [{"operation": "undo"}]}, "needs a call of its own"),
    ],
)
async def test_a_proposal_that_cannot_work_is_told_to_the_model_without_asking(
    arguments: dict[str, Json], problem: str
):
    model = ScriptedProvider([calls("memory_write", **arguments), says("Hm.")])
    async with running_agent(model) as agent:
        session = await remembered(agent)
        await agent.editor.prompt(session, "Take it back")
        assert problem in results(model)
        assert agent.editor.asked == []
