"""What an overlay keeps from its base, beside the contract of every `FileSystem`."""

from pathlib import Path

import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import FileMissingError, NotTextError
from pattern_acp.workspace.files import LineWindow, fingerprint
from pattern_acp.workspace.local_files import LocalFileSystem
from pattern_acp.workspace.overlay import NO_FILE, OverlayChange, OverlayFileSystem
from tests.support.files import FakeFileSystem


def on_disk(folder: Path) -> dict[str, str]:
    return {each.name: each.read_text() for each in folder.iterdir()}


@pytest.fixture
def overlay() -> OverlayFileSystem:
    return OverlayFileSystem(LocalFileSystem())


async def test_nothing_that_is_written_moved_or_removed_reaches_the_base(overlay: OverlayFileSystem, tmp_path: Path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_text(f"{name}\n")
    await overlay.write_text_file(str(tmp_path / "a"), "changed\n")
    await overlay.move_file(str(tmp_path / "b"), str(tmp_path / "new" / "b"))
    await overlay.remove_file(str(tmp_path / "c"))
    assert on_disk(tmp_path) == {"a": "a\n", "b": "b\n", "c": "c\n"}
    b_mode = (tmp_path / "b").stat().st_mode & 0o777
    assert overlay.changes() == (
        OverlayChange(str(tmp_path / "a"), "a\n", "changed\n"),
        OverlayChange(str(tmp_path / "b"), "b\n", None),
        OverlayChange(str(tmp_path / "c"), "c\n", None),
        OverlayChange(str(tmp_path / "new" / "b"), None, "b\n", b_mode),
    )


async def test_it_starts_from_the_editors_text_and_not_from_the_disk(tmp_path: Path):
    path = tmp_path / "a"
    path.write_text("saved\n")
    overlay = OverlayFileSystem(FakeFileSystem({str(path): "unsaved\n"}, disk=LocalFileSystem()))
    assert (await overlay.read_text_file(str(path))).text == "unsaved\n"
    await overlay.write_text_file(str(path), "mine\n")
    assert overlay.changes() == (OverlayChange(str(path), "unsaved\n", "mine\n"),)


async def test_a_file_that_is_written_as_it_was_is_no_change(overlay: OverlayFileSystem, tmp_path: Path):
    path = tmp_path / "a"
    path.write_text("a\n")
    await overlay.write_text_file(str(path), "b\n")
    assert not overlay.is_clean
    await overlay.write_text_file(str(path), "a\n")
    assert overlay.is_clean
    await overlay.write_text_file(str(tmp_path / "b"), "b\n")
    await overlay.remove_file(str(tmp_path / "b"))
    assert overlay.is_clean


async def test_hashes_name_all_that_was_read_and_written(overlay: OverlayFileSystem, tmp_path: Path):
    read, written = str(tmp_path / "read"), str(tmp_path / "written")
    (tmp_path / "read").write_text("one\n")
    await overlay.read_text_file(read)
    empty = overlay.tree_hash()
    (tmp_path / "read").write_text("two\n")
    await overlay.read_text_file(read)
    assert overlay.reads() == {read: fingerprint("one\n")}
    assert overlay.tree_hash() == empty
    await overlay.write_text_file(written, "new\n")
    assert overlay.tree_hash() != empty
    (change,) = overlay.changes()
    assert (change.before_hash, change.after_hash) == (NO_FILE, fingerprint("new\n"))


async def test_lines_of_a_written_file_are_those_that_were_written(overlay: OverlayFileSystem, tmp_path: Path):
    path = str(tmp_path / "a")
    await overlay.write_text_file(path, "one\ntwo\nthree")
    read = await overlay.read_lines(path, LineWindow(2, 5, 100, 1000))
    assert (read.lines, read.total) == (("two", "three"), 3)


async def test_a_link_and_its_target_are_one_file(overlay: OverlayFileSystem, tmp_path: Path):
    (tmp_path / "target").write_text("old\n")
    (tmp_path / "link").symlink_to("target")
    await overlay.write_text_file(str(tmp_path / "link"), "new\n")
    assert (await overlay.read_text_file(str(tmp_path / "target"))).text == "new\n"
    assert [each.path for each in overlay.changes()] == [str(tmp_path / "target")]


async def test_what_the_base_would_refuse_is_refused_at_once(overlay: OverlayFileSystem, tmp_path: Path):
    with pytest.raises(WorkspaceError, match="is a folder"):
        await overlay.write_text_file(str(tmp_path), "text\n")
    await overlay.write_text_file(str(tmp_path / "file"), "text\n")
    with pytest.raises(WorkspaceError, match="is a file, not a folder"):
        await overlay.write_text_file(str(tmp_path / "file" / "below"), "text\n")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(WorkspaceError, match="symbolic link"):
        await overlay.remove_file(str(tmp_path / "link"))


async def test_bytes_that_are_no_text_are_kept_as_they_are(overlay: OverlayFileSystem, tmp_path: Path):
    path = str(tmp_path / "image")
    (tmp_path / "image").write_bytes(b"\0old")
    await overlay.put(path, b"\0new")
    assert overlay.changes() == (OverlayChange(path, b"\0old", b"\0new"),)
    with pytest.raises(NotTextError):
        await overlay.read_text_file(path)
    await overlay.remove_file(path)
    with pytest.raises(FileMissingError):
        await overlay.read_text_file(path)


async def test_an_overlay_over_another_one_knows_all_that_differs_from_the_lowest_base(tmp_path: Path):
    (tmp_path / "a").write_text("a\n")
    below = OverlayFileSystem(LocalFileSystem())
    await below.write_text_file(str(tmp_path / "a"), "below\n")
    await below.put(str(tmp_path / "run"), "run\n", 0o755)
    above = OverlayFileSystem(below)
    await above.write_text_file(str(tmp_path / "a"), "above\n")
    await above.write_text_file(str(tmp_path / "b"), "b\n")
    await above.write_text_file(str(tmp_path / "run"), "again\n")
    assert above.changes()[0] == OverlayChange(str(tmp_path / "a"), "below\n", "above\n")
    assert above.all_changes() == (
        OverlayChange(str(tmp_path / "a"), "a\n", "above\n"),
        OverlayChange(str(tmp_path / "b"), None, "b\n"),
        OverlayChange(str(tmp_path / "run"), None, "again\n", 0o755),
    )
    above.put_back([str(tmp_path / "a"), str(tmp_path / "unknown")])
    assert (await above.read_text_file(str(tmp_path / "a"))).text == "below\n"
