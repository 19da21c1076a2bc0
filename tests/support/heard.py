"""What a scripted model was sent, for tests that are about the conversation and not about memory.

Owns: nothing but helpers of tests.
"""

from pattern_acp.domain.messages import Message
from pattern_acp.providers.base import ProviderRequest


def conversation(request: ProviderRequest) -> tuple[Message, ...]:
    """The messages without those that tell the model its memory."""
    return tuple(message for message in request.messages if not message.message_id.endswith("_memory"))
