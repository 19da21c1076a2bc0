import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.action_lines import Form, Verbs, read_form, split_action
from pattern_acp.domain.action_runs import Action, ActionReader, RunEnd, ToolVerb, write_action
from pattern_acp.domain.canonical import Json, JsonObject

TEXT: JsonObject = {"type": "string"}
READ = ToolVerb("read_file", {"properties": {"path": TEXT}, "required": ["path"]})
RUN = ToolVerb("run_command", {"properties": {"command": TEXT}, "required": ["command"]})
WRITE = ToolVerb("write_file", {"properties": {"path": TEXT, "content": TEXT}, "required": ["path", "content"]})
VERBS = Verbs((READ, RUN, WRITE))


def answer(text: str, size: int = 0) -> tuple[str, RunEnd]:
    """What is shown of an answer that comes in pieces of `size` characters, and its end."""
    reader = ActionReader(VERBS, "[results")
    shown = ""
    for start in range(0, len(text), size or max(len(text), 1)):
        shown += reader.feed(text[start : start + (size or len(text))])
    end = reader.end()
    return shown + end.text, end


def reads(path: str) -> Action:
    return Action("read_file", {"path": path})


@pytest.mark.parametrize("size", [0, 1, 3])
def test_the_run_at_the_end_is_found_and_never_shown(size: int):
    text = "I look.\n\n/read_file a.py\n\n/Read-File path=b.py\n/write_file path=c content=<<END\n/etc\nEND\n\n"
    shown, end = answer(text, size)
    assert shown == "I look.\n\n"
    assert end.actions == (reads("a.py"), reads("b.py"), Action("write_file", {"path": "c", "content": "/etc\n"}))


@pytest.mark.parametrize(
    "text",
    [
        "Nothing to do.",
        "/usr/bin/env python",
        "/etc is a folder",
        "/read_files a",
        "say /read_file a.py",
        " /read_file a.py",
        "> /read_file a.py",
        "`/read_file a.py`",
        "/ read_file a",
        "//read_file a",
        "http://x/read_file a",
        "```\nls\n/read_file a\n```\nand more",
        "~~~~\n```\n/read_file a\n~~~~\nand more",
    ],
)
def test_text_that_is_no_action_stays_text_to_the_letter(text: str):
    for size in (0, 1):
        shown, end = answer(text, size)
        assert (shown, end.actions, end.problem) == (text, (), "")


def test_text_comes_out_as_soon_as_it_can_be_no_action():
    reader = ActionReader(VERBS, "[results")
    given = [reader.feed(piece) for piece in ("Hel", "lo\n", "/us", "r/bin ", "x\n", "/rea", "d_file", " a")]
    assert given == ["Hel", "lo\n", "", "/usr/bin ", "x\n", "", "", ""]
    assert reader.end().actions == (reads("a"),)


def test_an_action_before_other_text_runs_not_and_neither_does_anything_behind_it():
    shown, end = answer("/read_file a\nThen:\n/run_command rm b\n")
    assert shown == "/read_file a\nThen:\n/run_command rm b\n"
    assert (end.actions, end.verb) == ((), "read_file")
    assert "Text follows it" in end.problem


def test_actions_in_a_fence_run_not_and_the_model_is_told():
    shown, end = answer("So:\n```text\n/read_file a\n```\n")
    assert shown == "So:\n```text\n/read_file a\n```\n"
    assert (end.actions, end.verb) == ((), "read_file")
    assert "code fence" in end.problem


def test_one_action_that_cannot_be_read_keeps_the_whole_run_from_running():
    shown, end = answer('Well.\n/read_file a\n/write_file path=b content="x\n/run_command rm c\n')
    assert shown == "Well.\n"
    assert end.actions == ()
    assert end.problem.startswith("Action 2, /write_file, cannot be read: The value of content is not closed")
    assert end.raw == '/read_file a\n/write_file path=b content="x\n/run_command rm c\n'


def test_a_frame_that_is_never_closed_hides_no_action():
    _, end = answer("/write_file path=b content=<<END\n/run_command rm c\n/run_command rm d")
    assert end.actions == ()
    assert "a line that is END alone" in end.problem


def test_results_that_a_model_invents_are_not_read():
    shown, end = answer("/read_file a\n\n[results of 1]\nIt is empty.\n/run_command rm a\n", 2)
    assert (shown, end.actions) == ("", (reads("a"),))


def test_words_of_reconsideration_change_nothing():
    _, end = answer("Wait, never mind. Actually no.\n/run_command echo scratch that, hold on")
    assert end.actions == (Action("run_command", {"command": "echo scratch that, hold on"}),)


def test_verbs_that_could_be_taken_for_each_other_are_refused():
    with pytest.raises(ValueError, match="there twice"):
        Verbs((ToolVerb("read_file"), ToolVerb("readFile")))


def test_a_form_with_a_slot_left_out_does_not_have_it():
    forms = Verbs((Form("list", "path:word?"), Form("swap", "all:flag a:quoted with b:quoted")))
    assert read_form("/list", forms) == ("list", {})
    assert read_form("swap ALL 'x' with \"y\\n\"", forms) == ("swap", {"all": "ALL", "a": "x", "b": "y\n"})
    assert read_form("swap x with y", forms) is None
    assert read_form("/", forms) is None


def test_a_slash_alone_or_before_a_blank_begins_no_action():
    assert split_action("/") is None
    assert split_action("/ help") is None
    assert split_action("/help  me\nplease ") == ("help", "me\nplease")


PIECES = st.sampled_from(["\n", "/", "read_file", "write_file", " ", "```", "<<END", "END", "=", '"', "{", "path", "a"])


@given(st.lists(PIECES, max_size=30).map("".join) | st.text(max_size=60), st.integers(1, 7))
def test_pieces_make_no_difference(text: str, size: int):
    whole, end = answer(text)
    pieces, end_of_pieces = answer(text, size)
    assert (whole, end.actions, end.problem) == (pieces, end_of_pieces.actions, end_of_pieces.problem)


@given(st.text(st.characters(exclude_characters="/"), max_size=200), st.integers(1, 50))
def test_text_without_actions_is_given_out_unchanged(text: str, size: int):
    shown, end = answer(text, size)
    assert (shown, end.actions, end.problem) == (text, (), "")


CONTENTS = st.text(st.sampled_from("/ \n\rEND```>'\"") | st.characters(exclude_categories=["Cs"]), max_size=40)


@given(st.lists(st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=3), st.integers(1, 9))
def test_any_calls_are_read_from_the_end_of_an_answer(contents: list[tuple[str, str]], size: int):
    calls: list[dict[str, Json]] = [{"path": path, "content": content} for path, content in contents]
    text = "Now:\n" + "\n".join(write_action(WRITE, call) for call in calls)
    shown, end = answer(text, size)
    assert shown == "Now:\n"
    assert end.actions == tuple(Action("write_file", call) for call in calls)
