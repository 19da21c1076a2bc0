"""The model's window during a session: room is made, recorded, shown, and nothing is lost."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import CompactionSettings, CompactionStrategy, HookSettings, Settings
from pattern_acp.domain.messages import Message
from pattern_acp.journal.events import ContextCompacted, ModelRequested, ToolCallFinished, UsageReported
from pattern_acp.providers.base import ProviderRequest, ProviderStop
from pattern_acp.providers.http_errors import ContextTooLongError, ProviderOverloadedError, ProviderRequestError
from pattern_acp.providers.scripted import Pause, ScriptedProvider
from pattern_acp.session.memory_context import reload_history
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.scripts import Turn, calls, says, stops
from tests.support.turns import events_of, of_type, unpaired_calls
from tests.support.window_model import WindowModel

WINDOW = 12_000
TALK = "We spoke of the colour of the sea and of many other things. " * 60


def talks(_request: ProviderRequest) -> Turn:
    return says(TALK)


@asynccontextmanager
async def agent_with(
    model: WindowModel,
    strategy: CompactionStrategy = "summarise",
    window: int | None = None,
    hooks: tuple[HookSettings, ...] = (),
    capabilities: JsonDict | None = None,
) -> AsyncGenerator[tuple[RunningAgent, str]]:
    settings = Settings(editor_deadline_seconds=5, mode="auto", compaction=CompactionSettings(strategy), hooks=hooks)
    async with running_agent(
        ScriptedProvider([]), settings=settings, others={"scripted": model}, capabilities=capabilities
    ) as agent:
        info = agent.models.infos["scripted"]
        agent.models.infos["scripted"] = replace(info, context_window=window or model.window, max_output_tokens=1_000)
        yield agent, await agent.editor.open_session(str(agent.folder))


def compactions(events: list[object]) -> list[ContextCompacted]:
    return of_type(events, ContextCompacted)


async def recorded(agent: RunningAgent, session: str) -> list[ContextCompacted]:
    return of_type(await events_of(agent, session), ContextCompacted)


def without_ids(messages: list[Message]) -> list[object]:
    return [(message.role, message.parts) for message in messages]


async def test_a_conversation_without_end_never_leaves_the_window():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model) as (agent, session):
        for number in range(15):
            assert await agent.editor.prompt(session, f"Question {number}? " + "Tell me more. " * 20) == {
                "stopReason": "end_turn"
            }
        done = await recorded(agent, session)
        assert model.refused == 0
        assert len(done) > 1
        assert {event.strategy for event in done} == {"summarise"}
        assert len(model.summaries) == len(done)
        assert max(model.sizes) <= WINDOW
        assert all("Question" in request.messages[-1].text for request in model.requests)
        # Hysteresis: several turns lie between two compactions.
        assert len(done) < 12
        assert all(event.tokens_after < event.tokens_before for event in done)
        live = agent.sessions.get(session).state.history
        was = without_ids(live)
        await reload_history(agent.sessions.get(session).dialogue)
        assert without_ids(agent.sessions.get(session).state.history) == was


async def test_a_compaction_is_shown_counted_and_stays_in_the_replay():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model) as (agent, session):
        await agent.editor.prompt(session, "Where do barnacles live?")
        for number in range(8):
            await agent.editor.prompt(session, f"Question {number}?")
        (kept,) = [message.text for message in model.requests[-1].messages if "barnacles" in message.text]
        assert (
            "The user's prompts in it, word for word, answered since:\n- Where do barnacles live?\n- Question 0?"
            in kept
        )
        shown = [w["update"] for w in agent.editor.updates if w["update"]["sessionUpdate"] == "tool_call"]
        mine = [call for call in shown if call.get("name") == "compact"]
        assert mine
        assert "Compact the conversation: about" in mine[0]["title"]
        await agent.editor.prompt(session, "/status")
        assert "history (compaction)" in agent.editor.said()
        events = await events_of(agent, session)
        summaries = [event for event in of_type(events, ModelRequested) if event.number == 0]
        assert len(summaries) == len(model.summaries)
        assert len(of_type(events, UsageReported)) == len(model.sizes)
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        replayed = str(agent.editor.updates)
        assert all(f"Question {number}?" in replayed for number in range(8))
        assert "## About the user" in replayed
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/recall barnacles")
        assert "Where do barnacles live?" in agent.editor.said()


async def test_a_client_with_compaction_updates_gets_those_live_and_replayed_and_no_tool_call():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model, capabilities={"session": {"compaction": {}}}) as (agent, session):
        for number in range(8):
            await agent.editor.prompt(session, f"Question {number}?")
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        live = [update["update"] for update in agent.editor.updates]
        agent.editor.updates.clear()
        await agent.editor.request("session/load", params)
        for shown in (live, [update["update"] for update in agent.editor.updates]):
            assert not [each for each in shown if each.get("name") == "compact"]
            mine = [each for each in shown if each["sessionUpdate"] == "compaction_update"]
            assert [each["status"] for each in mine] == ["in_progress", "completed"] * (len(mine) // 2)
            assert mine[0]["compactionId"] == mine[1]["compactionId"]
            assert "## About the user" in mine[1]["summary"][0]["text"]


async def test_a_cancelled_summary_leaves_the_conversation_and_what_it_used_is_counted():
    model = ScriptedProvider([*[says(TALK)] * 4, (Pause(None),), says("Going on.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        for number in range(4):
            await agent.editor.prompt(session, f"Question {number}?")
        answers: list[object] = []

        async def compact() -> None:
            answers.append(await agent.editor.prompt(session, "/compact"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(compact)
            await agent.editor.wait_until(lambda: '"compact"' in json.dumps(agent.editor.updates))
            while len(model.requests) < 5:
                await anyio.lowlevel.checkpoint()
            await agent.editor.cancel(session)
        assert answers == [{"stopReason": "cancelled"}]
        (used,) = of_type(await events_of(agent, session), UsageReported)
        assert used.estimated
        assert used.usage.input_tokens > 100
        assert await recorded(agent, session) == []
        await agent.editor.prompt(session, "Go on.")
        assert any("Question 0?" in message.text for message in model.requests[-1].messages)


async def test_no_summary_is_asked_for_that_the_window_has_no_room_to_write():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model, window=600) as (agent, session):
        for number in range(3):
            await agent.editor.prompt(session, f"Question {number}?")
        await agent.editor.prompt(session, "/compact")
        assert model.summaries == []
        assert all(event.strategy != "summarise" for event in await recorded(agent, session))


async def test_the_summary_is_asked_of_the_persona_and_marked_as_reference_only():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model) as (agent, session):
        for number in range(8):
            await agent.editor.prompt(session, f"Question {number}?")
        asked = model.summaries[0]
        assert asked.system == model.requests[0].system
        assert asked.tools == ()
        assert "Question 0?" in asked.messages[0].text
        note = next(m.text for m in model.requests[-1].messages if m.text.startswith("<conversation_summary"))
        assert "For reference only" in note
        headings = [line for line in note.splitlines() if line.startswith("## ")]
        assert headings == ["## Done", "## Decided", "## Open", "## About the user", "## Files in hand"]


@pytest.mark.parametrize(
    ("summary", "why"),
    [
        (says(""), "the answer was empty"),
        (says("- nothing"), "the answer was empty"),
        (says("No.") + stops(ProviderStop.REFUSAL), "the model refused"),
        (says("## Done\n- a") + stops(ProviderStop.MAX_TOKENS), "it was longer than it may be"),
        ((ProviderOverloadedError("The servers are busy."),), "The servers are busy"),
        ((ContextTooLongError("It is too long."),), "It is too long"),
        (says("## Done\n- " + "a very long word " * 3_000), "the summary was larger than what it would replace"),
    ],
)
async def test_a_summary_that_fails_falls_back_to_leaving_out_and_says_so(summary: Turn, why: str):
    model = WindowModel(WINDOW, talks, summary=summary)
    async with agent_with(model) as (agent, session):
        for number in range(8):
            await agent.editor.prompt(session, f"Question {number}?")
        done = await recorded(agent, session)
        assert [event.strategy for event in done[:1]] == ["truncate"]
        assert "<conversation_gap" in done[0].text
        assert f"shortened without a summary, since {why}" in agent.editor.said()
        assert model.refused == 0


@pytest.mark.parametrize("strategy", ["truncate", "importance", "time_decay"])
async def test_the_other_strategies_ask_no_model(strategy: CompactionStrategy):
    model = WindowModel(WINDOW, talks)
    async with agent_with(model, strategy) as (agent, session):
        for number in range(12):
            await agent.editor.prompt(session, f"Question {number}?")
        assert {event.strategy for event in await recorded(agent, session)} == {strategy}
        assert model.summaries == []
        assert model.refused == 0


async def test_compact_sums_up_all_but_the_last_exchange_with_the_wish_of_the_person():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model) as (agent, session):
        for number in range(3):
            await agent.editor.prompt(session, f"Question {number}?")
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/compact keep every number")
        assert "The conversation is compacted." in agent.editor.said()
        assert "keep every number" in model.summaries[0].messages[0].text
        await agent.editor.prompt(session, "And now?")
        heard = [message.text for message in model.requests[-1].messages]
        assert not any(text.startswith(("Question 0?", "Question 1?")) for text in heard)
        assert any("Question 2?" in text for text in heard)
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/clear")
        await agent.editor.prompt(session, "/compact")
        assert "There is nothing to compact" in agent.editor.said()


async def test_a_conversation_that_a_compaction_would_make_longer_is_left_as_it_is():
    model = WindowModel(WINDOW, lambda _request: says("Yes."))
    async with agent_with(model) as (agent, session):
        for number in range(3):
            await agent.editor.prompt(session, f"Number {number}?")
            await agent.editor.prompt(session, "/compact")
        said = await recorded(agent, session)
        assert [event for event in said if event.tokens_after >= event.tokens_before] == []
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/compact")
        assert "There is nothing to compact" in agent.editor.said()
        assert agent.editor.of_kind("tool_call") == []
        assert await recorded(agent, session) == said


async def test_after_compaction_memory_is_told_in_whole():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model) as (agent, session):
        await agent.editor.prompt(session, "/remember My cat is called Minka.")
        for number in range(3):
            await agent.editor.prompt(session, f"Question {number}?")
        await agent.editor.prompt(session, "/compact")
        await agent.editor.prompt(session, "And now?")
        memory = [m for m in model.requests[-1].messages if m.message_id.endswith("_memory")]
        assert len(memory) == 1
        assert "Minka" in memory[0].text


async def test_pinned_messages_stay_whatever_is_compacted():
    model = WindowModel(WINDOW, talks)
    async with agent_with(model) as (agent, session):
        await agent.editor.prompt(session, "The code word is plum.")
        await agent.editor.prompt(session, "/pin")
        assert "Pinned: “The code word is plum.”" in agent.editor.said()
        for number in range(12):
            await agent.editor.prompt(session, f"Question {number}?")
        assert len(await recorded(agent, session)) > 0
        assert any("plum" in message.text for message in model.requests[-1].messages)
        agent.editor.updates.clear()
        await agent.editor.prompt(session, "/pin list")
        assert "The code word is plum." in agent.editor.said()
        await agent.editor.prompt(session, "/pin off")
        assert "2 messages can be compacted again." in agent.editor.said()
        await agent.editor.prompt(session, "/compact")
        await agent.editor.prompt(session, "And now?")
        assert not any(message.text.startswith("The code word") for message in model.requests[-1].messages)


async def test_open_steps_of_the_plan_stand_in_the_summary():
    entries = [{"content": "Sow", "status": "completed"}, {"content": "Reap the barley", "status": "pending"}]
    turns = iter([calls("update_plan", entries=entries), says("Planned.")])
    model = WindowModel(WINDOW, lambda _request: next(turns, says(TALK)))
    async with agent_with(model) as (agent, session):
        for number in range(3):
            await agent.editor.prompt(session, f"Question {number}?")
        await agent.editor.prompt(session, "/compact")
        (done,) = await recorded(agent, session)
        assert "Reap the barley (pending)" in done.text
        assert "Sow" not in done.text.partition("Steps of your plan")[2]


async def test_long_results_are_shortened_first_and_can_be_read_back():
    turns = iter([calls("read_file", path="long.txt"), *(calls("read_file", path="short.txt") for _ in range(3))])
    asked: list[str] = []

    def answer(request: ProviderRequest) -> Turn:
        for message in request.messages:
            for part in message.parts:
                text = getattr(part, "text", "")
                if "read_attachment with id call_" in text and not asked:
                    asked.append(text.partition("read_attachment with id ")[2].split()[0])
                    return calls("read_attachment", id=asked[0], start=1_000)
        return next(turns, says("Read."))

    model = WindowModel(15_200, answer)
    async with agent_with(model) as (agent, session):
        (agent.folder / "long.txt").write_text("".join(f"line {number:05d}\n" for number in range(900)))
        (agent.folder / "short.txt").write_text("A few words.\n" * 230)
        await agent.editor.prompt(session, "Read them.")
        await agent.editor.prompt(session, "And?")
        (done, *_) = await recorded(agent, session)
        assert done.strategy == "results"
        assert len(done.shortened) == 1
        finished = of_type(await events_of(agent, session), ToolCallFinished)
        whole = next(event.result_text for event in finished if event.call_id == asked[0])
        again = [event.result_text for event in finished if event.result_text.startswith(whole[1_000:1_200])]
        assert again
        assert all(not unpaired_calls(request) for request in model.requests)


async def test_a_long_turn_is_compacted_between_its_steps_and_keeps_its_prompt():
    turns = iter([*(calls("read_file", path="a.txt") + says(TALK) for _ in range(20)), says("Done.")])
    model = WindowModel(WINDOW, lambda _request: next(turns))
    async with agent_with(model) as (agent, session):
        (agent.folder / "a.txt").write_text("A few words.\n" * 150)
        assert (await agent.editor.prompt(session, "Count all the ships."))["stopReason"] == "end_turn"
        assert len(await recorded(agent, session)) > 1
        assert model.refused == 0
        for request in model.requests:
            assert any("Count all the ships." in message.text for message in request.messages)
            assert not unpaired_calls(request)
        events = await events_of(agent, session)
        live = without_ids(agent.sessions.get(session).state.history)
        await reload_history(agent.sessions.get(session).dialogue)
        assert without_ids(agent.sessions.get(session).state.history) == live
        assert events


async def test_a_request_that_the_provider_calls_too_long_is_compacted_and_sent_again_once():
    model = WindowModel(6_500, talks)
    # We believe that there is far more room than there is.
    async with agent_with(model, window=100_000) as (agent, session):
        for number in range(8):
            assert (await agent.editor.prompt(session, f"Question {number}?"))["stopReason"] == "end_turn"
        done = await recorded(agent, session)
        assert done[0].trigger == "provider"
        assert model.refused >= 1
        assert "too long" not in agent.editor.said()


async def test_a_refusal_in_words_that_nobody_knows_is_one_of_length_where_the_window_is_nearly_full():
    model = WindowModel(10_000, talks, refusal=ProviderRequestError)
    async with agent_with(model, window=14_500) as (agent, session):
        for number in range(12):
            assert (await agent.editor.prompt(session, f"Question {number}?"))["stopReason"] == "end_turn"
        assert (await recorded(agent, session))[0].trigger == "provider"
        assert model.refused >= 1
        assert "refused" not in agent.editor.said()


async def test_a_refusal_in_words_that_nobody_knows_is_told_where_the_window_is_not_full():
    model = WindowModel(6_500, talks, refusal=ProviderRequestError)
    async with agent_with(model, window=100_000) as (agent, session):
        for number in range(8):
            await agent.editor.prompt(session, f"Question {number}?")
        assert await recorded(agent, session) == []
        assert "It is not to our taste" in agent.editor.said()


async def test_the_provider_counts_when_the_estimate_is_near_a_limit():
    model = WindowModel(WINDOW, talks, counts=True)
    async with agent_with(model) as (agent, session):
        for number in range(8):
            await agent.editor.prompt(session, f"Question {number}?")
        assert 0 < model.counted < 8


async def test_a_failing_count_fails_no_turn_and_is_not_asked_for_again():
    model = WindowModel(WINDOW, talks, counts=False)
    async with agent_with(model) as (agent, session):
        for number in range(12):
            assert (await agent.editor.prompt(session, f"Question {number}?"))["stopReason"] == "end_turn"
        assert model.counted == 1


async def test_a_window_of_four_thousand_tokens_works_with_fewer_tools():
    model = WindowModel(4_096, lambda _request: says("Yes, so it is. " * 20))
    async with agent_with(model) as (agent, session):
        for number in range(12):
            assert (await agent.editor.prompt(session, f"Question {number}?"))["stopReason"] == "end_turn"
        assert model.refused == 0
        assert "has no space for every tool" in agent.editor.said()
        assert agent.editor.said().count("has no space for every tool") == 1
        assert "read_file" in {tool.name for tool in model.requests[-1].tools}


async def test_a_window_of_two_thousand_tokens_reads_edits_and_runs():
    model = WindowModel(2_048, lambda _request: says("Yes, so it is. " * 20))
    async with agent_with(model, window=2_048) as (agent, session):
        for number in range(12):
            assert (await agent.editor.prompt(session, f"Question {number}?"))["stopReason"] == "end_turn"
        assert model.refused == 0
        assert {tool.name for tool in model.requests[-1].tools} >= {"read_file", "edit_file", "run_command"}


async def test_a_small_window_that_the_provider_tells_is_known_before_the_first_request():
    model = WindowModel(4_096, talks)
    async with agent_with(model) as (agent, session):
        known = agent.models.infos["scripted"]
        agent.models.infos["scripted"] = replace(known, context_window=128_000)
        agent.models.unlearned["scripted"] = known
        await agent.editor.prompt(session, "Hello?")
        assert model.refused == 0
        assert "delegate" not in {tool.name for tool in model.requests[0].tools}


async def test_a_window_smaller_than_the_system_prompt_is_one_clear_sentence():
    model = WindowModel(600, talks)
    async with agent_with(model) as (agent, session):
        assert (await agent.editor.prompt(session, "Hello?"))["stopReason"] == "end_turn"
        assert "choose a model with a larger window" in agent.editor.said()
        assert model.sizes == []


async def test_what_counts_taught_is_still_known_after_a_restart():
    model = WindowModel(WINDOW, talks, bytes_per_token=2.0)
    async with agent_with(model) as (agent, session):
        await agent.editor.prompt(session, "Hello?")
        known = agent.sessions.get(session).state.window.calibration.known()
        assert known["test"] > 1.3
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)
        after = agent.sessions.get(session).state.window.calibration.known()
        assert after == cast("object", known)


async def test_a_hook_adds_to_what_the_summary_heeds():
    line = """echo '{"hookSpecificOutput": {"additionalContext": "Keep all ports."}}'"""
    model = WindowModel(WINDOW, talks)
    async with agent_with(model, hooks=(HookSettings("PreCompact", line, "manual"),)) as (agent, session):
        for number in range(3):
            await agent.editor.prompt(session, f"Question {number}?")
        await agent.editor.prompt(session, "/compact keep numbers")
        assert "keep numbers Keep all ports." in model.summaries[0].messages[0].text


async def test_a_hook_may_refuse_a_compaction_while_there_is_room():
    model = WindowModel(WINDOW, talks)
    refusing = HookSettings("PreCompact", "echo not now >&2; exit 2", "auto")
    async with agent_with(model, hooks=(refusing,)) as (agent, session):
        for number in range(9):
            await agent.editor.prompt(session, f"Question {number}?")
        assert "did not want the conversation compacted: not now" in agent.editor.said()
        # At the end of the window it has no say.
        assert len(await recorded(agent, session)) > 0
        assert model.refused == 0
