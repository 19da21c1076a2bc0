"""The digest of a request."""

from dataclasses import replace

from pattern_acp.testing.conversations import request, user
from pattern_acp.turn.loop import digest_of


def test_the_same_request_has_the_same_digest_and_another_text_another() -> None:
    digest, size = digest_of(request(user("Hello")))
    assert digest_of(request(user("Hello"))) == (digest, size)
    other, longer = digest_of(request(user("Hello!")))
    assert (other != digest, longer - size) == (True, 1)


def test_what_the_model_may_do_is_part_of_the_digest() -> None:
    asked = request(user("Hello"))
    assert digest_of(replace(asked, tools=()))[0] != digest_of(asked)[0]


def test_text_that_is_no_unicode_has_a_digest_too() -> None:
    assert digest_of(request(user("a\ud800")))[0] != digest_of(request(user("a\ud801")))[0]
