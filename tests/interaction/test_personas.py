"""Sessions of several personas in one constellation."""

from pathlib import Path

from pattern_acp.definitions.personas import Persona
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import calls, says

REVIEWER = Persona("reviewer", "You are reviewer, and you review.")


async def test_a_session_goes_on_as_the_persona_that_began_it():
    model = ScriptedProvider(
        [
            calls("memory_write", label="human", operation="append", text="Likes short reviews.", reason="Said so."),
            says("Noted."),
            says("Hello."),
            says("Back."),
        ]
    )
    async with running_agent(model) as agent:
        ours, agent.shared.persona = agent.shared.persona, REVIEWER
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "I like short reviews.")
        await agent.editor.request("session/close", {"sessionId": session})

        agent.shared.persona = ours
        own = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(own, "Hello.")
        assert "short reviews" not in model.requests[-1].volatile

        where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", where)
        await agent.editor.prompt(session, "And now?")

        assert model.requests[-1].system.startswith(REVIEWER.prompt)
        everything = str(model.requests[-1])
        assert "Likes short reviews." in everything
        assert "no longer there" not in everything
        await agent.editor.prompt(session, "/status")
        assert "| Persona | reviewer |" in agent.editor.said()
        listed = (await agent.editor.request("session/list", {}))["sessions"]
        personas = {each["sessionId"]: each["_meta"]["pattern"]["persona"] for each in listed}
        assert personas == {session: "reviewer", own: "default"}


async def test_what_is_remembered_in_a_session_of_another_persona_is_that_personas():
    model = ScriptedProvider([says("Hello."), says("Hi."), says("Mine.")])
    async with running_agent(model) as agent:
        ours, agent.shared.persona = agent.shared.persona, REVIEWER
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        await agent.editor.request("session/close", {"sessionId": session})
        agent.shared.persona = ours
        where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/resume", where)
        await agent.editor.prompt(session, "/remember human: I review on Mondays.")

        own = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(own, "Hello.")
        assert "Mondays" not in str(model.requests[-1])
        await agent.editor.prompt(session, "Hello again.")
        assert "Mondays" in str(model.requests[-1])


async def test_two_editors_with_two_personas_share_a_constellation_and_each_session_stays_its_own(tmp_path: Path):
    """K2: whichever process opens a session, it answers as the persona that began it, byte for byte."""
    database = tmp_path / "constellation.db"
    ours, theirs = ScriptedProvider([says("A1."), says("A2.")]), ScriptedProvider([says("B1."), says("B2.")])
    async with running_agent(ours, database=database) as first, running_agent(theirs, database=database) as second:
        second.shared.persona = REVIEWER
        a = await first.editor.open_session(str(first.folder))
        b = await second.editor.open_session(str(second.folder))
        await first.editor.prompt(a, "Hello.")
        await second.editor.prompt(b, "Hello.")
        for agent, session in ((first, a), (second, b)):
            await agent.editor.request("session/close", {"sessionId": session})
        # Each editor opens the session of the other.
        for agent, session, folder in ((second, a, first.folder), (first, b, second.folder)):
            where: JsonDict = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
            await agent.editor.request("session/resume", where)
            await agent.editor.prompt(session, "Again.")
        assert theirs.requests[-1].system == ours.requests[0].system
        assert ours.requests[-1].system == theirs.requests[0].system
        assert [tool.name for tool in theirs.requests[-1].tools] == [tool.name for tool in ours.requests[0].tools]
        assert first.sessions.get(b).state.persona.name == "reviewer"
        assert second.sessions.get(a).state.policy.owner.persona == first.shared.persona.identity
        assert "has changed" not in first.editor.said() + second.editor.said()


async def test_a_session_that_is_opened_again_sends_the_same_bytes_and_replays_the_same(tmp_path: Path):
    database = tmp_path / "constellation.db"
    model = ScriptedProvider([says("One."), says("Two.")])
    async with running_agent(model, database=database) as agent:
        agent.editor.permission = choose("reject_once")
        agent.shared.persona = REVIEWER
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        shown: list[list[JsonDict]] = []
        # The second time, today's persona is another; what was recorded is sent and shown.
        for persona in (REVIEWER, Persona("reviewer", "You are somebody else.")):
            agent.shared.persona = persona
            await agent.editor.request("session/close", {"sessionId": session})
            agent.editor.updates.clear()
            await agent.editor.request("session/load", where)
            # The title and the list of commands come at times of their own.
            shown.append([*agent.editor.of_kind("user_message_chunk"), *agent.editor.of_kind("agent_message_chunk")])
        assert shown[0] == shown[1] != []
        await agent.editor.prompt(session, "Again.")
        before, after = model.requests
        assert (after.system, after.tools) == (before.system, before.tools)
        assert after.messages[: len(before.messages)] == before.messages
