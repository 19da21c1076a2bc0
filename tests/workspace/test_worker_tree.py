"""A tree for a worker's commands: what it shows, what comes back, and that nothing of the user's is touched."""

import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace import worker_tree
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.overlay import OverlayFileSystem
from pattern_acp.workspace.worker_tree import TreeOwner, WorkerTree, leftovers, remove_tree
from tests.support.files import FakeFileSystem

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "GIT_DIR": "/elsewhere"}
OWNER = TreeOwner(os.getpid(), "mark", "host")

in_git = pytest.mark.needs("git")


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    done = subprocess.run(("git", *settings, *words), cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    (folder / "b.txt").write_text("b\n")
    return folder


@pytest.fixture
def repository(project: Path) -> Path:
    git(project, "init", "-q", "-b", "main")
    (project / ".gitignore").write_text("*.log\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "One")
    return project


class Bench:
    def __init__(self, root: Path, base: FileSystem | None = None) -> None:
        self.root = root
        self.base = base or LocalFileSystem()
        self.overlay = OverlayFileSystem(self.base)
        self.tree = WorkerTree(str(root), self.overlay, self.base, ENVIRONMENT, OWNER)

    async def run(self, line: str) -> str:
        place = await self.tree.bring_in()
        done = subprocess.run(("sh", "-c", line), cwd=place, check=True, capture_output=True, text=True)  # noqa: ASYNC221
        await self.tree.bring_out()
        return done.stdout

    def changed(self) -> dict[str, object]:
        return {os.path.relpath(each.path, self.root): each.after for each in self.overlay.changes()}


@pytest.fixture
async def benches() -> AsyncGenerator[list[Bench], None]:
    made: list[Bench] = []
    yield made
    for bench in made:
        await bench.tree.close()


def bench_of(benches: list[Bench], root: Path, base: FileSystem | None = None) -> Bench:
    benches.append(Bench(root, base))
    return benches[-1]


@pytest.fixture(params=["repository", "folder"])
def root(request: pytest.FixtureRequest, project: Path) -> Path:
    if request.param == "repository":
        request.getfixturevalue("repository")
    return project


@in_git
async def test_commands_see_what_was_written_and_what_they_change_comes_back(root: Path, benches: list[Bench]):
    bench = bench_of(benches, root)
    await bench.overlay.write_text_file(str(root / "a.txt"), "mine\n")
    await bench.overlay.write_text_file(str(root / "new" / "c.txt"), "c\n")
    assert await bench.run("cat a.txt b.txt new/c.txt") == "mine\nb\nc\n"
    await bench.run("echo more >> a.txt; rm b.txt; printf '\\0x' > d; printf '#!/bin/sh\\n' > run; chmod +x run")
    assert bench.changed() == {
        "a.txt": "mine\nmore\n",
        "b.txt": None,
        "d": b"\0x",
        "new/c.txt": "c\n",
        "run": "#!/bin/sh\n",
    }
    assert bench.overlay.changes()[-1].mode & 0o100
    assert await bench.run("echo a > a.txt; rm -r new d run; echo b > b.txt") == ""
    assert bench.changed() == {}
    assert not (root / "run").exists()
    assert (root / "a.txt").read_text() == "a\n"


@in_git
async def test_a_file_that_was_removed_is_not_there_for_commands(root: Path, benches: list[Bench]):
    bench = bench_of(benches, root)
    await bench.overlay.remove_file(str(root / "a.txt"))
    assert await bench.run("ls *.txt") == "b.txt\n"
    assert bench.changed() == {"a.txt": None}


@in_git
async def test_unsaved_texts_are_there_and_are_no_change(root: Path, benches: list[Bench]):
    path = root / "a.txt"
    bench = bench_of(benches, root, FakeFileSystem({str(path): "unsaved\n"}, disk=LocalFileSystem()))
    await bench.overlay.read_text_file(str(path))
    assert await bench.run("cat a.txt") == "unsaved\n"
    assert bench.changed() == {}
    assert path.read_text() == "a\n"


@in_git
async def test_a_dirty_tree_is_shown_as_it_is_and_the_users_git_is_untouched(repository: Path, benches: list[Bench]):
    (repository / "a.txt").write_text("staged\n")
    git(repository, "add", "a.txt")
    (repository / "a.txt").write_text("not staged\n")
    (repository / "untracked.txt").write_text("untracked\n")
    (repository / "b.txt").unlink()
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\ntouch ran-a-hook\n")
    hook.chmod(0o755)

    def state() -> tuple[object, ...]:
        index = (repository / ".git" / "index").read_bytes()
        words = (("status", "--porcelain"), ("branch", "-a"), ("stash", "list"), ("log", "--all", "--format=%H"))
        return (index, (repository / ".git" / "HEAD").read_text(), *(git(repository, *each) for each in words))

    before = state()
    bench = bench_of(benches, repository)
    assert await bench.run("cat *.txt; git status --porcelain; git log -1 --format=%s; ls") == (
        "not staged\nuntracked\nState of the working tree\na.txt\nuntracked.txt\n"
    )
    assert bench.changed() == {}
    await bench.tree.close()
    assert state() == before
    assert not (repository / ".git" / "worktrees").exists()
    assert not (repository / "ran-a-hook").exists()


@in_git
async def test_a_repository_without_commits_has_a_tree(project: Path, benches: list[Bench]):
    git(project, "init", "-q")
    bench = bench_of(benches, project)
    assert await bench.run("cat a.txt; echo new > a.txt") == "a\n"
    assert bench.changed() == {"a.txt": "new\n"}


@in_git
async def test_submodules_are_there_and_are_copied_before_they_are_written(
    tmp_path: Path, repository: Path, benches: list[Bench]
):
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.txt").write_text("lib\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "Lib")
    git(repository, "submodule", "--quiet", "add", str(library), "lib")
    git(repository, "commit", "-qm", "Two")
    bench = bench_of(benches, repository)
    assert await bench.run("cat lib/lib.txt") == "lib\n"
    await bench.overlay.write_text_file(str(repository / "lib" / "lib.txt"), "mine\n")
    assert await bench.run("cat lib/lib.txt") == "mine\n"
    assert (repository / "lib" / "lib.txt").read_text() == "lib\n"
    assert bench.changed() == {"lib/lib.txt": "mine\n"}


@in_git
async def test_a_folder_below_the_repository_has_the_rest_around_it(repository: Path, benches: list[Bench]):
    below = repository / "below"
    below.mkdir()
    (below / "c.txt").write_text("c\n")
    bench = bench_of(benches, below)
    assert await bench.run("cat ../a.txt c.txt; echo new > c.txt; echo other > ../a.txt") == "a\nc\n"
    assert bench.changed() == {"c.txt": "new\n"}


@in_git
async def test_folders_of_dependencies_are_links_and_ignored_files_stay_away(repository: Path, benches: list[Bench]):
    (repository / ".venv" / "bin").mkdir(parents=True)
    (repository / ".venv" / "bin" / "tool").write_text("tool\n")
    (repository / ".gitignore").write_text("*.log\n.venv/\n")
    (repository / "noise.log").write_text("noise\n")
    bench = bench_of(benches, repository)
    assert await bench.run("cat .venv/bin/tool; ls; echo x > made.log") == "tool\na.txt\nb.txt\n"
    assert bench.changed() == {}


@in_git
async def test_a_commit_of_a_command_is_a_change_all_the_same(repository: Path, benches: list[Bench]):
    bench = bench_of(benches, repository)
    await bench.run("echo new > a.txt; git -c user.name=A -c user.email=a@b commit -qam Mine")
    assert bench.changed() == {"a.txt": "new\n"}


async def test_too_many_changes_and_what_is_no_file_are_refused_and_nothing_is_taken(
    project: Path, benches: list[Bench]
):
    bench = bench_of(benches, project)
    with pytest.raises(WorkspaceError, match="is no file"):
        await bench.run("echo new > a.txt; ln -s a.txt link")
    with pytest.raises(WorkspaceError, match="are taken over"):
        await bench.run(f"rm link; seq {worker_tree.BROUGHT_BACK_FILES + 1} | xargs touch")
    assert bench.changed() == {}


@in_git
async def test_what_a_kill_left_is_found_and_taken_away(root: Path, benches: list[Bench]):
    bench = bench_of(benches, root)
    await bench.run("true")
    folder = Path(bench.tree.path).parent

    def found(*, running: bool) -> list[str]:
        return [one.path for one in leftovers(lambda _pid, _mark: running, "host") if one.path == str(folder)]

    assert found(running=True) == []
    assert found(running=False) == [str(folder)]
    remove_tree(str(folder))
    assert not folder.exists()
    assert not (root / ".git" / "worktrees").exists()


@in_git
async def test_what_the_overlay_no_longer_changes_is_as_it_was_for_the_next_command(root: Path, benches: list[Bench]):
    bench = bench_of(benches, root)
    await bench.overlay.write_text_file(str(root / "new"), "new\n")
    await bench.run("echo more >> a.txt; rm b.txt")
    bench.overlay.put_back([change.path for change in bench.overlay.changes()])
    assert await bench.run("cat a.txt b.txt; ls new || true") == "a\nb\n"
    assert bench.overlay.is_clean
