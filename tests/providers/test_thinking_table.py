"""What each model of the catalogue is sent for each level of thinking."""

import json
import re
from collections.abc import Mapping

import pytest

from pattern_acp.config.settings import ProviderSettings
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.providers.anthropic import AnthropicWire
from pattern_acp.providers.base import ProviderRequest, ThoughtLevel
from pattern_acp.providers.catalogue import ROWS, ModelFacts, describe
from pattern_acp.providers.gemini import GeminiWire
from pattern_acp.providers.openai import OpenAIWire
from pattern_acp.providers.openai_responses import ResponsesWire
from pattern_acp.session.options import thought_level_of

NONE: Mapping[str, Json] = {}


def adaptive(effort: str) -> Mapping[str, Json]:
    return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}


def budget(tokens: int) -> Mapping[str, Json]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


def effort(word: str) -> Mapping[str, Json]:
    return {"reasoning": {"effort": word, "summary": "auto"}}


def tokens(number: int) -> Mapping[str, Json]:
    return {"thinkingConfig": {"thinkingBudget": number, "includeThoughts": True}}


def level(word: str) -> Mapping[str, Json]:
    return {"thinkingConfig": {"thinkingLevel": word, "includeThoughts": True}}


TABLE: Mapping[str, tuple[Mapping[str, Json], ...]] = {
    # auto, off, medium, max
    "claude-fable-5-2": (NONE, adaptive("low"), adaptive("medium"), adaptive("max")),
    "claude-mythos-5": (NONE, adaptive("low"), adaptive("medium"), adaptive("max")),
    "claude-opus-5-5": (NONE, adaptive("low"), adaptive("medium"), adaptive("max")),
    "claude-opus-5": (NONE, {"thinking": {"type": "disabled"}}, adaptive("medium"), adaptive("max")),
    "claude-sonnet-5-5": (NONE, {"thinking": {"type": "disabled"}}, adaptive("medium"), adaptive("max")),
    "claude-haiku-5-5": (NONE, {"thinking": {"type": "disabled"}}, adaptive("medium"), adaptive("max")),
    "claude-next": (NONE, {"thinking": {"type": "disabled"}}, adaptive("medium"), adaptive("max")),
    "claude-opus-4-7": (adaptive("medium"), {"thinking": {"type": "disabled"}}, adaptive("medium"), adaptive("max")),
    "claude-sonnet-4-6": (adaptive("medium"), {"thinking": {"type": "disabled"}}, adaptive("medium"), adaptive("max")),
    "claude-opus-4-5": (budget(10_240), NONE, budget(10_240), budget(32_768)),
    "claude-haiku-4-5": (budget(10_240), NONE, budget(10_240), budget(32_768)),
    "claude-opus-4-1": (budget(10_240), NONE, budget(10_240), budget(24_576)),
    "claude-sonnet-4-5": (budget(10_240), NONE, budget(10_240), budget(32_768)),
    "claude-3-5-haiku": (NONE, NONE, NONE, NONE),
    "gpt-5.2-pro": (NONE, NONE, NONE, NONE),
    "gpt-5.3-codex": (NONE, NONE, effort("medium"), effort("xhigh")),
    "gpt-5.1-codex": (NONE, NONE, effort("medium"), effort("high")),
    "gpt-6.2-x": (NONE, NONE, effort("medium"), effort("xhigh")),
    "gpt-6.1-sol": (NONE, NONE, effort("medium"), effort("xhigh")),
    "gpt-6.1-terra": (NONE, {"reasoning": {"effort": "none"}}, effort("medium"), effort("xhigh")),
    "gpt-6-luna": (NONE, {"reasoning": {"effort": "none"}}, effort("medium"), effort("xhigh")),
    "gpt-6": (NONE, {"reasoning": {"effort": "none"}}, effort("medium"), effort("xhigh")),
    "gpt-5.6-sol": (NONE, {"reasoning": {"effort": "none"}}, effort("medium"), effort("xhigh")),
    "gpt-5.6-terra": (NONE, {"reasoning": {"effort": "none"}}, effort("medium"), effort("xhigh")),
    "gpt-5.6-luna": (NONE, {"reasoning": {"effort": "none"}}, effort("medium"), effort("xhigh")),
    "gpt-5.4": (effort("medium"), NONE, effort("medium"), effort("xhigh")),
    "gpt-5-chat": (NONE, NONE, NONE, NONE),
    "gpt-5.2": (effort("medium"), {"reasoning": {"effort": "none"}}, effort("medium"), effort("xhigh")),
    "gpt-5.1": (effort("medium"), {"reasoning": {"effort": "none"}}, effort("medium"), effort("high")),
    "gpt-5-mini": (NONE, {"reasoning": {"effort": "minimal"}}, effort("medium"), effort("high")),
    "gpt-5-nano": (NONE, {"reasoning": {"effort": "minimal"}}, effort("medium"), effort("high")),
    "gpt-5": (NONE, {"reasoning": {"effort": "minimal"}}, effort("medium"), effort("high")),
    "codex-mini": (NONE, NONE, effort("medium"), effort("high")),
    "gpt-4.1-mini": (NONE, NONE, NONE, NONE),
    "gpt-4.1": (NONE, NONE, NONE, NONE),
    "gpt-4o-mini": (NONE, NONE, NONE, NONE),
    "gpt-4o": (NONE, NONE, NONE, NONE),
    "gpt-oss-120b": (NONE, NONE, {"reasoning_effort": "medium"}, {"reasoning_effort": "high"}),
    "gpt-4-turbo": (NONE, NONE, NONE, NONE),
    "o3": (NONE, NONE, effort("medium"), effort("high")),
    "deepseek-chat": (NONE, NONE, NONE, NONE),
    "deepseek-reasoner": (NONE, NONE, NONE, NONE),
    "kimi-k2.6": (NONE, NONE, NONE, NONE),
    "gemini-2.5-pro": (NONE, tokens(4_096), tokens(10_240), tokens(32_768)),
    "gemini-2.5-flash-lite": (
        tokens(10_240),
        {"thinkingConfig": {"thinkingBudget": 0}},
        tokens(10_240),
        tokens(24_576),
    ),
    "gemini-2.5-flash": (NONE, {"thinkingConfig": {"thinkingBudget": 0}}, tokens(10_240), tokens(24_576)),
    "gemini-flash-latest": (NONE, level("LOW"), level("MEDIUM"), level("HIGH")),
    "gemini-2.0-flash": (NONE, NONE, NONE, NONE),
    "llava": (NONE, NONE, NONE, NONE),
}
"""The fields that are sent, by model. A model that has no such level gets the nearest below, or its least."""

LEVELS = (ThoughtLevel.AUTO, ThoughtLevel.OFF, ThoughtLevel.MEDIUM, ThoughtLevel.MAX)
FIELDS = ("thinking", "output_config", "reasoning", "reasoning_effort", "thinkingConfig")


def sent(model: str, facts: ModelFacts, wanted: ThoughtLevel) -> Mapping[str, Json]:
    """The fields about thinking in the body for `model`, asked on its vendor's wire."""
    message = Message(MessageId("msg_1"), Role.USER, (TextPart("Hi."),))
    request = ProviderRequest(model, "", (), (message,), thought_level=thought_level_of(facts.info, wanted))
    settings = ProviderSettings("lab", "openai", base_url="http://127.0.0.1:1")
    if model.startswith("claude"):
        wire = AnthropicWire(settings, lambda _: facts)
    elif model.startswith("gemini"):
        wire = GeminiWire(settings, lambda _: facts)
    elif facts.traits.speaks_responses:
        wire = ResponsesWire(settings, lambda _: facts)
    else:
        wire = OpenAIWire(settings, lambda _: facts)
    body = json.loads(wire.encode(request).body)
    body |= body.get("generationConfig", {})
    return {name: body[name] for name in FIELDS if name in body}


@pytest.mark.parametrize("model", TABLE)
def test_each_level_is_sent_as_the_vendor_names_it_and_auto_is_left_out_where_the_vendor_has_a_default(model: str):
    facts = describe("lab", model, is_openai=model.startswith(("gpt-5", "gpt-6", "o3", "codex")))
    assert tuple(sent(model, facts, wanted) for wanted in LEVELS) == TABLE[model]


def test_the_table_has_every_model_of_the_catalogue():
    first = {next(row.pattern for row in ROWS if re.match(row.pattern, model)) for model in TABLE}
    assert first == {row.pattern for row in ROWS}
