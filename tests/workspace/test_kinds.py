import os
import sys
from pathlib import Path

import pytest

from pattern_acp.workspace.kinds import PathFacts, inspect_path, kind_of_bytes


@pytest.mark.parametrize(
    ("head", "kind", "media_type"),
    [
        (b"", "text", "text/plain"),
        (b"plain\n", "text", "text/plain"),
        ("ünï 中文".encode(), "text", "text/plain"),
        ("中".encode()[:2], "text", "text/plain"),
        (b"\xef\xbb\xbfwith a mark", "text", "text/plain"),
        ("UTF-16".encode("utf-16"), "text", "text/plain"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text", "text/plain"),
        ("caf\u00e9 noir".encode("latin-1"), "text", "text/plain"),
        ("caf\u00e9 na\u00efve".encode("latin-1") + "na\u00efve".encode(), "binary", "application/octet-stream"),
        ("\u043f\u0440\u0438\u0432\u0435\u0442".encode("koi8-r"), "binary", "application/octet-stream"),
        (b"MZ\x90\x03\x04 this program", "binary", "application/octet-stream"),
        (b"text\0and more", "binary", "application/octet-stream"),
        ("UTF-32".encode("utf-32"), "binary", "application/octet-stream"),
        (b"%PDF-1.7\n", "binary", "application/pdf"),
        (b"\x89PNG\r\n\x1a\n\0\0", "image", "image/png"),
        (b"\xff\xd8\xff\xe0", "image", "image/jpeg"),
        (b"GIF89a...", "image", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "binary", "application/octet-stream"),
    ],
)
def test_the_first_bytes_say_what_a_file_is(head: bytes, kind: str, media_type: str):
    assert kind_of_bytes(head) == (kind, media_type)


def test_a_file_is_described_with_its_size_and_time(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"12345")
    os.utime(path, ns=(1, 1_700_000_000_000_000_000))
    assert inspect_path(str(path)) == PathFacts("text", 5, 1_700_000_000_000_000_000, "text/plain")


def test_a_character_cut_at_the_end_of_what_is_looked_at_is_no_fault(tmp_path: Path):
    (tmp_path / "long.txt").write_text("x" * 8_191 + "ü" * 100, encoding="utf-8")
    assert inspect_path(str(tmp_path / "long.txt")).kind == "text"


def test_folders_and_missing_files_are_told_apart(tmp_path: Path):
    assert inspect_path(str(tmp_path)).kind == "directory"
    assert inspect_path(str(tmp_path / "nothing")) == PathFacts("missing")
    assert inspect_path("a\0b") == PathFacts("missing")


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes are files on POSIX only")
def test_a_pipe_is_not_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert inspect_path(str(tmp_path / "pipe")).kind == "other"
