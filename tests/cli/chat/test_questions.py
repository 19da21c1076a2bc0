"""Which key answers what."""

import concurrent.futures

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.acp import schema
from pattern_acp.cli.chat.events import OfferedChoice, Question, automatic_choice, choice_for, keyed

ONCE = OfferedChoice("1", "Allow once", "allow_once")
ALWAYS = OfferedChoice("2", "Always", "allow_always")
REJECT = OfferedChoice("3", "Reject", "reject_once")
NEVER = OfferedChoice("4", "Never", "reject_always")


def ask(*choices: OfferedChoice) -> Question:
    return Question(schema.ToolCallUpdate(tool_call_id="c"), choices)


def test_each_kind_of_option_has_its_own_key():
    assert keyed((ONCE, ALWAYS, REJECT, NEVER)) == {"a": ONCE, "A": ALWAYS, "r": REJECT, "R": NEVER}


def test_a_second_option_of_a_kind_and_an_unknown_kind_are_reached_by_number():
    again = OfferedChoice("5", "Allow again", "allow_once")
    other = OfferedChoice("6", "Something new", "ask_later")
    assert keyed((ONCE, again, other)) == {"a": ONCE, "2": again, "3": other}


def test_keys_of_habit_never_reach_further_than_once():
    keys = keyed((ALWAYS, NEVER))
    assert [choice_for(key, keys) for key in "yYnN"] == [None] * 4
    assert choice_for("y", keyed((ONCE, ALWAYS))) == ONCE
    assert choice_for("n", keyed((REJECT, NEVER))) == REJECT


def test_a_key_that_means_nothing_is_no_answer():
    keys = keyed((ONCE, REJECT))
    assert [choice_for(key, keys) for key in ("", " ", "\r", "\x1b", "x")] == [None] * 5


def test_flags_take_the_answer_that_reaches_least():
    choices = (ALWAYS, ONCE, NEVER, REJECT)
    assert automatic_choice("allow", choices) == ONCE
    assert automatic_choice("deny", choices) == REJECT
    assert automatic_choice("allow", (NEVER, ALWAYS)) == ALWAYS
    assert automatic_choice("allow", (REJECT,)) is None


kinds = st.sampled_from(["allow_once", "allow_always", "reject_once", "reject_always", "new"])


@given(st.lists(kinds, max_size=9))
def test_every_option_has_exactly_one_key(offered: list[str]):
    choices = [OfferedChoice(str(number), kind, kind) for number, kind in enumerate(offered)]
    assert list(keyed(choices).values()) == choices


@given(st.lists(kinds, max_size=6), st.sampled_from(["allow", "deny"]))
def test_a_flag_never_chooses_an_option_of_the_other_sort(offered: list[str], flag: str):
    choices = [OfferedChoice(str(number), kind, kind) for number, kind in enumerate(offered)]
    found = automatic_choice("allow" if flag == "allow" else "deny", choices)
    assert found is None or found.kind.startswith("allow" if flag == "allow" else "reject")


def test_the_first_answer_counts():
    question = ask(ONCE)
    assert question.is_open
    question.reply("1")
    question.reply(None)
    assert not question.is_open
    assert question.answer.result(0) == "1"


def test_a_question_whose_asker_went_away_takes_no_answer():
    question = ask(ONCE)
    question.answer.cancel()
    question.reply("1")
    assert not question.is_open
    assert isinstance(question.answer, concurrent.futures.Future)
