"""What an MCP server cannot do."""

from pattern_acp.domain.errors import PatternError


class ServerError(PatternError):
    """A server is not there, refused, or did not answer. The sentence names it."""

    failure_code = "mcp.failed"


class RefusedError(ServerError):
    """A server refused a request by an HTTP status. `why` says how, as the end of a sentence."""

    failure_code = "mcp.failed"

    def __init__(self, sentence: str, why: str) -> None:
        super().__init__(sentence)
        self.why = why


class SessionForgottenError(ServerError):
    """A server does not know the session any more that it gave out, and did not begin what it was asked for."""

    failure_code = "mcp.failed"
