"""Colours that are read on a light ground as well as on a dark one."""

import pytest

from pattern_acp.cli.chat.output import chat_stage, is_light
from pattern_acp.config.settings import ThemeSetting


@pytest.mark.parametrize(
    ("theme", "ground", "expected"),
    [
        ("auto", "", False),
        ("auto", "15;0", False),
        ("auto", "0;15", True),
        ("auto", "0;default;7", True),
        ("light", "15;0", True),
        ("dark", "0;15", False),
        ("plain", "0;15", False),
    ],
)
def test_a_theme_goes_by_the_terminal_unless_it_is_named(theme: ThemeSetting, ground: str, expected: bool):
    assert is_light(theme, {"COLORFGBG": ground} if ground else {}) is expected


def test_light_colours_are_darker_and_plain_has_none():
    dark, light = (chat_stage(json=False, light=each).screen.console for each in (False, True))
    for style in ("yellow", "bold yellow", "cyan", "dim", "green", "markdown.code"):
        assert light.get_style(style) != dark.get_style(style)
    assert light.get_style("red") == dark.get_style("red")
    assert chat_stage(json=False, plain=True).screen.console.no_color
