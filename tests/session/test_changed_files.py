from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.ids import ToolCallId, TurnId
from pattern_acp.domain.tool_calls import DiffContent, ToolCallStatus, ToolCallView, ToolKind
from pattern_acp.journal.events import Event, ToolCallFinished, ToolCallStarted
from pattern_acp.session.changed_files import ChangedFile, Passage, changed_files

TURN = TurnId("turn_1")


def edit(call: str, diff: DiffContent, *, tool: str = "edit_file", failed: bool = False) -> list[Event]:
    call_id = ToolCallId(call)
    status = ToolCallStatus.FAILED if failed else ToolCallStatus.COMPLETED
    return [
        ToolCallStarted(TURN, ToolCallView(call_id, tool, "Edit", ToolKind.EDIT, {})),
        ToolCallFinished(TURN, call_id, status, "done", (diff,)),
    ]


def test_edits_of_one_file_are_one_change():
    events = edit("1", DiffContent("/w/a", "one\n", "two\n")) + edit("2", DiffContent("/w/a", "two\n", "three"))
    [file] = changed_files(events)
    assert file == ChangedFile("/w/a", (Passage("one\n", "three"),), 2)
    assert file.unified("a") == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-one\n+three\n\\ No newline at end of file\n"


def test_failed_calls_memory_and_what_was_changed_back_do_not_count():
    events = [
        *edit("1", DiffContent("/w/a", "one", "two")),
        *edit("2", DiffContent("/w/a", "two", "one")),
        *edit("3", DiffContent("/w/b", None, "x"), failed=True),
        *edit("4", DiffContent("/memory/human.md", "", "x"), tool="memory_write"),
    ]
    assert changed_files(events) == ()


def test_places_of_a_large_file_are_shown_one_after_the_other():
    events = edit("1", DiffContent("/w/a", "one\n", "two\n")) + edit("2", DiffContent("/w/a", "far\n", "near\n"))
    [file] = changed_files(events)
    assert file.unified("a").count("@@ -1 +1 @@") == 2
    assert file.unified("a").count("+++") == 1


def test_a_new_file_begins_at_nothing():
    [file] = changed_files(edit("1", DiffContent("/w/n", None, "x\n")))
    assert file.unified("n").startswith("--- /dev/null\n+++ b/n\n")


def test_a_file_that_was_made_and_taken_away_again_is_left_out_and_an_empty_new_one_is_not():
    events = [
        *edit("1", DiffContent("/w/a", None, "x\n")),
        *edit("2", DiffContent("/w/a", "x\n", "")),
        *edit("3", DiffContent("/w/b", None, "")),
    ]
    assert [file.path for file in changed_files(events)] == ["/w/b"]


def test_form_feeds_and_unicode_separators_end_no_line():
    [file] = changed_files(edit("1", DiffContent("/w/a", "a\x0cb\u2028c\nd\n", "a\x0cb\u2028c\ne\n")))
    assert file.unified("a").split("\n")[2:] == ["@@ -1,2 +1,2 @@", " a\x0cb\u2028c", "-d", "+e", ""]


def test_a_very_long_file_is_not_compared():
    text = "x\n" * 30_000
    assert "too long to compare" in ChangedFile("/w/a", (Passage(text, text + "y"),), 1).unified("a")


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=5)), max_size=10))
def test_before_is_the_first_text_and_after_the_last(writes: list[tuple[str, str]]):
    now: dict[str, str] = {"a": "start", "b": "start"}
    events: list[Event] = []
    for number, (path, text) in enumerate(writes):
        events += edit(str(number), DiffContent(path, now[path], text))
        now[path] = text
    found = {file.path: file.passages for file in changed_files(events)}
    assert found == {path: (Passage("start", text),) for path, text in now.items() if text != "start"}
