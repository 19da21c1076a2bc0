"""A tree for a worker's commands: what it shows, what comes back, and that nothing of the user's is touched."""

import os
import subprocess
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.processes.confinement import Confinement, Profile
from pattern_acp.workspace import worker_tree
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.overlay import OverlayFileSystem
from pattern_acp.workspace.worker_tree import TreeOwner, WorkerTree, leftovers, remove_tree
from tests.support.files import FakeFileSystem

ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent", "GIT_DIR": "/elsewhere"}
OWNER = TreeOwner(os.getpid(), "mark", "host")

LATER_NS = 4_000_000_000 * 10**9

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
    def __init__(self, root: Path, base: FileSystem | None = None, confinement: Confinement | None = None) -> None:
        self.root = root
        self.base = base or LocalFileSystem()
        self.confinement = confinement
        self.overlay = OverlayFileSystem(self.base)
        self.tree = WorkerTree(str(root), self.overlay, self.base, ENVIRONMENT, OWNER, confinement=confinement)

    async def run(self, line: str, meanwhile: Callable[[], None] = lambda: None) -> str:
        place = await self.tree.bring_in()
        words: tuple[str, ...] = ("sh", "-c", line)
        if self.tree.layers is not None and self.confinement is not None:
            profile = Profile(confines=False, network=True, layers=self.tree.layers)
            words = self.confinement.prepare(profile, words, in_group=True).arguments
        done = subprocess.run(words, cwd=place, check=True, capture_output=True, text=True)  # noqa: ASYNC221
        meanwhile()
        await self.tree.bring_out()
        return done.stdout

    def changed(self) -> dict[str, object]:
        return {os.path.relpath(each.path, self.root): each.after for each in self.overlay.changes()}


class Benches:
    def __init__(self, confinement: Confinement | None) -> None:
        self.confinement = confinement
        self.made: list[Bench] = []

    def of(self, root: Path, base: FileSystem | None = None) -> Bench:
        self.made.append(Bench(root, base, self.confinement))
        return self.made[-1]


@pytest.fixture(params=["mounted", "made"])
async def benches(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Benches, None]:
    confinement = Confinement(tmp_path / "private") if request.param == "mounted" else None
    if confinement is not None:
        (tmp_path / "private").mkdir()
        if not (found := await confinement.find()).namespaces:
            pytest.skip(found.problem)
    benches = Benches(confinement)
    yield benches
    for bench in benches.made:
        folder = bench.tree.folder
        await bench.tree.close()
        assert not folder or not await anyio.Path(folder).exists()


@pytest.fixture(params=["repository", "folder"])
def root(request: pytest.FixtureRequest, project: Path) -> Path:
    if request.param == "repository":
        request.getfixturevalue("repository")
    return project


@in_git
async def test_commands_see_what_was_written_and_what_they_change_comes_back(root: Path, benches: Benches):
    bench = benches.of(root)
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
async def test_a_file_that_was_removed_is_not_there_for_commands(root: Path, benches: Benches):
    bench = benches.of(root)
    await bench.overlay.remove_file(str(root / "a.txt"))
    assert await bench.run("ls *.txt") == "b.txt\n"
    assert bench.changed() == {"a.txt": None}


@in_git
async def test_unsaved_texts_are_there_and_are_no_change(root: Path, benches: Benches):
    path = root / "a.txt"
    bench = benches.of(root, FakeFileSystem({str(path): "unsaved\n"}, disk=LocalFileSystem()))
    await bench.overlay.read_text_file(str(path))
    assert await bench.run("cat a.txt") == "unsaved\n"
    assert bench.changed() == {}
    assert path.read_text() == "a\n"


@in_git
async def test_a_dirty_tree_is_shown_as_it_is_and_the_users_git_is_untouched(repository: Path, benches: Benches):
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
    bench = benches.of(repository)
    last = "One" if benches.confinement is not None else "State of the working tree"
    assert await bench.run("cat *.txt; git log -1 --format=%s; ls") == (
        f"not staged\nuntracked\n{last}\na.txt\nuntracked.txt\n"
    )
    if benches.confinement is not None:
        await bench.run("git add . && git -c user.name=A -c user.email=a@b commit -qm Mine && git branch mine")
    assert bench.changed() == {}
    await bench.tree.close()
    assert state() == before
    assert not (repository / ".git" / "worktrees").exists()
    assert not (repository / "ran-a-hook").exists()


@in_git
async def test_a_repository_without_commits_has_a_tree(project: Path, benches: Benches):
    git(project, "init", "-q")
    bench = benches.of(project)
    assert await bench.run("cat a.txt; echo new > a.txt") == "a\n"
    assert bench.changed() == {"a.txt": "new\n"}


@in_git
async def test_submodules_are_there_and_are_copied_before_they_are_written(
    tmp_path: Path, repository: Path, benches: Benches
):
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.txt").write_text("lib\n")
    git(library, "add", ".")
    git(library, "commit", "-qm", "Lib")
    git(repository, "submodule", "--quiet", "add", str(library), "lib")
    git(repository, "commit", "-qm", "Two")
    bench = benches.of(repository)
    assert await bench.run("cat lib/lib.txt") == "lib\n"
    await bench.overlay.write_text_file(str(repository / "lib" / "lib.txt"), "mine\n")
    assert await bench.run("cat lib/lib.txt") == "mine\n"
    assert (repository / "lib" / "lib.txt").read_text() == "lib\n"
    assert bench.changed() == {"lib/lib.txt": "mine\n"}


@in_git
async def test_a_folder_below_the_repository_has_the_rest_around_it(repository: Path, benches: Benches):
    below = repository / "below"
    below.mkdir()
    (below / "c.txt").write_text("c\n")
    bench = benches.of(below)
    assert await bench.run("cat ../a.txt c.txt; echo new > c.txt; echo other > ../a.txt") == "a\nc\n"
    assert bench.changed() == {"c.txt": "new\n"}


@in_git
async def test_folders_of_dependencies_are_there_and_what_git_ignores_does_not_come_back(
    repository: Path, benches: Benches
):
    (repository / ".venv" / "bin").mkdir(parents=True)
    (repository / ".venv" / "bin" / "tool").write_text("tool\n")
    (repository / ".gitignore").write_text("*.log\n.venv/\n")
    (repository / "noise.log").write_text("noise\n")
    bench = benches.of(repository)
    there = "noise.log\n" if benches.confinement is not None else ""
    assert await bench.run("cat .venv/bin/tool; ls; echo x > made.log") == f"tool\na.txt\nb.txt\n{there}"
    assert bench.changed() == {}


@in_git
async def test_a_commit_of_a_command_is_a_change_all_the_same(repository: Path, benches: Benches):
    bench = benches.of(repository)
    await bench.run("echo new > a.txt; git -c user.name=A -c user.email=a@b commit -qam Mine")
    assert bench.changed() == {"a.txt": "new\n"}


async def test_too_many_changes_and_what_is_no_file_are_refused_and_nothing_is_taken(project: Path, benches: Benches):
    bench = benches.of(project)
    with pytest.raises(WorkspaceError, match="is no file"):
        await bench.run("echo new > a.txt; ln -s a.txt link")
    with pytest.raises(WorkspaceError, match="are taken over"):
        await bench.run(f"rm link; seq {worker_tree.BROUGHT_BACK_FILES + 1} | xargs touch")
    assert bench.changed() == {}


@in_git
async def test_what_a_kill_left_is_found_and_taken_away(root: Path, benches: Benches):
    bench = benches.of(root)
    await bench.run("true")
    folder = Path(bench.tree.folder)

    def found(*, running: bool) -> list[str]:
        return [one.path for one in leftovers(lambda _pid, _mark: running, "host") if one.path == str(folder)]

    assert found(running=True) == []
    assert found(running=False) == [str(folder)]
    remove_tree(str(folder))
    assert not await anyio.Path(folder).exists()
    assert not (root / ".git" / "worktrees").exists()


@in_git
async def test_what_the_overlay_no_longer_changes_is_as_it_was_for_the_next_command(root: Path, benches: Benches):
    bench = benches.of(root)
    await bench.overlay.write_text_file(str(root / "new"), "new\n")
    await bench.run("echo more >> a.txt; rm b.txt")
    bench.overlay.put_back([change.path for change in bench.overlay.changes()])
    assert await bench.run("cat a.txt b.txt; ls new || true") == "a\nb\n"
    assert bench.overlay.is_clean


@in_git
@pytest.mark.parametrize("saved", [True, False], ids=["saved", "unsaved"])
async def test_what_the_user_writes_meanwhile_is_no_base_of_what_a_command_changed(
    root: Path, benches: Benches, *, saved: bool
):
    path = root / "a.txt"
    editor = FakeFileSystem({}, disk=LocalFileSystem())
    bench = benches.of(root, editor)

    def write() -> None:
        editor.texts[str(path)] = "the user's\n"
        if saved:
            path.write_text("the user's\n")
            os.utime(path, ns=(LATER_NS, LATER_NS))

    await bench.run("echo mine > a.txt", write)
    assert [(each.before, each.after) for each in bench.overlay.changes()] == [(None if saved else "a\n", "mine\n")]


@in_git
async def test_a_folder_that_a_command_replaced_has_nothing_of_the_old_one(repository: Path, benches: Benches):
    (repository / "sub" / "deep").mkdir(parents=True)
    (repository / "sub" / "old.txt").write_text("old\n")
    (repository / "sub" / "deep" / "older.txt").write_text("older\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "Two")
    bench = benches.of(repository)
    await bench.run("rm -r sub")
    assert bench.changed() == {"sub/old.txt": None, "sub/deep/older.txt": None}
    await bench.overlay.write_text_file(str(repository / "sub" / "by-tool.txt"), "tool\n")
    assert await bench.run("ls sub; mkdir sub/deep; echo new > sub/deep/new.txt; ls sub/deep") == (
        "by-tool.txt\nnew.txt\n"
    )
    gone = {"sub/old.txt": None, "sub/deep/older.txt": None}
    assert bench.changed() == {**gone, "sub/by-tool.txt": "tool\n", "sub/deep/new.txt": "new\n"}
    await bench.overlay.remove_file(str(repository / "sub" / "by-tool.txt"))
    await bench.overlay.write_text_file(str(repository / "sub" / "old.txt"), "old\n")
    assert await bench.run("ls sub; cat sub/old.txt") == "deep\nold.txt\nold\n"
    assert bench.changed() == {"sub/deep/older.txt": None, "sub/deep/new.txt": "new\n"}


@in_git
async def test_what_a_worker_has_git_ignore_stays_away(repository: Path, benches: Benches):
    bench = benches.of(repository)
    await bench.run("echo built/ >> .gitignore; mkdir built; echo x > built/x; echo y > y")
    assert bench.changed() == {".gitignore": "*.log\nbuilt/\n", "y": "y\n"}


@in_git
async def test_caches_that_tools_fill_are_no_work_of_a_worker_also_where_git_ignores_none(root: Path, benches: Benches):
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "a.pyc").write_bytes(b"old")
    bench = benches.of(root)
    made = "mkdir -p sub/__pycache__ .pytest_cache/v && echo x > sub/__pycache__/b.pyc && echo x > .pytest_cache/v/last"
    await bench.run(f"{made} && echo new > __pycache__/a.pyc && echo y > y")
    assert bench.changed() == {"y": "y\n"}
    await bench.overlay.write_text_file(str(root / ".tox" / "meant"), "meant\n")
    await bench.run("rm -r __pycache__")
    assert bench.changed() == {".tox/meant": "meant\n", "y": "y\n"}


@in_git
async def test_modes_of_what_is_only_changed_stay(root: Path, benches: Benches):
    script = root / "run"
    script.write_text("#!/bin/sh\necho one\n")
    script.chmod(0o755)
    bench = benches.of(root)
    await bench.overlay.write_text_file(str(script), "#!/bin/sh\necho two\n")
    assert await bench.run("./run; stat -c %a run") == "two\n755\n"
