"""A model without native tool calls: its actions are shown, decided and recorded like any call."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from pattern_acp.journal.events import MessageRecorded
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.providers.text_tools import TextToolsProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict, choose
from tests.support.scripts import Turn, says
from tests.support.turns import events_of, of_type


async def nothing(_model: str) -> None:
    return


@asynccontextmanager
async def agent_with(*turns: Turn) -> AsyncGenerator[tuple[RunningAgent, ScriptedProvider, str], None]:
    """An agent whose model writes actions as text, that model, and a session with it."""
    local = ScriptedProvider(turns, name="local")
    others = {"local": TextToolsProvider(local, lambda _: False, nothing)}
    async with running_agent(ScriptedProvider([]), others=others, permission=choose("reject_once")) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/model local/test")
        yield agent, local, session


async def test_an_action_is_a_tool_call_that_the_person_is_asked_for():
    async with agent_with(says("I list.\n/run", "_command rm -r ", "x"), says("Then not.")) as (agent, local, session):
        said = agent.editor.said()
        assert await agent.editor.prompt(session, "Clean up.") == {"stopReason": "end_turn"}
        assert agent.editor.said().removeprefix(said) == "I list.\nThen not."
        (call,) = agent.editor.of_kind("tool_call")
        assert call["rawInput"] == {"command": "rm -r x"}
        told = local.requests[-1].messages[-1].text
        assert told.startswith("[results of actions")
        assert "/run_command, id action_2_0, failed" in told
        assert local.requests[-1].messages[-2].text == 'I list.\n/run_command command="rm -r x"'


async def test_what_cannot_be_read_is_answered_in_words_recorded_and_repaired():
    wrong = '/list_directory path="."x'
    async with agent_with(says(wrong), says("/list_directory ."), says("Done.")) as (agent, local, session):
        await agent.editor.prompt(session, "What is there?")
        first, second = agent.editor.of_kind("tool_call")
        failed = [
            update["toolCallId"]
            for update in agent.editor.of_kind("tool_call_update")
            if update.get("status") == "failed"
        ]
        assert failed == [first["toolCallId"]]
        assert second["rawInput"] == {"path": "."}
        told = local.requests[1].messages
        assert told[-2].text == wrong
        assert "A blank must follow the value of path. Nothing of it ran. The form is: /list_directory" in told[-1].text
        recorded = of_type(await events_of(agent, session), MessageRecorded)
        unread = [call for event in recorded for call in event.message.tool_calls if call.problem]
        assert [call.arguments for call in unread] == [wrong]


async def test_repairs_come_to_an_end():
    wrong = [says(f'/read_file path="{number}"x') for number in range(9)]
    async with agent_with(*wrong) as (agent, local, session):
        await agent.editor.prompt(session, "Go.")
        assert len(local.requests) == 4
        assert "cannot be read 4 times in a row" in agent.editor.said()


async def test_the_persons_own_lines_run_nothing():
    async with agent_with(says("I see.")) as (agent, local, session):
        await agent.editor.prompt(session, "Look:\n/run_command rm -r x")
        assert agent.editor.of_kind("tool_call") == []
        assert len(local.requests) == 1


async def test_the_form_that_the_person_chooses_is_kept_over_a_load():
    model = ScriptedProvider([says("/list_directory ."), says("Done.")])
    others = {"local": TextToolsProvider(model, lambda _: True, nothing)}
    async with running_agent(ScriptedProvider([]), others=others) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "/model local/test")
        await agent.editor.prompt(session, "/tools")
        assert "`local/test` calls its tools natively: nothing says that it cannot." in agent.editor.said()
        assert "`read_file`" in agent.editor.said()
        await agent.editor.prompt(session, "/tools text")
        assert "writes its tool calls as text: you chose it for this session." in agent.editor.said()
        await agent.editor.prompt(session, "/tools both")
        assert "/tools takes native, text or auto" in agent.editor.said()
        await agent.editor.request("session/close", {"sessionId": session})
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        await agent.editor.prompt(session, "What is there?")
        assert [request.tools for request in model.requests] == [(), ()]
        assert agent.editor.of_kind("tool_call")[-1]["rawInput"] == {"path": "."}
