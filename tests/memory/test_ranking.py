"""Order of candidates."""

from pattern_acp.memory.ranking import RECENCY_HALF_LIFE_MS, Candidate, rank

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
    assert [(one.entry, one.spread) for one in ranked] == [(1, 0.0), (2, 0.3)]


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
