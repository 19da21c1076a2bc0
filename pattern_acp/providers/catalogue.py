"""Facts about models: windows, prices, capabilities, and their sources.

Owns: the table of well-known models, the file of a thousand others (`model_data.json`, written by scripts/model_data
from genai-prices), the cost of a request and the limit of an answer. Nothing else in the program derives a model's
abilities from its name. A provider's own list is laid over this (`refine`), and the user's settings over everything.
Must not know: HTTP.

Facts were read from the vendors' model and price pages on 2026-11-27. A model that is not here works all the same, with
the defaults of `ModelInfo` and without a price.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import cache, lru_cache
from itertools import chain, takewhile
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import ModelSettings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.base import ModelInfo, ModelProperty, ProviderRequest, ThoughtLevel

CONFIGURED_PRICES = "config.toml"
"""The name of the user's own price table; costs are recorded with it."""


class Source(StrEnum):
    """Source of a property, the strongest first."""

    CONFIG = "config.toml"
    ANSWER = "its own answer"
    """The model refused what it was thought to take."""
    LIST = "the provider's list"
    DATA = "the model data of this version"
    ASSUMED = "assumed"


def with_sources(info: ModelInfo, source: Source, *figures: ModelProperty) -> ModelInfo:
    """Record `source` as the source of these properties."""
    return replace(info, sources={**info.sources, **dict.fromkeys(figures, source.value)})


def source_of(info: ModelInfo, figure: ModelProperty) -> str:
    """Return the source of a property; a price without one is unknown, not assumed."""
    found = info.sources.get(figure)
    if found is not None:
        return found
    if figure is ModelProperty.PRICES:
        return "it runs on this machine" if info.is_free else "not known"
    return Source.ASSUMED


def is_assumed_free(info: ModelInfo) -> bool:
    """Return whether a model counts as free only because its server is on this machine, which may be a gateway."""
    return info.is_free and source_of(info, ModelProperty.PRICES) == Source.ASSUMED


def assumed(info: ModelInfo) -> str:
    """Describe the assumed properties of a model in words; empty when all that matters is known."""
    words: Mapping[ModelProperty, str] = {
        ModelProperty.WINDOW: f"a window of {info.context_window:,} tokens",
        ModelProperty.OUTPUT: f"answers of up to {info.max_output_tokens:,} tokens",
        ModelProperty.IMAGES: "images" if info.sees_images else "no images",
        ModelProperty.THINKING: "thinking" if info.thought_levels else "no thinking levels",
        ModelProperty.TOOLS: "tool calls" if info.calls_tools else "no tool calls",
        ModelProperty.PRICES: "no cost, since its server is on this machine",
    }
    taken = [text for figure, text in words.items() if source_of(info, figure) == Source.ASSUMED]
    if source_of(info, ModelProperty.PRICES) == "not known":
        taken.append("no prices")
    return ", ".join(taken)


def with_configured(info: ModelInfo, own: ModelSettings) -> ModelInfo:
    """Apply the user's settings of a model."""
    said: list[ModelProperty] = []
    if own.context_window:
        info = replace(info, context_window=own.context_window)
        said.append(ModelProperty.WINDOW)
    if own.max_output_tokens:
        info = replace(info, max_output_tokens=own.max_output_tokens)
        said.append(ModelProperty.OUTPUT)
    if own.tools is not None:
        info = replace(info, calls_tools=own.tools)
        said.append(ModelProperty.TOOLS)
    if own.images is not None:
        info = replace(info, sees_images=own.images)
        said.append(ModelProperty.IMAGES)
    if own.thinking is not None:
        info = replace(info, thought_levels=tuple(ThoughtLevel(level) for level in own.thinking))
        said.append(ModelProperty.THINKING)
    if own.input_price is not None or own.output_price is not None:
        info = _with_own_prices(info, own)
        said.append(ModelProperty.PRICES)
    return with_sources(info, Source.CONFIG, *said)


def _with_own_prices(info: ModelInfo, own: ModelSettings) -> ModelInfo:
    given = own.input_price if own.input_price is not None else info.input_price
    written = own.output_price if own.output_price is not None else info.output_price
    cached = own.cached_price if own.cached_price is not None else given
    cache_write = own.cache_write_price if own.cache_write_price is not None else given
    return replace(
        info,
        input_price=given,
        output_price=written,
        cache_read_price=cached,
        cache_write_price=cache_write,
        # One price for all lengths, since the user named one.
        long_prompt_tokens=0,
        long_input_percent=100,
        long_output_percent=100,
        prices=CONFIGURED_PRICES if given or written else "",
        is_free=not given and not written,
    )


FILE = Path(__file__).parent / "model_data.json"


class ModelData(Struct, frozen=True):
    """The file's record of one model. Prices in micro-units a million tokens; `window` 0 if unknown."""

    window: int
    input_price: int
    output_price: int
    cache_read_price: int
    cache_write_price: int
    long_prompt_tokens: int
    long_input_percent: int
    long_output_percent: int
    source: str
    """The table and its version."""


_DataRow: TypeAlias = tuple[list[str], str, int, int, int, int, int, int, int, int]
"""The names of a model, a pattern of more names or nothing, and the numbers of `ModelData` in their order."""


_DOT = "\0"
"""Stands for a dot that is one; a bare dot of a pattern is any letter."""

_ONLY_LETTERS = str.maketrans("", "", f"-/:_@ {_DOT}")


class _File(msgspec.Struct, frozen=True):
    source: str
    providers: dict[str, list[_DataRow]]


def find_model(provider: str, model: str) -> ModelData | None:
    """Return the record of a provider's model; an unknown provider's models are not guessed from their names."""
    return _find(provider, model.lower())


@cache
def _file() -> _File:
    return msgspec.json.decode(FILE.read_bytes(), type=_File)


@cache
def _by_name(provider: str) -> dict[str, _DataRow]:
    return {name: row for row in _file().providers.get(provider, ()) for name in row[0]}


@cache
def _find(provider: str, model: str) -> ModelData | None:
    # By exact name first, then by candidate patterns: compiling all patterns of a vendor takes as long as its import.
    row = _by_name(provider).get(model)
    if row is None:
        rows = _file().providers.get(provider, [])
        row = next((row for row in rows if _may_match(row[1], model) and re.fullmatch(row[1], model)), None)
    return None if row is None else ModelData(*row[2:], source=_file().source)


def _may_match(pattern: str, name: str) -> bool:
    """Return whether a pattern may match a name, judging without compiling it by its words.

    Most patterns are words with anything before or behind them; any other may match any name.
    """
    plain = pattern.replace("\\-", "-").replace("\\.", _DOT)
    # A name with the day of its release, and nothing around it.
    plain = plain.replace("(?=.*?(?:^", "").replace("$)).*", "")
    plain = plain.replace("\\d{8}", ".*").replace("\\d{4}", ".*").replace("\\d{2}", ".*")
    ways = [way.split(".*") for way in plain.split("|")]
    letters = "".join(chain.from_iterable(ways)).translate(_ONLY_LETTERS)
    if letters and not letters.isalnum():
        return True
    return bool(pattern) and any(all(word.replace(_DOT, ".") in name for word in way) for way in ways)


PRICES = "pattern-acp 2026-11-27"
"""The version of the prices below; it changes with them, since costs are recorded with it."""

_USD = 1_000_000
"""Micro-units of a dollar."""


class Thinking(StrEnum):
    """Ways in which the Anthropic and Gemini wires ask a model to think."""

    NONE = "none"
    BUDGET = "budget"
    """`thinking.type=enabled` with a number of tokens (up to 4.5)."""
    ADAPTIVE = "adaptive"
    """`thinking.type=adaptive` with an effort (from 4.6; the budget form is refused from 4.7)."""
    ALWAYS = "always"
    """Adaptive, and cannot be turned off."""


class ModelFeatures(Struct, frozen=True):
    """Features of a model that an encoder needs."""

    thinking: Thinking = Thinking.NONE
    takes_effort: bool = False
    """Takes `reasoning_effort` low, medium, high."""
    off_effort: str = ""
    """The effort word that turns reasoning (nearly) off; empty where there is none, and the parameter is left out."""
    reaches_max: bool = False
    """Has a level above high: the effort `max` or `xhigh`, or a larger number of tokens."""
    thinks_unasked: bool = True
    """False if a request without a field for it gets no reasoning, of a model that can."""
    fixed_effort: bool = False
    """Reasons as much as it will, and refuses most efforts, so that none is sent."""
    speaks_responses: bool = False
    """Is asked through the Responses API: OpenAI's own models that reason, some of which call tools only there."""
    writes_free_form: bool = False
    """True if it accepts custom tools, with one argument in plain text (OpenAI's own from GPT-5 on)."""
    thinks_by_level: bool = False
    """True if the Gemini wire asks for thinking by a level (from 3 on) rather than by a number of tokens."""
    echoes_reasoning: bool = False
    """Wants its `reasoning_content` back between tool calls, and refuses calls without any (DeepSeek, Kimi, MiMo)."""
    thinks_in_text: bool = False
    """Wants its reasoning back in `<think>` at the head of its text (MiniMax)."""
    continues_answers: bool = False
    """True if the Anthropic wire continues with an answer whose beginning is the last message (up to 4.5)."""
    is_mistral: bool = False
    """Takes ids of nine letters and digits only, and no prompt right behind results; its template has both rules."""


class ModelFacts(Struct, frozen=True):
    """All that is known of one model."""

    info: ModelInfo
    traits: ModelFeatures


class ListedModel(Struct, frozen=True):
    """The entry of a provider's own list for a model; None and 0 for missing values."""

    name: str
    context_window: int = 0
    max_output_tokens: int = 0
    sees_images: bool | None = None
    thinking: str = ""
    calls_tools: bool | None = None
    input_price: int = 0
    """Micro-units a million tokens, as all prices here."""
    output_price: int = 0
    cache_read_price: int = 0
    cache_write_price: int = 0


class _Price(NamedTuple):
    """Dollars a million tokens. Where a page names no cache prices, Anthropic's usual tenth and five quarters count."""

    input: float
    output: float
    read: float | None = None
    write: float | None = None
    long_from: int = 0
    long_input: int = 100
    long_output: int = 100


class _Row(NamedTuple):
    pattern: str
    window: int
    output: int
    sees: bool
    price: _Price | None
    traits: ModelFeatures


_ADAPTIVE = ModelFeatures(Thinking.ADAPTIVE, reaches_max=True)
_ADAPTIVE_ASKED = ModelFeatures(Thinking.ADAPTIVE, reaches_max=True, thinks_unasked=False)
_ALWAYS = ModelFeatures(Thinking.ALWAYS, reaches_max=True)
_BUDGET = ModelFeatures(Thinking.BUDGET)
_BUDGET_ASKED = ModelFeatures(Thinking.BUDGET, thinks_unasked=False)
_BUDGET_MAX = ModelFeatures(Thinking.BUDGET, reaches_max=True, thinks_unasked=False)
_BY_LEVEL = ModelFeatures(Thinking.ALWAYS, thinks_by_level=True)
_EFFORT_MINIMAL = ModelFeatures(takes_effort=True, off_effort="minimal")
_EFFORT = ModelFeatures(takes_effort=True)
_NONE_ASKED = ModelFeatures(takes_effort=True, off_effort="none", thinks_unasked=False)
_NONE_MAX_ASKED = ModelFeatures(takes_effort=True, off_effort="none", reaches_max=True, thinks_unasked=False)
_NONE_MAX = ModelFeatures(takes_effort=True, off_effort="none", reaches_max=True)
_EFFORT_MAX = ModelFeatures(takes_effort=True, reaches_max=True)
_EFFORT_MAX_ASKED = ModelFeatures(takes_effort=True, reaches_max=True, thinks_unasked=False)
_FIXED = ModelFeatures(takes_effort=True, fixed_effort=True)
_PLAIN = ModelFeatures()
_ECHO = ModelFeatures(echoes_reasoning=True)
_BIG, _BIG_OUT = 1_000_000, 128_000
_GPT6 = 1_050_000
_LONG = 272_000
_SEES, _BLIND = True, False


def _gpt(price_in: float, price_out: float, read: float) -> _Price:
    """OpenAI's newer price shape: a higher price from 272,000 tokens of prompt on; writing to the cache is free."""
    return _Price(price_in, price_out, read, price_in, _LONG, 200, 150)


ROWS = (
    _Row(r"claude-(fable|mythos)-5-2", _BIG, _BIG_OUT, _SEES, _Price(8, 40), _ALWAYS),
    _Row(r"claude-(fable|mythos)", _BIG, _BIG_OUT, _SEES, _Price(10, 50), _ALWAYS),
    _Row(r"claude-opus-5-5", _BIG, _BIG_OUT, _SEES, _Price(4, 20, 0.2, 5), _ALWAYS),
    _Row(r"claude-opus-5", _BIG, _BIG_OUT, _SEES, _Price(5, 25), _ADAPTIVE),
    _Row(r"claude-opus-4-[678]", _BIG, _BIG_OUT, _SEES, _Price(5, 25), _ADAPTIVE_ASKED),
    _Row(r"claude-sonnet-5", _BIG, _BIG_OUT, _SEES, _Price(2, 10), _ADAPTIVE),
    _Row(r"claude-haiku-5", _BIG, _BIG_OUT, _SEES, _Price(0.1, 0.5, 0.01, 0.125, 100_000, 500, 500), _ADAPTIVE),
    _Row(r"claude-sonnet-4-6", 200_000, 64_000, _SEES, _Price(3, 15), _ADAPTIVE_ASKED),
    _Row(r"claude-opus-4-5", 200_000, 64_000, _SEES, _Price(5, 25), _BUDGET_MAX),
    _Row(r"claude-haiku-4-5", 200_000, 64_000, _SEES, _Price(1, 5), _BUDGET_MAX),
    _Row(r"claude-opus-4", 200_000, 32_000, _SEES, _Price(15, 75), _BUDGET_ASKED),
    _Row(r"claude-(sonnet-4|3-7)", 200_000, 64_000, _SEES, _Price(3, 15), _BUDGET_MAX),
    _Row(r"claude-3", 200_000, 8_192, _SEES, None, _PLAIN),
    _Row(r"claude-", 200_000, 32_000, _SEES, None, _ADAPTIVE),
    _Row(r"gpt-\d(\.\d)?-pro", 400_000, _BIG_OUT, _SEES, None, _FIXED),
    _Row(r"gpt-5(\.[2-9]-codex|\.1-codex-max)", 400_000, _BIG_OUT, _SEES, None, _EFFORT_MAX),
    _Row(r"gpt-5(\.\d)?-codex", 400_000, _BIG_OUT, _SEES, None, _EFFORT),
    _Row(r"gpt-6(\.\d)?-astra|gpt-6\.2-", _GPT6, _BIG_OUT, _SEES, None, _EFFORT_MAX),
    _Row(r"gpt-6\.1-sol", _GPT6, _BIG_OUT, _SEES, _gpt(2, 10, 0.1), _EFFORT_MAX),
    _Row(r"gpt-6\.1-terra", _GPT6, _BIG_OUT, _SEES, _gpt(1, 5, 0.05), _NONE_MAX),
    _Row(r"gpt-6-luna", _GPT6, _BIG_OUT, _SEES, _gpt(0.1, 0.5, 0.01), _NONE_MAX),
    _Row(r"gpt-6", _GPT6, _BIG_OUT, _SEES, None, _NONE_MAX),
    _Row(r"gpt-5\.6-sol", _GPT6, _BIG_OUT, _SEES, _gpt(4, 20, 0.4), _NONE_MAX),
    _Row(r"gpt-5\.6-terra", _GPT6, _BIG_OUT, _SEES, _gpt(2, 12, 0.2), _NONE_MAX),
    _Row(r"gpt-5\.6-luna", _GPT6, _BIG_OUT, _SEES, _gpt(0.2, 1.2, 0.02), _NONE_MAX),
    _Row(r"gpt-5\.[45]", 400_000, _BIG_OUT, _SEES, None, _EFFORT_MAX_ASKED),
    _Row(r"gpt-5(\.\d)?-chat", 128_000, 16_384, _SEES, None, _PLAIN),
    _Row(r"gpt-5\.[23]", 400_000, _BIG_OUT, _SEES, None, _NONE_MAX_ASKED),
    _Row(r"gpt-5\.1", 400_000, _BIG_OUT, _SEES, None, _NONE_ASKED),
    _Row(r"gpt-5-mini", 400_000, _BIG_OUT, _SEES, _Price(0.25, 2, 0.025, 0.25), _EFFORT_MINIMAL),
    _Row(r"gpt-5-nano", 400_000, _BIG_OUT, _SEES, _Price(0.05, 0.4, 0.005, 0.05), _EFFORT_MINIMAL),
    _Row(r"gpt-5", 400_000, _BIG_OUT, _SEES, _Price(1.25, 10, 0.125, 1.25), _EFFORT_MINIMAL),
    _Row(r"codex-", 200_000, 100_000, _SEES, None, _EFFORT),
    _Row(r"gpt-4\.1-mini", 1_047_576, 32_768, _SEES, _Price(0.4, 1.6, 0.1, 0.4), _PLAIN),
    _Row(r"gpt-4\.1", 1_047_576, 32_768, _SEES, _Price(2, 8, 0.5, 2), _PLAIN),
    _Row(r"gpt-4o-mini", 128_000, 16_384, _SEES, _Price(0.15, 0.6, 0.075, 0.15), _PLAIN),
    _Row(r"gpt-4o", 128_000, 16_384, _SEES, _Price(2.5, 10, 1.25, 2.5), _PLAIN),
    _Row(r"gpt-oss", 131_072, 32_768, _BLIND, None, _EFFORT),
    _Row(r"gpt-4|gpt-3", 128_000, 4_096, _BLIND, None, _PLAIN),
    _Row(r"o[134](-|$)", 200_000, 100_000, _SEES, None, _EFFORT),
    _Row(r"deepseek-(chat|coder)", 128_000, 8_192, _BLIND, None, _PLAIN),
    _Row(r"deepseek", 128_000, 32_768, _BLIND, None, _ECHO),
    _Row(r"kimi", 256_000, 32_768, _BLIND, None, _ECHO),
    _Row(r"gemini-2\.5-pro", 1_048_576, 65_536, _SEES, _Price(1.25, 10, 0.125, 1.25, 200_000, 200, 150), _ALWAYS),
    _Row(r"gemini-2\.5-flash-lite", 1_048_576, 65_536, _SEES, _Price(0.1, 0.4, 0.01, 0.1), _BUDGET_ASKED),
    _Row(r"gemini-2\.5-flash", 1_048_576, 65_536, _SEES, _Price(0.3, 2.5, 0.03, 0.3), _BUDGET),
    _Row(r"gemini-([3-9]|(pro|flash|flash-lite)-latest)", 1_048_576, 65_536, _SEES, None, _BY_LEVEL),
    _Row(r"gemini", 1_048_576, 65_536, _SEES, None, _PLAIN),
    _Row(r"(qwen.*vl|llava|pixtral|gemma3|gemma-3|.*vision)", 128_000, 8_192, _SEES, None, _PLAIN),
)
"""First match wins. The name is matched from its start, after any `VENDOR/` in front of it (OpenRouter)."""

_WRITES_PATCHES = r"gpt-(4\.1|[5-9]|oss)|o[34](-|$)|codex"
"""OpenAI's families since GPT-4.1, whose guide says that they were trained on the apply_patch format. Other vendors
name no format."""

_WRITES_FREE_FORM = r"gpt-[5-9]|codex"

_OF_MISTRAL = r"(mi|mini|code|dev|magi|lean)stral|mixtral|pixtral|voxtral"
_ECHOES = r"deepseek|kimi|mimo|glm-(4\.[5-9]|[5-9])"
_THINKS_IN_TEXT = r"minimax"
_CONTINUES = r"claude-(3|(opus|sonnet|haiku)-4(-[0-5](-|@|$)|-\d{8}|@|$))"
"""Claude's models before 4.6, which refuses a conversation that ends with a message of the model."""

_NOT_FOR_CHAT = (
    r"embed|whisper|tts|moderation|transcri|rerank|bge-|guard|dall-e|diffusion"
    r"|aqa|imagen|veo|gemini.*(image|live|audio|robotics|computer-use)"
)
_NOT_FOR_CHAT_AT_OPENAI = r"realtime|audio|image|sora|davinci|babbage|computer-use|search|instruct|deep-research"

DEFAULT_MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-terra",
    "responses": "gpt-6.1-terra",
    "gemini": "gemini-flash-latest",
}
"""The default model of a vendor, by wire, if the user names none: the current middle size."""


WELL_KNOWN = {
    "anthropic": ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-fable-5-2"),
    "openai": ("gpt-6.1-terra", "gpt-6.1-sol", "gpt-6-luna", "gpt-5.2", "gpt-5-mini"),
    "responses": ("gpt-6.1-terra", "gpt-6.1-sol", "gpt-6-luna", "gpt-5.2", "gpt-5-mini"),
    "gemini": ("gemini-flash-latest", "gemini-pro-latest", "gemini-2.5-pro", "gemini-2.5-flash"),
}
"""Models that a vendor offers, until its list has been fetched."""


def is_chat_model(name: str, *, is_openai: bool = False) -> bool:
    """Return whether a listed model supports conversations with tools over our wires, as far as its name shows."""
    # Compiled at first use: this module is imported on the way to the first answer.
    is_other = re.search(_NOT_FOR_CHAT, name.lower()) or (is_openai and re.search(_NOT_FOR_CHAT_AT_OPENAI, name))
    return not is_other


@lru_cache(maxsize=1024)
def describe(provider: str, model: str, listed: ListedModel | None = None, *, is_openai: bool = False) -> ModelFacts:
    """Return the facts about a model. `is_openai`: OpenAI itself serves it, which changes its requests."""
    short = vendor_name(model.rsplit("/", 1)[-1].lower())
    row = row_of(short)
    facts = ModelFacts(ModelInfo(provider, model), _PLAIN) if row is None else _facts(provider, model, row)
    if row is None or row.price is None:
        facts = replace(facts, info=_with_data(facts.info, is_known=row is not None))
    if re.match(_WRITES_PATCHES, short):
        facts = replace(facts, info=replace(facts.info, writes_patches=True))
    if listed is not None:
        facts = refine(facts, listed)
    if provider == "mistral" or re.search(_OF_MISTRAL, short):
        facts = replace(facts, traits=replace(facts.traits, is_mistral=True))
    if re.match(_ECHOES, short):
        facts = replace(facts, traits=replace(facts.traits, echoes_reasoning=True))
    if re.match(_CONTINUES, short):
        facts = replace(facts, traits=replace(facts.traits, continues_answers=True))
    if re.match(_THINKS_IN_TEXT, short):
        facts = replace(facts, traits=replace(facts.traits, thinks_in_text=True))
    if is_openai:
        free_form = re.match(_WRITES_FREE_FORM, short) is not None and facts.traits.takes_effort
        speaks_responses = facts.traits.takes_effort
        traits = replace(facts.traits, speaks_responses=speaks_responses, writes_free_form=free_form)
        return replace(facts, traits=traits)
    return facts


def vendor_name(name: str) -> str:
    """Strip vendor and region from Bedrock's name of a model, as in `us.anthropic.claude-opus-4-1-20250805-v1:0`."""
    before, vendor, own = name.partition("anthropic.")
    return own if vendor and (not before or re.fullmatch(r"[a-z-]{2,10}\.", before)) else name


def refine(facts: ModelFacts, listed: ListedModel) -> ModelFacts:
    """Lay the provider's own list over the facts."""
    info, traits = facts.info, facts.traits
    said = (
        *((ModelProperty.WINDOW,) if listed.context_window else ()),
        *((ModelProperty.OUTPUT,) if listed.max_output_tokens else ()),
        *((ModelProperty.IMAGES,) if listed.sees_images is not None else ()),
        *((ModelProperty.TOOLS,) if listed.calls_tools is not None else ()),
    )
    info = replace(
        with_sources(info, Source.LIST, *said),
        calls_tools=info.calls_tools if listed.calls_tools is None else listed.calls_tools,
        context_window=listed.context_window or info.context_window,
        max_output_tokens=listed.max_output_tokens or info.max_output_tokens,
        sees_images=info.sees_images if listed.sees_images is None else listed.sees_images,
    )
    if listed.thinking in tuple(Thinking):
        traits = replace(traits, thinking=Thinking(listed.thinking))
        info = with_sources(replace(info, thought_levels=_levels(traits)), Source.LIST, ModelProperty.THINKING)
    if listed.input_price or listed.output_price:
        info = with_sources(_listed_prices(info, listed), Source.LIST, ModelProperty.PRICES)
    return ModelFacts(info, traits)


def configure(facts: ModelFacts, own: ModelSettings) -> ModelFacts:
    """Lay the user's settings of the model over the facts.

    A model that thinks by the settings alone is asked in the newest way of its wire.
    """
    info, traits = with_configured(facts.info, own), facts.traits
    if own.thinking is None:
        return ModelFacts(info, traits)
    if not own.thinking:
        return ModelFacts(info, replace(traits, thinking=Thinking.NONE, takes_effort=False))
    if traits.thinking is Thinking.NONE and not traits.takes_effort:
        traits = replace(traits, thinking=Thinking.ADAPTIVE, takes_effort=True)
    return ModelFacts(info, replace(traits, fixed_effort=False))


def cost_of(info: ModelInfo, usage: Usage) -> Cost | None:
    """Return the cost of a request, rounded up to a micro-unit, or None when the prices are unknown."""
    if info.is_free:
        return Cost(0)
    if not info.input_price and not info.output_price:
        return None
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    is_long = 0 < info.long_prompt_tokens < prompt
    read = (
        usage.input_tokens * info.input_price
        + usage.cache_read_tokens * info.cache_read_price
        + usage.cache_write_tokens * info.cache_write_price
    ) * (info.long_input_percent if is_long else 100)
    written = usage.output_tokens * info.output_price * (info.long_output_percent if is_long else 100)
    return Cost(-(-(read + written) // (100 * _USD)))


@lru_cache(maxsize=1024)
def row_of(name: str) -> _Row | None:
    """The row of a model's name, without any vendor in front of it, in small letters; None when there is none."""
    # Only candidate patterns are compiled: all forty take as long as importing fifteen modules.
    rows = (row for row in ROWS if name.startswith(_beginning(row.pattern)) and re.match(row.pattern, name))
    return next(rows, None)


def _beginning(pattern: str) -> str:
    """The common beginning of all names that the pattern matches, as far as its first letters show."""
    if "|" in re.sub(r"\([^()]*\)", "", pattern):
        return ""
    plain = "".join(takewhile(lambda each: each.isalnum() or each == "-", pattern))
    # A repeatable letter may also be missing.
    return plain[:-1] if pattern[len(plain) :].startswith(("?", "*", "{")) else plain


def _facts(provider: str, model: str, row: _Row) -> ModelFacts:
    auto = ThoughtLevel.AUTO if row.traits.thinks_unasked else ThoughtLevel.MEDIUM
    info = ModelInfo(provider, model, row.window, row.output, row.sees, _levels(row.traits), auto)
    known = (
        ModelProperty.WINDOW,
        ModelProperty.OUTPUT,
        ModelProperty.IMAGES,
        ModelProperty.THINKING,
        ModelProperty.TOOLS,
    )
    info = with_sources(info, Source.DATA, *known, *((ModelProperty.PRICES,) if row.price else ()))
    return ModelFacts(_priced(info, row.price) if row.price else info, row.traits)


def _with_data(info: ModelInfo, *, is_known: bool) -> ModelInfo:
    """Fill in the table of many models for a model without a price here; `is_known`: its window is known."""
    data = find_model(info.provider, info.name)
    if data is None:
        return info
    has_prices = bool(data.input_price or data.output_price)
    said = (
        *((ModelProperty.WINDOW,) if is_known or data.window else ()),
        *((ModelProperty.PRICES,) if has_prices else ()),
    )
    return replace(
        with_sources(info, Source.DATA, *said),
        context_window=info.context_window if is_known else data.window or info.context_window,
        input_price=data.input_price,
        output_price=data.output_price,
        cache_read_price=data.cache_read_price,
        cache_write_price=data.cache_write_price,
        long_prompt_tokens=data.long_prompt_tokens,
        long_input_percent=data.long_input_percent,
        long_output_percent=data.long_output_percent,
        prices=data.source if has_prices else "",
    )


def _listed_prices(info: ModelInfo, listed: ListedModel) -> ModelInfo:
    return replace(
        info,
        input_price=listed.input_price,
        output_price=listed.output_price,
        cache_read_price=listed.cache_read_price or listed.input_price,
        cache_write_price=listed.cache_write_price or listed.input_price,
        long_prompt_tokens=0,
        long_input_percent=100,
        long_output_percent=100,
        prices=f"the list of {info.provider}",
    )


def _priced(info: ModelInfo, price: _Price) -> ModelInfo:
    read = price.input / 10 if price.read is None else price.read
    write = price.input * 1.25 if price.write is None else price.write
    return replace(
        info,
        input_price=round(price.input * _USD),
        output_price=round(price.output * _USD),
        cache_read_price=round(read * _USD),
        cache_write_price=round(write * _USD),
        long_prompt_tokens=price.long_from,
        long_input_percent=price.long_input,
        long_output_percent=price.long_output,
        prices=PRICES,
    )


def _levels(traits: ModelFeatures) -> tuple[ThoughtLevel, ...]:
    some = (ThoughtLevel.LOW, ThoughtLevel.MEDIUM, ThoughtLevel.HIGH)
    some = (*some, ThoughtLevel.MAX) if traits.reaches_max else some
    if traits.fixed_effort:
        return ()
    if traits.thinking is Thinking.ALWAYS:
        return some
    if traits.thinking is not Thinking.NONE or traits.takes_effort:
        return (ThoughtLevel.OFF, *some)
    return ()


REASONING_TOKENS: Mapping[ThoughtLevel, int] = {
    # The models' default thinking is about that of the medium level.
    ThoughtLevel.AUTO: 10_240,
    ThoughtLevel.OFF: 0,
    ThoughtLevel.LOW: 4_096,
    ThoughtLevel.MEDIUM: 10_240,
    ThoughtLevel.HIGH: 24_576,
    ThoughtLevel.MAX: 32_768,
}
"""Space for reasoning on top of the answer's tokens, since it counts towards the limit."""


def effort_word(level: ThoughtLevel) -> str:
    """Return the word for a level on the wires of OpenAI."""
    return "xhigh" if level is ThoughtLevel.MAX else level.value


USUAL_ANSWER_TOKENS = 8_192
"""Part of the window that is always reserved for an answer. A longer one takes what the conversation leaves besides, so
that a conversation is not compacted sooner for answers that hardly ever come."""

ESTIMATE_PERCENT = 115
"""Margin of a token estimate, before an answer takes the rest of the window."""

REASONING_SHARE = 4
"""Inverse of the largest share of a window that is reserved for reasoning."""


def reasoning_room(info: ModelInfo, level: ThoughtLevel) -> int:
    """Return the tokens that a model may reason at a level, within its window."""
    return min(REASONING_TOKENS[level], info.context_window // REASONING_SHARE)


def reserve_of(info: ModelInfo, answer_tokens: int, level: ThoughtLevel) -> int:
    """Return the tokens of the window to reserve for an answer of this length and the reasoning before it."""
    room = reasoning_room(info, level) if info.thought_levels else 0
    return min(answer_tokens + room, max(info.max_output_tokens, answer_tokens))


def answer_beside(info: ModelInfo, answer_tokens: int, level: ThoughtLevel, request_tokens: int) -> int:
    """Tokens that an answer may have beside a request of about so many, of the `answer_tokens` that are wanted."""
    reasoning = reserve_of(info, answer_tokens, level) - answer_tokens
    left = info.context_window - request_tokens * ESTIMATE_PERCENT // 100 - reasoning
    return min(answer_tokens, max(left, USUAL_ANSWER_TOKENS))


def answer_limit(request: ProviderRequest, facts: ModelFacts, *, reasons: bool, unasked: bool = False) -> int:
    """The limit in tokens: the requested length and the reasoning, within the model's own limit.

    `reasons`: the model can be asked to reason; `unasked`: it does so even when asked not to.
    """
    level = request.thought_level
    if level is ThoughtLevel.OFF and unasked:
        level = ThoughtLevel.MEDIUM
    room = reasoning_room(facts.info, level) if reasons else 0
    return min(request.max_output_tokens + room, max(facts.info.max_output_tokens, request.max_output_tokens))
