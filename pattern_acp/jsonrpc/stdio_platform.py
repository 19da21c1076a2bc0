"""What differs between platforms about descriptors. Imported before anything heavy; see `stdio`."""

import os
import sys

if sys.platform == "win32":

    def adopt_standard_descriptors(reader: int, writer: int) -> None:
        """Make the claim known outside the C runtime, and stop it from translating line ends.

        Children take Windows' own standard handles, which the C runtime does not always move along
        (hermes#73693).
        """
        import ctypes
        import msvcrt

        for descriptor in (reader, writer):
            msvcrt.setmode(descriptor, os.O_BINARY)
        for descriptor, standard_handle in ((0, -10), (1, -11)):
            ctypes.windll.kernel32.SetStdHandle(standard_handle, msvcrt.get_osfhandle(descriptor))

    def is_readable_within(descriptor: int, seconds: float) -> bool:
        """Never: Windows can wait for sockets only."""
        del descriptor, seconds
        return False

    def wait_until_readable(descriptor: int) -> None:
        """Never called: descriptors block on Windows."""

    def wait_until_writable(descriptor: int) -> None:
        """Never called: descriptors block on Windows."""

else:

    def adopt_standard_descriptors(reader: int, writer: int) -> None:
        """Nothing is left to do: descriptors are all there is."""

    def is_readable_within(descriptor: int, seconds: float) -> bool:
        """Whether a read would find bytes, the end or an error, within so many seconds."""
        import select

        return bool(select.select([descriptor], [], [], seconds)[0])

    def wait_until_readable(descriptor: int) -> None:
        """Wait for a descriptor that someone else made non-blocking (they are shared with the parent)."""
        import select

        select.select([descriptor], [], [])

    def wait_until_writable(descriptor: int) -> None:
        """Wait for a descriptor that someone else made non-blocking (they are shared with the parent)."""
        import select

        select.select([], [descriptor], [])


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however little the descriptor takes at once.

    Raises:
        OSError: the peer no longer reads.
    """
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            wait_until_writable(descriptor)
