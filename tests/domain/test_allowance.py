"""What people write for a budget is read as they mean it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.usage import Allowance, parse_allowance

AMOUNTS = st.none() | st.integers(0, 10**13)


@pytest.mark.parametrize(
    ("text", "allowance"),
    [
        ("", Allowance()),
        ("off", Allowance()),
        ("0", Allowance(0)),
        ("2.50", Allowance(2_500_000)),
        ("$2.50", Allowance(2_500_000)),
        ("2.5 USD", Allowance(2_500_000)),
        ("1,000 usd", Allowance(1_000_000_000)),
        ("0.0000001", Allowance(1)),
        ("500k", Allowance(tokens=500_000)),
        ("1.5M tokens", Allowance(tokens=1_500_000)),
        ("500_000 tokens", Allowance(tokens=500_000)),
        ("0 tokens", Allowance(tokens=0)),
        ("2 USD, 500k tokens", Allowance(2_000_000, 500_000)),
        ("500k tokens and 2 USD", Allowance(2_000_000, 500_000)),
    ],
)
def test_it_is_read(text: str, allowance: Allowance):
    assert parse_allowance(text) == allowance


@pytest.mark.parametrize(
    "text",
    ["much", "-1", "2 EUR", "1 USD, 2 USD", "5 tokens, 5k tokens", "$5 tokens", "0.5 tokens", "1,", "1e5", "9" * 40],
)
def test_what_is_no_amount_is_refused(text: str):
    assert parse_allowance(text) is None


@given(AMOUNTS, AMOUNTS)
def test_what_is_shown_is_read_back_to_the_last_millionth(money: int | None, tokens: int | None):
    allowance = Allowance(money, tokens)
    assert parse_allowance(str(allowance)) == allowance


@given(st.text(max_size=30))
def test_no_text_breaks_the_reading(text: str):
    parse_allowance(text)


def test_zero_is_a_limit_and_none_is_not():
    assert Allowance(0).is_zero
    assert Allowance(tokens=0).is_limited
    assert not Allowance().is_limited
    assert Allowance(1, 5) + Allowance(2) == Allowance(3)


@given(AMOUNTS, AMOUNTS, st.integers(0, 10**13), st.integers(0, 10**13))
def test_an_allowance_grows_by_whole_steps_and_not_by_one_more_than_is_needed(
    money: int | None, tokens: int | None, needed_money: int, needed_tokens: int
):
    step = Allowance(money, tokens)
    if step.is_zero or not step.is_limited:
        return
    grown = step.stretched(step, Allowance(needed_money, needed_tokens))
    pairs = [(grown.micro_units, money, needed_money), (grown.tokens, tokens, needed_tokens)]
    limited = [(have, each, need) for have, each, need in pairs if have is not None and each]
    assert all(have >= need for have, _, need in limited)
    assert len({have // each for have, each, _ in limited}) == 1
    steps = limited[0][0] // limited[0][1] - 1
    assert steps == 1 or any(have - each < need for have, each, need in limited)
    assert step + grown.beyond(step) == grown


def test_a_limit_grows_also_where_the_step_has_none():
    assert Allowance(100, 5).stretched(Allowance(tokens=5), Allowance(250, 5)) == Allowance(300, 15)
