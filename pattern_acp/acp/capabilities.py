"""What we promise in initialize, as wire structs; the promises themselves are in `introduction`."""

import msgspec

from pattern_acp.acp import introduction, schema
from pattern_acp.acp.introduction import AUTH_METHOD, LOGIN_METHOD, TERMINAL_AUTH_METHOD

__all__ = ["AUTH_METHOD", "LOGIN_METHOD", "TERMINAL_AUTH_METHOD", "auth_methods", "initialize_response"]


def initialize_response(client: schema.ClientCapabilities) -> schema.InitializeResponse:
    """The answer to initialize: exactly what works."""
    return msgspec.convert(
        introduction.initialize_result(in_terminal=_runs_in_terminal(client)), schema.InitializeResponse
    )


def auth_methods(client: schema.ClientCapabilities) -> tuple[schema.AuthMethod, ...]:
    """The ways to sign in."""
    known = introduction.auth_methods(in_terminal=_runs_in_terminal(client))
    return msgspec.convert(known, tuple[schema.AuthMethod, ...])


def _runs_in_terminal(client: schema.ClientCapabilities) -> bool:
    return client.auth.terminal or client.has_meta("terminal-auth")
