"""What an editor has is not shown again by a new agent's replay, and what it lacks is; in both versions."""

import json
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp.seen_by_editor import SeenByEditor, with_offer
from tests.support.editor import JsonDict
from tests.support.second_editor import SECOND

FIRST: JsonDict = {"protocolVersion": 1, "clientCapabilities": {}}


def line(method: str, params: JsonDict, request_id: int | str | None = None) -> bytes:
    members: JsonDict = {"jsonrpc": "2.0", "method": method, "params": params}
    return msgspec.json.encode(members if request_id is None else members | {"id": request_id})


def answer(request_id: int | str, result: JsonDict) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def update(kind: str, **members: object) -> bytes:
    return line("session/update", {"sessionId": "s", "update": {"sessionUpdate": kind, **members}})


def text(words: str) -> JsonDict:
    return {"type": "text", "text": words}


def opened(introduction: JsonDict) -> SeenByEditor:
    """An editor that has opened one session."""
    seen = SeenByEditor()
    seen.from_editor(line("initialize", introduction, 0))
    seen.from_agent(answer(0, {}))
    seen.from_editor(line("session/new", {"cwd": "/p", "mcpServers": []}, 1))
    seen.from_agent(answer(1, {"sessionId": "s"}))
    return seen


def shown(seen: SeenByEditor, *lines: bytes) -> list[JsonDict]:
    passed = [each for one in lines for each in seen.from_agent(one)[0]]
    return [json.loads(each)["params"]["update"] for each in passed]


def words_of(shown_update: JsonDict) -> str:
    content = cast("JsonDict | list[JsonDict]", shown_update["content"])
    return str(content["text"] if isinstance(content, dict) else content[0]["text"])


@given(st.text(max_size=12), st.integers(0, 12))
def test_a_message_that_was_cut_anywhere_is_shown_whole_once_in_version_2(words: str, cut: int) -> None:
    seen = opened(SECOND)
    before = shown(seen, update("agent_message_chunk", messageId="m", content=text(words[:cut])))
    seen.begin_anew()
    whole = update("agent_message", messageId="m", content=[text(words)])
    behind = shown(seen, whole)
    assert "".join(map(words_of, [*before, *behind])) == words


def test_in_version_2_known_prompts_ended_calls_and_their_terminals_are_not_shown_again() -> None:
    seen = opened(SECOND)
    lines = [
        update("user_message", messageId="u", content=[text("do it")]),
        update("tool_call_update", toolCallId="c", status="completed"),
        update("terminal_update", terminalId="c", exitStatus={}),
    ]
    assert len(shown(seen, *lines)) == 3
    first, _ = seen.begin_anew()
    resumed = json.loads(first[-1])
    assert (resumed["method"], resumed["params"]["replayFrom"]) == ("session/resume", {"type": "start"})
    assert shown(seen, *lines, update("user_message_chunk", messageId="u", content=text("more"))) == []
    more = [
        update("user_message", messageId="v", content=[text("long")]),
        update("user_message_chunk", messageId="v", content=text("est")),
        update("tool_call_update", toolCallId="d", status="pending"),
        update("plan_update", plan={}),
    ]
    assert [one["sessionUpdate"] for one in shown(seen, *more)] == [
        "user_message",
        "user_message_chunk",
        "tool_call_update",
        "plan_update",
    ]
    seen.from_agent(answer(resumed["id"], {}))
    assert len(shown(seen, lines[0])) == 1


def test_in_version_2_a_prompt_that_waits_is_sent_again_with_its_key_behind_the_sessions() -> None:
    seen = opened(SECOND)
    prompt = line("session/prompt", {"sessionId": "s", "prompt": [text("go")]}, 7)
    (sent,) = seen.from_editor(prompt)
    key = json.loads(sent)["params"]["idempotencyKey"]
    assert key
    assert seen.from_editor(sent) == [sent]
    first, _ = seen.begin_anew()
    _, behind = seen.from_agent(answer(json.loads(first[-1])["id"], {}))
    assert [json.loads(one)["params"]["idempotencyKey"] for one in behind] == [key]


def test_sessions_that_the_editor_did_not_open_are_not_opened_again() -> None:
    seen = opened(SECOND)
    seen.from_agent(line("session/update", {"sessionId": "sub", "update": {"sessionUpdate": "agent_message_chunk"}}))
    first, _ = seen.begin_anew()
    assert [json.loads(one)["method"] for one in first] == ["initialize", "session/resume"]
    assert seen.folders_of("sub") is None
    assert seen.folders_of("s") == seen.open_folders() == ("/p",)


@pytest.mark.parametrize(("introduction", "where"), [(FIRST, "clientCapabilities"), (SECOND, "capabilities")])
def test_an_offer_is_added_to_what_the_editor_promises(introduction: JsonDict, where: str) -> None:
    promised = introduction | {where: {"_meta": {"terminal_output": True, "pattern": {"x": 1}}}}
    made = json.loads(with_offer(line("initialize", promised, 0), ["search_text"]))["params"]
    assert made[where]["_meta"] == {"terminal_output": True, "pattern": {"x": 1, "workspace": ["search_text"]}}
    for unchanged in (line("session/list", {}, 1), line("initialize", introduction | {where: 3}, 1), b"{"):
        assert with_offer(unchanged, ["search_text"]) == unchanged
