"""Recognising copies of words that are to be forgotten."""

import json
import unicodedata
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.canonical import Json, JsonObject, canonical_json
from pattern_acp.memory.forgotten import MARK, Forgotten, forget_lines, forget_passage, unquoted

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
    payload: JsonObject = {"message": {"message_id": "msg_text", "parts": [{"type": "text", "text": "some text here"}]}}
    assert forget_passage("text").mask_json("message_recorded", payload) == {
        "message": {"message_id": "msg_text", "parts": [{"type": "text", "text": f"some {MARK} here"}]}
    }


def test_lines_that_are_too_short_are_left_out():
    words = forget_lines(["yes\nthe long line of it"], shortest=12)
    assert words.mask("yes, the long line of it") == f"yes, {MARK}"


@given(st.text(min_size=4, max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_what_was_masked_holds_no_copy_and_was_found_in_its_payload(secret: str, before: str, after: str):
    words = forget_passage(secret)
    payload = {"text": before + secret.strip() + after}
    masked = words.mask_json("session_titled", payload)
    if len(secret.strip()) >= 4 and secret.strip() not in MARK:
        assert words.is_in(canonical_json(payload).decode("utf-8", "surrogatepass"))
        text = masked["text"]
        assert isinstance(text, str)
        assert secret.strip() not in text.replace(MARK, "\x00")


def knowing(passage: str) -> Forgotten:
    return replace(forget_passage(passage), folders=("/work/secret-plan", "/work"), parameters=frozenset({"path"}))


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"path": "a path"}, {"path": f"a {MARK}"}),
        ({"pathology": [{"path": 1}]}, {f"{MARK}ology": [{"path": 1}]}),
        ({"deep": {"x": ["path", None, True, 2]}}, {"deep": {"x": [MARK, None, True, 2]}}),
    ],
)
def test_what_a_model_gave_loses_the_words_in_both_places_alike_and_keeps_our_parameters(given: Json, left: Json):
    payload: JsonObject = {"raw_input": given, "parts": [{"type": "tool_call", "arguments": json.dumps(given)}]}
    masked = knowing("path").mask_json("message_recorded", payload)
    assert masked["raw_input"] == left
    assert json.loads(str(masked["parts"][0]["arguments"])) == left  # pyright: ignore  the form that was given


def test_numbers_that_a_model_gave_lose_the_words_too_and_stay_json():
    payload: JsonObject = {"raw_input": {"pin": 471199, "x": {"$float": "4711.5"}}, "arguments": '{"pin": 471199}'}
    masked = knowing("4711").mask_json("message_recorded", payload)
    assert masked["raw_input"] == {"pin": f"{MARK}99", "x": f"{MARK}.5"}
    assert masked["arguments"] == f'{{"pin": "{MARK}99"}}'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"a":  "x"}', '{"a":  "x"}'),
        ('{"a": "path", oops', f'{{"a": "{MARK}", oops'),
        ('{"a": "path", "a": "x"}', f'{{"a": "{MARK}", "a": "x"}}'),
        (r'{"a": "\u0070ath"}', f'{{"a": "{MARK}"}}'),
    ],
)
def test_a_text_of_arguments_stays_as_it_is_unless_it_holds_the_words(text: str, left: str):
    assert knowing("path").mask_json("message_recorded", {"arguments": text}) == {"arguments": left}


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("/work/secret-plan/a.txt", "/work/secret-plan/a.txt"),
        ("/work/secret-plan", "/work/secret-plan"),
        ("/work/secret-plan/secret-plan.txt", f"/work/secret-plan/{MARK}.txt"),
        ("/work/other/secret-plan/a.txt", f"/work/other/{MARK}/a.txt"),
        ("/work/secret-planet/a.txt", f"/work/{MARK}et/a.txt"),
    ],
)
def test_a_path_loses_the_words_below_the_folder_of_a_session(path: str, left: str):
    payload: JsonObject = {"changes": [{"path": path}], "text": "/work/secret-plan"}
    masked = knowing("secret-plan").mask_json("checkpoint_taken", payload)
    assert masked == {"changes": [{"path": left}], "text": f"/work/{MARK}"}


@pytest.mark.parametrize(
    "copy",
    [
        "THE DOOR CODE IS 4711-ZEBRA",
        "The Door  Code\tis\n  4711-zebra",
        "the\u00a0door\u3000code is 4711\u2011zebra",
        "the do\u200bor c\u00adode is 4711\u2013zeb\u2060ra",
        "".join(chr(ord(one) + 0xFEE0) if one != " " else one for one in SECRET),
        "the door ↵ code ↵ is 4711-zebra",
        "the door\\ncode is\\t4711-zebra",
        r"the d\u006For code is 4711\u2011zebra",
        r"the door\\\u00a0code is 4711-zebra",
    ],
)
@pytest.mark.parametrize("passage", [SECRET, f'"{SECRET}"', f"“{SECRET}”", f" «{SECRET}»\n", SECRET.replace(" ", "  ")])
def test_copies_in_another_case_white_space_or_unicode_form_are_masked(passage: str, copy: str):
    words = forget_passage(passage)
    assert words.mask(f"note: {copy}, tell") == f"note: {MARK}, tell"
    assert words.is_in(json.dumps({"arguments": json.dumps({"text": copy})}))


_FORMS: tuple[Literal["NFC", "NFD", "NFKC", "NFKD"], ...] = ("NFC", "NFD", "NFKC", "NFKD")


@pytest.mark.parametrize("form", _FORMS)
def test_letters_with_marks_are_the_same_however_they_are_composed(form: Literal["NFC", "NFD", "NFKC", "NFKD"]):
    secret = "Der Schlüssel für Škoda-Flügeltür №3 ist “Änne\u2019s”"
    words = forget_passage(unicodedata.normalize(form, secret))
    for other in _FORMS:
        copy = unicodedata.normalize(other, secret.upper().replace("\u2019", "'"))
        assert words.mask(f"<{copy}>") == f"<{MARK}>"


@pytest.mark.parametrize(
    ("passage", "copy"),
    [
        ("network share", "C:\\network share"),
        ("C:\\new\\table of names", '{"path": "c:\\\\NEW\\\\table of names"}'),
        ('say "hello" to', '{"a": "{\\"b\\": \\"say \\\\\\"hello\\\\\\" to\\"}"}'),
        ("it's mine, all of it", "IT\u2019S MINE, ALL OF IT"),
    ],
)
def test_a_backslash_may_be_of_a_path_or_of_an_escape(passage: str, copy: str):
    words = forget_passage(passage)
    assert words.is_in(copy)
    assert words.is_in(json.dumps(copy))
    assert not words.holds(words.mask(copy))
    assert MARK in words.mask(copy)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ('"a passage"', "a passage"),
        ("“a passage”", "a passage"),
        ("`a passage` ", "a passage"),
        ('"one" and "two"', '"one" and "two"'),
        ('""', '""'),
        ("'tis a passage", "'tis a passage"),
    ],
)
def test_one_pair_of_quotes_around_a_passage_is_not_part_of_it(typed: str, meant: str):
    assert unquoted(typed) == meant


def test_a_mark_is_no_copy_of_what_it_says():
    words = forget_passage("forgotten")
    once = words.mask("a forgotten word")
    assert once == f"a {MARK} word"
    assert words.mask(once) == once
    assert not words.holds(once)


_ODD = st.text(
    alphabet=st.sampled_from([*"aAeEnut \t\n\\\"'0-…", "\u0301", "\u0323", *"éßﬁİΣ한", "\u200b", "\u00a0", "\u2019"])
)


@given(_ODD, _ODD, _ODD)
def test_what_is_found_in_a_text_is_found_in_its_payload_and_gone_once_masked(secret: str, before: str, after: str):
    words = forget_passage(secret)
    for text in (
        before + secret + after,
        before + secret.upper() + after,
        before + unicodedata.normalize("NFD", secret),
    ):
        if words.holds(text):
            assert words.is_in(text)
            assert not words.holds(words.mask(text))
