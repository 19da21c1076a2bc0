"""Quotes: which pairs of persona and model are offered first."""

from itertools import permutations

import pytest

from pattern_acp.jobs.quote import QuoteCandidate, Reach, quotes_for
from pattern_acp.journal.job_events import JobQuote, JobTerms
from pattern_acp.providers.base import ModelInfo


def candidate(persona: str, model: str, price: int, *past: tuple[int, int], other: bool = False) -> QuoteCandidate:
    info = ModelInfo("some", model, context_window=100_000, input_price=price, output_price=price)
    return QuoteCandidate(persona, info, past, other)


@pytest.mark.parametrize(
    ("past", "wanted", "first"),
    [
        # It used half of what was estimated.
        (((100, 50),), "", ("builder", "some/small")),
        (((100, 200),), "", ("me", "some/small")),
        # At the same price the session's own persona comes first, whatever their names.
        (((100, 100),), "", ("me", "some/small")),
        (((100, 50),), "some/large", ("me", "some/large")),
    ],
)
def test_the_past_of_a_persona_counts_and_the_model_that_was_asked_for_comes_first(
    past: tuple[tuple[int, int], ...], wanted: str, first: tuple[str, str]
):
    candidates = [
        candidate("me", "large", 9_000_000),
        candidate("me", "small", 3_000_000),
        candidate("builder", "small", 3_000_000, *past, other=True),
    ]
    found = {
        quotes_for(JobTerms("Do it", model=wanted), Reach(), order, base_tokens=1_000)
        for order in permutations(candidates)
    }
    (quotes,) = found
    assert (quotes[0].persona, quotes[0].model) == first
    assert len(quotes) == len(candidates)


def test_each_worker_counts_as_a_conversation_of_its_own_and_there_are_no_more_than_files():
    reach = Reach(files=9, likely=("a.py", "b.py", "c.py"), bytes=60_000)

    def quote(workers: int) -> JobQuote:
        terms = JobTerms("Do it", checks=("pytest -q",), workers=workers)
        return quotes_for(terms, reach, [candidate("me", "small", 3_000_000)], base_tokens=10_000)[0]

    alone, two, three, eight = map(quote, (0, 2, 3, 8))
    assert [one.requests for one in (alone, two, three)] == [11, 5 + 7 + 5, 5 + 5 + 5 + 5]
    assert eight == three
    assert alone.tokens < two.tokens < three.tokens
