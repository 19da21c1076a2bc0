"""Cutting texts into passages and excerpts."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.search_terms import (
    BLOCK_PASSAGE,
    EXCERPT,
    MESSAGE_INDEXED,
    MESSAGE_PASSAGE,
    block_passages,
    common_ending,
    common_last_passages,
    common_lines,
    common_passages,
    excerpt,
    message_passages,
)

PROSE = st.lists(st.sampled_from(["word", "Word.", "x" * 500, "\n", "\n\n", "- item", " ", "ü"]), max_size=60).map(
    " ".join
)


def squeezed(text: str) -> str:
    return "".join(text.split())


def test_items_paragraphs_and_appended_lines_are_passages_of_their_own():
    wrapped = "Run make with the release profile before every pull request,\nand push it."
    text = f"# Build\n\n{wrapped}\nTests run with pytest.\n- one\n- two\n  goes on\nPort 8080\nlikes tea\nhates noise"
    assert block_passages(text) == (
        "# Build",
        wrapped,
        "Tests run with pytest.",
        "- one",
        "- two\n  goes on",
        "Port 8080",
        "likes tea",
        "hates noise",
    )


def test_an_empty_text_has_no_passages():
    assert block_passages(" \n\n") == ()
    assert message_passages("") == ()


def test_short_paragraphs_of_a_message_stay_together():
    assert message_passages("one\n\ntwo\n \nthree") == ("one\n\ntwo\n\nthree",)


@given(PROSE)
def test_passages_are_short_and_lose_no_character(text: str):
    for cut, size in ((block_passages, BLOCK_PASSAGE), (message_passages, MESSAGE_PASSAGE)):
        passages = cut(text)
        assert all(0 < len(passage) <= size for passage in passages)
        assert squeezed("".join(passages)) == squeezed(text)


def test_a_short_text_is_its_own_excerpt():
    assert excerpt("short", ("short",)) == "short"


def test_an_excerpt_shows_the_hit():
    text = "filler " * 300 + "the needle is here " + "filler " * 300
    shown = excerpt(text, ("needle",))
    assert "needle is here" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")
    assert len(shown) <= EXCERPT


def test_an_excerpt_finds_another_form_of_the_word():
    assert "deploying" in excerpt("filler " * 300 + "deploying it " + "filler " * 300, ("deployed",))


@given(text=st.text(max_size=1500), term=st.text(min_size=1, max_size=5))
def test_an_excerpt_never_exceeds_its_size(text: str, term: str):
    assert len(excerpt(text, (term,))) <= EXCERPT


LINES = st.lists(
    st.sampled_from(["A fact.", "  goes on", "- item", "", " ", "w" * 60, "lower case", "x" * 500]), max_size=12
)


@given(LINES, LINES, LINES)
def test_what_two_texts_begin_with_is_cut_alike_and_the_rest_by_itself(
    shared: list[str], one: list[str], two: list[str]
):
    before, after = "\n".join((*shared, *one)), "\n".join((*shared, *two))
    start = common_passages(before, after)
    assert before[:start] == after[:start]
    for text in (before, after):
        assert block_passages(text[:start]) + block_passages(text[start:]) == block_passages(text)


@given(LINES, LINES, LINES)
def test_what_two_texts_end_with_is_cut_alike_and_the_rest_by_itself(shared: list[str], one: list[str], two: list[str]):
    before, after = "\n".join((*one, *shared)), "\n".join((*two, *shared))
    ending = common_last_passages(before, after)
    assert before[len(before) - ending :] == after[len(after) - ending :]
    for text in (before, after):
        border = len(text) - ending
        assert block_passages(text[:border]) + block_passages(text[border:]) == block_passages(text)


@given(LINES, LINES)
def test_common_endings_begin_where_a_line_begins(one: list[str], two: list[str]):
    before, after = "\n".join(one), "\n".join(two)
    ending = common_ending(before, after)
    assert before[len(before) - ending :] == after[len(after) - ending :]
    assert ending == 0 or before[len(before) - ending - 1] == after[len(after) - ending - 1] == "\n"


def test_a_changed_line_leaves_passages_behind_it_alone():
    assert common_last_passages("One.\nTwo.\nThree.\nFour.", "One.\n2.\nThree.\nFour.") == len("Four.")
    assert common_last_passages("One.\nTwo.", "One.\n2.") == 0
    assert common_last_passages("same", "same") == 0


@given(LINES, LINES)
def test_common_lines_end_where_a_line_ends(one: list[str], two: list[str]):
    before, after = "\n".join(one), "\n".join(two)
    end = common_lines(before, after)
    assert before[:end] == after[:end]
    assert end == 0 or before[end - 1] == "\n"


def test_an_appended_line_leaves_all_but_the_last_passage_alone():
    before = "One.\nTwo.\nThree."
    assert common_passages(before, before + "\nFour.") == len("One.\n")
    assert common_lines(before, before + "\nFour.") == len("One.\nTwo.\n")
    assert common_passages("same", "same") == 0


@given(st.text(alphabet="ab .\n", max_size=60).map(lambda text: text * 200))
def test_long_texts_are_cut_at_words_and_lose_nothing(text: str):
    passages = message_passages(text)
    assert all(0 < len(passage) <= MESSAGE_PASSAGE for passage in passages)
    assert squeezed("".join(passages)) == squeezed(text)


def test_of_a_message_of_many_megabytes_only_the_beginning_is_found():
    text = "needle " + "one line of a pasted log\n" * 1_200_000 + "behind"
    passages = message_passages(text)
    assert passages[0].startswith("needle")
    assert sum(map(len, passages)) <= MESSAGE_INDEXED < len(text)
    assert not any("behind" in passage for passage in passages)
