"""The wire calls of a terminal, and their errors; the shared contract is in tests/contracts."""

from pathlib import Path

import anyio
import pytest

from pattern_acp.acp.editor_ports import EditorTerminal
from pattern_acp.domain.clock import SessionId
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.jsonrpc.dispatcher import Dispatcher
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.workspace.errors import CommandFailedToStartError, EditorRefusedError, EditorUnavailableError
from pattern_acp.workspace.terminal import CommandRequest, ExitStatus
from tests.support.connected_editor import connected_editor
from tests.support.editor_terminals import end_with, hang
from tests.support.passing_time import passing

REQUEST = CommandRequest("make all", "/project", {"MODE": "fast"}, output_limit=1_000)


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def terminal(dispatcher: Dispatcher, scratch: Path, deadline: float = 30) -> EditorTerminal:
    return EditorTerminal(SessionId("ses_1"), dispatcher, deadline, scratch)


async def test_the_command_is_handed_over_with_its_folder_variables_and_limit(tmp_path: Path):
    async with connected_editor() as (editor, dispatcher):
        with anyio.fail_after(30):
            async with terminal(dispatcher, tmp_path).start(REQUEST) as command:
                await command.wait_for_exit()
            await editor.wait_for_request("terminal/release")
        assert [method for method, _ in editor.requests] == [
            "terminal/create",
            "terminal/wait_for_exit",
            "terminal/release",
        ]
        created = editor.requests[0][1]
        assert {"name": "MODE", "value": "fast"} in created.pop("env")
        assert created == {
            "sessionId": "ses_1",
            "command": "make",
            "args": ["all"],
            "cwd": "/project",
            "outputByteLimit": 1_000,
        }


async def test_a_script_is_gone_when_the_terminal_is(tmp_path: Path):
    async with connected_editor() as (editor, dispatcher):
        request = CommandRequest("echo a | cat", "/project")
        with anyio.fail_after(30):
            async with terminal(dispatcher, tmp_path).start(request) as command:
                assert names_in(tmp_path)
                await command.wait_for_exit()
        assert names_in(tmp_path) == []
        assert editor.terminals.by_id["term_1"].line == "echo a | cat"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RpcError(-32603, "Not today."), EditorRefusedError),
        (RpcError(-32603, "Not supported"), CommandFailedToStartError),
    ],
)
async def test_a_command_that_is_not_started_leaves_nothing_behind(
    tmp_path: Path, error: RpcError, kind: type[WorkspaceError]
):
    async with connected_editor() as (editor, dispatcher):
        editor.terminals.errors["terminal/create"] = error
        with anyio.fail_after(30), pytest.raises(kind, match=error.message.rstrip(".") + r"\."):
            async with terminal(dispatcher, tmp_path).start(CommandRequest("echo a | cat", "/project")):
                pass
        assert names_in(tmp_path) == []
        assert len(editor.requests) == 1


async def test_an_editor_that_does_not_answer_is_unavailable(tmp_path: Path):
    async with connected_editor() as (editor, dispatcher):
        editor.terminals.run = end_with("built", 0)
        editor.terminals.mute_methods = {"terminal/output"}
        with anyio.fail_after(30):
            async with terminal(dispatcher, tmp_path, deadline=1.0).start(REQUEST) as command:
                assert await command.wait_for_exit() == ExitStatus(0)
                async with passing(1.5):
                    with pytest.raises(EditorUnavailableError):
                        await command.output()
            await editor.wait_for_request("terminal/release")
        assert editor.terminals.by_id["term_1"].released


async def test_an_exit_without_any_member_is_an_unknown_exit(tmp_path: Path):
    async with connected_editor() as (editor, dispatcher):
        editor.terminals.run = lambda state: state.end("", None, None)
        with anyio.fail_after(30):
            async with terminal(dispatcher, tmp_path).start(REQUEST) as command:
                assert await command.wait_for_exit() == ExitStatus(None, None)


async def test_what_still_runs_is_killed_then_released(tmp_path: Path):
    async with connected_editor() as (editor, dispatcher):
        editor.terminals.run = hang
        with anyio.fail_after(30):
            async with terminal(dispatcher, tmp_path).start(REQUEST):
                pass
            await editor.wait_for_request("terminal/release")
        assert [method for method, _ in editor.requests][1:] == ["terminal/kill", "terminal/release"]


async def test_an_editor_may_take_its_time_to_end_a_terminal_and_nobody_waits_for_it(tmp_path: Path):
    async with connected_editor() as (editor, dispatcher):
        editor.terminals.run = hang
        editor.terminals.mute_methods = {"terminal/kill", "terminal/release"}
        with anyio.fail_after(30):
            async with terminal(dispatcher, tmp_path).start(REQUEST):
                pass
            await editor.wait_for_request("terminal/release")
            await anyio.wait_all_tasks_blocked()
        assert not any(b"$/cancel_request" in line for line in editor.recording.lines)


async def test_keys_of_models_are_empty_in_a_terminal_whose_environment_is_not_ours(tmp_path: Path):
    async with connected_editor() as (editor, dispatcher):
        with anyio.fail_after(30):
            ours = EditorTerminal(SessionId("ses_1"), dispatcher, 30, tmp_path, emptied=["OPENAI_API_KEY"])
            async with ours.start(REQUEST) as command:
                await command.wait_for_exit()
        assert editor.terminals.by_id["term_1"].env["OPENAI_API_KEY"] == ""
