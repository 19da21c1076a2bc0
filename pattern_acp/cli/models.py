"""`pattern-acp models`: the models that can be used, with what is known of each and who says it, as text or JSON."""

from collections.abc import Sequence
from decimal import Decimal

import anyio

from pattern_acp.bootstrap.constellation import open_providers
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_ERROR, ModelsWanted
from pattern_acp.cli.command_runner import show_answer
from pattern_acp.cli.output import write_failure
from pattern_acp.commands.document import Heading, Paragraph, Part, Table, as_result, columns
from pattern_acp.domain.errors import ProviderError
from pattern_acp.domain.usage import MICRO
from pattern_acp.providers.base import ModelInfo, ModelProperty
from pattern_acp.providers.catalogue import CONFIGURED_PRICES, Source, assumed, is_assumed_free, source_of


def run_models(arguments: ModelsWanted, process: Process) -> int:
    """Print the models of every provider that is set up; lists that are older than a day are fetched first."""
    try:
        models = anyio.run(_models, process, arguments.model)
    except ProviderError as error:
        write_failure(error.failure_code, f"pattern-acp: {error.sentence}")
        return EXIT_ERROR
    parts = parts_of_one(models[0]) if arguments.model else parts_of_all(models)
    return show_answer(as_result(*parts, facts=[_facts(info) for info in models]), process, as_json=arguments.json)


async def _models(process: Process, model: str) -> Sequence[ModelInfo]:
    async with open_providers(process) as providers:
        await providers.refresh()
        return (providers.resolve(model)[1],) if model else providers.available()


def parts_of_one(info: ModelInfo) -> tuple[Part, ...]:
    """The known facts of one model, each figure with its source."""
    values = {
        ModelProperty.WINDOW: f"{info.context_window:,} tokens",
        ModelProperty.OUTPUT: f"{info.max_output_tokens:,} tokens",
        ModelProperty.TOOLS: "native" if info.calls_tools else "written as text",
        ModelProperty.IMAGES: "yes" if info.sees_images else "no",
        ModelProperty.THINKING: ", ".join(info.thought_levels) or "no",
        ModelProperty.PRICES: _prices(info),
    }
    rows = tuple((figure.value, value, source_of(info, figure)) for figure, value in values.items())
    taken = assumed(info)
    better = f'Nobody says it, so this is assumed: {taken}. [models."{info.qualified}"] in config.toml says better.'
    return (
        Heading(info.qualified),
        Table(columns("Figure", "Value", "From"), rows),
        *((Paragraph(better, "note"),) if taken else ()),
    )


def _prices(info: ModelInfo) -> str:
    """Dollars a million tokens."""
    prices = (info.input_price, info.cache_read_price, info.output_price)
    shown = [_price(info, price) for price in prices]
    return f"in {shown[0]}, cached {shown[1]}, out {shown[2]}" if all(shown) else "?"


def parts_of_all(models: Sequence[ModelInfo]) -> tuple[Part, ...]:
    """A table whose prices are US dollars a million tokens; a question mark where nobody says it."""
    heads = columns("Model", "Window", "Answer", "In", "Cached", "Out", "Images", "Thinking", "Prices from")
    return (Table(heads, tuple(map(_cells, models))),)


def _cells(info: ModelInfo) -> tuple[str, ...]:
    return (
        info.qualified,
        f"{info.context_window:,}{_mark(info, ModelProperty.WINDOW)}",
        f"{info.max_output_tokens:,}{_mark(info, ModelProperty.OUTPUT)}",
        *(_price_cell(info, price) for price in (info.input_price, info.cache_read_price, info.output_price)),
        "yes" if info.sees_images else "no",
        ", ".join(info.thought_levels) or "no",
        info.prices or _no_price_from(info),
    )


def _no_price_from(info: ModelInfo) -> str:
    if not info.is_free:
        return "not known"
    if is_assumed_free(info):
        return "this machine, assumed"
    return CONFIGURED_PRICES if source_of(info, ModelProperty.PRICES) == Source.CONFIG else "this machine"


def _price_cell(info: ModelInfo, price: int) -> str:
    known = _price(info, price)
    return f"{known}{_mark(info, ModelProperty.PRICES)}" if known else "?"


def _mark(info: ModelInfo, figure: ModelProperty) -> str:
    return "?" if source_of(info, figure) == Source.ASSUMED else ""


def _price(info: ModelInfo, price: int) -> str:
    return "" if not info.prices and not info.is_free else f"{Decimal(price) / MICRO:f}"


def _facts(info: ModelInfo) -> dict[str, object]:
    return {
        "model": info.qualified,
        "context_window": info.context_window,
        "max_output_tokens": info.max_output_tokens,
        "sees_images": info.sees_images,
        "calls_tools": info.calls_tools,
        "thinking": list(info.thought_levels),
        "usd_per_million": {
            "input": _price(info, info.input_price) or None,
            "cached": _price(info, info.cache_read_price) or None,
            "cache_write": _price(info, info.cache_write_price) or None,
            "output": _price(info, info.output_price) or None,
        },
        "prices": info.prices,
        "is_free": info.is_free,
        "sources": {figure.value: source_of(info, figure) for figure in ModelProperty},
    }
