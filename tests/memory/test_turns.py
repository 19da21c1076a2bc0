"""Turns of conversations: windows, what neighbours give, and what a turn counts by itself."""

from datetime import UTC, datetime

import pytest

from pattern_acp.memory.turns import (
    ON_THE_DAY,
    SPREAD,
    QueryOfTurns,
    TurnPlace,
    dated_score,
    runs_of,
    spread_of,
    weight_of,
    window_scores,
)

NOW = int(datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp() * 1000)


def turns(*entries: int, source: str = "s") -> list[TurnPlace]:
    return [TurnPlace(entry, source, f"m{entry}") for entry in entries]


def asked(query: str) -> QueryOfTurns:
    return QueryOfTurns.of(query, NOW, UTC)


def test_turns_of_a_session_follow_each_other_until_a_gap():
    places = [*turns(1, 2, 20), *turns(3, source="other")]
    assert sorted(runs_of(places)) == [[[0], [1]], [[2]], [[3]]]


def test_pieces_of_one_message_are_one_turn():
    places = [TurnPlace(1, "s", "a"), TurnPlace(2, "s", "a"), TurnPlace(3, "s", "b")]
    assert list(runs_of(places)) == [[[0, 1], [2]]]


def test_a_score_spreads_to_two_turns_on_each_side():
    given = spread_of(turns(1, 2, 3, 4), [1.0, 0.0, 0.0, 0.0])
    parts = dict(SPREAD)
    assert given == {1: parts[-1], 2: parts[-2]}


def test_a_turn_gets_more_of_what_was_said_before_it_than_of_what_came_after():
    given = spread_of(turns(1, 2, 3, 4, 5), [0.0, 0.0, 1.0, 0.0, 0.0])
    assert given[3] > given[1]
    assert given[4] > given[0] > 0.0


def test_a_window_has_the_words_of_the_turns_around():
    places = turns(1, 2, 3, 4, 5, 6)
    scores = window_scores(places, {"kiln": {1}, "blue": {3}}, {"kiln": 1, "blue": 1}, 100)
    assert scores[0] == scores[1] == scores[2] > scores[3] == scores[4] > scores[5] == 0.0


@pytest.mark.parametrize("empty", ["Bye Jonah, take care!", "Thank you so much!", "Hi! How are you?", "ok"])
def test_greetings_and_thanks_count_less_than_what_says_something(empty: str):
    said = "The kiln was repaired on the second try, with a new thermostat from Leipzig and two spare fuses."
    assert weight_of(empty, asked("kiln")) < 0.8 * weight_of(said, asked("kiln"))


def test_a_question_counts_less_than_an_answer():
    assert weight_of("Where is the pottery class held then?", asked("class")) < weight_of(
        "Where the pottery class is held then.", asked("class")
    )


def test_a_named_speaker_counts_more():
    text = "Marta: The class is in the old mill on the river."
    assert weight_of(text, asked("Where is Marta's class?")) > weight_of(text, asked("Where is Jonah's class?"))


def test_who_is_asked_when_looks_for_a_day():
    text = "I sold the car yesterday to a man from Graz."
    assert weight_of(text, asked("When was the car sold?")) > weight_of(text, asked("Who bought the car?"))


@pytest.mark.parametrize("query", ["Where does she sell them?", "In which city is her stall?"])
def test_who_asks_for_a_place_gets_turns_that_may_name_one(query: str):
    placed, plain = "Near the old harbour, twice a month.", "Because the old harbour closed last month."
    assert weight_of(placed, asked(query)) > weight_of(placed, asked("How often does she sell them?"))
    assert weight_of(plain, asked(query)) == weight_of(plain, asked("How often does she sell them?"))


@pytest.mark.parametrize(
    ("text", "day", "part"),
    [
        ("We met her yesterday.", 8, 1.0),
        ("We met her on May 7.", 20, 1.0),
        ("We met her.", 7, 0.8),
        ("We met her.", 9, 0.4),
        ("We met her.", 20, 0.0),
    ],
)
def test_a_turn_of_the_day_that_is_asked_for_counts_more(text: str, day: int, part: float):
    said = int(datetime(2023, 5, day, 12, tzinfo=UTC).timestamp() * 1000)
    assert dated_score(text, said, asked("What happened on 7 May 2023?"), UTC) == pytest.approx(part * ON_THE_DAY)
    assert dated_score(text, said, asked("What happened?"), UTC) == 0.0
