"""The pipe that a command writes to.

Owns: reading it without blocking the loop. On POSIX it is a pipe of our own rather than one of the process object:
asyncio ties the two together, and then a background process that keeps the pipe open also keeps everybody waiting for
the command. Must not know: what is read.
"""

import os
import sys
from typing import Protocol

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream

from pattern_acp.workspace.errors import InputClosedError

_CHUNK = 65_536


class OutputPipe(Protocol):
    """The reading end."""

    async def read(self) -> bytes:
        """Wait for bytes; b"" once nobody can write any more. Nothing is lost when it is cancelled."""
        ...

    def read_ready(self) -> bytes | None:
        """Bytes that are there already; None when there are none now, b"" once nobody can write any more."""
        ...

    def knows_when_empty(self) -> bool:
        """Whether a None of `read_ready` means that there is nothing, rather than that it cannot be known."""
        ...

    def close(self) -> None:
        """Stop reading."""
        ...


class DescriptorPipe:
    """`OutputPipe` over a descriptor that can be polled (POSIX)."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor

    async def read(self) -> bytes:
        """See `OutputPipe.read`."""
        while (data := self.read_ready()) is None:
            await anyio.wait_readable(self._descriptor)
        return data

    def read_ready(self) -> bytes | None:
        """See `OutputPipe.read_ready`."""
        try:
            return os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return None
        except OSError:
            return b""

    def knows_when_empty(self) -> bool:
        """See `OutputPipe.knows_when_empty`."""
        return True

    def close(self) -> None:
        """See `OutputPipe.close`."""
        os.close(self._descriptor)


class StreamPipe:
    """`OutputPipe` over a process's own stream (Windows, where pipes cannot be polled)."""

    def __init__(self, stream: ByteReceiveStream | None) -> None:
        self._stream = stream

    async def read(self) -> bytes:
        """See `OutputPipe.read`."""
        if self._stream is None:
            return b""
        try:
            return await self._stream.receive(_CHUNK)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return b""

    def read_ready(self) -> bytes | None:
        """See `OutputPipe.read_ready`."""
        return None

    def knows_when_empty(self) -> bool:
        """See `OutputPipe.knows_when_empty`; the stream cannot say, so that the end must be waited for."""
        return False

    def close(self) -> None:
        """See `OutputPipe.close`; the process closes its stream."""


class StreamInput:
    """`CommandInput` over a process's own stream (Windows)."""

    def __init__(self, stream: ByteSendStream) -> None:
        self._stream = stream

    async def write(self, data: bytes) -> None:
        """See `CommandInput.write`."""
        try:
            await self._stream.send(data)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise InputClosedError("The command takes no more input.") from error

    def is_awaited(self) -> bool:
        """See `CommandInput.is_awaited`; a pipe does not say."""
        return False


def can_poll_pipes() -> bool:
    """Whether `DescriptorPipe` works here."""
    return sys.platform != "win32"
