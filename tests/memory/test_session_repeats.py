"""Hits that say the same are shown as one."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.service.access import MemoryHit
from pattern_acp.memory.service.search import repeats, without_repeats

PLACES = ("the person in session ses_1", "the person in session ses_2", "the agent in session ses_1", "memory block a")
HITS = st.lists(st.builds(MemoryHit, st.sampled_from(PLACES), st.sampled_from("xy"), st.integers(0, 9)), max_size=12)


def test_the_newest_stands_in_the_place_of_the_best():
    old, new = MemoryHit(PLACES[0], "x", 1), MemoryHit(PLACES[1], "x", 2)
    between = MemoryHit(PLACES[2], "x", 3)
    first, second = without_repeats([old, between, new])
    assert (first.source, first.at_ms, repeats(first)) == (PLACES[1], 2, " and 1 time before")
    assert (second, repeats(second)) == (between, "")


def test_entries_that_have_an_id_stay_apart():
    entries = [MemoryHit(f"archival entry arc_{number}", "x", number) for number in range(2)]
    assert without_repeats(entries) == entries


@given(HITS)
def test_every_hit_is_counted_once(hits: list[MemoryHit]):
    shown = without_repeats(hits)
    assert sum(1 + hit.others for hit in shown) == len(hits)
    assert {hit.text for hit in shown} == {hit.text for hit in hits}
    assert len({(hit.source.partition(" in session")[0], hit.text) for hit in shown}) == len(shown)
