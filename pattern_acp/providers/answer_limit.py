"""How many tokens an answer may take on wires where reasoning counts towards that limit.

Owns: the room for reasoning. Must not know: any wire's format.
"""

from collections.abc import Mapping

from pattern_acp.providers.base import ProviderRequest, ThoughtLevel
from pattern_acp.providers.catalogue import ModelFacts

REASONING_TOKENS: Mapping[ThoughtLevel, int] = {
    ThoughtLevel.OFF: 0,
    ThoughtLevel.LOW: 4_096,
    ThoughtLevel.MEDIUM: 10_240,
    ThoughtLevel.HIGH: 24_576,
}
"""Room for reasoning on top of the answer's tokens, since it counts towards the limit."""


def answer_limit(request: ProviderRequest, facts: ModelFacts, *, reasons: bool, unasked: bool = False) -> int:
    """The limit in tokens: what is asked for, with room for reasoning, within what the model can write.

    `reasons`: the model can be asked to reason; `unasked`: it does so even when it is asked not to.
    """
    level = request.thought_level
    if level is ThoughtLevel.OFF and unasked:
        level = ThoughtLevel.MEDIUM
    room = REASONING_TOKENS[level] if reasons else 0
    return min(request.max_output_tokens + room, max(facts.info.max_output_tokens, request.max_output_tokens))
