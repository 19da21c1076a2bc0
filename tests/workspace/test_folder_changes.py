"""What a command changed, with and without git."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pattern_acp.workspace.folder_changes import FolderChanges, FoundChanges

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permission bits and links of POSIX")

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> None:
    environment = {**ENVIRONMENT, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True, env=environment)


def repository(folder: Path) -> None:
    (folder / "clean.txt").write_text("clean\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "gone.txt").write_text("gone\n")
    (folder / "dirty.txt").write_text("committed\n")
    (folder / ".gitignore").write_text("ignored\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "one")
    (folder / "dirty.txt").write_text("dirty\n")
    (folder / "untracked.txt").write_text("untracked\n")


async def changed_by(folder: Path, work: Callable[[], None]) -> tuple[FoundChanges, dict[str, tuple[object, object]]]:
    # Git may take its time here: what is found must not depend on how busy the machine is.
    changes = FolderChanges(ENVIRONMENT, git_seconds=60)
    before = await changes.look([str(folder)])
    work()
    found = await changes.compare(before)
    return found, {Path(path).name: (was.content, now.content) for path, was, now in found.files}


@pytest.mark.needs("git")
async def test_git_gives_what_was_clean_and_the_look_before_what_was_not(tmp_path: Path):
    repository(tmp_path)

    def work() -> None:
        (tmp_path / "clean.txt").write_text("changed\n")
        (tmp_path / "gone.txt").unlink()
        (tmp_path / "dirty.txt").write_text("dirtier\n")
        (tmp_path / "untracked.txt").write_text("tracked?\n")
        (tmp_path / "new.txt").write_text("new\n")
        (tmp_path / "ignored").write_text("x")
        (tmp_path / "run.sh").chmod(0o644)

    found, states = await changed_by(tmp_path, work)
    assert states == {
        "clean.txt": (b"clean\n", b"changed\n"),
        "gone.txt": (b"gone\n", None),
        "dirty.txt": (b"dirty\n", b"dirtier\n"),
        "untracked.txt": (b"untracked\n", b"tracked?\n"),
        "new.txt": (None, b"new\n"),
        "run.sh": (b"#!/bin/sh\n", b"#!/bin/sh\n"),
    }
    assert found.problems == ()
    modes = {Path(path).name: (was.state.mode, now.state.mode) for path, was, now in found.files}
    assert modes["run.sh"] == (0o755, 0o644)


@pytest.mark.parametrize("in_git", [pytest.param(True, marks=pytest.mark.needs("git")), False])
async def test_caches_that_tools_fill_are_no_change_also_where_nothing_ignores_them(in_git: bool, tmp_path: Path):
    # A session may be in such a folder itself.
    root = tmp_path / ".tox" / "project"
    cache = root / "below" / "__pycache__"
    cache.mkdir(parents=True)
    (cache / "old.pyc").write_bytes(b"old")
    if in_git:
        repository(root)

    def work() -> None:
        (cache / "old.pyc").write_bytes(b"newer")
        (cache / "new.pyc").write_bytes(b"new")
        (root / "below" / "work.py").write_text("work\n")

    _, states = await changed_by(root, work)
    assert states == {"work.py": (None, b"work\n")}


@pytest.mark.needs("git")
async def test_a_change_back_to_the_commit_and_a_switch_of_branches_are_seen(tmp_path: Path):
    repository(tmp_path)
    git(tmp_path, "stash", "-q")
    git(tmp_path, "checkout", "-q", "-b", "other")
    (tmp_path / "clean.txt").write_text("other\n")
    git(tmp_path, "commit", "-q", "-am", "two")
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "stash", "pop", "-q")
    _, states = await changed_by(tmp_path, lambda: git(tmp_path, "checkout", "-q", "--", "dirty.txt"))
    assert states == {"dirty.txt": (b"dirty\n", b"committed\n")}
    _, states = await changed_by(tmp_path, lambda: git(tmp_path, "checkout", "-q", "other"))
    assert states == {"clean.txt": (b"clean\n", b"other\n")}
    _, states = await changed_by(tmp_path, lambda: git(tmp_path, "commit", "-q", "--allow-empty", "-m", "three"))
    assert states == {}


@pytest.mark.needs("git")
async def test_a_file_that_git_converts_is_left_out_and_no_filter_runs(tmp_path: Path):
    (tmp_path / ".gitattributes").write_text("*.bin filter=theirs\n")
    (tmp_path / "a.bin").write_text("x\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "config", "filter.theirs.smudge", f"touch {tmp_path}/ran")
    found, _ = await changed_by(tmp_path, (tmp_path / "a.bin").unlink)
    [(_, was, _)] = found.files
    assert was.state.why_not == "git stores it in another form than it had on the disk"
    assert not (tmp_path / "ran").exists()


async def test_without_git_the_folder_is_walked(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "link").symlink_to("b.txt")

    def work() -> None:
        (tmp_path / "sub" / "a.txt").write_text("A")
        (tmp_path / "b.txt").rename(tmp_path / "c.txt")
        (tmp_path / "link").unlink()
        (tmp_path / "link").symlink_to("c.txt")

    found, states = await changed_by(tmp_path, work)
    assert states == {"a.txt": (b"a", b"A"), "b.txt": (b"b", None), "c.txt": (None, b"b"), "link": (None, None)}
    assert found.problems == ()


async def test_a_change_that_leaves_size_and_times_as_they_were_is_found_in_what_was_just_written(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a")
    changes = FolderChanges(ENVIRONMENT)
    [before] = await changes.look([str(tmp_path)])
    (tmp_path / "a.txt").write_text("A")
    # As a file system notes it whose clock goes in steps.
    [after] = await changes.look([str(tmp_path)])
    before.signatures = after.signatures
    found = await changes.compare([before])
    assert [(was.content, now.content) for _, was, now in found.files] == [(b"a", b"A")]
    assert (await changes.compare([after])).files == ()


@pytest.mark.needs("git")
async def test_a_repository_without_a_commit_and_a_folder_that_git_does_not_answer_for(tmp_path: Path):
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("a")
    _, states = await changed_by(tmp_path, lambda: git(tmp_path, "config", "-f", "b.txt", "a.b", "c"))
    assert states == {"b.txt": (None, b"[a]\n\tb = c\n")}
    (tmp_path / ".git" / "index").write_text("broken")
    found, _ = await changed_by(tmp_path, lambda: None)
    assert found.files == ()
    assert "git did not answer" in found.problems[0][1]
