import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.workspace.line_worker import FileSkippedError, LineRequest, Needed, lines_of, matching_lines


def found(text: str, pattern: str, context: int = 0, limit: int = 99) -> list[tuple[int, str, int | None]]:
    lines = text.removesuffix("\n").split("\n") if text else []
    return list(matching_lines(lines, re.compile(pattern), context, limit))


@given(st.lists(st.sampled_from(["x", "-", ""]), min_size=1, max_size=12), st.integers(0, 3))
def test_every_match_is_given_with_the_lines_around_it_once_and_in_order(lines: list[str], context: int):
    given_lines = found("\n".join(lines) + "\n", "x", context)
    matches = [number for number, line in enumerate(lines, 1) if line == "x"]
    near = [n for n in range(1, len(lines) + 1) if any(abs(n - match) <= context for match in matches)]
    assert [number for number, _, _ in given_lines] == near
    assert [number for number, _, start in given_lines if start is not None] == matches


def test_line_ends_of_both_kinds_are_left_out():
    assert found("ax\r\nx\n\nlast x", "x$") == [(1, "ax", 1), (2, "x", 0), (4, "last x", 5)]


def test_the_limit_counts_matches_and_keeps_the_lines_after_the_last():
    assert found("x\n-\nx\n", "x", context=1, limit=1) == [(1, "x", 0), (2, "-", None)]


def test_an_empty_file_has_no_lines():
    assert found("", "^") == []


NOTHING_NEEDED = Needed("", ignore_case=False)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"plain", ["plain"]),
        (b"\xef\xbb\xbfmark\n", ["mark"]),
        ("wide\n".encode("utf-16"), ["wide"]),
        ("\u4e2d".encode("utf-16"), ["\u4e2d"]),
        (b"caf\xe9", ["caf\xe9"]),
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
    ],
)
def test_a_file_has_the_same_lines_whether_read_whole_or_in_portions(tmp_path: Path, data: bytes, lines: list[str]):
    (tmp_path / "file").write_bytes(data)
    assert list(lines_of(str(tmp_path / "file"), NOTHING_NEEDED, 100)) == lines
    if data:
        assert list(lines_of(str(tmp_path / "file"), NOTHING_NEEDED, len(data) - 1)) == lines


@pytest.mark.parametrize("whole_bytes", [100, 0])
def test_a_binary_file_is_skipped_and_one_without_what_is_needed_has_no_lines(tmp_path: Path, whole_bytes: int):
    (tmp_path / "binary").write_bytes(b"a\0b")
    with pytest.raises(FileSkippedError, match="binary"):
        list(lines_of(str(tmp_path / "binary"), NOTHING_NEEDED, whole_bytes))
    (tmp_path / "text").write_bytes(b"one\n")
    assert list(lines_of(str(tmp_path / "text"), Needed("two", ignore_case=False), whole_bytes)) == []
    assert list(lines_of(str(tmp_path / "text"), Needed("ONE", ignore_case=True), whole_bytes)) == ["one"]


def test_a_folder_is_not_read_and_a_file_that_has_gone_has_no_lines(tmp_path: Path):
    with pytest.raises(FileSkippedError, match="unreadable"):
        lines_of(str(tmp_path), NOTHING_NEEDED, 10)
    assert lines_of(str(tmp_path / "nothing"), NOTHING_NEEDED, 10) == []


def served(request: LineRequest, *portions: list[object]) -> list[object]:
    """What the process answers, line by line."""
    command = [sys.executable, "-c", "import sys; from pattern_acp.workspace.line_worker import main; sys.exit(main())"]
    asked = "".join(json.dumps(each) + "\n" for each in (request, *portions))
    done = subprocess.run(command, input=asked.encode(), capture_output=True, check=True, timeout=50)
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def request_for(root: Path, pattern: str, *, ignore_case: bool = False) -> LineRequest:
    return LineRequest(
        pattern=pattern,
        ignore_case=ignore_case,
        literal="",
        context=1,
        limit=1,
        whole_bytes=1000,
        root=str(root),
        spans_lines=False,
    )


def test_each_file_with_matches_is_answered_with_a_line_and_each_portion_with_its_end(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"one\nNeedle\n")
    (tmp_path / "b").write_bytes(b"nothing\n")
    (tmp_path / "c").write_bytes(b"needle\nneedle\n")
    (tmp_path / "d").write_bytes(b"\0")
    request = request_for(tmp_path, "needle", ignore_case=True)
    assert served(request, [0, ["a", "b", "gone", "c"]], [1, ["d"]], [2, [""], "a needle"]) == [
        [0, 0, [[1, "one", None], [2, "Needle", 0]]],
        [0, 3, [[1, "needle", 0], [2, "needle", None]]],
        [0],
        [1, 0, "binary"],
        [1],
        [2, 0, [[1, "a needle", 2]]],
        [2],
    ]


@pytest.mark.parametrize(("pattern", "fault"), [("(", "unterminated"), ("[[a]", ""), ("a{99999999999}", "too large")])
def test_a_pattern_that_cannot_be_read_is_answered_with_why(tmp_path: Path, pattern: str, fault: str):
    answers = served(request_for(tmp_path, pattern))
    # What Python only warns of is no fault, and the warning goes nowhere.
    assert [str(answer) for answer in answers if fault in str(answer)] == [str(answer) for answer in answers]
    assert bool(answers) is bool(fault)
