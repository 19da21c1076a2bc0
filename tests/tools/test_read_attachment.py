"""Reading on in a long text that the person gave."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from pattern_acp.tools.base import ToolFailedError
from pattern_acp.tools.read_file import ReadAttachment
from tests.support.tools import tool_bench


async def text(text_id: str) -> str | None:
    return "abcdefghij" * 100 if text_id == "msg_1.0" else None


async def test_it_reads_on_from_a_character_and_says_how_to_go_on(tmp_path: Path):
    bench = tool_bench(tmp_path)
    bench = replace(bench, context=replace(bench.context, result_limit=300, long_text=text))
    first = await bench.call(ReadAttachment(), id="msg_1.0", start=5)
    assert first.text.startswith("fghij")
    assert first.text.endswith("[795 characters more; start=205 reads on]")
    last = await bench.call(ReadAttachment(), id="msg_1.0", start=990)
    assert last.text == "abcdefghij"


async def test_what_is_not_there_is_said(tmp_path: Path):
    bench = tool_bench(tmp_path)
    with pytest.raises(ToolFailedError, match="There is no text"):
        await bench.call(ReadAttachment(), id="msg_1.0")
    bench = replace(bench, context=replace(bench.context, long_text=text))
    with pytest.raises(ToolFailedError, match="only 1,000 characters"):
        await bench.call(ReadAttachment(), id="msg_1.0", start=1000)
