"""Going back in a session that was forked from another, and loading and searching where the person went back."""

import pytest

from pattern_acp.config.settings import Settings
from pattern_acp.journal.events import TurnStarted
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.reopening import first_turns
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.heard import conversation
from tests.support.scripts import Turn, calls, says

AUTO = Settings(editor_deadline_seconds=30, mode="auto")


def opening(agent: RunningAgent, session: str, **more: object) -> JsonDict:
    return {"sessionId": session, "cwd": str(agent.folder), "mcpServers": [], **more}


async def answer(agent: RunningAgent, session: str, text: str) -> str:
    agent.editor.updates.clear()
    assert (await agent.editor.prompt(session, text))["stopReason"] == "end_turn"
    return agent.editor.said()


async def first_prompts(agent: RunningAgent, session: str) -> list[str]:
    events = await agent.database.read(lambda tx: first_turns(tx, session))
    return [event.message.text for event in events if isinstance(event, TurnStarted)]


async def forked(agent: RunningAgent, *prompts: str) -> tuple[str, str]:
    session = await agent.editor.open_session(str(agent.folder))
    for prompt in prompts:
        await agent.editor.prompt(session, prompt)
    return session, (await agent.editor.request("session/fork", opening(agent, session)))["sessionId"]


async def test_turns_of_a_fork_are_counted_with_those_that_it_shares():
    model = ScriptedProvider([says(text) for text in ("One.", "Two.", "Three.", "Four.", "Anew.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        _, fork = await forked(agent, "First", "Second")
        await answer(agent, fork, "Third")
        await answer(agent, fork, "Fourth")
        listed = await answer(agent, fork, "/rewind")
        assert "`/rewind 3`" in listed
        assert "`/rewind 4`" in listed
        assert "`/rewind 1` | before “First”" in listed
        assert "A new session begins there" in await answer(agent, fork, "/rewind 1 conversation yes")
        assert "before turn 4" in await answer(agent, fork, "/rewind 4 yes")
        await answer(agent, fork, "Fourth anew")
        said = [message.text for message in conversation(model.requests[-1])]
        assert said == ["First", "One.", "Second", "Two.", "Third", "Three.", "Fourth anew"]
        assert await first_prompts(agent, fork) == ["First", "Second"]


async def test_going_back_to_a_shared_turn_begins_a_fork_in_front_of_it():
    model = ScriptedProvider([says(text) for text in ("One.", "Two.", "Three.", "Anew.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        _, fork = await forked(agent, "First", "Second")
        await answer(agent, fork, "Third")
        told = await answer(agent, fork, "/rewind 2 yes")
        assert "since it is shared" in told
        again = told.partition("of this session: `")[2].partition("`")[0]
        await agent.editor.request("session/load", {**opening(agent, fork), "sessionId": again})
        await answer(agent, again, "Second anew")
        assert [m.text for m in conversation(model.requests[-1])] == ["First", "One.", "Second anew"]
        assert "Nothing has changed" in await answer(agent, fork, "/rewind 2 files yes")


def writing(text: str, memory: str) -> list[Turn]:
    remember = calls("memory_write", label="human", operation="append", text=memory)
    return [calls("write_file", path="a.txt", content=text), remember, says("Done.")]


async def memory_of(agent: RunningAgent, session: str) -> str:
    return await answer(agent, session, "/memory show human")


@pytest.mark.parametrize("parts", ["files", "memory", "files memory", "conversation files memory"])
async def test_files_and_memory_of_a_fork_go_back_to_a_turn_that_it_shares(parts: str):
    turns = [
        *writing("one", "Fact one."),
        *writing("two", "Fact two."),
        calls("read_file", path="a.txt"),
        *writing("three", "Fact three."),
    ]
    async with running_agent(ScriptedProvider(turns), settings=AUTO, permission=choose("allow_once")) as agent:
        _, fork = await forked(agent, "First", "Second")
        await answer(agent, fork, "Third")
        written = agent.folder / "a.txt"
        assert written.read_text() == "three"
        told = await answer(agent, fork, f"/rewind 2 {parts} yes")
        assert ("another session" in told) is ("conversation" in parts)
        assert written.read_text() == ("one" if "files" in parts else "three")
        memory = await memory_of(agent, fork)
        assert "Fact one." in memory
        assert ("Fact two." in memory) is ("Fact three." in memory) is ("memory" not in parts)
        await answer(agent, fork, "/rewind undo yes")
        assert written.read_text() == "three"
        assert "Fact three." in await memory_of(agent, fork)


async def test_what_the_parent_changed_behind_the_fork_is_in_conflict_and_stays():
    turns = [*writing("one", "Fact one."), *writing("two", "Fact two."), *writing("parent", "Of the parent.")]
    async with running_agent(ScriptedProvider(turns), settings=AUTO, permission=choose("allow_once")) as agent:
        parent, fork = await forked(agent, "First", "Second")
        await answer(agent, parent, "Third")
        told = await answer(agent, fork, "/rewind 2 files memory yes")
        assert "Left as they are, since others changed them: `a.txt`" in told
        assert (agent.folder / "a.txt").read_text() == "parent"
        memory = await memory_of(agent, fork)
        assert "Of the parent." in memory
        assert "Fact two." not in memory
        assert "a.txt" in await answer(agent, fork, "/rewind 2 files overwrite yes")
        assert (agent.folder / "a.txt").read_text() == "one"


async def test_the_files_of_the_turn_behind_which_a_fork_begins_go_back_and_editors_are_told_of_the_other_session():
    turns = [*writing("one", "Fact one."), *writing("two", "Fact two."), *writing("parent", "Of the parent.")]
    async with running_agent(ScriptedProvider(turns), settings=AUTO, permission=choose("allow_once")) as agent:
        session, _ = await forked(agent, "First", "Second")
        fork = (await agent.editor.request("session/fork", opening(agent, session, turn=2)))["sessionId"]
        asked: JsonDict = {"sessionId": fork, "to": "2"}
        await agent.editor.request("session/load", opening(agent, fork))
        preview = await agent.editor.request("_pattern/checkpoint/preview", asked)
        assert (preview["forkBehind"], preview["files"][0]["kind"]) == (1, "modify")
        moved = await agent.editor.request("_pattern/session/rewind", asked)
        assert moved["forkSessionId"].startswith("ses_")
        assert (agent.folder / "a.txt").read_text() == "two"
        done = await agent.editor.request("_pattern/checkpoint/restore", asked)
        assert done["forkSessionId"] != moved["forkSessionId"]
        assert (agent.folder / "a.txt").read_text() == "one"


async def test_the_first_part_of_a_rewound_session_is_what_counts_for_certain():
    model = ScriptedProvider([says(text) for text in ("One.", "Two.", "Three.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for prompt in ("First", "Second", "/rewind 2 yes", "Third"):
            await agent.editor.prompt(session, prompt)
        assert await first_prompts(agent, session) == ["First"]


async def test_a_search_names_turns_as_a_fork_counts_them_where_the_person_went_back():
    model = ScriptedProvider([says(text) for text in ("One.", "Two.", "The zebra.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for prompt in ("First", "Second", "/rewind 2 yes", "Third"):
            await agent.editor.prompt(session, prompt)
        asking = await agent.editor.open_session(str(agent.folder))
        found = await answer(agent, asking, "/search zebra")
        turn = int(found.partition(f"{session}?turn=")[2].partition(")")[0])
        fork = (await agent.editor.request("session/fork", opening(agent, session, turn=turn)))["sessionId"]
        agent.editor.updates.clear()
        await agent.editor.request("session/load", opening(agent, fork))
        assert agent.editor.said().endswith("The zebra.")


async def test_files_of_the_last_turn_that_a_fork_shares_are_counted_in_its_list():
    model = ScriptedProvider([*writing("one\n", "Likes plums."), says("Second.")])
    async with running_agent(model, settings=AUTO, permission=choose("allow_once")) as agent:
        session, _ = await forked(agent, "First", "Second")
        wanted = {**opening(agent, session), "turn": 1}
        fork = (await agent.editor.request("_pattern/session/fork", wanted))["sessionId"]
        points = (await agent.editor.request("_pattern/checkpoint/list", {"sessionId": fork}))["points"]
        assert [(point["key"], point["files"]) for point in points] == [("1", 1)]
