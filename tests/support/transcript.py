"""What a person saw of a session, from the updates that a client got.

Owns: the form in which a live turn and its replay must be equal: chunks of one message joined, calls as their start
and their end. Must not know: the journal.
"""

from collections.abc import Sequence
from typing import cast

from tests.support.editor import JsonDict

CHUNKS = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}

Item = tuple[str, ...]
"""Who and the text; or `call`, id, title, last status and content."""


def shown(updates: Sequence[JsonDict], prompt: str = "") -> list[Item]:
    """The transcript of `updates`. A live turn does not hold the person's prompt; give it then."""
    items: list[Item] = [("user", prompt)] if prompt else []
    message = ""
    calls: dict[str, int] = {}
    for update in updates:
        kind = cast("str", update["sessionUpdate"])
        if kind in CHUNKS:
            message = _chunk(items, update, message)
        elif kind in {"tool_call", "tool_call_update"}:
            message = ""
            _call(items, calls, update)
    return items


def _chunk(items: list[Item], update: JsonDict, message: str) -> str:
    """Add a chunk, to the item before when it is of the same message; returns that message's id."""
    who, text = CHUNKS[update["sessionUpdate"]], cast("str", update["content"].get("text", ""))
    own = cast("str", update.get("messageId") or "")
    if own and own == message and items and items[-1][0] == who:
        items[-1] = (who, items[-1][1] + text)
    else:
        items.append((who, text))
    return own


def _call(items: list[Item], calls: dict[str, int], update: JsonDict) -> None:
    call_id = cast("str", update["toolCallId"])
    at = calls.get(call_id)
    if at is None:
        calls[call_id] = len(items)
        items.append(("call", call_id, str(update["title"]), str(update.get("status")), str(update.get("content"))))
        return
    _, _, title, status, content = items[at]
    items[at] = (
        "call",
        call_id,
        str(update.get("title", title)),
        str(update.get("status", status)),
        str(update.get("content", content)),
    )
