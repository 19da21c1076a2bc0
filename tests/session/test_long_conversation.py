"""A conversation of 150 turns in a small window. benchmarks/window.py holds one of 1,000."""

import pytest

from tests.support.long_conversation import FACTS, converse


@pytest.mark.slow
async def test_a_hundred_and_fifty_turns_stay_in_the_window_and_recall_finds_what_was_said_first():
    measured = await converse(150)
    assert measured.refused == 0
    assert measured.largest <= 12_000
    assert measured.invalid == 0
    assert measured.compactions > 5
    # Compacting costs little beside the conversation itself.
    assert measured.summary_share < 0.25
    assert measured.found >= len(FACTS) - 1
    assert measured.estimate_error < 0.1
