import io
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.tool_calls import TextContent
from pattern_acp.tools.base import ToolFailedError, ToolInputError
from pattern_acp.tools.read_file import ReadFileTool, pages_asked
from pattern_acp.workspace.pdfs import read_pdf
from tests.support.pdfs import pdf
from tests.support.tools import tool_bench


def locked(data: bytes, password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(password, algorithm="RC4-128")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


async def test_the_pages_of_a_pdf_are_read_as_text(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(pdf("Hello", "", "World"))
    outcome = await tool_bench(tmp_path).call(ReadFileTool(), path="a.pdf")
    assert outcome.text == (
        "Pages 1-3 of 3.\n[page 1]\nHello\n[page 2]\n(no text on this page; it may be a picture or a scan)\n"
        "[page 3]\nWorld"
    )
    assert outcome.content == (TextContent("Pages 1-3 of 3."),)


async def test_a_range_of_pages_says_what_is_left(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(pdf(*(f"Number {number}" for number in range(1, 31))))
    bench = tool_bench(tmp_path)
    prepared = await bench.prepare(ReadFileTool(), path="a.pdf", pages="2-3")
    assert prepared.title == "Read a.pdf (pages 2-3)"
    outcome = await prepared.run(bench.progress)
    assert outcome.text == (
        'Pages 2-3 of 30.\n[page 2]\nNumber 2\n[page 3]\nNumber 3\n[27 pages left; continue with pages="4-"]'
    )
    assert 'continue with pages="21-"' in (await bench.call(ReadFileTool(), path="a.pdf")).text
    with pytest.raises(ToolFailedError, match="has only 30 pages"):
        await bench.call(ReadFileTool(), path="a.pdf", pages="31")


async def test_pages_that_do_not_fit_into_the_result_are_left_for_the_next_read(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(pdf("a" * 500, "b" * 500, "c" * 2_000))
    bench = tool_bench(tmp_path).with_limit(900)
    assert "Pages 1-1 of 3" in (await bench.call(ReadFileTool(), path="a.pdf")).text
    last = (await bench.call(ReadFileTool(), path="a.pdf", pages="3")).text
    assert "bytes cut" in last
    assert len(last) <= 900


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"%PDF-1.4\nnothing", "is a damaged PDF and cannot be read"),
        (locked(pdf("Hush"), "secret"), "needs a password"),
    ],
)
async def test_a_pdf_that_cannot_be_read_is_a_sentence(tmp_path: Path, data: bytes, sentence: str):
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(WorkspaceError, match=sentence):
        await tool_bench(tmp_path).call(ReadFileTool(), path="a.pdf")


async def test_a_pdf_that_is_not_there_any_more_is_a_sentence(tmp_path: Path):
    with pytest.raises(WorkspaceError, match="cannot be read"):
        await read_pdf(str(tmp_path / "a.pdf"), 1, 1)


async def test_a_pdf_with_an_empty_password_is_read(tmp_path: Path):
    (tmp_path / "a.pdf").write_bytes(locked(pdf("Open"), ""))
    assert "Open" in (await tool_bench(tmp_path).call(ReadFileTool(), path="a.pdf")).text


@pytest.mark.parametrize(
    ("pages", "range_"), [("", (1, 20)), ("3", (3, 3)), (" 2 - 5 ", (2, 5)), ("7-", (7, 26)), ("1-99", (1, 20))]
)
def test_a_range_has_at_most_twenty_pages(pages: str, range_: tuple[int, int]):
    assert pages_asked(pages) == range_


@pytest.mark.parametrize("pages", ["0", "5-2", "a", "1,2", "-3"])
def test_what_is_no_range_is_said(pages: str):
    with pytest.raises(ToolInputError, match="`pages` must be"):
        pages_asked(pages)
