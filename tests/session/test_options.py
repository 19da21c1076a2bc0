"""Which options a session has, and with which values."""

import pytest

from pattern_acp.config.settings import ModelSettings, Settings
from pattern_acp.policy.decide import Mode
from pattern_acp.providers.base import ModelInfo, ThoughtLevel
from pattern_acp.session.options import MODES, first_level, level_after, session_options, thought_level_of

THINKER = ModelInfo("a", "thinker", thought_levels=(ThoughtLevel.OFF, ThoughtLevel.LOW, ThoughtLevel.HIGH))
PLAIN = ModelInfo("a", "plain")


def test_ids_are_stable_since_people_save_them_in_their_settings():
    options = session_options(Mode.ASK, THINKER, [], ThoughtLevel.OFF)
    assert [option.option_id for option in options] == ["mode", "model", "thought_level"]
    assert [option.category for option in options] == ["mode", "model", "thought_level"]
    assert [mode.value for mode in MODES] == ["ask", "edit", "plan", "auto"]


def test_every_current_value_is_one_of_the_choices():
    for model in (THINKER, PLAIN):
        for level in ThoughtLevel:
            for option in session_options(Mode.PLAN, model, [PLAIN], level):
                assert option.current in {choice.value for choice in option.choices}


def test_the_model_in_use_is_a_choice_even_when_no_list_has_it():
    (_, models, _) = session_options(Mode.ASK, THINKER, [PLAIN], ThoughtLevel.LOW)
    assert [choice.value for choice in models.choices] == ["a/plain", "a/thinker"]


def test_thinking_goes_only_as_far_as_the_model_does():
    thinking = session_options(Mode.ASK, THINKER, [], ThoughtLevel.MEDIUM)[-1]
    assert [choice.value for choice in thinking.choices] == ["auto", "off", "low", "high"]
    assert thinking.current == "low"


def test_a_model_that_does_not_think_has_no_such_option():
    assert [o.option_id for o in session_options(Mode.ASK, PLAIN, [], ThoughtLevel.HIGH)] == ["mode", "model"]


def test_nothing_is_asked_of_a_model_unless_the_user_does():
    assert session_options(Mode.ASK, THINKER, [], ThoughtLevel.AUTO)[-1].current == "auto"


@pytest.mark.parametrize(
    ("wanted", "known", "level"),
    [
        ("auto", "off low high", "auto"),
        ("medium", "off low high", "low"),
        ("high", "off low", "low"),
        ("off", "low medium high", "low"),
        ("low", "high", "high"),
        ("high", "", "auto"),
        ("off", "", "auto"),
    ],
)
def test_a_level_that_a_model_does_not_have_becomes_the_nearest_below_or_its_least(wanted: str, known: str, level: str):
    model = ModelInfo("a", "m", thought_levels=tuple(map(ThoughtLevel, known.split())))
    assert thought_level_of(model, ThoughtLevel(wanted)) == level


def test_a_models_own_table_says_at_which_level_it_begins_and_a_change_of_model_follows_it():
    own = {"a/thinker": ModelSettings(thinking_level="high")}
    settings, other = Settings(thinking="low", models=own), ModelInfo("a", "other")
    assert first_level(settings, THINKER) is ThoughtLevel.HIGH
    assert first_level(settings, other) is ThoughtLevel.LOW
    assert level_after(settings, ThoughtLevel.HIGH, THINKER, other) is ThoughtLevel.LOW
    assert level_after(settings, ThoughtLevel.LOW, other, THINKER) is ThoughtLevel.HIGH
    # What the user chose stays.
    assert level_after(settings, ThoughtLevel.OFF, THINKER, other) is ThoughtLevel.OFF
