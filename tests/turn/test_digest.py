"""What a request is known by in the journal."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.turn.request_fingerprints import RequestDigests
from tests.support.conversations import request, user

TEXTS = st.lists(st.text(st.characters(exclude_categories=()), max_size=8), max_size=5)


def message(number: int, text: str) -> Message:
    return Message(MessageId(f"msg_{number}"), Role.USER, (TextPart(text),))


def long_request(texts: list[str], volatile: str = "") -> ProviderRequest:
    return ProviderRequest("m", "Be kind.", (), tuple(message(*one) for one in enumerate(texts)), volatile)


@given(TEXTS, TEXTS)
def test_equal_requests_have_one_digest_and_others_have_others(one: list[str], two: list[str]):
    digests = RequestDigests()
    first, second = long_request(one), long_request(two)
    assert (digests.of(first) == digests.of(second)) == (one == two)
    assert RequestDigests().of(second) == digests.of(second)


@given(TEXTS, st.text(max_size=5))
def test_a_request_that_goes_on_has_the_digest_of_a_new_one(texts: list[str], added: str):
    digests = RequestDigests()
    before = long_request(texts)
    digests.of(before)
    after = replace(before, messages=(*before.messages, message(9, added)), volatile="now")
    digest, size = digests.of(after)
    assert (digest, size) == RequestDigests().of(after)
    assert digest != digests.of(replace(after, volatile="later"))[0]
    assert size > digests.of(before)[1]


def test_nothing_is_kept_of_what_left_the_history():
    digests = RequestDigests()
    digests.of(long_request(["a"] * 50))
    digests.of(long_request(["b"]))
    # An identity that is used again by another message must not bring the digest of the one before.
    for number in range(200):
        text = f"text {number}"
        assert digests.of(long_request([text])) == RequestDigests().of(long_request([text]))


def test_the_same_request_has_the_same_digest_and_another_text_another():
    digest, size = RequestDigests().of(request(user("Hello")))
    assert RequestDigests().of(request(user("Hello"))) == (digest, size)
    other, longer = RequestDigests().of(request(user("Hello!")))
    assert (other != digest, longer - size) == (True, 1)


def test_what_the_model_may_do_is_part_of_the_digest():
    asked = request(user("Hello"))
    assert RequestDigests().of(replace(asked, tools=()))[0] != RequestDigests().of(asked)[0]


def test_text_that_is_no_unicode_has_a_digest_too():
    assert RequestDigests().of(request(user("a\ud800")))[0] != RequestDigests().of(request(user("a\ud801")))[0]


def test_a_request_refers_to_the_one_before_it_once_that_is_recorded():
    digests = RequestDigests()
    first = digests.known(long_request(["a", "b"], "now"), 1000)
    assert (first.parts.kept, len(first.parts.messages), first.parts.volatile_text) == (0, 2, "now")
    digests.recorded()
    second = digests.known(long_request(["a", "b", "c"], "now"), 1000)
    assert (second.parts.kept, len(second.parts.messages), second.parts.volatile_text) == (2, 1, None)
    assert second.tools is None
    # Whether it was recorded is not known: the next one refers to nothing.
    third = digests.known(long_request(["a", "b", "c"], "now"), 1000)
    assert (third.parts.kept, third.parts.volatile_text, third.tools is None) == (0, "now", False)


@given(TEXTS, TEXTS)
def test_the_messages_of_a_request_follow_from_the_requests_up_to_it(before: list[str], after: list[str]):
    digests = RequestDigests()
    first = digests.known(long_request(before), 1000).parts
    digests.recorded()
    second = digests.known(long_request(after), 1000).parts
    whole = RequestDigests().known(long_request(after), 1000).parts
    assert (*first.messages[: second.kept], *second.messages) == whole.messages
    assert len(second.messages) == len(after) - second.kept


def test_the_id_of_a_message_is_no_part_of_a_digest():
    one, two = (replace(request(user("Hello")), messages=(message(number, "Hello"),)) for number in (1, 2))
    assert RequestDigests().of(one) == RequestDigests().of(two)
