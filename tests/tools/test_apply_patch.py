from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from pattern_acp.domain.access import WritePath
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import DiffContent, Location
from pattern_acp.tools.apply_patch import ApplyPatch, PatchSyntaxError
from pattern_acp.tools.base import ToolFailedError, ToolOutcome
from pattern_acp.tools.read_file import ReadFileTool
from pattern_acp.workspace.delegation import DelegatingFileSystem
from pattern_acp.workspace.errors import FileChangedError
from pattern_acp.workspace.files import FileSystem, TextFile
from pattern_acp.workspace.local_files import LocalFileSystem
from tests.support.files import EditorHabits, FakeFileSystem
from tests.support.tools import ToolBench, tool_bench


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def through_the_editor(_root: Path) -> FileSystem:
    disk = LocalFileSystem()
    return DelegatingFileSystem(
        FakeFileSystem(disk=disk), disk, can_read=True, can_write=True, deadline=30, on_warning=lambda _: None
    )


def on_the_disk(_root: Path) -> FileSystem:
    return LocalFileSystem()


@pytest.fixture(params=[through_the_editor, on_the_disk])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> ToolBench:
    make: Callable[[Path], FileSystem] = request.param
    base = tool_bench(tmp_path)
    return replace(base, context=replace(base.context, files=make(tmp_path)))


async def apply(bench: ToolBench, *lines: str) -> ToolOutcome:
    return await bench.call(ApplyPatch(), input=patch(*lines))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def contents(root: Path) -> dict[str, tuple[bytes, int]]:
    return {path.name: (path.read_bytes(), path.stat().st_mode) for path in root.iterdir() if path.is_file()}


EVERYTHING = (
    "*** Update File: a.py",
    "@@",
    "-one",
    "+1",
    "*** Add File: new/b.py",
    "+b",
    "*** Update File: c.sh",
    "*** Move to: moved/c.sh",
    "@@",
    "-c",
    "+C",
    "*** Delete File: d.txt",
)


def make_everything(root: Path) -> None:
    (root / "a.py").write_bytes(b"one\r\ntwo")
    (root / "c.sh").write_text("c\n", "utf-16")
    (root / "c.sh").chmod(0o755)
    (root / "d.txt").write_text("d\n")


async def test_one_patch_edits_adds_moves_and_deletes(bench: ToolBench, tmp_path: Path):
    make_everything(tmp_path)
    outcome = await apply(bench, *EVERYTHING)
    assert (tmp_path / "a.py").read_bytes() == b"1\r\ntwo"
    assert (tmp_path / "new/b.py").read_text() == "b\n"
    assert (tmp_path / "moved/c.sh").read_bytes() == "C\n".encode("utf-16")
    assert (tmp_path / "moved/c.sh").stat().st_mode & 0o777 == 0o755
    assert names(tmp_path) == ["a.py", "moved", "new"]
    assert outcome.text == (
        "Edited a.py: 1 hunk at line 1.\nCreated new/b.py (1 line).\n"
        "Moved c.sh to moved/c.sh. Edited moved/c.sh: 1 hunk at line 1.\nDeleted d.txt."
    )


async def test_all_diffs_and_paths_are_known_before_anything_is_written(bench: ToolBench, tmp_path: Path):
    make_everything(tmp_path)
    prepared = await bench.prepare(ApplyPatch(), input=patch(*EVERYTHING))
    a, b, c, moved, d = (str(tmp_path / name) for name in ("a.py", "new/b.py", "c.sh", "moved/c.sh", "d.txt"))
    assert prepared.title == "Edit a.py, Create new/b.py, Move c.sh to moved/c.sh, Delete d.txt"
    assert prepared.preview == (
        DiffContent(a, "one\r\ntwo", "1\r\ntwo"),
        DiffContent(b, None, "b\n"),
        DiffContent(c, "c\n", "", is_gone=True),
        DiffContent(moved, None, "C\n", moved_from=c),
        DiffContent(d, "d\n", "", is_gone=True),
    )
    assert prepared.accesses == tuple(WritePath(resolve_path(path)) for path in (a, b, c, moved, d))
    assert prepared.locations == (Location(a, 1), Location(b, 1), Location(moved, 1), Location(d, 1))
    assert (tmp_path / "d.txt").exists()


async def test_when_one_hunk_does_not_fit_nothing_is_changed(bench: ToolBench, tmp_path: Path):
    make_everything(tmp_path)
    with pytest.raises(ToolFailedError, match=r"c\.sh: Hunk 1 \(line \d+ of .*\): the passage is not in"):
        await apply(bench, *EVERYTHING[:6], "*** Update File: c.sh", "-x", "+y")
    assert (tmp_path / "a.py").read_bytes() == b"one\r\ntwo"
    assert not (tmp_path / "new").exists()


class FailingAt(LocalFileSystem):
    """The disk, on which one file cannot be written or set aside."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def write_text_file(self, path: str, text: str) -> TextFile:
        if Path(path).name == self.name:
            raise WorkspaceError(f"{self.name} cannot be written: the disk is full.")
        return await super().write_text_file(path, text)

    async def move_file(self, path: str, to: str) -> None:
        if Path(path).name == self.name:
            raise WorkspaceError(f"{self.name} cannot be moved: the system denies access to it.")
        await super().move_file(path, to)


@pytest.mark.parametrize(("name", "back"), [("b.py", "a.py"), ("d.txt", "c.sh, new/b.py, a.py")])
async def test_what_was_written_before_a_failure_is_put_back(tmp_path: Path, name: str, back: str):
    make_everything(tmp_path)
    before = contents(tmp_path)
    bench = tool_bench(tmp_path)
    bench = replace(bench, context=replace(bench.context, files=FailingAt(name)))
    with pytest.raises(ToolFailedError, match=f"cannot be .*What had been written before was put back: {back}\\.$"):
        await apply(bench, *EVERYTHING)
    now = contents(tmp_path)
    assert now == before


async def test_deleted_files_come_back_when_a_later_one_cannot_be_deleted(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfa\r\n")
    (tmp_path / "b").write_text("b")
    bench = tool_bench(tmp_path)
    bench = replace(bench, context=replace(bench.context, files=FailingAt("b")))
    with pytest.raises(ToolFailedError, match="put back: a"):
        await apply(bench, "*** Delete File: a", "*** Delete File: b")
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbfa\r\n"


class CancelsAt(LocalFileSystem):
    """The disk; writing one file cancels the turn first."""

    def __init__(self, name: str, scope: anyio.CancelScope) -> None:
        super().__init__()
        self.name = name
        self.scope = scope

    async def write_text_file(self, path: str, text: str) -> TextFile:
        if Path(path).name == self.name:
            self.scope.cancel()
        return await super().write_text_file(path, text)


async def test_a_cancelled_patch_changes_nothing(tmp_path: Path):
    make_everything(tmp_path)
    bench = tool_bench(tmp_path)
    with anyio.CancelScope() as scope:
        bench = replace(bench, context=replace(bench.context, files=CancelsAt("b.py", scope)))
        await apply(bench, *EVERYTHING)
    assert scope.cancelled_caught
    assert (tmp_path / "a.py").read_bytes() == b"one\r\ntwo"
    assert (tmp_path / "c.sh").exists()
    assert not (tmp_path / "new/b.py").exists()


async def test_a_file_that_changed_since_it_was_read_stops_the_whole_patch(bench: ToolBench, tmp_path: Path):
    make_everything(tmp_path)
    await bench.call(ReadFileTool(), path="d.txt")
    (tmp_path / "d.txt").write_text("theirs\n")
    with pytest.raises(FileChangedError, match=r"d\.txt was changed since it was read.*\n1\ttheirs"):
        await apply(bench, *EVERYTHING)
    assert (tmp_path / "a.py").read_bytes() == b"one\r\ntwo"


async def test_a_file_that_changes_while_the_person_is_asked_stops_the_whole_patch(bench: ToolBench, tmp_path: Path):
    make_everything(tmp_path)
    prepared = await bench.prepare(ApplyPatch(), input=patch(*EVERYTHING))
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/c.sh").write_text("theirs")
    with pytest.raises(FileChangedError, match=r"c\.sh was created meanwhile\. Nothing was written"):
        await prepared.run(bench.progress)
    assert (tmp_path / "a.py").read_bytes() == b"one\r\ntwo"


async def test_edits_follow_each_other_without_reading_again(bench: ToolBench, tmp_path: Path):
    (tmp_path / "a").write_text("one\n")
    await bench.call(ReadFileTool(), path="a")
    await apply(bench, "*** Update File: a", "*** Move to: b", "-one", "+two")
    await apply(bench, "*** Update File: b", "-two", "+three")
    assert (tmp_path / "b").read_text() == "three\n"
    await apply(bench, "*** Add File: a", "+again")
    await apply(bench, "*** Delete File: a")
    await apply(bench, "*** Update File: b", "*** Move to: a")
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["*** Add File: a", "+x"], r"a exists already. Nothing was changed. Change it with `\*\*\* Update File: a`"),
        (["*** Update File: nothing", "-x", "+y"], "nothing does not exist.*Nothing was changed"),
        (["*** Delete File: nothing"], "nothing does not exist"),
        (["*** Update File: a", "*** Move to: b"], "b exists already, so nothing is moved there"),
        (["*** Delete File: a", "*** Update File: ./a", "-x", "+y"], "names a more than once"),
        (["*** Update File: a", "*** Move to: a", "-x", "+y"], "the passage is not in the file"),
        (["*** Delete File: link"], "link is a symbolic link"),
    ],
)
async def test_what_cannot_be_done_is_refused_in_a_sentence(
    bench: ToolBench, tmp_path: Path, lines: list[str], sentence: str
):
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("two\n")
    (tmp_path / "link").symlink_to("b")
    with pytest.raises(ToolFailedError, match=sentence):
        await apply(bench, *lines)
    assert (tmp_path / "a").read_text() == "one\n"


async def test_no_patch_is_no_call(bench: ToolBench):
    with pytest.raises(PatchSyntaxError, match="starts with the line"):
        await bench.prepare(ApplyPatch(), input="diff --git a b")


async def test_what_a_formatter_made_of_it_is_told(tmp_path: Path):
    (tmp_path / "a").write_text("one\n")
    bench = tool_bench(tmp_path)
    files = FakeFileSystem(disk=LocalFileSystem(), habits=EditorHabits(formatter=str.upper))
    bench = replace(bench, context=replace(bench.context, files=files))
    outcome = await apply(bench, "*** Update File: a", "-one", "+two")
    assert "On saving it was changed further" in outcome.text
    assert outcome.content == (DiffContent(str(tmp_path / "a"), "one\n", "TWO\n"),)
