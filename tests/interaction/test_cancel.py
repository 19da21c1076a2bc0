"""Cancel in seven places: answered `cancelled` within 2 s, nothing left running, and the next prompt works."""

import sys
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.context.builder import history_of
from pattern_acp.domain.tool_calls import StopReason
from pattern_acp.journal.events import CheckpointTaken, MessageRecorded, ToolCallFinished, TurnEnded, TurnStarted
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.providers.scripted import ScriptedProvider
from pattern_acp.session.session import PromptTicket
from tests.support.agent import FULL_CLIENT, RunningAgent, running_agent
from tests.support.editor import JsonDict, PermissionAnswer
from tests.support.editor_terminals import hang
from tests.support.heard import conversation
from tests.support.scripts import Turn, calls, gate, says
from tests.support.turns import (
    CANCEL_SECONDS,
    answers_to,
    events_of,
    of_type,
    prompting,
    statuses,
    unpaired_calls,
)


async def next_prompt_works(agent: RunningAgent, session: str) -> None:
    """The session goes on, and its next request pairs every call with one result."""
    before = agent.editor.said()
    answer = await agent.editor.prompt(session, "And now?")
    assert answer == {"stopReason": "end_turn"}
    assert agent.editor.said().removeprefix(before) == "Here again."
    assert unpaired_calls(agent.model.requests[-1]) == []
    assert agent.model.requests[-1].messages[-1].text == "And now?"


AFTERWARDS: Turn = says("Here again.")


async def test_before_the_first_byte():
    waits = gate()
    model = ScriptedProvider([(waits,), AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "Go.") as flight:
            await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert agent.editor.said() == ""
        await next_prompt_works(agent, session)


async def test_in_the_middle_of_the_stream_the_text_that_came_is_kept_and_marked():
    waits = gate()
    model = ScriptedProvider([(*says("One, ", "two, "), waits, *says("three")), AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert agent.editor.said() == "One, two, "
        recorded = of_type(await events_of(agent, session), MessageRecorded)
        assert [(item.message.text, item.complete) for item in recorded] == [("One, two, ", False)]
        await next_prompt_works(agent, session)
        texts = [message.text for message in conversation(agent.model.requests[-1])]
        assert texts == ["Go on.", "One, two, ", "And now?"]


async def test_while_a_call_is_streamed_the_call_is_forgotten():
    waits = gate()
    model = ScriptedProvider([(*says("Let me see."), *calls("read_file", path="a.txt"), waits), AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert agent.editor.of_kind("tool_call") == []
        await next_prompt_works(agent, session)


async def test_inside_a_tool_every_announced_call_ends_failed():
    three = calls("read_file", path="a.txt") + calls("read_file", path="b.txt") + calls("run_command", command="true")
    model = ScriptedProvider([three, AFTERWARDS])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        agent.editor.disk.habits.mute = True
        (agent.folder / "a.txt").write_text("a", encoding="utf-8")
        (agent.folder / "b.txt").write_text("b", encoding="utf-8")
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(agent.editor.requests) == 2)
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert [shown[-1] for shown in statuses(agent.editor).values()] == ["failed", "failed"]
        finished = of_type(await events_of(agent, session), ToolCallFinished)
        assert [item.interrupted for item in finished] == [True, True]
        agent.editor.disk.habits.mute = False
        await next_prompt_works(agent, session)


@pytest.mark.skipif(sys.platform == "win32", reason="the command lines are written for a POSIX shell")
async def test_inside_a_child_process_of_ours_the_child_is_gone(tmp_path: Path):
    pid_file, alive = tmp_path / "pid", tmp_path / "alive"
    line = f"trap '' TERM; echo $$ > {pid_file}; mkfifo {alive}; exec 3<>{alive}; sleep 600 & wait"
    model = ScriptedProvider([calls("run_command", command=line), AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            with anyio.fail_after(30):
                while not (pid_file.exists() and pid_file.read_text(encoding="utf-8").endswith("\n")):
                    await anyio.lowlevel.checkpoint()
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert not is_running(int(pid_file.read_text(encoding="utf-8")))
        assert [shown[-1] for shown in statuses(agent.editor).values()] == ["failed"]
        await next_prompt_works(agent, session)


def is_running(pid: int) -> bool:
    stat = Path("/proc") / str(pid) / "stat"
    # A zombie has ended; it only waits for its parent.
    return stat.exists() and stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("mute", [set[str](), {"terminal/kill"}, {"terminal/kill", "terminal/release"}])
async def test_inside_a_terminal_of_the_editor_it_is_killed_and_released(mute: set[str]):
    model = ScriptedProvider([calls("run_command", command="make all"), AFTERWARDS])
    async with running_agent(model, capabilities=FULL_CLIENT) as agent:
        agent.editor.terminals.run = hang
        agent.editor.terminals.mute_methods = mute
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: ("terminal/wait_for_exit") in asked_for(agent))
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        terminal = agent.editor.terminals.by_id["term_1"]
        assert (terminal.killed, terminal.released) == (True, True)
        await next_prompt_works(agent, session)


def asked_for(agent: RunningAgent) -> list[str]:
    return [method for method, _ in agent.editor.requests]


async def test_while_a_permission_is_pending_and_the_client_answers_cancelled():
    answer = anyio.Event()

    async def cancelled(params: JsonDict) -> JsonDict:
        del params
        await answer.wait()
        return {"outcome": "cancelled"}

    await cancel_while_asking(cancelled, answer)


async def test_while_a_permission_is_pending_and_the_client_never_answers():
    async def never(params: JsonDict) -> JsonDict:
        del params
        await anyio.sleep_forever()
        raise AssertionError

    await cancel_while_asking(never, anyio.Event())


async def test_while_a_permission_is_pending_and_the_client_answers_with_an_error():
    answer = anyio.Event()

    async def errors(params: JsonDict) -> JsonDict:
        del params
        await answer.wait()
        raise RpcError(-32603, "The window was closed.")

    await cancel_while_asking(errors, answer)


async def test_while_a_permission_is_pending_and_the_client_allows_it_too_late():
    answer = anyio.Event()

    async def allows(params: JsonDict) -> JsonDict:
        del params
        await answer.wait()
        return {"outcome": "selected", "optionId": "allow_once"}

    await cancel_while_asking(allows, answer)


async def cancel_while_asking(permission: PermissionAnswer, answer: anyio.Event) -> None:
    model = ScriptedProvider([calls("write_file", path="new.txt", content="text\n"), AFTERWARDS])
    async with running_agent(model, permission=permission) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await agent.editor.wait_until(lambda: len(agent.editor.asked) == 1)
            await agent.editor.cancel(session)
            answer.set()
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert not (agent.folder / "new.txt").exists()
        assert list(statuses(agent.editor).values()) == [["pending", "failed"]]
        withdrawn = [line for by_agent, line in agent.editor.recording.both if by_agent and b"$/cancel_request" in line]
        assert len(withdrawn) == 1
        await next_prompt_works(agent, session)


async def test_in_the_very_next_line_after_the_prompt():
    model = ScriptedProvider([AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "Never mind.") as flight:
            await sent(agent, "session/prompt")
            await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        assert agent.model.requests == []
        events = await events_of(agent, session)
        assert [item.message.text for item in of_type(events, TurnStarted)] == ["Never mind."]
        assert [item.stop_reason for item in of_type(events, TurnEnded)] == [StopReason.CANCELLED]
        await next_prompt_works(agent, session)


async def sent(agent: RunningAgent, method: str, times: int = 1) -> None:
    """Wait until the editor has written a request, and not an instant longer."""
    with anyio.fail_after(30):
        while sum(f'"{method}"'.encode() in line for _, line in agent.editor.recording.both) < times:
            await anyio.lowlevel.checkpoint()


@pytest.mark.first_version("a prompt that was withdrawn is answered with an error")
async def test_while_an_earlier_prompt_is_ending_both_are_answered_cancelled_in_order():
    waits = gate()
    model = ScriptedProvider([(*says("One"), waits), AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session, "First.") as first:
            await waits.reached.wait()
            async with prompting(agent.editor, session, "Second.") as second:
                await sent(agent, "session/prompt", times=2)
                await agent.editor.cancel(session)
                assert await first.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
                assert await second.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        turns = [
            (type(item).__name__, item.turn_id)
            for item in await events_of(agent, session)
            if isinstance(item, TurnStarted | TurnEnded)
        ]
        assert [name for name, _ in turns] == ["TurnStarted", "TurnEnded"] * 2
        assert turns[0][1] == turns[1][1] != turns[2][1] == turns[3][1]
        assert len(agent.model.requests) == 1
        await next_prompt_works(agent, session)


async def test_a_cancelled_prompt_does_not_begin_when_the_earlier_one_ends_just_then():
    earlier = PromptTicket()
    ticket = PromptTicket(before=earlier)
    ticket.cancel()
    began = False

    async def end_earlier() -> None:
        earlier.done.set()

    async with anyio.create_task_group() as tasks:
        # It runs before the event loop comes to the cancellation.
        tasks.start_soon(end_earlier)
        with ticket.scope:
            await ticket.wait_for_earlier()
            began = True
    assert not began


async def test_while_idle_or_of_an_unknown_session_nothing_happens():
    model = ScriptedProvider([AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        await agent.editor.cancel(session)
        await agent.editor.cancel("ses_that_never_was")
        await agent.editor.dispatcher.notify("session/cancel", {})
        await next_prompt_works(agent, session)


async def test_a_second_cancel_changes_nothing():
    waits = gate()
    model = ScriptedProvider([(waits,), AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, session) as flight:
            await waits.reached.wait()
            for _ in range(3):
                await agent.editor.cancel(session)
            assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
        await agent.editor.cancel(session)
        assert len(answers_to(agent.editor, "session/prompt")) == 1
        await next_prompt_works(agent, session)


async def test_a_second_cancelled_turn_reads_only_what_came_since_the_first():
    first_waits, second_waits = gate(), gate()
    scripts = [
        says("One."),
        (*says("Half"), first_waits),
        says("Two."),
        (*says("Again half"), second_waits),
        AFTERWARDS,
    ]
    model = ScriptedProvider(scripts)
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        state = agent.sessions.get(session).state
        places: list[int] = []
        for waits in (first_waits, second_waits):
            await agent.editor.prompt(session, "Go.")
            async with prompting(agent.editor, session) as flight:
                await waits.reached.wait()
                await agent.editor.cancel(session)
                assert await flight.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
            events = await events_of(agent, session)
            assert state.history == history_of(events)
            places.append(state.settled.session_seq)
            assert isinstance(events[places[-1] - 1], TurnEnded)
            assert isinstance(events[-1], CheckpointTaken)
        assert places[0] < places[1]
        await next_prompt_works(agent, session)


async def test_a_cancel_of_one_session_leaves_the_other_running():
    first_waits, second_waits = gate(), gate()
    model = ScriptedProvider([(first_waits,), (second_waits, *says("Done."))])
    async with running_agent(model) as agent:
        one = await agent.editor.open_session(str(agent.folder))
        other = await agent.editor.open_session(str(agent.folder))
        async with prompting(agent.editor, one) as first:
            await first_waits.reached.wait()
            async with prompting(agent.editor, other) as second:
                await second_waits.reached.wait()
                await agent.editor.cancel(one)
                assert await first.stop_reason(seconds=CANCEL_SECONDS) == "cancelled"
                second_waits.opened.set()
                assert await second.stop_reason() == "end_turn"


@pytest.mark.first_version("the answer of a prompt is its message")
async def test_a_withdrawn_prompt_answers_cancelled():
    waits = gate()
    model = ScriptedProvider([(*says("One"), waits), AFTERWARDS])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        # Giving the request up makes the editor send $/cancel_request.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.prompt, session, "Go.")
            await waits.reached.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(CANCEL_SECONDS):
            while not answers_to(agent.editor, "session/prompt"):
                await anyio.lowlevel.checkpoint()
        (answer,) = answers_to(agent.editor, "session/prompt")
        assert answer["result"] == {"stopReason": "cancelled"}
        await next_prompt_works(agent, session)


async def test_another_withdrawn_request_answers_that_it_was_cancelled():
    async with running_agent(ScriptedProvider([AFTERWARDS])) as agent:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.editor.open_session, str(agent.folder))
            await sent(agent, "session/new")
            tasks.cancel_scope.cancel()
        with anyio.fail_after(CANCEL_SECONDS):
            while not answers_to(agent.editor, "session/new"):
                await anyio.lowlevel.checkpoint()
        (answer,) = answers_to(agent.editor, "session/new")
        assert answer["error"]["code"] == -32800
        await next_prompt_works(agent, await agent.editor.open_session(str(agent.folder)))
