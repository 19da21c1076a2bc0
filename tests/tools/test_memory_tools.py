from pathlib import Path

import pytest

from pattern_acp.domain.access import Origin, ReadMemory, WriteMemory
from pattern_acp.domain.errors import BlockError
from pattern_acp.domain.tool_calls import DiffContent, TextContent
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.tools.base import ToolFailedError, ToolInputError
from pattern_acp.tools.memory_tools import MemoryRead, MemorySearch, MemoryWrite, memory_path
from tests.support.tools import CALL_ID, tool_bench


async def test_a_write_shows_its_diff_before_it_is_saved(tmp_path: Path):
    bench = tool_bench(tmp_path)
    before = next(block.text for block in await bench.memory.blocks() if block.label == "human")
    prepared = await bench.prepare(
        MemoryWrite(), label="human", operation="append", text="Likes tea.", reason="said so"
    )
    assert prepared.title == "Write memory: human"
    assert prepared.accesses == (WriteMemory("human"),)
    (diff,) = prepared.preview
    assert isinstance(diff, DiffContent)
    assert (diff.path, diff.old_text) == (memory_path("human", str(tmp_path)), before)
    assert diff.new_text.endswith("Likes tea.")
    assert bench.memory.commits == []
    outcome = await prepared.run(bench.progress)
    assert [(item.edit, item.call_id) for item in bench.memory.commits] == [
        (MemoryEdit("human", "append", "Likes tea.", "", "said so"), CALL_ID)
    ]
    assert outcome.content == (diff,)
    assert outcome.text.startswith("Memory block human is saved; it has ")
    assert outcome.origin is Origin.MEMORY


async def test_a_passage_is_replaced(tmp_path: Path):
    bench = tool_bench(tmp_path)
    await bench.call(MemoryWrite(), label="project", operation="rewrite", text="Tests run with make.")
    await bench.call(MemoryWrite(), label="project", operation="replace", old_text="make", text="pytest")
    outcome = await bench.call(MemoryRead(), label="project")
    assert outcome.text.endswith("\nTests run with pytest.")


async def test_a_replacement_needs_its_passage_and_nothing_else_takes_one(tmp_path: Path):
    bench = tool_bench(tmp_path)
    with pytest.raises(ToolInputError, match="`old_text` is missing"):
        await bench.prepare(MemoryWrite(), label="human", operation="replace", text="x")
    with pytest.raises(ToolInputError, match=r"`old_text` is only for replace, .*; leave it out to append"):
        await bench.prepare(MemoryWrite(), label="human", operation="append", text="x", old_text="y")


async def test_an_unknown_block_is_refused_with_those_there_are(tmp_path: Path):
    bench = tool_bench(tmp_path)
    with pytest.raises(BlockError):
        await bench.prepare(MemoryWrite(), label="nothing", operation="append", text="x")
    with pytest.raises(ToolFailedError, match="the blocks are persona, human, project"):
        await bench.call(MemoryRead(), label="nothing")


async def test_all_blocks_are_read_without_a_label(tmp_path: Path):
    bench = tool_bench(tmp_path)
    prepared = await bench.prepare(MemoryRead())
    assert prepared.accesses == (ReadMemory(),)
    outcome = await prepared.run(bench.progress)
    assert [line.split("]")[0] for line in outcome.text.splitlines() if line.startswith("[")] == [
        "[persona",
        "[human",
        "[project",
    ]


async def test_a_search_gives_hits_with_their_source_and_day(tmp_path: Path):
    bench = tool_bench(tmp_path)
    await bench.call(MemoryWrite(), label="project", operation="append", text="The release is on Thursday.")
    outcome = await bench.call(MemorySearch(), query="release")
    head, text = outcome.text.split("\n", 1)
    assert head.startswith("[memory block project, 20")
    assert "release is on Thursday" in text
    assert (await bench.call(MemorySearch(), query="zebra")).text == "Nothing was found; try other words."


async def test_a_search_says_how_many_more_have_words_of_the_query(tmp_path: Path):
    bench = tool_bench(tmp_path)
    lines = "\n\n".join(f"Release {number} is on Thursday.\n\nNothing of it." for number in range(14))
    await bench.call(MemoryWrite(), label="project", operation="append", text=lines)
    few = await bench.call(MemorySearch(), query="release", limit=3)
    assert "(3 of 14 that have words of the query;" in few.text
    assert few.content == (TextContent("3 of 14 hits."),)
    every = await bench.call(MemorySearch(), query="release", limit=20)
    assert "that have words" not in every.text


@pytest.mark.parametrize(
    ("cwd", "path"),
    [
        ("/home/me/project", "/memory/human.md"),
        ("C:\\Users\\me", "C:\\memory\\human.md"),
        ("\\\\host\\share\\project", "\\\\host\\share\\memory\\human.md"),
    ],
)
def test_the_path_of_a_diff_is_absolute_on_every_platform(cwd: str, path: str):
    assert memory_path("human", cwd) == path


async def test_a_damaged_block_is_called_damaged_and_not_missing(tmp_path: Path):
    bench = tool_bench(tmp_path)
    bench.memory.damaged["human"] = "What is stored of the memory block 'human' is damaged."
    with pytest.raises(ToolFailedError, match=r"'human' is damaged\. Tell the user; other blocks can be read\."):
        await bench.call(MemoryRead(), label="human")
    told = (await bench.call(MemoryRead())).text
    assert "[persona]" in told
    assert told.endswith("'human' is damaged.")
