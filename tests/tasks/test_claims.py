"""Which claims meet, how long they last, and what becomes of those whose process died."""

import pytest

from pattern_acp.tasks.claims import TTL_MS, _meets, board_text  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("claimed", "path", "meets"),
    [
        ("/w/a.py", "/w/a.py", True),
        ("/w/a.py", "/w/b.py", False),
        ("/w/src/", "/w/src/x/a.py", True),
        ("/w/src/", "/w/srcs/a.py", False),
        ("/w/src/a.py", "/w/src/", True),
        ("/w/*.py", "/w/a.py", True),
        ("/w/*.py", "/w/x/a.py", False),
        ("/w/**/*.py", "/w/x/a.py", True),
        ("/w/*.py", "/w/a.txt", False),
    ],
)
def test_a_claim_means_files_folders_and_patterns(claimed: str, path: str, meets: bool):
    assert _meets(claimed, path) is meets


def test_an_empty_board_says_so():
    assert board_text((), now_ms=TTL_MS) == "No session is open."
