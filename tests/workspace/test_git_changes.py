import subprocess
from pathlib import Path

import pytest

from pattern_acp.config.load import process_environment
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.git import FileDiff, changed_files

ENVIRONMENT = {**process_environment(), "GIT_DIR": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index"}
"""As in a git hook of another repository."""


def git(folder: Path, *arguments: str) -> None:
    clean = {name: value for name, value in process_environment().items() if not name.startswith("GIT_")}
    who = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *who, *arguments), cwd=folder, env=clean, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    (tmp_path / "gone.py").write_text("x\n")
    (tmp_path / "same.py").write_text("x\n")
    (tmp_path / "picture.bin").write_bytes(b"\0\1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


@pytest.mark.needs("git")
async def test_each_kind_of_change_is_told_with_its_lines(repository: Path):
    lines = [f"line {n}\n" for n in range(1, 11)]
    lines[1] = "+++ b/other.py\n"
    lines[4:6] = []
    (repository / "src" / "a.py").write_text("".join([*lines, "@@ -1 +1 @@\n", "end\n"]))
    (repository / "gone.py").unlink()
    (repository / "picture.bin").write_bytes(b"\0\2")
    (repository / "new file.py").write_text("x\n")
    (repository / 'tä"b\\c.py').write_text("x\n")
    git(repository, "add", "new file.py")

    found = {change.path: change for change in await changed_files(str(repository), ENVIRONMENT)}

    assert found == {
        "gone.py": FileDiff("gone.py", is_deleted=True),
        "new file.py": FileDiff("new file.py", is_new=True),
        "picture.bin": FileDiff("picture.bin"),
        "src/a.py": FileDiff("src/a.py", ((2, 2), (4, 4), (9, 10))),
        'tä"b\\c.py': FileDiff('tä"b\\c.py', is_new=True),
    }


@pytest.mark.needs("git")
async def test_a_name_with_spaces_and_an_escape_is_read_whole(repository: Path):
    name = "a b/c\nd b.py"
    (repository / "a b").mkdir()
    (repository / name).write_text("x\n")
    git(repository, "add", ".")

    assert await changed_files(str(repository), ENVIRONMENT) == (FileDiff(name, is_new=True),)


@pytest.mark.needs("git")
async def test_paths_start_at_the_folder_asked_about(repository: Path):
    (repository / "src" / "a.py").write_text("other\n")
    (repository / "same.py").write_text("other\n")

    found = await changed_files(str(repository / "src"), ENVIRONMENT)

    assert [change.path for change in found] == ["a.py"]


@pytest.mark.needs("git")
async def test_no_program_that_the_repository_names_is_run(repository: Path):
    trace = repository / "ran"
    for key in ("diff.external", "core.fsmonitor", "core.pager"):
        git(repository, "config", key, f"touch '{trace}'; cat")
    (repository / "same.py").write_text("other\n")

    found = await changed_files(str(repository), ENVIRONMENT)

    assert [change.path for change in found] == ["same.py"]
    assert not trace.exists()


@pytest.mark.needs("git")
async def test_a_folder_without_repository_or_commit_is_told_in_a_sentence(tmp_path: Path):
    with pytest.raises(WorkspaceError, match="in no git repository, so name a path or symbol"):
        await changed_files(str(tmp_path), ENVIRONMENT)
    git(tmp_path, "init", "-q")
    with pytest.raises(WorkspaceError, match=r"git could not say what changed \(.+\); name a path or symbol"):
        await changed_files(str(tmp_path), ENVIRONMENT)


async def test_without_git_it_is_said_what_to_do(tmp_path: Path):
    with pytest.raises(WorkspaceError, match="git could not be started"):
        await changed_files(str(tmp_path), {"PATH": str(tmp_path)})
