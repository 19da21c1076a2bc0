"""Secrets are looked for at fixed texts only, and what is found is what the expressions alone find."""

import re
import sys
from collections.abc import Iterable
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pattern_acp.config import logs
from pattern_acp.domain.canonical import canonical_json
from pattern_acp.domain.late_pattern import AnchoredPattern
from pattern_acp.memory import secrets

FRAGMENTS = (
    *("sk-", "SK_", "sk_live_", "ghp_", "gsk-", "github_pat_", "AIza", "hf_", "eyJ", "eyJabcdefgh.", "xoxb-", "SG."),
    *("hooks.slack.com/services/", "AKIA", "-----BEGIN ", "PRIVATE KEY", "-----", "1234567890", ":AA", "whsec_"),
    *("Bearer ", "bearer ", "x-api-key: ", "api_key=", "Authorization: ", "://", "http", "user", "@", ":", "npm_"),
    *("password", "PassWord", "passphrase", "token", "tokens", "secret", "\u017fecret", "api", "_", "-", "key", "KEY"),
    *(
        "\u212aey",
        "access",
        "private",
        "auth",
        "credentials",
        "pwd",
        " is ",
        "=",
        '"',
        "'",
        " ",
        "\n",
        "é",
        "\u0130",
        "🦊",
    ),
    *("a1B2c3D4e5F6g7H8", "ABCDEFGHIJKLMNOP", "abcdefghijklmnopqrstuvwx", "0", "x", "/", "AGE-SECRET-KEY-1", "pypi-"),
    *("GOCSPX-", "glpat-", ".", ";"),
)
MIXED = st.lists(st.sampled_from(FRAGMENTS), max_size=24).map("".join)


def anchored_patterns() -> list[AnchoredPattern]:
    kept: list[object] = [*vars(secrets).values(), *vars(logs).values()]
    tables = [cast("Iterable[tuple[str, object]]", vars(secrets)[name]) for name in ("_SHAPES", "_NAMED")]
    kept += [shape for table in tables for _, shape in table]
    return [each for each in kept if isinstance(each, AnchoredPattern)]


def expression_of(anchored: AnchoredPattern) -> re.Pattern[str]:
    return next(cast("re.Pattern[str]", each) for each in vars(anchored).values() if hasattr(each, "finditer"))


def test_every_shape_is_looked_for_that_way():
    assert len(anchored_patterns()) == len(vars(secrets)["_SHAPES"]) + 4


@given(MIXED)
@example("Password is a1B2c3D4e5F6g7H8, the \u017fecret: a1B2c3D4e5F6g7H8")
@example("Bearer sk-abcdefghijklmnopqrstuvwx/0 and gsk-abcdefghijklmnopqrstuvwx")
def test_anchors_change_nothing_about_what_is_found(text: str):
    for anchored in anchored_patterns():
        expected = [match.span() for match in expression_of(anchored).finditer(text)]
        assert [match.span() for match in anchored.finditer(text)] == expected
        assert anchored.sub("•", text) == expression_of(anchored).sub("•", text)


@given(MIXED)
@example("http://user:a1B2c3@0/x")
def test_an_address_with_a_password_always_has_the_end_that_is_looked_for_first(text: str):
    address = cast("re.Pattern[str]", vars(secrets)["_NAMED"][0][1])
    end = cast("re.Pattern[str]", vars(secrets)["_ADDRESS_END"])
    assert address.search(text) is None or end.search(text) is not None


def test_no_other_characters_are_equal_to_a_letter_than_the_four_that_are_taken_for_one():
    others = "\u017f\u212a\u0130\u0131"
    everything = "".join(chr(code) for code in range(sys.maxunicode + 1) if chr(code) not in others)
    assert len(re.findall("[a-z]", everything, re.IGNORECASE)) == 52
    assert len(re.findall("[a-z]", others, re.IGNORECASE)) == 4


@pytest.mark.parametrize("text", ["", "no anchor at all", "sk-", ":AA" + "a" * 30])
def test_a_text_without_a_match_comes_back_itself(text: str):
    assert all(anchored.sub("•", text) is text for anchored in anchored_patterns())


SHAPES = st.sampled_from(cast("tuple[tuple[str, AnchoredPattern], ...]", vars(secrets)["_SHAPES"])[1:])


@given(st.data())
def test_what_any_shape_matches_is_one_long_word(data: st.DataObject):
    _, shape = data.draw(SHAPES)
    found = data.draw(st.from_regex(re.compile(expression_of(shape).pattern, re.ASCII), fullmatch=True))
    assert cast("re.Pattern[str]", vars(secrets)["_LONG_WORD"]).fullmatch(found)


@given(st.lists(MIXED | st.text(), max_size=4), st.sampled_from(["", 'a "quoted"\nsecret', "plain-words"]))
@example(['say: "Password is a1B2c3D4e5F6g7H8"\n'], "")
@example(["sk-abcdefghijklmnopqrstuvwx\nBearer abcdefgh"], "")
@example(['so: a "quoted"\nsecret'], 'a "quoted"\nsecret')
def test_an_object_that_needs_no_mask_has_no_text_that_is_masked(texts: list[str], known: str):
    mask = secrets.SecretMask([known])
    said = canonical_json({str(number): text for number, text in enumerate(texts)}).decode("utf-8", "surrogatepass")
    assert mask.is_needed(said) or [mask.mask(text) for text in texts] == texts


@pytest.mark.parametrize("text", ["", "Words of no account, and a name_that_is_long", "ein Schlüssel"])
def test_an_object_without_anything_like_a_secret_needs_no_mask(text: str):
    assert not secrets.SecretMask(["known-secret"]).is_needed(canonical_json({"text": text}).decode())
