"""Presets: a key in the environment is all that they need, and a table is laid over them."""

import json
from pathlib import Path

import pytest

from pattern_acp.config.load import Loaded, load
from pattern_acp.config.providers import ONLY_BY_TABLE, PRESETS, key_variables, normal_base_url
from pattern_acp.config.settings import Flags, ProviderSettings, Quirks, Secret
from pattern_acp.credentials.keys import with_stored_key
from pattern_acp.credentials.model import StoredEntry
from pattern_acp.domain.clock import MessageId, ToolCallId
from pattern_acp.domain.messages import Message, Role, TextPart, ToolCallPart
from pattern_acp.providers.base import ProviderRequest
from pattern_acp.providers.catalogue import describe
from pattern_acp.providers.choose import usable_providers
from pattern_acp.providers.openai import OpenAIWire


def load_with(home: Path, user: str = "", **environ: str) -> Loaded:
    (home / "config.toml").write_text(user, encoding="utf-8")
    return load(Flags(), {"PATTERN_ACP_HOME": str(home), **environ}, project_dir=None)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_is_whole(name: str):
    preset = PRESETS[name]
    assert preset.name == name
    assert not preset.configured
    if preset.host:
        assert (preset.wire, preset.base_url) == ("anthropic", "")
        return
    assert name == "azure" or normal_base_url(preset.base_url) == preset.base_url
    assert preset.api_key_env or preset.base_url.startswith("http://127.0.0.1:")


@pytest.mark.parametrize(
    "name", sorted(set(PRESETS) - ONLY_BY_TABLE - {"lmstudio", "llama-server", "vllm", "vertex", "bedrock"})
)
def test_a_key_in_the_environment_is_enough(tmp_path: Path, name: str):
    loaded = load_with(tmp_path, **{PRESETS[name].api_key_env: "key-1"})
    provider = loaded.settings.providers[name]
    assert provider.api_key == Secret("key-1", f"${PRESETS[name].api_key_env}")
    assert [one.name for one in usable_providers(loaded.settings)] == [name]


def test_a_token_for_other_things_sets_nothing_up_until_it_is_wanted(tmp_path: Path):
    token = "token-1"
    known = load_with(tmp_path, GITHUB_TOKEN=token).settings
    assert (known.providers["github"].api_key, known.providers["github"].api_key_env) == (None, "")
    assert [*usable_providers(known)] == []
    wanted = load_with(tmp_path, "[providers.github]\nmodels = ['openai/gpt-4.1']\n", GITHUB_TOKEN=token)
    assert wanted.settings.providers["github"].api_key == Secret(token, "$GITHUB_TOKEN")
    assert wanted.problems == ()


def test_a_key_that_is_kept_sets_a_preset_up_without_a_table(tmp_path: Path):
    github = load_with(tmp_path).settings.providers["github"]
    held = with_stored_key(github, {"github": StoredEntry("api_key", "file", "6789")})
    assert (held.configured, held.base_url) == (True, "https://models.github.ai/inference")


def test_a_table_stands_where_the_person_wrote_it_and_one_with_a_wrong_address_is_gone(tmp_path: Path):
    user = (
        '[providers.work]\nbase_url = "http://localhost:9/v1"\n[providers.groq]\nbase_url = "http://localhost:8/v1"\n'
    )
    assert [one.name for one in usable_providers(load_with(tmp_path, user).settings)] == ["work", "groq"]
    assert "groq" not in load_with(tmp_path, '[providers.groq]\nbase_url = "nowhere"\n').settings.providers


def test_azure_needs_the_address_that_each_customer_has(tmp_path: Path):
    assert "needs a base_url" in str(load_with(tmp_path, "[providers.azure]\n").problems[0])
    user = '[providers.azure]\nbase_url = "https://me.openai.azure.com/openai/v1"\nwire = "responses"\n'
    azure = load_with(tmp_path, user, AZURE_OPENAI_API_KEY="key-1").settings.providers["azure"]
    assert (azure.wire, azure.api_key_env) == ("responses", "AZURE_OPENAI_API_KEY")


def test_a_table_without_a_key_is_not_chosen_and_another_address_need_not_have_one(tmp_path: Path):
    assert [*usable_providers(load_with(tmp_path, "[providers.groq]\n").settings)] == []
    own = load_with(tmp_path, '[providers.groq]\nbase_url = "http://localhost:9/v1"\n').settings
    assert [one.name for one in usable_providers(own)] == ["groq"]


def body_of(loaded: Loaded, name: str) -> dict[str, object]:
    wire = OpenAIWire(loaded.settings.providers[name], lambda model: describe(name, model))
    message = Message(MessageId("m"), Role.USER, (TextPart("Hi"),))
    return json.loads(wire.encode(ProviderRequest("x", "", (), (message,), max_output_tokens=9)).body)


def test_what_a_server_is_particular_about_is_in_the_request(tmp_path: Path):
    user = """
    [providers.lab]
    base_url = "http://localhost:9/v1"
    answer_limit = "max_completion_tokens"
    usage_on_request = false
    continues_answers = "prefix"
    [providers.vllm]
    """
    loaded = load_with(tmp_path, user, MISTRAL_API_KEY="key-1", GROQ_API_KEY="key-2")
    assert loaded.settings.providers["lab"].quirks == Quirks(
        "max_completion_tokens", usage_on_request=False, continues_answers="prefix"
    )
    assert "stream_options" not in body_of(loaded, "mistral")
    assert body_of(loaded, "mistral")["max_tokens"] == 9
    assert body_of(loaded, "groq")["max_completion_tokens"] == 9
    assert body_of(loaded, "lab").keys() == {"model", "stream", "max_completion_tokens", "messages"}
    assert body_of(loaded, "vllm")["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize(("name", "thought"), [("groq", None), ("moonshot", " ")])
def test_only_servers_that_take_reasoning_back_are_sent_any(tmp_path: Path, name: str, thought: str | None):
    loaded = load_with(tmp_path, GROQ_API_KEY="key-1", MOONSHOT_API_KEY="key-2")
    wire = OpenAIWire(loaded.settings.providers[name], lambda model: describe(name, model))
    messages = (
        Message(MessageId("m"), Role.USER, (TextPart("Hi"),)),
        Message(MessageId("n"), Role.ASSISTANT, (ToolCallPart(ToolCallId("c"), "read_file", "{}"),)),
    )
    sent = json.loads(wire.encode(ProviderRequest("kimi-k2", "", (), messages)).body)["messages"]
    assert sent[1].get("reasoning_content") == thought


def test_a_wrong_peculiarity_is_named(tmp_path: Path):
    user = '[providers.lab]\nbase_url = "http://localhost:9/v1"\nanswer_limit = "most"\nusage_on_request = "yes"\n'
    sentences = [str(problem) for problem in load_with(tmp_path, user).problems]
    assert any("answer_limit: it must be one of max_tokens, max_completion_tokens" in one for one in sentences)
    assert any("usage_on_request: it must be true or false" in one for one in sentences)


def test_the_keys_of_every_known_provider_are_hidden_from_commands_and_a_token_of_many_uses_only_when_it_is_one():
    plain = key_variables({})
    assert {"AZURE_OPENAI_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY", "AWS_BEARER_TOKEN_BEDROCK"} <= set(plain)
    assert {preset.api_key_env for preset in PRESETS.values()} - {"", "GITHUB_TOKEN"} <= set(plain)
    assert "GITHUB_TOKEN" not in plain
    own = {"github": PRESETS["github"], "mine": ProviderSettings("mine", "openai", api_key_env="MY_KEY")}
    assert {"GITHUB_TOKEN", "MY_KEY"} <= set(key_variables(own))
