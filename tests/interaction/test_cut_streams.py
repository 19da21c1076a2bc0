"""A turn whose answer breaks off, on every wire, over a real connection: what is kept, and that no call runs."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from pattern_acp.config.settings import Settings, TurnSettings, Wire
from pattern_acp.journal.events import ErrorReported, MessageRecorded
from pattern_acp.providers.scripted import ScriptedProvider, ScriptStep, ScriptUsage
from pattern_acp.testing.agent import RunningAgent, running_agent
from pattern_acp.testing.editor import JsonDict
from pattern_acp.testing.fault_server import http_answer
from pattern_acp.testing.faulty_provider import FaultyLine, faulty_line
from pattern_acp.testing.turns import events_of, of_type
from pattern_acp.testing.wires import WIRES, stream_of

STEPS = [
    ScriptStep(text="Half an answer."),
    ScriptStep(tool="write_file", arguments={"path": "new.txt", "content": "never"}, id="call_a"),
]
wires = pytest.mark.parametrize("wire", WIRES)


@asynccontextmanager
async def at_faulty_line(
    wire: Wire, turn: TurnSettings | None = None
) -> AsyncGenerator[tuple[RunningAgent, FaultyLine, str], None]:
    """An agent in mode `auto` whose session asks a model behind a server that answers what a test says."""
    means = Settings(editor_deadline_seconds=30, mode="auto", turn=turn or TurnSettings())
    async with (
        faulty_line(wire) as line,
        running_agent(ScriptedProvider([]), others={"mine": line.provider}, settings=means) as agent,
    ):
        yield agent, line, await at_model(agent)


async def at_model(agent: RunningAgent) -> str:
    session = await agent.editor.open_session(str(agent.folder))
    choice: JsonDict = {"sessionId": session, "configId": "model", "value": "mine/test"}
    await agent.editor.request("session/set_config_option", choice)
    return session


@wires
async def test_a_cut_answer_keeps_its_words_marked_as_incomplete_and_runs_no_call(wire: Wire):
    whole = stream_of(wire, STEPS)
    begun, named = whole.index(b"write_file"), whole.index(b"never")
    # Before the call, in its name, in its arguments, behind them with the answer's end missing.
    cuts = [begun - 20, begun + 5, named + 2, whole.index(b"\n\n", named) + 2]
    async with (
        faulty_line(wire) as line,
        running_agent(
            ScriptedProvider([]),
            others={"mine": line.provider},
            settings=Settings(editor_deadline_seconds=30, mode="auto"),
        ) as agent,
    ):
        session = await at_model(agent)
        for cut in cuts:
            line.server.pieces = (http_answer(whole[:cut]),)
            assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        events = await events_of(agent, session)
        kept = [event for event in of_type(events, MessageRecorded) if event.message.text == "Half an answer."]
        assert [event.complete for event in kept] == [False] * len(cuts)
        assert not any(event.message.tool_calls for event in of_type(events, MessageRecorded))
        assert {event.code for event in of_type(events, ErrorReported)} == {"provider.interrupted"}
        assert agent.editor.of_kind("tool_call") == []
        assert not (agent.folder / "new.txt").exists()
        assert line.server.asked == len(cuts)
        line.server.pieces = (http_answer(stream_of(wire, [ScriptStep(text="Here again.")])),)
        await agent.editor.prompt(session, "And now?")
        assert agent.editor.said().endswith("Here again.")


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "gemini"])
async def test_a_call_that_the_limit_of_tokens_cut_is_shown_as_failed_and_the_turn_goes_on(wire: Wire):
    """Google's wire has only whole calls: there the model's last words are all that is cut."""
    whole = ScriptStep(tool="write_file", arguments={"path": "a.txt", "content": "whole"}, id="call_a")
    cut = ScriptStep(tool="write_file", arguments='{"path":"new.txt","content":"nev', id="call_b")
    limit = [ScriptStep(usage=ScriptUsage(10, 4_096)), ScriptStep(stop="max_tokens")]
    async with at_faulty_line(wire) as (agent, line, session):
        line.server.then = [(http_answer(stream_of(wire, [ScriptStep(text="In pieces, then.")])),)]
        line.server.pieces = (http_answer(stream_of(wire, [whole, cut, *limit])),)
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert agent.editor.said() == "In pieces, then."
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "whole"
        assert not (agent.folder / "new.txt").exists()
        assert [update["title"] for update in agent.editor.of_kind("tool_call")] == ["Create a.txt", "Write new.txt"]
        (ended,) = [update for update in agent.editor.of_kind("tool_call_update") if update.get("status") == "failed"]
        assert "cut at 4,096 tokens" in str(ended)
        assert "smaller pieces" in str(ended)
        assert "edit_file" in str(ended)


async def test_a_whole_call_of_googles_wire_runs_when_the_limit_cut_what_came_behind_it():
    whole = ScriptStep(tool="write_file", arguments={"path": "a.txt", "content": "whole"}, id="call_a")
    async with at_faulty_line("gemini") as (agent, line, session):
        line.server.then = [(http_answer(stream_of("gemini", [ScriptStep(text="Done.")])),)]
        line.server.pieces = (http_answer(stream_of("gemini", [whole, ScriptStep(stop="max_tokens")])),)
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert (agent.folder / "a.txt").read_text(encoding="utf-8") == "whole"


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "gemini"])
async def test_a_call_whose_arguments_are_never_closed_is_answered_and_not_run(wire: Wire):
    """The answer ends as it should and the call is half, which Google's wire cannot say: its calls are objects."""
    open_call = ScriptStep(tool="write_file", arguments='{"path":"new.txt","content":"nev', id="call_a")
    async with (
        faulty_line(wire) as line,
        running_agent(
            ScriptedProvider([]),
            others={"mine": line.provider},
            settings=Settings(editor_deadline_seconds=30, mode="auto"),
        ) as agent,
    ):
        session = await at_model(agent)
        line.server.then = [(http_answer(stream_of(wire, [ScriptStep(text="I see.")])),)]
        line.server.pieces = (http_answer(stream_of(wire, [open_call])),)
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert agent.editor.said() == "I see."
        assert not (agent.folder / "new.txt").exists()
        (ended,) = [update for update in agent.editor.of_kind("tool_call_update") if update.get("status") == "failed"]
        assert "not valid JSON" in str(ended)
