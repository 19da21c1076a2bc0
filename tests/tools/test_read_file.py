import base64
import io
import os
from pathlib import Path

import pytest
from PIL import Image

from pattern_acp.domain.access import ReadPath
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import ImageContent, Location, TextContent
from pattern_acp.tools.base import ToolFailedError, ToolInputError
from pattern_acp.tools.read_file import ReadFileTool
from pattern_acp.workspace.errors import EditorRefusedError, ImageError
from pattern_acp.workspace.files import fingerprint
from tests.support.tools import tool_bench

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


async def test_a_whole_file_is_read_with_numbered_lines(tmp_path: Path):
    (tmp_path / "a.py").write_text("one\ntwo\n")
    bench = tool_bench(tmp_path)
    outcome = await bench.call(ReadFileTool(), path="a.py")
    assert outcome.text == "1\tone\n2\ttwo"
    assert outcome.content == (TextContent("Lines 1-2 of 2."),)
    assert outcome.locations == (Location(str(tmp_path / "a.py"), 1),)


async def test_the_call_names_the_file_and_what_it_would_read(tmp_path: Path):
    prepared = await tool_bench(tmp_path).prepare(ReadFileTool(), path="src/a.py", start_line=5, line_count=10)
    assert prepared.title == "Read src/a.py (lines 5-14)"
    assert prepared.accesses == (ReadPath(resolve_path(str(tmp_path / "src/a.py"))),)
    assert prepared.locations == (Location(str(tmp_path / "src/a.py"), 5),)


async def test_a_window_says_what_is_left_and_how_to_go_on(tmp_path: Path):
    (tmp_path / "a").write_text("".join(f"l{number}\n" for number in range(1, 11)))
    outcome = await tool_bench(tmp_path).call(ReadFileTool(), path="a", start_line=3, line_count=2)
    assert outcome.text == "3\tl3\n4\tl4\n[6 lines left; continue with start_line=5]"


async def test_a_file_is_read_whole_up_to_one_limit_whatever_the_number_of_its_lines(tmp_path: Path):
    (tmp_path / "a").write_text("x\n" * 3001)
    outcome = await tool_bench(tmp_path).call(ReadFileTool(), path="a")
    assert outcome.text.endswith("\n3001\tx")
    assert "from line 5" in (await tool_bench(tmp_path).prepare(ReadFileTool(), path="a", start_line=5)).title


async def test_a_window_ends_where_the_result_would_become_too_long(tmp_path: Path):
    (tmp_path / "a").write_text("0123456789\n" * 100)
    outcome = await tool_bench(tmp_path).with_limit(260).call(ReadFileTool(), path="a")
    assert outcome.text.splitlines()[-1] == "[96 lines left; continue with start_line=5]"
    assert len(outcome.text) <= 260


async def test_a_very_long_line_is_cut(tmp_path: Path):
    (tmp_path / "a").write_text("x" * 2_005)
    outcome = await tool_bench(tmp_path).call(ReadFileTool(), path="a")
    assert outcome.text.endswith("[... 5 characters cut]")


async def test_a_start_behind_the_end_is_refused(tmp_path: Path):
    (tmp_path / "a").write_text("x\n")
    with pytest.raises(ToolFailedError, match="a has only 1 line; choose a smaller start_line"):
        await tool_bench(tmp_path).call(ReadFileTool(), path="a", start_line=2)


async def test_an_empty_file_is_said_to_be_empty(tmp_path: Path):
    (tmp_path / "a").touch()
    assert (await tool_bench(tmp_path).call(ReadFileTool(), path="a")).text == "The file is empty."


async def test_reading_remembers_which_text_was_seen(tmp_path: Path):
    (tmp_path / "a").write_text("x\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    assert bench.context.read_fingerprints == {resolve_path(str(tmp_path / "a")): fingerprint("x\n")}


async def test_an_unsaved_buffer_is_what_is_read(tmp_path: Path):
    (tmp_path / "a").write_text("saved\n")
    bench = tool_bench(tmp_path)
    bench.files.texts[str(tmp_path / "a")] = "unsaved\n"
    bench.files.texts[str(tmp_path / "new")] = "nowhere on disk\n"
    assert (await bench.call(ReadFileTool(), path="a")).text == "1\tunsaved"
    assert (await bench.call(ReadFileTool(), path="new")).text == "1\tnowhere on disk"


def image_bytes(width: int, height: int, kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_an_image_is_attached(tmp_path: Path, kind: str):
    data = image_bytes(40, 30, kind)
    (tmp_path / "a.bin").write_bytes(data)
    outcome = await tool_bench(tmp_path).call(ReadFileTool(), path="a.bin")
    media_type = f"image/{kind.lower()}"
    told = f"a.bin is an image ({media_type}, {len(data):,} bytes); it is attached, 40 x 30 pixels."
    assert outcome.text == told
    (image,) = outcome.images
    assert base64.b64decode(image.data) == data
    assert outcome.content == (ImageContent(media_type, image.data),)


async def test_a_large_image_is_scaled_down(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(image_bytes(4_000, 1_000, "PNG"))
    outcome = await tool_bench(tmp_path).call(ReadFileTool(), path="a.png")
    (image,) = outcome.images
    assert (image.width, image.height) == (1_568, 392)
    assert outcome.text.endswith("it is attached, 1,568 x 392 pixels.")


async def test_an_image_that_is_too_large_or_damaged_is_refused(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(PNG)
    with pytest.raises(ImageError, match=r"The image a\.png is damaged"):
        await tool_bench(tmp_path).call(ReadFileTool(), path="a.png")
    os.truncate(tmp_path / "a.png", 30_000_001)
    with pytest.raises(ToolFailedError, match="30,000,001 bytes; at most 30,000,000"):
        await tool_bench(tmp_path).call(ReadFileTool(), path="a.png")


async def test_a_binary_file_is_described_and_not_shown(tmp_path: Path):
    (tmp_path / "a.bin").write_bytes(b"\0\1\2\xff")
    outcome = await tool_bench(tmp_path).call(ReadFileTool(), path="a.bin")
    assert outcome.text == "a.bin is not text (application/octet-stream, 4 bytes); its content is not shown."


async def test_a_folder_is_referred_to_list_directory(tmp_path: Path):
    with pytest.raises(ToolFailedError, match="is a folder; use list_directory"):
        await tool_bench(tmp_path).call(ReadFileTool(), path=".")


async def test_a_missing_file_brings_up_names_that_are_like_it(tmp_path: Path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "Main.py").touch()
    with pytest.raises(ToolFailedError, match=r"src/mian.py does not exist; did you mean src/Main.py\?"):
        await tool_bench(tmp_path).call(ReadFileTool(), path="src/mian.py")
    with pytest.raises(ToolFailedError, match=r"does not exist\. Look for it with find_files or list_directory"):
        await tool_bench(tmp_path).call(ReadFileTool(), path="src/zzzzzz")
    with pytest.raises(ToolFailedError, match="nor does its folder"):
        await tool_bench(tmp_path).call(ReadFileTool(), path="no/such")


async def test_preparing_tells_nothing_about_what_is_outside(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    prepared = await tool_bench(project).prepare(ReadFileTool(), path="../secret")
    assert prepared.accesses == (ReadPath(resolve_path(str(tmp_path / "secret"))),)


async def test_a_link_is_decided_on_by_where_it_leads(tmp_path: Path):
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    prepared = await tool_bench(tmp_path).prepare(ReadFileTool(), path="link")
    assert prepared.accesses == (ReadPath(resolve_path(str(tmp_path / "real"))),)
    assert prepared.locations == (Location(str(tmp_path / "link"), 1),)


async def test_a_link_that_was_swapped_after_the_decision_is_not_followed(tmp_path: Path):
    (tmp_path / "a").write_text("a")
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    bench = tool_bench(tmp_path)
    prepared = await bench.prepare(ReadFileTool(), path="link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(ToolFailedError, match="link now leads to another place"):
        await prepared.run(bench.progress)


async def test_an_unusable_path_is_refused(tmp_path: Path):
    with pytest.raises(WorkspaceError, match="NUL"):
        await tool_bench(tmp_path).prepare(ReadFileTool(), path="a\0b")
    with pytest.raises(ToolInputError, match="`path` is missing"):
        await tool_bench(tmp_path).prepare(ReadFileTool())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
async def test_a_window_of_a_file_of_any_size_is_read(tmp_path: Path, encoding: str):
    text = "".join(f"line {number} \u00e9\r\n" for number in range(1, 800_001)) + "x" * 3_000
    (tmp_path / "large").write_bytes(text.encode(encoding))
    bench = tool_bench(tmp_path)
    outcome = await bench.call(ReadFileTool(), path="large", start_line=700_000, line_count=2)
    assert outcome.text == (
        "700000\tline 700000 \u00e9\n700001\tline 700001 \u00e9\n[100,000 lines left; continue with start_line=700002]"
    )
    assert outcome.content == (TextContent("Lines 700000-700001 of 800,001."),)
    first = await bench.call(ReadFileTool(), path="large", line_count=1)
    assert first.text == "1\tline 1 \u00e9\n[800,000 lines left; continue with start_line=2]"
    last = await bench.call(ReadFileTool(), path="large", start_line=800_001)
    assert last.text == f"800001\t{'x' * 2_000} [... 1,000 characters cut]"
    with pytest.raises(ToolFailedError, match="large has only 800,001 lines; choose a smaller start_line"):
        await bench.call(ReadFileTool(), path="large", start_line=800_002)


async def test_a_large_file_that_turns_out_to_be_binary_is_refused_with_a_sentence(tmp_path: Path):
    (tmp_path / "large").write_bytes(b"text\n" * 3_000_000 + b"\0")
    with pytest.raises(WorkspaceError, match="NUL"):
        await tool_bench(tmp_path).call(ReadFileTool(), path="large", line_count=5)


async def test_a_large_file_that_the_editor_refuses_to_read_is_not_read_from_the_disk(tmp_path: Path):
    (tmp_path / "large").write_bytes(b"text\n" * 3_000_000)
    bench = tool_bench(tmp_path)
    bench.files.habits.error = EditorRefusedError("The editor did not read it.")
    with pytest.raises(EditorRefusedError):
        await bench.call(ReadFileTool(), path="large", line_count=5)
