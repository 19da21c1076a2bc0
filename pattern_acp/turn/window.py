"""The model's window as the loop deals with it.

Owns: the port. Must not know: how room is made; `session/window.py` does.
"""

from typing import Protocol

from pattern_acp.domain.usage import Usage
from pattern_acp.providers.base import ProviderRequest


class TurnWindow(Protocol):
    """Watches over what is sent."""

    def sending(self, request: ProviderRequest) -> int:
        """Take note of a request that is about to be sent; its tokens by our own estimate."""
        ...

    def sent_tokens(self) -> int:
        """The tokens of the request that was sent last, as counts so far teach."""
        ...

    def counted(self, usage: Usage) -> None:
        """Take note of what the provider counted for the request that was sent last."""
        ...

    async def too_long(self) -> bool:
        """Make room, since the provider refused the last request as too long; whether that could be done.

        Raises:
            DatabaseError: it could not be recorded; the turn stops.
        """
        ...
