"""Lines and parameters that are wrong: one answer each, and the connection goes on."""

import json
from typing import cast

import anyio
import pytest

from pattern_acp.jsonrpc.messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RESOURCE_NOT_FOUND,
)
from pattern_acp.providers.scripted import ScriptedProvider
from tests.support.agent import RunningAgent, running_agent
from tests.support.editor import FakeEditor, JsonDict
from tests.support.requests import bare_agent, refused
from tests.support.scripts import says

SESSION_METHODS = [
    ("session/prompt", {"prompt": [{"type": "text", "text": "Hi"}]}),
    ("session/set_mode", {"modeId": "ask"}),
    ("session/set_config_option", {"configId": "mode", "value": "ask"}),
]


async def answer_to(editor: FakeEditor, line: bytes) -> JsonDict:
    """The next line that the agent writes."""
    before = len(editor.recording.lines)
    await editor.recording.send(line + b"\n")
    with anyio.fail_after(30):
        while len(editor.recording.lines) == before:
            await anyio.lowlevel.checkpoint()
    return cast("JsonDict", json.loads(editor.recording.lines[before]))


async def still_works(agent: RunningAgent) -> None:
    session = await agent.editor.open_session(str(agent.folder))
    assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}


@pytest.mark.parametrize(
    "line", [b"{", b"hello", b'{"jsonrpc": "2.0", "method": ', b"\xff\xfe{}", b"Content-Length: 12"]
)
async def test_broken_json_is_answered_with_a_parse_error_and_a_null_id(line: bytes):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        answer = await answer_to(agent.editor, line)
        assert answer["error"]["code"] == PARSE_ERROR
        assert answer["id"] is None
        await still_works(agent)


@pytest.mark.parametrize("line", [b"[]", b"42", b'"text"', b"null", b"true", b"{}", b'[{"jsonrpc":"2.0","id":1}]'])
async def test_a_line_that_is_no_message_is_an_invalid_request(line: bytes):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        answer = await answer_to(agent.editor, line)
        assert answer["error"]["code"] == INVALID_REQUEST
        assert answer["id"] is None
        await still_works(agent)


@pytest.mark.parametrize(
    "line", [b'{"jsonrpc":"2.0","method":5,"id":"abc"}', b'{"jsonrpc":"2.0","id":"abc","method":null}']
)
async def test_a_request_without_a_proper_method_is_answered_under_its_id(line: bytes):
    async with bare_agent() as editor:
        answer = await answer_to(editor, line)
        assert (answer["id"], answer["error"]["code"]) == ("abc", INVALID_REQUEST)


@pytest.mark.parametrize(
    "method", ["session/set_title", "no/such/method", "", "_custom/method", "session/set_model", "x" * 9999]
)
async def test_an_unknown_method_is_not_found(method: str):
    async with bare_agent() as editor:
        error = await refused(editor, method, {})
        assert error.code == METHOD_NOT_FOUND


async def test_unknown_notifications_blank_lines_and_answers_to_nothing_are_ignored():
    lines = [
        b'{"jsonrpc":"2.0","method":"no/such/notification","params":{}}',
        b'{"jsonrpc":"2.0","method":"_custom/thing"}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"I do not know session_info_update"}}',
        b'{"jsonrpc":"2.0","id":"nobody","result":{}}',
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"ses_unknown"}}',
        b'{"jsonrpc":"2.0","method":"session/cancel","params":{}}',
        b'{"jsonrpc":"2.0","method":"session/cancel"}',
        b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":99}}',
    ]
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        before = len(agent.editor.recording.lines)
        for line in lines:
            await agent.editor.recording.send(line + b"\n")
        await agent.editor.request("session/list", {})
        assert len(agent.editor.recording.lines) == before + 1
        await still_works(agent)


@pytest.mark.parametrize("request_id", ["a", "", 0, -1, 2**53, None])
async def test_an_id_of_any_kind_comes_back_as_it_was(request_id: object):
    async with bare_agent() as editor:
        line = json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "logout", "params": {}, "type": "request"})
        assert await answer_to(editor, line.encode()) == {"jsonrpc": "2.0", "id": request_id, "result": {}}


@pytest.mark.parametrize("params", [[], [1], "text", 5, None])
async def test_params_that_are_no_object_are_refused(params: object):
    async with bare_agent() as editor:
        line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        answer = await answer_to(editor, line.encode())
        assert answer["error"]["code"] in {INVALID_PARAMS, INVALID_REQUEST}


@pytest.mark.parametrize(("method", "params"), SESSION_METHODS)
async def test_an_unknown_session_is_not_found(method: str, params: JsonDict):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        error = await refused(agent.editor, method, {"sessionId": "ses_unknown", **params})
        assert error.code == RESOURCE_NOT_FOUND
        assert error.message == "Session not found: ses_unknown"
        assert error.data == {"details": error.message, "code": "session.unknown"}
        await still_works(agent)


@pytest.mark.parametrize(
    ("method", "params"), [*SESSION_METHODS, ("session/load", {"cwd": "/"}), ("session/close", {})]
)
@pytest.mark.parametrize("session", [None, 5, [], {}])
async def test_a_session_id_that_is_no_text_is_refused(method: str, params: JsonDict, session: object):
    async with running_agent(ScriptedProvider([])) as agent:
        error = await refused(agent.editor, method, {"sessionId": session, **params})
        assert error.code == INVALID_PARAMS
        assert "sessionId" in error.message


@pytest.mark.parametrize(
    "prompt",
    [
        [],
        [{"type": "text", "text": ""}],
        [{"type": "text", "text": " \n\t"}],
        [{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}],
        [{"type": "text", "text": "Hi"}, {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}],
        [{"type": "hologram", "data": "AAAA"}],
        [{"type": "text"}],
        [{"text": "Hi"}],
        [5],
        "Hi",
        None,
    ],
)
async def test_a_prompt_that_cannot_be_taken_is_refused_and_not_recorded(prompt: object):
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        error = await refused(agent.editor, "session/prompt", {"sessionId": session, "prompt": prompt})
        assert error.code == INVALID_PARAMS
        assert error.message.endswith(".")
        assert (await agent.editor.request("session/list", {}))["sessions"] == []
        assert await agent.editor.prompt(session, "Hi") == {"stopReason": "end_turn"}


async def test_a_prompt_of_links_and_embedded_text_alone_is_taken():
    model = ScriptedProvider([says("Hello.")])
    async with running_agent(model) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        blocks = [
            {"type": "resource_link", "uri": "file:///a/b.txt", "name": "b.txt"},
            {"type": "resource_link", "uri": "/a/bare/path.txt", "name": ""},
            {"type": "resource", "resource": {"uri": "file:///a/c.txt", "text": "inside"}},
        ]
        params: JsonDict = {"sessionId": session, "prompt": blocks}
        assert await agent.editor.request("session/prompt", params) == {"stopReason": "end_turn"}
        assert "inside" in str(model.requests[0].messages)


async def test_text_that_is_no_unicode_passes_through_and_is_kept():
    async with running_agent(ScriptedProvider([says("Hello.")])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        assert await agent.editor.prompt(session, "a lone \ud800 surrogate and a \x00 zero") == {
            "stopReason": "end_turn"
        }
        params: JsonDict = {"sessionId": session, "cwd": str(agent.folder), "mcpServers": []}
        await agent.editor.request("session/load", params)


async def test_no_error_repeats_what_was_sent():
    planted = "sk-very-secret"
    async with running_agent(ScriptedProvider([])) as agent:
        session = await agent.editor.open_session(str(agent.folder))
        wrong: list[tuple[str, JsonDict]] = [
            ("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": {"key": planted}}]}),
            ("session/new", {"cwd": [planted], "mcpServers": []}),
            ("session/set_mode", {"sessionId": session, "modeId": [planted]}),
        ]
        for method, params in wrong:
            error = await refused(agent.editor, method, params)
            assert planted not in f"{error.message} {error.data}"
