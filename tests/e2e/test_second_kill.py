"""SIGKILL between the acceptance of a prompt of ACP v2 and its first output: the message is there, once."""

from pathlib import Path

import anyio
import pytest

from pattern_acp.journal.events import TurnStarted
from tests.support.editor import JsonDict
from tests.support.process import Launch, read_events, running_process, write_script
from tests.support.second_editor import SECOND, kinds, send, until_idle

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]


async def test_a_prompt_that_was_accepted_before_a_kill_is_there_once_and_its_key_finds_it(tmp_path: Path):
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    silent = write_script(tmp_path, [[{"wait_for": "cancel"}]])
    async with running_process(Launch(home, environment=silent, introduction=SECOND)) as agent:
        session = await agent.editor.open_session(str(work))
        message = await send(agent.editor, session, "Hi", "key-1")
        agent.kill()
        await agent.wait()
        constellation = agent.constellation
    events = await read_events(constellation, session)
    assert [event.message.message_id for event in events if isinstance(event, TurnStarted)] == [message]

    speaks = write_script(tmp_path, [[{"text": "Hello."}]])
    async with running_process(Launch(home, environment=speaks, introduction=SECOND)) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(work), "replayFrom": {"type": "start"}}
        await agent.editor.request("session/resume", params)
        assert [one["messageId"] for one in agent.editor.of_kind("user_message")] == [message]
        assert kinds(agent.editor)[-1] == "state_update"
        assert await send(agent.editor, session, "Hi", "key-1") == message
        assert await send(agent.editor, session, "And?", "key-2") != message
        await until_idle(agent.editor)
        assert len(agent.editor.of_kind("user_message")) == 2
        assert agent.editor.said() == "Hello."


async def test_a_prompt_that_joined_a_turn_before_a_kill_is_there_once(tmp_path: Path):
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    (work / "a.txt").write_text("hello\n", encoding="utf-8")
    reads = [{"wait_ms": 1000}, {"tool": "read_file", "arguments": {"path": "a.txt"}}]
    silent = write_script(tmp_path, [reads, [{"wait_for": "cancel"}]])
    async with running_process(Launch(home, environment=silent, introduction=SECOND)) as agent:
        session = await agent.editor.open_session(str(work))
        messages = [await send(agent.editor, session, "Read", "key-1")]
        async with anyio.create_task_group() as tasks:
            # Twice, as a client does that doubts whether its line arrived.
            for _ in range(2):
                tasks.start_soon(send, agent.editor, session, "Only a line", "key-2")
        messages += [one["messageId"] for one in agent.editor.of_kind("user_message")[1:]]
        agent.kill()
        await agent.wait()
        constellation = agent.constellation
    events = await read_events(constellation, session)
    started = [event.message for event in events if isinstance(event, TurnStarted)]
    assert [(one.message_id, one.text) for one in started] == list(zip(messages, ["Read", "Only a line"], strict=True))

    speaks = write_script(tmp_path, [[{"text": "Hello."}]])
    async with running_process(Launch(home, environment=speaks, introduction=SECOND)) as agent:
        params: JsonDict = {"sessionId": session, "cwd": str(work), "replayFrom": {"type": "start"}}
        await agent.editor.request("session/resume", params)
        assert [one["messageId"] for one in agent.editor.of_kind("user_message")] == messages
        assert await send(agent.editor, session, "Only a line", "key-2") == messages[1]
