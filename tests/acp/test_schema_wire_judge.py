import json

import pytest

from pattern_acp.domain.canonical import JsonObject
from tests.support.wire import WireFaultError, WireJudge


def line(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode() + b"\n"


def judge_in_session(official: JsonObject | None = None) -> WireJudge:
    judge = WireJudge(official)
    judge.client_wrote(line(id=1, method="session/new", params={"cwd": "/p", "mcpServers": []}))
    judge.agent_wrote(line(id=1, result={"sessionId": "s"}))
    return judge


def update(**members: object) -> bytes:
    return line(method="session/update", params={"sessionId": "s", "update": members})


GOOD = [
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": "hi"}, messageId="m"),
    update(sessionUpdate="session_info_update", title=None),
    update(sessionUpdate="tool_call", toolCallId="c", title="t", name="read_file", _meta={"any": {"thing": 1}}),
    line(id=7, method="fs/read_text_file", params={"sessionId": "s", "path": "/a"}),
    line(id=None, error={"code": -32700, "message": "The line is not JSON."}),
    line(method="_pattern/thing", params={"free": True}),
]

BAD = {
    "not JSON": b"hello\n",
    "not an object": b"[]\n",
    "no line feed": update(sessionUpdate="session_info_update").strip(),
    "line feed inside": b'{"jsonrpc":"2.0",\n"method":"session/update"}\n',
    "too long": update(sessionUpdate="session_info_update", title="x" * 1_000_000),
    "no version": b'{"method":"session/update","params":{}}\n',
    "unknown update": update(sessionUpdate="no_such_thing"),
    "bare text in a tool call": update(
        sessionUpdate="tool_call_update", toolCallId="c", content=[{"type": "text", "text": "x"}]
    ),
    "commands under a wrong key": update(sessionUpdate="available_commands_update", commands=[]),
    "misspelt key": update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": ""}, message_id="m"),
    "status that does not exist": update(sessionUpdate="tool_call_update", toolCallId="c", status="cancelled"),
    "plan without priority": update(sessionUpdate="plan", entries=[{"content": "x", "status": "pending"}]),
    "session nobody knows": line(
        method="session/update", params={"sessionId": "x", "update": {"sessionUpdate": "session_info_update"}}
    ),
    "null result": line(id=2, result=None),
    "result nobody asked for": line(id=99, result={}),
    "result and error": line(id=2, result={}, error={"code": 1, "message": "m"}),
    "result of a wrong shape": line(id=2, result={"stopReason": "done"}),
    "error without a message": line(id=2, error={"code": -32603, "message": ""}),
    "method of the other side": line(id=5, method="session/prompt", params={"sessionId": "s", "prompt": []}),
    "withdrawal of nothing": line(method="$/cancel_request", params={"requestId": 3}),
}


@pytest.mark.parametrize("good", GOOD)
def test_good_lines_pass(good: bytes):
    judge_in_session().agent_wrote(good)


@pytest.mark.parametrize("good", GOOD)
def test_good_lines_pass_the_official_schema_too(good: bytes, official: JsonObject):
    judge_in_session(official).agent_wrote(good)


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_faults(name: str):
    judge = judge_in_session()
    judge.client_wrote(line(id=2, method="session/prompt", params={"sessionId": "s", "prompt": []}))
    with pytest.raises(WireFaultError):
        judge.agent_wrote(BAD[name])


def test_a_second_answer_is_a_fault():
    judge = judge_in_session()
    with pytest.raises(WireFaultError, match="nobody made"):
        judge.agent_wrote(line(id=1, result={"sessionId": "s"}))


def test_an_update_before_the_answer_to_session_new_is_a_fault():
    judge = WireJudge()
    judge.client_wrote(line(id=1, method="session/new", params={"cwd": "/p", "mcpServers": []}))
    with pytest.raises(WireFaultError, match="unknown to the client"):
        judge.agent_wrote(update(sessionUpdate="session_info_update"))


def test_a_loaded_session_may_be_replayed_before_its_answer():
    judge = WireJudge()
    judge.client_wrote(line(id=1, method="session/load", params={"sessionId": "s", "cwd": "/", "mcpServers": []}))
    judge.agent_wrote(update(sessionUpdate="session_info_update"))
    assert judge.unanswered == ["session/load"]
    judge.agent_wrote(line(id=1, result={}))
    assert judge.unanswered == []


def test_ids_of_different_types_are_different():
    judge = WireJudge()
    judge.client_wrote(line(id="1", method="logout", params={}))
    with pytest.raises(WireFaultError):
        judge.agent_wrote(line(id=1, result={}))


def test_a_client_may_write_anything():
    judge = WireJudge()
    for text in (b"nonsense\n", b"[]\n", b"\xff\n", line(id=1, result={}), line(id=2, method="session/load", params=7)):
        judge.client_wrote(text)
