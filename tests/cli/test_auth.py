"""What `pattern-acp auth` finds out of its surroundings."""

import pytest

from pattern_acp.bootstrap.credentials import can_show_browser


@pytest.mark.parametrize(
    ("environ", "platform", "expected"),
    [
        ({"DISPLAY": ":0"}, "linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", True),
        ({}, "linux", False),
        ({}, "darwin", True),
        ({}, "win32", True),
        ({"SSH_CONNECTION": "a 1 b 2"}, "darwin", False),
        ({"SSH_CONNECTION": "a 1 b 2", "BROWSER": "my-opener"}, "linux", True),
    ],
)
def test_a_browser_is_opened_only_where_the_person_sees_it(environ: dict[str, str], platform: str, *, expected: bool):
    assert can_show_browser(environ, platform) is expected
