"""session/load replays exactly what was shown; session/resume replays nothing."""

from pathlib import Path

import anyio
import pytest
from anyio import lowlevel

from pattern_acp.db.connection import Transaction
from pattern_acp.journal.reader import read_stream
from pattern_acp.jsonrpc.messages import RESOURCE_NOT_FOUND
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.reopening import FIRST_EVENTS
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict
from tests.support.heard import conversation
from tests.support.requests import begin_prompt, kinds_of, refused, updates_of
from tests.support.scripts import calls, gate, says, thinks, uses
from tests.support.transcript import shown

PLAN = [{"content": "Look", "status": "completed", "priority": "high"}]


async def load(agent: RunningAgent, session: str, *, how: str = "load", cwd: Path | None = None) -> list[JsonDict]:
    """The updates that came before the answer; those about commands come at their own time."""
    agent.editor.updates.clear()
    params: JsonDict = {"sessionId": session, "cwd": str(cwd or agent.folder), "mcpServers": []}
    await agent.editor.request(f"session/{how}", params)
    return replay_of(agent, session)


def replay_of(agent: RunningAgent, session: str) -> list[JsonDict]:
    return [u for u in updates_of(agent.editor, session) if u["sessionUpdate"] != "available_commands_update"]


def dead_holder(tx: Transaction) -> int:
    return tx.execute("UPDATE leases SET pid = 4194303, process_started = 'long ago'")


async def test_a_session_is_replayed_as_it_was_shown_and_before_the_answer():
    model = ScriptedProvider(
        [
            thinks("Hm.") + says("Let me", " look. ") + calls("read_file", path="a.txt") + uses(100, 20),
            calls("update_plan", entries=PLAN),
            says("It says hello.") + uses(200, 10),
        ]
    )
    async with running_agent(model) as agent:
        (agent.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "What is in a.txt?")
        live = shown(updates_of(agent.editor, session), "What is in a.txt?")

        replayed = await load(agent, session)

        assert shown(replayed) == live
        assert kinds_of(replayed)[-3:] == ["plan", "usage_update", "session_info_update"]
        assert replayed[-2]["used"] == 210
        assert replayed[-1]["title"] == "What is in a.txt?"


async def test_loading_twice_shows_the_same_twice():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        first = await load(agent, session)
        assert first == await load(agent, session)


async def test_a_long_answer_is_replayed_in_one_chunk_a_message():
    words = ["word "] * 5000
    async with running_agent(ScriptedProvider([says(*words)])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Talk")
        live = [kind for kind in kinds_of(updates_of(agent.editor, session)) if kind == "agent_message_chunk"]
        replayed = [kind for kind in kinds_of(await load(agent, session)) if kind == "agent_message_chunk"]
        assert len(live) > 10
        assert len(replayed) == 1


async def test_no_line_of_a_replay_is_longer_than_clients_can_read():
    async with running_agent(ScriptedProvider([says("ä€🙂" * 400_000)])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Talk")
        agent.editor.recording.lines.clear()
        await load(agent, session)
        assert sum(len(line) for line in agent.editor.recording.lines) > 1_000_000
        assert max(len(line) for line in agent.editor.recording.lines) < 1_000_000


async def test_a_replay_names_no_terminal_that_is_gone():
    model = ScriptedProvider([calls("run_command", command="echo hi"), says("Done.")])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Run it")
        assert any('"terminal"' in str(u).replace("'", '"') for u in updates_of(agent.editor, session))
        replayed = await load(agent, session)
        assert not any("terminalId" in str(update) for update in replayed)
        assert any("echo hi" in str(update) for update in replayed)


async def test_resume_shows_the_plan_and_nothing_else():
    async with running_agent(ScriptedProvider([calls("update_plan", entries=PLAN), says("Done.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Plan it")
        (update,) = await load(agent, session, how="resume")
        assert update["sessionUpdate"].startswith("plan")
        assert "Look" in str(update)


async def test_resume_shows_nothing_and_goes_on_with_the_conversation():
    model = ScriptedProvider([says("Blue."), says("You asked for a colour.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Name a colour")
        assert await load(agent, session, how="resume") == []
        await agent.editor.prompt(session, "What did I ask?")
        assert "Name a colour" in str(model.requests[-1].messages)


async def test_a_session_goes_on_in_a_new_process():
    async with running_agent(ScriptedProvider([says("Blue.")])) as first:
        path = first.database.path
        session = await first.editor.open_session(str(first.folder))
        await first.editor.prompt(session, "Name a colour")
        await first.editor.request("session/close", {"sessionId": session})
        model = ScriptedProvider([says("I said blue.")])
        async with running_agent(model, database=path) as second:
            replayed = await load(second, session, cwd=first.folder)
            assert kinds_of(replayed)[:2] == ["user_message_chunk", "agent_message_chunk"]
            await second.editor.prompt(session, "What did you say?")
            assert [message.text for message in conversation(model.requests[0])] == [
                "Name a colour",
                "Blue.",
                "What did you say?",
            ]
            assert model.requests[0].system == first.model.requests[0].system
            assert model.requests[0].tools == first.model.requests[0].tools


@pytest.mark.first_version("the error has other data")
@pytest.mark.parametrize(
    "session", ["ses_unknown", "", "../../etc/passwd", "x" * 5000, "\ud800", "'; DROP TABLE sessions"]
)
@pytest.mark.parametrize("how", ["load", "resume"])
async def test_an_unknown_session_is_not_found_and_nothing_else_suffers(session: str, how: str):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        mine = await agent.editor.open_session(str(agent.folder))
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        error = await refused(agent.editor, f"session/{how}", params)
        assert error.code == RESOURCE_NOT_FOUND
        assert error.message.startswith("Session not found: ")
        assert error.data == {"details": error.message, "code": "session.unknown"}
        assert len(error.message) < 200
        assert await agent.editor.prompt(mine, "Hi") == {"stopReason": "end_turn"}


async def test_a_new_folder_is_honoured():
    model = ScriptedProvider([says("Hello."), calls("read_file", path="a.txt"), says("Read.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        moved = agent.folder / "moved"
        moved.mkdir()
        (moved / "a.txt").write_text("from the new place\n", encoding="utf-8")
        await load(agent, session, cwd=moved)
        await agent.editor.prompt(session, "Read it")
        assert "from the new place" in str(model.requests[-1].messages)
        assert agent.editor.asked == []
        listing = await agent.editor.request("session/list", {"cwd": str(moved)})
        assert [row["sessionId"] for row in listing["sessions"]] == [session]


async def test_loading_while_the_sessions_own_prompt_runs_is_refused_and_the_prompt_goes_on():
    waiting = gate()
    model = ScriptedProvider([(*says("so far "), waiting, *says("and on"))])
    async with running_agent(model) as agent, anyio.create_task_group() as tasks:
        session = await agent.editor.open_session(str(agent.folder))
        running = begin_prompt(tasks, agent.editor, session, "Hi")
        with anyio.fail_after(30):
            await waiting.reached.wait()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        for method in ("session/load", "session/resume"):
            error = await refused(agent.editor, method, params)
            assert "is answering a prompt here" in error.message
        waiting.opened.set()
        assert await running.end() == {"stopReason": "end_turn"}
        assert ("agent", "so far and on") in shown(await load(agent, session))


@pytest.mark.first_version("a replay has whole messages")
async def test_two_loads_at_once_replay_one_after_the_other():
    async with running_agent(ScriptedProvider([says("Hello."), says("Bye.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.prompt(session, "Hi")
        await agent.editor.prompt(session, "Bye")
        one = await load(agent, session)
        agent.editor.updates.clear()
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(agent.editor.request, "session/load", params)
        assert replay_of(agent, session) == one + one


async def test_after_a_crash_in_a_turn_calls_are_failed_text_is_kept_and_the_session_goes_on():
    waiting = gate()
    model = ScriptedProvider(
        [says("First I look. ") + calls("read_file", path="a.txt"), (*says("Half an ans"), waiting, *says("wer"))]
    )
    async with running_agent(model) as crashed, anyio.create_task_group() as tasks:
        (crashed.folder / "a.txt").write_text("hello\n", encoding="utf-8")
        session = await crashed.editor.open_session(str(crashed.folder))
        begin_prompt(tasks, crashed.editor, session, "Look")
        with anyio.fail_after(30):
            await waiting.reached.wait()
            await wait_for_partial(crashed)
        await crashed.database.write(dead_holder)
        again = ScriptedProvider([says("I go on.")])
        async with running_agent(again, database=crashed.database.path) as agent:
            replayed = shown(await load(agent, session, cwd=crashed.folder))
            assert ("agent", "Half an ans") in replayed
            assert await agent.editor.prompt(session, "Go on") == {"stopReason": "end_turn"}
            assert [m.text for m in again.requests[0].messages][-2:] == ["Half an ans", "Go on"]
        tasks.cancel_scope.cancel()


async def wait_for_partial(agent: RunningAgent) -> None:
    """Wait until the text that is being streamed was committed: at most about a second."""
    while not await agent.database.read(lambda tx: tx.all("SELECT 1 FROM events WHERE kind = 'message_partial'")):
        await lowlevel.checkpoint()


async def test_a_call_that_a_crash_cut_off_is_shown_as_failed():
    asked = anyio.Event()

    async def never(params: JsonDict) -> JsonDict:
        del params
        asked.set()
        await anyio.sleep_forever()
        return {}

    model = ScriptedProvider([calls("write_file", path="a.txt", content="x")])
    async with running_agent(model, permission=never) as crashed, anyio.create_task_group() as tasks:
        session = await crashed.editor.open_session(str(crashed.folder))
        begin_prompt(tasks, crashed.editor, session, "Write")
        with anyio.fail_after(30):
            await asked.wait()
        await crashed.database.write(dead_holder)
        again = ScriptedProvider([says("I go on.")])
        async with running_agent(again, database=crashed.database.path) as agent:
            replayed = await load(agent, session, cwd=crashed.folder)
            statuses = [u["status"] for u in replayed if u["sessionUpdate"] == "tool_call_update"]
            assert statuses == ["failed"]
            assert "interrupted" in str(replayed)
            await agent.editor.prompt(session, "Go on")
            results = [part for m in again.requests[0].messages for part in m.parts if hasattr(part, "is_error")]
            assert len(results) == 1
            assert not (crashed.folder / "a.txt").exists()
        tasks.cancel_scope.cancel()


async def test_a_session_longer_than_its_first_part_is_replayed_once_and_in_order():
    async with running_agent(ScriptedProvider([says("Yes.")], repeat=True)) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        asked = [f"Question {number}" for number in range(30)]
        for text in asked:
            await agent.editor.prompt(session, text)
        recorded = await agent.database.read(lambda tx: read_stream(tx, session))
        assert len(recorded) > FIRST_EVENTS + 20
        for _ in range(2):
            replayed = await load(agent, session)
            said = [str(u["content"]["text"]) for u in replayed if u["sessionUpdate"].endswith("message_chunk")]
            assert said == [each for text in asked for each in (text, "Yes.")]
            assert kinds_of(replayed).count("session_info_update") == 1
