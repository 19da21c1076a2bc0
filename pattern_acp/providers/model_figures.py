"""What is known of a model, from whom, and what the person says of it laid over everything.

Owns: the names of figures and of their sources. Must not know: any model (catalogue.py), files, HTTP.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec.structs import replace

from pattern_acp.config.settings import ModelSettings
from pattern_acp.providers.base import Figure, ModelInfo, ThoughtLevel

CONFIGURED_PRICES = "config.toml"
"""The name of the price table that the person is; costs are recorded with it."""


class Source(StrEnum):
    """Who says a figure, the strongest first."""

    CONFIG = "config.toml"
    ANSWER = "its own answer"
    """The model refused what it was thought to take."""
    LIST = "the provider's list"
    DATA = "the model data of this version"
    ASSUMED = "assumed"


def with_sources(info: ModelInfo, source: Source, *figures: Figure) -> ModelInfo:
    """The model with `source` as who says these figures."""
    return replace(info, sources={**info.sources, **dict.fromkeys(figures, source.value)})


def source_of(info: ModelInfo, figure: Figure) -> str:
    """Who says a figure of a model; a price is not assumed but not known."""
    found = info.sources.get(figure)
    if found is not None:
        return found
    if figure is Figure.PRICES:
        return "it runs on this machine" if info.is_free else "not known"
    return Source.ASSUMED


def is_assumed_free(info: ModelInfo) -> bool:
    """Whether a model counts as free only because its server is on this machine, which may be a gateway to others."""
    return info.is_free and source_of(info, Figure.PRICES) == Source.ASSUMED


def assumed(info: ModelInfo) -> str:
    """What of a model nobody says, in words; empty when all that matters is known."""
    words: Mapping[Figure, str] = {
        Figure.WINDOW: f"a window of {info.context_window:,} tokens",
        Figure.OUTPUT: f"answers of up to {info.max_output_tokens:,} tokens",
        Figure.IMAGES: "images" if info.sees_images else "no images",
        Figure.THINKING: "thinking" if info.thought_levels else "no thinking levels",
        Figure.TOOLS: "tool calls" if info.calls_tools else "no tool calls",
        Figure.PRICES: "no cost, since its server is on this machine",
    }
    taken = [text for figure, text in words.items() if source_of(info, figure) == Source.ASSUMED]
    if source_of(info, Figure.PRICES) == "not known":
        taken.append("no prices")
    return ", ".join(taken)


def with_configured(info: ModelInfo, own: ModelSettings) -> ModelInfo:
    """The model as the person says that it is."""
    said: list[Figure] = []
    if own.context_window:
        info = replace(info, context_window=own.context_window)
        said.append(Figure.WINDOW)
    if own.max_output_tokens:
        info = replace(info, max_output_tokens=own.max_output_tokens)
        said.append(Figure.OUTPUT)
    if own.tools is not None:
        info = replace(info, calls_tools=own.tools)
        said.append(Figure.TOOLS)
    if own.images is not None:
        info = replace(info, sees_images=own.images)
        said.append(Figure.IMAGES)
    if own.thinking is not None:
        info = replace(info, thought_levels=tuple(ThoughtLevel(level) for level in own.thinking))
        said.append(Figure.THINKING)
    if own.input_price is not None or own.output_price is not None:
        info = _priced(info, own)
        said.append(Figure.PRICES)
    return with_sources(info, Source.CONFIG, *said)


def _priced(info: ModelInfo, own: ModelSettings) -> ModelInfo:
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
        # One price for all lengths, since the person named one.
        long_prompt_tokens=0,
        long_input_percent=100,
        long_output_percent=100,
        prices=CONFIGURED_PRICES if given or written else "",
        is_free=not given and not written,
    )
