"""The form of a memory file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.memory.block_files import (
    MARKDOWN,
    MOST_BYTES,
    TOML,
    EditableText,
    MemoryFileError,
    file_content,
    file_name,
    text_in_file,
)

FILE = "human.md"


def test_a_file_holds_what_is_known_of_a_block_and_its_text():
    assert file_content("human", "Who\nthe person is.", 8000, EditableText("Likes tea.", MARKDOWN)) == (
        "---\nlabel: human\nlimit: 8000\ndescription: Who the person is.\n---\n\nLikes tea.\n"
    )


def test_a_typed_block_is_a_toml_file_whose_head_is_comments():
    content = file_content("human", "Who\nthe person is.", 8000, EditableText('name = "Ada"\n', TOML))
    assert content == '# label: human\n# limit: 8000\n# description: Who the person is.\n\nname = "Ada"\n'
    assert text_in_file("human.toml", content.encode(), "human", known="") == content
    with pytest.raises(MemoryFileError, match="begin it with # label: human"):
        text_in_file("human.toml", b'name = "Ada"\n', "human", known="")
    assert file_name("human", frozenset({"human.toml"}), TOML) == "human-2.toml"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\r")))
def test_what_was_written_is_read_back(text: str):
    content = file_content("human", "Who.", 8000, EditableText(text, MARKDOWN)).encode()
    ends_plainly = text.endswith("\n") or text == text.rstrip("\n")
    assert text_in_file(FILE, content, "human", known=text) == text or not ends_plainly


def test_line_ends_and_marks_of_other_editors_change_nothing():
    content = file_content("human", "Who.", 8000, EditableText("One.\nTwo.", MARKDOWN)).encode().replace(b"\n", b"\r\n")
    assert text_in_file(FILE, b"\xef\xbb\xbf" + content, "human", known="x") == "One.\nTwo."


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"Likes tea.\n", "head"),
        (b"---\nlabel: project\n---\n\nx\n", "head"),
        (b"---\nlabel: human\n", "head"),
        (b"\xff\xfe", "UTF-8"),
        (b"x" * (MOST_BYTES + 1), "longer"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_to_do(content: bytes, problem: str):
    with pytest.raises(MemoryFileError, match=problem) as caught:
        text_in_file(FILE, content, "human", known="")
    assert "left as it is" in caught.value.sentence


def test_names_are_safe_on_every_platform_and_never_the_same():
    assert file_name("human", frozenset()) == "human.md"
    assert file_name("human", frozenset({"human.md"})) == "human-2.md"
    assert file_name("../../etc/passwd", frozenset()) == "etc-passwd.md"
    assert file_name("con", frozenset()) == "_con.md"
    assert file_name("...", frozenset()) == "block.md"
