"""Forking memory with a conversation, merging and discarding it, as an editor sees it."""

from pattern_acp.config.settings import MemorySettings, Settings
from pattern_acp.journal.reader import verify_stream
from pattern_acp.memory.service.provenance import archive_mismatches, mismatches
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.requests import updates_of
from tests.support.scripts import Turn, calls, says

AUTO = Settings(editor_deadline_seconds=30, mode="auto")


def remember(text: str, label: str = "human") -> Turn:
    return calls("memory_write", label=label, operation="append", text=text)


class Asked:
    """Answers questions by the beginning of an option's name, and keeps them."""

    def __init__(self, *wanted: str) -> None:
        self.wanted = list(wanted)
        self.requests: list[JsonDict] = []

    async def __call__(self, params: JsonDict) -> JsonDict:
        self.requests.append(params)
        wanted = self.wanted.pop(0)
        option = next(one for one in params["options"] if one["name"].startswith(wanted))
        return {"outcome": "selected", "optionId": option["optionId"]}


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


async def opened(agent: RunningAgent, fork: str) -> str:
    await agent.editor.request("session/load", {"sessionId": fork, "cwd": str(agent.folder), "mcpServers": []})
    return fork


def fork_named(said: str) -> str:
    return next(word.strip("`.:") for word in said.split() if word.startswith("`ses_"))


async def assert_sound(agent: RunningAgent, *sessions: str) -> None:
    for session in sessions:
        assert (await agent.database.read(lambda tx, one=session: verify_stream(tx, one))).ok
    assert await agent.database.read(lambda tx: [*mismatches(tx), *archive_mismatches(tx)]) == []


async def test_forked_memory_is_the_forks_own_until_it_is_merged():
    model = ScriptedProvider(
        [remember("Likes tea."), says("Ok."), remember("Speaks Dutch."), says("Ok."), says("Yes."), says("Now.")]
    )
    asked = Asked("Fork memory", "Bring it back")
    async with running_agent(model, settings=AUTO, permission=asked) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember tea.")
        said = await answer(agent, session, "/fork")
        assert "Its memory is a fork" in said
        fork = await opened(agent, fork_named(said))
        await answer(agent, fork, "Remember Dutch.")
        assert "Speaks Dutch." in await answer(agent, fork, "/memory show human")
        await answer(agent, session, "What do you know?")
        assert "Likes tea." in str(model.requests[-1])
        assert "Speaks Dutch." not in str(model.requests[-1])
        assert "Speaks Dutch." not in await answer(agent, session, "/memory show human")
        said = await answer(agent, fork, "/merge")
        assert "Merged: 1 block." in said
        shown = str(asked.requests[-1])
        assert "+Speaks Dutch." in shown
        assert "1 block would come back" in shown
        assert "Speaks Dutch." in await answer(agent, session, "/memory show human")
        assert "no fork" in await answer(agent, fork, "/merge")
        await answer(agent, fork, "And now?")
        assert "Speaks Dutch." in str(model.requests[-1])
        await assert_sound(agent, session, fork)


async def test_what_a_fork_shares_is_said_plainly_and_memory_that_says_nothing_is_not_asked_about():
    model = ScriptedProvider([says("One."), remember("Likes tea."), says("Ok.")])
    asked = Asked("Share memory", "Do not fork")
    async with running_agent(model, settings=AUTO, permission=asked) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Hi")
        assert "Both use the same memory" in await answer(agent, session, "/fork")
        assert asked.requests == []
        await answer(agent, session, "Remember.")
        assert "Both use the same memory" in await answer(agent, session, "/fork 1")
        assert "Nothing was forked" in await answer(agent, session, "/fork")
        assert len(asked.requests) == 2
        assert "Both use the same memory" in await answer(agent, session, "/fork 1 --memory shared")


async def test_a_discarded_fork_leaves_the_memory_that_it_was_forked_from_as_it_was():
    model = ScriptedProvider([remember("Likes tea."), says("Ok."), remember("A try."), says("Ok."), says("Then.")])
    asked = Asked("Leave everything", "Drop it for good")
    async with running_agent(model, settings=AUTO, permission=asked) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember.")
        fork = await opened(agent, fork_named(await answer(agent, session, "/fork --memory forked")))
        await answer(agent, fork, "Try.")
        assert "the fork stays" in await answer(agent, fork, "/discard")
        assert "A try." in await answer(agent, fork, "/memory show human")
        assert "memory is gone" in await answer(agent, fork, "/discard")
        assert "A try." not in await answer(agent, fork, "/memory show human")
        await answer(agent, fork, "And then?")
        assert "Likes tea." in str(model.requests[-1])
        await assert_sound(agent, session, fork)


async def test_a_fork_of_a_fork_shares_its_memory_and_follows_when_the_other_merges():
    model = ScriptedProvider([remember("Likes tea."), says("Ok."), remember("Speaks Dutch."), says("Ok."), says("So.")])
    asked = Asked("Bring it back")
    async with running_agent(model, settings=AUTO, permission=asked) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember.")
        first = await opened(agent, fork_named(await answer(agent, session, "/fork --memory forked")))
        assert "of that there is one" in await answer(agent, first, "/fork --memory forked")
        second = await opened(agent, fork_named(await answer(agent, first, "/fork")))
        await answer(agent, second, "Remember Dutch.")
        assert "Speaks Dutch." in await answer(agent, first, "/memory show human")
        await answer(agent, first, "/merge")
        said = await answer(agent, second, "And?")
        assert "merged by another one" in said
        assert "Speaks Dutch." in str(model.requests[-1])
        await assert_sound(agent, session, first, second)


async def test_of_lines_that_both_changed_the_user_may_prefer_one_side():
    def replace(old: str, new: str) -> Turn:
        return calls("memory_write", label="human", operation="replace", text=new, old_text=old)

    fork_says, parent_says = replace("Likes tea.", "Likes mate."), replace("Likes tea.", "Likes coffee.")
    model = ScriptedProvider(
        [remember("Likes tea."), says("Ok."), fork_says, says("Ok."), parent_says, says("Ok."), says("Bye.")]
    )
    asked = Asked("Leave everything", "Bring it back")
    async with running_agent(model, settings=AUTO, permission=asked) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember tea.")
        fork = await opened(agent, fork_named(await answer(agent, session, "/fork --memory forked")))
        await answer(agent, fork, "It is mate.")
        await answer(agent, session, "It is coffee.")
        assert "fork, target (outside of it), or both" in await answer(agent, fork, "/merge mine")
        await answer(agent, fork, "/merge")
        shown = str(asked.requests[-1])
        assert "both are in the text to fix" in shown
        assert "type /merge fork or /merge target" in shown
        said = await answer(agent, fork, "/merge fork")
        assert "the text has the lines of the fork" in said
        human = await answer(agent, session, "/memory show human")
        assert "Likes mate." in human
        assert "Likes coffee." not in human
        await assert_sound(agent, session, fork)


async def test_a_rewind_takes_a_merge_back():
    model = ScriptedProvider([remember("Likes tea."), says("Ok."), remember("Speaks Dutch."), says("Ok."), says("Hm.")])
    asked = Asked("Bring it back")
    async with running_agent(model, settings=AUTO, permission=asked) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember.")
        fork = await opened(agent, fork_named(await answer(agent, session, "/fork --memory forked")))
        await answer(agent, fork, "Remember Dutch.")
        await answer(agent, fork, "Let me think.")
        await answer(agent, fork, "/merge")
        assert "Speaks Dutch." in await answer(agent, session, "/memory show human")
        await answer(agent, fork, "/rewind 3 memory yes")
        assert "Speaks Dutch." not in await answer(agent, session, "/memory show human")
        assert "Likes tea." in await answer(agent, fork, "/memory show human")
        await assert_sound(agent, session, fork)


async def test_files_of_memory_are_those_of_what_is_not_forked():
    model = ScriptedProvider(
        [remember("Uses make.", "project"), says("Ok."), remember("Uses just.", "project"), says("Ok.")]
    )
    settings = Settings(editor_deadline_seconds=30, mode="auto", memory=MemorySettings(files=True))
    async with running_agent(model, settings=settings, permission=Asked("Bring it back")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await answer(agent, session, "Remember.")
        fork = await opened(agent, fork_named(await answer(agent, session, "/fork --memory forked")))
        await answer(agent, fork, "Remember.")
        folder = agent.folder / ".pattern" / "memory"
        assert not any("Uses just." in path.read_text("utf-8") for path in folder.glob("*.md"))
        await answer(agent, fork, "/merge")
        await answer(agent, session, "/memory show project")
        assert any("Uses just." in path.read_text("utf-8") for path in folder.glob("*.md"))
        assert updates_of(agent.editor, session)
