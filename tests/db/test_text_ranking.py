"""Ranking a few texts."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pattern_acp.db.text_ranking import rank_texts
from pattern_acp.memory.search_terms import match_expression, query_terms

TEXTS = {"name": ("deploy", "nothing"), "body": ("other", "how to deploy, and deploy again"), "none": ("x", "y")}


def test_the_weight_of_a_field_decides_before_how_often_a_word_is_there():
    found = rank_texts(TEXTS, (8.0, 1.0), match_expression(("deploys",)), 5)
    assert [each.key for each in found] == ["name", "body"]
    assert found[1].passage == "how to deploy, and deploy again"
    assert len(rank_texts(TEXTS, (8.0, 1.0), match_expression(("deploy",)), 1)) == 1


@given(st.text(min_size=1), st.text())
@settings(max_examples=30)
def test_no_text_and_no_query_is_too_strange(text: str, query: str):
    expression = match_expression(query_terms(query))
    if expression:
        rank_texts({"a": (text, text)}, (1.0, 1.0), expression, 5)


@given(st.from_regex(r"\A[a-z]{4,12}\Z"))
@settings(max_examples=30)
def test_a_word_that_is_in_one_text_finds_it(word: str):
    texts = {"known": ("x", f"before {word}q7 behind"), "other": ("x", "nothing of it")}
    (found,) = rank_texts(texts, (1.0, 1.0), match_expression(query_terms(f"{word}q7")), 5)
    assert found.key == "known"
