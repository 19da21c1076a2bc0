import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.workspace.line_worker import LineRequest, matching_lines, read_text


def found(text: str, pattern: str, context: int = 0, limit: int = 99) -> list[tuple[int, str, int | None]]:
    return list(matching_lines(text, re.compile(pattern), context, limit))


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


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        (b"\xef\xbb\xbfmark", "mark"),
        ("wide".encode("utf-16"), "wide"),
        (b"caf\xe9", "caf\xe9"),
        (b"a\0b", ""),
        (b"too long for us", ""),
    ],
)
def test_a_file_is_read_leniently_unless_binary_or_large(tmp_path: Path, data: bytes, text: str):
    (tmp_path / "file").write_bytes(data)
    assert read_text(tmp_path / "file", 10) == text


def test_what_is_not_a_file_has_no_text(tmp_path: Path):
    assert read_text(tmp_path, 10) == ""
    assert read_text(tmp_path / "nothing", 10) == ""


def served(request: LineRequest) -> list[object]:
    """What the process answers, line by line."""
    command = [sys.executable, "-c", "import sys; from pattern_acp.workspace.line_worker import main; sys.exit(main())"]
    done = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, check=True, timeout=50)
    assert done.stderr == b""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_one_request_is_answered_with_a_line_a_file_that_has_matches(tmp_path: Path):
    (tmp_path / "a").write_bytes(b"one\nNeedle\n")
    (tmp_path / "b").write_bytes(b"nothing\n")
    (tmp_path / "c").write_bytes(b"needle\nneedle\n")
    request = LineRequest(
        pattern="needle",
        ignore_case=True,
        context=1,
        limit=1,
        max_bytes=1000,
        root=str(tmp_path),
        names=["a", "b", "gone", "c"],
    )
    assert served(request) == [
        [0, [[1, "one", None], [2, "Needle", 0]]],
        [3, [[1, "needle", 0], [2, "needle", None]]],
    ]


@pytest.mark.parametrize(("pattern", "fault"), [("(", "unterminated"), ("[[a]", ""), ("a{99999999999}", "too large")])
def test_a_pattern_that_cannot_be_read_is_answered_with_why(tmp_path: Path, pattern: str, fault: str):
    request = LineRequest(
        pattern=pattern, ignore_case=False, context=0, limit=1, max_bytes=9, root=str(tmp_path), names=[]
    )
    answers = served(request)
    # What Python only warns of is no fault, and the warning goes nowhere.
    assert [str(answer) for answer in answers if fault in str(answer)] == [str(answer) for answer in answers]
    assert bool(answers) is bool(fault)
