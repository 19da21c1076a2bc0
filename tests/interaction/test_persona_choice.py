"""Another persona for a session: chosen in the editor, or with /persona."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pattern_acp.context.instructions import BUILT_IN
from pattern_acp.definitions.personas import Persona
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.requests import refused
from tests.support.scripts import says

ADA, BEN = Persona("default", "You are Ada."), Persona("reviewer", "You are Ben.")


@asynccontextmanager
async def agent_with_personas() -> AsyncGenerator[tuple[RunningAgent, str]]:
    async with running_agent(ScriptedProvider([says(f"{n}.") for n in range(9)])) as agent:
        agent.shared.persona, agent.shared.personas = ADA, BUILT_IN
        agent.shared.persona_named = {"default": ADA, "reviewer": BEN}.__getitem__
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hello.")
        yield agent, session


async def choose(agent: RunningAgent, session: str, name: str) -> None:
    values: JsonDict = {"sessionId": session, "configId": "persona", "value": name}
    await agent.editor.request("session/set_config_option", values)


async def test_another_persona_answers_with_its_prompt_memory_and_permissions_and_the_history_stays():
    async with agent_with_personas() as (agent, session):
        await agent.editor.prompt(session, "/remember I like tea.")
        await choose(agent, session, "reviewer")
        await agent.editor.prompt(session, "And now?")
        before, after = agent.model.requests[0], agent.model.requests[-1]
        assert after.system == before.system.replace(ADA.prompt, BEN.prompt)
        assert after.messages[0].parts[-1] == before.messages[0].parts[-1]
        assert "no longer there" not in str(after)
        state = agent.sessions.get(session).state
        assert (state.persona, state.policy.owner.persona) == (BEN.ref, BEN.identity)
        scope = agent.sessions.get(session).checkpoints.scope
        assert scope.owner.persona == "reviewer"
        assert scope.memory is agent.sessions.get(session).memory


async def test_the_chosen_persona_stays_when_the_session_is_opened_again():
    async with agent_with_personas() as (agent, session):
        await choose(agent, session, "reviewer")
        await agent.editor.request("session/close", {"sessionId": session})
        where: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/resume", where)
        await agent.editor.prompt(session, "Who are you?")
        assert agent.model.requests[-1].system.startswith(BEN.prompt)
        assert "has changed" not in agent.editor.said()
        listed = await agent.editor.request("session/list", {})
        assert "reviewer" in str(listed)


async def test_the_command_lists_personas_and_changes_to_one():
    async with agent_with_personas() as (agent, session):
        await agent.editor.prompt(session, "/persona")
        assert "- `default`: Whatever you ask for. ← answers" in agent.editor.said()
        await agent.editor.prompt(session, "/persona nobody")
        assert "There is no persona 'nobody'; there are default, reviewer" in agent.editor.said()
        await agent.editor.prompt(session, "/persona reviewer")
        assert "From the next prompt on, reviewer answers" in agent.editor.said()
        await agent.editor.prompt(session, "Hello.")
        assert agent.model.requests[-1].system.startswith(BEN.prompt)


async def test_a_persona_that_does_not_exist_is_refused_with_those_that_do():
    async with agent_with_personas() as (agent, session):
        values: JsonDict = {"sessionId": session, "configId": "persona", "value": "nobody"}
        error = await refused(agent.editor, "session/set_config_option", values)
        assert "choose one of default, reviewer" in error.message
        assert agent.sessions.get(session).state.persona == ADA.ref
