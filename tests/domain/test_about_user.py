"""What a user wants remembered: about the user, or about the project."""

import pytest

from pattern_acp.domain.messages import is_about_user


@pytest.mark.parametrize(
    "text",
    [
        "I like short answers.",
        "Likes tea.",
        "Lives in Lisbon.",
        "Has a dog.",
        "my name is Ana",
        "Call me Bo",
        "Please note that I hate emojis",
        "I\u2019d rather see tests first",
        "My time zone is CET.",
        "The user prefers tabs",
    ],
)
def test_it_is_about_the_user(text: str):
    assert is_about_user(text)


@pytest.mark.parametrize(
    "text",
    [
        "Run make check.",
        "The staging port is 7433",
        "Tabs matter",
        "my tests run with make",
        "I moved the parser to reader.py",
        "Uses ninja.",
        "Deploys freeze in December.",
        "",
    ],
)
def test_it_is_about_the_project(text: str):
    assert not is_about_user(text)
