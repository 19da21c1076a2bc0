import pytest
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Secret, Settings
from pattern_acp.providers.catalogue import ListedModel
from pattern_acp.providers.choose import LOCAL_SERVERS, LocalServer, ModelChoice, choose_model

KEY = Secret("sk-planted", "$THE_KEY")
ANTHROPIC = ProviderSettings("anthropic", "anthropic", "https://api.anthropic.com", KEY, "X", configured=True)
OPENAI = ProviderSettings("openai", "openai", "https://api.openai.com/v1", KEY, "Y", configured=True)
UNUSED = ProviderSettings("openai", "openai", "https://api.openai.com/v1", api_key_env="Y")
NAMED = ProviderSettings("mine", "openai", "http://127.0.0.1:9/v1", models=("big", "small"), configured=True)
OPEN = ProviderSettings("open", "openai", "http://127.0.0.1:9/v1", configured=True)
OLLAMA = LocalServer(LOCAL_SERVERS[0], (ListedModel("nomic-embed-text:latest"), ListedModel("qwen3:8b")))


def settings(*providers: ProviderSettings, model: str = "") -> Settings:
    return Settings(model=model, providers={provider.name: provider for provider in providers})


def chosen(
    given: Settings, known: dict[str, tuple[str, ...]] | None = None, local: tuple[LocalServer, ...] = ()
) -> ModelChoice:
    return choose_model(given, known or {}, local)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (settings(), "offline/offline"),
        (settings(UNUSED), "offline/offline"),
        (settings(OPENAI, ANTHROPIC), "anthropic/claude-sonnet-5-5"),
        (settings(NAMED, OPENAI), "openai/gpt-6.1-terra"),
        (settings(UNUSED, NAMED), "mine/big"),
        (settings(OPEN), "offline/offline"),
        (settings(ANTHROPIC, model="mine/x"), "anthropic/claude-sonnet-5-5"),
        (settings(ANTHROPIC, NAMED, model="mine/small"), "mine/small"),
        (settings(ANTHROPIC, NAMED, model="mine"), "mine/big"),
        (settings(ANTHROPIC, model="offline"), "offline/offline"),
        (settings(UNUSED, model="openai/gpt-5"), "openai/gpt-5"),
        (settings(ProviderSettings("scripted", "scripted", configured=True, script="x")), "scripted/scripted"),
    ],
)
def test_the_order_of_choice_is_kept(given: Settings, expected: str):
    assert chosen(given).qualified == expected


def test_a_local_server_comes_after_every_provider_that_is_set_up():
    assert chosen(settings(UNUSED), local=(OLLAMA,)).qualified == "ollama/qwen3:8b"
    assert chosen(settings(ANTHROPIC), local=(OLLAMA,)).provider == "anthropic"


def test_a_provider_that_is_set_up_and_names_no_model_is_told_of():
    for choice in (chosen(settings(OPEN)), chosen(settings(OPEN), local=(OLLAMA,))):
        assert choice.provider != "open"
        assert "open is set up" in choice.reason
        assert "base_url" in choice.problem
        assert f"{choice.qualified} is used instead" in choice.problem
    assert not chosen(settings(OPEN, ANTHROPIC)).problem


def test_a_fetched_list_decides_which_model_is_the_default():
    assert chosen(settings(ANTHROPIC), {"anthropic": ("claude-opus-9",)}).model == "claude-opus-9"
    assert chosen(settings(OPENAI), {"openai": ("whisper-1", "o3-deep-research", "gpt-5.2")}).model == "gpt-5.2"
    assert chosen(settings(OPEN), {"open": ("only",)}).model == "only"


@pytest.mark.parametrize(
    ("model", "why"),
    [
        ("nobody/x", "names no provider that there is"),
        ("mine/huge", "mine does not list it"),
        ("x", "names no provider that there is"),
        ("open", "name one as open/MODEL, or models in [providers.open]"),
    ],
)
def test_a_wrong_model_falls_to_the_default_and_names_the_setting(model: str, why: str):
    choice = chosen(settings(ANTHROPIC, NAMED, OPEN, model=model))
    assert choice.qualified == "anthropic/claude-sonnet-5-5"
    assert why in choice.problem
    assert "--model, PATTERN_ACP_MODEL or model in config.toml" in choice.problem


def test_a_model_of_another_vendor_is_not_taken():
    choice = chosen(settings(ANTHROPIC, OPENAI, model="openai/claude-opus-9"))
    assert "name anthropic/claude-opus-9" in choice.problem


def test_a_provider_named_alone_whose_key_is_missing_says_so():
    keyless = replace(OPEN, name="hub", needs_key=True, api_key_env="HUB_KEY")
    assert "hub needs a key and none is configured; set HUB_KEY" in chosen(settings(keyless, model="hub")).problem


def test_an_alias_of_a_dated_model_is_found():
    known = {"anthropic": ("claude-opus-4-5-20251101",)}
    assert not chosen(settings(ANTHROPIC, model="anthropic/claude-opus-4-5"), known).problem
    assert chosen(settings(ANTHROPIC, model="anthropic/claude-opus-4"), known).problem


def test_the_reason_names_where_the_key_came_from_and_never_the_key():
    reason = chosen(settings(ANTHROPIC)).reason
    assert "$THE_KEY" in reason
    assert "sk-planted" not in reason
