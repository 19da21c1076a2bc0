import sys
from pathlib import Path

import pytest

from pattern_acp.journal.sessions import cwd_key


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("C:\\Work\\Project\\", "c:/work/project"),
        ("c:/work//project", "c:/work/project"),
        ("\\\\server\\share\\Dir", "//server/share/dir"),
        ("D:\\", "d:"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows resolves them itself")
def test_windows_paths_are_compared_without_case_and_with_one_separator(path: str, key: str):
    assert cwd_key(path) == key


@pytest.mark.skipif(sys.platform == "win32", reason="symlinks need a privilege there")
def test_a_symlink_is_the_folder_it_points_to(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert cwd_key(f"{tmp_path}/link/") == cwd_key(f"{tmp_path}/real")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_case_counts_on_linux_and_not_on_macos():
    assert cwd_key("/Work/Ä", platform="linux") == "/Work/Ä"
    assert cwd_key("/Work/A\u0308", platform="darwin") == cwd_key("/work/\u00e4", platform="darwin")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX paths")
def test_the_root_stays_the_root():
    assert cwd_key("/") == "/"
    assert cwd_key("//") == "/"
