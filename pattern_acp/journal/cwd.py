"""Comparing working directories.

Owns: the one form of a path by which two spellings of a folder are the same folder. Must not know: sessions, SQL.
"""

import os
import re
import sys
import unicodedata

_WINDOWS_PATH = re.compile(r"^(?:[A-Za-z]:[\\/]|[\\/]{2}[^\\/])")


def cwd_key(path: str, *, platform: str = sys.platform) -> str:
    """`path` in the form that is compared: symlinks resolved, no trailing slash, and `/` for every separator.

    Case and Unicode composition do not count where the platform's file systems ignore them (Windows, macOS). A drive
    letter or share path is treated as Windows' own on every platform, since a client on Windows may run us in WSL.
    """
    if platform == "win32" or _WINDOWS_PATH.match(path):
        resolved = os.path.realpath(path) if sys.platform == "win32" else path
        return _trim(resolved.replace("\\", "/").casefold())
    resolved = os.path.realpath(path)
    if platform == "darwin":
        resolved = unicodedata.normalize("NFC", resolved).casefold()
    return _trim(resolved)


def _trim(path: str) -> str:
    collapsed = re.sub(r"(?<!^)/{2,}", "/", path)
    return collapsed.rstrip("/") or "/"
