"""Errors that end a chat."""

from pattern_acp.domain.errors import PatternError


class ChatError(PatternError):
    """The chat cannot start or go on; its sentence is for the user."""

    failure_code = "chat.not-possible"


class AgentGoneError(ChatError):
    """The agent process ended, or never started."""

    failure_code = "chat.agent-gone"


class AgentRefusedError(ChatError):
    """The agent answered a request with an error."""

    failure_code = "chat.agent-refused"
    is_shown = False
    """True if the agent has said it in the chat before."""
