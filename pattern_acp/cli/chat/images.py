"""Images that go with a prompt of the chat.

Owns: reading them from the disk. Must not know: how they are scaled, which is the agent's.
"""

import base64
from dataclasses import dataclass
from pathlib import Path

from pattern_acp.cli.chat.errors import ChatError
from pattern_acp.workspace.images import GIVEN_BYTES
from pattern_acp.workspace.kinds import inspect_path


@dataclass(frozen=True, slots=True)
class GivenImage:
    """An image as ACP carries it: base64 text, its media type, the URI of its file."""

    data: str
    media_type: str
    uri: str


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
        raise ChatError(f"{path} has {facts.size:,} bytes; at most {GIVEN_BYTES:,} can be given.")
    return GivenImage(base64.b64encode(path.read_bytes()).decode("ascii"), facts.media_type, path.as_uri())
