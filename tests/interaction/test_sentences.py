"""Sentences of our own beside the model's text. Clients join messages that follow each other."""

from pattern_acp.providers.base import ProviderStop
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import running_agent
from tests.support.scripts import says, stops

LIMIT = "The conversation filled the model's context window."


async def test_a_sentence_after_text_begins_a_paragraph_of_its_own():
    model = ScriptedProvider([says("```\nHalf a") + stops(ProviderStop.MAX_TOKENS, LIMIT)])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "go")

        assert agent.editor.said() == f"```\nHalf a\n\n{LIMIT}"


async def test_a_sentence_alone_begins_at_once():
    model = ScriptedProvider([says("A first answer."), stops(ProviderStop.MAX_TOKENS, LIMIT)])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "go")
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "go on")

        assert agent.editor.said() == LIMIT
