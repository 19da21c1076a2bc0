import os
import stat
import sys
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import NotTextError
from pattern_acp.workspace.local_files import MAX_TEXT_BYTES, LocalFileSystem

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="permissions and links are POSIX's here")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def write(path: Path, text: str) -> str:
    with anyio.fail_after(30):
        return (await LocalFileSystem().write_text_file(str(path), text)).text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfold", b"\xef\xbb\xbfnew\r\n"),
        ("old".encode("utf-16"), "new\r\n".encode("utf-16")),
        (b"\xfe\xff\0o", b"\xfe\xff" + "new\r\n".encode("utf-16-be")),
        (b"old", b"new\r\n"),
        (b"\xff\0 binary", b"new\r\n"),
    ],
)
async def test_a_file_keeps_its_encoding(tmp_path: Path, before: bytes, after: bytes):
    path = tmp_path / "a.txt"
    path.write_bytes(before)
    assert await write(path, "new\r\n") == "new\r\n"
    assert path.read_bytes() == after


@posix_only
async def test_a_file_keeps_its_permissions(tmp_path: Path):
    path = tmp_path / "script.sh"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o750)
    await write(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


@posix_only
async def test_a_new_file_gets_the_permissions_that_any_program_would_give(tmp_path: Path):
    (tmp_path / "by_python").touch()
    await write(tmp_path / "by_us", "text")
    assert (tmp_path / "by_us").stat().st_mode == (tmp_path / "by_python").stat().st_mode


@posix_only
async def test_a_link_stays_a_link_and_its_file_is_written(tmp_path: Path):
    (tmp_path / "real.txt").write_text("old", encoding="utf-8")
    (tmp_path / "link.txt").symlink_to("real.txt")
    await write(tmp_path / "link.txt", "new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text(encoding="utf-8") == "new"


@posix_only
async def test_the_other_names_of_a_file_see_the_change(tmp_path: Path):
    (tmp_path / "one").write_text("a long old text", encoding="utf-8")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    await write(tmp_path / "one", "new")
    assert (tmp_path / "two").read_text(encoding="utf-8") == "new"


async def test_nothing_is_left_beside_the_file(tmp_path: Path):
    await write(tmp_path / "a.txt", "one")
    await write(tmp_path / "a.txt", "two")
    assert names_in(tmp_path) == ["a.txt"]


async def test_a_text_that_cannot_be_stored_leaves_the_old_one(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(NotTextError, match="NUL"):
        await write(path, "a\0b")
    with pytest.raises(WorkspaceError, match="larger than 10 MB"):
        await write(path, "x" * (MAX_TEXT_BYTES + 1))
    assert path.read_text(encoding="utf-8") == "old"
    assert names_in(tmp_path) == ["a.txt"]


async def test_a_file_over_the_limit_is_refused_in_a_sentence(tmp_path: Path):
    path = tmp_path / "data.txt"
    with path.open("wb") as file:
        file.truncate(MAX_TEXT_BYTES + 1)
    with pytest.raises(WorkspaceError, match="larger than 10 MB"):
        await LocalFileSystem().read_text_file(str(path))


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0", b"\xff\xff", b"a\0"])
async def test_a_binary_file_is_not_text(tmp_path: Path, data: bytes):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(NotTextError, match="cannot be read as text"):
        await LocalFileSystem().read_text_file(str(tmp_path / "a"))


async def test_a_folder_is_neither_read_nor_written(tmp_path: Path):
    with pytest.raises(WorkspaceError, match="folder"):
        await LocalFileSystem().read_text_file(str(tmp_path))
    with pytest.raises(WorkspaceError, match="folder"):
        await LocalFileSystem().write_text_file(str(tmp_path), "text")


async def test_a_path_through_a_file_is_refused_in_a_sentence(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(WorkspaceError, match=r"\.$"):
        await LocalFileSystem().write_text_file(str(tmp_path / "file" / "below"), "text")


@posix_only
async def test_a_pipe_is_neither_opened_nor_replaced(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with anyio.fail_after(30):
        with pytest.raises(WorkspaceError, match="pipe"):
            await LocalFileSystem().read_text_file(str(tmp_path / "pipe"))
        with pytest.raises(WorkspaceError, match="pipe"):
            await LocalFileSystem().write_text_file(str(tmp_path / "pipe"), "text")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


@posix_only
@pytest.mark.skipif(sys.platform != "win32" and os.geteuid() == 0, reason="nothing is denied to root")
async def test_what_the_system_denies_is_said_in_a_sentence(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("old", encoding="utf-8")
    path.chmod(0o400)
    with pytest.raises(WorkspaceError, match="read-only"):
        await LocalFileSystem().write_text_file(str(path), "new")
    path.chmod(0)
    with pytest.raises(WorkspaceError, match="denies"):
        await LocalFileSystem().read_text_file(str(path))


@posix_only
@pytest.mark.skipif(sys.platform != "win32" and os.geteuid() == 0, reason="nothing is denied to root")
async def test_a_writable_file_in_a_closed_folder_is_written_in_place(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("a long old text", encoding="utf-8")
    folder = anyio.Path(tmp_path)
    await folder.chmod(0o500)
    try:
        assert await write(path, "new") == "new"
    finally:
        await folder.chmod(0o700)
