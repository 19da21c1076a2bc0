"""Prompts that overlap in version 1 of ACP, where the user lets them steer the turn or wait for its end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel

from pattern_acp.config.settings import Overlapping, Settings, TurnSettings
from pattern_acp.journal.events import TurnEnded, TurnStarted
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session import Session
from pattern_acp.turn.tool_runner import SUPERSEDED, SUPERSEDED_ADVICE
from tests.replay.test_replay_turns import replayed
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.heard import conversation
from tests.support.scripts import Turn, calls, gate, says
from tests.support.turns import PromptInFlight, events_of, of_type, prompting, results_of, statuses

BOTH = calls("read_file", path="a.txt") + calls("write_file", path="b.txt", content="b\n")


def overlapping(way: Overlapping) -> Settings:
    return Settings(editor_deadline_seconds=30, turn=TurnSettings(overlapping=way))


@asynccontextmanager
async def while_it_reads(script: list[Turn], way: Overlapping) -> AsyncGenerator[tuple[RunningAgent, str, Session]]:
    """An agent whose editor asks about nothing; its session begins with a file to read."""
    async with running_agent(ScriptedProvider(script), settings=overlapping(way)) as agent:
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        yield agent, session, agent.sessions.get(session)


async def until_waiting(session: Session, count: int) -> None:
    while len([ticket for ticket in session.waiting if ticket.is_ready]) < count:
        await anyio.lowlevel.checkpoint()


async def test_a_steering_prompt_is_read_with_the_next_request_and_each_prompt_has_its_answer():
    waits = gate()
    async with while_it_reads([(waits, *BOTH), says("Read only.")], "steer") as (agent, session, here):
        async with prompting(agent.editor, session, "Read and write.") as first:
            await waits.reached.wait()
            async with prompting(agent.editor, session, "Do not write.") as second:
                await until_waiting(here, 1)
                assert not first.answered.is_set()
                waits.opened.set()
                assert await first.stop_reason() == "end_turn"
                assert await second.stop_reason() == "end_turn"
        assert not (agent.folder / "b.txt").exists()
        assert [seen[-1] for seen in statuses(agent.editor).values()] == ["completed", "failed"]
        said = [message.text for message in conversation(agent.model.requests[1])]
        assert said[0] == "Read and write."
        assert said[-1] == "Do not write."
        assert [result.text for result in results_of(agent.model.requests[1])][
            -1
        ] == f"{SUPERSEDED} {SUPERSEDED_ADVICE}"
        events = await events_of(agent, session)
        assert [event.message.text for event in of_type(events, TurnStarted)] == ["Read and write.", "Do not write."]
        assert [event.handed_over for event in of_type(events, TurnEnded)] == [True, False]


async def test_a_turn_that_was_steered_replays_rewinds_and_loads_as_it_was_shown():
    waits = gate()
    async with while_it_reads([(waits, *BOTH), says("Read only."), says("Again.")], "steer") as (agent, session, here):
        async with prompting(agent.editor, session, "Read and write."):
            await waits.reached.wait()
            async with prompting(agent.editor, session, "Do not write."):
                await until_waiting(here, 1)
                waits.opened.set()
        report = await replayed(agent, session)
        assert report.turns == 2
        assert report.difference is None
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        prompts = [one["content"]["text"] for one in agent.editor.of_kind("user_message_chunk")]
        assert prompts == ["Read and write.", "Do not write."]
        points = await agent.editor.request("_pattern/checkpoint/list", {"sessionId": session})
        keys = {point["text"]: point["key"] for point in points["points"]}
        await agent.editor.request("_pattern/session/rewind", {"sessionId": session, "to": keys["Do not write."]})
        await agent.editor.prompt(session, "Something else.")
        said = [message.text for message in conversation(agent.model.requests[2])]
        assert "Do not write." not in said
        assert "Read and write." in said


async def test_queued_prompts_run_behind_the_turn_and_each_is_answered_with_its_own_end():
    waits = gate()
    script = [(waits, *calls("read_file", path="a.txt")), says("One."), says("Two."), says("Three.")]
    async with while_it_reads(script, "queue") as (agent, session, here):
        flights: list[PromptInFlight] = []
        async with prompting(agent.editor, session, "1") as first:
            await waits.reached.wait()
            async with prompting(agent.editor, session, "2") as second:
                await until_waiting(here, 1)
                async with prompting(agent.editor, session, "3") as third:
                    await until_waiting(here, 2)
                    flights += [first, second, third]
                    waits.opened.set()
        assert [flight.answer["stopReason"] for flight in flights] == ["end_turn"] * 3
        assert agent.editor.said() == "One.Two.Three."
        assert [event.handed_over for event in of_type(await events_of(agent, session), TurnEnded)] == [False] * 3


async def test_a_cancel_ends_the_turn_and_names_what_it_drops_and_that_leaves_no_trace():
    waits = gate()
    async with while_it_reads([(waits, *says("never")), says("Again.")], "queue") as (agent, session, here):
        async with prompting(agent.editor, session, "1") as first:
            await waits.reached.wait()
            async with prompting(agent.editor, session, "2") as second:
                await until_waiting(here, 1)
                await agent.editor.cancel(session)
                assert await first.stop_reason() == "cancelled"
                assert await second.stop_reason() == "cancelled"
        assert agent.editor.said() == "Not sent, as you cancelled: “2”."
        await agent.editor.prompt(session, "3")
        assert [message.text for message in conversation(agent.model.requests[-1])] == ["1", "3"]
        assert [event.message.text for event in of_type(await events_of(agent, session), TurnStarted)] == ["1", "3"]


async def test_queue_shows_edits_and_drops_what_waits_while_the_turn_runs():
    waits = gate()
    script = [(waits, *says("One.")), says("Two.")]
    async with while_it_reads(script, "queue") as (agent, session, here):
        async with prompting(agent.editor, session, "1") as first:
            await waits.reached.wait()
            async with (
                prompting(agent.editor, session, "two|") as second,
                prompting(agent.editor, session, "3") as third,
            ):
                await until_waiting(here, 2)
                assert await agent.editor.prompt(session, "/queue") == {"stopReason": "end_turn"}
                assert "| 1 | two\\| | queue |\n| 2 | 3 | queue |" in agent.editor.said()
                await agent.editor.prompt(session, "/queue edit 1 Two, in other words")
                await agent.editor.prompt(session, "/queue drop 2")
                assert await third.stop_reason() == "cancelled"
                await agent.editor.prompt(session, "/queue drop 7")
                assert "Name a prompt by its number; 1 prompt waits." in agent.editor.said()
                await agent.editor.prompt(session, "/queue steer")
                assert here.state.overlap == "steer"
                waits.opened.set()
                assert await first.stop_reason() == "end_turn"
                assert await second.stop_reason() == "end_turn"
        events = await events_of(agent, session)
        assert [event.message.text for event in of_type(events, TurnStarted)] == ["1", "Two, in other words"]
        assert await agent.editor.prompt(session, "/queue") == {"stopReason": "end_turn"}
        assert "No prompt waits." in agent.editor.said()


async def test_the_choice_is_an_option_where_the_settings_name_it_and_is_kept_with_the_session():
    async with running_agent(ScriptedProvider([]), settings=overlapping("queue")) as agent:
        answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": []})
        session = answer["sessionId"]
        (option,) = [one for one in answer["configOptions"] if one["id"] == "overlapping"]
        assert option["currentValue"] == "queue"
        assert [one["value"] for one in option["options"]] == ["steer", "queue", "replace"]
        params = {"sessionId": session, "configId": "overlapping", "value": "steer"}
        changed = await agent.editor.request("session/set_config_option", params)
        assert [one["currentValue"] for one in changed["configOptions"] if one["id"] == "overlapping"] == ["steer"]
        await agent.editor.request("session/close", {"sessionId": session})
        again: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        loaded = await agent.editor.request("session/load", again)
        assert [one["currentValue"] for one in loaded["configOptions"] if one["id"] == "overlapping"] == ["steer"]


async def test_without_the_setting_nothing_of_version_1_changes():
    async with running_agent(ScriptedProvider([])) as agent:
        answer = await agent.editor.request("session/new", {"cwd": str(agent.folder), "mcpServers": []})
        assert "overlapping" not in {one["id"] for one in answer["configOptions"]}
        assert agent.sessions.get(answer["sessionId"]).state.overlap == "replace"
