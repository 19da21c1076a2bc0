"""Errors of MCP servers."""

from pattern_acp.domain.errors import PatternError


class ServerError(PatternError):
    """A server is missing, refused, or did not answer. The sentence names it."""

    failure_code = "mcp.failed"


class RefusedError(ServerError):
    """A server refused a request by an HTTP status. `why` is the reason, as the end of a sentence."""

    failure_code = "mcp.failed"

    def __init__(self, sentence: str, why: str, *, wants_login: bool = False) -> None:
        super().__init__(sentence)
        self.why = why
        self.wants_login = wants_login


class SessionForgottenError(ServerError):
    """A server no longer knows the session that it issued, and did not begin the request."""

    failure_code = "mcp.failed"
