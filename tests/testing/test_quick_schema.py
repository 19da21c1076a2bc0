"""The quick check takes what jsonschema takes, and nothing else."""

import json
from collections.abc import Iterator
from typing import Any, cast

import pytest
from jsonschema import Draft202012Validator

from pattern_acp.domain.canonical import JsonObject
from tests.support.official_schema import official_schema
from tests.support.quick_schema import QuickSchema

TEXT = {"type": "text", "text": "x"}
UPDATES: list[tuple[str, dict[str, Any]]] = [
    ("SessionNotification", {"sessionId": "s", "update": update})
    for update in (
        {"sessionUpdate": "agent_message_chunk", "content": TEXT, "messageId": "m"},
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "c",
            "title": "t",
            "kind": "read",
            "status": "pending",
            "rawInput": {"a": 1.5},
            "locations": [{"path": "/a", "line": 1}],
            "content": [{"type": "diff", "path": "/a", "oldText": None, "newText": ""}],
        },
        {"sessionUpdate": "plan", "entries": [{"content": "c", "priority": "high", "status": "pending"}]},
        {"sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": {"amount": 0.5, "currency": "USD"}},
    )
]
MESSAGES: list[tuple[str, dict[str, Any]]] = [
    *UPDATES,
    ("PromptResponse", {"stopReason": "end_turn"}),
    ("Error", {"code": -32600, "message": "no", "data": {"a": []}}),
    (
        "RequestPermissionRequest",
        {
            "sessionId": "s",
            "toolCall": {"toolCallId": "c"},
            "options": [{"optionId": "a", "name": "Allow", "kind": "allow_once"}],
        },
    ),
    ("NewSessionResponse", {"sessionId": "s", "modes": {"currentModeId": "a", "availableModes": []}}),
]
OTHERS: tuple[Any, ...] = (None, True, -1, 0.5, 1e300, "", "other", [], [1], {}, {"type": "other"})


def changed(value: Any) -> Iterator[Any]:  # noqa: ANN401  any JSON
    """The value with one place left out or replaced, for each of its places."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        for key, inner in members.items():
            yield {name: each for name, each in members.items() if name != key}
            yield from ({**members, key: other} for other in (*OTHERS, *changed(inner)))
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        for at, inner in enumerate(items):
            yield from ([*items[:at], other, *items[at + 1 :]] for other in (*OTHERS, *changed(inner)))


@pytest.fixture(scope="module")
def schema() -> JsonObject:
    found = official_schema()
    if found is None:
        pytest.skip("npm cannot fetch the official schema here")
    return found


@pytest.mark.parametrize(("name", "message"), MESSAGES, ids=json.dumps)
def test_the_quick_check_and_jsonschema_agree_on_every_changed_message(
    schema: JsonObject, name: str, message: dict[str, Any]
):
    definitions: Any = schema["$defs"]
    quick = QuickSchema(definitions)
    slow: Any = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": definitions})
    assert quick.takes(name, message)
    for each in (message, *changed(message)):
        assert quick.takes(name, each) == slow.is_valid(each), each


def test_a_schema_with_a_keyword_that_is_not_known_is_left_to_jsonschema():
    quick = QuickSchema({"a": {"$ref": "#/$defs/b"}, "b": {"pattern": "x", "anyOf": [{"$ref": "#/$defs/a"}]}})
    assert not quick.takes("a", "x")
    assert not quick.takes("a", "x")
