"""Numbers and times as people read them."""

import pytest

from pattern_acp.acp import schema
from pattern_acp.cli.chat.screen import ASCII, UNICODE, marks_for
from pattern_acp.cli.chat.transcript import duration, folder_words, short_number, usage_words


@pytest.mark.parametrize(
    ("number", "shown"),
    [(0, "0"), (980, "980"), (1_000, "1k"), (12_345, "12.3k"), (200_000, "200k"), (1_250_000, "1.2M")],
)
def test_counts_are_short(number: int, shown: str):
    assert short_number(number) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0.0 s"), (3.24, "3.2 s"), (65.9, "1 min 05 s")])
def test_times_are_short(seconds: float, shown: str):
    assert duration(seconds) == shown


def test_the_alphabet_is_what_the_stream_can_write():
    assert marks_for("utf-8") is UNICODE
    assert marks_for("UTF8") is UNICODE
    assert marks_for("ascii") is ASCII
    assert marks_for("cp1252") is ASCII
    assert "".join([ASCII.done, ASCII.spinner, *ASCII.kinds.values()]).isascii()
    assert UNICODE.kinds.keys() == ASCII.kinds.keys()


@pytest.mark.parametrize(
    ("folder", "home", "shown"),
    [
        ("/home/ann/shop", "/home/ann", "~/shop"),
        ("/home/ann/shop", "/home/ann/", "~/shop"),
        ("C:\\Users\\ann\\shop", "C:\\Users\\ann", "~\\shop"),
        ("/home/anna/shop", "/home/ann", "/home/anna/shop"),
        ("/home/ann", "/home/ann", "/home/ann"),
        ("/srv", "/", "/srv"),
        ("/a\nb", "/home/ann", "/a b"),
    ],
)
def test_folders_of_the_person_begin_with_a_tilde(folder: str, home: str, shown: str):
    assert folder_words(folder, home) == shown


def test_the_smallest_cost_is_not_shown_as_nothing():
    update = schema.UsageUpdate(used=10, size=100, cost=schema.Cost(amount=0.000001, currency="USD"))
    assert usage_words(update)[-1] == "0.0001 USD"
    free = schema.UsageUpdate(used=10, size=100, cost=schema.Cost(amount=0, currency="USD"))
    assert len(usage_words(free)) == 1
