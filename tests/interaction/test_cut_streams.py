"""A turn whose answer breaks off, on every wire, over a real connection: what is kept, and that no call runs."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.cli.journal import current_means
from pattern_acp.config.settings import Quirks, Settings, TurnSettings, Wire
from pattern_acp.db.connection import Transaction
from pattern_acp.journal.events import ErrorReported, MessageRecorded, UsageReported
from pattern_acp.journal.history import read_history
from pattern_acp.journal.reader import read_stream
from pattern_acp.memory.recall import remove_source
from pattern_acp.providers.http import Deadlines
from pattern_acp.providers.retry import RetryPolicy
from pattern_acp.providers.scripted import Pause, ScriptedProvider, ScriptStep, ScriptUsage
from pattern_acp.replay.comparison import replay_turns
from pattern_acp.session.redaction import RedactionWanted, redact_session
from pattern_acp.session.session_row_rebuild import replay
from pattern_acp.session.stored import index_session
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.fault_server import Piece, http_answer
from tests.support.faulty_provider import FaultyLine, faulty_line
from tests.support.passing_time import no_pause
from tests.support.scripts import gate
from tests.support.turns import events_of, of_type, prompting
from tests.support.wires import WIRES, stream_of

STEPS = [
    ScriptStep(text="Half an answer."),
    ScriptStep(tool="write_file", arguments={"path": "new.txt", "content": "never"}, id="call_a"),
]
wires = pytest.mark.parametrize("wire", WIRES)


@asynccontextmanager
async def at_faulty_line(
    wire: Wire,
    turn: TurnSettings | None = None,
    *,
    limits: Deadlines | None = None,
    pause: Callable[[float], Awaitable[None]] = no_pause,
    model: str = "test",
    quirks: Quirks | None = None,
) -> AsyncGenerator[tuple[RunningAgent, FaultyLine, str], None]:
    """An agent in mode `auto` whose session asks a model behind a server that answers what a test says."""
    means = Settings(editor_deadline_seconds=30, mode="auto", turn=turn or TurnSettings())
    async with (
        faulty_line(wire, limits=limits, quirks=quirks) as line,
        running_agent(ScriptedProvider([]), others={"mine": line.provider}, settings=means) as agent,
    ):
        agent.shared.pauses = RetryPolicy(pause)
        agent.models.infos["mine"] = replace(agent.models.infos["mine"], name=model)
        yield agent, line, await at_model(agent, model)


async def at_model(agent: RunningAgent, model: str = "test") -> str:
    session = await agent.editor.open_session(str(agent.folder))
    choice: JsonDict = {"sessionId": session, "configId": "model", "value": f"mine/{model}"}
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
            settings=Settings(editor_deadline_seconds=30, mode="auto", turn=TurnSettings(stream_retries=0)),
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


def broken(wire: Wire, kind: str) -> Sequence[Piece]:
    """An answer that breaks off behind its first words."""
    whole = stream_of(wire, [ScriptStep(text="Half an ans")])
    words = whole[: whole.index(b"\n\n", whole.index(b"Half an ans")) + 2]
    match kind:
        case "closed":
            return (http_answer(words),)
        case "silent":
            return (http_answer(words), Pause(None))
        case "cut event":
            return (http_answer(words + b'data: {"ty'),)
        case "limit":
            return (http_answer(stream_of(wire, [ScriptStep(text="Half an ans"), ScriptStep(stop="max_tokens")])),)
        case _:
            error = ScriptStep(error="overloaded", detail="Too much to do.")
            return (http_answer(stream_of(wire, [ScriptStep(text="Half an ans"), error])),)


@wires
@pytest.mark.parametrize("kind", ["closed", "silent", "error event", "cut event", "limit"])
async def test_an_answer_that_breaks_off_goes_on_by_itself(wire: Wire, kind: str):
    limits = replace(Deadlines(), idle=0.2)
    async with at_faulty_line(wire, limits=limits) as (agent, line, session):
        line.server.then = [broken(wire, kind), (http_answer(stream_of(wire, [ScriptStep(text="wer.")])),)]
        line.server.pieces = broken(wire, kind)
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        assert agent.editor.said() == "Half an ansHalf an answer."
        assert line.server.asked == 3
        events = await events_of(agent, session)
        assert of_type(events, ErrorReported) == []
        assert len(of_type(events, UsageReported)) == 3
        thoughts = [str(update["content"]) for update in agent.editor.of_kind("agent_thought_chunk")]
        assert len(thoughts) == 2
        assert all("The model is asked to continue." in thought for thought in thoughts)
        shown = said_in_order(agent)
        agent.editor.updates.clear()
        await agent.editor.request("session/close", {"sessionId": session})
        await agent.editor.request("session/load", loading(agent, session))
        assert said_in_order(agent) == shown
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        report = await replay_turns(session, recorded, current_means())
        assert (report.difference, report.requests) == (None, 3)
        assert (await agent.database.read(lambda tx: replay(tx, session))).difference is None


async def test_an_answer_that_went_on_by_itself_is_one_memory_also_after_a_rebuild_and_a_redaction():
    wire: Wire = "anthropic"

    def indexed(tx: Transaction) -> list[str]:
        rows = tx.all("SELECT text FROM search_entries WHERE kind IN ('user', 'assistant') ORDER BY id")
        return [str(row[0]) for row in rows]

    def index_anew(tx: Transaction) -> list[str]:
        remove_source(tx, session)
        index_session(tx, session, str(agent.folder))
        return indexed(tx)

    def second_half(tx: Transaction) -> int:
        (place,) = [
            one.session_seq
            for one in read_stream(tx, session)
            if isinstance(one.event, MessageRecorded) and one.event.message.text == "wer."
        ]
        return place

    async with at_faulty_line(wire) as (agent, line, session):
        line.server.then = [(http_answer(stream_of(wire, [ScriptStep(text="wer.")])),)]
        line.server.pieces = broken(wire, "limit")
        await agent.editor.prompt(session, "Go.")
        assert await agent.database.read(indexed) == ["Go.", "Half an answer."]
        assert await agent.database.write(index_anew) == ["Go.", "Half an answer."]
        place = await agent.database.read(second_half)
        await redact_session(agent.database, RedactionWanted(session, place), at_ms=1)
        prompt, answer = await agent.database.read(indexed)
        assert (prompt, answer[:11], "wer." in answer) == ("Go.", "Half an ans", False)


CONTINUING: tuple[tuple[Wire, str, str, JsonDict], ...] = (
    ("anthropic", "claude-3-5-haiku", "", {}),
    ("openai", "mistral-medium", "prefix", {"prefix": True}),
    ("openai", "kimi-latest", "partial", {"partial": True}),
    ("openai", "qwen", "continue_final_message", {}),
)
"""Wire, model, peculiarity of the server, and what marks the message that the answer begins with."""


@pytest.mark.parametrize(("wire", "model", "quirk", "mark"), CONTINUING)
@pytest.mark.parametrize("blanks", ["", " ", "\n\n"])
async def test_a_server_that_can_goes_on_with_the_answer_itself(
    wire: Wire, model: str, quirk: str, mark: JsonDict, blanks: str
):
    begun = f"Half an ans{blanks}"
    whole = stream_of(wire, [ScriptStep(text=begun)])
    words = whole[: whole.index(b"\n\n", whole.index(b"Half an ans")) + 2]
    async with at_faulty_line(wire, model=model, quirks=Quirks(continues_answers=quirk)) as (agent, line, session):
        # One server goes on behind the words, another behind the blanks that it was not sent; Mistral repeats all.
        line.server.then = [
            (http_answer(words.replace(b"Half an ans", b"wer, and mo")),),
            (http_answer(stream_of(wire, [ScriptStep(text=f"Half an ans{blanks}wer, and more.")], 3)),),
        ]
        line.server.pieces = (http_answer(words),)
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        first, second, third = (json.loads(body) for _, body in line.server.requests)
        sent = [{**last, "content": text_in(last)} for last in (second["messages"][-1], third["messages"][-1])]
        assert sent[0] == {"role": "assistant", "content": "Half an ans", **mark}
        assert sent[1]["content"] == f"Half an ans{blanks}wer, and mo"
        assert second["messages"][:-1] == third["messages"][:-1] == first["messages"]
        assert second.get("continue_final_message") is (True if quirk == "continue_final_message" else None)
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert (await replay_turns(session, recorded, current_means())).difference is None


@pytest.mark.parametrize(("wire", "model", "quirk", "mark"), CONTINUING)
async def test_a_server_that_can_goes_on_with_an_answer_that_the_limit_of_tokens_cut(
    wire: Wire, model: str, quirk: str, mark: JsonDict
):
    async with at_faulty_line(wire, model=model, quirks=Quirks(continues_answers=quirk)) as (agent, line, session):
        line.server.then = [(http_answer(stream_of(wire, [ScriptStep(text="wer.")])),)]
        line.server.pieces = broken(wire, "limit")
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        last = json.loads(line.server.requests[1][1])["messages"][-1]
        assert {**last, "content": text_in(last)} == {"role": "assistant", "content": "Half an ans", **mark}


@wires
async def test_three_answers_that_the_limit_of_tokens_cut_end_the_turn_and_replay_the_same(wire: Wire):
    async with at_faulty_line(wire) as (agent, line, session):
        line.server.pieces = broken(wire, "limit")
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "max_tokens"
        assert (line.server.asked, agent.editor.said()[:33]) == (3, "Half an ans" * 3)
        assert [event.code for event in of_type(await events_of(agent, session), ErrorReported)] == [
            "provider.answer-cut"
        ]
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert (await replay_turns(session, recorded, current_means())).difference is None


def text_in(message: JsonDict) -> str:
    content = message["content"]
    return (
        content if isinstance(content, str) else "".join(part["text"] for part in cast("list[dict[str, str]]", content))
    )


@pytest.mark.parametrize(("wire", "model", "quirk", "mark"), CONTINUING)
async def test_a_server_that_refuses_to_go_on_with_an_answer_is_asked_to_in_words(
    wire: Wire, model: str, quirk: str, mark: JsonDict
):
    del mark
    async with at_faulty_line(wire, model=model, quirks=Quirks(continues_answers=quirk)) as (agent, line, session):
        refusal = b'{"error":{"message":"This model does not support assistant message prefill."}}'
        line.server.then = [
            (http_answer(refusal, status=400, content_type="application/json"),),
            broken(wire, "closed"),
            (http_answer(stream_of(wire, [ScriptStep(text="wer.")])),),
        ]
        line.server.pieces = broken(wire, "closed")
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        assert agent.editor.said() == "Half an ansHalf an answer."
        roles = [json.loads(body)["messages"][-1]["role"] for _, body in line.server.requests]
        assert roles == ["user", "assistant", "user", "user"]


@wires
async def test_a_cancel_while_an_answer_waits_to_go_on_ends_the_turn_at_once(wire: Wire):
    waits = gate()

    async def pause(seconds: float) -> None:
        del seconds
        waits.reached.set()
        await anyio.sleep_forever()

    async with at_faulty_line(wire, pause=pause) as (agent, line, session):
        line.server.pieces = broken(wire, "closed")
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason() == "cancelled"
        assert line.server.asked == 1
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert (await replay_turns(session, recorded, current_means())).difference is None
        line.server.pieces = (http_answer(stream_of(wire, [ScriptStep(text=" Here again.")])),)
        await agent.editor.prompt(session, "And now?")
        assert agent.editor.said() == "Half an ans Here again."


@wires
@pytest.mark.parametrize(
    "steps", [[], [ScriptStep(thinking="All is said.", signature="c2VhbGVk")]], ids=["", "thought"]
)
async def test_an_answer_that_lost_only_its_end_is_whole_when_the_model_adds_nothing(
    wire: Wire, steps: list[ScriptStep]
):
    async with at_faulty_line(wire) as (agent, line, session):
        line.server.then = [(http_answer(stream_of(wire, steps)),)]
        line.server.pieces = broken(wire, "closed")
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        assert line.server.asked == 2
        assert of_type(await events_of(agent, session), ErrorReported) == []
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert (await replay_turns(session, recorded, current_means())).difference is None
        line.server.pieces = (http_answer(stream_of(wire, [ScriptStep(text=" Here again.")])),)
        await agent.editor.prompt(session, "And now?")
        assert agent.editor.said() == "Half an ans Here again."


@wires
async def test_an_answer_that_always_breaks_off_ends_the_turn_after_its_tries(wire: Wire):
    async with at_faulty_line(wire, TurnSettings(stream_retries=2)) as (agent, line, session):
        line.server.pieces = broken(wire, "closed")
        assert (await agent.editor.prompt(session, "Go."))["stopReason"] == "end_turn"
        assert line.server.asked == 3
        events = await events_of(agent, session)
        assert [event.code for event in of_type(events, ErrorReported)] == ["provider.interrupted"]
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert (await replay_turns(session, recorded, current_means())).difference is None


def said_in_order(agent: RunningAgent) -> list[tuple[object, object, str]]:
    """Kind, message and text of all chunks, those of one message joined."""
    joined: list[tuple[object, object, str]] = []
    for update in agent.editor.updates:
        chunk = cast("JsonDict", update["update"])
        if chunk["sessionUpdate"] in {"agent_message_chunk", "agent_thought_chunk"}:
            kind, message = chunk["sessionUpdate"], chunk["messageId"]
            text = str(cast("JsonDict", chunk["content"])["text"])
            if joined and joined[-1][:2] == (kind, message):
                text = joined.pop()[2] + text
            joined.append((kind, message, text))
    return joined


def loading(agent: RunningAgent, session: str) -> JsonDict:
    return {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}


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
        read = line.server.requests[-1][1].decode()
        assert "smaller pieces" in read
        assert "edit_file" in read


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


@wires
async def test_an_empty_answer_is_asked_for_again_and_ends_the_turn_the_third_time(wire: Wire):
    async with at_faulty_line(wire) as (agent, line, session):
        line.server.then = [(http_answer(stream_of(wire, [ScriptStep(text="Here.")])),)]
        line.server.pieces = (http_answer(stream_of(wire, [])),)
        assert await agent.editor.prompt(session, "Go.") == {"stopReason": "end_turn"}
        assert (agent.editor.said(), line.server.asked) == ("Here.", 2)
        line.server.pieces = (http_answer(stream_of(wire, [])),)
        await agent.editor.prompt(session, "And now?")
        assert "without an answer" in agent.editor.said()
        assert line.server.asked == 5
        events = await events_of(agent, session)
        assert [event.code for event in of_type(events, ErrorReported)] == ["provider.answer-empty"]
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert (await replay_turns(session, recorded, current_means())).difference is None


@pytest.mark.parametrize(("word", "asked"), [("no_such_word", 2), ("network_error", 5), ("MALFORMED_FUNCTION_CALL", 3)])
@pytest.mark.parametrize("text", ["", "Half an ans"])
async def test_a_reason_that_is_no_good_end_is_asked_again_as_often_as_it_is_worth(word: str, asked: int, text: str):
    answer = stream_of("openai", [ScriptStep(text=text or "x")]).replace(b'"stop"', f'"{word}"'.encode())
    answer = (
        answer
        if text
        else answer.replace(b'"content":"x"', b'"content":""').replace(b'"content": "x"', b'"content": ""')
    )
    async with at_faulty_line("openai") as (agent, line, session):
        line.server.pieces = (http_answer(answer),)
        await agent.editor.prompt(session, "Go.")
        assert line.server.asked == asked
        recorded = await agent.database.read(lambda tx: read_history(tx, session))
        assert (await replay_turns(session, recorded, current_means())).difference is None
