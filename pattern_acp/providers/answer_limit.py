"""How many tokens an answer may take, since reasoning counts towards that limit and towards the window.

Owns: the room for reasoning. Must not know: any wire's format.
"""

from collections.abc import Mapping

from pattern_acp.providers.base import ModelInfo, ProviderRequest, ThoughtLevel
from pattern_acp.providers.catalogue import ModelFacts

REASONING_TOKENS: Mapping[ThoughtLevel, int] = {
    # What models think by themselves is about what they think when they are asked for a medium amount.
    ThoughtLevel.DEFAULT: 10_240,
    ThoughtLevel.OFF: 0,
    ThoughtLevel.LOW: 4_096,
    ThoughtLevel.MEDIUM: 10_240,
    ThoughtLevel.HIGH: 24_576,
}
"""Room for reasoning on top of the answer's tokens, since it counts towards the limit."""


USUAL_ANSWER_TOKENS = 8_192
"""What the window always leaves for an answer that may be so long. One that may be longer takes what the conversation
leaves besides, so that a conversation is not compacted sooner for answers that hardly ever come."""

ESTIMATE_PERCENT = 115
"""What an estimate of a request's tokens may turn out to be, before an answer takes the rest of the window."""

REASONING_SHARE = 4
"""One part in so many of a window is kept for reasoning at most."""


def reasoning_room(info: ModelInfo, level: ThoughtLevel) -> int:
    """Tokens that a model may reason at a level, within what its window has room for."""
    return min(REASONING_TOKENS[level], info.context_window // REASONING_SHARE)


def reserve_of(info: ModelInfo, answer_tokens: int, level: ThoughtLevel) -> int:
    """Tokens of the window that are kept for an answer of so many tokens and for the reasoning before it."""
    room = reasoning_room(info, level) if info.thought_levels else 0
    return min(answer_tokens + room, max(info.max_output_tokens, answer_tokens))


def answer_beside(info: ModelInfo, answer_tokens: int, level: ThoughtLevel, request_tokens: int) -> int:
    """Tokens that an answer may have beside a request of about so many, of the `answer_tokens` that are wanted."""
    reasoning = reserve_of(info, answer_tokens, level) - answer_tokens
    left = info.context_window - request_tokens * ESTIMATE_PERCENT // 100 - reasoning
    return min(answer_tokens, max(left, USUAL_ANSWER_TOKENS))


def answer_limit(request: ProviderRequest, facts: ModelFacts, *, reasons: bool, unasked: bool = False) -> int:
    """The limit in tokens: what is asked for, with room for reasoning, within what the model can write.

    `reasons`: the model can be asked to reason; `unasked`: it does so even when it is asked not to.
    """
    level = request.thought_level
    if level is ThoughtLevel.OFF and unasked:
        level = ThoughtLevel.MEDIUM
    room = reasoning_room(facts.info, level) if reasons else 0
    return min(request.max_output_tokens + room, max(facts.info.max_output_tokens, request.max_output_tokens))
