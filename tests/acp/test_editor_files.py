"""The wire call of a file, and its errors; the shared contract is in tests/contracts."""

import anyio
import anyio.lowlevel
import pytest

from pattern_acp.acp.editor_ports import EditorFileSystem
from pattern_acp.domain.clock import SessionId
from pattern_acp.jsonrpc.messages import RpcError
from pattern_acp.workspace.errors import EditorRefusedError, EditorUnavailableError, FileMissingError
from tests.support.connected_editor import connected_editor
from tests.support.passing_time import passing


async def test_a_file_that_the_editor_does_not_know_is_missing():
    async with connected_editor() as (_, dispatcher):
        with anyio.fail_after(30), pytest.raises(FileMissingError):
            await EditorFileSystem(SessionId("ses_1"), dispatcher, 30).read_text_file("/no/such/file")


async def test_a_request_that_the_editor_does_not_understand_means_that_it_cannot_help():
    async with connected_editor() as (editor, dispatcher):
        editor.disk.habits.error = RpcError(-32602, "Past the end of the file.")
        with anyio.fail_after(30), pytest.raises(EditorUnavailableError, match="Past the end"):
            await EditorFileSystem(SessionId("ses_1"), dispatcher, 30).read_text_file("/a")


async def test_a_refusal_names_the_reason_of_the_editor():
    async with connected_editor() as (editor, dispatcher):
        denied = {"details": "Permission denied for fs/write_text_file"}
        editor.disk.habits.error = RpcError(-32603, "Internal error", denied)
        with (
            anyio.fail_after(30),
            pytest.raises(EditorRefusedError, match=r"did not write /a: .*Permission denied for fs"),
        ):
            await EditorFileSystem(SessionId("ses_1"), dispatcher, 30).write_text_file("/a", "text")


async def test_a_mute_editor_is_given_up_after_the_deadline_and_the_question_withdrawn():
    async with connected_editor() as (editor, dispatcher):
        editor.disk.habits.mute = True
        async with passing(1):
            with pytest.raises(EditorUnavailableError, match="did not answer"):
                await EditorFileSystem(SessionId("ses_1"), dispatcher, 0.5).write_text_file("/a", "text")
        with anyio.fail_after(30):
            while not any(b"$/cancel_request" in line for by_agent, line in editor.recording.both if by_agent):
                await anyio.lowlevel.checkpoint()


async def test_the_whole_file_is_asked_for():
    async with connected_editor() as (editor, dispatcher):
        editor.files["/a"] = "one\ntwo\n"
        with anyio.fail_after(30):
            file = await EditorFileSystem(SessionId("ses_1"), dispatcher, 30).read_text_file("/a")
        assert (file.text, file.source) == ("one\ntwo\n", "editor")
        assert editor.requests == [("fs/read_text_file", {"sessionId": "ses_1", "path": "/a"})]
