"""Which wire a provider and a model are spoken to in."""

from functools import partial

import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Secret, Wire
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.openai import OpenAIDecoder
from pattern_acp.providers.openai_responses import ResponsesDecoder
from pattern_acp.providers.registry import build_wire
from tests.support.conversations import request, user

KEY = Secret("k", "$KEY")


@pytest.mark.parametrize(
    ("wire", "base_url", "model", "url"),
    [
        ("openai", "", "gpt-5.2-codex", "https://api.openai.com/v1/responses"),
        ("openai", "", "o3-pro", "https://api.openai.com/v1/responses"),
        ("openai", "", "gpt-4.1", "https://api.openai.com/v1/chat/completions"),
        ("openai", "https://openrouter.ai/api/v1", "openai/gpt-5.2", "https://openrouter.ai/api/v1/chat/completions"),
        ("responses", "https://x.example/openai/v1", "gpt-4.1", "https://x.example/openai/v1/responses"),
        ("anthropic", "", "claude-sonnet-5-5", "https://api.anthropic.com/v1/messages"),
        (
            "gemini",
            "",
            "models/gemini-flash-latest",
            "https://generativelanguage.googleapis.com/v1beta/models/gemini-flash-latest:streamGenerateContent?alt=sse",
        ),
        (
            "gemini",
            "",
            "../files",
            "https://generativelanguage.googleapis.com/v1beta/models/..%2Ffiles:streamGenerateContent?alt=sse",
        ),
    ],
)
def test_a_request_goes_where_its_model_is_spoken_to(wire: Wire, base_url: str, model: str, url: str):
    settings = ProviderSettings("p", wire, base_url, KEY)
    made = build_wire(settings, partial(describe, "p", is_openai=wire == "openai" and not base_url))
    assert made.encode(request(user("a"), model=model)).url == url


def test_the_decoder_is_that_of_the_wire_that_was_spoken():
    made = build_wire(ProviderSettings("p", "openai"), partial(describe, "p", is_openai=True))
    asked = request(user("a"), model="gpt-5.2")
    assert isinstance(made.new_decoder(asked), ResponsesDecoder)
    assert isinstance(made.new_decoder(replace(asked, model="gpt-4.1")), OpenAIDecoder)


def test_a_key_of_google_is_in_a_header_and_never_in_the_address():
    sent = build_wire(ProviderSettings("p", "gemini", "", KEY), partial(describe, "p")).encode(request(user("a")))
    assert sent.headers["x-goog-api-key"] == "k"
    assert "key=" not in sent.url


def test_without_a_key_no_header_is_sent():
    sent = build_wire(ProviderSettings("p", "gemini"), partial(describe, "p")).encode(request(user("a")))
    assert "x-goog-api-key" not in sent.headers
