"""Structural texts of a recorded event: those that say what something is, not what anybody said.

Owns: where such texts are, and the walk through an event's stored form. Must not know: how words are recognised, or
what is in their place. A text counts as words unless it is listed here, so that a new field of an event loses the
words that are forgotten or redacted without anybody having to think of it. What is listed is read by the program
again: a session whose mode or tool form read `[forgotten]` could not be opened any more.

A text is known by the object it is in and its key there. The object of an event is called by the event's kind, a part
of a message or the content of a tool call by its `type`, any other by the key that it stands under.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeAlias

from pattern_acp.domain.canonical import Json, JsonObject

_ARGUMENTS = "raw_input"
"""The key of a tool's arguments. Their keys are not ours."""


class TextRole(Enum):
    """The role of a text in an event."""

    WORDS = "words"
    """Words of a user, a model, a file or a program."""
    KIND = "kind"
    """An id, or one of a fixed set of values."""
    NAME = "name"
    """A name by which other records point to something, such as a folder, a label or a hash. A bundle can omit it."""
    ARGUMENTS = "arguments"
    """All that a model gave a tool: any JSON value, not only a text."""


Leaf: TypeAlias = Callable[[TextRole, str, Json], Json]
"""The replacement of a text, by its role and its key."""

_BLOCK = ("label", "owner", "frontiers_before", "frontiers_after")

_KINDS: dict[str, tuple[str, ...]] = {
    "session_created": ("mode", "model", "parent", "fork_hash"),
    "session_opened": ("how",),
    "session_configured": ("option", "value", "by"),
    "model_requested": ("model", "provider"),
    "tool_call_finished": ("status", "failure"),
    "permission_decided": ("verdict", "rule", "layer"),
    "accesses": ("kind",),
    "snapshot": ("release", "mode", "sandbox"),
    "grants": ("effect", "kind", "lifetime"),
    "rules": ("effect", "kind", "layer"),
    "permission_asked": ("options",),
    "permission_answered": ("answer",),
    "usage_reported": ("model",),
    "error_reported": ("kind", "code"),
    "turn_ended": ("stop_reason",),
    "block_committed": ("scope", "operation"),
    "block_deleted": ("scope",),
    "block_restored": ("scope",),
    "block_forgotten": ("scope", "redaction"),
    "archive_imported": ("root", "stores"),
    "memory_fork_ended": ("outcome",),
    "block_healed": ("scope",),
    "block_configured": ("scope", "setting"),
    "block_shared": ("scope", "permission", "with_scope"),
    "entry_archived": ("scope", "kind", "severity", "supersedes"),
    "entry_verified": ("scope",),
    "entry_status_changed": ("scope", "status"),
    "grant_stored": ("effect", "kind", "lifetime"),
    "grant_revoked": ("effect", "kind", "lifetime"),
    "folder_trust_decided": ("decision",),
    "job_ended": ("outcome", "signal"),
    "checkpoint_taken": ("cause", "state_hash"),
    "landing_ended": ("outcome",),
    "rewind_started": ("parts", "blocks"),
    "session_rewound": ("parts",),
    "subagent_recorded": ("kind",),
    "context_compacted": ("strategy", "trigger", "removed", "shortened"),
    "events_redacted": ("redaction", "cause"),
    "budget_changed": ("scope", "allowance", "by"),
    "handoff_left": ("state",),
    "tasks_changed": ("operation", "task_ids"),
    "job_moved": ("state", "by"),
    "job_settled": ("outcome", "by", "agreed_by"),
    "terms": ("most", "model"),
    "quotes": ("model",),
    "used": ("node",),
    "message": ("role",),
    "text": ("type",),
    "thinking": ("type", "wire", "provider"),
    "image": ("type", "media_type"),
    "images": ("media_type",),
    "resource": ("type", "media_type", "given"),
    "tool_call": ("type",),
    "tool_result": ("type",),
    "diff": ("type",),
    "files": ("type",),
    "terminal": ("type",),
    "link": ("type",),
    "call": ("kind",),
    "entries": ("priority", "status"),
    "parts": ("kind", "thought_level", "tool_form", "node"),
    "cost": ("currency",),
    "spent": ("currency",),
    "blocks": ("permission",),
    "definitions": ("word",),
    "memory": ("frontiers",),
    "state": ("kind",),
    "before": ("kind",),
    "after": ("kind",),
}
"""Hashes of content are not among them: one can try out what short texts they are of."""

_NAMES: dict[str, tuple[str, ...]] = {
    "session_created": ("cwd", "additional_directories", "persona", "persona_identity"),
    "session_opened": ("cwd", "additional_directories"),
    "instructions_compiled": ("identity", "symbol", "predecessor"),
    "definition_noted": ("identity", "symbol"),
    "definitions_followed": ("project", "follow"),
    "definitions": ("identity", "symbol", "tier", "place"),
    "model_requested": ("digest",),
    "block_committed": _BLOCK,
    "block_deleted": _BLOCK,
    "block_restored": _BLOCK,
    "block_forgotten": _BLOCK,
    "block_healed": _BLOCK,
    "block_configured": _BLOCK,
    "block_shared": (*_BLOCK, "with_owner"),
    "entry_archived": ("owner", "host"),
    "entry_verified": ("owner",),
    "entry_status_changed": ("owner",),
    "server_tools_pinned": ("server", "identity"),
    "permission_decided": ("policy",),
    "grant_stored": ("project", "persona"),
    "grant_revoked": ("project", "persona"),
    "folder_trust_decided": ("root", "digest"),
    "thinking": ("signature",),
    "tool_call": ("name",),
    "call": ("name",),
    "tools": ("name", "digest"),
    "quotes": ("persona",),
    "parts": ("name", "digest"),
    "blocks": ("label",),
    "memory": ("label",),
    "state": ("digest",),
    "before": ("digest",),
    "after": ("digest",),
    "passage": ("digest",),
    "one": ("digest",),
    "other": ("digest",),
}

_TYPED = ("parts", "content")
"""Keys of lists whose objects say by their `type` what they are."""


def walk(kind: str, payload: JsonObject, leaf: Leaf) -> JsonObject:
    """The payload of an event of a kind, with what `leaf` makes of each text, and of all that a model gave a tool."""
    return {key: _value(kind, key, item, payload, leaf) for key, item in payload.items()}


def _value(form: str, key: str, value: Json, beside: JsonObject, leaf: Leaf) -> Json:
    if key == _ARGUMENTS:
        return leaf(TextRole.ARGUMENTS, key, value)
    if isinstance(value, str):
        return leaf(_role(form, key, beside), key, value)
    if isinstance(value, Mapping):
        return walk(_form(key, value, beside), value, leaf)
    if isinstance(value, Sequence):
        return [_value(form, key, each, beside, leaf) for each in value]
    return value


def _form(key: str, value: JsonObject, beside: JsonObject) -> str:
    """The form of an object under a key, as the table above calls it."""
    name = value.get("type") if key in _TYPED else beside.get("kind") if key == "event" else None
    return name if isinstance(name, str) else key


def _role(form: str, key: str, beside: JsonObject) -> TextRole:
    if key.endswith("_id") or key in _KINDS.get(form, ()):
        return TextRole.KIND
    if form == "block_configured" and key in {"before", "after"} and beside.get("setting") != "description":
        return TextRole.KIND
    return TextRole.NAME if key.endswith("_hash") or key in _NAMES.get(form, ()) else TextRole.WORDS
