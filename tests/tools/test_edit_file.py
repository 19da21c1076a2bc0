from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.domain.access import WritePath
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import DiffContent, Location
from pattern_acp.tools.base import ToolFailedError, ToolInputError
from pattern_acp.tools.edit_file import EditFile, EditPassageError, WriteFile
from pattern_acp.tools.read_file import ReadFileTool
from pattern_acp.workspace.errors import FileChangedError
from tests.support.tools import tool_bench


def edit(old: str, new: str) -> dict[str, str]:
    return {"old_text": old, "new_text": new}


async def test_several_passages_are_replaced_in_one_call(tmp_path: Path):
    (tmp_path / "a").write_text("one\ntwo\nthree\n")
    outcome = await tool_bench(tmp_path).call(EditFile(), path="a", edits=[edit("one", "1"), edit("three", "3")])
    assert (tmp_path / "a").read_text() == "1\ntwo\n3\n"
    assert outcome.text == "Edited a: 2 replacements at lines 1, 3.\n1\t1\n2\ttwo\n3\t3"
    assert outcome.content == (DiffContent(str(tmp_path / "a"), "one\ntwo\nthree\n", "1\ntwo\n3\n"),)
    assert outcome.locations == (Location(str(tmp_path / "a"), 1),)


async def test_the_diff_is_shown_before_anything_is_written(tmp_path: Path):
    (tmp_path / "a").write_text("one\ntwo\n")
    prepared = await tool_bench(tmp_path).prepare(EditFile(), path="a", edits=[edit("two", "2")])
    assert prepared.title == "Edit a"
    assert prepared.preview == (DiffContent(str(tmp_path / "a"), "one\ntwo\n", "one\n2\n"),)
    assert prepared.locations == (Location(str(tmp_path / "a"), 2),)
    assert prepared.accesses == (WritePath(resolve_path(str(tmp_path / "a"))),)
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


async def test_when_one_edit_fails_none_is_made(tmp_path: Path):
    (tmp_path / "a").write_text("one\ntwo\n")
    with pytest.raises(EditPassageError, match=r"`edits\[1\].old_text` is not in the file"):
        await tool_bench(tmp_path).prepare(EditFile(), path="a", edits=[edit("one", "1"), edit("nowhere to be", "x")])
    assert (tmp_path / "a").read_text() == "one\ntwo\n"


async def test_a_match_without_regard_to_white_space_is_told(tmp_path: Path):
    (tmp_path / "a").write_text("def f():\n    x = 1\n    y = 2\n")
    outcome = await tool_bench(tmp_path).call(EditFile(), path="a", edits=[edit("x = 1\ny = 2", "x = 3\ny = 4")])
    assert (tmp_path / "a").read_text() == "def f():\n    x = 3\n    y = 4\n"
    assert "matched only without regard to white space" in outcome.text


async def test_an_edit_of_a_file_that_changed_since_it_was_read_is_refused_with_the_new_text(tmp_path: Path):
    (tmp_path / "a").write_text("one\nold\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    (tmp_path / "a").write_text("theirs\nold\n")
    with pytest.raises(FileChangedError, match=r"changed since it was read, so nothing was edited\..*\n1\ttheirs"):
        await bench.prepare(EditFile(), path="a", edits=[edit("old", "mine")])
    assert (tmp_path / "a").read_text() == "theirs\nold\n"
    await bench.call(EditFile(), path="a", edits=[edit("old", "mine")])
    assert (tmp_path / "a").read_text() == "theirs\nmine\n"


async def test_a_file_that_changes_while_the_person_is_asked_is_not_written(tmp_path: Path):
    (tmp_path / "a").write_text("one\ntwo\n")
    bench = tool_bench(tmp_path)
    prepared = await bench.prepare(EditFile(), path="a", edits=[edit("two", "2")])
    (tmp_path / "a").write_text("zero\none\ntwo\n")
    with pytest.raises(FileChangedError, match="1\tzero"):
        await prepared.run(bench.progress)
    assert (tmp_path / "a").read_text() == "zero\none\ntwo\n"


async def test_edits_follow_each_other_without_reading_again(tmp_path: Path):
    (tmp_path / "a").write_text("one\ntwo\n")
    bench = tool_bench(tmp_path)
    await bench.call(ReadFileTool(), path="a")
    await bench.call(EditFile(), path="a", edits=[edit("one", "1")])
    outcome = await bench.call(EditFile(), path="a", edits=[edit("two", "2")])
    assert outcome.text == "Edited a: 1 replacement at line 2.\n1\t1\n2\t2"


def nothing_may_be_read(_path: str) -> bool:
    return False


async def test_lines_beside_an_edit_are_not_shown_of_a_file_that_may_not_be_read(tmp_path: Path):
    (tmp_path / "a").write_text("secret\ntwo\n")
    bench = tool_bench(tmp_path)
    bench.context = replace(bench.context, may_read=nothing_may_be_read)
    outcome = await bench.call(EditFile(), path="a", edits=[edit("two", "2")])
    assert outcome.text == "Edited a: 1 replacement at line 2."


async def test_an_edit_does_not_count_as_having_read_the_file(tmp_path: Path):
    (tmp_path / "a").write_text("one\ntwo\n")
    bench = tool_bench(tmp_path)
    await bench.call(EditFile(), path="a", edits=[edit("one", "1")])
    with pytest.raises(FileChangedError, match="has not been read yet"):
        await bench.call(WriteFile(), path="a", content="x")


async def test_an_unsaved_buffer_is_what_is_edited(tmp_path: Path):
    (tmp_path / "a").write_text("saved\n")
    bench = tool_bench(tmp_path)
    bench.files.texts[str(tmp_path / "a")] = "unsaved\n"
    await bench.call(EditFile(), path="a", edits=[edit("unsaved", "edited")])
    assert (tmp_path / "a").read_text() == "edited\n"


async def test_line_endings_mark_and_missing_final_newline_stay(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo")
    await tool_bench(tmp_path).call(EditFile(), path="a", edits=[edit("one\ntwo", "1\n2")])
    assert (tmp_path / "a").read_bytes() == b"\xef\xbb\xbf1\r\n2"


async def test_a_missing_file_is_not_made(tmp_path: Path):
    (tmp_path / "main.py").touch()
    with pytest.raises(ToolFailedError, match=r"did you mean main.py\? A new file is made with write_file"):
        await tool_bench(tmp_path).prepare(EditFile(), path="mian.py", edits=[edit("a", "b")])


async def test_edits_may_come_as_json_text(tmp_path: Path):
    (tmp_path / "a").write_text("one\n")
    await tool_bench(tmp_path).call(EditFile(), path="a", edits='[{"old_text": "one", "new_text": "1"}]')
    assert (tmp_path / "a").read_text() == "1\n"


async def test_no_edits_are_refused(tmp_path: Path):
    with pytest.raises(ToolInputError, match="`edits` must have at least 1 item"):
        await tool_bench(tmp_path).prepare(EditFile(), path="a", edits=[])
