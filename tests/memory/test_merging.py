"""Three-way merges of lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.diffs import (
    Conflict,
    decode_conflicts,
    encode_conflicts,
    merge_texts,
    open_conflicts,
)

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "d d"]), max_size=8).map("\n".join)


@pytest.mark.parametrize(
    ("base", "theirs", "ours", "merged"),
    [
        ("a\nb", "a\nb\nc", "a2\nb", "a2\nb\nc"),
        ("a\nb", "a\nb", "b", "b"),
        ("a", "a\nx", "a\ny", "a\nx\ny"),
        ("a\nb\nc", "a\nc", "a\nb2\nc", "a\nb2\nc"),
        ("a\nb", "x\na\nb", "a\nb\ny", "x\na\nb\ny"),
    ],
)
def test_changes_of_different_lines_are_both_kept(base: str, theirs: str, ours: str, merged: str):
    merge = merge_texts(base, theirs, ours)
    assert merge.text == merged
    assert merge.conflicts == ()


def test_lines_that_both_changed_are_both_kept_and_reported():
    merge = merge_texts("port is 80\nend", "port is 8080\nend", "port is 9090\nend")
    assert merge.text == "port is 8080\nport is 9090\nend"
    assert merge.conflicts == (Conflict("port is 8080", "port is 9090"),)


def test_a_conflict_is_open_until_one_side_is_gone():
    conflict = Conflict("port is 8080", "port is 9090")
    assert open_conflicts("port is 8080\nport is 9090", [conflict]) == (conflict,)
    assert open_conflicts("port is 9090", [conflict]) == ()


def test_conflicts_are_stored_and_read_back():
    conflicts = (Conflict("a\nb", "“c”"), Conflict("", "d"))
    assert decode_conflicts(encode_conflicts(conflicts)) == conflicts
    assert encode_conflicts(()) == ""
    assert decode_conflicts("") == decode_conflicts("{") == decode_conflicts('[["a"], 3]') == ()


@given(TEXTS, TEXTS)
def test_a_merge_with_an_unchanged_side_is_the_other_side(base: str, changed: str):
    assert merge_texts(base, changed, base).text == changed
    assert merge_texts(base, base, changed).text == changed
    assert merge_texts(base, changed, changed).text == changed


@given(TEXTS, TEXTS, TEXTS)
def test_no_line_that_only_one_side_wrote_is_lost(base: str, theirs: str, ours: str):
    merged = set(merge_texts(base, theirs, ours).text.split("\n"))
    old = set(base.split("\n"))
    assert (set(theirs.split("\n")) - old) <= merged
    assert (set(ours.split("\n")) - old) <= merged
