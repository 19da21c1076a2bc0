"""Providers that need no table: their addresses, key variables and peculiarities, as data.

Owns: the table. Must not know: how a provider is spoken to. A preset counts once its key is in the environment or kept
by `auth login`, or once the user names it as `[providers.NAME]`, whose keys are laid over it. Addresses and
peculiarities are those of the vendors' documentation as of November 2026.
"""

from collections.abc import Mapping

from pattern_acp.config.settings import ProviderSettings, Quirks

_CONTINUES_FINAL = Quirks(continues_answers="continue_final_message")

PRESETS: Mapping[str, ProviderSettings] = {
    preset.name: preset
    for preset in (
        ProviderSettings(
            "openrouter", "openai", "https://openrouter.ai/api/v1", api_key_env="OPENROUTER_API_KEY", needs_key=True
        ),
        ProviderSettings(
            "mistral",
            "openai",
            "https://api.mistral.ai/v1",
            api_key_env="MISTRAL_API_KEY",
            needs_key=True,
            # Unknown fields are refused there; usage comes with the last chunk without being asked for.
            quirks=Quirks(usage_on_request=False, continues_answers="prefix"),
        ),
        ProviderSettings(
            "deepseek",
            "openai",
            "https://api.deepseek.com/v1",
            api_key_env="DEEPSEEK_API_KEY",
            needs_key=True,
            quirks=Quirks(continues_answers="prefix"),
        ),
        ProviderSettings(
            "moonshot",
            "openai",
            "https://api.moonshot.ai/v1",
            api_key_env="MOONSHOT_API_KEY",
            needs_key=True,
            quirks=Quirks(continues_answers="partial"),
        ),
        ProviderSettings("zai", "openai", "https://api.z.ai/api/paas/v4", api_key_env="ZAI_API_KEY", needs_key=True),
        ProviderSettings(
            "groq",
            "openai",
            "https://api.groq.com/openai/v1",
            api_key_env="GROQ_API_KEY",
            needs_key=True,
            quirks=Quirks(answer_limit="max_completion_tokens"),
        ),
        ProviderSettings(
            "xai",
            "openai",
            "https://api.x.ai/v1",
            api_key_env="XAI_API_KEY",
            needs_key=True,
            quirks=Quirks(answer_limit="max_completion_tokens"),
        ),
        ProviderSettings(
            "github", "openai", "https://models.github.ai/inference", api_key_env="GITHUB_TOKEN", needs_key=True
        ),
        ProviderSettings(
            "azure",
            "openai",
            api_key_env="AZURE_OPENAI_API_KEY",
            needs_key=True,
            quirks=Quirks(answer_limit="max_completion_tokens"),
        ),
        ProviderSettings("vertex", "anthropic", host="vertex"),
        ProviderSettings("bedrock", "anthropic", api_key_env="AWS_BEARER_TOKEN_BEDROCK", host="bedrock"),
        ProviderSettings("lmstudio", "openai", "http://127.0.0.1:1234/v1"),
        ProviderSettings("llama-server", "openai", "http://127.0.0.1:8080/v1", quirks=_CONTINUES_FINAL),
        ProviderSettings("vllm", "openai", "http://127.0.0.1:8000/v1", quirks=_CONTINUES_FINAL),
    )
}

ONLY_BY_TABLE = frozenset({"github", "azure"})
"""Presets that a key in the environment does not set up: GITHUB_TOKEN is there for other things, and Azure has an
address for each customer."""

SIGN_IN: tuple[ProviderSettings, ...] = tuple(
    preset for preset in PRESETS.values() if preset.needs_key and preset.base_url
)
"""Presets that are known without a key, since anyone can sign in to them."""
