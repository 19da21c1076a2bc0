"""OAuth as data: PKCE, redirects, and which failure is which."""

from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pattern_acp.config.settings import OAuthSettings
from pattern_acp.credentials import model
from pattern_acp.credentials.model import Credential
from pattern_acp.credentials.oauth import (
    DevicePending,
    begin_authorization,
    challenge_of,
    exchange_form,
    read_device,
    read_redirect,
    read_token,
)
from pattern_acp.domain.errors import SignInError

OAUTH = OAuthSettings("https://a.example/authorize", "https://a.example/token", client_id="me", scope="models")
KEY_FLOW = OAuthSettings("https://a.example/auth", "https://a.example/keys", gives_key=True)
REDIRECT = "http://127.0.0.1:4000/callback"


def test_the_challenge_is_that_of_rfc_7636_appendix_b():
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_a_request_has_a_fresh_state_and_a_verifier_of_the_allowed_form():
    first, second = begin_authorization(OAUTH, REDIRECT), begin_authorization(OAUTH, REDIRECT)
    query = parse_qs(urlsplit(first.url).query)
    assert query["code_challenge"] == [challenge_of(first.verifier)]
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [REDIRECT]
    assert 43 <= len(first.verifier) <= 128
    assert first.verifier not in first.url
    assert len({first.state, second.state, first.verifier, second.verifier}) == 4
    assert first.verifier not in repr(first)


@pytest.mark.parametrize(("scope", "prompt"), [("openid offline_access", ["consent"]), ("models", None), ("", None)])
def test_a_scope_for_refresh_tokens_asks_for_the_consent_that_servers_want_for_it(scope: str, prompt: list[str] | None):
    query = parse_qs(urlsplit(begin_authorization(replace(OAUTH, scope=scope), REDIRECT).url).query)
    assert query.get("prompt") == prompt


def test_a_flow_that_gives_a_key_carries_the_state_in_the_address_it_comes_back_to():
    request = begin_authorization(KEY_FLOW, REDIRECT)
    query = parse_qs(urlsplit(request.url).query)
    assert parse_qs(urlsplit(query["callback_url"][0]).query) == {"state": [request.state]}
    form = exchange_form(KEY_FLOW, request, "the-code")
    assert msgspec.json.decode(form.body) == {
        "code": "the-code",
        "code_verifier": request.verifier,
        "code_challenge_method": "S256",
    }


def test_a_redirect_gives_its_code_only_with_the_state_of_its_own_sign_in():
    request = begin_authorization(OAUTH, REDIRECT)
    assert read_redirect(request, f"/callback?code=abc&state={request.state}") == "abc"
    for target in ("/callback?code=abc", "/callback?code=abc&state=other", "/callback?error=access_denied"):
        with pytest.raises(model.StateMismatchError):
            read_redirect(request, target)


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("error=access_denied", model.SignInDeniedError),
        ("error=temporarily_unavailable", model.SignInTransientError),
        ("error=invalid_scope", model.SignInRefusedError),
        ("error=%1b[31m", model.SignInRefusedError),
        ("", model.SignInRefusedError),
    ],
)
def test_a_redirect_without_a_code_says_why(query: str, kind: type[SignInError]):
    request = begin_authorization(OAUTH, REDIRECT)
    with pytest.raises(kind) as caught:
        read_redirect(request, f"/callback?state={request.state}&{query}")
    assert "\x1b" not in caught.value.sentence


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b'{"error":"access_denied"}', model.SignInDeniedError),
        (400, b'{"error":"expired_token"}', model.SignInExpiredError),
        (400, b'{"error":"invalid_grant"}', model.SignInExpiredError),
        (401, b'{"error":"invalid_client"}', model.SignInRefusedError),
        (400, b'{"error":"server_error"}', model.SignInTransientError),
        (503, b"<html>", model.SignInTransientError),
        (429, b"", model.SignInTransientError),
        (200, b"{}", model.SignInRefusedError),
        (200, b"\xff", model.SignInRefusedError),
        (403, b'{"error":{"message":"Invalid code"}}', model.SignInExpiredError),
        (400, b'{"error":"authorization_pending"}', DevicePending),
        (400, b'{"error":"slow_down"}', DevicePending),
    ],
)
def test_failures_are_told_apart(status: int, body: bytes, kind: type[Exception]):
    with pytest.raises(kind):
        read_token(status, body, 0)


@pytest.mark.parametrize(
    "body",
    [
        b'{"access_token":"a","token_type":"mac"}',
        b'{"access_token":"a\\nb","token_type":"Bearer"}',
        b'{"access_token":"\xc3\xbc"}',
        b'{"key":"a b"}',
    ],
)
def test_a_token_that_no_request_can_carry_is_refused(body: bytes):
    with pytest.raises(model.SignInRefusedError, match="none was stored"):
        read_token(200, body, 0)


def test_the_kind_of_a_token_may_be_written_in_any_case_or_left_out():
    assert read_token(200, b'{"access_token":"a","token_type":"BEARER"}', 0).secret == "a"
    assert read_token(200, b'{"access_token":"a","token_type":null}', 0).secret == "a"


def test_an_address_for_device_codes_that_has_none_is_named():
    with pytest.raises(model.SignInRefusedError, match="check device_url"):
        read_device(404, b"nope", 0)


def test_a_refresh_token_that_is_over_is_revoked_rather_than_a_code_that_expired():
    old = Credential("a", "oauth", "r")
    with pytest.raises(model.SignInRevokedError):
        read_token(400, b'{"error":"invalid_grant"}', 0, old)


def test_a_renewal_keeps_the_refresh_token_that_the_server_does_not_change():
    old = Credential("a", "oauth", "r")
    lasting = b'{"access_token":"b","expires_in":"60"}'
    assert read_token(200, lasting, 1000, old) == Credential("b", "oauth", "r", 61_000)
    assert read_token(200, b'{"access_token":"b","refresh_token":"s"}', 0, old) == Credential("b", "oauth", "s", None)
    assert read_token(200, b'{"key":"k"}', 0) == Credential("k")


def test_a_token_that_is_over_already_is_refused_and_a_lifetime_of_zero_is_none_known():
    for old in (None, Credential("a", "oauth", "r")):
        with pytest.raises(model.SignInRefusedError, match="over already"):
            read_token(200, b'{"access_token":"b","expires_in":-5}', 1000, old)
    assert read_token(200, b'{"access_token":"b","expires_in":0}', 1000).expires_at_ms is None


@given(st.integers(100, 599), st.binary(max_size=80) | st.from_type(dict[str, str]).map(msgspec.json.encode))
def test_no_answer_at_all_is_taken_for_anything_but_an_error_or_a_credential(status: int, body: bytes):
    for read in (read_token, read_device):
        with suppress(SignInError, DevicePending):
            read(status, body, 0)
