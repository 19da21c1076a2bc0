"""/memory create, set, share and unshare, and consent over ACP, through a whole agent."""

from pattern_acp.db.connection import Transaction
from pattern_acp.journal.events import GrantStored, PermissionAsked
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.testing.agent import RunningAgent, running_agent
from pattern_acp.testing.editor import choose
from pattern_acp.testing.scripts import calls, says
from pattern_acp.testing.turns import events_of, last_result, of_type

WRITE = calls("memory_write", label="human", operation="append", text="likes tea")
AGAIN = calls("memory_write", label="human", operation="append", text="works at night")


async def ask(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    await agent.editor.prompt(session, text)
    return agent.editor.said()


async def test_a_block_is_created_from_a_template_and_set_up():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "| `decision-record` | Decisions that hold" in await ask(agent, session, "/memory create")
        said = await ask(agent, session, "/memory create decisions --template decision-record Why we chose what.")
        assert "`decisions` is there" in said
        settings = await ask(agent, session, "/memory set decisions")
        assert "| description | Why we chose what. |" in settings
        assert "| limit | 16,000 |" in settings
        assert "limit is 9000 now" in await ask(agent, session, "/memory set decisions limit 9000")
        assert "| limit | 9,000 |" in await ask(agent, session, "/memory set decisions")
        assert "no setting 'colour'" in await ask(agent, session, "/memory set decisions colour red")
        assert "is 9000 already" in await ask(agent, session, "/memory set decisions limit 9000")
        assert "Say which block" in await ask(agent, session, "/memory set")
        assert "no memory block 'x'" in await ask(agent, session, "/memory set x")


async def test_every_setting_leaves_an_event():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/memory set human permission human")
        await ask(agent, session, "/memory share human persona:other append")

        def events(tx: Transaction) -> list[object]:
            rows = tx.all("SELECT kind, actor, origin FROM events WHERE kind IN ('block_configured', 'block_shared')")
            return [tuple(row) for row in rows]

        assert await agent.database.read(events) == [
            ("block_configured", "human", "person"),
            ("block_shared", "human", "person"),
        ]


async def test_a_block_is_shared_and_taken_back():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "shared with nobody" in await ask(agent, session, "/memory share human")
        assert "with the permission append" in await ask(agent, session, "/memory share human persona:other append")
        await ask(agent, session, "/memory share human project:../elsewhere")
        listed = await ask(agent, session, "/memory share human")
        assert "- persona `other`: append" in listed
        assert "elsewhere`: read_only" in listed
        assert "no longer" in await ask(agent, session, "/memory unshare human persona:other")
        assert "is not shared" in await ask(agent, session, "/memory unshare human persona:other")
        for wrong in (
            "share human other",
            "share human persona:",
            "unshare human",
            "share",
            "share human persona:x all",
        ):
            said = await ask(agent, session, f"/memory {wrong}")
            assert said.startswith(("Say ", "Share with ", "A permission is one of "))


async def test_a_partner_s_block_asks_over_acp_and_an_always_lasts_for_the_session():
    model = ScriptedProvider([WRITE, says("Noted."), AGAIN, says("Noted too.")])
    async with running_agent(model, permission=choose("allow_always")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/memory set human permission partner")
        await ask(agent, session, "Remember that I like tea.")
        await ask(agent, session, "And that I work at night.")
        events = await events_of(agent, session)
        (asked,) = of_type(events, PermissionAsked)
        assert "needs the consent of the person" in asked.reason
        (grant,) = of_type(events, GrantStored)
        assert grant.kind == "memory_block"
        said = await ask(agent, session, "/memory show human")
        assert "likes tea" in said
        assert "works at night" in said


async def test_a_refused_write_of_memory_changes_nothing():
    model = ScriptedProvider([WRITE, says("I see.")])
    async with running_agent(model, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/memory set human permission human")
        await ask(agent, session, "Remember that I like tea.")
        assert "refused" in last_result(model.requests[1]).text
        assert "likes tea" not in await ask(agent, session, "/memory show human")


async def test_a_read_only_block_is_refused_without_a_question():
    model = ScriptedProvider([WRITE, says("I see.")])
    async with running_agent(model, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/memory set human permission read_only")
        await ask(agent, session, "Remember that I like tea.")
        assert "nobody but the person writes it" in last_result(model.requests[1]).text
        assert of_type(await events_of(agent, session), PermissionAsked) == []
        # The person still may.
        assert "Remembered" in await ask(agent, session, "/remember likes tea")
