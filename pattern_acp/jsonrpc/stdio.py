"""The process's standard descriptors, taken for the protocol.

Owns: descriptors 0 and 1. This is the only module that may touch them, and it is imported before anything heavy, so it
needs nothing that a bare interpreter has not loaded. Must not know: what travels on them.
"""

import os

from pattern_acp.jsonrpc.stdio_platform import adopt_standard_descriptors

STDIN = 0
STDOUT = 1
STDERR = 2


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


def _open_missing() -> None:
    # In ascending order: a new descriptor takes the lowest free number, which is then the missing one.
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
