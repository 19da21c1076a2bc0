import os
import re
import sys
import time
import warnings
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.errors import WorkspaceError
from pattern_acp.workspace.errors import FileMissingError
from pattern_acp.workspace.search import (
    MAX_LINE_CHARS,
    PORTION_FILES,
    WHOLE_BYTES,
    Matches,
    find_files,
    required_text,
    search_text,
    shortened,
)


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


async def test_lines_are_found_in_text_files_that_git_does_not_ignore(tmp_path: Path):
    fill(tmp_path)
    matches = await search_text(str(tmp_path), "needle")
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


async def test_case_can_be_ignored(tmp_path: Path):
    fill(tmp_path)
    matches = await search_text(str(tmp_path / "src"), "NeEdLe$", case_sensitive=False)
    assert shown(matches) == ["a.py:2:two needle", "a.py:5:five NEEDLE"]


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
async def test_expressions_mean_what_they_mean_in_python(tmp_path: Path, pattern: str, lines: list[str] | None):
    root = str(fill(tmp_path) / "src")
    if lines is None:
        with pytest.raises(WorkspaceError, match="not valid"):
            await search_text(root, pattern)
    else:
        assert shown(await search_text(root, pattern)) == lines


async def test_a_glob_selects_files_and_brings_no_ignored_ones_back(tmp_path: Path):
    fill(tmp_path)
    for glob in ("*.py", "**/*.{py,pyi}", str(tmp_path / "src/**/*.py")):
        matches = await search_text(str(tmp_path), "needle", glob=glob)
        assert [line.name for line in matches.lines] == ["src/a.py", "src/sub/b.py"]
    matches = await search_text(str(tmp_path), "needle", glob="!src/**")
    assert "src-x" in {line.name for line in matches.lines}
    assert "src/a.py" not in {line.name for line in matches.lines}


async def test_lines_around_a_match_are_shown_once(tmp_path: Path):
    fill(tmp_path)
    root = str(tmp_path / "src")
    matches = await search_text(root, "needle", glob="a.py", case_sensitive=False, context=2)
    assert shown(matches) == [
        "a.py:1-one",
        "a.py:2:two needle",
        "a.py:3-three",
        "a.py:4-four",
        "a.py:5:five NEEDLE",
        "a.py:6-six",
    ]


async def test_the_limit_counts_matching_lines_and_is_told(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x\n-\n-\n-\nx\nx\n-\nx\n")
    (tmp_path / "b").write_bytes(b"-\nx\n")
    root = str(tmp_path)
    assert shown(await search_text(root, "x", context=1, limit=2)) == [
        "a:1:x",
        "a:2--",
        "a:4--",
        "a:5:x",
    ]
    four = await search_text(root, "x", context=1, limit=4)
    assert (four.match_count, four.stopped, four.lines[-1].name) == (4, "limit", "a")
    five = await search_text(root, "x", limit=5)
    assert (five.match_count, five.stopped) == (5, "")


async def test_a_long_line_is_cut_around_the_match(tmp_path: Path):
    (tmp_path / "min.js").write_bytes(b"a" * 100_000 + "ü needle".encode() + b"b" * 100_000 + b"\n")
    matches = await search_text(str(tmp_path), "needle")
    (line,) = matches.lines
    assert "ü needle" in line.text
    assert len(line.text) == MAX_LINE_CHARS + 2


async def test_a_sub_folder_keeps_the_rules_above_it_and_an_ignored_one_can_be_searched(tmp_path: Path):
    fill(tmp_path)
    (tmp_path / "src" / "x.log").write_bytes(b"needle\n")
    inside = await search_text(str(tmp_path / "src"), "needle")
    assert "x.log" not in {line.name for line in inside.lines}
    ignored = await search_text(str(tmp_path / "ignored"), "needle")
    assert shown(ignored) == ["a.py:1:needle ignored"]


async def test_rules_above_a_folder_without_a_repository_do_not_count(tmp_path: Path):
    (tmp_path / ".gitignore").write_bytes(b"*\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".gitignore").write_bytes(b"b\n")
    (tmp_path / "work" / "a").write_bytes(b"x\n")
    (tmp_path / "work" / "b").write_bytes(b"x\n")
    assert shown(await search_text(str(tmp_path / "work"), "x")) == ["a:1:x"]


@pytest.mark.skipif(sys.platform == "win32", reason="symbolic links need a privilege on Windows")
async def test_links_are_not_followed(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"x\n")
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "loop").symlink_to(".", target_is_directory=True)
    assert shown(await search_text(str(tmp_path), "x")) == ["a:1:x"]


async def test_one_file_can_be_searched_even_when_ignored(tmp_path: Path):
    fill(tmp_path)
    matches = await search_text(str(tmp_path / "a.log"), "needle")
    assert [(line.path, line.name, line.line) for line in matches.lines] == [(str(tmp_path / "a.log"), "a.log", 1)]


@pytest.mark.slow
async def test_an_expression_that_never_ends_is_stopped(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"needle\n")
    (tmp_path / "b").write_bytes(b"a" * 60 + b"!\n")
    began = time.perf_counter()
    matches = await search_text(str(tmp_path), "needle|^(a+)+$", time_limit=6.0)
    assert (shown(matches), matches.stopped) == (["a:1:needle"], "time")
    assert time.perf_counter() - began < 60


async def test_cancelling_a_search_is_quick(tmp_path: Path):
    (tmp_path / "b").write_bytes(b"a" * 60 + b"!\n")
    with anyio.fail_after(30), anyio.move_on_after(0.2):
        await search_text(str(tmp_path), "^(a+)+$")


@pytest.mark.parametrize("pattern", ["(", "[", "a{3,1}", "(?P<n>a)(?P<n>b)", "(?<=a+)b"])
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


async def test_files_that_may_not_be_read_are_named_whether_or_not_they_would_match(tmp_path: Path):
    fill(tmp_path)

    def may_read(path: str) -> bool:
        return not path.endswith((".txt", ".log"))

    for pattern in ("needle after", "nowhere"):
        matches = await search_text(str(tmp_path), pattern, may_read=may_read)
        assert shown(matches) == []
        assert matches.left_out == ("latin.txt", "mark.txt", "src/c.txt", "utf16.txt")
    matches = await search_text(str(tmp_path), "x", glob="src/**", may_read=may_read)
    assert matches.left_out == ("src/c.txt",)


def skipped(matches: Matches) -> list[tuple[str, str]]:
    return [(file.name, file.reason) for file in matches.skipped]


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes")
async def test_what_cannot_be_searched_is_named_with_its_reason_whether_or_not_it_would_match(tmp_path: Path):
    (tmp_path / "binary").write_bytes(b"needle\n\0")
    (tmp_path / "end").write_bytes(b"a" * 100_000 + b"\0")
    (tmp_path / "wide").write_bytes("needle".encode("utf-32"))
    os.mkfifo(tmp_path / "pipe")
    for pattern in ("needle", "nowhere", "n.*e"):
        matches = await search_text(str(tmp_path), pattern)
        assert skipped(matches) == [
            ("binary", "binary"),
            ("end", "binary"),
            ("wide", "binary"),
            ("pipe", "unreadable"),
        ]
        assert shown(matches) == []


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="nothing is closed to root")
async def test_what_may_not_be_read_is_named(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"needle\n")
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder"):
        (tmp_path / name).chmod(0)
    matches = await search_text(str(tmp_path), "needle")
    (tmp_path / "folder").chmod(0o700)
    assert skipped(matches) == [("file", "unreadable"), ("folder", "unreadable")]


@pytest.mark.parametrize(
    ("before", "encoding"),
    [
        ("x" * 99 + "\r\n", "utf-8"),
        ("\u00fc\u4e2d" * 30 + "\n", "utf-8-sig"),
        ("\u00e9t\u00e9 dernier" * 9 + "\n", "cp1252"),
        ("ab" * 50 + "\n", "utf-16"),
    ],
)
async def test_a_file_larger_than_is_read_at_once_is_searched_line_by_line(tmp_path: Path, before: str, encoding: str):
    count = WHOLE_BYTES // len(before) + 1
    (tmp_path / "large").write_bytes((before * count + "a n\u00e9\u00e9dle\nlast").encode(encoding))
    matches = await search_text(str(tmp_path), "n\u00e9+dle", context=1)
    assert shown(matches) == [
        f"large:{count}-{before.strip()}",
        f"large:{count + 1}:a n\u00e9\u00e9dle",
        f"large:{count + 2}-last",
    ]
    assert shown(await search_text(str(tmp_path / "large"), "^last$")) == [f"large:{count + 2}:last"]
    assert shown(await search_text(str(tmp_path), "absent")) == []


async def test_a_large_file_with_a_line_that_no_memory_should_hold_is_named(tmp_path: Path):
    (tmp_path / "large").write_bytes(b"needle" * (WHOLE_BYTES // 2))
    assert skipped(await search_text(str(tmp_path), "needle")) == [("large", "too large")]


async def test_files_in_several_portions_come_in_order(tmp_path: Path):
    names = [f"{number:05}" for number in range(2 * PORTION_FILES + 10)]
    for name in names:
        (tmp_path / name).write_bytes(b"x\n" if int(name) % 100 == 0 else b"")
    matches = await search_text(str(tmp_path), "x")
    assert [line.name for line in matches.lines] == names[::100]
    assert (await search_text(str(tmp_path), "x", limit=2)).stopped == "limit"


@given(
    st.lists(
        st.sampled_from([*"abkK.?*+|()[]{}^$\\ -1", "\\b", "\\.", "[^a]", "(?:", "{2}", "b{0,1}", "\u212a"]), max_size=8
    ),
    st.text("abkK.1 -{}\u212a", max_size=12),
    st.booleans(),
)
def test_a_line_that_matches_has_the_text_in_it_that_is_looked_for_first(
    parts: list[str], line: str, ignore_case: bool
):
    pattern = "".join(parts)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expression = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    except re.error:
        return
    needed = required_text(pattern, ignore_case=ignore_case)
    if expression.search(line):
        assert (needed.lower() in line.lower()) if ignore_case else (needed in line)


@pytest.mark.parametrize(
    ("pattern", "ignore_case", "needed"),
    [
        ("needle", False, "needle"),
        (r"\bdef read_\w+\(self", False, "def read_"),
        ("colou?r_of_it", False, "r_of_it"),
        ("(a|b)_name[xy]{2}z", False, "_name"),
        ("Task", True, "Ta"),
        ("one|two", False, ""),
        (r"\x41bc", False, ""),
    ],
)
def test_the_longest_text_that_an_expression_needs_is_looked_for(pattern: str, ignore_case: bool, needed: str):
    assert required_text(pattern, ignore_case=ignore_case) == needed
