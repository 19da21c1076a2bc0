"""Which options a session has, and with which values."""

from pattern_acp.policy.decide import Mode
from pattern_acp.providers.base import ModelInfo, ThoughtLevel
from pattern_acp.session.options import MODES, session_options

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
    assert [choice.value for choice in thinking.choices] == ["off", "low", "high"]
    assert thinking.current == "off"


def test_a_model_that_does_not_think_has_no_such_option():
    assert [o.option_id for o in session_options(Mode.ASK, PLAIN, [], ThoughtLevel.HIGH)] == ["mode", "model"]
