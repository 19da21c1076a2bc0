"""What forgetting and redacting may take out of an event: words, and never what the program reads again."""

import json
from pathlib import Path
from typing import Any

import pytest

from pattern_acp.domain.canonical import Json, JsonObject
from pattern_acp.journal.bundle_masks import mask_texts
from pattern_acp.memory.forgotten import MARK, forget_passage

FORMS = json.loads((Path(__file__).parent / "golden" / "payload_forms.json").read_text(encoding="utf-8"))

WORDS = [
    "DiffContent.new_text",
    "DiffContent.old_text",
    "DiffContent.path",
    "FileChange.path",
    "FileState.why_not",
    "ImageContent.data",
    "ImagePart.data",
    "InstructionFile.path",
    "LeftOut.path",
    "LeftOut.why",
    "LinkContent.description",
    "LinkContent.uri",
    "Location.path",
    "OfferedTool.description",
    "OfferedTool.free_form",
    "OfferedTool.schema",
    "PinnedTool.definition",
    "PlanEntry.content",
    "ProjectPart.text",
    "RequestParts.messages",
    "RequestParts.system",
    "RequestParts.tools",
    "RequestParts.volatile",
    "RequestParts.volatile_text",
    "ResourcePart.lines",
    "ResourcePart.note",
    "ResourcePart.text",
    "ResourcePart.uri",
    "SavedFile.path",
    "ShownBlock.about",
    "ShownBlock.text",
    "TerminalContent.output",
    "TextContent.text",
    "TextPart.text",
    "ThinkingPart.redacted",
    "ThinkingPart.text",
    "ToolCallPart.arguments",
    "ToolCallPart.problem",
    "ToolCallView.title",
    "ToolResultPart.text",
    "block_committed.reason",
    "block_configured.after",
    "block_configured.before",
    "block_deleted.reason",
    "block_forgotten.reason",
    "block_restored.reason",
    "context_added.sources",
    "context_compacted.text",
    "entry_status_changed.reason",
    "handoff_left.request",
    "handoff_left.files",
    "handoff_left.steps",
    "handoff_left.commands",
    "entry_archived.paths",
    "entry_archived.reason",
    "error_reported.sentence",
    "events_redacted.reason",
    "grant_stored.pattern",
    "instructions_compiled.system",
    "job_ended.last_line",
    "job_started.line",
    "memory_shown.text",
    "message_partial.text",
    "message_partial.thinking",
    "permission_asked.reason",
    "permission_decided.reason",
    "prompt_refused.reason",
    "session_rewound.problems",
    "session_titled.title",
    "tool_call_finished.full_output",
    "tool_call_finished.result_text",
    "tool_call_finished.title",
    "tool_call_started.repairs",
    "tool_result_extended.text",
    "turn_ended.sentence",
    "usage_reported.prices",
]
"""Every text of an event that may lose words: those of people, of models and of files, and sentences for people."""


def texts() -> list[tuple[str, str, Json]]:
    """Each field that holds a text or texts: its form, its name, and a value of it that holds the word `word`."""
    found: list[tuple[str, str, Json]] = []
    for form, body in FORMS.items():
        fields: dict[str, Any] = body.get("fields", body)
        for name, hint in fields.items():
            if not isinstance(hint, str) or "Mapping" in hint:
                continue
            kind = hint.removesuffix(" = ...")
            is_enum = "values" in FORMS.get(kind, {})
            if kind.startswith("tuple[str"):
                found.append((form, name, ["a word"]))
            elif "str" in kind.split(" | ") or is_enum:
                found.append((form, name, "a word"))
    return found


def test_every_text_of_an_event_is_words_or_says_what_something_is():
    words = forget_passage("word")
    masked: list[str] = []
    for form, name, value in texts():
        payload: JsonObject = {name: value}
        if form == "session_configured":
            payload = {"option": "mode", "by": "client", **payload}
        if words.mask_json(payload)[name] != value:
            masked.append(f"{form.strip('<>')}.{name}")
    assert sorted(masked) == sorted(WORDS)


@pytest.mark.parametrize(
    "payload",
    [
        {"option": "tools", "value": "text", "by": "client"},
        {"setting": "permission", "before": "text", "after": "text"},
        {"removed": ["msg_text", "turn_text_memory"], "shortened": ["call_text"]},
        {"parts": ["text", "files"], "blocks": ["block_text"]},
        {"cause": "text", "thought_level": "text", "tool_form": "text", "given": "text"},
    ],
    ids=lambda payload: next(iter(payload)),
)
def test_what_the_program_reads_again_stays(payload: JsonObject):
    assert forget_passage("text").mask_json(payload) == payload
    assert mask_texts(payload, lambda _: "") == payload


def test_all_that_a_model_gave_a_tool_is_words():
    payload: JsonObject = {"raw_input": {"command": "echo text", "name": "text", "a": [{"label": "text"}]}}
    masked: JsonObject = {"raw_input": {"command": f"echo {MARK}", "name": MARK, "a": [{"label": MARK}]}}
    assert forget_passage("text").mask_json(payload) == masked
