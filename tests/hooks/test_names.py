"""Our tools in the words of scripts that were written for Claude Code."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.hooks import input_for_hook, input_from_hook, matches, theirs

FOLDER = "/work"


def test_tools_have_the_names_that_scripts_know():
    assert theirs("run_command") == "Bash"
    assert theirs("files__read") == "mcp__files__read"
    assert theirs("memory_write") == "memory_write"


def test_a_matcher_is_held_against_the_whole_name_in_both_spellings():
    assert matches("", "run_command")
    assert matches("Edit|Write", "write_file")
    assert matches("write_file", "write_file")
    assert matches("mcp__.*", "files__read")
    assert not matches("Bas", "run_command")
    assert not matches("Edit|Write", "read_file")


def test_a_hook_is_told_both_spellings_of_arguments():
    assert input_for_hook("write_file", {"path": "a.py", "content": "x"}, FOLDER) == {
        "path": "a.py",
        "file_path": "/work/a.py",
        "content": "x",
    }
    edit = {"path": "/a", "edits": [{"old_text": "x", "new_text": "y"}]}
    told = input_for_hook("edit_file", edit, FOLDER)
    assert (told["file_path"], told["old_string"], told["new_string"]) == ("/a", "x", "y")


def test_what_a_hook_changes_comes_back_in_our_words():
    before = {"path": "a.py", "content": "x"}
    told = input_for_hook("write_file", before, FOLDER)
    assert input_from_hook("write_file", before, told, {**told, "content": "y"}) == {"path": "a.py", "content": "y"}
    assert input_from_hook("write_file", before, told, {"file_path": "/b", "content": "x"}) == {
        "path": "/b",
        "content": "x",
    }
    edit: JsonObject = {"path": "/a", "edits": [{"old_text": "x", "new_text": "y"}]}
    told = input_for_hook("edit_file", edit, FOLDER)
    assert input_from_hook("edit_file", edit, told, {**told, "new_string": "z"})["edits"] == [
        {"old_text": "x", "new_text": "z"}
    ]


@given(
    st.sampled_from(["run_command", "edit_file", "write_file", "read_file", "other"]),
    st.dictionaries(st.sampled_from(["path", "command", "content", "start_line"]), st.text(max_size=5)),
)
def test_an_answer_that_repeats_what_was_told_changes_nothing(tool: str, arguments: dict[str, str]):
    told = input_for_hook(tool, arguments, FOLDER)
    assert input_from_hook(tool, arguments, told, told) == arguments
