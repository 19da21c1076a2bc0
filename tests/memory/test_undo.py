"""Undo, redo, rollback and merging of edits, on histories without a constellation."""

from collections import Counter

import loro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.diffs import Conflict
from pattern_acp.memory.edits import Append, BlockEdit, Operation, Replace
from pattern_acp.memory.errors import LimitExceededError, UndoConflictError, UnusableEditError, VersionError
from pattern_acp.memory.history import text_of_version
from pattern_acp.memory.undo import plan_merge, plan_redo, plan_rollback, plan_undo
from tests.support.history import RecordedBlock


def undo(block: RecordedBlock, number: int | None = None) -> int:
    return block.carry_out(plan_undo(block.history(), number))


def redo(block: RecordedBlock, number: int | None = None) -> int:
    return block.carry_out(plan_redo(block.history(), number))


def operations(block: RecordedBlock) -> list[tuple[str, int | None]]:
    return [(write.operation, write.target) for write in block.history().writes]


def three_lines() -> RecordedBlock:
    block = RecordedBlock("build with make")
    block.write(Append("tests need docker"))
    block.write(Append("port 8080"))
    return block


def test_undo_takes_back_the_newest_write():
    block = three_lines()
    undo(block)
    assert block.text == "build with make\ntests need docker"
    assert operations(block)[-1] == ("undo", 3)


def test_undoing_an_older_write_keeps_what_came_later():
    block = three_lines()
    undo(block, 2)
    assert block.text == "build with make\nport 8080"


def test_the_first_line_of_a_block_goes_without_leaving_an_empty_one():
    block = RecordedBlock("")
    for text in ("likes tea", "works at night", "speaks Dutch"):
        block.write(Append(text))
    undo(block, 2)
    assert block.text == "works at night\nspeaks Dutch"
    undo(block, 3)
    assert block.text == "speaks Dutch"
    redo(block)
    redo(block)
    assert block.text == "likes tea\nworks at night\nspeaks Dutch"


def test_several_undos_go_back_one_write_at_a_time_and_redos_forward():
    block = three_lines()
    undo(block)
    undo(block)
    assert block.text == "build with make"
    redo(block)
    assert block.text == "build with make\ntests need docker"
    redo(block)
    assert block.text == "build with make\ntests need docker\nport 8080"
    assert [name for name, _ in operations(block)[3:]] == ["undo", "undo", "redo", "redo"]


def test_an_undo_of_an_undo_is_a_redo():
    block = three_lines()
    taken_back = undo(block)
    undo(block, taken_back)
    assert operations(block)[-1] == ("redo", taken_back)
    assert block.text.endswith("port 8080")


def test_a_write_that_was_brought_back_can_be_taken_back_again():
    block = three_lines()
    undo(block)
    redo(block)
    undo(block)
    assert block.text == "build with make\ntests need docker"
    redo(block)
    assert block.text.endswith("port 8080")


def test_naming_a_write_that_was_brought_back_takes_back_what_brought_it():
    block = three_lines()
    undo(block, 2)
    brought_back = redo(block)
    undo(block, 2)
    assert operations(block)[-1] == ("undo", brought_back)
    assert block.text == "build with make\nport 8080"


def test_a_write_is_not_taken_back_twice():
    block = three_lines()
    taken_back = undo(block, 2)
    with pytest.raises(UndoConflictError, match=rf"Write 2 .* write {taken_back} did that already"):
        undo(block, 2)


def test_with_nothing_to_take_back_the_sentence_says_so():
    block = RecordedBlock("x")
    with pytest.raises(UnusableEditError, match="nothing to undo"):
        undo(block)
    with pytest.raises(UnusableEditError, match="nothing to redo"):
        redo(block)


def test_the_creation_cannot_be_taken_back():
    with pytest.raises(UndoConflictError, match="delete the block instead"):
        undo(three_lines(), 1)


@pytest.mark.parametrize("number", [0, 4, -1])
def test_a_write_that_is_not_there_is_named_with_those_that_are(number: int):
    with pytest.raises(VersionError, match="versions are 1 to 3"):
        undo(three_lines(), number)


def test_only_an_undo_can_be_redone():
    with pytest.raises(UnusableEditError, match="write 2 is no undo"):
        redo(three_lines(), 2)


def test_text_that_a_later_write_changed_is_a_conflict_and_nothing_changes():
    block = three_lines()
    block.write(Replace("8080", "9090"))
    with pytest.raises(UndoConflictError, match=r"Write 3 .* later writes changed the text that it brought"):
        undo(block, 3)
    assert block.text.endswith("port 9090")


def test_a_line_that_a_later_write_put_words_into_is_a_conflict():
    block = three_lines()
    block.write(Replace("need docker", "need a running docker"))
    with pytest.raises(UndoConflictError, match="put text into a line"):
        undo(block, 2)


def test_a_whole_line_between_the_lines_of_a_write_stays_when_the_write_goes():
    block = RecordedBlock("first\n")
    block.write(Append("second\nfourth\n"))
    block.write(Replace("fourth\n", "third\nfourth\n"))
    undo(block, 2)
    assert block.text == "first\nthird\n"


def test_a_removed_passage_comes_back_in_its_place():
    block = RecordedBlock("one\ntwo\nthree\n")
    block.write(Replace("two\n", ""))
    block.write(Append("four\n"))
    undo(block, 2)
    assert block.text == "one\ntwo\nthree\nfour\n"


def test_a_removed_passage_comes_back_beside_the_neighbour_that_is_left():
    block = RecordedBlock("one\ntwo\nthree\n")
    block.write(Replace("two\n", ""))
    block.write(Replace("one\n", ""))
    undo(block, 2)
    assert block.text == "two\nthree\n"


def test_a_removed_passage_whose_surroundings_are_gone_is_a_conflict():
    block = RecordedBlock("one\ntwo\nthree\n")
    block.write(Replace("two\n", ""))
    block.write(Replace("ne\nth", "XX"))
    with pytest.raises(UndoConflictError, match="changed the text around the place"):
        undo(block, 2)


def test_an_undo_that_would_pass_the_limit_is_refused():
    block = RecordedBlock("x" * 50 + "\n", limit=60)
    block.write("")
    block.write(Append("y" * 40))
    with pytest.raises(LimitExceededError):
        undo(block, 2)


def test_going_back_to_a_version_is_a_new_change():
    block = three_lines()
    block.carry_out(plan_rollback(block.history(), 1))
    assert block.text == "build with make"
    assert operations(block)[-1] == ("rollback", 1)
    undo(block)
    assert block.text == "build with make\ntests need docker\nport 8080"


def test_an_edit_of_an_older_version_merges_with_what_came_since():
    block = three_lines()
    opened, text = block.head, block.text
    block.write(Append("written meanwhile"))
    block.write(Replace("with make", "with ninja"))
    plan = plan_merge(block.history(), opened, text.replace("8080", "9090"))
    block.carry_out(plan)
    assert block.text == "build with ninja\ntests need docker\nport 9090\nwritten meanwhile"
    assert plan.conflicts == ()
    assert operations(block)[-1] == ("edit", None)


def test_an_edit_of_the_newest_version_is_taken_as_it_is():
    block = three_lines()
    block.carry_out(plan_merge(block.history(), block.head, "all new"))
    assert block.text == "all new"


def test_a_line_that_was_changed_here_and_there_is_reported_and_both_forms_are_kept():
    block = three_lines()
    opened, text = block.head, block.text
    block.write(Replace("port 8080", "port 7070"))
    plan = plan_merge(block.history(), opened, text.replace("8080", "9090"))
    block.carry_out(plan)
    assert plan.conflicts == (Conflict("port 7070", "port 9090"),)
    assert block.text.endswith("port 7070\nport 9090")


WORDS = st.sampled_from(["alpha", "beta", "gamma", "delta", "épsilon", "ζ", "🙂 x", ""])
LINES = st.lists(WORDS, max_size=6).map("\n".join)


@st.composite
def edits(draw: st.DrawFn, text: str) -> BlockEdit | str:
    kind = draw(st.sampled_from(["append", "rewrite", "splice"]))
    if kind == "append":
        return Append(draw(WORDS) or "line")
    if kind == "rewrite":
        return draw(LINES)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 12)))
    return text[:start] + draw(WORDS) + text[end:]


def write_some(data: st.DataObject, block: RecordedBlock, count: int) -> None:
    for _ in range(count):
        try:
            block.write(data.draw(edits(block.text)), peer=data.draw(st.sampled_from([11, 12, 13])))
        except BlockError:
            continue


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_undoing_everything_and_redoing_everything_returns_to_every_version(data: st.DataObject):
    block = RecordedBlock(data.draw(LINES))
    write_some(data, block, data.draw(st.integers(1, 6)))
    count = block.head - 1
    texts = [text_of_version(block.history(), number) for number in range(1, block.head + 1)]
    for text in reversed(texts[:-1]):
        undo(block)
        assert block.text == text
    for text in texts[1:]:
        redo(block)
        assert block.text == text
    with pytest.raises(UnusableEditError, match="nothing to redo"):
        redo(block)
    assert block.head == 1 + 3 * count


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_an_undo_has_the_characters_that_loro_itself_gives_and_a_redo_restores_the_text(data: st.DataObject):
    block = RecordedBlock(data.draw(LINES))
    write_some(data, block, data.draw(st.integers(1, 6)))
    number = data.draw(st.integers(1, block.head))
    before, by_loro = block.text, undone_by_loro(block, number)
    try:
        undo(block, number)
    except BlockError:
        assert block.text == before
        return
    # A line end may go with its line.
    assert Counter(block.text.replace("\n", "")) == Counter(by_loro.replace("\n", ""))
    redo(block)
    assert block.text == before


def undone_by_loro(block: RecordedBlock, number: int) -> str:
    """The recipe of memory.md section 1.3: fork at the version, inverse diff, import."""
    document = loro.LoroDoc()
    writes = block.history().writes
    for write in writes:
        document.import_(write.update)
    after = loro.Frontiers.decode(writes[number - 1].frontiers)
    before = loro.Frontiers.decode(writes[number - 2].frontiers) if number > 1 else loro.Frontiers()
    fork = document.fork_at(after)
    fork.apply_diff(fork.diff(after, before))
    fork.commit()
    version = document.frontiers_to_vv(after)
    assert version is not None
    document.import_(fork.export(loro.ExportMode.Updates(version)))
    return document.get_text("text").to_string()


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.RESTORE, Operation.FORGET])
def test_what_is_no_change_of_text_is_not_taken_back(operation: Operation):
    history = three_lines().history()
    marked = replace(history.writes[-1], operation=operation.value)
    history = replace(history, writes=(*history.writes[:-1], marked))
    with pytest.raises(UndoConflictError):
        plan_undo(history, marked.number)
