"""`pattern-acp connect` searches on the machine that has the files, for a server that has none of them."""

import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from pattern_acp.bootstrap.client_machine import ClientMachine
from pattern_acp.bootstrap.connector import Connector
from pattern_acp.journal.events import ToolCallFinished
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.links import ResumableLink
from pattern_acp.jsonrpc.messages import RemoteError
from pattern_acp.jsonrpc.transport import loopback_pair
from pattern_acp.jsonrpc.websocket import Acceptance, accept
from pattern_acp.providers.scripted import ScriptStep
from tests.support.agent import temporary_folder
from tests.support.editor import FakeEditor, JsonDict, leave_unexplained
from tests.support.process import read_events
from tests.support.remote import CuttableDial, connected_remotely, remote_editor, served_remotely
from tests.support.second_editor import SECOND, send, until_idle
from tests.support.serving import Home, temporary_home

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def call(tool: str, **arguments: object) -> ScriptStep:
    return ScriptStep(tool=tool, arguments=dict(arguments))


def in_terminal(editor: FakeEditor) -> str:
    return str([each for each in editor.of_kind("tool_call_update") if each.get("status") in {"completed", "failed"}])


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The client's project, which the server does not name."""
    root = tmp_path.resolve() / "project"
    root.mkdir()
    (root / "shop.py").write_text(
        "def price():\n    return total()\n\n\ndef total():\n    return 1\n", encoding="utf-8"
    )
    (root / "notes.txt").write_text("the needle is here\n", encoding="utf-8")
    (root / ".env").write_text("needle=secret-value\n", encoding="utf-8")
    (root.parent / "outside.txt").write_text("needle outside\n", encoding="utf-8")
    return root


@asynccontextmanager
async def connected(home: Home, cache: Path, second: JsonDict | None = None) -> AsyncGenerator[FakeEditor, None]:
    machine = ClientMachine(ENVIRONMENT, cache)
    async with (
        served_remotely(home, is_local=False) as served,
        connected_remotely(CuttableDial(served.url), machine=machine, introduction=second) as editor,
    ):
        yield editor


async def shown(home: Home, project: Path, *steps: ScriptStep) -> tuple[str, FakeEditor]:
    """The ends of the calls of one turn, as the user sees them."""
    home.script(*([step] for step in steps), [ScriptStep(text="Done.")])
    with temporary_folder() as cache:
        async with connected(home, cache) as editor:
            session = await editor.open_session(str(project))
            await editor.prompt(session, "look")
            return in_terminal(editor), editor


async def test_search_lists_and_code_map_answer_from_the_clients_folder_and_say_so_at_the_start(project: Path) -> None:
    async with temporary_home() as home:
        found, editor = await shown(
            home,
            project,
            call("search_text", pattern="needle is"),
            call("find_files", pattern="*.py"),
            call("list_directory"),
            call("code_map", operation="callers", query="total"),
        )
        assert "1 line" in found, found
        assert str(project / "shop.py") in found
        assert "3 entries" in found
        assert "'status': 'failed'" not in found
        assert "the code map are done on your machine" in editor.said()
        assert editor.requests == []


async def test_what_the_model_reads_is_what_it_reads_of_local_files(project: Path) -> None:
    async with temporary_home() as home:
        home.script([call("search_text", pattern="needle")], [ScriptStep(text="Done.")])
        with temporary_folder() as cache:
            async with connected(home, cache) as editor:
                session = await editor.open_session(str(project))
                await editor.prompt(session, "look")
        texts = str(
            [each for each in await read_events(home.constellation, session) if isinstance(each, ToolCallFinished)]
        )
        assert "notes.txt" in texts
        assert "needle is here" in texts
        assert "secret-value" not in texts


@pytest.mark.parametrize(
    "step",
    [
        call("search_text", pattern="needle", path=".."),
        call("search_text", pattern="needle", path=".env"),
        call("list_directory", path="/"),
        call("search_text", pattern="needle", path="leads/out"),
        call("find_files", pattern="*", path="../"),
    ],
)
async def test_nothing_outside_the_sessions_folders_and_no_credentials_are_shown(
    project: Path, step: ScriptStep
) -> None:
    (project / "leads").mkdir()
    (project / "leads" / "out").symlink_to(project.parent)
    async with temporary_home() as home:
        found, _ = await shown(home, project, step)
        assert "Only the folders of the session are searched" in found
        assert "outside.txt" not in found
        assert "needle outside" not in found
        assert "secret-value" not in found


async def test_language_servers_and_changes_are_not_done_there(project: Path) -> None:
    async with temporary_home() as home:
        found, _ = await shown(home, project, call("code_map", operation="rename", query="total", new_name="sum"))
        assert "Language servers are off" in found


async def test_a_session_that_the_editor_did_not_open_is_not_searched(project: Path) -> None:
    near = ClientMachine(ENVIRONMENT, project)
    ours, theirs = loopback_pair()
    served = near.dispatcher(ours, {"ses_1": (str(project),)}.get, lambda: (str(project),))
    server = Dispatcher(theirs, requests={}, notifications={}, translate=leave_unexplained)
    async with anyio.create_task_group() as tasks:
        for run in (near.run, served.run, server.run):
            tasks.start_soon(run)

        async def ask(method: str, params: JsonDict) -> JsonDict:
            return await server.request(f"_pattern/workspace/{method}", params, JsonDict, deadline=30)

        listed: JsonDict = {"sessionId": "ses_1", "arguments": {}}
        assert "notes.txt" in (await ask("list_directory", listed))["text"]
        with pytest.raises(RemoteError, match="no such session"):
            await ask("list_directory", listed | {"sessionId": "ses_2"})
        with pytest.raises(RemoteError, match="no session open in this folder"):
            await ask("git_status", {"cwd": str(project.parent)})
        with pytest.raises(RemoteError, match="no such method"):
            await ask("write_file", listed)
        assert await ask("git_status", {"cwd": str(project)}) == {}
        tasks.cancel_scope.cancel()


@pytest.mark.needs("git")
async def test_the_model_is_told_the_git_status_of_the_clients_folder(project: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(project)], check=True)  # noqa: ASYNC221
    async with temporary_home() as home:
        _, editor = await shown(home, project)
        del editor
        async with connected(home, project / "cache") as editor:
            home.script([ScriptStep(text="Hm.")])
            session = await editor.open_session(str(project))
            await editor.prompt(session, "/status")
            assert "trunk" in editor.said()


async def test_a_client_without_connect_is_told_in_one_sentence(project: Path) -> None:
    async with temporary_home() as home:
        home.script([call("search_text", pattern="needle")], [ScriptStep(text="Done.")])
        async with served_remotely(home, is_local=False) as served, remote_editor(served) as editor:
            session = await editor.open_session(str(project))
            await editor.prompt(session, "look")
            assert "this client does not offer it" in in_terminal(editor)
            assert "search, git status, the code map" in editor.said()


async def test_a_client_of_version_2_is_searched_too(project: Path) -> None:
    async with temporary_home() as home:
        home.script([call("search_text", pattern="needle is")], [ScriptStep(text="Done.")])
        with temporary_folder() as cache:
            async with connected(home, cache, SECOND) as editor:
                session = await editor.open_session(str(project))
                await send(editor, session, "look")
                await until_idle(editor)
                assert "1 line" in in_terminal(editor)


async def test_an_editor_hears_nothing_of_what_the_connector_is_asked_and_of_its_withdrawal(project: Path) -> None:
    near, far = loopback_pair()
    editor, link = FakeEditor(far), ResumableLink(resumable=False)
    server = Dispatcher(link, requests={"initialize": _nothing}, notifications={}, translate=leave_unexplained)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:

        async def serve(stream: ByteStream) -> None:
            socket = await accept(stream, lambda _: Acceptance({}, ""))
            assert socket is not None
            await link.carry(socket, 0)

        tasks.start_soon(listener.serve, serve)
        dial_server = CuttableDial(f"ws://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/acp")  # noqa: S610
        tasks.start_soon(Connector(near, dial_server, ClientMachine(ENVIRONMENT, project)).run)
        for run in (editor.dispatcher.run, server.run):
            tasks.start_soon(run)
        await editor.initialize()
        for request_id in (1, 2):
            asked: JsonDict = {"sessionId": "nobody", "arguments": {}}
            with pytest.raises(RemoteError, match="no such session"):
                await server.request("_pattern/workspace/list_directory", asked, JsonDict, deadline=30)
            await server.notify("$/cancel_request", {"requestId": request_id})
        await server.notify("$/cancel_request", {"requestId": 7})
        await server.notify("session/update", {"sessionId": "s", "update": {"sessionUpdate": "plan"}})
        await editor.wait_until(lambda: bool(editor.updates))
        heard = [line for line in editor.recording.lines if b"cancel_request" in line or b"workspace" in line]
        assert len(heard) == 1
        assert b'"requestId":7' in heard[0]
        link.end()
        for stream in dial_server.streams:
            await anyio.aclose_forcefully(stream)
        tasks.cancel_scope.cancel()


async def _nothing(_raw: object, _context: object) -> JsonDict:
    return {}
