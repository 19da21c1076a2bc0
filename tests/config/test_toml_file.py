"""Lines of keys, and files that cannot be read."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.toml_file import MAX_BYTES, find_lines, parse_toml, read_toml

TEXT = '''\
a = 1
"b c" = 2   # key = 3
d.e = 4

[ t ]
f = """
g = 5
"""
h = [
  "i = 6",
]
'j' = { k = 7 }

[u.v] # comment
w = "x = y"
[[z]]
y = """one line"""
x = 1
'''


def test_keys_have_the_lines_they_stand_on():
    assert list(find_lines(TEXT)) == [
        ("a", 1),
        ("b c", 2),
        ("d.e", 3),
        ("t", 5),
        ("t.f", 6),
        ("t.h", 9),
        ("t.j", 12),
        ("u.v", 14),
        ("u.v.w", 15),
        ("z", 16),
        ("z.y", 17),
        ("z.x", 18),
    ]


def test_a_key_of_an_inline_table_has_the_line_of_the_table():
    file, problems = parse_toml("x", TEXT)
    assert problems == ()
    assert file.line_of("t.j.k") == 12
    assert file.line_of("nowhere") is None


@pytest.mark.parametrize(("text", "line"), [("a = 1\nb = \n", 2), ("a = [1,\n2", 2), ("[a\n", 1), ("a = 1\na = 2", 2)])
def test_broken_text_has_the_line_of_the_fault(text: str, line: int):
    file, (problem,) = parse_toml("x", text)
    assert file.table == {}
    assert problem.line == line


def test_a_mark_at_the_start_is_tolerated(tmp_path: Path):
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbfa = 1\r\nb = 2\r\n")
    file, problems = read_toml(path)
    assert (file.table, problems, file.line_of("b")) == ({"a": 1, "b": 2}, (), 2)


@pytest.mark.parametrize("content", [b'a = "\xff"', b"#" * (MAX_BYTES + 1)])
def test_what_is_no_small_text_is_one_problem(tmp_path: Path, content: bytes):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    file, problems = read_toml(path)
    assert file.table == {}
    assert len(problems) == 1


def test_a_missing_file_is_empty(tmp_path: Path):
    (tmp_path / "file").touch()
    assert read_toml(tmp_path / "none.toml")[1] == ()
    assert read_toml(tmp_path / "file" / "config.toml")[1] == ()


@given(st.text())
def test_any_text_gives_a_table_or_a_problem(text: str):
    file, problems = parse_toml("x", text)
    assert bool(problems) is False or file.table == {}


@pytest.mark.parametrize("value", ["9" * 5_000, "[" * 5_000 + "]" * 5_000, "{b=" * 3_000 + "1" + "}" * 3_000])
def test_a_value_that_no_parser_takes_is_one_problem(value: str):
    file, problems = parse_toml("x", f"a = {value}")
    assert file.table == {}
    assert [problem.sentence for problem in problems] == ["it holds a value that is too large, so none of it is used."]
