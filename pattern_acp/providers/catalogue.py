"""What is known of well-known models.

Owns: windows, prices and capabilities by name, and the cost of a request. Nothing else in the program asks a model's
name what it can do. A provider's own model list, when it says more, is laid over this (`refine`). Must not know: HTTP.

Facts were read from the vendors' model and price pages on 2026-11-27. A model that is not here works all the same, with
the defaults of `ModelInfo` and without a price.
"""

import re
from enum import StrEnum
from functools import lru_cache
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.config.settings import ModelSettings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.base import Figure, ModelInfo, ThoughtLevel
from pattern_acp.providers.model_figures import Source, with_configured, with_sources

PRICES = "pattern-acp 2026-11-27"
"""The version of the prices below; it changes with them, since costs are recorded with it."""

_USD = 1_000_000
"""Micro-units of a dollar."""


class Thinking(StrEnum):
    """How the Anthropic and Gemini wires ask a model to think."""

    NONE = "none"
    BUDGET = "budget"
    """`thinking.type=enabled` with a number of tokens (up to 4.5)."""
    ADAPTIVE = "adaptive"
    """`thinking.type=adaptive` with an effort (from 4.6; the budget form is refused from 4.7)."""
    ALWAYS = "always"
    """Adaptive, and cannot be turned off."""


class Traits(Struct, frozen=True):
    """What an encoder must know of a model."""

    thinking: Thinking = Thinking.NONE
    takes_effort: bool = False
    """Takes `reasoning_effort` low, medium, high."""
    off_effort: str = ""
    """The effort word that turns reasoning (nearly) off; empty where there is none, and the parameter is left out."""
    fixed_effort: bool = False
    """Reasons as much as it will, and refuses most efforts, so that none is sent."""
    speaks_responses: bool = False
    """Is asked through the Responses API: OpenAI's own models that reason, some of which call tools only there."""
    writes_free_form: bool = False
    """Takes custom tools, whose one argument it writes as plain text (OpenAI's own from GPT-5 on)."""
    thinks_by_level: bool = False
    """How the Gemini wire asks a model to think: by a level (from 3 on) rather than by a number of tokens."""
    echoes_reasoning: bool = False
    """Wants its `reasoning_content` back between tool calls (DeepSeek, Kimi)."""


class ModelFacts(Struct, frozen=True):
    """All that is known of one model."""

    info: ModelInfo
    traits: Traits


class ListedModel(Struct, frozen=True):
    """What a provider's own list says of a model; None and 0 where it says nothing."""

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
    traits: Traits


_ADAPTIVE = Traits(Thinking.ADAPTIVE)
_ALWAYS = Traits(Thinking.ALWAYS)
_BUDGET = Traits(Thinking.BUDGET)
_BY_LEVEL = Traits(Thinking.ALWAYS, thinks_by_level=True)
_EFFORT_NONE = Traits(takes_effort=True, off_effort="none")
_EFFORT_MINIMAL = Traits(takes_effort=True, off_effort="minimal")
_EFFORT = Traits(takes_effort=True)
_FIXED = Traits(takes_effort=True, fixed_effort=True)
_PLAIN = Traits()
_ECHO = Traits(echoes_reasoning=True)
_BIG, _BIG_OUT = 1_000_000, 128_000
_GPT6 = 1_050_000
_LONG = 272_000
_SEES, _BLIND = True, False


def _gpt(price_in: float, price_out: float, read: float) -> _Price:
    """OpenAI's newer price shape: dearer from 272,000 tokens of prompt on; writing to the cache costs nothing extra."""
    return _Price(price_in, price_out, read, price_in, _LONG, 200, 150)


ROWS = (
    _Row(r"claude-(fable|mythos)-5-2", _BIG, _BIG_OUT, _SEES, _Price(8, 40), _ALWAYS),
    _Row(r"claude-(fable|mythos)", _BIG, _BIG_OUT, _SEES, _Price(10, 50), _ALWAYS),
    _Row(r"claude-opus-5-5", _BIG, _BIG_OUT, _SEES, _Price(4, 20, 0.2, 5), _ALWAYS),
    _Row(r"claude-opus-(5|4-[678])", _BIG, _BIG_OUT, _SEES, _Price(5, 25), _ADAPTIVE),
    _Row(r"claude-sonnet-5", _BIG, _BIG_OUT, _SEES, _Price(2, 10), _ADAPTIVE),
    _Row(r"claude-haiku-5", _BIG, _BIG_OUT, _SEES, _Price(0.1, 0.5, 0.01, 0.125, 100_000, 500, 500), _ADAPTIVE),
    _Row(r"claude-sonnet-4-6", 200_000, 64_000, _SEES, _Price(3, 15), _ADAPTIVE),
    _Row(r"claude-opus-4-5", 200_000, 64_000, _SEES, _Price(5, 25), _BUDGET),
    _Row(r"claude-haiku-4-5", 200_000, 64_000, _SEES, _Price(1, 5), _BUDGET),
    _Row(r"claude-opus-4", 200_000, 32_000, _SEES, _Price(15, 75), _BUDGET),
    _Row(r"claude-(sonnet-4|3-7)", 200_000, 64_000, _SEES, _Price(3, 15), _BUDGET),
    _Row(r"claude-3", 200_000, 8_192, _SEES, None, _PLAIN),
    _Row(r"claude-", 200_000, 32_000, _SEES, None, _ADAPTIVE),
    _Row(r"gpt-\d(\.\d)?-pro", 400_000, _BIG_OUT, _SEES, None, _FIXED),
    _Row(r"gpt-5(\.\d)?-codex", 400_000, _BIG_OUT, _SEES, None, _EFFORT),
    _Row(r"gpt-6(\.\d)?-astra|gpt-6\.2-", _GPT6, _BIG_OUT, _SEES, None, _EFFORT),
    _Row(r"gpt-6\.1-sol", _GPT6, _BIG_OUT, _SEES, _gpt(2, 10, 0.1), _EFFORT),
    _Row(r"gpt-6\.1-terra", _GPT6, _BIG_OUT, _SEES, _gpt(1, 5, 0.05), _EFFORT_NONE),
    _Row(r"gpt-6-luna", _GPT6, _BIG_OUT, _SEES, _gpt(0.1, 0.5, 0.01), _EFFORT_NONE),
    _Row(r"gpt-6", _GPT6, _BIG_OUT, _SEES, None, _EFFORT_NONE),
    _Row(r"gpt-5\.6-sol", _GPT6, _BIG_OUT, _SEES, _gpt(4, 20, 0.4), _EFFORT_NONE),
    _Row(r"gpt-5\.6-terra", _GPT6, _BIG_OUT, _SEES, _gpt(2, 12, 0.2), _EFFORT_NONE),
    _Row(r"gpt-5\.6-luna", _GPT6, _BIG_OUT, _SEES, _gpt(0.2, 1.2, 0.02), _EFFORT_NONE),
    _Row(r"gpt-5\.[45]", 400_000, _BIG_OUT, _SEES, None, _EFFORT),
    _Row(r"gpt-5(\.\d)?-chat", 128_000, 16_384, _SEES, None, _PLAIN),
    _Row(r"gpt-5\.[123]", 400_000, _BIG_OUT, _SEES, None, _EFFORT_NONE),
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
    _Row(r"gemini-2\.5-flash-lite", 1_048_576, 65_536, _SEES, _Price(0.1, 0.4, 0.01, 0.1), _BUDGET),
    _Row(r"gemini-2\.5-flash", 1_048_576, 65_536, _SEES, _Price(0.3, 2.5, 0.03, 0.3), _BUDGET),
    _Row(r"gemini-([3-9]|(pro|flash|flash-lite)-latest)", 1_048_576, 65_536, _SEES, None, _BY_LEVEL),
    _Row(r"gemini", 1_048_576, 65_536, _SEES, None, _PLAIN),
    _Row(r"(qwen.*vl|llava|pixtral|gemma3|gemma-3|.*vision)", 128_000, 8_192, _SEES, None, _PLAIN),
)
"""First match wins. The name is matched from its start, after any `VENDOR/` in front of it (OpenRouter)."""

_WRITES_PATCHES = r"gpt-(4\.1|[5-9]|oss)|o[34](-|$)|codex"
"""OpenAI's families since GPT-4.1, whose guide says that they were trained on the apply_patch format. Vendors of other
models name no format of theirs."""

_WRITES_FREE_FORM = r"gpt-[5-9]|codex"

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
"""The model of a vendor, by the wire it is spoken to in, when the person names none: the current middle size."""


WELL_KNOWN = {
    "anthropic": ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-fable-5-2"),
    "openai": ("gpt-6.1-terra", "gpt-6.1-sol", "gpt-6-luna", "gpt-5.2", "gpt-5-mini"),
    "responses": ("gpt-6.1-terra", "gpt-6.1-sol", "gpt-6-luna", "gpt-5.2", "gpt-5-mini"),
    "gemini": ("gemini-flash-latest", "gemini-pro-latest", "gemini-2.5-pro", "gemini-2.5-flash"),
}
"""What a vendor offers until its list has been fetched."""


def is_chat_model(name: str, *, is_openai: bool = False) -> bool:
    """Whether a listed model can hold a conversation with tools over our wires, as far as its name tells."""
    # Compiled at first use: this module is imported on the way to the first answer.
    is_other = re.search(_NOT_FOR_CHAT, name.lower()) or (is_openai and re.search(_NOT_FOR_CHAT_AT_OPENAI, name))
    return not is_other


@lru_cache(maxsize=1024)
def describe(provider: str, model: str, listed: ListedModel | None = None, *, is_openai: bool = False) -> ModelFacts:
    """What is known of a model. `is_openai`: OpenAI itself serves it, which counts for how it is asked."""
    short = vendor_name(model.rsplit("/", 1)[-1].lower())
    row = row_of(short)
    facts = ModelFacts(ModelInfo(provider, model), _PLAIN) if row is None else _facts(provider, model, row)
    if row is None or row.price is None:
        facts = replace(facts, info=_with_data(facts.info, is_known=row is not None))
    if re.match(_WRITES_PATCHES, short):
        facts = replace(facts, info=replace(facts.info, writes_patches=True))
    if listed is not None:
        facts = refine(facts, listed)
    if is_openai:
        free_form = re.match(_WRITES_FREE_FORM, short) is not None and facts.traits.takes_effort
        speaks_responses = facts.traits.takes_effort
        traits = replace(facts.traits, speaks_responses=speaks_responses, writes_free_form=free_form)
        return replace(facts, traits=traits)
    return facts


def vendor_name(name: str) -> str:
    """`us.anthropic.claude-opus-4-1-20250805-v1:0`, as Bedrock calls a model, without whose it is and where it runs."""
    before, vendor, own = name.partition("anthropic.")
    return own if vendor and (not before or re.fullmatch(r"[a-z-]{2,10}\.", before)) else name


def refine(facts: ModelFacts, listed: ListedModel) -> ModelFacts:
    """The facts with what the provider's own list says laid over them."""
    info, traits = facts.info, facts.traits
    said = (
        *((Figure.WINDOW,) if listed.context_window else ()),
        *((Figure.OUTPUT,) if listed.max_output_tokens else ()),
        *((Figure.IMAGES,) if listed.sees_images is not None else ()),
        *((Figure.TOOLS,) if listed.calls_tools is not None else ()),
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
        info = with_sources(replace(info, thought_levels=_levels(traits)), Source.LIST, Figure.THINKING)
    if listed.input_price or listed.output_price:
        info = with_sources(_listed_prices(info, listed), Source.LIST, Figure.PRICES)
    return ModelFacts(info, traits)


def configure(facts: ModelFacts, own: ModelSettings) -> ModelFacts:
    """The facts with what the person says of the model laid over them.

    A model that is said to think, and of which nobody knows how it is asked to, is asked in the newest way of its wire.
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
    """What a request cost, rounded up to a micro-unit, or None when the prices are not known."""
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
    # Only what may match is compiled: all forty take as long as fifteen modules to import.
    rows = (row for row in ROWS if name.startswith(_beginning(row.pattern)) and re.match(row.pattern, name))
    return next(rows, None)


def _beginning(pattern: str) -> str:
    """What every name begins with that the pattern matches, as far as its first letters tell."""
    if "|" in re.sub(r"\([^()]*\)", "", pattern):
        return ""
    plain = "".join(takewhile(lambda each: each.isalnum() or each == "-", pattern))
    # What may be repeated may also be left out.
    return plain[:-1] if pattern[len(plain) :].startswith(("?", "*", "{")) else plain


def _facts(provider: str, model: str, row: _Row) -> ModelFacts:
    info = ModelInfo(provider, model, row.window, row.output, row.sees, _levels(row.traits))
    known = (Figure.WINDOW, Figure.OUTPUT, Figure.IMAGES, Figure.THINKING, Figure.TOOLS)
    info = with_sources(info, Source.DATA, *known, *((Figure.PRICES,) if row.price else ()))
    return ModelFacts(_priced(info, row.price) if row.price else info, row.traits)


def _with_data(info: ModelInfo, *, is_known: bool) -> ModelInfo:
    """What the table of many models says, for a model that has no price here; `is_known`: its window is."""
    from pattern_acp.providers.model_data import find_model

    data = find_model(info.provider, info.name)
    if data is None:
        return info
    has_prices = bool(data.input_price or data.output_price)
    said = (
        *((Figure.WINDOW,) if is_known or data.window else ()),
        *((Figure.PRICES,) if has_prices else ()),
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


def _levels(traits: Traits) -> tuple[ThoughtLevel, ...]:
    some = (ThoughtLevel.LOW, ThoughtLevel.MEDIUM, ThoughtLevel.HIGH)
    if traits.fixed_effort:
        return ()
    if traits.thinking is Thinking.ALWAYS:
        return some
    if traits.thinking is not Thinking.NONE or traits.takes_effort:
        return (ThoughtLevel.OFF, *some)
    return ()
