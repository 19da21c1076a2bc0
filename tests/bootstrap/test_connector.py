"""`pattern-acp connect`: an editor whose connection is cut sees every update once and in order."""

import re

import anyio
import pytest

from pattern_acp.bootstrap.connector import Connector, ServerUnusableError, dialler
from pattern_acp.bootstrap.remote_server import ClientLimits
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.jsonrpc.transport import Oversize, loopback_pair
from pattern_acp.providers.scripted import ScriptStep
from tests.support.editor import FakeEditor, JsonDict
from tests.support.remote import CuttableDial, connected_remotely, served_remotely
from tests.support.second_editor import SECOND, send, states, until_idle
from tests.support.serving import temporary_home

WORDS = [f"word-{number} " for number in range(60)]


def turn_of_words(start: str) -> list[ScriptStep]:
    """A message in many pieces."""
    return [ScriptStep(text=f"{start}-{word}") for word in WORDS]


async def test_a_connection_that_is_cut_a_hundred_times_loses_nothing_and_doubles_nothing() -> None:
    async with temporary_home() as home:
        home.script(*(turn_of_words(f"t{number}") for number in range(100)))
        async with served_remotely(home) as served:
            dial_server = CuttableDial(served.url)
            async with connected_remotely(dial_server) as editor, anyio.create_task_group() as tasks:
                session = await editor.open_session(str(home.project))
                seen = 0

                def cut(_update: JsonDict) -> None:
                    nonlocal seen
                    seen += 1
                    if dial_server.cuts < 100:
                        tasks.start_soon(dial_server.cut)

                editor.watch = cut
                turns = 0
                while dial_server.cuts < 100:
                    answer = await editor.prompt(session, f"turn {turns}")
                    assert answer["stopReason"] == "end_turn"
                    turns += 1
                editor.watch = lambda _update: None
                expected = "".join(f"t{number}-{word}" for number in range(turns) for word in WORDS)
                assert editor.said() == expected
                assert dial_server.cuts == 100
                assert len(dial_server.streams) > 20
                assert served.server.clients == 1


async def test_in_version_2_a_connection_that_is_cut_a_hundred_times_loses_nothing_and_doubles_nothing() -> None:
    async with temporary_home() as home:
        home.script(*(turn_of_words(f"t{number}") for number in range(100)))
        async with served_remotely(home) as served:
            dial_server = CuttableDial(served.url)
            connected = connected_remotely(dial_server, introduction=SECOND)
            async with connected as editor, anyio.create_task_group() as tasks:
                session = await editor.open_session(str(home.project))

                def cut(_update: JsonDict) -> None:
                    if dial_server.cuts < 100:
                        tasks.start_soon(dial_server.cut)

                editor.watch = cut
                turns = 0
                while dial_server.cuts < 100:
                    await send(editor, session, f"turn {turns}")
                    turns += 1
                    await until_idle(editor, turns)
                editor.watch = lambda _update: None
                assert editor.said() == "".join(f"t{number}-{word}" for number in range(turns) for word in WORDS)
                assert states(editor) == ["running", "idle:end_turn"] * turns
                prompts = [each["content"][0]["text"] for each in editor.of_kind("user_message")]
                assert prompts == [f"turn {number}" for number in range(turns)]


async def test_in_version_2_a_server_that_was_started_anew_is_brought_to_where_the_old_one_was() -> None:
    async with temporary_home() as home:
        home.script([ScriptStep(text="First.")])
        async with served_remotely(home) as old:
            dial_server = CuttableDial(old.url)
            async with connected_remotely(dial_server, introduction=SECOND) as editor:
                session = await editor.open_session(str(home.project))
                await send(editor, session, "one")
                await until_idle(editor)
                old.server.stop()
                home.script([ScriptStep(text="Second.")])
                async with served_remotely(home) as new:
                    dial_server.url = new.url
                    await send(editor, session, "two")
                    await until_idle(editor, 2)
                    assert editor.said() == "First.Second."
                    prompts = [each["content"][0]["text"] for each in editor.of_kind("user_message")]
                    assert prompts == ["one", "two"]
                    assert editor.of_kind("agent_message") == []
                    assert editor.of_kind("notice") == []


async def test_in_version_2_a_turn_that_a_server_was_ended_in_is_shown_once_and_a_notice_says_so() -> None:
    async with temporary_home() as home:
        words = turn_of_words("t")
        home.script([*words[:30], ScriptStep(wait_for="cancel"), *words[30:]])
        async with served_remotely(home, limits=ClientLimits(linger_seconds=0.05)) as served:
            dial_server = CuttableDial(served.url)
            async with connected_remotely(dial_server, introduction=SECOND) as editor:
                session = await editor.open_session(str(home.project))
                await send(editor, session, "go")
                expected = "".join(f"t-{word}" for word in WORDS[:30])
                await editor.wait_until(lambda: editor.said() == expected)
                url, dial_server.url = dial_server.url, "ws://127.0.0.1:1/acp"
                await dial_server.cut()
                with anyio.fail_after(60):
                    await served.server.wait_until_empty()
                dial_server.url = url
                await editor.wait_until(lambda: bool(editor.of_kind("notice")))
                assert "restarted during this turn" in editor.of_kind("notice")[0]["title"]
                assert states(editor) == ["running", "idle"]
                assert editor.said() == expected
                assert len(editor.of_kind("user_message")) == 1


@pytest.mark.parametrize("method", ["session/request_permission", "fs/read_text_file", "terminal/create"])
async def test_a_question_in_flight_is_asked_and_answered_once_over_a_cut(method: str) -> None:
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    async with temporary_home() as home:
        path = str(home.project / "notes.txt")
        call = {
            "session/request_permission": ScriptStep(tool="run_command", arguments={"command": "touch made.txt"}),
            "fs/read_text_file": ScriptStep(tool="read_file", arguments={"path": path}),
            "terminal/create": ScriptStep(tool="run_command", arguments={"command": "echo hello"}),
        }[method]
        home.script([call], [ScriptStep(text="Done.")])
        async with served_remotely(home) as served:
            dial_server = CuttableDial(served.url)

            async def slowly(params: JsonDict) -> JsonDict:
                await dial_server.cut()
                return {"outcome": "selected", "optionId": "allow_once"}

            async with connected_remotely(
                dial_server, files={path: "old\n"}, capabilities=capabilities, permission=slowly
            ) as editor:
                session = await editor.open_session(str(home.project))
                cut_at: list[str] = []
                receive = editor.recording.receive

                async def cutting() -> bytes | Oversize | None:
                    line = await receive()
                    if isinstance(line, bytes) and f'"{method}"'.encode() in line and not cut_at:
                        cut_at.append(method)
                        await dial_server.cut()
                    return line

                editor.recording.receive = cutting
                answer = await editor.prompt(session, "do it")
                assert answer["stopReason"] == "end_turn"
                assert editor.said() == "Done."
                assert cut_at == [method]
                assert [name for name, _ in editor.requests].count(method) == 1


async def test_a_turn_goes_on_while_nobody_is_connected() -> None:
    async with temporary_home() as home:
        home.script(turn_of_words("t"))
        async with served_remotely(home) as served:
            dial_server = CuttableDial(served.url)
            async with connected_remotely(dial_server) as editor, anyio.create_task_group() as tasks:
                session = await editor.open_session(str(home.project))
                url, dial_server.url = served.url, "ws://127.0.0.1:1/acp"
                ended = anyio.Event()

                async def prompt() -> None:
                    await editor.prompt(session, "go")
                    ended.set()

                tasks.start_soon(prompt)
                await editor.wait_until(lambda: bool(editor.said()))
                await dial_server.cut()
                dial_server.url = url
                await ended.wait()
                assert editor.said() == "".join(f"t-{word}" for word in WORDS)


async def test_a_server_that_was_started_anew_is_brought_to_where_the_old_one_was() -> None:
    async with temporary_home() as home:
        home.script([ScriptStep(text="First.")], [ScriptStep(text="Second.")])
        async with served_remotely(home) as old:
            dial_server = CuttableDial(old.url)
            async with connected_remotely(dial_server) as editor:
                session = await editor.open_session(str(home.project))
                await editor.prompt(session, "one")
                old.server.stop()
                home.script([ScriptStep(text="Second.")])
                async with served_remotely(home) as new:
                    dial_server.url = new.url
                    assert (await editor.prompt(session, "two"))["stopReason"] == "end_turn"
                    assert editor.said() == "First.Second."
                    assert len(editor.of_kind("user_message_chunk")) == 0


async def test_a_turn_that_a_server_was_ended_in_is_answered_once_and_shown_once() -> None:
    async with temporary_home() as home:
        words = turn_of_words("t")
        home.script([*words[:30], ScriptStep(wait_for="cancel"), *words[30:]])
        async with served_remotely(home, limits=ClientLimits(linger_seconds=0.05)) as served:
            dial_server = CuttableDial(served.url)
            async with connected_remotely(dial_server) as editor, anyio.create_task_group() as tasks:
                session = await editor.open_session(str(home.project))
                answers: list[str] = []

                async def prompt() -> None:
                    with pytest.raises(RemoteError) as refused:
                        await editor.prompt(session, "go")
                    answers.append(str(refused.value))

                tasks.start_soon(prompt)
                expected = "".join(f"t-{word}" for word in WORDS[:30])
                await editor.wait_until(lambda: editor.said() == expected)
                url, dial_server.url = dial_server.url, "ws://127.0.0.1:1/acp"
                await dial_server.cut()
                with anyio.fail_after(60):
                    await served.server.wait_until_empty()
                dial_server.url = url
                await editor.wait_until(lambda: bool(answers))
                assert re.search("restarted during this turn", answers[0])
                assert editor.said() == expected


async def test_a_server_that_refuses_is_named_in_the_answer_to_initialize() -> None:
    async with temporary_home() as home, served_remotely(home) as served:
        dial_server = CuttableDial(served.url, token="pat_wrong")
        near, far = loopback_pair()
        editor = FakeEditor(far)

        async def connect() -> None:
            with pytest.raises(ServerUnusableError, match="token is missing or wrong"):
                await Connector(near, dial_server).run()
            near.close_sending()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connect)
            tasks.start_soon(editor.dispatcher.run)
            with pytest.raises(RemoteError, match="token is missing or wrong"):
                await editor.initialize()
            tasks.cancel_scope.cancel()
        for stream in dial_server.streams:
            await anyio.aclose_forcefully(stream)


async def test_a_server_that_is_not_there_is_named_after_a_while() -> None:
    near, _far = loopback_pair()
    with pytest.raises(ServerUnusableError, match="cannot be reached"):
        await Connector(near, dialler("ws://127.0.0.1:1/acp", "t"), first_seconds=0.2).run()


@pytest.mark.parametrize("url", ["", "unix:", "http://host/acp", "ws://", "ws://host:99999", "ws://me:secret@host/acp"])
def test_what_is_no_url_of_a_server_is_refused_with_the_forms_that_are(url: str) -> None:
    with pytest.raises(ServerUnusableError, match="give ws://HOST:PORT/acp"):
        dialler(url, "t")
