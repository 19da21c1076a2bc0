"""Identifiers, stop words and queries."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.search_terms import (
    MOST_TERMS,
    STOP_WORDS,
    match_expression,
    query_terms,
    split_identifiers,
    with_forms,
)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("getUserId", "get User Id"),
        ("load_block fast", "load block"),
        ("HTTPServerError2", "HTTP Server Error2"),
        ("sha256", ""),
        ("utf8Decoder", "utf8 Decoder"),
        ("plain words only", ""),
        ("__init__", ""),
        ("MAX_SIZE", "MAX SIZE"),
        ("größeÄndern", "größe Ändern"),
    ],
)
def test_identifiers_are_split_at_case_and_underscore(text: str, parts: str):
    assert split_identifiers(text) == parts


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("What is the port of the database?", ("port", "database")),
        ("don't", ("don't",)),
        ("What is Dave\u2019s harvest, and it's when?", ("dave", "harvest")),
        ("c++", ("c",)),
        ("--flag", ("flag",)),
        ("a:b", ("b",)),
        ("(", ()),
        ("", ()),
        ("where is loadBlock", ("loadblock", "load", "block")),
        ("foo_bar", ("foo", "bar")),
        ("Port PORT port", ("port",)),
        ("the", ("the",)),
    ],
)
def test_a_query_gives_the_words_that_say_something(query: str, terms: tuple[str, ...]):
    assert query_terms(query) == terms


def test_a_pasted_page_gives_a_bounded_number_of_terms():
    assert len(query_terms(" ".join(f"word{number}" for number in range(1000)))) == MOST_TERMS


def test_every_term_is_quoted():
    assert match_expression(("don't", 'a"b')) == '"don\'t" OR "a""b"'


@given(st.text(max_size=200))
def test_any_text_gives_terms_that_are_lower_case_words(query: str):
    for term in query_terms(query):
        assert term
        assert '"' not in term
        assert not any(character.isspace() for character in term)


def test_stop_words_are_lower_case_and_hold_contractions():
    assert "don't" in STOP_WORDS
    assert all(word == word.lower() for word in STOP_WORDS)


def test_irregular_words_bring_their_other_forms_behind_the_terms():
    assert with_forms(("lose", "parser")) == ("lose", "parser", "lost")
    assert with_forms(("wrote",)) == ("wrote", "write", "written")
    assert with_forms(("children", "mice")) == ("children", "mice", "child", "mouse")
    assert with_forms(("colour",)) == ("colour",)
