"""The models of a provider, and the model servers on this machine.

Owns: the list requests and the meaning of their answers. Must not know: the cache and the choice.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.errors import ProviderError
from pattern_acp.providers.catalogue import ListedModel, Thinking
from pattern_acp.providers.choose import LOCAL_SECONDS, LocalServer
from pattern_acp.providers.endpoints import base_url, endpoint, headers_of
from pattern_acp.providers.http import HttpClient
from pattern_acp.providers.http_errors import ProviderProtocolError, error_of_status

OWNER = "llamacpp"
"""Owner of a model in llama-server's list."""

PROPS_SECONDS = 2.0

PROPS_BYTES = 1024 * 1024
"""The answer includes the chat template, which is some kilobytes."""


class _TemplateCapabilities(msgspec.Struct):
    supports_tools: bool | None = None


class _Props(msgspec.Struct):
    chat_template_caps: _TemplateCapabilities | None = None


async def template_takes_tools(http: HttpClient, settings: ProviderSettings) -> bool | None:
    """Return whether tools reach the model; None if the server does not say (older ones, or several models)."""
    with anyio.move_on_after(PROPS_SECONDS):
        try:
            status, body = await http.get(settings.name, props_url(settings), headers_of(settings), PROPS_BYTES)
            capabilities = msgspec.json.decode(body, type=_Props).chat_template_caps if status == 200 else None
        except (ProviderError, msgspec.MsgspecError, UnicodeDecodeError):
            return None
        return None if capabilities is None else capabilities.supports_tools
    return None


def props_url(settings: ProviderSettings) -> str:
    """Address of the server's properties: beside `/v1`, not under it."""
    parts = urlsplit(base_url(settings))
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix("/v1") + "/props", "", ""))


LIST_SECONDS = 10.0
"""A list that takes longer is left for the next start."""

LIST_BYTES = 4 * 1024 * 1024

_QUERIES = {"anthropic": "?limit=1000", "gemini": "?pageSize=1000"}
"""Queries for the whole list in one page, where a vendor would split it."""


class _Supported(msgspec.Struct):
    supported: bool = False


class _ThinkingTypes(msgspec.Struct):
    adaptive: _Supported = msgspec.field(default_factory=_Supported)
    enabled: _Supported = msgspec.field(default_factory=_Supported)
    disabled: _Supported = msgspec.field(default_factory=_Supported)


class _ThinkingCapability(msgspec.Struct):
    supported: bool = False
    types: _ThinkingTypes = msgspec.field(default_factory=_ThinkingTypes)


class _Capabilities(msgspec.Struct):
    image_input: _Supported | None = None
    thinking: _ThinkingCapability | None = None
    function_calling: bool | None = None
    """Mistral's words for tool calls, and `vision` for images."""
    vision: bool | None = None


class _Meta(msgspec.Struct):
    n_ctx: int | None = None
    n_ctx_train: int | None = None


class _Model(msgspec.Struct):
    """One model as Anthropic, OpenAI, vLLM (`max_model_len`), OpenRouter (`context_length`), llama-server list it."""

    id: str
    lifecycle: str | None = None
    owned_by: object = None
    max_input_tokens: int | None = None
    max_tokens: int | None = None
    capabilities: _Capabilities | list[object] | None = None
    max_model_len: int | None = None
    context_length: int | None = None
    meta: _Meta | None = None
    supported_parameters: list[object] | None = None
    """OpenRouter's field, which includes `tools`; `architecture` has its kinds of input, `pricing` dollars a token as
    text."""
    architecture: dict[str, object] | None = None
    pricing: dict[str, object] | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


class _GeminiModel(msgspec.Struct, rename="camel"):
    name: str
    input_token_limit: int | None = None
    output_token_limit: int | None = None
    supported_generation_methods: list[str] = msgspec.field(default_factory=list[str])


class _GeminiModels(msgspec.Struct):
    models: list[_GeminiModel]


class _OllamaModel(msgspec.Struct):
    name: str


class _OllamaModels(msgspec.Struct):
    models: list[_OllamaModel]


class FetchedModels(Struct, frozen=True):
    """Contents of a provider's list."""

    models: tuple[ListedModel, ...]
    is_llama_server: bool = False
    """True for llama-server with one model, which has more about it in `/props`."""


class _Found(Struct):
    servers: dict[str, LocalServer]


async def fetch_models(http: HttpClient, settings: ProviderSettings) -> tuple[ListedModel, ...]:
    """Fetch the provider's own list, with llama-server's separate answer about its model's tools.

    Raises:
        ProviderError: it is not available; the sentence says why.
    """
    fetched = await _fetch_list(http, settings)
    return await _with_template(http, settings, fetched)


async def _fetch_list(http: HttpClient, settings: ProviderSettings) -> FetchedModels:
    query = _QUERIES.get(settings.wire, "")
    address = endpoint(settings, f"models{query}")
    status, body = await http.get(settings.name, address, headers_of(settings), LIST_BYTES)
    if status != 200:
        raise error_of_status(settings, "", status, body)
    if settings.wire == "gemini":
        return FetchedModels(parse_gemini_models(body, settings.name))
    return parse_models(body, settings.name)


async def _with_template(
    http: HttpClient, settings: ProviderSettings, fetched: FetchedModels
) -> tuple[ListedModel, ...]:
    if not fetched.is_llama_server:
        return fetched.models
    takes_tools = await template_takes_tools(http, settings)
    return tuple(replace(model, calls_tools=takes_tools) for model in fetched.models)


def parse_models(body: bytes, name: str) -> FetchedModels:
    """The models of a list in the format of OpenAI or Anthropic; retired ones are left out.

    Raises:
        ProviderProtocolError: it is no such list.
    """
    try:
        models = msgspec.json.decode(body, type=_Models).data
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProviderProtocolError(f"{name} answered with something that is no model list; check base_url.") from error
    current = tuple(_listed(model) for model in models if model.lifecycle != "retired")
    return FetchedModels(current, is_llama_server=len(models) == 1 and models[0].owned_by == OWNER)


def parse_gemini_models(body: bytes, name: str) -> tuple[ListedModel, ...]:
    """The models of Google's list that answer prompts. Raises ProviderProtocolError where it is no such list."""
    try:
        listed = msgspec.json.decode(body, type=_GeminiModels).models
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProviderProtocolError(f"{name} answered with something that is no model list; check base_url.") from error
    return tuple(
        ListedModel(model.name.removeprefix("models/"), model.input_token_limit or 0, model.output_token_limit or 0)
        for model in listed
        if "generateContent" in model.supported_generation_methods
    )


def _listed(model: _Model) -> ListedModel:
    meta = model.meta or _Meta()
    window = model.max_input_tokens or model.max_model_len or model.context_length or meta.n_ctx or meta.n_ctx_train
    capabilities = model.capabilities if isinstance(model.capabilities, _Capabilities) else _Capabilities()
    sees = capabilities.vision if capabilities.image_input is None else capabilities.image_input.supported
    kinds = (model.architecture or {}).get("input_modalities")
    if sees is None and isinstance(kinds, list):
        sees = "image" in kinds
    tools = capabilities.function_calling
    if tools is None and model.supported_parameters:
        tools = "tools" in model.supported_parameters
    prices = model.pricing or {}
    return ListedModel(
        model.id,
        window or 0,
        model.max_tokens or 0,
        sees,
        _thinking(capabilities.thinking),
        tools,
        _price(prices.get("prompt")),
        _price(prices.get("completion")),
        _price(prices.get("input_cache_read")),
        _price(prices.get("input_cache_write")),
    )


def _price(raw: object) -> int:
    """Convert dollars a token as text to micro-units a million tokens; other lists use other units and names."""
    try:
        dollars = Decimal(raw) if isinstance(raw, str) else Decimal(0)
    except InvalidOperation:
        return 0
    return round(dollars * 1_000_000_000_000) if dollars.is_finite() and 0 < dollars < 1 else 0


def _thinking(capability: _ThinkingCapability | None) -> str:
    if capability is None:
        return ""
    if not capability.supported:
        return Thinking.NONE
    if capability.types.adaptive.supported:
        return Thinking.ADAPTIVE if capability.types.disabled.supported else Thinking.ALWAYS
    return Thinking.BUDGET if capability.types.enabled.supported else Thinking.NONE


async def find_local_servers(
    http: HttpClient, candidates: Sequence[ProviderSettings], seconds: float = LOCAL_SECONDS
) -> tuple[LocalServer, ...]:
    """The candidates that answer within `seconds` in all and have a model, in the candidates' order. Never raises."""
    found = _Found({})
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:
            for settings in candidates:
                tasks.start_soon(_probe, http, settings, found)
    return tuple(found.servers[settings.name] for settings in candidates if settings.name in found.servers)


async def _probe(http: HttpClient, settings: ProviderSettings, found: _Found) -> None:
    try:
        is_ollama = settings.name == "ollama"
        fetched = await (_ollama_models(http, settings) if is_ollama else _fetch_list(http, settings))
    except ProviderError:
        # Nobody there, or somebody else: both mean that there is no such server.
        return
    if fetched.models:
        found.servers[settings.name] = LocalServer(settings, fetched.models)
        # Afterwards: a server that is slow to answer this is still one.
        found.servers[settings.name] = LocalServer(settings, await _with_template(http, settings, fetched))


async def _ollama_models(http: HttpClient, settings: ProviderSettings) -> FetchedModels:
    """Fetch Ollama's own list; unlike its OpenAI-compatible one it identifies Ollama."""
    status, body = await http.get(settings.name, ollama_tags_url(settings), {}, LIST_BYTES)
    if status != 200:
        raise error_of_status(settings, "", status, body)
    try:
        models = msgspec.json.decode(body, type=_OllamaModels).models
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProviderProtocolError("The server at Ollama's address is not Ollama; check OLLAMA_HOST.") from error
    return FetchedModels(tuple(ListedModel(model.name) for model in models))


def ollama_tags_url(settings: ProviderSettings) -> str:
    """Address of Ollama's list: beside `/v1`, not under it."""
    parts = urlsplit(base_url(settings))
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix("/v1") + "/api/tags", "", ""))
