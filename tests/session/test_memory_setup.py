"""/memory create, set, share and unshare, and consent over ACP, through a whole agent."""

from pattern_acp.db.connection import Transaction
from pattern_acp.journal.events import GrantStored, PermissionAsked
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import calls, says
from tests.support.turns import events_of, last_result, of_type

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


async def test_a_block_that_needs_fields_is_created_with_a_text():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert "`name` is required" in await ask(agent, session, "/memory create me --template partner-profile")
        text = r'--text "name: Ada \"the first\"\nrole: --scope shared"'
        assert "`me` is there" in await ask(agent, session, f"/memory create me --template partner-profile {text} Who.")
        said = await ask(agent, session, "/memory show me")
        assert 'name: Ada "the first"\nrole: --scope shared' in said
        assert "### me (persona" in said
        assert "*Who. Fields: name (text, required" in said


async def test_a_label_of_several_words_is_set_up_in_quotes():
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        said = await ask(agent, session, '/memory create "two words" What is odd.')
        assert '`two words` is there. `/memory set "two words"` tells its settings.' in said
        await ask(agent, session, '/memory set "two words" pinned yes')
        rows = (await ask(agent, session, '/memory set "two words"')).splitlines()
        assert {"| scope | project |", "| tier | working |", "| pinned | yes |"} <= set(rows)
        assert "limit is 90 now" in await ask(agent, session, '/memory set "two words" limit 90')
        assert "shared with nobody" in await ask(agent, session, '/memory share "two words"')


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
        assert "any more" in await ask(agent, session, "/memory unshare human persona:other")
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


async def test_a_shared_block_is_seen_found_and_told_of_only_where_it_is_attached():
    model = ScriptedProvider(
        [says("one"), says("two"), calls("memory_search", query="zeppelin", scope="shared"), says(".")]
    )
    async with running_agent(model) as agent:
        elsewhere = agent.folder / "elsewhere"
        elsewhere.mkdir()
        here = await agent.editor.open_session(str(agent.folder))
        there = await agent.editor.open_session(str(elsewhere))
        await agent.editor.prompt(there, "Hello.")
        said = await ask(agent, here, "/memory create rules --scope shared What holds in all of our projects.")
        assert "attached to this project" in said
        await ask(agent, here, "/memory edit rules Tabs, and a zeppelin.")
        assert "| `rules` | shared |" in await ask(agent, here, "/memory")

        listed = await ask(agent, there, "/memory")
        assert "| `rules` |" not in listed
        assert "not attached here: `shared/rules`" in listed
        assert "Nothing in memory" in await ask(agent, there, "/recall zeppelin")
        await agent.editor.prompt(there, "Anything new?")
        assert "zeppelin" not in str(model.requests[1])

        await ask(agent, there, "/memory share shared/rules project:. read_only")
        assert "memory block rules" in await ask(agent, there, "/recall zeppelin")
        await agent.editor.prompt(there, "And now?")
        assert 'permission="read_only"' in model.requests[2].volatile
        assert "Tabs, and a zeppelin." in model.requests[2].volatile
        assert "Tabs, and a zeppelin." in str(model.requests[3].messages[-1])

        await ask(agent, here, "/memory unshare rules project:elsewhere")
        assert "| `rules` |" not in await ask(agent, there, "/memory")


async def test_a_shared_block_has_one_label_and_is_set_up_from_anywhere():
    async with running_agent(ScriptedProvider([])) as agent:
        elsewhere = agent.folder / "elsewhere"
        elsewhere.mkdir()
        here = await agent.editor.open_session(str(agent.folder))
        there = await agent.editor.open_session(str(elsewhere))
        await ask(agent, here, "/memory create rules --scope shared What holds everywhere.")
        assert "there is a block of this label already" in await ask(
            agent, there, "/memory create rules --scope shared Other rules."
        )
        await ask(agent, there, "/memory create rules Rules of this project.")
        await ask(agent, there, "/memory share shared/rules project:. append")
        assert "| `shared/rules` | shared |" in await ask(agent, there, "/memory")
        assert "limit is 900 now" in await ask(agent, there, "/memory set shared/rules limit 900")
        assert "each attachment has a permission" in await ask(
            agent, there, "/memory set shared/rules permission append"
        )
        listed = await ask(agent, there, "/memory share shared/rules")
        assert [line.rpartition(": ")[2] for line in listed.splitlines()] == ["read_write", "append"]
        await ask(agent, there, "/memory delete shared/rules")
        assert "`shared/rules` |" in await ask(agent, here, "/memory")
        await ask(agent, here, "/memory restore shared/rules")
        assert "| `rules` | shared |" in await ask(agent, here, "/memory")


async def test_the_agent_makes_a_shared_block_and_writes_it_as_its_attachment_allows():
    model = ScriptedProvider(
        [
            calls(
                "memory_write", label="rules", operation="create", scope="shared", description="Rules.", text="Tabs."
            ),
            calls("memory_write", label="rules", operation="undo"),
            says("Done."),
        ],
        repeat=True,
    )
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Make rules.")
        assert "attached to this project with read_write" in str(model.requests[1].messages[-1])
        await ask(agent, session, "/memory share rules project:. read_only")
        model.requests.clear()
        await agent.editor.prompt(session, "Again.")
        assert "there is a block of this label already" in str(model.requests[1].messages[-1])
        assert "its permission is read_only" in str(model.requests[2].messages[-1])


async def test_a_partner_s_block_asks_over_acp_and_an_always_lasts_for_the_session():
    model = ScriptedProvider([WRITE, says("Noted."), AGAIN, says("Noted too.")])
    async with running_agent(model, permission=choose("allow_always")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await ask(agent, session, "/memory set human permission partner")
        await ask(agent, session, "Remember that I like tea.")
        await ask(agent, session, "And that I work at night.")
        events = await events_of(agent, session)
        (asked,) = of_type(events, PermissionAsked)
        assert "needs the consent of the user" in asked.reason
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
        assert "nobody but the user writes it" in last_result(model.requests[1]).text
        assert of_type(await events_of(agent, session), PermissionAsked) == []
        # The person still may.
        assert "Remembered" in await ask(agent, session, "/remember likes tea")
