"""Near-valid arguments become what was plainly meant, and everything else stays what it is."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.argument_repair import (
    Repaired,
    fit_to_schema,
    meant_name,
    read_object,
    tool_elsewhere,
    whole_fields,
)
from pattern_acp.domain.canonical import Json, JsonObject

SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line": {"type": "integer"},
        "ratio": {"type": "number"},
        "all": {"type": "boolean"},
        "either": {"type": ["string", "integer"]},
        "edits": {
            "type": "array",
            "items": {"type": "object", "properties": {"old_text": {"type": "string"}, "count": {"type": "integer"}}},
        },
    },
}


@pytest.mark.parametrize(
    ("text", "value", "repairs"),
    [
        ('{"a": 1}', {"a": 1}, ()),
        ("", {}, ()),
        ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}, ("removed a trailing comma",)),
        ('```json\n{"a": 1}\n```', {"a": 1}, ("removed a code fence",)),
        ('```\n{"a": 1,}\n```\n', {"a": 1}, ("removed a code fence", "removed a trailing comma")),
        ('"{\\"a\\": 1}"', {"a": 1}, ("took the object out of a string",)),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}, ("read a line break inside a string",)),
        ('{"a": ",}", "b": "\\",]",}', {"a": ",}", "b": '",]'}, ("removed a trailing comma",)),
    ],
)
def test_what_is_plainly_meant_is_read_and_said(text: str, value: JsonObject, repairs: tuple[str, ...]):
    assert read_object(text) == Repaired(value, repairs)


@pytest.mark.parametrize(
    "text",
    [
        "{broken",
        '{"a": 1',
        '{"a": "cut',
        "[1]",
        "3",
        '"hello"',
        "null",
        '{"a": 1} {"b": 2}',
        '{"a":,}',
        "{,}x",
    ],
)
def test_what_is_cut_or_no_object_is_not_guessed(text: str):
    with pytest.raises(ValueError, match=r".+"):
        read_object(text)


@pytest.mark.parametrize(
    ("value", "fitted", "repairs"),
    [
        ({"Path": "A", "line": 3}, {"path": "A", "line": 3}, ("read a misspelt name as path",)),
        ({"line": "3"}, {"line": 3}, ("took line out of a string",)),
        (
            {"ratio": "0.5", "all": "True"},
            {"ratio": 0.5, "all": True},
            ("took ratio out of a string", "took all out of a string"),
        ),
        (
            {"edits": '[{"oldText": "x"}]'},
            {"edits": [{"old_text": "x"}]},
            ("took edits out of a string", "read a misspelt name as edits[0].old_text"),
        ),
        ({"edits": [{"count": "2"}]}, {"edits": [{"count": 2}]}, ("took edits[0].count out of a string",)),
    ],
)
def test_names_and_types_are_fitted_to_the_schema(value: JsonObject, fitted: JsonObject, repairs: tuple[str, ...]):
    assert fit_to_schema(value, SCHEMA) == Repaired(fitted, repairs)


@pytest.mark.parametrize(
    "value",
    [
        {"path": "3"},
        {"either": "3"},
        {"line": "three"},
        {"line": "3.5"},
        {"line": "true"},
        {"edits": '{"old_text": "x"}'},
        {"edits": "nonsense"},
        {"unknown": "1"},
        {"path": "a", "PATH": "b"},
        {"PATH": "a", "Path": "b"},
    ],
)
def test_what_could_mean_several_things_is_left_as_it_is(value: JsonObject):
    assert fit_to_schema(value, SCHEMA) == Repaired(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{}{"a":1}', {"a": 1}),
        ('{"a":1}{}', {"a": 1}),
        ('{"a":1}{"a":1}', {"a": 1}),
        ('{"a":1}\n{"a": 1}\n', {"a": 1}),
        ("{}{}", {}),
        ('{"a":1}</tool_call>', {"a": 1}),
        ('<tool_call>\n{"a":1}\n</tool_call>', {"a": 1}),
        ('{"a":1}</function></tool_call>', {"a": 1}),
        ('{"a":1}}', {"a": 1}),
        ('{"a":{"b":[1]}}]}', {"a": {"b": [1]}}),
        ('{"a":1}\n```', {"a": 1}),
        ('```json {"a":1}```', {"a": 1}),
        ('<|message|>{"a":1}<|call|>', {"a": 1}),
        ('{"a":"x\ny"}}', {"a": "x\ny"}),
        ("{'a': 'b'}", {"a": "b"}),
        (
            "{'a': None, 'b': True, \"c\": \"it's None\", 'd': [False, 'True']}",
            {"a": None, "b": True, "c": "it's None", "d": [False, "True"]},
        ),
        ("{'a': 'it\\'s \"x\" \\n'}", {"a": 'it\'s "x" \n'}),
        ("{'a': {'b': [1, 'x']}}</tool_call>", {"a": {"b": [1, "x"]}}),
    ],
)
def test_what_servers_put_around_an_object_or_write_as_python_does_is_mended_and_told(text: str, value: JsonObject):
    read = read_object(text)
    assert read.value == value
    assert read.repairs
    assert not any(repr(each) in phrase for each in value.values() for phrase in read.repairs)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1}{"b":2}',
        '{"a":1}{"a":true}',
        '{"a":1} and then',
        '{"a":1}{"a":',
        '{"a":"b" \'c\'}',
        "{'a': 'b",
        "None",
        "}",
        "</tool_call>",
        "{'a': b}",
    ],
)
def test_several_objects_and_what_is_cut_or_said_beside_one_is_not_guessed(text: str):
    with pytest.raises(ValueError, match=r".+"):
        read_object(text)


@pytest.mark.parametrize(
    "name",
    [
        "read_file<|channel|>commentary",
        "read_file<|constrain|>json",
        "read_file<|channel|>",
        "default_api.read_file",
        "default_api:read_file",
        "repo_browser.read_file",
        "tool.read_file",
        "tools.read-file",
        "functions.read_file:0",
        "read_file()",
        "functions.read_file<|channel|>commentary",
    ],
)
def test_marks_and_namespaces_of_models_at_a_name_are_taken_away(name: str):
    assert meant_name(name, ["read_file", "write_file"]) == "read_file"


def test_a_tool_whose_name_begins_like_a_namespace_is_itself():
    assert meant_name("tool.Read", ["tool.read", "read"]) == "tool.read"
    assert meant_name("functions.", ["read"]) == meant_name("<|channel|>", ["read"]) == ""


@pytest.mark.parametrize("name", ["Read_File", "readFile", "read-file", "functions.read_file", "READ FILE"])
def test_another_case_of_a_name_is_that_name(name: str):
    assert meant_name(name, ["read_file", "write_file"]) == "read_file"


@pytest.mark.parametrize("name", ["read", "read_files", "", "---", "write"])
def test_another_name_is_no_name(name: str):
    assert meant_name(name, ["read_file", "write_file"]) == ""


def test_a_name_that_could_be_two_is_neither():
    assert meant_name("A_B", ["a_b", "ab"]) == ""


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_OBJECTS = st.dictionaries(st.text(max_size=4), _JSON, max_size=4)


@given(_OBJECTS)
def test_a_valid_object_is_never_changed(value: dict[str, Json]):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert read_object(text) == Repaired(value)


@given(_OBJECTS)
def test_wrapping_and_unwrapping_an_object_gives_it_back(value: dict[str, Json]):
    plain = json.dumps(value)
    assert read_object(f"```json\n{plain}\n```").value == value
    assert read_object(json.dumps(plain)).value == value


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str):
    with suppress(ValueError):
        assert isinstance(read_object(text).value, dict)


def test_the_phrases_hold_no_values():
    told = read_object('```\n{"token": "planted-value",}\n```').repairs
    told += fit_to_schema({"Line": "31337"}, SCHEMA).repairs
    assert "planted" not in " ".join(told)
    assert "31337" not in " ".join(told)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ('{"path": "a.txt", "content": "one tw', {"path": "a.txt"}),
        ('{"path": "a.txt", "con', {"path": "a.txt"}),
        (
            ' {"path" : "a\\"b,}.txt" , "x": {"y": [1, 2]}, "content": "',
            {"path": 'a"b,}.txt', "x": {"y": [1, 2]}},
        ),
        ('{"line": 12', {}),
        ('{"line": 12, "path": "a', {"line": 12}),
        ('{"path": "a.txt"', {}),
        ('{"path": "a.txt"}', {"path": "a.txt"}),
        ('{"content": "' + "x" * 500 + '", "path": "a.txt", ', {"path": "a.txt"}),
        ('{"edits": [{"old_text": "a"}, {"old_', {}),
        ('{"a": ' + "[" * 100_000, {}),
        ("", {}),
        ("{", {}),
        ('/write a.txt <<<{"path": "b", "c": 1}', {}),
        ('{1: 2, "a": 3}', {"a": 3}),
        ('{"a": \ud800', {}),
    ],
)
def test_only_short_fields_that_are_whole_are_kept_of_arguments_that_were_cut(text: str, fields: JsonObject):
    assert json.loads(whole_fields(text)) == fields


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=9) | st.integers() | st.lists(st.integers())), st.data())
def test_what_is_kept_of_cut_arguments_is_what_was_written(arguments: dict[str, Json], data: st.DataObject):
    text = json.dumps(arguments)
    kept = json.loads(whole_fields(text[: data.draw(st.integers(0, len(text)))]))
    assert kept.items() <= arguments.items() or all(arguments[key] == value for key, value in kept.items())


EDITS: JsonObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"old_text": {}, "new_text": {}, "replace_all": {"type": "boolean"}},
                "required": ["old_text", "new_text"],
            },
        },
    },
    "required": ["path", "edits"],
}


@pytest.mark.parametrize(
    "value",
    [
        {"file_path": "a.py", "old_string": "x", "new_string": "y"},
        {"path": "a.py", "edits": [{"old_string": "x", "new_string": "y"}]},
        {"filePath": "a.py", "old_str": "x", "new_str": "y"},
        {"path": "a.py", "old_text": "x", "new_text": "y"},
    ],
)
def test_an_edit_in_the_words_of_another_agent_is_ours(value: JsonObject):
    fitted = fit_to_schema(value, EDITS)
    assert fitted.value == {"path": "a.py", "edits": [{"old_text": "x", "new_text": "y"}]}
    assert fitted.repairs


@pytest.mark.parametrize(
    ("value", "ours"),
    [
        ({"label": "project", "content": "x"}, {"label": "project", "text": "x"}),
        ({"fact": "x"}, {"text": "x"}),
        ({"old_string": "x", "new_string": "y"}, {"old_text": "x", "text": "y"}),
        ({"text": "x", "content": "y"}, {"text": "x", "content": "y"}),
    ],
)
def test_what_other_agents_call_the_text_of_a_note_is_ours(value: JsonObject, ours: JsonObject):
    schema: JsonObject = {"type": "object", "properties": {"label": {}, "text": {}, "old_text": {}}}
    assert fit_to_schema(value, schema).value == ours


@pytest.mark.parametrize(
    "value",
    [
        {"path": "a.py", "old_string": "x"},
        {"path": "a.py", "file_path": "b.py", "edits": []},
        {"file_path": "a.py", "filename": "b.py", "edits": []},
        {"path": "a.py", "edits": [], "old_string": "x", "new_string": "y"},
    ],
)
def test_words_that_leave_a_choice_stay_as_they_are(value: JsonObject):
    assert fit_to_schema(value, EDITS) == Repaired(value)


def test_a_property_of_its_own_is_never_read_as_another():
    both: JsonObject = {"type": "object", "properties": {"offset": {}, "start_line": {}, "query": {}, "pattern": {}}}
    assert fit_to_schema({"offset": 3, "query": "x"}, both) == Repaired({"offset": 3, "query": "x"})
    assert fit_to_schema({"offset": 3}, {"properties": {"start_line": {}}}).value == {"start_line": 3}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("bash", "run_command"),
        ("Bash", "run_command"),
        ("functions.exec_command", "run_command"),
        ("str_replace", "edit_file"),
        ("str_replace_based_edit_tool", "edit_file"),
        ("Grep", "search_text"),
        ("TodoWrite", ""),
        ("python", ""),
        ("", ""),
    ],
)
def test_a_tool_of_another_agent_is_ours_where_we_have_it(name: str, meant: str):
    assert tool_elsewhere(name, ["run_command", "edit_file", "search_text"]) == meant
