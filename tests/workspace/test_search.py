import os
import sys
import time
from pathlib import Path

import anyio
import pytest

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.search import (
    MAX_LINE_CHARS,
    MatchCollector,
    Matches,
    TextQuery,
    find_files,
    note_left_out,
    search_text,
    shortened,
)

WITH_RIPGREP = pytest.param(True, id="ripgrep", marks=pytest.mark.needs("rg"))
engines = pytest.mark.parametrize("use_ripgrep", [pytest.param(False, id="own"), WITH_RIPGREP])


def fill(root: Path) -> Path:
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_bytes(b"ref: refs/heads/main\n")
    (root / ".git" / "config").write_bytes(b"needle in git\n")
    (root / ".gitignore").write_bytes(b"ignored/\n*.log\n")
    (root / "ignored").mkdir()
    (root / "ignored" / "a.py").write_bytes(b"needle ignored\n")
    (root / "a.log").write_bytes(b"needle ignored\n")
    (root / "src" / "sub").mkdir(parents=True)
    (root / "src" / "a.py").write_bytes(b"one\ntwo needle\nthree\nfour\nfive NEEDLE\nsix\n")
    (root / "src" / "sub" / "b.py").write_bytes("ünï needle 中\r\nno\r\n".encode())
    (root / "src" / "c.txt").write_bytes(b"needle without an end")
    (root / "src-x").write_bytes(b"needle\n")
    (root / "utf16.txt").write_bytes("a needle in UTF-16\n".encode("utf-16"))
    (root / "mark.txt").write_bytes(b"\xef\xbb\xbfneedle after a mark\n")
    (root / "latin.txt").write_bytes("caf\u00e9 needle\n".encode("latin-1"))
    (root / "binary").write_bytes(b"needle\n\0needle\n")
    (root / ".hidden").write_bytes(b"hidden needle\n")
    return root


def shown(matches: Matches) -> list[str]:
    return [f"{line.name}:{line.line}{':' if line.is_match else '-'}{line.text}" for line in matches.lines]


@engines
async def test_lines_are_found_in_text_files_that_git_does_not_ignore(tmp_path: Path, *, use_ripgrep: bool):
    fill(tmp_path)
    matches = await search_text(str(tmp_path), "needle", use_ripgrep=use_ripgrep)
    assert shown(matches) == [
        ".hidden:1:hidden needle",
        "latin.txt:1:caf\u00e9 needle",
        "mark.txt:1:needle after a mark",
        "src/a.py:2:two needle",
        "src/c.txt:1:needle without an end",
        "src/sub/b.py:1:ünï needle 中",
        "src-x:1:needle",
        "utf16.txt:1:a needle in UTF-16",
    ]
    assert (matches.match_count, matches.file_count, matches.stopped) == (8, 8, "")
    assert matches.lines[3].path == str(tmp_path / "src" / "a.py")


@engines
async def test_case_can_be_ignored(tmp_path: Path, *, use_ripgrep: bool):
    fill(tmp_path)
    matches = await search_text(str(tmp_path / "src"), "NeEdLe$", case_sensitive=False, use_ripgrep=use_ripgrep)
    assert shown(matches) == ["a.py:2:two needle", "a.py:5:five NEEDLE"]


@engines
@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("^two", ["a.py:2:two needle"]),
        ("two|three", ["a.py:2:two needle", "a.py:3:three"]),
        (r"\bf\w{3}\b", ["a.py:4:four", "a.py:5:five NEEDLE"]),
        (r"^no$", ["sub/b.py:2:no"]),
        (r"^needle\b.*end$", ["c.txt:1:needle without an end"]),
        ("[x-z]$", ["a.py:6:six"]),
        (r"(?<=two )needle", ["a.py:2:two needle"]),
        (r"(e)\1", ["a.py:2:two needle", "a.py:3:three", "c.txt:1:needle without an end", "sub/b.py:1:ünï needle 中"]),
        ("ünï", ["sub/b.py:1:ünï needle 中"]),
        ("-e", []),
        ("thr(", None),
    ],
)
async def test_expressions_mean_the_same_to_both_engines(
    tmp_path: Path, pattern: str, lines: list[str] | None, *, use_ripgrep: bool
):
    root = str(fill(tmp_path) / "src")
    if lines is None:
        with pytest.raises(WorkspaceError, match="not valid"):
            await search_text(root, pattern, use_ripgrep=use_ripgrep)
    else:
        assert shown(await search_text(root, pattern, use_ripgrep=use_ripgrep)) == lines


@engines
async def test_a_glob_selects_files_and_brings_no_ignored_ones_back(tmp_path: Path, *, use_ripgrep: bool):
    fill(tmp_path)
    for glob in ("*.py", "**/*.{py,pyi}", str(tmp_path / "src/**/*.py")):
        matches = await search_text(str(tmp_path), "needle", glob=glob, use_ripgrep=use_ripgrep)
        assert [line.name for line in matches.lines] == ["src/a.py", "src/sub/b.py"]
    matches = await search_text(str(tmp_path), "needle", glob="!src/**", use_ripgrep=use_ripgrep)
    assert "src-x" in {line.name for line in matches.lines}
    assert "src/a.py" not in {line.name for line in matches.lines}


@engines
async def test_lines_around_a_match_are_shown_once(tmp_path: Path, *, use_ripgrep: bool):
    fill(tmp_path)
    root = str(tmp_path / "src")
    matches = await search_text(root, "needle", glob="a.py", case_sensitive=False, context=2, use_ripgrep=use_ripgrep)
    assert shown(matches) == [
        "a.py:1-one",
        "a.py:2:two needle",
        "a.py:3-three",
        "a.py:4-four",
        "a.py:5:five NEEDLE",
        "a.py:6-six",
    ]


@engines
async def test_the_limit_counts_matching_lines_and_is_told(tmp_path: Path, *, use_ripgrep: bool):
    (tmp_path / "a").write_bytes(b"x\n-\n-\n-\nx\nx\n-\nx\n")
    (tmp_path / "b").write_bytes(b"-\nx\n")
    root = str(tmp_path)
    assert shown(await search_text(root, "x", context=1, limit=2, use_ripgrep=use_ripgrep)) == [
        "a:1:x",
        "a:2--",
        "a:4--",
        "a:5:x",
    ]
    four = await search_text(root, "x", context=1, limit=4, use_ripgrep=use_ripgrep)
    assert (four.match_count, four.stopped, four.lines[-1].name) == (4, "limit", "a")
    five = await search_text(root, "x", limit=5, use_ripgrep=use_ripgrep)
    assert (five.match_count, five.stopped) == (5, "")


@engines
async def test_a_long_line_is_cut_around_the_match(tmp_path: Path, *, use_ripgrep: bool):
    (tmp_path / "min.js").write_bytes(b"a" * 100_000 + "ü needle".encode() + b"b" * 100_000 + b"\n")
    matches = await search_text(str(tmp_path), "needle", use_ripgrep=use_ripgrep)
    (line,) = matches.lines
    assert "ü needle" in line.text
    assert len(line.text) == MAX_LINE_CHARS + 2


@engines
async def test_a_sub_folder_keeps_the_rules_above_it_and_an_ignored_one_can_be_searched(
    tmp_path: Path, *, use_ripgrep: bool
):
    fill(tmp_path)
    (tmp_path / "src" / "x.log").write_bytes(b"needle\n")
    inside = await search_text(str(tmp_path / "src"), "needle", use_ripgrep=use_ripgrep)
    assert "x.log" not in {line.name for line in inside.lines}
    ignored = await search_text(str(tmp_path / "ignored"), "needle", use_ripgrep=use_ripgrep)
    assert shown(ignored) == ["a.py:1:needle ignored"]


@engines
async def test_rules_above_a_folder_without_a_repository_do_not_count(tmp_path: Path, *, use_ripgrep: bool):
    (tmp_path / ".gitignore").write_bytes(b"*\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".gitignore").write_bytes(b"b\n")
    (tmp_path / "work" / "a").write_bytes(b"x\n")
    (tmp_path / "work" / "b").write_bytes(b"x\n")
    assert shown(await search_text(str(tmp_path / "work"), "x", use_ripgrep=use_ripgrep)) == ["a:1:x"]


@engines
@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")
async def test_links_are_not_followed(tmp_path: Path, *, use_ripgrep: bool):
    (tmp_path / "a").write_bytes(b"x\n")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to(".", target_is_directory=True)
    assert shown(await search_text(str(tmp_path), "x", use_ripgrep=use_ripgrep)) == ["a:1:x"]


async def test_one_file_can_be_searched_even_when_ignored(tmp_path: Path):
    fill(tmp_path)
    matches = await search_text(str(tmp_path / "a.log"), "needle")
    assert [(line.path, line.name, line.line) for line in matches.lines] == [(str(tmp_path / "a.log"), "a.log", 1)]


@pytest.mark.slow
async def test_an_expression_that_never_ends_is_stopped(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"needle\n")
    (tmp_path / "b").write_bytes(b"a" * 60 + b"!\n")
    began = time.perf_counter()
    matches = await search_text(str(tmp_path), "needle|^(a+)+$", use_ripgrep=False, time_limit=6.0)
    assert (shown(matches), matches.stopped) == (["a:1:needle"], "time")
    assert time.perf_counter() - began < 60


@engines
async def test_cancelling_a_search_is_quick(tmp_path: Path, *, use_ripgrep: bool):
    (tmp_path / "b").write_bytes(b"a" * 60 + b"!\n")
    with anyio.fail_after(30), anyio.move_on_after(0.2):
        await search_text(str(tmp_path), "^(a+)+$", use_ripgrep=use_ripgrep)


@pytest.mark.parametrize("pattern", ["(", "[", "a{3,1}", "(?P<n>a)(?P<n>b)", "a\nb", "(?<=a+)b"])
async def test_an_expression_that_is_not_valid_is_told_in_a_sentence(tmp_path: Path, pattern: str):
    with pytest.raises(WorkspaceError) as caught:
        await search_text(str(tmp_path), pattern)
    assert caught.value.sentence.endswith(".")


async def test_a_folder_that_does_not_exist_is_told_in_a_sentence(tmp_path: Path):
    with pytest.raises(FileMissingError):
        await search_text(str(tmp_path / "nothing"), "x")
    with pytest.raises(FileMissingError):
        await find_files(str(tmp_path / "nothing"), "*", limit=1)


async def test_an_empty_folder_has_no_lines(tmp_path: Path):
    assert (await search_text(str(tmp_path), "x")).lines == ()


async def test_files_are_found_newest_first(tmp_path: Path):
    fill(tmp_path)
    for age, name in enumerate(["src/sub/b.py", "src/a.py"]):
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    found = await find_files(str(tmp_path), "*.py", limit=10)
    assert [file.name for file in found.files] == ["src/sub/b.py", "src/a.py"]
    assert found.files[0].path == str(tmp_path / "src" / "sub" / "b.py")
    assert found.files[0].mtime_ns == 1_000_000 * 10**9
    assert (found.total, found.complete) == (2, True)


async def test_files_over_the_limit_are_counted(tmp_path: Path):
    fill(tmp_path)
    found = await find_files(str(tmp_path), "**", limit=2)
    assert (len(found.files), found.total) == (2, 10)


async def test_a_search_for_files_that_takes_too_long_gives_what_it_has(tmp_path: Path):
    fill(tmp_path)
    found = await find_files(str(tmp_path), "**", limit=2, time_limit=0)
    assert (found.total, found.complete, found.timed_out) == (0, False, True)


def test_a_short_line_is_shown_as_it_is():
    assert shortened("a", 0) == "a"
    assert shortened("x" * 900, None) == "x" * MAX_LINE_CHARS + "…"
    assert shortened("x" * 900, 899) == "…" + "x" * MAX_LINE_CHARS


@engines
async def test_files_that_may_not_be_read_are_named_whether_or_not_they_would_match(
    tmp_path: Path, *, use_ripgrep: bool
):
    fill(tmp_path)

    def may_read(path: str) -> bool:
        return not path.endswith((".txt", ".log"))

    for pattern in ("needle after", "nowhere"):
        matches = await search_text(str(tmp_path), pattern, use_ripgrep=use_ripgrep, may_read=may_read)
        assert shown(matches) == []
        assert matches.left_out == ("latin.txt", "mark.txt", "src/c.txt", "utf16.txt")
    matches = await search_text(str(tmp_path), "x", glob="src/**", use_ripgrep=use_ripgrep, may_read=may_read)
    assert matches.left_out == ("src/c.txt",)


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
async def test_ripgrep_is_asked_for_all_files_to_find_those_that_may_not_be_read(tmp_path: Path):
    program = tmp_path / "rg"
    program.write_text(f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\nprintf './b.key\\n./a.py\\n./sub/a.key\\n'\n")
    program.chmod(0o755)
    query = TextQuery(str(tmp_path), "x", None, True, 0, 10, lambda path: not path.endswith(".key"))
    collector = MatchCollector(query)
    await note_left_out(str(program), query, collector)
    assert collector.result(timed_out=False).left_out == ("b.key", "sub/a.key")
    asked = (tmp_path / "asked").read_text().split()
    assert asked[0] == "--files"
    assert {"--hidden", "--no-ignore-parent"} <= set(asked), "the same files as those that are searched"
