"""How paths are spelled and compared on each platform.

Owns: the three flavours of paths as plain data, so that every rule about paths can be tested on every platform. Must
not know: the disk.
"""

import sys

from msgspec import Struct


class Flavour(Struct, frozen=True):
    """What differs between the path names of platforms."""

    windows: bool
    """Drive letters, UNC shares, both slashes as separators."""
    case_sensitive: bool
    """Whether names that differ only in case are different files."""


POSIX = Flavour(windows=False, case_sensitive=True)
MACOS = Flavour(windows=False, case_sensitive=False)
"""macOS volumes ignore case unless formatted otherwise."""
WINDOWS = Flavour(windows=True, case_sensitive=False)


def _of_platform(platform: str) -> Flavour:
    return {"win32": WINDOWS, "darwin": MACOS}.get(platform, POSIX)


PLATFORM = _of_platform(sys.platform)
"""The flavour of the machine that this runs on."""
