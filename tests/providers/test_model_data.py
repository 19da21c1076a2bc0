"""Prices and windows of the table that comes with the program."""

import re

import msgspec
import pytest

from pattern_acp.config.settings import ProviderSettings, Settings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers.catalogue import FILE, PRICES, cost_of, describe, find_model
from pattern_acp.providers.registry import Providers


def test_every_row_of_the_file_can_be_used():
    for rows in msgspec.json.decode(FILE.read_bytes())["providers"].values():
        for names, pattern, *numbers in rows:
            assert names or pattern
            re.compile(pattern)
            assert all(isinstance(number, int) and number >= 0 for number in numbers)


@pytest.mark.parametrize(
    ("provider", "model"),
    [("deepseek", "deepseek-v4-pro"), ("openrouter", "anthropic/claude-sonnet-5.5"), ("openai", "gpt-5.1")],
)
def test_a_model_without_a_price_of_ours_has_that_of_the_table(provider: str, model: str):
    info = describe(provider, model).info
    assert info.input_price > 0
    assert info.prices == PRICES or info.prices.startswith("genai-prices ")


def test_a_cost_follows_from_the_table_to_the_micro_unit():
    data = find_model("deepseek", "deepseek-v4-pro")
    assert data is not None
    cost = cost_of(describe("deepseek", "deepseek-v4-pro").info, Usage(1_000_000, 1_000_000, 1_000_000))
    assert cost == Cost(data.input_price + data.output_price + data.cache_read_price)


def test_an_unknown_model_or_provider_has_no_price():
    assert find_model("deepseek", "no-such-model") is None
    assert find_model("my-lab", "gpt-5.1") is None
    assert describe("my-lab", "no-such-model").info.prices == ""


def test_a_name_that_no_row_has_gets_the_first_row_whose_pattern_matches_it():
    compared = 0
    for provider, rows in msgspec.json.decode(FILE.read_bytes())["providers"].items():
        exact = {name.lower() for row in rows for name in row[0]}
        patterns = [(re.compile(row[1]), row) for row in rows if row[1]]
        behind = ("-20301231", "9")
        made = [f"{before}{name}{after}" for name in sorted(exact)[:60] for before in ("", "x-") for after in behind]
        for name in {*made, "test-model"} - exact:
            found = find_model(provider, name)
            wanted = next((row for pattern, row in patterns if pattern.fullmatch(name)), None)
            assert (found and [found.window, found.input_price]) == (wanted and wanted[2:4]), (provider, name)
            compared += found is not None
    assert compared > 30


def test_a_model_on_this_machine_costs_nothing():
    lab = ProviderSettings("lab", "openai", "http://127.0.0.1:9/v1", configured=True)
    far = ProviderSettings("far", "openai", "http://192.0.2.1:9/v1", configured=True)
    providers = Providers(Settings(providers={"lab": lab, "far": far}))
    assert providers.resolve("lab/llama")[1].is_free
    assert providers.resolve("offline/")[1].is_free
    assert not providers.resolve("far/llama")[1].is_free


@pytest.mark.parametrize("model", ["gpt-5.2", "openai/o3", "claude-next-9", "gemini-9-pro", "xai/grok-code-fast-1"])
def test_a_model_that_only_its_vendor_has_is_not_free_at_a_gateway_of_this_machine(model: str):
    lab = ProviderSettings("lab", "openai", "http://127.0.0.1:9/v1", configured=True)
    providers = Providers(Settings(providers={"lab": lab}))
    assert not providers.resolve(f"lab/{model}")[1].is_free
    assert providers.resolve("lab/gpt-oss:20b")[1].is_free
