"""Project keys."""

import subprocess
from pathlib import Path

import pytest

from pattern_acp.memory.blocks import normalise_path, project_key


@pytest.mark.parametrize(
    ("platform", "path", "normal"),
    [
        ("linux", "/home/me/Repo/", "/home/me/Repo"),
        ("linux", "/home/me/../you/./repo", "/home/you/repo"),
        ("win32", "C:\\Users\\Me\\Repo\\", "c:/users/me/repo"),
        ("win32", "c:/Users/me/repo", "c:/users/me/repo"),
        ("darwin", "/Users/Me/Cafe\u0301", "/users/me/caf\u00e9"),
    ],
)
def test_a_path_has_one_spelling_on_each_platform(platform: str, path: str, normal: str):
    assert normalise_path(path, platform) == normal


@pytest.mark.needs("git")
def test_a_folder_keeps_its_key_when_it_becomes_a_repository(tmp_path: Path):
    before = project_key(None, str(tmp_path))
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert project_key(".git", str(tmp_path)) == before
    assert project_key(str(tmp_path / ".git"), str(tmp_path)) == before


def test_every_folder_of_a_repository_has_its_key(tmp_path: Path):
    inside = tmp_path / "src" / "deep"
    inside.mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    assert project_key("../../.git", str(inside)) == project_key(".git", str(tmp_path))


def test_a_bare_repository_is_its_own_key(tmp_path: Path):
    assert project_key(str(tmp_path / "repo.git"), str(tmp_path)).endswith("/repo.git")


def test_a_linked_folder_is_the_folder(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    assert project_key(None, str(tmp_path / "link")) == project_key(None, str(tmp_path / "real"))
