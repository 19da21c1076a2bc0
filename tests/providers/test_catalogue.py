import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pattern_acp.config.settings import ModelSettings
from pattern_acp.domain.usage import Cost, Usage
from pattern_acp.providers import catalogue
from pattern_acp.providers.base import ModelInfo, ModelProperty, ThoughtLevel
from pattern_acp.providers.catalogue import (
    DEFAULT_MODELS,
    WELL_KNOWN,
    ListedModel,
    Thinking,
    assumed,
    configure,
    cost_of,
    describe,
    is_chat_model,
    source_of,
)


@pytest.mark.parametrize(
    ("model", "window", "sees", "thinking"),
    [
        ("claude-opus-5-5", 1_000_000, True, Thinking.ALWAYS),
        ("claude-sonnet-5-5", 1_000_000, True, Thinking.ADAPTIVE),
        ("claude-opus-4-5-20251101", 200_000, True, Thinking.BUDGET),
        ("claude-sonnet-4-5-20250929", 200_000, True, Thinking.BUDGET),
        ("anthropic/claude-sonnet-4-6", 200_000, True, Thinking.ADAPTIVE),
        ("gpt-5.2", 400_000, True, Thinking.NONE),
        ("something-new", 128_000, False, Thinking.NONE),
    ],
)
def test_well_known_models_are_described(model: str, window: int, sees: object, thinking: Thinking):
    facts = describe("p", model)
    assert (facts.info.context_window, facts.info.sees_images, facts.traits.thinking) == (window, sees, thinking)
    assert facts.info.qualified == f"p/{model}"


@given(st.sampled_from([row.pattern for row in catalogue.ROWS]).flatmap(st.from_regex))
def test_the_row_of_a_name_is_the_first_whose_pattern_matches(name: str):
    first = next((row for row in catalogue.ROWS if re.match(row.pattern, name)), None)
    assert catalogue.row_of(name) is first


def test_thought_levels_follow_what_the_model_takes():
    assert ThoughtLevel.OFF in describe("p", "claude-sonnet-5-5").info.thought_levels
    assert ThoughtLevel.OFF not in describe("p", "claude-opus-5-5").info.thought_levels
    assert describe("p", "gpt-4.1").info.thought_levels == ()
    assert describe("p", "gpt-6-luna").info.thought_levels != ()
    assert describe("openai", "gpt-6-luna", is_openai=True).info.thought_levels != ()
    assert ThoughtLevel.OFF in describe("gemini", "gemini-2.5-flash").info.thought_levels
    assert ThoughtLevel.OFF not in describe("gemini", "gemini-3-pro-preview").info.thought_levels


@pytest.mark.parametrize(
    ("model", "speaks_responses", "writes_free_form"),
    [
        ("gpt-6.2-sol", True, True),
        ("gpt-6.1-terra", True, True),
        ("gpt-5.2-pro", True, True),
        ("gpt-5.1-codex-max", True, True),
        ("codex-mini-latest", True, True),
        ("o3-pro", True, False),
        ("o4-mini", True, False),
        ("gpt-5-chat-latest", False, False),
        ("gpt-4.1", False, False),
        ("something-new", False, False),
    ],
)
def test_openais_models_that_reason_are_asked_through_responses_at_openai_only(
    model: str, speaks_responses: object, writes_free_form: object
):
    traits = describe("openai", model, is_openai=True).traits
    assert (traits.speaks_responses, traits.writes_free_form) == (speaks_responses, writes_free_form)
    elsewhere = describe("openrouter", f"openai/{model}").traits
    assert (elsewhere.speaks_responses, elsewhere.writes_free_form) == (False, False)


def test_a_providers_own_list_wins():
    listed = ListedModel("claude-sonnet-4-5", 500_000, 99_000, sees_images=False, thinking="adaptive")
    facts = describe("anthropic", "claude-sonnet-4-5", listed)
    assert (facts.info.context_window, facts.info.max_output_tokens, facts.info.sees_images) == (500_000, 99_000, False)
    assert facts.traits.thinking is Thinking.ADAPTIVE
    silent = describe("anthropic", "claude-sonnet-4-5", ListedModel("claude-sonnet-4-5", thinking="unheard of"))
    assert silent == describe("anthropic", "claude-sonnet-4-5")


def test_defaults_are_models_that_can_do_the_work():
    for provider, model in DEFAULT_MODELS.items():
        facts = describe(provider, model, is_openai=provider in {"openai", "responses"})
        assert facts.info.sees_images
        assert facts.info.thought_levels
        assert WELL_KNOWN[provider][0] == model
        assert all(is_chat_model(name, is_openai=provider == "openai") for name in WELL_KNOWN[provider])


@pytest.mark.parametrize(
    ("name", "at_openai", "elsewhere"),
    [
        ("gpt-6.1-terra", True, True),
        ("gpt-6.2-astra", True, True),
        ("text-embedding-3-large", False, False),
        ("gpt-5.2-pro", True, True),
        ("o3-deep-research", False, True),
        ("imagen-4.0-generate", False, False),
        ("gemini-2.5-flash-image", False, False),
        ("gemini-flash-latest", True, True),
        ("qwen2.5-coder:7b-instruct", False, True),
        ("nomic-embed-text:latest", False, False),
        ("whisper-1", False, False),
    ],
)
def test_models_that_cannot_chat_are_not_offered(name: str, at_openai: object, elsewhere: object):
    assert is_chat_model(name, is_openai=True) is at_openai
    assert is_chat_model(name) is elsewhere


def test_a_cost_is_the_sum_over_all_kinds_of_tokens():
    info = describe("anthropic", "claude-sonnet-4-5").info
    usage = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    assert cost_of(info, usage) == Cost(3_000_000 + 15_000_000 + 300_000 + 3_750_000)


def test_long_prompts_cost_what_they_cost():
    info = describe("anthropic", "claude-haiku-5-5").info
    assert cost_of(info, Usage(100_000, 0)) == Cost(10_000)
    assert cost_of(info, Usage(100_001, 0)) == Cost(50_001)


def test_no_price_is_no_cost():
    assert cost_of(ModelInfo("p", "m"), Usage(1, 1)) is None


def test_what_a_free_model_used_cost_nothing_and_is_not_unknown():
    assert cost_of(ModelInfo("p", "m", is_free=True), Usage(1000, 1000)) == Cost(0)
    own = configure(describe("p", "m"), ModelSettings(input_price=0, output_price=0)).info
    assert cost_of(own, Usage(1000, 1000)) == Cost(0)


@given(st.builds(Usage, *[st.integers(0, 10**7)] * 4))
def test_a_cost_is_never_negative_and_never_lost(usage: Usage):
    cost = cost_of(describe("anthropic", "claude-sonnet-5-5").info, usage)
    assert cost is not None
    assert (cost.micro_units > 0) is (usage.context_tokens > 0)


def test_what_the_person_says_counts_above_all_else_and_each_figure_names_who_says_it():
    listed = ListedModel("new", 50_000, calls_tools=True, input_price=7, output_price=9)
    facts = describe("p", "new", listed)
    assert (facts.info.calls_tools, facts.info.input_price, facts.info.prices) == (True, 7, "the list of p")
    own = ModelSettings(max_output_tokens=2_000, tools=False, input_price=1_000_000, output_price=0, images=True)
    info = configure(facts, own).info
    assert (info.context_window, info.max_output_tokens, info.calls_tools, info.sees_images) == (
        50_000,
        2_000,
        False,
        True,
    )
    assert (info.input_price, info.cache_read_price, info.output_price, info.prices) == (
        1_000_000,
        1_000_000,
        0,
        "config.toml",
    )
    assert {figure.value: source_of(info, figure) for figure in ModelProperty} == {
        "context window": "the provider's list",
        "longest answer": "config.toml",
        "tool calls": "config.toml",
        "images": "config.toml",
        "thinking": "assumed",
        "prices": "config.toml",
    }
    assert assumed(info) == "no thinking levels"


def test_a_model_that_nobody_knows_says_what_is_assumed_of_it():
    info = describe("p", "new").info
    assert assumed(info) == (
        "a window of 128,000 tokens, answers of up to 8,192 tokens, no images, no thinking levels, tool calls, "
        "no prices"
    )
    assert assumed(describe("anthropic", "claude-sonnet-5-5").info) == ""
    assert assumed(describe("deepseek", "deepseek-v4-pro").info) == ""


def test_a_model_for_nothing_is_free_and_one_price_holds_for_every_length():
    info = configure(describe("anthropic", "claude-haiku-5-5"), ModelSettings(input_price=0, output_price=0)).info
    assert (info.is_free, info.prices, info.long_prompt_tokens) == (True, "", 0)


def test_thinking_that_the_person_says_is_asked_for():
    facts = configure(describe("p", "new"), ModelSettings(thinking=("off", "high")))
    assert facts.info.thought_levels == (ThoughtLevel.OFF, ThoughtLevel.HIGH)
    assert (facts.traits.takes_effort, facts.traits.thinking) == (True, Thinking.ADAPTIVE)
    never = configure(describe("anthropic", "claude-sonnet-5-5"), ModelSettings(thinking=()))
    assert (never.info.thought_levels, never.traits.thinking) == ((), Thinking.NONE)
    known = configure(describe("anthropic", "claude-sonnet-4-5"), ModelSettings(thinking=("off", "low")))
    assert known.traits.thinking is Thinking.BUDGET
