import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.workspace.errors import NotTextError
from pattern_acp.workspace.text_codec import TextEncoding, decode_text, encode_text

encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@given(texts.filter(lambda text: not text.startswith("\ufeff")), encodings)
def test_a_text_comes_back_with_its_encoding(text: str, encoding: TextEncoding):
    if encoding == "utf-16-le" and not text:
        return
    assert decode_text(encode_text(text, encoding)) == (text, encoding)


@given(st.binary(max_size=40))
def test_bytes_are_refused_or_come_back_exactly(data: bytes):
    try:
        text, encoding = decode_text(data)
    except NotTextError:
        return
    assert encode_text(text, encoding) == data or text.startswith("\ufeff")


def test_text_in_latin_1_is_read_and_written_as_windows_1252():
    text, encoding = decode_text("# caf\u00e9, \u20ac 3\r\nprint(1)\n".encode("cp1252"))
    assert (text, encoding) == ("# caf\u00e9, \u20ac 3\r\nprint(1)\n", "cp1252")
    assert encode_text("na\u00efve", encoding) == b"na\xefve"
    with pytest.raises(NotTextError, match="Windows-1252, which does not have the character '\u2192'"):
        encode_text("a \u2192 b", encoding)


def test_utf_8_with_a_fault_is_not_guessed_to_be_something_else():
    with pytest.raises(NotTextError):
        decode_text("all of na\u00efve and caf".encode() + b"\xe9")


def test_a_mark_in_the_text_is_not_doubled():
    assert encode_text("\ufeffa", "utf-8-sig") == b"\xef\xbb\xbfa"


@pytest.mark.parametrize("data", [b"\xff", b"a\0b", "x".encode("utf-32"), b"\xff\xfea"])
def test_other_bytes_are_not_text(data: bytes):
    with pytest.raises(NotTextError):
        decode_text(data)


@pytest.mark.parametrize("text", ["a\0", "\ud800"])
def test_a_text_that_could_not_be_read_back_is_refused(text: str):
    with pytest.raises(NotTextError):
        encode_text(text, "utf-8")
