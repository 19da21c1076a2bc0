"""What a rewind makes of memory that others write too."""

from pattern_acp.config.settings import Settings
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import choose
from tests.support.scripts import Turn, calls, says

AUTO = Settings(editor_deadline_seconds=30, mode="auto")


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


def remember(text: str) -> Turn:
    return calls("memory_write", label="human", operation="append", text=text)


async def test_what_another_session_wrote_stays_and_an_undo_brings_only_this_sessions_back():
    model = ScriptedProvider([remember("Mine one."), says("Ok."), remember("Theirs."), says("Ok.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        mine = await agent.editor.open_session(str(agent.folder))
        theirs = await agent.editor.open_session(str(agent.folder))
        await answer(agent, mine, "Remember.")
        await answer(agent, theirs, "Remember.")
        said = await answer(agent, mine, "/rewind 1 memory")
        assert "Memory put back: `human`." in said
        shown = await answer(agent, mine, "/memory show human")
        assert "Theirs." in shown
        assert "Mine one." not in shown
        assert "undo" in await answer(agent, mine, "/memory history human")
        await answer(agent, mine, "/rewind undo yes")
        shown = await answer(agent, mine, "/memory show human")
        assert "Theirs." in shown
        assert "Mine one." in shown


async def test_a_block_that_the_session_made_goes_and_one_that_it_deleted_comes_back():
    made = calls(
        "memory_write", label="notes", operation="create", text="A note.", description="Notes", scope="persona"
    )
    model = ScriptedProvider([made, says("Made."), says("Now?"), says("And?")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Make notes.")
        assert "A note." in await answer(agent, session, "/memory show notes")
        await answer(agent, session, "What now?")
        await answer(agent, session, "/memory delete notes")
        assert "A note." not in await answer(agent, session, "/memory show notes")
        await answer(agent, session, "/rewind 2 memory yes")
        assert "A note." in await answer(agent, session, "/memory show notes")
        await answer(agent, session, "/rewind 1 memory yes")
        assert "A note." not in await answer(agent, session, "/memory show notes")
        assert "I am" in await answer(agent, session, "/memory show persona")


async def test_a_block_whose_older_words_were_forgotten_stays_and_the_rest_goes_back():
    model = ScriptedProvider([remember("I like tabs."), says("Ok."), says("Then?")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember.")
        await answer(agent, session, "What then?")
        await answer(agent, session, "/memory edit human I like spaces. I like tea.")
        await answer(agent, session, "/memory forget human I like spaces.")
        said = await answer(agent, session, "/rewind 2 yes")
        assert "The block 'human' stays as it is, since the words that it had then were forgotten." in said
        assert "The model no longer knows 1 turn" in said
        assert "Memory put back" not in said
        assert "I like tea." in await answer(agent, session, "/memory show human")
        said = await answer(agent, session, "/rewind 2 memory yes")
        assert "Memory put back" not in said
