"""The `Transport` port: lines to and from one peer."""

from typing import Protocol

from pattern_acp.jsonrpc.framing import Oversize


class Transport(Protocol):
    """Lines to and from one peer, in order."""

    async def receive(self) -> bytes | Oversize | None:
        """The next line without its line feed, a mark for a line that was too long, or None when the peer is gone."""
        ...

    async def send(self, line: bytes) -> None:
        """Take a line, with its line feed, for writing; waits while the peer does not read.

        A call that ends by cancellation has taken nothing of the line.

        Raises:
            ConnectionClosedError: nothing can be written any more.
        """
        ...
