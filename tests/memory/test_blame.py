"""Who wrote what, on histories without a constellation."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.edits import Append, Replace
from pattern_acp.memory.history import BlameSpan, LineBlame, blame, blame_by_replay, blame_lines, blame_range
from pattern_acp.memory.undo import plan_redo, plan_undo
from tests.support.history import RecordedBlock


def test_each_line_names_the_write_that_it_came_from():
    block = RecordedBlock("one")
    block.write(Append("two"))
    block.write(Append("three"))
    assert blame_lines(block.history()) == (LineBlame(1, "one", 1), LineBlame(2, "two", 2), LineBlame(3, "three", 3))


def test_a_line_that_was_changed_in_its_middle_names_the_change():
    block = RecordedBlock("port 8080 is ours\nlast\n")
    block.write(Replace("8080", "9090"))
    assert [line.number for line in blame_lines(block.history())] == [2, 1]


def test_characters_of_one_line_name_each_their_write():
    block = RecordedBlock("port 8080 is ours")
    block.write(Replace("8080", "8190"))
    assert blame(block.history()) == (BlameSpan(0, 6, 1), BlameSpan(6, 8, 2), BlameSpan(8, 17, 1))


def test_a_range_is_cut_to_what_was_asked_for():
    block = RecordedBlock("aaaa")
    block.write(Append("bbbb"))
    assert blame_range(block.history(), 2, 7) == (BlameSpan(2, 4, 1), BlameSpan(4, 7, 2))


def test_a_line_that_a_rewrite_kept_keeps_its_author():
    block = RecordedBlock("kept\nold\n")
    block.write("kept\nnew\n")
    assert [line.number for line in blame_lines(block.history())] == [1, 2]


def test_an_empty_line_names_who_made_it():
    block = RecordedBlock("one\n")
    block.write("one\n\ntwo\n")
    assert blame_lines(block.history()) == (LineBlame(1, "one", 1), LineBlame(2, "", 2), LineBlame(3, "two", 2))


def test_text_that_an_undo_brought_back_names_the_undo():
    block = RecordedBlock("one\ntwo\n")
    block.write(Replace("two\n", ""))
    block.carry_out(plan_undo(block.history()))
    assert [line.number for line in blame_lines(block.history())] == [1, 3]


@pytest.mark.parametrize("text", ["", "x", "x\n", "\n", "\n\n"])
def test_texts_of_any_shape_have_a_line_for_each_line(text: str):
    block = RecordedBlock(text)
    lines = blame_lines(block.history())
    assert [line.text for line in lines] == text.splitlines()


def test_several_processes_are_told_apart():
    block = RecordedBlock("one")
    for number, peer in enumerate((21, 22, 21, 23, 22), start=2):
        block.write(Append(f"line {number}"), peer=peer)
    assert [line.number for line in blame_lines(block.history())] == [1, 2, 3, 4, 5, 6]


def test_unknown_frontiers_make_it_replay_the_updates():
    block = RecordedBlock("one")
    block.write(Append("two"))
    history = block.history()
    strange = tuple(replace(write, frontiers=b"\x05\x01") for write in history.writes)
    assert blame(replace(history, writes=strange)) == blame(history)


TEXTS = st.text(st.sampled_from("ab\né🙂"), max_size=12)


@settings(max_examples=80, deadline=None)
@given(TEXTS, st.lists(st.tuples(st.sampled_from(["append", "rewrite", "undo", "redo"]), TEXTS, st.integers(11, 13))))
def test_ids_and_replay_agree_on_every_history(first: str, writes: list[tuple[str, str, int]]):
    block = RecordedBlock(first)
    for kind, text, peer in writes:
        try:
            if kind == "append":
                block.write(Append(text), peer=peer)
            elif kind == "rewrite":
                block.write(text, peer=peer)
            else:
                plan = plan_undo if kind == "undo" else plan_redo
                block.carry_out(plan(block.history()))
        except BlockError:
            continue
    history = block.history()
    spans = blame(history)
    assert spans == blame_by_replay(history)
    assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]
    assert (spans[-1].end if spans else 0) == len(block.text)


@pytest.mark.parametrize(
    ("before", "after", "authors"),
    [
        ("one\ntwo", "one\ntwo\nthree", [1, 1, 2]),
        ("one\ntwo\nthree", "one\ntwo", [1, 1]),
        ("one\ntwo", "one\ntwo\n", [1, 1]),
        ("one\ntwo\n", "one\ntwo", [1, 1]),
        ("one\ntwo", "zero\none\nTWO", [2, 1, 2]),
        ("one", "zero\none\n\nthree\n", [2, 1, 2, 2]),
    ],
)
def test_a_rewrite_that_only_adds_behind_the_last_line_or_cuts_there_leaves_that_line_its_author(
    before: str, after: str, authors: list[int]
):
    block = RecordedBlock(before)
    block.write(after)
    assert block.history().text == after
    assert [line.number for line in blame_lines(block.history())] == authors


def test_a_line_behind_which_a_rewrite_put_another_can_still_be_undone():
    block = RecordedBlock("one")
    block.write(Append("two"))
    block.write("one\ntwo\nthree")
    block.carry_out(plan_undo(block.history(), 2))
    assert block.history().text == "one\nthree"
