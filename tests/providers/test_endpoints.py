import pytest

from pattern_acp.config.settings import ProviderSettings, Secret, Wire
from pattern_acp.providers.endpoints import (
    anthropic_headers,
    endpoint,
    headers_of,
    is_official,
    is_openai,
    model_mismatch,
    openai_headers,
    sent_openly,
)


@pytest.mark.parametrize(
    ("wire", "url", "expected"),
    [
        ("anthropic", "", "https://api.anthropic.com/v1/x"),
        ("anthropic", "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/x"),
        ("anthropic", "https://proxy/anthropic", "https://proxy/anthropic/v1/x"),
        ("openai", "", "https://api.openai.com/v1/x"),
        ("responses", "", "https://api.openai.com/v1/x"),
        ("gemini", "", "https://generativelanguage.googleapis.com/v1beta/x"),
        ("gemini", "http://localhost:8000", "http://localhost:8000/v1beta/x"),
        ("gemini", "https://proxy/gemini/v1", "https://proxy/gemini/v1/x"),
        ("openai", "http://localhost:8000", "http://localhost:8000/v1/x"),
        ("openai", "https://host/api/v1", "https://host/api/v1/x"),
        ("openai", "https://host/openai/v4/", "https://host/openai/v4/x"),
    ],
)
def test_base_urls_may_be_written_in_several_ways(wire: Wire, url: str, expected: str):
    assert endpoint(ProviderSettings("p", wire, url), "x") == expected


@pytest.mark.parametrize(
    ("url", "is_told"),
    [
        ("http://models.example.com/v1", True),
        ("http://8.8.8.8:8000/v1", True),
        ("https://models.example.com/v1", False),
        ("http://127.0.0.1:8000", False),
        ("http://[::1]:8000", False),
        ("http://192.168.1.20/v1", False),
        ("http://100.100.3.4/v1", False),
        ("http://localhost/v1", False),
        ("http://vllm:8000/v1", False),
        ("http://box.local:8000/v1", False),
    ],
)
def test_a_key_that_crosses_the_internet_unencrypted_is_told(url: str, *, is_told: bool):
    sentence = sent_openly(ProviderSettings("lab", "openai", url))
    assert ("lab" in sentence and "https://" in sentence) is is_told


def test_only_the_vendor_is_official():
    assert is_official(ProviderSettings("p", "openai", "https://api.openai.com"))
    assert not is_official(ProviderSettings("p", "openai", "https://api.openai.com.example.com"))
    assert is_official(ProviderSettings("p", "anthropic"))
    assert is_official(ProviderSettings("p", "gemini"))
    assert is_openai(ProviderSettings("p", "responses"))
    assert not is_openai(ProviderSettings("p", "gemini"))


def test_the_persons_headers_win():
    settings = ProviderSettings("p", "openai", api_key=Secret("k"), headers={"authorization": "mine"})
    assert openai_headers(settings) == headers_of(settings) == {"authorization": "mine"}
    google = ProviderSettings("p", "gemini", api_key=Secret("k"), headers={"x-goog-api-key": "mine"})
    assert headers_of(google) == {"x-goog-api-key": "mine"}
    assert anthropic_headers(ProviderSettings("p", "anthropic", headers={"a": "b"}))["a"] == "b"


@pytest.mark.parametrize(
    ("wire", "model", "named"),
    [
        ("openai", "claude-sonnet-5-5", "anthropic/claude-sonnet-5-5"),
        ("responses", "gemini-2.5-pro", "gemini/gemini-2.5-pro"),
        ("anthropic", "gpt-5.2", "openai/gpt-5.2"),
        ("gemini", "o3", "openai/o3"),
    ],
)
def test_a_model_of_another_vendor_is_told_of_with_the_name_that_works(wire: Wire, model: str, named: str):
    assert named in model_mismatch(ProviderSettings("p", wire), model)
    assert model_mismatch(ProviderSettings("p", wire, "https://gateway.example.com/v1"), model) == ""


@pytest.mark.parametrize(
    ("wire", "model"),
    [
        ("openai", "gpt-5.2"),
        ("responses", "o3"),
        ("anthropic", "claude-x"),
        ("gemini", "gemma-3"),
        ("openai", "ft:mine"),
    ],
)
def test_models_of_the_vendor_and_unknown_ones_are_asked_for(wire: Wire, model: str):
    assert model_mismatch(ProviderSettings("p", wire), model) == ""
