from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.clock import ToolCallId, TurnId
from pattern_acp.domain.tool_calls import (
    MISSING,
    DiffContent,
    FileChange,
    FileState,
    ToolCallStatus,
    ToolCallView,
    ToolKind,
)
from pattern_acp.journal.events import CheckpointTaken, Event, ToolCallFinished, ToolCallStarted
from pattern_acp.session.changed_files import ChangedFile, Passage, changed_files, net_changes, sentence_of, with_states

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


def test_what_a_formatter_made_of_an_edited_file_is_part_of_the_change_and_no_edit():
    events = [
        *edit("1", DiffContent("/w/a", "one\n", "TWO \n")),
        *edit("2", DiffContent("/w/a", "TWO \n", "TWO\n"), tool="check", failed=True),
        *edit("3", DiffContent("/w/a", "TWO\n", "three\n")),
    ]
    assert changed_files(events) == (ChangedFile("/w/a", (Passage("one\n", "three\n"),), 2),)


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


FILE, EXECUTABLE = FileState("file", 0o644, 4, "aa"), FileState("file", 0o755, 4, "aa")


def states(*changes: FileChange) -> Event:
    return CheckpointTaken("checkpoint_1", TURN, "turn", "", 1, "", 1, changes)


def net(*events: Event) -> list[tuple[str, str]]:
    files = with_states(changed_files(events), net_changes(events), lambda path: path)
    return [(file.path, file.words(lambda path: path)) for file in files]


def test_a_file_that_is_gone_is_called_deleted_and_one_that_is_empty_is_not():
    events = [*edit("1", DiffContent("/w/a", "x\n", "")), *edit("2", DiffContent("/w/b", "x\n", ""))]
    gone = states(FileChange("/w/a", FILE, MISSING), FileChange("/w/b", FILE, FileState("file", 0o644)))
    assert net(*events, gone) == [("/w/a", "deleted"), ("/w/b", "1 edit")]
    [deleted, _] = with_states(changed_files(events), net_changes([gone]), lambda path: path)
    assert deleted.unified("a").startswith("--- a/a\n+++ /dev/null\n")


def test_what_a_command_made_and_an_edit_deleted_is_called_deleted():
    made = states(FileChange("/w/a", MISSING, FILE))
    gone = states(FileChange("/w/a", FILE, MISSING))
    assert net(made, *edit("1", DiffContent("/w/a", "x\n", "")), gone) == [("/w/a", "deleted")]


def test_a_renamed_file_is_one_with_both_names_and_the_change_between_them():
    events = [
        *edit("1", DiffContent("/w/a", "1\n2\n3\n4\n", "")),
        *edit("2", DiffContent("/w/b", None, "1\n2\n3\nfour\n")),
        *edit("3", DiffContent("/w/c", None, "something else\n")),
        states(FileChange("/w/a", FILE, MISSING), FileChange("/w/b", MISSING, EXECUTABLE)),
    ]
    assert net(*events) == [("/w/b", "renamed from /w/a, mode 644 to 755"), ("/w/c", "new")]
    [renamed, _] = with_states(changed_files(events), net_changes(events), lambda path: path)
    assert renamed.unified("b", "a").splitlines()[:2] == ["--- a/a", "+++ b/b"]
    assert "-4\n+four\n" in renamed.unified("b", "a")


def test_what_commands_did_is_told_in_words():
    changes = net_changes(
        [
            states(FileChange("/w/gone", FILE, MISSING), FileChange("/w/run", FILE, EXECUTABLE)),
            states(
                FileChange("/w/old", FileState("file", 0o644, 1, "bb"), MISSING), FileChange("/w/back", FILE, MISSING)
            ),
            states(
                FileChange("/w/new", MISSING, FileState("file", 0o644, 1, "bb")), FileChange("/w/back", MISSING, FILE)
            ),
        ]
    )
    assert sentence_of(changes, lambda path: path[3:]) == (
        "Commands of this session deleted `gone`; renamed `old` to `new`; changed `run` (mode 644 to 755)."
    )
    assert sentence_of({}, str) == ""


@given(st.lists(st.tuples(st.sampled_from("ab"), st.text(max_size=5)), max_size=10))
def test_before_is_the_first_text_and_after_the_last(writes: list[tuple[str, str]]):
    now: dict[str, str] = {"a": "start", "b": "start"}
    events: list[Event] = []
    for number, (path, text) in enumerate(writes):
        events += edit(str(number), DiffContent(path, now[path], text))
        now[path] = text
    found = {file.path: file.passages for file in changed_files(events)}
    assert found == {path: (Passage("start", text),) for path, text in now.items() if text != "start"}
