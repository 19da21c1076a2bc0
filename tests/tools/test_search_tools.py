import os
from pathlib import Path

import pytest

from pattern_acp.domain.access import ReadPath
from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.tool_calls import Location, TextContent
from pattern_acp.tools.base import ToolFailedError
from pattern_acp.tools.find_files import MOST_OF_FILE, FindFiles, ListDirectory, SearchText, counted_files
from pattern_acp.workspace.errors import EditorRefusedError
from pattern_acp.workspace.search import FoundFile, SearchHits
from tests.support.tools import tool_bench


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("one\ntwo\nthree\nfour\nfive\nTwo\n")
    (tmp_path / "src" / "b.py").write_text("two\n")
    (tmp_path / "README.md").write_text("two\n")
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "c.py").write_text("two\n")
    for age, name in enumerate(["src/b.py", "src/a.py"]):
        os.utime(tmp_path / name, (1_000_000 + age, 1_000_000 + age))
    return tmp_path


async def test_a_folder_is_listed_with_kinds_and_sizes(project: Path):
    outcome = await tool_bench(project).call(ListDirectory())
    assert outcome.text.splitlines() == [".gitignore 7", "README.md 4", "build/ (ignored by git)", "src/"]
    assert outcome.content == (TextContent("4 entries."),)


async def test_a_deeper_listing_names_what_is_in_the_folders(project: Path):
    outcome = await tool_bench(project).call(ListDirectory(), path="src", depth=2)
    assert outcome.text.splitlines() == ["a.py 28", "b.py 4"]


async def test_listing_states_the_resolved_folder(project: Path):
    prepared = await tool_bench(project).prepare(ListDirectory(), path="src")
    assert prepared.title == "List src"
    assert prepared.accesses == (ReadPath(resolve_path(str(project / "src")), is_folder=True),)
    assert prepared.locations == (Location(str(project / "src")),)


async def test_a_large_folder_is_listed_in_part(tmp_path: Path):
    for number in range(503):
        (tmp_path / f"{number:03}").touch()
    outcome = await tool_bench(tmp_path).call(ListDirectory())
    assert outcome.text.splitlines()[-1] == "[3 more; list a folder below, or use find_files]"


async def test_an_empty_folder_and_a_missing_one_are_told_apart(project: Path):
    (project / "empty").mkdir()
    assert (await tool_bench(project).call(ListDirectory(), path="empty")).text == "(empty)"
    with pytest.raises(ToolFailedError, match=r"scr does not exist; did you mean src\?"):
        await tool_bench(project).call(ListDirectory(), path="scr")
    with pytest.raises(WorkspaceError, match="is a file"):
        await tool_bench(project).call(ListDirectory(), path="README.md")


async def test_files_are_found_newest_first_without_ignored_ones(project: Path):
    outcome = await tool_bench(project).call(FindFiles(), pattern="*.py")
    assert outcome.text.splitlines() == ["2 files:", "src/a.py", "src/b.py"]
    assert outcome.locations == (Location(str(project / "src/a.py")), Location(str(project / "src/b.py")))


async def test_files_below_a_linked_folder_keep_the_name_that_was_asked_for(project: Path):
    (project / "link").symlink_to(project / "src")
    outcome = await tool_bench(project).call(FindFiles(), pattern="a.py", path="link")
    assert outcome.text.splitlines() == ["1 file:", "link/a.py"]


async def test_when_nothing_is_found_that_is_said(project: Path):
    assert (await tool_bench(project).call(FindFiles(), pattern="*.rs")).text == "No file matches."
    assert (await tool_bench(project).call(SearchText(), pattern="nowhere")).text == "No line matches."


async def test_many_files_are_counted_and_listed_in_part(tmp_path: Path):
    for number in range(201):
        (tmp_path / f"{number:03}").touch()
    outcome = await tool_bench(tmp_path).call(FindFiles(), pattern="*")
    assert outcome.text.startswith("201 files; the newest 200, narrow the pattern for others:\n")


async def test_matching_lines_are_grouped_by_file(project: Path):
    outcome = await tool_bench(project).call(SearchText(), pattern="^t[wW]o$", glob="*.py")
    assert outcome.text.splitlines() == [
        "2 lines in 2 files:",
        "src/a.py",
        "2: two",
        "src/b.py",
        "1: two",
    ]
    assert outcome.locations == (Location(str(project / "src/a.py"), 2), Location(str(project / "src/b.py"), 1))


async def test_context_is_told_from_matches_and_gaps_are_marked(project: Path):
    outcome = await tool_bench(project).call(
        SearchText(), pattern="two", path="src/a.py", case_sensitive=False, context_lines=1
    )
    assert outcome.text.splitlines() == [
        "2 lines in 1 file:",
        "src/a.py",
        "1- one",
        "2: two",
        "3- three",
        "--",
        "5- five",
        "6: Two",
    ]


async def test_lines_of_credentials_are_shown_only_when_their_file_was_asked_for(project: Path):
    (project / ".env").write_text("KEY=two\n")
    (project / ".ssh").mkdir()
    (project / ".ssh" / "config").write_text("two\n")
    bench = tool_bench(project)
    outcome = await bench.call(SearchText(), pattern="two")
    assert "KEY" not in outcome.text + str(outcome.content)
    assert "3 lines in 3 files" in outcome.text
    assert not {".env", "config"} & {Path(location.path).name for location in outcome.locations}
    assert "1: KEY=two" in (await bench.call(SearchText(), pattern="two", path=".env")).text
    assert "1: two" in (await bench.call(SearchText(), pattern="two", path=".ssh")).text


@pytest.mark.parametrize("expression", ["{}", "(?=K){}"])  # as ripgrep searches, and as we do ourselves
async def test_a_search_tells_nothing_of_what_files_of_credentials_hold(tmp_path: Path, expression: str):
    (tmp_path / ".env").write_text("KEY=two\n" * 300)
    (tmp_path / "a.py").write_text("KEY=\n")
    bench = tool_bench(tmp_path)
    left_out = "(Not searched, as files of credentials: .env. Search one by its path.)"
    for guess in ("KEY=t", "KEY=u"):
        assert (
            await bench.call(SearchText(), pattern=expression.format(guess))
        ).text == f"No line matches.\n{left_out}"
    outcome = await bench.call(SearchText(), pattern=expression.format("KEY="))
    assert outcome.text == f"1 line in 1 file:\na.py\n1: KEY=\n{left_out}"


async def test_files_of_credentials_are_named_only_where_the_search_passed_over_some(project: Path):
    bench = tool_bench(project)

    async def remark(**arguments: object) -> str:
        last = (await bench.call(SearchText(), pattern="two", **arguments)).text.splitlines()[-1]
        return last if last.startswith("(Not searched") else ""

    assert await remark() == ""
    (project / "build" / ".env").write_text("two\n")
    assert await remark() == "", "git ignores it, so it is no part of the search"
    for name in (".env", "src/id_rsa", "src/server.key", "src/x.pem"):
        (project / name).write_text("one\n")
    told = (
        "(Not searched, as files of credentials: .env, src/id_rsa, src/server.key and 1 more. Search one by its path.)"
    )
    assert await remark() == told
    assert await remark(path="src") == told.replace(".env, ", "").replace(" and 1 more", ", src/x.pem")
    assert (
        await remark(glob="*.key") == "(Not searched, as files of credentials: src/server.key. Search one by its path.)"
    )
    assert await remark(glob="*.py") == ""
    assert await remark(path="src/a.py") == ""
    assert await remark(path=".env") == ""


async def test_too_many_matches_are_cut_off_and_told(tmp_path: Path):
    (tmp_path / "a").write_text("x\n" * 201)
    outcome = await tool_bench(tmp_path).call(SearchText(), pattern="x")
    assert outcome.text.startswith("201 lines in 1 file:\n")
    assert outcome.text.endswith("\n200: x\n[1 more line in this file; search it by its path]")
    outcome = await tool_bench(tmp_path).call(SearchText(), pattern="x", path="a")
    assert outcome.text.endswith("\n200: x\n[1 more line; continue with offset=200]")
    outcome = await tool_bench(tmp_path).call(SearchText(), pattern="x", path="a", offset=200)
    assert outcome.text == "201 lines in 1 file:\na\n201: x"


async def test_every_file_has_its_share_of_too_many_lines_the_most_telling_files_first(tmp_path: Path):
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_app.py").write_text("colour = 1\n" * 300)
    for number in range(20):
        (tmp_path / f"use{number:02}.py").write_text("print(colour)\n" * 30)
    (tmp_path / "zed.py").write_text("def colour():\n    pass\n")
    outcome = await tool_bench(tmp_path).call(SearchText(), pattern="colour")
    lines = outcome.text.split("\n")
    assert lines[:3] == ["901 lines in 22 files:", "zed.py", "1: def colour():"]
    files = [line for line in lines if line.endswith(".py")]
    assert [*files[:2], files[-1]] == ["zed.py", "use00.py", str(Path("tests", "test_app.py"))]
    assert len([line for line in lines if ": " in line]) == 200
    assert lines.count("[21 more lines in this file; search it by its path]") > 10
    outcome = await tool_bench(tmp_path).call(SearchText(), pattern="colour", offset=20)
    assert outcome.text.split("\n")[1] == "use19.py"


async def test_files_can_be_listed_or_counted_page_by_page(tmp_path: Path):
    for number in range(202):
        (tmp_path / f"{number:03}").write_text("x\n" * (1 + (number == 150)))
    listed = (await tool_bench(tmp_path).call(SearchText(), pattern="x", form="files")).text.split("\n")
    assert listed[:3] == ["203 lines in 202 files:", "150", "000"]
    assert listed[-1] == "[2 more files; continue with offset=200]"
    counted = (await tool_bench(tmp_path).call(SearchText(), pattern="x", form="count", offset=200)).text
    assert counted == "203 lines in 202 files:\n200: 1\n201: 1"
    assert (await tool_bench(tmp_path).call(SearchText(), pattern="x", form="count")).text.split("\n")[1] == "150: 2"


async def test_an_expression_with_a_line_end_is_matched_across_lines(tmp_path: Path):
    (tmp_path / "a.py").write_bytes(b"@cached\r\ndef one():\r\n    pass\r\n\r\ndef two():\r\n    pass\r\n")
    for pattern in (r"@cached\ndef (\w+)", "@cached\ndef one"):
        outcome = await tool_bench(tmp_path).call(SearchText(), pattern=pattern, context_lines=1)
        assert outcome.text == "2 lines in 1 file:\na.py\n1: @cached\n2: def one():\n3-     pass"


async def test_a_bad_expression_is_a_sentence(project: Path):
    with pytest.raises(WorkspaceError, match="regular expression is not valid"):
        await tool_bench(project).call(SearchText(), pattern="(")


async def test_titles_say_what_is_looked_for_and_where(project: Path):
    bench = tool_bench(project)
    assert (await bench.prepare(FindFiles(), pattern="*.py", path="src")).title == "Find *.py in src"
    assert (await bench.prepare(SearchText(), pattern="x", glob="*.py")).title == "Search x (*.py)"


def test_files_of_a_search_that_was_cut_off_for_time_are_told_as_such():
    file = FoundFile("/a", "a", 0)
    assert counted_files(SearchHits("/", (), 0, complete=False, timed_out=True)) == (
        "No file matches, but the search was cut off for time, narrow it."
    )
    assert counted_files(SearchHits("/", (file,), 1, complete=False, timed_out=True)) == (
        "more than 1 file; the search was cut off for time, narrow it:"
    )


async def test_what_was_not_searched_is_named_with_its_reason(project: Path):
    for name in ("a.bin", "b.bin", "c.bin", "src/d.bin"):
        (project / name).write_bytes(b"two\n\0")
    bench = tool_bench(project)
    remark = "(Not searched, as they are binary: a.bin, b.bin, c.bin and 1 more.)"
    assert (await bench.call(SearchText(), pattern="nowhere")).text == f"No line matches.\n{remark}"
    assert (await bench.call(SearchText(), pattern="two")).text.endswith(remark)
    alone = await bench.call(SearchText(), pattern="two", path="a.bin")
    assert alone.text == "No line matches.\n(Not searched, as they are binary: a.bin.)"


async def test_a_single_file_is_searched_as_the_editor_has_it(project: Path):
    bench = tool_bench(project)
    path = str(project / "src" / "b.py")
    bench.files.texts[path] = "unsaved\n"
    assert (await bench.call(SearchText(), pattern="saved", path="src/b.py")).text.endswith("1: unsaved")
    assert (await bench.call(SearchText(), pattern="two", path="src/b.py")).text == "No line matches."


@pytest.mark.parametrize("lines", [1, 3_000_000])
async def test_a_single_file_that_the_editor_refuses_to_read_is_not_searched_on_the_disk(project: Path, lines: int):
    (project / "src" / "b.py").write_text("two\n" * lines)
    bench = tool_bench(project)
    bench.files.habits.error = EditorRefusedError("The editor did not read it.")
    with pytest.raises(EditorRefusedError):
        await bench.call(SearchText(), pattern="two", path="src/b.py")


async def test_a_count_that_was_cut_off_in_a_long_file_says_so(tmp_path: Path):
    (tmp_path / "long.txt").write_text("word\n" * (MOST_OF_FILE + 50), encoding="utf-8")
    (tmp_path / "short.txt").write_text("word\n", encoding="utf-8")
    text = (await tool_bench(tmp_path).call(SearchText(), pattern="word", form="count")).text
    assert text == "At least 402 lines in 2 files:\nlong.txt: 400+\nshort.txt: 1"
    text = (await tool_bench(tmp_path).call(SearchText(), pattern="word", form="count", path="long.txt")).text
    assert text == "450 lines in 1 file:\nlong.txt: 450"
