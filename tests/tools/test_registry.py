import json

import msgspec
import pytest
from jsonschema import Draft202012Validator

from pattern_acp.providers.catalogue import describe
from pattern_acp.tools.base import Tool
from pattern_acp.tools.registry import (
    default_tools,
    edit_tool_left_out,
    made,
    offered,
    one_for_plans,
    parameter_names,
)
from pattern_acp.tools.schema import WORDS, failed_title
from tests.support.editor import JsonDict

READS_ONLY = [
    "read_file",
    "list_directory",
    "find_files",
    "search_text",
    "code_map",
    "update_plan",
    "memory_read",
    "memory_search",
    "session_search",
    "read_attachment",
    "fetch_url",
    "delegate",
    "ask_user",
]


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.spec.name for tool in tools]


def test_there_are_the_tools_of_the_contract():
    assert names(default_tools()) == [
        "read_file",
        "write_file",
        "edit_file",
        "apply_patch",
        "list_directory",
        "find_files",
        "search_text",
        "code_map",
        "run_command",
        "job",
        "update_plan",
        "task",
        "memory_read",
        "memory_write",
        "memory_search",
        "session_search",
        "read_attachment",
        "fetch_url",
        "delegate",
        "ask_user",
    ]


def test_requests_say_of_every_tool_what_the_tool_says_of_itself():
    known = default_tools()
    for tool, own in zip(known, (made(tool.spec.name) for tool in known), strict=True):
        assert msgspec.json.encode(tool.spec) == msgspec.json.encode(own.spec), "run scripts/tool_specs"
        assert (tool.kind, tool.changes_things) == (own.kind, own.changes_things), "run scripts/tool_specs"


def test_plan_mode_offers_nothing_that_changes_anything():
    assert names(offered(default_tools(), mode_is_plan=True)) == READS_ONLY
    tools = default_tools()
    assert offered(tools, mode_is_plan=False) == tools


@pytest.mark.parametrize(
    ("model", "tool"),
    [
        ("gpt-6.1-terra", "apply_patch"),
        ("gpt-5-mini", "apply_patch"),
        ("gpt-4.1", "apply_patch"),
        ("openai/gpt-oss-120b", "apply_patch"),
        ("o3-mini", "apply_patch"),
        ("gpt-5.2-codex", "apply_patch"),
        ("gpt-4o", "edit_file"),
        ("claude-sonnet-5-5", "edit_file"),
        ("qwen3-coder", "edit_file"),
    ],
)
def test_a_model_edits_with_the_tool_that_it_was_trained_on(model: str, tool: str):
    info = describe("openai", model).info
    left_out = edit_tool_left_out("auto", info)
    shown = names(offered(default_tools(), mode_is_plan=False, left_out=left_out))
    assert [name for name in shown if name in {"edit_file", "apply_patch"}] == [tool]


def test_the_person_may_choose_the_edit_tool():
    info = describe("openai", "gpt-5").info
    assert edit_tool_left_out("edit_file", info) == ("apply_patch",)
    assert edit_tool_left_out("apply_patch", info) == ("edit_file",)
    assert edit_tool_left_out("both", info) == ()


@pytest.mark.parametrize(
    ("model", "has_task", "named", "plans_with"),
    [
        ("gpt-5.2-codex", True, (), ["update_plan", "task"]),
        ("claude-sonnet-5-5", True, (), ["task"]),
        ("claude-sonnet-5-5", False, (), ["update_plan"]),
        ("claude-sonnet-5-5", True, ("update_plan",), ["update_plan", "task"]),
    ],
)
def test_a_model_plans_with_the_tool_that_it_was_trained_on_or_with_a_task(
    model: str, named: tuple[str, ...], plans_with: list[str], *, has_task: bool
):
    tools = tuple(tool for tool in default_tools() if has_task or tool.spec.name != "task")
    shown = names(one_for_plans(tools, describe("openai", model).info, named))
    assert [name for name in shown if name in {"update_plan", "task"}] == plans_with


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"pages"}),
        ("search_text", {"offset", "form"}),
        ("code_map", {"kinds"}),
        ("job", {"key"}),
        ("memory_read", {"history", "version"}),
        ("memory_write", {"kind", "paths", "until", "scope", "version"}),
        ("memory_search", {"since", "until", "kinds"}),
        ("delegate", {"paths", "checks", "needs", "background"}),
    ],
)
def test_a_model_that_writes_only_what_a_schema_lists_reaches_what_it_needs(tool: str, arguments: set[str]):
    (spec,) = (each.spec for each in default_tools() if each.spec.name == tool)
    properties = spec.input_schema["properties"]
    assert isinstance(properties, dict)
    assert arguments <= set(properties)


def test_all_tools_together_leave_most_of_a_first_request_of_10_kb_to_the_conversation():
    specs = [
        {"name": tool.spec.name, "description": tool.spec.description, "input_schema": tool.spec.input_schema}
        for tool in default_tools()
    ]
    assert len(json.dumps(specs).encode()) <= 8_500


def test_the_tools_are_the_same_bytes_every_time():
    first, second = ([json.dumps(tool.spec.input_schema) for tool in default_tools()] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("tool", default_tools(), ids=lambda tool: tool.spec.name)
def test_a_schema_is_a_valid_json_schema_of_one_object(tool: Tool):
    Draft202012Validator.check_schema(tool.spec.input_schema)
    assert tool.spec.input_schema["type"] == "object"
    assert len(tool.spec.description) <= 240


def test_words_of_titles_are_of_tools_that_there_are():
    assert set(WORDS) <= set(names(default_tools()))


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("edit_file", {"path": "src/a.py", "edits": "none"}, "Edit src/a.py"),
        ("run_command", {"command": "make\nmake test", "timeout_seconds": -1}, "make"),
        ("memory_read", {"label": "human"}, "Read memory: human"),
        ("theirs_edit", {"path": "a.py"}, "theirs_edit a.py"),
        ("edit_file", {"arguments": "{"}, "edit_file"),
        ("search_text", {"pattern": "x\u202ey"}, "Search x\\u202ey"),
        ("", {}, "unnamed tool"),
    ],
)
def test_a_call_that_could_not_be_prepared_is_titled_as_one_that_could(name: str, arguments: JsonDict, title: str):
    assert failed_title(name, arguments) == title


def test_arguments_that_no_request_lists_are_known_by_name_too():
    assert {"path", "old_text", "kinds", "checks", "wait_seconds"} <= parameter_names()
