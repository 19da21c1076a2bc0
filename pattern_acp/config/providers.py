"""Providers: those built in, those the environment sets up, and those of `[providers.NAME]`; and `[models."…"]`.

Owns: the variables of providers, the keys of their tables, base URLs, and what the user knows of a model better than
anybody. Must not know: how a provider is spoken to, which one is chosen, or what else is known of a model
(providers/catalogue.py), over which the user's figures are laid.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address
from typing import Literal, TypeGuard, cast
from urllib.parse import urlsplit

from msgspec import Struct, field
from msgspec.structs import replace

from pattern_acp.config.oauth import ALLOWED as OAUTH_ALLOWED
from pattern_acp.config.oauth import BUILT_IN as BUILT_IN_OAUTH
from pattern_acp.config.oauth import read_oauth, wrong_oauth
from pattern_acp.config.settings import CONTINUING, Host, ModelSettings, ProviderSettings, Quirks, Secret, Wire
from pattern_acp.config.toml_file import (
    YES_OR_NO,
    EffectiveValue,
    Problem,
    Rule,
    TomlFile,
    but_is,
    choice,
    is_table,
    matching,
    number,
)
from pattern_acp.domain.late_pattern import late_pattern

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

SHOWN_NAMES: Mapping[str, str] = {
    "anthropic": "Anthropic (Claude)",
    "openai": "OpenAI (GPT)",
    "gemini": "Google (Gemini)",
    "openrouter": "OpenRouter (models of many vendors)",
    "mistral": "Mistral AI (Mistral, Devstral)",
    "deepseek": "DeepSeek",
    "moonshot": "Moonshot AI (Kimi)",
    "zai": "Z.ai (GLM)",
    "groq": "Groq (open models)",
    "xai": "xAI (Grok)",
    "github": "GitHub Models",
    "azure": "Microsoft Azure OpenAI",
    "bedrock": "Amazon Bedrock (Claude)",
}
"""Vendors and models of providers, as users know them."""

SIGN_IN: tuple[ProviderSettings, ...] = tuple(
    preset for preset in PRESETS.values() if preset.needs_key and preset.base_url
)
"""Presets that are known without a key, since anyone can sign in to them."""


_REGION = late_pattern(r"[a-z0-9]+(-[a-z0-9]+){0,5}")
_PROJECT = late_pattern(r"([a-z0-9.-]{1,100}:)?[a-z0-9][a-z0-9-]{2,61}")
"""A project's id, in older accounts behind its domain; a number serves as well."""


class Cloud(Struct, frozen=True):
    """One cloud. `address` gives the base URL of a region."""

    address: Callable[[str], str]
    region_variables: tuple[str, ...]
    usual_region: str
    """Empty where there is none that serves everybody."""


def _google_address(region: str) -> str:
    match region:
        case "global":
            host = "aiplatform.googleapis.com"
        case "us" | "eu":
            host = f"aiplatform.{region}.rep.googleapis.com"
        case _:
            host = f"{region}-aiplatform.googleapis.com"
    return f"https://{host}/v1"


def _amazon_address(region: str) -> str:
    return f"https://bedrock-runtime.{region}.amazonaws.com"


_HOSTS: Mapping[Host, Cloud] = {
    "vertex": Cloud(_google_address, ("CLOUD_ML_REGION",), "global"),
    "bedrock": Cloud(_amazon_address, ("AWS_REGION", "AWS_DEFAULT_REGION"), ""),
}
"""Addresses and variables are those of the clouds' documentation and of Anthropic's own clients (November 2026)."""

_PROJECT_VARIABLES = ("ANTHROPIC_VERTEX_PROJECT_ID", "GOOGLE_CLOUD_PROJECT")


def _with_place(provider: ProviderSettings, environ: Mapping[str, str]) -> tuple[ProviderSettings, str]:
    """`provider`, which has a host, with region, project and address; and what is wrong, empty when nothing is."""
    cloud = _HOSTS[provider.host]
    region = provider.region or _first(environ, cloud.region_variables) or cloud.usual_region
    project = provider.project or (_first(environ, _PROJECT_VARIABLES) if provider.host == "vertex" else "")
    if not region:
        return provider, f"it needs a region: set region in it, or ${cloud.region_variables[0]}"
    # Both become part of an address, and what comes from the environment was not looked at yet.
    if not _REGION.fullmatch(region):
        return provider, f"${' or $'.join(cloud.region_variables)} holds no region, which is such as europe-west1"
    if project and not _PROJECT.fullmatch(project):
        return provider, f"${' or $'.join(_PROJECT_VARIABLES)} holds no project, which has small letters, digits and -"
    address = provider.base_url or cloud.address(region)
    return replace(provider, region=region, project=project, base_url=address), ""


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")


_MASK = str(Secret(""))
SCRIPT_VARIABLE = "PATTERN_ACP_SCRIPT"
_OLLAMA_PORT = 11434
"""The address at which Ollama listens by default."""

BUILT_IN: tuple[ProviderSettings, ...] = (
    ProviderSettings("anthropic", "anthropic", "https://api.anthropic.com", api_key_env="ANTHROPIC_API_KEY"),
    ProviderSettings("openai", "openai", "https://api.openai.com/v1", api_key_env="OPENAI_API_KEY"),
    ProviderSettings(
        "gemini", "gemini", "https://generativelanguage.googleapis.com/v1beta", api_key_env="GEMINI_API_KEY"
    ),
    *SIGN_IN,
    ProviderSettings("ollama", "openai", f"http://127.0.0.1:{_OLLAMA_PORT}/v1"),
    ProviderSettings("offline", "offline"),
    ProviderSettings("scripted", "scripted"),
)

_OTHER_KEY_VARIABLES = (
    "ANTHROPIC_AUTH_TOKEN CLAUDE_CODE_OAUTH_TOKEN GOOGLE_API_KEY AZURE_API_KEY KIMI_API_KEY ZHIPUAI_API_KEY "
    "BRAVE_API_KEY TAVILY_API_KEY EXA_API_KEY PATTERN_ACP_TOKEN"
)
"""Variables of the same vendors' keys that only their own programs read, those of web_search, and a server's token."""


def key_variables(providers: Mapping[str, ProviderSettings]) -> tuple[str, ...]:
    """Return the variables that hold keys of models: of every provider that is known, set up or not.

    `GITHUB_TOKEN` is among them only when a provider uses it: `gh` and scripts of projects need it.
    """
    known = {provider.api_key_env for provider in (*BUILT_IN, *PRESETS.values())} - {"GITHUB_TOKEN"}
    used = {provider.api_key_env for provider in providers.values()}
    return tuple(sorted((known | used | {*_OTHER_KEY_VARIABLES.split()}) - {""}))


_BASE_URL_VARIABLES = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "openai": "OPENAI_BASE_URL",
    "gemini": "GOOGLE_GEMINI_BASE_URL",
}
_TABLE_WIRES: tuple[Wire, ...] = ("anthropic", "openai", "responses", "gemini")
_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_VARIABLE = late_pattern(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER_NAME = late_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
"""A token of RFC 9110, section 5.6.2."""


class _Collected(Struct):
    """The providers while they are read."""

    providers: dict[str, ProviderSettings]
    problems: list[Problem] = field(default_factory=list[Problem])
    values: dict[str, EffectiveValue] = field(default_factory=dict[str, EffectiveValue])
    left_out: set[str] = field(default_factory=set[str])
    """Providers whose address is unusable: they are not chosen, and their key goes nowhere."""

    def set(self, key: str, shown: str, source: str) -> None:
        self.values[key] = EffectiveValue(key, shown, source)


def read_providers(
    environ: Mapping[str, str], user: TomlFile
) -> tuple[Mapping[str, ProviderSettings], tuple[Problem, ...], tuple[EffectiveValue, ...]]:
    """All providers by name: the built-in ones, then those of the user's file in its order.

    The environment beats the file key by key. A key that cannot be used is left at its default and reported.
    """
    collected = _Collected({each.name: replace(each, oauth=BUILT_IN_OAUTH.get(each.name)) for each in BUILT_IN})
    raw = user.table.get("providers", {})
    if is_table(raw):
        for name, table in raw.items():
            _read_table(collected, user, environ, name, table)
    else:
        collected.problems.append(user.problem("providers", "it must be tables [providers.NAME], so it is not used."))
    for provider in tuple(collected.providers.values()):
        collected.providers[provider.name] = _with_environment(collected, provider, environ)
    return collected.providers, tuple(collected.problems), tuple(collected.values.values())


def _read_table(collected: _Collected, user: TomlFile, environ: Mapping[str, str], name: str, table: object) -> None:
    key = f"providers.{name}"
    known = collected.providers.get(name) or PRESETS.get(name)
    if not _NAME.fullmatch(name) or not is_table(table):
        sentence = "a provider is a table [providers.NAME] with a NAME of letters, digits, - and _; it is left out."
        collected.problems.append(user.problem(key, sentence))
        return
    if known is not None and known.wire not in _TABLE_WIRES:
        collected.problems.append(user.problem(key, f"the provider {name} has no settings; the table is not used."))
        return
    provider = replace(known or ProviderSettings(name, "openai", oauth=BUILT_IN_OAUTH.get(name)), configured=True)
    for field_name, raw in table.items():
        provider = _read_field(collected, user, provider, field_name, raw)
    if "base_url" in table and normal_base_url(table["base_url"]) is None:
        # The usual address would get a key and code that were meant for another server.
        collected.left_out.add(name)
        if name in PRESETS:
            collected.providers.pop(name, None)
        return
    if provider.host:
        placed, why = _placed(provider, table, environ)
        if why:
            collected.problems.append(user.problem(key, f"{why}; the provider is left out."))
            collected.providers.pop(name, None)
            return
        provider = placed
    if not provider.base_url:
        collected.problems.append(user.problem(key, "it needs a base_url, so the provider is left out."))
        return
    if name in PRESETS and not environ.get(provider.api_key_env, "").strip():
        # It is set up by this table, so it stands where the user wrote it among the others.
        collected.providers.pop(name, None)
    collected.providers[name] = _with_key(collected, provider, environ)


def _placed(
    provider: ProviderSettings, table: Mapping[str, object], environ: Mapping[str, str]
) -> tuple[ProviderSettings, str]:
    if table.get("wire", "anthropic") != "anthropic":
        return provider, f"at the host {provider.host} the wire can only be anthropic"
    return _with_place(replace(provider, wire="anthropic"), environ)


def _read_field(
    collected: _Collected, user: TomlFile, provider: ProviderSettings, field_name: str, raw: object
) -> ProviderSettings:
    key = f"providers.{provider.name}.{field_name}"
    known = PROVIDER_KEYS.get(field_name)
    if known is None:
        allowed = ", ".join(PROVIDER_KEYS)
        collected.problems.append(user.problem(key, f"there is no such key; allowed are {allowed}. It is not used."))
        return provider
    changed = _changed(provider, field_name, known, raw)
    if changed is None:
        why = known.why(raw) or f"it must be {known.rule.allowed}{but_is(raw, known.rule.allowed)}"
        sentence = f"{why}; {known.instead}."
        collected.problems.append(user.problem(key, sentence))
        return provider
    collected.set(key, known.show(raw), user.place_of(key))
    return changed


def _with_environment(
    collected: _Collected, provider: ProviderSettings, environ: Mapping[str, str]
) -> ProviderSettings:
    """Apply the variables that belong to a built-in provider."""
    if provider.name in collected.left_out:
        return replace(provider, api_key=None, configured=False)
    if provider.name == "scripted" and environ.get(SCRIPT_VARIABLE):
        script = environ[SCRIPT_VARIABLE]
        collected.set("providers.scripted.script", script, f"${SCRIPT_VARIABLE}")
        return replace(provider, script=script, configured=True)
    if provider.name in ONLY_BY_TABLE and not provider.configured:
        # Its usual variable is not asked, so no sentence may advise to set it.
        return replace(provider, api_key_env="")
    provider = _with_key(collected, provider, environ)
    variable = "OLLAMA_HOST" if provider.name == "ollama" else _BASE_URL_VARIABLES.get(provider.name, "")
    raw = environ.get(variable, "").strip() if variable else ""
    if not raw:
        return provider
    url = ollama_base_url(raw) if provider.name == "ollama" else normal_base_url(raw)
    key = f"providers.{provider.name}.base_url"
    if url is None:
        form = "a host, host:port or URL" if provider.name == "ollama" else "an http:// or https:// URL"
        sentence = f"it must be {form}; {provider.name} is left out, so that nothing goes to another server."
        collected.problems.append(Problem(f"${variable}", None, key, sentence))
        return replace(provider, api_key=None, configured=False)
    collected.set(key, show_url(url), f"${variable}")
    return replace(provider, base_url=url, configured=True)


def _with_key(collected: _Collected, provider: ProviderSettings, environ: Mapping[str, str]) -> ProviderSettings:
    secret = environ.get(provider.api_key_env, "").strip() if provider.api_key_env else ""
    if not secret:
        return provider
    source = f"${provider.api_key_env}"
    collected.set(f"providers.{provider.name}.api_key", _MASK, source)
    return replace(provider, api_key=Secret(secret, source), configured=True)


def normal_base_url(raw: object) -> str | None:
    """An http or https URL with a host and without a trailing slash, query or fragment; None for anything else."""
    text = raw.strip() if isinstance(raw, str) else ""
    if any(character.isspace() or not character.isprintable() for character in text):
        return None
    try:
        parts = urlsplit(text)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not has_host or parts.query or parts.fragment:
        return None
    return text.rstrip("/")


def ollama_base_url(raw: str) -> str | None:
    """The base URL for `OLLAMA_HOST`, which may be a host, `host:port`, `:port` or a URL; None when it is none of them.

    As Ollama reads it: without a scheme the port is 11434, with one it is the scheme's own. Addresses that a server
    listens on (`0.0.0.0`, `::`) are reached on loopback.
    """
    bare = "://" not in raw
    text = f"http://{raw}" if bare else raw
    if bare and raw.startswith(":"):
        text = f"http://127.0.0.1{raw}"
    url = normal_base_url(text)
    if url is None:
        return None
    parts = urlsplit(url)
    host = _reachable(parts.hostname or "")
    port = parts.port or (_OLLAMA_PORT if bare else None)
    authority = f"[{host}]" if ":" in host else host
    if port is not None:
        authority = f"{authority}:{port}"
    path = parts.path if parts.path.endswith("/v1") else f"{parts.path}/v1"
    return f"{parts.scheme}://{authority}{path}"


def _reachable(host: str) -> str:
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def show_url(url: str) -> str:
    """`url` without a password that it may carry."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return url.replace(parts.netloc, f"{_MASK}@{parts.netloc.rpartition('@')[2]}", 1)


class ProviderKey(Struct, frozen=True):
    """One key of a provider's table."""

    about: str
    """Markdown, for the reference."""
    rule: Rule
    show: Callable[[object], str] = str
    why: Callable[[object], str] = lambda _: ""
    """The key that is wrong inside a table; empty when it is the whole."""
    instead: str = "the default is used"
    with_it: Mapping[str, bool] = {}
    """The fields that change with it."""


def _changed(provider: ProviderSettings, name: str, key: ProviderKey, raw: object) -> ProviderSettings | None:
    """`provider` with what its table says; None when that cannot be used."""
    value = read_oauth(raw, provider.oauth) if name == "oauth" else key.rule.check(raw)
    if value is None:
        return None
    if name in Quirks.__struct_fields__:
        return replace(provider, quirks=replace(provider.quirks, **{name: value}))
    return replace(provider, **{name: value}, **key.with_it)


def _show_oauth(raw: object) -> str:
    return str(raw.get("authorization_url") or raw.get("device_url") or "set") if is_table(raw) else ""


def wrong_header(raw: object) -> str:
    """The problem with the first header of a table that cannot be sent; empty when all can be (RFC 9110, 5.5)."""
    for name, value in raw.items() if is_table(raw) else ():
        if not _HEADER_NAME.fullmatch(name):
            return "a name in it is none that a header may have (letters, digits and -, no blanks)"
        if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
            return f"the value of {name} must be text of printable ASCII characters in one line"
    return ""


def _headers(raw: object) -> Mapping[str, str] | None:
    return {name: str(value) for name, value in raw.items()} if is_table(raw) and not wrong_header(raw) else None


def _models(raw: object) -> tuple[str, ...] | None:
    if not _is_list(raw):
        return None
    models = tuple(item for item in raw if isinstance(item, str) and item.strip())
    return models if len(models) == len(raw) else None


def _is_list(raw: object) -> TypeGuard[list[object]]:
    return isinstance(raw, list)


def _show_headers(raw: object) -> str:
    return ", ".join(f"{name}: {_MASK}" for name in raw) if is_table(raw) else ""


def _show_models(raw: object) -> str:
    return ", ".join(str(item) for item in raw) if _is_list(raw) else ""


PROVIDER_KEYS: Mapping[str, ProviderKey] = {
    "wire": ProviderKey(
        "`openai` (Chat Completions, the default), `responses`, `anthropic` or `gemini`: what the server speaks.",
        choice(*_TABLE_WIRES),
    ),
    "base_url": ProviderKey(
        "Where it is, without the wire's own path: `https://api.example.com/v1` for `openai`. Required.",
        Rule("an http:// or https:// URL with a host, and without query and fragment", normal_base_url),
        lambda raw: show_url(str(raw)),
        instead="the provider is left out",
        # Another server than the preset's: whether it wants a key is for it to say.
        with_it={"needs_key": False},
    ),
    "api_key_env": ProviderKey(
        "The variable that holds the key. The key itself is never in a file of ours.",
        # A key pasted here by mistake is no variable's name in most forms, and is refused without being shown.
        matching(_VARIABLE, "the name of the environment variable that holds the key"),
        with_it={"key_variable_named": True},
    ),
    "headers": ProviderKey(
        "A table of headers to send with every request.",
        Rule("a table of text, printable and ASCII", _headers, dict[str, str]),
        _show_headers,
        wrong_header,
        # One of them may be what says who asks.
        with_it={"needs_key": False},
    ),
    "models": ProviderKey(
        "The models to offer; without it the server's own list is asked, once a day.",
        Rule("a list of text", _models, list[str]),
        _show_models,
    ),
    "answer_limit": ProviderKey(
        "The field that limits an answer: `max_tokens` (the default) or `max_completion_tokens`.",
        choice("max_tokens", "max_completion_tokens"),
    ),
    "usage_on_request": ProviderKey(
        "`false` for a server that refuses `stream_options`; it is `true` otherwise.", YES_OR_NO
    ),
    "continues_answers": ProviderKey(
        "How the server continues an answer that broke off: `prefix` (as Mistral), `partial` (Moonshot) or "
        "`continue_final_message` (vLLM, llama.cpp). Default: it is asked in words to continue.",
        choice(*CONTINUING),
    ),
    "host": ProviderKey(
        "Whose cloud serves the models of the wire `anthropic`: `vertex` or `bedrock` (docs/reference/providers.md).",
        choice(*_HOSTS),
    ),
    "region": ProviderKey(
        "The region of that cloud; without it the variable of the cloud counts.",
        matching(_REGION, "a region, such as europe-west1"),
        instead="the usual one is taken",
    ),
    "project": ProviderKey(
        "The project at Google; without it `GOOGLE_CLOUD_PROJECT`, or the one of the credentials.",
        matching(_PROJECT, "the id of a project"),
        instead="the one of the credentials is taken",
    ),
    "oauth": ProviderKey(
        "A table: how `pattern-acp auth login` signs in (docs/reference/providers.md).",
        Rule(OAUTH_ALLOWED, lambda raw: read_oauth(raw, None), dict[str, str | int | bool]),
        _show_oauth,
        wrong_oauth,
    ),
}
"""The keys of a table, in the order in which they are described."""


TABLE = "models"
_ID = late_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}/\S{1,200}")
_MOST_TOKENS = 100_000_000
_MOST_DOLLARS = 1_000_000
_LEVELS = ("off", "low", "medium", "high", "max")


class ModelKey(Struct, frozen=True):
    """One key of such a table."""

    about: str
    rule: Rule
    """The value of the field of the same name in `ModelSettings`."""


def read_models(
    file: TomlFile,
) -> tuple[Mapping[str, ModelSettings], tuple[Problem, ...], tuple[EffectiveValue, ...]]:
    """The tables by `PROVIDER/MODEL`. A key that cannot be used is left out and reported."""
    models: dict[str, ModelSettings] = {}
    problems: list[Problem] = []
    values: list[EffectiveValue] = []
    raw = file.table.get(TABLE, {})
    if not is_table(raw):
        return {}, (file.problem(TABLE, 'it must be tables [models."PROVIDER/MODEL"], so it is not used.'),), ()
    for name, table in raw.items():
        if not _ID.fullmatch(name) or not is_table(table):
            sentence = 'a model is a table [models."PROVIDER/MODEL"], with quotes around its name; it is left out.'
            problems.append(file.problem(f"{TABLE}.{name}", sentence))
            continue
        models[name] = ModelSettings()
        for key, value in table.items():
            found = _read_key(models[name], file, name, key, value)
            if isinstance(found, Problem):
                problems.append(found)
                continue
            models[name] = found
            place = file.place_of(f"{TABLE}.{name}.{key}")
            values.append(EffectiveValue(f'{TABLE}."{name}".{key}', _shown(value), place))
    return models, tuple(problems), tuple(values)


def refused_models(project: TomlFile) -> Iterator[Problem]:
    """Why a project's tables are not used."""
    if TABLE in project.table:
        sentence = "a project may not say what models can do or cost; it is not used. Put it into your own file."
        yield project.problem(TABLE, sentence)


def _read_key(before: ModelSettings, file: TomlFile, name: str, key: str, value: object) -> ModelSettings | Problem:
    place, line = f'{TABLE}."{name}".{key}', file.line_of(f"{TABLE}.{name}.{key}")
    known = MODEL_KEYS.get(key)
    if known is None:
        sentence = f"there is no such key; allowed are {', '.join(MODEL_KEYS)}. It is not used."
        return Problem(file.path, line, place, sentence)
    used = known.rule.check(value)
    if used is None:
        sentence = f"it must be {known.rule.allowed}{but_is(value, known.rule.allowed)}; it is not used."
        return Problem(file.path, line, place, sentence)
    return replace(before, **{key: used})


def _price(raw: object) -> int | None:
    """Micro-units from dollars, exact: a TOML float is taken by its digits."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        return None
    try:
        dollars = Decimal(str(raw))
    except InvalidOperation:
        return None
    return round(dollars * 1_000_000) if dollars.is_finite() and 0 <= dollars <= _MOST_DOLLARS else None


def _levels(raw: object) -> tuple[str, ...] | None:
    levels = cast("list[object]", raw) if isinstance(raw, list) else [None]
    known = all(isinstance(level, str) and level in _LEVELS for level in levels)
    return tuple(level for level in _LEVELS if level in levels) if known else None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(str(item) for item in cast("list[object]", value)) if isinstance(value, list) else str(value)


_TOKENS = Rule(
    f"a whole number from 1 to {_MOST_TOKENS:,}", number(1, _MOST_TOKENS).check, int, bounds=(1, _MOST_TOKENS)
)
_PRICE = Rule("a number of US dollars from 0 on", _price, float | str)

MODEL_KEYS: Mapping[str, ModelKey] = {
    "context_window": ModelKey("Tokens that a request and its answer may have together.", _TOKENS),
    "max_output_tokens": ModelKey("Tokens that the model can write at most.", _TOKENS),
    "tools": ModelKey("Whether it has native tool calls; without, it writes them as text.", YES_OR_NO),
    "images": ModelKey("Whether it sees images.", YES_OR_NO),
    "thinking": ModelKey(
        "How much it can be asked to think; empty: not at all.",
        Rule("a list of off, low, medium, high, max", _levels, list[Literal[_LEVELS]]),
    ),
    "thinking_level": ModelKey(
        "How much it thinks in new sessions, instead of `thinking` outside this table.", choice("auto", *_LEVELS)
    ),
    "input_price": ModelKey("US dollars a million tokens of the prompt.", _PRICE),
    "output_price": ModelKey("US dollars a million tokens of the answer.", _PRICE),
    "cached_price": ModelKey("The same for tokens from the cache; `input_price` without.", _PRICE),
    "cache_write_price": ModelKey("The same for tokens written to the cache; `input_price` without.", _PRICE),
}
"""The keys of a table, in the order in which they are described."""
