"""Rules of edits, on plain strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.edits import Append, PlannedEdit, Replace, Rewrite, Splice, plan_edit
from pattern_acp.memory.errors import LimitExceededError, PassageError, UnusableEditError

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), max_size=60)


def text_after(planned: PlannedEdit, before: str) -> str:
    if planned.splices is None:
        return planned.text
    (splice,) = planned.splices
    return before[: splice.at] + splice.inserted + before[splice.at + splice.removed :]


@pytest.mark.parametrize(
    ("before", "added", "after"),
    [
        ("", "one", "one"),
        ("one", "two", "one\ntwo"),
        ("one\n", "two", "one\ntwo"),
        ("one", "two\r\nthree\r", "one\ntwo\nthree\n"),
    ],
)
def test_an_append_begins_on_a_line_of_its_own(before: str, added: str, after: str):
    assert plan_edit(Append(added), before, label="human", limit=100).text == after


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_an_append_without_text_is_refused(text: str):
    with pytest.raises(UnusableEditError, match="no text to append"):
        plan_edit(Append(text), "before", label="human", limit=100)


@pytest.mark.parametrize(("before", "count"), [("nothing here", 0), ("aa and aa", 2), ("aaa", 2)])
def test_a_passage_that_is_not_there_exactly_once_is_refused_with_its_count(before: str, count: int):
    with pytest.raises(PassageError) as caught:
        plan_edit(Replace("aa", "b"), before, label="project", limit=100)
    assert caught.value.count == count
    assert "'project'" in caught.value.sentence


def test_an_empty_passage_is_refused():
    with pytest.raises(UnusableEditError, match="passage to replace is empty"):
        plan_edit(Replace("", "b"), "text", label="project", limit=100)


def test_a_replacement_changes_only_what_differs():
    planned = plan_edit(
        Replace("the port is 8080 now", "the port is 9090 now"), "x the port is 8080 now y", label="l", limit=99
    )
    assert planned.splices == (Splice(14, 3, "909"),)
    assert planned.text == "x the port is 9090 now y"


def test_an_edit_over_the_limit_says_the_counts_and_cuts_nothing():
    with pytest.raises(LimitExceededError) as caught:
        plan_edit(Append("cdefg"), "ab", label="human", limit=6)
    assert (caught.value.current, caught.value.limit, caught.value.over) == (2, 6, 2)
    for count in ("2 of at most 6", "make it 8", "2 too many"):
        assert count in caught.value.sentence


def test_the_limit_counts_characters_and_not_bytes():
    assert plan_edit(Rewrite("é" * 6), "", label="human", limit=6).text == "é" * 6


def test_a_block_over_a_lowered_limit_can_still_be_shortened():
    assert plan_edit(Replace("cd", ""), "abcdef", label="human", limit=2).text == "abef"
    with pytest.raises(LimitExceededError):
        plan_edit(Replace("cd", "dc"), "abcdef", label="human", limit=2)


@pytest.mark.parametrize("edit", [Rewrite("same"), Replace("am", "am")])
def test_an_edit_that_changes_nothing_is_refused(edit: Rewrite | Replace):
    with pytest.raises(UnusableEditError, match="reads like that already"):
        plan_edit(edit, "same", label="human", limit=100)


@pytest.mark.parametrize("text", ["nul\x00", "half \ud83d"])
def test_characters_that_cannot_be_stored_are_refused(text: str):
    with pytest.raises(UnusableEditError, match="broken character"):
        plan_edit(Rewrite(text), "", label="human", limit=100)


@given(before=TEXTS, start=st.integers(0, 60), length=st.integers(1, 20), text=TEXTS)
def test_every_splice_leads_to_the_planned_text(before: str, start: int, length: int, text: str):
    passage = before[start : start + length]
    if not passage or before.find(passage) != before.rfind(passage) or passage == text:
        return
    planned = plan_edit(Replace(passage, text), before, label="l", limit=10_000)
    assert planned.text == before.replace(passage, text)
    assert text_after(planned, before) == planned.text


@given(before=TEXTS, text=TEXTS)
def test_an_appended_text_is_at_the_end_and_the_rest_stays(before: str, text: str):
    if not text.strip():
        return
    planned = plan_edit(Append(text), before, label="l", limit=10_000)
    assert planned.text.startswith(before)
    assert planned.text.endswith(text)
    assert text_after(planned, before) == planned.text
