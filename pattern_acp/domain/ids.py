"""Identifiers and the port that makes them.

The random source is imported where it is used: this module is imported before `initialize` is answered, for its types.
"""

from typing import NewType, Protocol

SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
ToolCallId = NewType("ToolCallId", str)
BlockId = NewType("BlockId", str)
PersonaName = NewType("PersonaName", str)


class IdFactory(Protocol):
    """Makes identifiers. Random ids enter a session only as recorded events (rule R4)."""

    def new(self, prefix: str) -> str:
        """A new identifier that starts with `prefix` and an underscore and is never repeated."""
        ...

    def peer(self) -> int:
        """A random non-zero 63-bit number: the Loro peer of one process start."""
        ...


class RandomIds:
    """`IdFactory` over the system's random source; 128 bits an id."""

    def new(self, prefix: str) -> str:
        """See `IdFactory.new`."""
        import secrets

        return f"{prefix}_{secrets.token_hex(16)}"

    def peer(self) -> int:
        """See `IdFactory.peer`."""
        import secrets

        return secrets.randbits(63) or 1
