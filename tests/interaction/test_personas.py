"""Sessions of several personas in one constellation."""

from pattern_acp.definitions.personas import Persona
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.editor import JsonDict
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
