"""What tests of ACP v2 say as a client, over `FakeEditor`."""

from typing import cast

from tests.support.editor import FakeEditor, JsonDict

SECOND: JsonDict = {
    "protocolVersion": 2,
    "info": {"name": "fake-editor", "version": "1.0"},
    "capabilities": {},
}
"""How a client of version 2 introduces itself."""


def prompt_of(session: str, text: str, key: str = "") -> JsonDict:
    """The parameters of a prompt of plain text."""
    params: JsonDict = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return params | {"idempotencyKey": key} if key else params


async def send(editor: FakeEditor, session: str, text: str, key: str = "") -> str:
    """Send a prompt; the id of the message that became part of the conversation."""
    return cast("str", (await editor.request("session/prompt", prompt_of(session, text, key)))["messageId"])


def states(editor: FakeEditor) -> list[str]:
    """All states of the foreground so far, `idle` with its stop reason; not those of subagents."""
    own = [one for one in editor.updates if one["sessionId"] not in subagents(editor)]
    found = [one["update"] for one in own if one["update"]["sessionUpdate"] == "state_update"]
    return [":".join(filter(None, (one["state"], one.get("stopReason", "")))) for one in found]


def subagents(editor: FakeEditor) -> list[str]:
    """The sessions of subagents that were announced so far."""
    return list(dict.fromkeys(cast("str", one["sessionId"]) for one in editor.of_kind("subagent_update")))


async def until_idle(editor: FakeEditor, times: int = 1) -> None:
    """Wait until so many turns have ended."""
    await editor.wait_until(lambda: sum(state.startswith("idle:") for state in states(editor)) >= times)


def kinds(editor: FakeEditor) -> list[str]:
    """The variants of all updates so far."""
    return [update["update"]["sessionUpdate"] for update in editor.updates]
