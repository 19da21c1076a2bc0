"""Texts cut as BERT cuts them. The numbers are those of the reference implementation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.local_embedders import load_vocabulary, piece_numbers, words


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("How do I run the tests?", [101, 2129, 2079, 1045, 2448, 1996, 5852, 1029, 102]),
        (
            "getUserId() isn't café_näive",
            [101, 2131, 20330, 3593, 1006, 1007, 3475, 1005, 1056, 7668, 1035, 15743, 102],
        ),
        (
            "統一 unaffable\u200b  tabs\tand\nlines",
            [101, 100, 1740, 14477, 20961, 3468, 21628, 2015, 1998, 3210, 102],
        ),
        ("", [101, 102]),
        ("x" * 120 + " ok", [101, 100, 7929, 102]),
        ("🦊 fox-trot…", [101, 100, 4419, 1011, 19817, 4140, 1529, 102]),
    ],
)
def test_texts_give_the_numbers_of_the_reference(text: str, numbers: list[int]):
    assert piece_numbers(text, 256) == numbers


def test_a_long_text_is_cut_and_still_ends():
    numbers = piece_numbers("word " * 1_000, 16)
    assert len(numbers) == 16
    assert (numbers[0], numbers[-1]) == (101, 102)


@given(st.text(max_size=80), st.integers(2, 40))
def test_any_text_gives_known_numbers_and_no_more_than_asked(text: str, most: int):
    numbers = piece_numbers(text, most)
    assert 2 <= len(numbers) <= most
    assert all(0 <= number < len(load_vocabulary()) for number in numbers)


@given(st.text(max_size=80))
def test_words_are_never_empty_and_hold_no_space(text: str):
    assert all(word and not any(character.isspace() for character in word) for word in words(text))
