"""Folders that may not be entered, also for root, to whom nothing is closed.

Owns: giving up root's rights over files for a while, for the calling thread alone. Must not know: what is looked at.
"""

import ctypes
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65_534


@contextmanager
def closed_folder(folder: Path) -> Generator[Path, None, None]:
    """A folder beside others in `folder` that nobody may enter while the context lasts, on Linux not even root.

    Threads that are started meanwhile have as few rights, so nothing may start any.
    """
    closed = folder / "closed"
    (closed / "below").mkdir(parents=True)
    closed.chmod(0)
    drops = sys.platform == "linux" and os.geteuid() == 0
    above = [each for each in (folder, *folder.parents) if drops and not each.stat().st_mode & 0o001]
    for each in above:
        each.chmod(each.stat().st_mode | 0o011)
    if drops:
        # setfsuid(2): the checks of files alone, and of this thread alone.
        ctypes.CDLL(None).setfsuid(NOBODY)
    try:
        yield closed
    finally:
        if drops:
            ctypes.CDLL(None).setfsuid(0)
        for each in above:
            each.chmod(each.stat().st_mode & ~0o011)
        closed.chmod(0o700)
