import subprocess
from pathlib import Path

import pytest

from pattern_acp.workspace.git import GitFacts, git_facts, program_setting

needs_git = pytest.mark.needs("git")

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "protocol.file.allow=always"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def repository(folder: Path, head: str) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head + "\n", encoding="utf-8")
    return folder.resolve()


def test_a_branch_is_found_from_a_folder_below(tmp_path: Path):
    root = repository(tmp_path / "repo", "ref: refs/heads/feature/a-b")
    (root / "src" / "deep").mkdir(parents=True)
    facts = git_facts(str(root / "src" / "deep"))
    assert facts == GitFacts(str(root), str(root / ".git"), "feature/a-b")


def test_a_detached_head_has_a_commit_and_no_branch(tmp_path: Path):
    root = repository(tmp_path / "repo", COMMIT)
    assert git_facts(str(root)) == GitFacts(str(root), str(root / ".git"), "", COMMIT)


@pytest.mark.parametrize("head", ["ref: refs/heads/.invalid", "garbage", "ref: refs/tags/v1"])
def test_a_head_that_says_nothing_gives_no_branch(tmp_path: Path, head: str):
    root = repository(tmp_path / "repo", head)
    assert git_facts(str(root)) == GitFacts(str(root), str(root / ".git"))


def test_without_a_repository_everything_is_empty(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    facts = git_facts(str(tmp_path))
    assert facts.root != str(tmp_path.resolve())


def test_a_folder_that_does_not_exist_is_looked_at_from_above(tmp_path: Path):
    root = repository(tmp_path / "repo", "ref: refs/heads/main")
    assert git_facts(str(root / "not" / "there")).branch == "main"


def test_a_broken_git_file_is_passed_over(tmp_path: Path):
    root = repository(tmp_path / "repo", "ref: refs/heads/main")
    (root / "sub").mkdir()
    (root / "sub" / ".git").write_text("gitdir: ../nowhere\n", encoding="utf-8")
    assert git_facts(str(root / "sub")).root == str(root)


@needs_git
def test_worktrees_share_one_directory(tmp_path: Path):
    main = tmp_path.resolve() / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "trunk")
    git(main, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "worktree", "add", "-q", str(main.parent / "other"), "-b", "side")
    other = git_facts(str(main.parent / "other"))
    assert (other.root, other.branch) == (str(main.parent / "other"), "side")
    assert other.common_dir == git_facts(str(main)).common_dir == str(main / ".git")


@needs_git
def test_a_submodule_is_a_repository_of_its_own(tmp_path: Path):
    library, main = tmp_path.resolve() / "library", tmp_path.resolve() / "main"
    for folder in (library, main):
        folder.mkdir()
        git(folder, "init", "-q", "-b", "trunk")
        git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "submodule", "--quiet", "add", str(library), "lib")
    facts = git_facts(str(main / "lib"))
    assert facts.root == str(main / "lib")
    assert facts.common_dir == str(main / ".git" / "modules" / "lib")
    assert facts.branch == "trunk"


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ("[core]\n\tbare = false\n\tfsmonitor = true\n[diff]\n\trenames = true\n", ""),
        ('[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\tprocess = git-lfs filter-process\n', ""),
        ("[diff]\n\texternal = ./x\n", "external"),
        ('[diff "a"] textconv = ./x\n', "textconv"),
        ('[filter "a"]\n\tclean = ./x\n', "clean"),
        ("[core]\n\tFSMonitor = ./x\n", "fsmonitor"),
        ("[include]\n\tpath = ../x\n", "include"),
        ('[includeIf "gitdir:x"]\n\tpath = ../x\n', "include"),
    ],
)
def test_a_setting_of_the_repository_that_starts_a_program_is_named(tmp_path: Path, settings: str, found: str):
    root = repository(tmp_path / "repo", "ref: refs/heads/main")
    (root / "src").mkdir()
    (root / ".git" / "config").write_text(settings, encoding="utf-8")
    assert program_setting((str(tmp_path), str(root / "src"))) == found
    (root / ".git" / "config").write_text("", encoding="utf-8")
    module = root / ".git" / "modules" / "sub"
    module.mkdir(parents=True)
    (module / "config").write_text(settings, encoding="utf-8")
    assert program_setting((str(root),)) == found
