"""Files for the agent come from the disk."""

from pathlib import Path

import pytest

from pattern_acp.cli.chat.client import Files, window
from pattern_acp.jsonrpc.messages import RpcError


async def test_a_file_is_written_and_read_back(tmp_path: Path):
    path = tmp_path / "new" / "a.txt"
    await Files().write(str(path), "one\ntwo\n")
    assert await Files().read(str(path), None, None) == "one\ntwo\n"


async def test_a_missing_file_is_not_found(tmp_path: Path):
    with pytest.raises(RpcError) as raised:
        await Files().read(str(tmp_path / "nope"), None, None)
    assert raised.value.code == -32002


async def test_a_folder_is_an_error_with_a_sentence(tmp_path: Path):
    with pytest.raises(RpcError, match="folder"):
        await Files().read(str(tmp_path), None, None)


def test_lines_are_counted_from_one():
    assert window("a\nb\nc", 2, 1) == "b\n"
    assert window("a\nb\nc", 2, None) == "b\nc"
    assert window("a\nb\nc", None, 2) == "a\nb\n"
    assert window("a\nb\nc", 9, 2) == ""


async def test_lines_of_a_file_too_large_to_be_read_whole_are_read(tmp_path: Path):
    path = tmp_path / "large"
    path.write_text("".join(f"line {number}\n" for number in range(1, 1_000_001)))
    assert await Files().read(str(path), 900_000, 2) == "line 900000\nline 900001\n"
    with pytest.raises(RpcError, match="larger than 10 MB"):
        await Files().read(str(path), None, None)
