"""Attachments of a chat's prompt: images, and piped input.

Owns: reading them, and their limits. Must not know: how images are scaled, which is the agent's.
"""

import base64
import os
import select
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from msgspec import Struct

from pattern_acp.cli.chat.agent_process import ChatError
from pattern_acp.workspace.images import GIVEN_BYTES
from pattern_acp.workspace.kinds import inspect_path, kind_of_bytes

PIPED_CHARACTERS = 2_000_000
"""Limit of piped text; the model gets both ends of a long text and reads on where it needs to."""

PIPED_URI = "stdin:///piped%20input"

WAITING_SECONDS = 3.0
"""Longest silence of a pipe before a message says that the chat waits for it."""


class GivenImage(Struct, frozen=True):
    """An image as ACP carries it: base64 text, its media type, the URI of its file."""

    data: str
    media_type: str
    uri: str


class GivenText(Struct, frozen=True):
    """Text that was piped in."""

    text: str
    uri: str = PIPED_URI


def say(sentence: str) -> None:
    """Tell the user something, on stderr."""
    sys.stderr.write(f"pattern-acp chat {sentence}\n")
    sys.stderr.flush()


def read_piped(
    stdin: TextIO, tell: Callable[[str], None] = say, *, waiting: float = WAITING_SECONDS
) -> GivenImage | GivenText | None:
    """Read a pipe or a file on stdin to its end; None without any, and for a terminal or a device.

    Raises:
        ChatError: it is neither text nor an image, or too large an image.
    """
    try:
        descriptor = stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return None
    if not stat.S_ISFIFO(mode) and not stat.S_ISREG(mode):
        return None
    if sys.platform != "win32" and not select.select([descriptor], [], [], waiting)[0]:
        tell("waits for the end of its stdin, which goes with the prompt; `< /dev/null` gives it none.")
    data = stdin.buffer.read(GIVEN_BYTES + 1)
    if not data.strip():
        return None
    kind, media_type = kind_of_bytes(data)
    if kind == "image" and len(data) <= GIVEN_BYTES:
        return GivenImage(base64.b64encode(data).decode("ascii"), media_type, PIPED_URI)
    if kind != "text":
        raise ChatError(f"What was piped in is no text and no image of at most {GIVEN_BYTES:,} bytes; pipe text.")
    text = data.decode("utf-8-sig", "replace")
    if len(text) <= PIPED_CHARACTERS:
        return GivenText(text)
    tell(f"gives only the first {PIPED_CHARACTERS:,} characters of what was piped in.")
    return GivenText(f"{text[:PIPED_CHARACTERS]}\n[cut here: more was piped in]\n")


def read_images(paths: tuple[str, ...]) -> tuple[GivenImage, ...]:
    """The images in these files.

    Raises:
        ChatError: one of them is missing, no image, or too large.
    """
    return tuple(_read(Path(path).expanduser().absolute()) for path in paths)


def _read(path: Path) -> GivenImage:
    facts = inspect_path(str(path))
    if facts.kind == "missing":
        raise ChatError(f"There is no file {path}; give an existing image with --image.")
    if facts.kind != "image":
        raise ChatError(f"{path} is not a PNG, JPEG, GIF or WebP image.")
    if facts.size > GIVEN_BYTES:
        raise ChatError(f"{path} has {facts.size:,} bytes; at most {GIVEN_BYTES:,} can be sent.")
    return GivenImage(base64.b64encode(path.read_bytes()).decode("ascii"), facts.media_type, path.as_uri())
