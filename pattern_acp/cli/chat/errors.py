"""What can keep a chat from going on."""

from pattern_acp.domain.errors import PatternError


class ChatError(PatternError):
    """The chat cannot start or go on; its sentence is for the person."""


class AgentGoneError(ChatError):
    """The agent process ended, or never started."""


class AgentRefusedError(ChatError):
    """The agent answered a request with an error."""
