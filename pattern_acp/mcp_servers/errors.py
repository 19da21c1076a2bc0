"""What an MCP server cannot do."""

from pattern_acp.domain.errors import PatternError


class ServerError(PatternError):
    """A server is not there, refused, or did not answer. The sentence names it."""

    failure_code = "mcp.failed"
