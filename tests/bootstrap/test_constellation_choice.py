"""Which constellation a folder uses."""

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.bootstrap.constellation_choice import (
    constellation_of_folder,
    constellation_of_project,
    process_in,
    project_constellations,
)
from pattern_acp.bootstrap.process import Process, start_process
from pattern_acp.config.load import Loaded
from pattern_acp.config.settings import ConstellationSettings, Flags
from pattern_acp.config.toml_file import is_valid_name


def process_of(home: Path, text: str = "[constellation]\nper_project = true", flags: Flags | None = None) -> Process:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text, encoding="utf-8")
    return start_process(flags or Flags(), {"PATTERN_ACP_HOME": str(home)})


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    subprocess.run(("git", *identity, *words), cwd=folder, check=True, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def test_without_the_setting_every_folder_uses_the_one_that_is_named(tmp_path: Path):
    loaded = process_of(tmp_path / "home", 'constellation = "work"').loaded
    assert constellation_of_folder(loaded, str(tmp_path)) == "work"
    assert project_constellations(loaded) == ()


def test_a_repository_has_a_constellation_that_its_folders_and_worktrees_share(tmp_path: Path):
    shop, other = repository(tmp_path / "My Shop!"), repository(tmp_path / "deep" / "My Shop!")
    (shop / "src").mkdir()
    git(shop, "worktree", "add", "-q", str(tmp_path / "second"))
    loaded = process_of(tmp_path / "home").loaded
    name = constellation_of_folder(loaded, str(shop))
    assert name.startswith("default.my-shop-")
    assert constellation_of_folder(loaded, str(shop / "src")) == name
    assert constellation_of_folder(loaded, str(tmp_path / "second")) == name
    assert constellation_of_folder(loaded, str(other)) != name


def test_a_folder_of_no_repository_has_its_own_also_when_it_is_gone(tmp_path: Path):
    loaded = process_of(tmp_path / "home").loaded
    (tmp_path / "notes").mkdir()
    name = constellation_of_folder(loaded, str(tmp_path / "notes"))
    assert name != constellation_of_folder(loaded, str(tmp_path))
    (tmp_path / "notes").rmdir()
    assert constellation_of_folder(loaded, str(tmp_path / "notes")) == name


def test_a_folder_keeps_its_constellation_when_it_becomes_a_repository(tmp_path: Path):
    loaded = process_of(tmp_path / "home").loaded
    (tmp_path / "new").mkdir()
    before = constellation_of_folder(loaded, str(tmp_path / "new"))
    git(tmp_path / "new", "init", "-q")
    assert constellation_of_folder(loaded, str(tmp_path / "new")) == before


def test_one_that_a_flag_names_is_used_for_all_folders(tmp_path: Path):
    loaded = process_of(tmp_path / "home", flags=Flags(constellation="default.shop-000000000000")).loaded
    assert constellation_of_folder(loaded, str(tmp_path)) == "default.shop-000000000000"


def test_those_that_are_there_are_found_and_no_others(tmp_path: Path):
    process = process_of(tmp_path / "home")
    mine = process_in(process, str(tmp_path / "shop"))
    other = process_of(tmp_path / "home", '[constellation]\nname = "work"\nper_project = true')
    for path in (mine.constellation_path, process_in(other, str(tmp_path / "shop")).constellation_path):
        path.parent.mkdir(parents=True)
    (mine.constellation_path.parent.parent / "default").mkdir()
    (mine.constellation_path.parent.parent / "default.mine").mkdir()
    assert project_constellations(process.loaded) == (mine.constellation,)


def named(loaded: Loaded, name: str) -> Loaded:
    settings = replace(loaded.settings, constellation=ConstellationSettings(name, per_project=True))
    return replace(loaded, settings=settings)


@given(st.from_regex(r"[A-Za-z0-9_-]{1,30}(\.[A-Za-z0-9_-]{1,30})?", fullmatch=True), st.text(max_size=80))
def test_every_name_is_one_directory_and_another_for_each_project_and_constellation(name: str, project: str):
    loaded = start_process(Flags(), {}).loaded
    found = constellation_of_project(named(loaded, name), project)
    assert is_valid_name(found)
    assert found != constellation_of_project(named(loaded, name), f"{project}x")
    assert found != constellation_of_project(named(loaded, f"{name}x"), project)
