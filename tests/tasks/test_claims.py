"""Which claims meet, how long they last, and what becomes of those whose process died."""

from pathlib import Path

import pytest

from pattern_acp.tasks.claims import ClaimKind, ClaimTarget, target_of


def target(words: str) -> ClaimTarget:
    """A target as it is written here: a slash at the end makes a folder, a mark a pattern."""
    return target_of(words, "/")


@pytest.mark.parametrize(
    ("claimed", "other", "meets"),
    [
        ("/w/a.py", "/w/a.py", True),
        ("/w/a.py", "/w/b.py", False),
        ("/w/src/", "/w/src/x/a.py", True),
        ("/w/src/", "/w/srcs/a.py", False),
        ("/w/src/", "/w/src", True),
        ("/w/src/", "/w/src/inner/", True),
        ("/w/src/", "/w/other/", False),
        ("/w/*.py", "/w/a.py", True),
        ("/w/*.py", "/w/x/a.py", False),
        ("/w/**/*.py", "/w/x/a.py", True),
        ("/w/**/*.py", "/w/a.py", True),
        ("/w/*.py", "/w/a.txt", False),
        ("/w/src/*.py", "/w/src/", True),
        ("/w/src/*.py", "/w/", True),
        ("/w/src/*.py", "/w/docs/", False),
        ("/w/**/*.py", "/w/src/*.py", True),
        ("/w/**/*.py", "/w/src/*.md", False),
        ("/w/a/*.py", "/w/b/*.py", False),
    ],
)
def test_files_folders_and_patterns_meet_either_way(claimed: str, other: str, meets: bool):
    assert target(claimed).meets(target(other)) is meets
    assert target(other).meets(target(claimed)) is meets


def test_a_file_with_brackets_in_its_name_is_a_file(tmp_path: Path):
    (tmp_path / "a[1].py").write_text("", encoding="utf-8")
    (tmp_path / "src").mkdir()
    assert target_of("a[1].py", str(tmp_path)) == ClaimTarget(str(tmp_path / "a[1].py"))
    assert target_of("b[1].py", str(tmp_path)).kind is ClaimKind.GLOB
    assert target_of("src", str(tmp_path)) == ClaimTarget(str(tmp_path / "src"), ClaimKind.FOLDER)
    assert not ClaimTarget("/w/a[1].py").meets(ClaimTarget("/w/a1.py"))
