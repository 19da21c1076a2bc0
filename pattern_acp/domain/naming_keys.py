"""Which values of what is recorded say what something is, not what anybody said.

Owns: the keys. Must not know: how words are recognised, or what stands in their place. Such a value is read by the
program again: a word that is to be forgotten or redacted stays in it, as a session whose mode or tool form read
`[forgotten]` could not be opened any more.
"""

from collections.abc import Mapping, Sequence

from pattern_acp.domain.canonical import Json

GIVEN = "raw_input"
"""What a model gave a tool. Its keys are not ours."""

_KINDS = frozenset(
    {
        "$float",
        "allowance",
        "answer",
        "by",
        "cause",
        "code",
        "command",
        "currency",
        "decision",
        "effect",
        "failure",
        "fork_hash",
        "frontiers",
        "given",
        "how",
        "kind",
        "lifetime",
        "media_type",
        "mode",
        "model",
        "operation",
        "option",
        "outcome",
        "parent",
        "permission",
        "priority",
        "provider",
        "redaction",
        "role",
        "rule",
        "scope",
        "setting",
        "severity",
        "signal",
        "state",
        "state_hash",
        "status",
        "stop_reason",
        "strategy",
        "supersedes",
        "thought_level",
        "tier",
        "tool_form",
        "trigger",
        "type",
        "verdict",
        "wire",
        "with_scope",
    }
)
"""Hashes of content are not among them: one can try out what short texts they are of."""

_LISTS = frozenset({"blocks", "options", "parts", "removed", "shortened"})
"""Lists of ids or of kinds, where they hold nothing but texts."""


def is_kind(key: str, value: Json, beside: Mapping[str, Json]) -> bool:
    """Whether the value of a key is an id or one of a fixed set; `beside` is the object that holds both."""
    if isinstance(value, str):
        return key in _KINDS or key.endswith("_id") or _is_choice(key, beside)
    if key in _LISTS and isinstance(value, Sequence):
        return all(isinstance(each, str) for each in value)
    return False


def _is_choice(key: str, beside: Mapping[str, Json]) -> bool:
    """Whether it is the value of a session's option, or a setting of a block other than its description."""
    if key == "value":
        return "option" in beside and "by" in beside
    return key in {"before", "after"} and beside.get("setting", "description") != "description"
