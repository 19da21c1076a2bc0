from pathlib import Path

import pytest

from pattern_acp.domain.access import WritePath
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import DiffContent
from pattern_acp.tools.base import ToolFailedError
from pattern_acp.tools.edit_file import WriteFile
from pattern_acp.tools.read_file import ReadFileTool
from pattern_acp.workspace.errors import FileChangedError, NotTextError
from tests.support.tools import tool_bench


async def test_a_new_file_is_created_with_its_folders(tmp_path: Path):
    bench = tool_bench(tmp_path)
    outcome = await bench.call(WriteFile(), path="src/new.py", content="x = 1\n")
    assert (tmp_path / "src/new.py").read_text() == "x = 1\n"
    assert outcome.text == "Created src/new.py (1 line)."
    assert outcome.content == (DiffContent(str(tmp_path / "src/new.py"), None, "x = 1\n"),)


async def test_the_diff_is_shown_before_anything_is_written(tmp_path: Path):
    prepared = await tool_bench(tmp_path).prepare(WriteFile(), path="new", content="x")
    assert prepared.title == "Create new"
    assert prepared.preview == (DiffContent(str(tmp_path / "new"), None, "x"),)
    assert prepared.accesses == (WritePath(resolve_path(str(tmp_path / "new"))),)
    assert not (tmp_path / "new").exists()


async def test_a_file_that_was_read_is_replaced(tmp_path: Path):
    (tmp_path / "a").write_text("old\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    outcome = await bench.call(WriteFile(), path="a", content="new\nnew\n")
    assert outcome.text == "Wrote a (2 lines, 1 before)."
    assert outcome.content == (DiffContent(str(tmp_path / "a"), "old\n", "new\nnew\n"),)
    again = await bench.call(WriteFile(), path="a", content="newest\n")
    assert not again.is_error


async def test_a_file_that_was_not_read_is_shown_instead_of_overwritten(tmp_path: Path):
    (tmp_path / "a").write_text("old\n")
    bench = tool_bench(tmp_path)
    with pytest.raises(FileChangedError, match=r"a exists, and has not been read yet\. Nothing was .*\n1\told"):
        await bench.call(WriteFile(), path="a", content="new\n")
    assert (tmp_path / "a").read_text() == "old\n"
    await bench.call(WriteFile(), path="a", content="new\n")
    assert (tmp_path / "a").read_text() == "new\n"


async def test_a_file_that_changed_since_it_was_read_is_shown_instead_of_overwritten(tmp_path: Path):
    (tmp_path / "a").write_text("old\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    (tmp_path / "a").write_text("theirs\n")
    with pytest.raises(FileChangedError, match=r"a was changed since it was read\. Nothing was .*\n1\ttheirs"):
        await bench.call(WriteFile(), path="a", content="mine\n")


async def test_a_file_that_changes_while_the_person_is_asked_is_not_overwritten(tmp_path: Path):
    (tmp_path / "a").write_text("old\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    prepared = await bench.prepare(WriteFile(), path="a", content="mine\n")
    (tmp_path / "a").write_text("theirs\n")
    with pytest.raises(FileChangedError, match="changed after this change was prepared"):
        await prepared.run(bench.progress)
    assert (tmp_path / "a").read_text() == "theirs\n"


async def test_a_file_that_appears_while_the_person_is_asked_is_not_overwritten(tmp_path: Path):
    bench = tool_bench(tmp_path)
    prepared = await bench.prepare(WriteFile(), path="a", content="mine\n")
    (tmp_path / "a").write_text("theirs\n")
    with pytest.raises(FileChangedError):
        await prepared.run(bench.progress)
    assert (tmp_path / "a").read_text() == "theirs\n"


async def test_a_file_that_is_deleted_while_the_person_is_asked_is_not_made_again(tmp_path: Path):
    (tmp_path / "a").write_text("old\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    prepared = await bench.prepare(WriteFile(), path="a", content="mine\n")
    (tmp_path / "a").unlink()
    with pytest.raises(FileChangedError, match="a was deleted meanwhile"):
        await prepared.run(bench.progress)


async def test_what_a_formatter_made_of_it_is_shown_as_a_diff(tmp_path: Path):
    bench = tool_bench(tmp_path)
    bench.files.habits.formatter = lambda text: text.replace("'", '"')
    outcome = await bench.call(WriteFile(), path="a", content="x = 'y'\n")
    assert "On saving it was changed further" in outcome.text
    assert outcome.text.endswith("-x = 'y'\n+x = \"y\"")
    assert outcome.content == (DiffContent(str(tmp_path / "a"), None, 'x = "y"\n'),)
    await bench.call(WriteFile(), path="a", content="other")


async def test_windows_line_endings_and_byte_order_mark_are_kept(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    await bench.call(WriteFile(), path="a", content="c\nd\n")
    assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbfc\r\nd\r\n"


async def test_writing_the_same_text_is_refused(tmp_path: Path):
    (tmp_path / "a").write_text("x\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    with pytest.raises(ToolFailedError, match="already has exactly this text"):
        await bench.call(WriteFile(), path="a", content="x\n")


async def test_an_empty_file_needs_no_reading(tmp_path: Path):
    (tmp_path / "a").touch()
    await tool_bench(tmp_path).call(WriteFile(), path="a", content="x")
    assert (tmp_path / "a").read_text() == "x"


async def test_a_binary_file_is_never_overwritten(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"\xff\0")
    with pytest.raises(NotTextError):
        await tool_bench(tmp_path).prepare(WriteFile(), path="a", content="x")


async def test_a_link_swapped_while_the_person_is_asked_is_not_written_through(tmp_path: Path):
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / "real").mkdir(parents=True)
    outside.mkdir()
    (project / "link").symlink_to(project / "real")
    bench = tool_bench(project)
    prepared = await bench.prepare(WriteFile(), path="link/new", content="x")
    (project / "link").unlink()
    (project / "link").symlink_to(outside)
    with pytest.raises(ToolFailedError, match="now leads to another place"):
        await prepared.run(bench.progress)
    assert list(outside.iterdir()) == []
