import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.action_runs import ActionError, OpenAction, ToolVerb, write_action
from pattern_acp.domain.canonical import Json, JsonObject


def object_of(*required: str, **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT: JsonObject = {"type": "string"}
NUMBER: JsonObject = {"type": "integer"}
EDIT = object_of("old_text", "new_text", old_text=TEXT, new_text=TEXT, replace_all={"type": "boolean"})
READ = ToolVerb("read_file", object_of("path", path=TEXT, start_line=NUMBER))
RUN = ToolVerb("run_command", object_of("command", command=TEXT, seconds=NUMBER))
WRITE = ToolVerb("write_file", object_of("path", "content", path=TEXT, content=TEXT))
CHANGE = ToolVerb("edit_file", object_of("path", "edits", path=TEXT, edits={"type": "array", "items": EDIT}))


def read(verb: ToolVerb, text: str) -> JsonObject:
    first, *lines = text.split("\n")
    assert first.startswith(f"/{verb.name}")
    action = OpenAction(verb)
    action.begin(first.removeprefix(f"/{verb.name}").strip())
    for line in lines:
        assert action.wants_more
        action.take(line)
    return action.end()


@pytest.mark.parametrize(
    ("verb", "text", "arguments"),
    [
        (READ, "/read_file src/a.py", {"path": "src/a.py"}),
        (READ, '/read_file "my file.txt"', {"path": "my file.txt"}),
        (READ, "/read_file path=a b.py start_line=5", {"path": "a b.py", "start_line": 5}),
        (READ, "/read_file path=5 start_line=5", {"path": "5", "start_line": 5}),
        (READ, "/read_file path='a=b c' start_line=1", {"path": "a=b c", "start_line": 1}),
        (READ, '/read_file {"path": "a",\n "start_line": 2}', {"path": "a", "start_line": 2}),
        (RUN, '/run_command X=1 make "a b" | wc', {"command": 'X=1 make "a b" | wc'}),
        (RUN, "/run_command command=pytest -q seconds=9", {"command": "pytest -q", "seconds": 9}),
        (RUN, "/run_command echo no, wait, actually never mind", {"command": "echo no, wait, actually never mind"}),
        (RUN, "/run_command <<END\ncd a\nls\nEND", {"command": "cd a\nls\n"}),
        (
            WRITE,
            "/write_file path=a content=<<'EOF'\n```\n/run_command x\n> y\nEOF",
            {"path": "a", "content": "```\n/run_command x\n> y\n"},
        ),
        (WRITE, "/write_file path=a content=<<-END\nx\nEND", {"path": "a", "content": "x"}),
        (WRITE, "/write_file path=a content=<<END\nEND", {"path": "a", "content": ""}),
        (WRITE, "/write_file path=a content=<<ENDE_ÄÖ\nx\nENDE_ÄÖ", {"path": "a", "content": "x\n"}),
        (
            CHANGE,
            "/edit_file path=a edits.1.old_text=<<A edits.1.new_text=<<B edits.2.old_text=\"x\" edits.2.new_text=''"
            "\n1\nA\n2\n\nB",
            {"path": "a", "edits": [{"old_text": "1\n", "new_text": "2\n\n"}, {"old_text": "x", "new_text": ""}]},
        ),
        (CHANGE, '/edit_file path=a edits=[{"old_text": "1"}]', {"path": "a", "edits": [{"old_text": "1"}]}),
        (ToolVerb("list_jobs"), "/list_jobs", {}),
    ],
)  # fmt: skip
def test_an_action_is_read(verb: ToolVerb, text: str, arguments: JsonObject):
    assert read(verb, text) == arguments


@pytest.mark.parametrize(
    ("verb", "text", "words"),
    [
        (WRITE, "/write_file a.txt hello", "must be NAME=VALUE, not 'a.txt hello'"),
        (WRITE, "/write_file path=a content=<<END\nx", "a line that is END alone"),
        (WRITE, '/write_file path=a content="x', "not closed on its line"),
        (WRITE, '/write_file path="a"b', "A blank must follow the value of path"),
        (WRITE, '/write_file path="a" colour=1', "names are path, content"),
        (WRITE, "/write_file path=a path=b", "path appears twice"),
        (WRITE, '/write_file {"path": "a"', "The JSON object is not closed"),
        (CHANGE, "/edit_file path=a edits.2.old_text=x", "counted from 1"),
        (CHANGE, "/edit_file edits=x edits.1.old_text=y", "inside a value that has been set whole"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(verb: ToolVerb, text: str, words: str):
    with pytest.raises(ActionError, match=words.replace("(", r"\(")):
        read(verb, text)


ANY = st.sampled_from('ab E\n\r"\\=<-. 1\u2028é') | st.characters(exclude_categories=["Cs"])
TRAPS = ["END", "END\nEND2\n", "<<END", "/run_command x", "x=1", "true", "5", "```\n", "null", ""]
TEXTS = st.text(ANY, max_size=30) | st.sampled_from(TRAPS)
NAMES = st.sampled_from(["path", "text", "edits", "a b", "", "x.1", "1", "é"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    TEXTS | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.sampled_from([{}, object_of("path", path=TEXT, text=NUMBER)]))
def test_any_call_is_the_same_after_being_written_and_read(arguments: dict[str, Json], schema: JsonObject):
    verb = ToolVerb("tool", schema)
    text = write_action(verb, arguments)
    assert json.dumps(read(verb, text)) == json.dumps(arguments)


def test_edits_of_several_lines_are_written_as_frames_that_the_text_does_not_close():
    edits: list[Json] = [{"old_text": "END\n", "new_text": "a\nEND2 \r"}, {"old_text": "b", "new_text": "c"}]
    text = write_action(CHANGE, {"path": "src/a.py", "edits": edits})
    assert text.split("\n") == [
        "/edit_file path=src/a.py edits.1.old_text=<<END3 edits.1.new_text=<<-END3 "
        "edits.2.old_text=b edits.2.new_text=c",
        "END",
        "END3",
        "a",
        "END2 \r",
        "END3",
    ]
    assert read(CHANGE, text) == {"path": "src/a.py", "edits": edits}
