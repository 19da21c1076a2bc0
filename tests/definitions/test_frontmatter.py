"""The heads of Markdown files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.definitions.files import HEAD_CHARACTERS, quoted, read_document, with_values

HEAD = """---
# a comment
name: review
description: Review: find bugs # not this
quoted: "a \\"b\\"\\n"
single: 'it''s'
folded: >-
  one
  two

  three
kept: |
  one
    two
flow: [a, "b c"]
listed:
- one
- "two"
longer: it goes
  on here
metadata:
  version: 1
empty:
---

# Body
---
text
"""


def test_every_form_of_a_value_is_read():
    document = read_document(HEAD)
    assert document.problem == ""
    assert document.head == {
        "name": "review",
        "description": "Review: find bugs",
        "quoted": 'a "b"\n',
        "single": "it's",
        "folded": "one two\n\nthree",
        "kept": "one\n  two",
        "flow": ("a", "b c"),
        "listed": ("one", "two"),
        "longer": "it goes on here",
        "metadata": "version: 1",
        "empty": "",
    }
    assert document.body == "# Body\n---\ntext"
    assert document.text("flow") == "a, b c"
    assert document.items("listed") == ("one", "two")


def test_a_list_in_one_line_is_split_outside_brackets():
    assert read_document("---\nallowed-tools: Bash(git add, x), Read\n---\n").items("allowed-tools") == (
        "Bash(git add, x)",
        "Read",
    )


def test_a_file_without_a_head_is_all_body():
    assert (read_document("Just text.").body, read_document("Just text.").head) == ("Just text.", {})
    assert read_document("\ufeff---\r\na: b\r\n---\r\nx").head == {"a": "b"}


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("---\na: b\n", 1, 1, "no closing line ---"),
        ("---\na: b\n  ???\n???\n---\n", 4, 1, "is not `key: value`"),
        ("---\n  ???\n---\n", 2, 3, "is not `key: value`"),
        ("---\r\n# x\r\nb: 'it\r\n---\r\n", 3, 4, "no closing '"),
        ('---\nb:  "a \\" b\n---\n', 2, 5, 'no closing "'),
        ("---\nb: [a, b\n---\n", 2, 4, "no closing ]"),
        ("---\nb: 1\n\nb: 2\n---\n", 4, 1, "`b` twice"),
        (f"---\na: {'x' * HEAD_CHARACTERS}\n---\n", 1, 1, "longer than"),
    ],
)
def test_what_is_wrong_with_a_head_is_said_with_its_place(text: str, line: int, column: int, words: str):
    document = read_document(text)
    assert (document.line, document.column) == (line, column)
    assert words in document.problem
    assert document.head == {}
    assert document.place_in(Path("x.md")) == f"x.md:{line}:{column}"


def test_a_head_that_cannot_be_read_leaves_the_text_below_it():
    assert read_document("---\na: b\n???\n---\nbody").body == "body"
    assert read_document("text\n---\na: b\n---\n").head == {}


def test_a_nested_table_is_read_with_the_lines_of_the_file():
    document = read_document("---\nname: a\nmetadata:\n  version: 1\n  tags: [x, y]\nlast: z\n---\n")
    table = document.table("metadata")
    assert (table.text("version"), table.items("tags")) == ("1", ("x", "y"))
    assert table.entries["tags"].line == 5
    assert document.table("name").head == document.table("none").head == {}


def test_other_values_leave_the_rest_of_a_file_as_it_is():
    changed = with_values(HEAD, {"name": "other: one", "folded": "now plain", "new": '"q" # x'}, "B.\n")
    assert read_document(changed).head == {
        **read_document(HEAD).head,
        "name": "other: one",
        "folded": "now plain",
        "new": '"q" # x',
    }
    assert "metadata:\n  version: 1\n" in changed
    assert changed.endswith("---\nB.\n")
    assert with_values("Just text.", {"name": "a"}) == "---\nname: a\n---\nJust text."
    crlf = with_values("---\r\na: b\r\nc: d\r\n---\r\nx\r\n", {"a": "e"})
    assert crlf == "---\r\na: e\r\nc: d\r\n---\r\nx\r\n"


_KEYS = st.from_regex(r"\A[a-z][a-z0-9_-]{0,8}\Z")
_LINES = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


@given(
    st.dictionaries(_KEYS, st.tuples(_LINES.map(quoted), st.lists(_LINES.map(lambda line: f"  - {quoted(line)}")))),
    _KEYS,
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r"), max_size=30),
    st.sampled_from(["\n", "\r\n"]),
    _LINES,
)
def test_a_changed_value_is_read_as_it_was_meant_and_nothing_else_changes(
    entries: dict[str, tuple[str, list[str]]], key: str, value: str, newline: str, body: str
):
    kept = {
        name: [f"{name}: {text}"] if text != '""' else [f"{name}:", *below] for name, (text, below) in entries.items()
    }
    lines = [line for block in kept.values() for line in block]
    text = newline.join(("---", *lines, "---", f"{body}."))
    changed = with_values(text, {key: value})
    document = read_document(changed)
    assert document.problem == ""
    assert document.head == {**read_document(text).head, key: value}
    assert document.body == read_document(text).body
    assert all(newline.join(block) in changed for name, block in kept.items() if name != key)
    assert with_values(changed, {key: value}) == changed


@given(st.text())
def test_no_text_is_too_strange(text: str):
    read_document(text)
    read_document(f"---\n{text}\n---\n")
