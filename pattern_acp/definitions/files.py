"""Finding Markdown files below a folder, safely.

Owns: how deep and how much is looked at, and that no link leads out. Must not know: what the files mean.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

MOST_FILES = 200
MOST_LEVELS = 5
FILE_BYTES = 200_000
"""Largest file that is read; a prompt of this size fills a small model."""


class Reading(Struct):
    """What was found to be wrong while reading: sentences for the person."""

    problems: list[str] = field(default_factory=list[str])


def files_below(folder: Path, boundary: Path, reading: Reading) -> Iterator[Path]:
    """Every file below `folder`, in the order of their names; those that a link leads to outside `boundary` are not.

    Blocks while it looks at the disk; what cannot be looked at is left out.
    """
    found = 0
    waiting = [(folder, 1)]
    while waiting:
        place, level = waiting.pop(0)
        for path in _children(place):
            if found >= MOST_FILES:
                reading.problems.append(f"{folder} holds more than {MOST_FILES} files; the rest is not looked at.")
                return
            if not _is_inside(path, boundary):
                reading.problems.append(f"{path} is a link that leads out of {boundary}, so it is not used.")
            elif os.path.isdir(path):  # noqa: PTH112  a Path raises where it may not look
                if level < MOST_LEVELS:
                    waiting.append((path, level + 1))
            else:
                found += 1
                yield path


def read_text(path: Path, reading: Reading) -> str | None:
    """The text of a file; None, with a sentence, when it cannot be used."""
    try:
        if path.stat().st_size > FILE_BYTES:
            reading.problems.append(f"{path} is larger than {FILE_BYTES // 1000} kB, so it is not used.")
            return None
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        reading.problems.append(f"{path} cannot be read as text, so it is not used.")
        return None


def _children(folder: Path) -> list[Path]:
    # Every turn looks here: names are told apart before they are made paths.
    try:
        return [folder / name for name in sorted(os.listdir(folder)) if not name.startswith(".")]  # noqa: PTH208
    except OSError:
        return []


def _is_inside(path: Path, boundary: Path) -> bool:
    try:
        return path.resolve().is_relative_to(boundary.resolve())
    except (OSError, RuntimeError):
        return False
