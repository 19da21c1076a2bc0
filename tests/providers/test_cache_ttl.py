"""How long Anthropic keeps a prefix: a setting, the same in every mark of a session, and what it costs."""

import json
from functools import partial

import anthropic.types
import pytest
from msgspec.structs import replace
from pydantic import TypeAdapter

from pattern_acp.config.settings import ModelSettings, ProviderSettings
from pattern_acp.domain.usage import Cost
from pattern_acp.providers.anthropic import AnthropicWire
from pattern_acp.providers.base import UsageKnown
from pattern_acp.providers.catalogue import ModelFacts, configure, describe
from pattern_acp.providers.event_streams import SseEvent
from tests.support.conversations import everything, request

SETTINGS = ProviderSettings("anthropic", "anthropic", "http://127.0.0.1:1")
STARTED = (
    '{"type": "message_start", "message": {"usage": {"input_tokens": 0, "cache_creation_input_tokens": 1000000, '
    '"output_tokens": 0}}}'
)


def facts_of(model: str, *, own: ModelSettings | None = None) -> ModelFacts:
    facts = describe("anthropic", model)
    return facts if own is None else configure(facts, own)


def test_every_mark_has_the_time_of_the_session_and_there_are_four_at_most():
    wire = AnthropicWire(SETTINGS, facts_of)
    asked = replace(request(*everything("anthropic")), model="claude-sonnet-5-5")
    usual, hour = (wire.encode(replace(asked, cache_ttl=ttl)).body for ttl in ("5m", "1h"))
    assert b"ttl" not in usual
    assert hour.count(b'"cache_control":{"type":"ephemeral","ttl":"1h"}') == usual.count(b"cache_control") == 4
    # Anthropic's own types take the marks with their times.
    judge = TypeAdapter(anthropic.types.message_create_params.MessageCreateParamsStreaming)
    for body in (usual, hour):
        judge.validate_python(json.loads(body), extra="forbid")


@pytest.mark.parametrize(
    ("ttl", "own", "cost"),
    [
        ("5m", None, 2_500_000),
        ("1h", None, 4_000_000),
        ("1h", ModelSettings(input_price=1, output_price=1, cache_write_price=7), 7),
    ],
)
def test_writing_for_an_hour_costs_twice_the_input_unless_the_person_names_a_price(
    ttl: str, own: ModelSettings | None, cost: int
):
    wire = AnthropicWire(SETTINGS, partial(facts_of, own=own))
    decoder = wire.new_decoder(replace(request(), model="claude-sonnet-5-5", cache_ttl=ttl))
    known = [event for event in decoder.feed(SseEvent("", STARTED)) if isinstance(event, UsageKnown)]
    assert [event.cost for event in known] == [Cost(cost)]
