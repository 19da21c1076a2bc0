"""Everything that is shown fits into a line."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp.content import (
    CHUNK_CHARACTERS,
    INPUT_BYTES,
    clipped,
    pieces,
    shortened,
    shown_input,
    wire_size,
)

NOTE_BYTES = 100

awkward = st.sampled_from(["a", "\x00", "é", "中", "🎉", "\n", '"', "\ud800"])


def text_of(runs: list[tuple[str, int]]) -> str:
    return "".join(character * count for character, count in runs)


texts: st.SearchStrategy[str] = st.lists(st.tuples(awkward, st.integers(1, 400)), max_size=8).map(text_of)


@given(texts, st.integers(60, 600))
def test_a_text_cut_in_the_middle_keeps_its_ends_and_fits(text: str, limit: int):
    cut = shortened(text, limit)
    assert wire_size(cut) <= max(limit + NOTE_BYTES, 0)
    if cut != text:
        assert "characters left out" in cut
        assert cut[0] == text[0]
        assert cut[-1] == text[-1]


@given(texts, st.integers(60, 600))
def test_a_clipped_text_keeps_its_start_and_fits(text: str, limit: int):
    cut = clipped(text, limit)
    assert wire_size(cut) <= limit + NOTE_BYTES
    if cut != text:
        assert cut[0] == text[0]


@given(texts)
def test_a_text_that_fits_is_left_alone(text: str):
    assert shortened(text, 20_000) == text
    assert clipped(text, 20_000) == text


@given(st.text(max_size=50), st.integers(1, 7))
def test_pieces_are_the_whole_text(text: str, limit: int):
    assert "".join(pieces(text, limit)) == text
    assert all(0 < len(piece) <= limit for piece in pieces(text, limit))


def test_a_piece_of_the_worst_characters_is_less_than_a_megabyte():
    assert wire_size("\x00" * CHUNK_CHARACTERS) < 950_000


def test_arguments_that_fit_are_shown_as_they_are():
    arguments = {"path": "a.txt", "edits": [{"old_text": "a", "new_text": "b"}]}
    assert shown_input(arguments) == arguments


def test_long_arguments_are_cut_and_short_ones_beside_them_are_kept():
    arguments = {"path": "a.txt", "content": "x" * 2_000_000, "flag": True, "count": 3}
    shown = shown_input(arguments)
    assert (shown["path"], shown["flag"], shown["count"]) == ("a.txt", True, 3)
    assert wire_size(shown) < INPUT_BYTES
    assert "characters left out" in str(shown["content"])


def test_many_long_arguments_are_left_out():
    shown = shown_input({"path": "a.txt", "edits": [{"old_text": "x" * 1_000, "new_text": "y"}] * 1_000})
    assert shown == {"path": "a.txt", "edits": "… left out …"}
    assert msgspec.json.encode(shown)
