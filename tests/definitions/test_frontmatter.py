"""The heads of Markdown files."""

from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.definitions.files import HEAD_CHARACTERS, read_document

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


def test_what_is_wrong_with_a_head_is_said():
    assert read_document("---\na: b\n").problem == "its head has no closing line ---"
    assert read_document("---\na: b\n???\n---\nbody").problem == "line 3 of its head is not `key: value`"
    assert read_document("---\na: b\n???\n---\nbody").body == "body"
    assert "longer than" in read_document(f"---\na: {'x' * HEAD_CHARACTERS}\n---\n").problem


@given(st.text())
def test_no_text_is_too_strange(text: str):
    read_document(text)
    read_document(f"---\n{text}\n---\n")
