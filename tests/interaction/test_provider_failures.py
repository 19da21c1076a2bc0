"""What the person sees when the model fails, and that the session goes on."""

import pytest

from pattern_acp.config.settings import Settings, TurnSettings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.journal.events import ErrorReported, MessageRecorded, TurnEnded
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.providers import http_errors
from pattern_acp.providers.base import ProviderStop
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.faulty_provider import RaisingProvider
from tests.support.heard import conversation
from tests.support.scripts import calls, gate, says, stops, thinks
from tests.support.turns import events_of, of_type, prompting, unpaired_calls

NO_RETRIES = Settings(editor_deadline_seconds=30, turn=TurnSettings(stream_retries=0))

FAILURES: list[ProviderError] = [
    http_errors.ProviderConnectionError("The provider could not be reached; check the network."),
    http_errors.ProviderStalledError("Nothing came for 90 s; try again."),
    http_errors.ProviderOverloadedError("The provider is overloaded; try again later.", 1_000),
    http_errors.ProviderRequestError("The provider does not know the model; choose another."),
    http_errors.ContextTooLongError("The conversation is too long for the model; start a new session."),
    http_errors.ProviderProtocolError("The answer was HTML; check base_url."),
    http_errors.EmptyAnswerError("The model gave an empty answer; prompt again."),
    http_errors.ContentFilteredError("The provider's filter refused the prompt; put it differently."),
]


async def session_goes_on(agent: RunningAgent, session: str) -> None:
    before = agent.editor.said()
    assert (await agent.editor.prompt(session, "And now?"))["stopReason"] == "end_turn"
    assert agent.editor.said().removeprefix(before) == "Here again."
    assert unpaired_calls(agent.model.requests[-1]) == []


@pytest.mark.parametrize("failure", FAILURES, ids=[type(failure).__name__ for failure in FAILURES])
async def test_a_failure_is_a_visible_message_and_an_ordinary_end(failure: ProviderError):
    model = ScriptedProvider([(failure,), says("Here again.")])
    async with running_agent(model, settings=NO_RETRIES) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        answer = await agent.editor.prompt(session, "Go.")
        assert answer == {"stopReason": "end_turn", "_meta": {"pattern": {"failure": failure.failure_code}}}
        assert agent.editor.said() == failure.sentence
        (reported,) = of_type(await events_of(agent, session), ErrorReported)
        assert (reported.kind, reported.sentence) == (type(failure).__name__, failure.sentence)
        await session_goes_on(agent, session)
        # The sentence is ours; the model never said it.
        assert [message.text for message in conversation(model.requests[1])] == ["Go.", "And now?"]


async def test_a_failure_after_a_tool_call_keeps_the_call_and_its_result():
    failure = http_errors.ProviderOverloadedError("The provider is overloaded; try again later.")
    model = ScriptedProvider([says("Let me see.") + calls("list_directory", path="."), (failure,), says("Here again.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        await session_goes_on(agent, session)
        assert [message.role.value for message in conversation(model.requests[2])] == [
            "user",
            "assistant",
            "tool",
            "user",
        ]


async def test_a_failure_in_the_middle_of_the_stream_keeps_what_came():
    failure = http_errors.ProviderProtocolError("The stream broke in the middle of an event.")
    model = ScriptedProvider([(*says("Half an "), failure), says("Here again.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert agent.editor.said() == f"Half an \n\n{failure.sentence}"
        recorded = of_type(await events_of(agent, session), MessageRecorded)
        assert (recorded[0].message.text, recorded[0].complete) == ("Half an ", False)
        await session_goes_on(agent, session)


async def test_refused_credentials_are_a_message_and_then_an_error_that_names_the_variable():
    failure = http_errors.ProviderAuthError("The key in ANTHROPIC_API_KEY was refused; set another one.")
    model = ScriptedProvider([(*says("I "), failure), says("Here again.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        with pytest.raises(RemoteError) as caught:
            await agent.editor.prompt(session, "Go.")
        assert caught.value.code == -32000
        assert "ANTHROPIC_API_KEY" in caught.value.message
        (ended,) = of_type(await events_of(agent, session), TurnEnded)
        assert ended.sentence == failure.sentence
        # Toad and marimo show a page of their own for the error, so the chat has the sentence too.
        assert agent.editor.said() == f"I \n\n{failure.sentence}"
        agent.editor.updates.clear()
        await agent.editor.request("session/close", {"sessionId": session})
        await agent.editor.request("session/load", {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []})
        assert agent.editor.said().count(failure.sentence) == 1
        await session_goes_on(agent, session)


async def test_a_stream_that_is_cut_ends_the_turn_with_what_came_and_says_so():
    model = ScriptedProvider([says("Half an ans") + stops(ProviderStop.INTERRUPTED), says("Here again.")])
    async with running_agent(model, settings=NO_RETRIES) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert agent.editor.said().startswith("Half an ans")
        assert "incomplete" in agent.editor.said()
        recorded = of_type(await events_of(agent, session), MessageRecorded)
        assert [item.complete for item in recorded] == [False, True]
        assert [item.for_model for item in recorded] == [True, False]
        await session_goes_on(agent, session)


CUTS = [ProviderStop.INTERRUPTED, ProviderStop.REFUSAL, ProviderStop.CONTENT_FILTER]


@pytest.mark.parametrize("stop", CUTS, ids=[stop.value for stop in CUTS])
async def test_calls_of_an_answer_that_did_not_end_by_itself_do_not_run(stop: ProviderStop):
    cut = says("I write.") + calls("write_file", path="new.txt", content="x") + stops(stop)
    async with running_agent(ScriptedProvider([cut, says("Here again.")]), settings=NO_RETRIES) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Go.")
        assert agent.editor.of_kind("tool_call") == []
        assert agent.editor.asked == []
        await session_goes_on(agent, session)


@pytest.mark.parametrize(
    "turn", [(), says(""), says(" \n"), thinks("Hm.")], ids=["nothing", "empty", "blank", "thought"]
)
async def test_an_empty_answer_is_told(turn: tuple[()]):
    async with running_agent(ScriptedProvider([turn, says("Here again.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert "without an answer" in agent.editor.said()
        await session_goes_on_after_blank(agent, session)


async def session_goes_on_after_blank(agent: RunningAgent, session: str) -> None:
    before = len(agent.editor.said())
    assert (await agent.editor.prompt(session, "And now?"))["stopReason"] == "end_turn"
    assert agent.editor.said()[before:] == "Here again."
    assert all(message.parts for message in agent.model.requests[-1].messages)


ENDS = [
    (ProviderStop.MAX_TOKENS, "max_tokens", "cut 3 answers of the model"),
    (ProviderStop.REFUSAL, "refusal", "refused"),
    (ProviderStop.CONTENT_FILTER, "refusal", "filter"),
]


@pytest.mark.parametrize(("stop", "reason", "said"), ENDS, ids=[stop.value for stop, _, _ in ENDS])
async def test_the_model_s_own_ends_have_their_stop_reason_and_a_sentence(stop: ProviderStop, reason: str, said: str):
    ended, times = says("Well, ") + stops(stop), 3 if stop is ProviderStop.MAX_TOKENS else 1
    async with running_agent(ScriptedProvider([ended] * times + [says("Here again.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == reason
        assert agent.editor.said().startswith("Well, ")
        assert said in agent.editor.said()
        await session_goes_on(agent, session)


async def test_an_answer_that_is_all_cut_off_calls_leaves_nothing_behind():
    cut = calls("write_file", path="new.txt", content="x") + stops(ProviderStop.CONTENT_FILTER)
    async with running_agent(ScriptedProvider([cut, says("Here again.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "refusal"
        await session_goes_on_after_blank(agent, session)


async def test_a_fault_of_ours_is_a_visible_message_and_the_session_goes_on():
    model = ScriptedProvider([says("Here again.")])
    async with running_agent(model, others={"faulty": RaisingProvider()}) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        choice: JsonDict = {"sessionId": session, "configId": "model", "value": "faulty/test"}
        await agent.editor.request("session/set_config_option", choice)
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert "fault in pattern-acp" in agent.editor.said()
        await agent.editor.request("session/set_config_option", {**choice, "value": "scripted/test"})
        await session_goes_on(agent, session)


async def test_a_failure_while_another_prompt_waits_lets_it_run():
    waits = gate()
    failure = http_errors.ProviderConnectionError("The provider could not be reached; check the network.")
    async with running_agent(ScriptedProvider([(waits, failure), says("Here again.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            assert (await agent.editor.prompt(session, "And now?"))["stopReason"] == "end_turn"
            assert await flight.stop_reason() == "cancelled"
        assert agent.editor.said() == "Here again."
