"""Kind of a path.

Owns: telling text from images from other bytes by the first 8 kB. Must not know: whole contents, editors.
"""

import codecs
import os
import stat
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from pattern_acp.workspace.errors import NotTextError
from pattern_acp.workspace.text_codec import TextEncoding, bom_encoding, decode_text, is_utf32, is_western

PathKind: TypeAlias = Literal["text", "image", "binary", "directory", "missing", "other"]

_SNIFFED_BYTES = 8_192
"""Git, too, decides on the first 8,000 bytes."""


class PathFacts(Struct, frozen=True):
    """Facts about a path on the disk. `other` is a device, pipe or socket, or unreadable.

    `size` is in bytes, `mtime_ns` in nanoseconds since 1970; both are 0 when missing. `media_type` is "" unless a file,
    `marked` the encoding that a byte order mark names.
    """

    kind: PathKind
    size: int = 0
    mtime_ns: int = 0
    media_type: str = ""
    marked: TextEncoding | None = None


def inspect_path(path: str) -> PathFacts:
    """Look at the disk; never raises. Follows symbolic links. Blocks for one stat and one short read."""
    try:
        found = os.stat(path)  # noqa: PTH116  # twice for each file that is read: a Path costs as much as the look
    except PermissionError:
        return PathFacts("other")
    except (OSError, ValueError):
        return PathFacts("missing")
    if stat.S_ISDIR(found.st_mode):
        return PathFacts("directory", 0, found.st_mtime_ns)
    if not stat.S_ISREG(found.st_mode):
        # Opening a pipe would wait for its other end.
        return PathFacts("other", found.st_size, found.st_mtime_ns)
    try:
        with Path(path).open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except OSError:
        return PathFacts("other", found.st_size, found.st_mtime_ns)
    kind, media_type = kind_of_bytes(head)
    return PathFacts(kind, found.st_size, found.st_mtime_ns, media_type, bom_encoding(head))


def encoding_of_file(path: str) -> TextEncoding | None:
    """The encoding of a whole text file; None when it is no text or unreadable. Blocks."""
    try:
        return decode_text(Path(path).read_bytes())[1]
    except (OSError, ValueError, NotTextError):
        return None


def kind_of_bytes(head: bytes) -> tuple[PathKind, str]:
    """Kind and media type of a file that starts with `head`; a character cut at the end of `head` is no fault."""
    image = _image_type(head)
    if image:
        return "image", image
    if head.startswith(b"%PDF-"):
        return "binary", "application/pdf"
    if _looks_like_text(head):
        return "text", "text/plain"
    return "binary", "application/octet-stream"


def _image_type(head: bytes) -> str:
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    return ""


def _looks_like_text(head: bytes) -> bool:
    if is_utf32(head):
        return False
    encoding = bom_encoding(head)
    if encoding is None and b"\0" in head:
        return False
    try:
        codecs.getincrementaldecoder(encoding or "utf-8")().decode(head)
    except UnicodeDecodeError:
        return encoding is None and is_western(head)
    return True
