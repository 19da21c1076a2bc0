"""The process's standard descriptors, taken for the protocol.

Owns: descriptors 0 and 1. This is the only module that may touch them, and it is imported before anything heavy, so it
needs nothing that a bare interpreter has not loaded. Must not know: what travels on them.
"""

import os
import stat
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

    def takes_at_once(descriptor: int, size: int) -> bool:
        """Never known: Windows can wait for sockets only."""
        del descriptor, size
        return False

else:

    def adopt_standard_descriptors(reader: int, writer: int) -> None:
        """Nothing is left to do: descriptors are all there is."""

    def is_readable_within(descriptor: int, seconds: float) -> bool:
        """Tell whether a read would find bytes, the end or an error, within so many seconds."""
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

    def takes_at_once(descriptor: int, size: int) -> bool:
        """Tell whether a write of so many bytes surely does not wait: to a pipe with space for them."""
        import select

        if size > select.PIPE_BUF or not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLOUT)
        return [events for _, events in poll.poll(0)] == [select.POLLOUT]


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however little the descriptor takes at once. Raises OSError where the peer no longer reads."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            wait_until_writable(descriptor)


STDIN = 0
STDOUT = 1
STDERR = 2

FIRST_LINE_SECONDS = 0.01
"""Longest wait for a first line. An editor writes it as soon as it has spawned us, which is before we run."""

FIRST_LINE_BYTES = 65536
"""The capacity of a pipe; an initialize has a few hundred bytes."""

FIRST_LINE_READS = 4
"""Reads that may bring the first line; a pipe gives it in one."""


def claim_standard_streams() -> tuple[int, int]:
    """Private descriptors for reading from and writing to the peer.

    Afterwards descriptor 0 is the null device and descriptor 1 leads to standard error, so that a stray print, a
    library or a child can neither eat a message nor break one (hermes#69732, opencode#13634). The private descriptors
    are not inherited by children. A standard descriptor that was closed counts as the null device.
    """
    _open_missing()
    reader, writer = os.dup(STDIN), os.dup(STDOUT)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, STDIN)
    os.close(null)
    os.dup2(STDERR, STDOUT)
    adopt_standard_descriptors(reader, writer)
    return reader, writer


def read_first(reader: int) -> bytes:
    """Read what the peer sends at once: its first line and whatever comes with it, or less. Waits 0.04 s at most."""
    received = b""
    try:
        for _ in range(FIRST_LINE_READS):
            if b"\n" in received or not is_readable_within(reader, FIRST_LINE_SECONDS):
                break
            received += os.read(reader, FIRST_LINE_BYTES)
    except OSError:
        # The one who reads on meets it again, and says so in the log, which does not run yet.
        return received
    return received


def write_first(writer: int, line: bytes) -> bool:
    """Write before the transport runs; whether the peer took it."""
    try:
        write_all(writer, line)
    except OSError:
        return False
    return True


def _open_missing() -> None:
    # In ascending order: a new descriptor takes the lowest free number, which is then the missing one.
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
