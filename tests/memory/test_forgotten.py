"""Recognising copies of words that are to be forgotten."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.domain.canonical import canonical_json
from pattern_acp.memory.forgotten import MARK, forget_lines, forget_passage

SECRET = "the door code is 4711-zebra"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (SECRET, MARK),
        (f"note: {SECRET}, tell nobody", f"note: {MARK}, tell nobody"),
        (f"{SECRET}\n{SECRET}", f"{MARK}\n{MARK}"),
        ("the door code is 4711…", f"{MARK}…"),
        ("I wrote: the door…", f"I wrote: {MARK}…"),
        ("…code is 4711-zebra and more", f"…{MARK} and more"),
        ("the door is open", "the door is open"),
        ("", ""),
    ],
)
def test_whole_and_cut_copies_are_masked(text: str, masked: str):
    assert forget_passage(SECRET).mask(text) == masked


def test_a_common_beginning_in_the_middle_of_a_text_is_no_copy():
    words = forget_passage("the person lives in the blue house behind the old mill near Ghent")
    assert words.mask("I think the person lives in Rome.") == "I think the person lives in Rome."


def test_short_words_count_only_as_a_whole():
    words = forget_passage("4711")
    assert words.mask("code 4711, not 471") == f"code {MARK}, not 471"


def test_the_longer_lines_of_a_passage_are_recognised_one_by_one():
    words = forget_passage("first line here\n}\nsecond line here")
    assert words.mask("+first line here\n+}\n+second line here") == f"+{MARK}\n+}}\n+{MARK}"


def test_copies_inside_json_text_are_masked_so_that_it_stays_json():
    secret = 'say "hi"\nto Zoë in the garden'
    arguments = json.dumps({"text": f"a {secret} b"})
    masked = forget_passage(secret).mask(arguments)
    assert json.loads(masked) == {"text": f"a {MARK} b"}


def test_names_and_kinds_stay():
    payload = {"message_id": "msg_text", "parts": [{"type": "text", "text": "some text here"}]}
    assert forget_passage("text").mask_json(payload) == {
        "message_id": "msg_text",
        "parts": [{"type": "text", "text": f"some {MARK} here"}],
    }


def test_lines_that_are_too_short_are_left_out():
    words = forget_lines(["yes\nthe long line of it"], shortest=12)
    assert words.mask("yes, the long line of it") == f"yes, {MARK}"


@given(st.text(min_size=4, max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_what_was_masked_holds_no_copy_and_was_found_in_its_payload(secret: str, before: str, after: str):
    words = forget_passage(secret)
    payload = {"text": before + secret.strip() + after}
    masked = words.mask_json(payload)
    if len(secret.strip()) >= 4 and secret.strip() not in MARK:
        assert words.is_in(canonical_json(payload).decode("utf-8", "surrogatepass"))
        text = masked["text"]
        assert isinstance(text, str)
        assert secret.strip() not in text.replace(MARK, "\x00")
