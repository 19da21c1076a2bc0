"""Taking the state of a path and putting it back."""

import os
import stat
from pathlib import Path

import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.tool_calls import MISSING
from pattern_acp.workspace.snapshots import (
    canonical_path,
    capture,
    put_back,
    refuse_links,
    remove_empty_folders,
    set_mode,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="permission bits and links of POSIX")


def restore(path: Path, taken_from: Path, root: Path) -> None:
    taken = capture(str(taken_from))
    put_back(str(path), taken.state, taken.content, [str(root)])


def test_bytes_mode_and_links_come_back_exactly_and_twice_is_as_once(tmp_path: Path):
    path = tmp_path / "sub" / "run.sh"
    path.parent.mkdir()
    path.write_bytes(b"#!/bin/sh\r\n\xff\x00")
    path.chmod(0o751)
    link = tmp_path / "link"
    link.symlink_to("sub/run.sh")
    before, pointed = capture(str(path)), capture(str(link))
    path.unlink()
    path.parent.rmdir()
    link.unlink()
    link.write_text("no link")
    for _ in range(2):
        put_back(str(path), before.state, before.content, [str(tmp_path)])
        put_back(str(link), pointed.state, pointed.content, [str(tmp_path)])
        assert path.read_bytes() == b"#!/bin/sh\r\n\xff\x00"
        assert stat.S_IMODE(path.stat().st_mode) == 0o751
        assert str(link.readlink()) == "sub/run.sh"
    for _ in range(2):
        put_back(str(path), MISSING, None, [str(tmp_path)])
        assert not path.exists()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "sub"]


def test_a_file_that_is_too_large_a_folder_and_a_missing_one_are_told_apart(tmp_path: Path):
    large = tmp_path / "large"
    large.write_bytes(b"x" * 11)
    assert capture(str(large), limit=10).state.why_not == "it is larger than 10 MB"
    assert not capture(str(large), limit=10).state.is_kept
    assert capture(str(tmp_path)).state.why_not == "it is a folder"
    assert capture(str(tmp_path / "none")).state == MISSING
    assert capture(str(large / "below")).state == MISSING


def test_nothing_is_written_through_a_link_that_was_put_on_the_way(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "sub").mkdir(parents=True)
    outside.mkdir()
    (root / "sub" / "a.txt").write_text("old")
    taken = capture(str(root / "sub" / "a.txt"))
    (root / "sub" / "a.txt").unlink()
    (root / "sub").rmdir()
    (root / "sub").symlink_to(outside)
    target = str(root / "sub" / "a.txt")
    with pytest.raises(WorkspaceError, match="is a link or a file now"):
        put_back(target, taken.state, taken.content, [str(root)])
    with pytest.raises(WorkspaceError, match="is a link or a file now"):
        refuse_links(target, [str(root)])
    assert list(outside.iterdir()) == []
    (outside / "a.txt").write_text("theirs")
    put_back(target, MISSING, None, [str(root)])
    assert (outside / "a.txt").read_text() == "theirs"
    with pytest.raises(WorkspaceError, match="keeps its permissions"):
        set_mode(target, 0o777, [str(root)])


def test_a_link_in_place_of_the_file_itself_is_replaced_and_not_followed(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "secret"
    root.mkdir()
    outside.write_text("theirs")
    (root / "a.txt").write_text("old")
    taken = capture(str(root / "a.txt"))
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(outside)
    put_back(str(root / "a.txt"), taken.state, taken.content, [str(root)])
    assert outside.read_text() == "theirs"
    assert not (root / "a.txt").is_symlink()


def test_a_path_outside_and_a_folder_in_the_way_are_refused_with_a_sentence(tmp_path: Path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(WorkspaceError, match="outside the session's folders"):
        restore(tmp_path / "b.txt", tmp_path / "a.txt", root)
    (root / "c" / "d").mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="a folder of this name is there now"):
        restore(root / "c", tmp_path / "a.txt", root)
    assert [each.name for each in root.iterdir()] == ["c"]


def test_a_path_has_one_name_whatever_links_lead_to_its_folder(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "other").symlink_to("real")
    (tmp_path / "real" / "link").symlink_to("nowhere")
    assert canonical_path(str(tmp_path / "other" / "link")) == str(tmp_path / "real" / "link")


def test_permission_bits_alone_are_set_in_place(tmp_path: Path):
    path = tmp_path / "a"
    path.write_text("x")
    set_mode(str(path), 0o640, [str(tmp_path)])
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_an_empty_folder_makes_room_and_one_that_holds_something_does_not(tmp_path: Path):
    path, source = tmp_path / "place", tmp_path / "source"
    source.write_text("content")
    taken = capture(str(source))
    path.mkdir()
    put_back(str(path), taken.state, taken.content, [str(tmp_path)])
    assert path.read_text() == "content"
    path.unlink()
    (path / "inner").mkdir(parents=True)
    with pytest.raises(WorkspaceError, match="a folder of this name is there now"):
        put_back(str(path), taken.state, taken.content, [str(tmp_path)])
    assert (path / "inner").is_dir()


def test_folders_that_became_empty_go_up_to_the_first_that_is_not_and_never_a_root(tmp_path: Path):
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "a" / "b" / "c").mkdir(parents=True)
    outside.mkdir()
    (root / "a" / "stays").write_text("")
    (root / "link").symlink_to(outside)
    remove_empty_folders(str(root / "a" / "b" / "c" / "gone"), [str(root)])
    assert sorted(each.name for each in (root / "a").iterdir()) == ["stays"]
    remove_empty_folders(str(root / "gone"), [str(root)])
    remove_empty_folders(str(root / "link" / "gone"), [str(root)])
    assert root.is_dir()
    assert outside.is_dir()
    with pytest.raises(WorkspaceError, match="outside"):
        remove_empty_folders(str(outside / "gone"), [str(root)])
