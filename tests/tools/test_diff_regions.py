import time

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.tools.file_changes import CONTEXT_LINES, Region, changed_regions, regions_within

LINES = st.lists(st.sampled_from([f"{letter}\n" for letter in "abcdefgh"] + ["\n"]), max_size=40)
FAR = [f"far {number}\n" for number in range(2 * CONTEXT_LINES + 1)]


def put_back(old: str, regions: list[Region]) -> str:
    """The new text, from the old one and the changed places."""
    lines = old.splitlines(keepends=True)
    result: list[str] = []
    at = 0
    for region in regions:
        was, now = region.old.splitlines(keepends=True), region.new.splitlines(keepends=True)
        unchanged = region.line - 1 - len(result)
        result += lines[at : at + unchanged]
        assert lines[at + unchanged : at + unchanged + len(was)] == was
        result += now
        at += unchanged + len(was)
    return "".join([*result, *lines[at:]])


@given(parts=st.lists(st.tuples(LINES, LINES), max_size=3))
def test_the_changed_places_make_the_new_text_of_the_old_one(parts: list[tuple[list[str], list[str]]]):
    old = "".join("".join([*FAR, *was]) for was, _ in parts)
    new = "".join("".join([*FAR, *now]) for _, now in parts)
    assert put_back(old, changed_regions(old, new)) == new


@given(old=LINES, new=LINES)
def test_any_two_texts_are_told_apart(old: list[str], new: list[str]):
    before, after = "".join(old), "".join(new)
    assert put_back(before, changed_regions(before, after)) == after


def test_places_that_do_not_fit_are_counted():
    old = "".join("x\n" + "".join(f"{number} {line}" for line in FAR) for number in range(10))
    regions, left_out = regions_within(old, old.replace("x\n", "y\n"), 1_000)
    assert len(regions) + left_out == 10
    assert 0 < len(regions) < 10


def test_equal_texts_have_no_changed_place():
    assert changed_regions("a\nb\n", "a\nb\n") == []


def test_a_large_file_in_which_everything_moved_takes_no_longer_than_it_is():
    lines = [f"line {number}\n" for number in range(50_000)]
    began = time.thread_time()
    changed_regions("".join(lines), "".join([*lines[25_000:], *lines[:25_000]]))
    changed_regions("".join(lines), "".join(reversed(lines)))
    assert time.thread_time() - began < 15
