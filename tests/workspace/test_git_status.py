import subprocess
from pathlib import Path

import pytest

from pattern_acp.workspace.git import GitStatus, git_status, read_status
from tests.support.agent import temporary_folder

ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/local/bin"}
needs_git = pytest.mark.needs("git", environment=ENVIRONMENT)


def git(folder: Path, *arguments: str) -> None:
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


@needs_git
async def test_branch_and_counts_of_a_repository():
    with temporary_folder() as folder:
        git(folder, "init")
        (folder / "a.txt").write_text("a")
        (folder / "b.txt").write_text("b")
        git(folder, "add", ".")
        git(folder, "commit", "-m", "first")
        (folder / "sub").mkdir()
        clean = await git_status(str(folder / "sub"), ENVIRONMENT, seconds=20)
        assert clean is not None
        assert clean.sentence() == "branch main, clean"
        (folder / "a.txt").write_text("changed")
        git(folder, "mv", "b.txt", "c d.txt")
        (folder / "new.txt").write_text("n")
        status = await git_status(str(folder), ENVIRONMENT, seconds=20)
        assert status is not None
        assert status.sentence() == "branch main, 1 staged, 1 changed, 1 untracked"
        assert {Path(path).name for path in status.paths} == {"a.txt", "c d.txt", "new.txt"}
        git(folder, "checkout", "--detach")
        detached = await git_status(str(folder), ENVIRONMENT, seconds=20)
        assert detached is not None
        assert detached.sentence().startswith("no branch (detached HEAD), 1 staged")


@needs_git
async def test_a_repository_cannot_make_git_run_a_program():
    with temporary_folder() as folder:
        git(folder, "init")
        program = folder / "monitor.sh"
        program.write_text(f"#!/bin/sh\ntouch '{folder}/ran'\n")
        program.chmod(0o700)
        git(folder, "config", "core.fsmonitor", str(program))
        assert await git_status(str(folder), ENVIRONMENT, seconds=20) is not None
        assert not (folder / "ran").exists()


async def test_without_repository_git_or_time_there_is_no_state():
    with temporary_folder() as folder:
        assert await git_status(str(folder), ENVIRONMENT) is None
        (folder / ".git").mkdir()
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        assert await git_status(str(folder), {"PATH": ""}) is None
        assert await git_status(str(folder), ENVIRONMENT, seconds=0) is None
        (folder / ".git" / "HEAD").write_text("nonsense")
        assert await git_status(str(folder), ENVIRONMENT, seconds=20) is None


def test_upstream_and_conflicts_are_counted():
    output = "# branch.oid abc\0# branch.head main\0# branch.upstream o/main\0# branch.ab +2 -1\0"
    output += "u UU N... 100644 100644 100644 100644 a b c in conflict.txt\0"
    status = read_status(output, "/work/")
    assert status == GitStatus("main", 2, 1, conflicts=1, paths=("/work/in conflict.txt",))
    assert status.sentence() == "branch main, 2 ahead of its upstream, 1 behind it, 1 in conflict"
    assert (
        read_status("# branch.head x\0# branch.ab +0 -3\0", "/").sentence() == "branch x, 3 behind its upstream, clean"
    )
