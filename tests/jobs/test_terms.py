"""Terms of jobs as users type them."""

import pytest

from pattern_acp.jobs.model import JobTermsError
from pattern_acp.jobs.quote import hold_of, narrowed, parse_terms
from pattern_acp.journal.job_events import JobHold, JobTerms


@pytest.mark.parametrize(
    ("typed", "terms"),
    [
        ("Move the tests to pytest", JobTerms("Move the tests to pytest")),
        (
            '"Move them" --max 2 USD --paths tests/** --check "pytest -q"',
            JobTerms("Move them", "2.00 USD", None, ("tests/**",), ("pytest -q",)),
        ),
        (
            "don't break it --max 60k tokens, 20 min --paths a/*.py,b/** c --check pytest -k 'a b' --check=true",
            JobTerms("don't break it", "60000 tokens", 1200, ("a/*.py", "b/**", "c"), ("pytest -k 'a b'", "true")),
        ),
        ("x --max 1 h --model a/b --workers 3", JobTerms("x", "", 3600, model="a/b", workers=3)),
        ("x --max 0 USD", JobTerms("x", "0.0000 USD")),
        (r'"say \"hi\"" --max 90s', JobTerms('say "hi"', "", 90)),
    ],
)
def test_terms_are_read_as_they_are_typed(typed: str, terms: JobTerms):
    assert parse_terms(typed) == terms


@pytest.mark.parametrize(
    ("typed", "wrong"),
    [
        ("", "Say what is to be done"),
        ("--max 2 USD", "Say what is to be done"),
        ("x --max", "--max needs a value"),
        ("x --max lots", "--max takes money, tokens or time"),
        ("x --max off", "--max takes money, tokens or time"),
        ("x --workers 9", "from 1 to 8"),
        ("x --paths ../other/**", "below the session's folder"),
        ("x --paths /etc/*", "below the session's folder"),
        ("x --paths C:/x", "below the session's folder"),
    ],
)
def test_what_cannot_be_read_is_named(typed: str, wrong: str):
    with pytest.raises(JobTermsError, match=wrong):
        parse_terms(typed)


def test_narrowing_replaces_options_and_nothing_else():
    terms = parse_terms('"x" --max 2 USD --paths a/** --check one --check two')
    narrower = narrowed(terms, "--paths a/b/** --max 50k tokens")
    assert narrower == JobTerms("x", "50000 tokens", None, ("a/b/**",), ("one", "two"))
    with pytest.raises(JobTermsError, match="quoted already"):
        narrowed(narrower, "--paths a/b/**")
    with pytest.raises(JobTermsError, match="its goal stays"):
        narrowed(narrower, "another goal --max 1 USD")


def test_a_hold_is_what_was_set_and_zero_stays_zero():
    assert hold_of(parse_terms("x --max 0 tokens")) == JobHold(tokens=0)
    assert hold_of(parse_terms("x --max 2 USD, 5 min")) == JobHold(None, 2_000_000, 300_000)
    assert hold_of(parse_terms("x")) == JobHold()
