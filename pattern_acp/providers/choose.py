"""The choice of the model that a session starts with.

Owns: the order (issue 2, section 6): the user's choice, else the first provider that is set up, else a local server,
else `offline`; and the addresses of local servers. Pure: the caller passes the facts. A named model that is unavailable
never stops the agent (kimi-cli#1629): the next in the order is taken, and the reason says which setting is wrong.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings, Settings
from pattern_acp.providers.catalogue import DEFAULT_MODELS, ListedModel, is_chat_model
from pattern_acp.providers.endpoints import has_vendor_names, is_official, is_openai, model_mismatch

LOCAL_SERVERS: tuple[ProviderSettings, ...] = (
    ProviderSettings("ollama", "openai", "http://127.0.0.1:11434/v1"),
    ProviderSettings("lmstudio", "openai", "http://127.0.0.1:1234/v1"),
    ProviderSettings("llama-server", "openai", "http://127.0.0.1:8080/v1"),
)
"""Local servers in the order of preference. The user's own settings of the same name come before these."""


LOCAL_SECONDS = 0.3
"""Longest that looking for all of them together may take (issue 2, section 6)."""


class LocalServer(Struct, frozen=True):
    """A server that answered, with its models."""

    settings: ProviderSettings
    models: tuple[ListedModel, ...]


WHERE_TO_SET = "--model, PATTERN_ACP_MODEL or model in config.toml"


class ModelChoice(Struct, frozen=True):
    """The choice. `reason` is a sentence for the user."""

    provider: str
    model: str
    reason: str
    wrong: str = ""
    """Errors in the settings and their correction, one or more sentences, when this replaces the model that they name;
    else empty."""

    @property
    def qualified(self) -> str:
        """`PROVIDER/MODEL`."""
        return f"{self.provider}/{self.model}"

    @property
    def problem(self) -> str:
        """`wrong`, and what is used instead; empty when nothing is."""
        return f"{self.wrong.removesuffix('.')}; {self.qualified} is used instead." if self.wrong else ""


def choose_model(
    settings: Settings, known: Mapping[str, Sequence[str]], local: Sequence[LocalServer] = ()
) -> ModelChoice:
    """Choose. `known` has the fetched model lists by provider, as far as available."""
    if not settings.model:
        return _choose_default(settings, known, local)
    named = _find_named(settings, known, local)
    if isinstance(named, ModelChoice):
        return named
    return replace(_choose_default(settings, known, local), wrong=f"{named} Correct {WHERE_TO_SET}.")


def _find_named(
    settings: Settings, known: Mapping[str, Sequence[str]], local: Sequence[LocalServer]
) -> ModelChoice | str:
    """The model that the user named, or a sentence that says why it is unavailable."""
    name, _, model = settings.model.partition("/")
    reason = "the setting `model` names it."
    found = {server.settings.name: server for server in local}
    provider = settings.providers.get(name) or (found[name].settings if name in found else None)
    if name == "offline":
        return ModelChoice("offline", "offline", reason)
    if provider is None:
        names = ", ".join(sorted({*settings.providers, *found, "offline"} - {"scripted"}))
        return f"The configured model {settings.model!r} names no provider that there is; providers are {names}."
    if mismatch := model_mismatch(provider, model):
        return mismatch
    listed = _listed(provider, known, found)
    if not model:
        model = _default_model(provider, listed)
        return ModelChoice(name, model, reason) if model else _no_model(provider)
    if listed and not _is_listed(model, listed):
        return f"The configured model {settings.model!r} does not exist: {name} does not list it."
    return ModelChoice(name, model, reason)


def _no_model(provider: ProviderSettings) -> str:
    """The reason why a provider named without a model has none: without its key, its list cannot be fetched."""
    if provider.api_key is None and provider.needs_key:
        from pattern_acp.providers.http_errors import auth_error

        return auth_error(provider, None).sentence
    name = provider.name
    return (
        f"The provider {name!r} is configured without a model, and has no list of them that could be read; name one as "
        f"{name}/MODEL, or models in [providers.{name}]."
    )


def _choose_default(
    settings: Settings, known: Mapping[str, Sequence[str]], local: Sequence[LocalServer]
) -> ModelChoice:
    silent = ""
    for provider in usable_providers(settings):
        model = _default_model(provider, _listed(provider, known, {}))
        silent = silent or ("" if model else provider.name)
        if model:
            key = f"the key from {provider.api_key.source}" if provider.api_key else "the configuration"
            return ModelChoice(provider.name, model, f"{provider.name} is the first provider that is set up ({key}).")
    for server in local:
        model = _first_chat_model([listed.name for listed in server.models])
        if model:
            name = server.settings.name
            reason = f"{name} runs on this machine and no provider is set up."
            return _instead_of(silent, ModelChoice(name, model, reason))
    reason = "No provider is set up and no model server runs on this machine."
    return _instead_of(silent, ModelChoice("offline", "offline", reason))


def _instead_of(silent: str, choice: ModelChoice) -> ModelChoice:
    """`choice`, made although the provider `silent` is set up: nobody knows a model of it."""
    if not silent:
        return choice
    reason = f"{silent} is set up, but no model of it is known."
    advice = f"Check its base_url, or name a model in {WHERE_TO_SET}."
    return replace(choice, reason=reason, wrong=f"{silent} is set up, but its model list could not be read. {advice}")


def usable_providers(settings: Settings) -> Iterator[ProviderSettings]:
    """The providers that the user set up, in the order of preference: anthropic, openai, the others as written."""
    first = [settings.providers[name] for name in ("anthropic", "openai") if name in settings.providers]
    others = [provider for name, provider in settings.providers.items() if name not in {"anthropic", "openai"}]
    for provider in (*first, *others):
        can_ask = provider.api_key is not None or not (provider.needs_key or is_official(provider))
        if provider.configured and (can_ask or provider.wire in {"offline", "scripted"}):
            yield provider


def _listed(
    provider: ProviderSettings, known: Mapping[str, Sequence[str]], found: Mapping[str, LocalServer]
) -> Sequence[str]:
    if provider.models:
        return provider.models
    if provider.name in found:
        return [model.name for model in found[provider.name].models]
    return known.get(provider.name, ())


def _is_listed(model: str, listed: Sequence[str]) -> bool:
    """Return whether a list has the model: by name, dated (`claude-opus-4-5` for `…-20251101`), or tagged (Ollama)."""
    return any(name == model or name.startswith((f"{model}-20", f"{model}:latest")) for name in listed)


def _default_model(provider: ProviderSettings, listed: Sequence[str]) -> str:
    if provider.wire in {"offline", "scripted"}:
        return provider.models[0] if provider.models else provider.wire
    if provider.models:
        return provider.models[0]
    usual = DEFAULT_MODELS[provider.wire] if has_vendor_names(provider) else ""
    if usual and (not listed or _is_listed(usual, listed)):
        return usual
    return _first_chat_model(listed, is_openai=is_openai(provider)) or usual


def _first_chat_model(names: Sequence[str], *, is_openai: bool = False) -> str:
    return next((name for name in names if is_chat_model(name, is_openai=is_openai)), "")
