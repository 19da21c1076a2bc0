"""Order of candidates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.recall import (
    RECENCY_HALF_LIFE_MS,
    Candidate,
    QueryFacts,
    rank,
    share_of_meaning,
)
from pattern_acp.memory.turns import SPREAD

NOW = 1_800_000_000_000


def candidate(entry: int, score: float, **changes: str | int) -> Candidate:
    fields: dict[str, str | int] = {"kind": "user", "source": "s1", "item": f"m{entry}", "at_ms": NOW, **changes}
    return Candidate(
        entry, str(fields["kind"]), str(fields["source"]), str(fields["item"]), int(fields["at_ms"]), score
    )


def order(*candidates: Candidate) -> list[int]:
    return [one.entry for one in rank(candidates, now_ms=NOW)]


def test_nothing_is_ranked_without_a_positive_score():
    assert rank([], now_ms=NOW) == ()
    assert rank([candidate(1, 0.0)], now_ms=NOW) == ()


def test_the_better_text_leads():
    assert order(candidate(1, 2.0, source="a"), candidate(50, 5.0, source="b")) == [50, 1]


def test_the_best_text_scores_one():
    (best, *_) = rank([candidate(1, 7.0), candidate(90, 3.5)], now_ms=NOW)
    assert best.text == 1.0


def test_a_neighbouring_message_gets_a_share():
    ranked = rank([candidate(1, 4.0), candidate(2, 0.0, kind="assistant")], now_ms=NOW)
    assert [(one.entry, one.spread) for one in ranked] == [(1, 0.0), (2, 0.4)]


def test_messages_of_other_sessions_and_far_ones_get_nothing():
    assert order(candidate(1, 4.0), candidate(2, 0.0, source="s2"), candidate(40, 0.0)) == [1]


def test_passages_of_one_message_are_not_neighbours():
    assert order(candidate(1, 4.0, item="m"), candidate(2, 0.0, item="m")) == [1]


def test_blocks_give_nothing_to_their_neighbours():
    assert order(candidate(1, 4.0, kind="block"), candidate(2, 0.0, kind="block")) == [1]


def test_of_equal_texts_the_newer_leads_and_then_the_block():
    old = candidate(1, 4.0, source="a", at_ms=NOW - 3 * RECENCY_HALF_LIFE_MS)
    new = candidate(2, 4.0, source="b")
    block = candidate(3, 4.0, source="c", kind="block")
    assert order(old, new, block) == [3, 2, 1]


def test_recency_is_small_beside_the_text():
    assert order(candidate(1, 4.0, source="a", at_ms=0), candidate(2, 3.0, source="b")) == [1, 2]


def test_of_texts_with_the_same_words_the_one_nearer_in_meaning_leads():
    near, far = candidate(1, 3.0, kind="archival", source="a"), candidate(2, 3.0, kind="archival", source="b")
    ranked = rank([near._replace(meaning=0.6), far._replace(meaning=0.2)], now_ms=NOW)
    assert [one.entry for one in ranked] == [1, 2]


def test_meaning_alone_finds_a_fact_and_is_told():
    (best, *_) = rank([candidate(1, 0.0, kind="archival")._replace(meaning=0.5)], now_ms=NOW)
    assert (best.text, best.meaning) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("kind", "query", "share"),
    [
        ("archival", QueryFacts(), 0.8),
        ("block", QueryFacts(), 0.8),
        ("user", QueryFacts(), 0.75),
        ("assistant", QueryFacts(), 0.75),
        ("block", QueryFacts(names_identifier=True), 0.3),
        ("user", QueryFacts(names_identifier=True), 0.3),
        ("block", QueryFacts(trust=0.3), 0.3),
        ("user", QueryFacts(trust=0.8), 0.6),
        ("block", QueryFacts(coverage=0.5), 0.9),
        ("block", QueryFacts(coverage=0.0), 1.0),
        ("user", QueryFacts(coverage=0.5), 0.75),
        ("user", QueryFacts(coverage=0.25), 0.875),
        ("user", QueryFacts(coverage=0.0), 1.0),
    ],
)
def test_the_share_of_meaning_follows_the_kind_the_query_and_the_embedder(kind: str, query: QueryFacts, share: float):
    assert share_of_meaning(kind, query) == pytest.approx(share)


def test_a_passage_that_is_not_embedded_yet_counts_by_its_words():
    waiting = candidate(1, 4.0, kind="archival", source="a")
    others = [candidate(n, 0.0, kind="archival", source=f"s{n}")._replace(meaning=n / 10) for n in (2, 3)]
    ranked = {one.entry: one for one in rank([waiting, *others], now_ms=NOW)}
    assert ranked[1].text == 1.0
    assert 2 not in ranked or ranked[1].score > ranked[2].score


def test_without_any_meaning_words_alone_decide():
    texts = [candidate(1, 5.0, source="a"), candidate(2, 2.0, source="b")]
    zero = [one._replace(meaning=0.0) for one in texts]
    assert [one.entry for one in rank(zero, now_ms=NOW)] == [one.entry for one in rank(texts, now_ms=NOW)]


def test_of_the_passages_of_one_message_the_best_is_given_and_no_more_items_than_asked_for():
    candidates = [candidate(n, float(n), kind="block", source=f"s{n % 2}", item=f"m{n % 4}") for n in range(1, 41)]
    ranked = rank(candidates, now_ms=NOW)
    assert [one.entry for one in ranked] == [40, 39, 38, 37]
    assert rank(candidates, now_ms=NOW, limit=3) == ranked[:3]


@given(
    st.lists(
        st.tuples(st.floats(0, 30), st.none() | st.floats(-1, 1), st.sampled_from(["block", "user", "archival"])),
        max_size=30,
    ),
    st.builds(QueryFacts, st.booleans(), st.floats(0, 1), st.floats(0, 1)),
)
def test_scores_are_ordered_and_of_a_known_size(facts: list[tuple[float, float | None, str]], query: QueryFacts):
    candidates = [
        candidate(number, text, kind=kind, source=f"s{number // 3}")._replace(meaning=meaning)
        for number, (text, meaning, kind) in enumerate(facts)
    ]
    ranked = rank(candidates, now_ms=NOW, query=query)
    scores = [one.score for one in ranked]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 < score <= (1.0 + sum(dict(SPREAD).values())) * 1.25 + 1e-9 for score in scores)
