import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pattern_acp.workspace.errors import AccessDeniedError
from pattern_acp.workspace.walk import WalkStoppedError, require_folder, walk_entries, walk_files
from tests.support.closed_folders import closed_folder


def names(root: Path) -> set[str]:
    return {walked.name for walked in walk_files(str(root), threading.Event())}


def put(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x", encoding="utf-8")


def rules(root: Path, text: str) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / ".gitignore").write_text(text, encoding="utf-8")


def repository(root: Path) -> Path:
    (root / ".git" / "info").mkdir(parents=True)
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return root


def test_rules_apply_at_every_level_and_the_nearest_wins(tmp_path: Path):
    root = repository(tmp_path)
    rules(root, "*.log\nbuild/\n/only-here\n")
    rules(root / "sub", "!keep.log\n*.tmp\n")
    put(
        root,
        "a.log",
        "b.txt",
        "c.tmp",
        "build/x",
        "only-here",
        "sub/keep.log",
        "sub/a.log",
        "sub/c.tmp",
        "sub/only-here",
    )
    assert names(root) == {".gitignore", "b.txt", "c.tmp", "sub/.gitignore", "sub/keep.log", "sub/only-here"}


def test_the_rules_above_a_sub_folder_apply_to_it(tmp_path: Path):
    root = repository(tmp_path)
    rules(root, "*.log\n/sub/secret\n")
    put(root, "sub/a.log", "sub/secret", "sub/b.txt")
    assert names(root / "sub") == {"b.txt"}


def test_a_folder_that_is_ignored_itself_can_be_asked_for(tmp_path: Path):
    root = repository(tmp_path)
    rules(root, "vendor/\n*.log\n")
    put(root, "vendor/lib/a.py")
    assert names(root / "vendor") == names(root / "vendor") == {"lib/a.py"}
    assert names(root / "vendor" / "lib") == {"a.py"}


def test_excludes_of_the_repository_count(tmp_path: Path):
    root = repository(tmp_path)
    (root / ".git" / "info" / "exclude").write_text("private/\n", encoding="utf-8")
    put(root, "private/x", "public/x")
    assert names(root) == {"public/x"}


def test_a_nested_repository_has_its_own_rules(tmp_path: Path):
    root = repository(tmp_path)
    rules(root, "*.log\n")
    repository(root / "nested")
    rules(root / "nested", "*.tmp\n")
    put(root, "nested/a.log", "nested/b.tmp")
    assert names(root) == {".gitignore", "nested/.gitignore", "nested/a.log"}


def test_rules_count_without_a_repository_but_only_from_the_root_down(tmp_path: Path):
    rules(tmp_path, "*\n")
    rules(tmp_path / "work", "*.log\n")
    put(tmp_path, "work/a.log", "work/b.txt")
    assert names(tmp_path / "work") == {".gitignore", "b.txt"}


def test_a_rule_that_is_not_valid_does_not_switch_off_the_others(tmp_path: Path):
    root = repository(tmp_path)
    rules(root, "!\n*.log\r\n# comment\n\n")
    put(root, "a.log", "b.txt")
    assert names(root) == {".gitignore", "b.txt"}


def test_links_are_named_but_not_entered(tmp_path: Path):
    root = repository(tmp_path / "root")
    put(root, "folder/a")
    (root / "loop").symlink_to(root, target_is_directory=True)
    assert names(root) == {"folder/a", "loop"}


def test_a_walk_that_is_told_to_stop_stops(tmp_path: Path):
    stop = threading.Event()
    stop.set()
    with pytest.raises(WalkStoppedError):
        list(walk_files(str(tmp_path), stop))


parts = st.sampled_from(["a", "b", "ab", "a.x", "b.x"])
paths = st.lists(parts, min_size=1, max_size=3).map("/".join)
patterns = st.tuples(
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/", "**/"]),
    st.one_of(paths, st.sampled_from(["*", "*.x", "a*", "?", "a/**", "a/*", "**/b", "[ab]", "a/**/b", "*b/"])),
    st.sampled_from(["", "", "/"]),
).map("".join)


@pytest.mark.needs("git")
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(paths, min_size=1, max_size=8), st.lists(patterns, max_size=5), st.lists(patterns, max_size=3))
def test_the_same_files_are_left_out_as_by_git(files: set[str], top: list[str], below: list[str]):
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        subprocess.run(["git", "init", "-q", "--template=", str(root)], check=True)
        (root / "a").mkdir()
        for name in sorted(files):
            if any((root / parent).is_file() for parent in Path(name).parents) or (root / name).is_dir():
                continue
            put(root, name)
        rules(root, "\n".join(top))
        rules(root / "a", "\n".join(below))
        listed = subprocess.run(
            ["git", "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-standard"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        )
        assert names(root) == set(filter(None, listed.stdout.split("\0")))


@pytest.mark.skipif(sys.platform == "win32", reason="folders are closed in another way there")
def test_a_folder_that_may_not_be_entered_hides_only_itself(tmp_path: Path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").touch()
    (tmp_path / "work").chmod(0o755)
    with closed_folder(tmp_path / "work"):
        found = [entry.name for entry in walk_entries(str(tmp_path / "work"), threading.Event())]
    assert found == ["a.txt", "closed"]


@pytest.mark.skipif(sys.platform == "win32", reason="folders are closed in another way there")
def test_what_lies_in_a_folder_that_may_not_be_entered_is_told_from_what_is_missing(tmp_path: Path):
    with closed_folder(tmp_path) as closed, pytest.raises(AccessDeniedError, match="may not be entered"):
        require_folder(str(closed / "below"))
