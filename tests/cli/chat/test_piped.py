"""What is piped in beside a prompt."""

import base64
import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from pattern_acp.cli.chat.agent_process import ChatError
from pattern_acp.cli.chat.conversation import PIPED_CHARACTERS, PIPED_URI, GivenImage, GivenText, read_piped, say


def from_file(folder: Path, data: bytes, tell: Callable[[str], None] = say) -> GivenImage | GivenText | None:
    path = folder / "piped"
    path.write_bytes(data)
    with path.open(encoding="utf-8") as stdin:
        return read_piped(stdin, tell)


def from_pipe(data: bytes) -> GivenImage | GivenText | None:
    ours, theirs = os.pipe()
    with os.fdopen(ours, encoding="utf-8") as stdin:
        os.write(theirs, data)
        os.close(theirs)
        return read_piped(stdin)


def test_text_of_a_pipe_or_a_file_is_given_whole(tmp_path: Path):
    assert from_file(tmp_path, "+a line\nä\n".encode()) == GivenText("+a line\nä\n")
    assert from_pipe(b"\xef\xbb\xbf+a line\n") == GivenText("+a line\n")


def test_nothing_is_nothing(tmp_path: Path):
    assert from_file(tmp_path, b" \n") is None
    assert from_pipe(b"") is None
    assert read_piped(io.StringIO("no descriptor")) is None
    with Path(os.devnull).open(encoding="utf-8") as stdin:
        assert read_piped(stdin) is None


def test_an_image_is_an_image(tmp_path: Path):
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6)).save(buffer, "PNG")
    expected = GivenImage(base64.b64encode(buffer.getvalue()).decode(), "image/png", PIPED_URI)
    assert from_file(tmp_path, buffer.getvalue()) == expected


def test_other_bytes_are_refused(tmp_path: Path):
    with pytest.raises(ChatError, match="no text and no image"):
        from_file(tmp_path, b"\x7fELF\0\0\0\1")


def test_a_long_text_is_cut_and_that_is_said(tmp_path: Path):
    said: list[str] = []
    given = from_file(tmp_path, b"x" * (PIPED_CHARACTERS + 1), said.append)
    assert isinstance(given, GivenText)
    assert given.text == "x" * PIPED_CHARACTERS + "\n[cut here: more was piped in]\n"
    assert said == ["gives only the first 2,000,000 characters of what was piped in."]


@pytest.mark.skipif(os.name == "nt", reason="pipes cannot be looked at there")
def test_what_comes_late_is_waited_for_and_that_is_said():
    ours, theirs = os.pipe()
    said: list[str] = []

    def tell(sentence: str) -> None:
        said.append(sentence)
        os.write(theirs, b"late\n")
        os.close(theirs)

    with os.fdopen(ours, encoding="utf-8") as stdin:
        assert read_piped(stdin, tell, waiting=0.0) == GivenText("late\n")
    assert said == ["waits for the end of its stdin, which goes with the prompt; `< /dev/null` gives it none."]
