"""Images from a user or a tool: checked, and made small enough for models.

Owns: which formats and sizes are accepted, and scaling. Must not know: where an image is from, wires, providers. Pillow
(the extra `[images]`) is imported when the first image comes; without it an image that models take unscaled is sent as
it is.
"""

import base64
import binascii
import io
import struct
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

import anyio.to_thread

from pattern_acp.domain.messages import ImagePart
from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.kinds import kind_of_bytes

if TYPE_CHECKING:
    from PIL.Image import Image

EDGE = 1_568
"""Pixels of the longer side at which vendors see images; a larger image is scaled down by them, and paid for before
that."""

SENT_BYTES = 3_700_000
"""Bytes of an image that goes to a model; Anthropic accepts 5 MB of base64 text, the least of all vendors."""

GIVEN_BYTES = 30_000_000
"""Limit on bytes of an image."""

GIVEN_PIXELS = 80_000_000
"""Limit on pixels of an image: a small file can unpack to gigabytes."""

PREVIEW_EDGE = 640
"""Pixels of the longer side of a preview of an image that is too large to be shown."""

UNSCALED_EDGE = 2_000
"""Pixels of the longer side of an image that is sent as it is; Anthropic refuses larger ones in long conversations."""

INSTALL = 'run: pip install "pattern-acp[images]"'
"""End of a sentence that says how the part that scales is installed."""

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


async def image_of(data: bytes, name: str = "") -> ImagePart:
    """Read the image in `data` with its real type and size in pixels, scaled down if it is larger than models see.

    Raises:
        ImageError: it is no PNG, JPEG, GIF or WebP image, is damaged, or is too large.
    """
    return await anyio.to_thread.run_sync(read_image, data, name)


async def image_of_base64(data: str, name: str = "") -> ImagePart:
    """As `image_of`, for base64 text.

    Raises:
        ImageError: as `image_of`; also when `data` is no base64.
    """
    return await image_of(decode_base64(data, name), name)


def decode_base64(data: str, name: str = "") -> bytes:
    """Decode base64 text; line breaks in it are ignored.

    Raises:
        ImageError: it is no base64, or more than `GIVEN_BYTES`.
    """
    if len(data) * 3 // 4 > GIVEN_BYTES:
        raise _too_large(name, len(data) * 3 // 4)
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"{_called(name)} is not valid base64; send the image again.") from error


def read_image(data: bytes, name: str = "") -> ImagePart:
    """See `image_of`; decodes the whole image, which takes up to a second for a very large one."""
    if len(data) > GIVEN_BYTES:
        raise _too_large(name, len(data))
    kind, media_type = kind_of_bytes(data[:8_192])
    if kind != "image":
        raise ImageError(f"{_called(name)} is not a PNG, JPEG, GIF or WebP image; convert it to one of these.")
    if find_spec("PIL") is None:
        return unscaled(data, media_type, name)
    image = _decoded(data, name)
    if max(image.size) <= EDGE and len(data) <= SENT_BYTES:
        return _part(media_type, data, name, image.size)
    scaled = _scaled(image, EDGE)
    media_type, data = _encoded(scaled, as_jpeg=media_type == "image/jpeg")
    if len(data) > SENT_BYTES:
        media_type, data = _encoded(scaled, as_jpeg=True)
    return _part(media_type, data, name, scaled.size)


def unscaled(data: bytes, media_type: str, name: str = "") -> ImagePart:
    """Return an image as it is, with the size that its first bytes state.

    Raises:
        ImageError: it is cut off, or so large that it must be scaled first.
    """
    size = _stated_size(data, media_type)
    if size is None or 0 in size or not _is_whole(data, media_type):
        raise ImageError(f"{_called(name)} is damaged and cannot be read; send it again.")
    if max(size) > UNSCALED_EDGE or len(data) > SENT_BYTES:
        raise ImageError(
            f"{_called(name)} has {size[0]} by {size[1]} pixels and must be scaled down; "
            f"send a smaller one, or {INSTALL}."
        )
    return _part(media_type, data, name, size)


def _is_whole(data: bytes, media_type: str) -> bool:
    """Return whether the end of an image is there: a model's server refuses one that is cut off."""
    match media_type:
        case "image/png":
            return b"IEND" in data[-16:]
        case "image/jpeg":
            return b"\xff\xd9" in data[-64:]
        case "image/gif":
            return data.rstrip(b"\0").endswith(b";")
        case _:
            return len(data) >= 8 + int.from_bytes(data[4:8], "little")


def _stated_size(data: bytes, media_type: str) -> tuple[int, int] | None:
    """Width and height by the head of an image; None if it has none."""
    try:
        match media_type:
            case "image/png":
                return struct.unpack_from(">II", data, 16)
            case "image/gif":
                return struct.unpack_from("<HH", data, 6)
            case "image/jpeg":
                return _jpeg_size(data)
            case _:
                return _webp_size(data)
    except struct.error:
        return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while True:
        marker, kind, length = struct.unpack_from(">BBH", data, at)
        if marker != 0xFF:  # every segment begins with it
            return None
        if kind in range(0xC0, 0xD0) and kind not in {0xC4, 0xC8, 0xCC}:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        at += 2 + length


def _webp_size(data: bytes) -> tuple[int, int] | None:
    match data[12:16]:
        case b"VP8 ":
            width, height = struct.unpack_from("<HH", data, 26)
            return width & 0x3FFF, height & 0x3FFF
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8X" if len(data) >= 30:  # the length of that head
            return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
        case _:
            return None


async def preview_of(part: ImagePart) -> ImagePart:
    """Return a small picture of an image. Raises ImageError where it cannot be read."""
    return await anyio.to_thread.run_sync(partial(_preview, part))


def _preview(part: ImagePart) -> ImagePart:
    if find_spec("PIL") is None:
        raise ImageError(f"{_called(part.name)} is too large to be shown; {INSTALL} for a preview.")
    small = _scaled(_decoded(decode_base64(part.data, part.name), part.name), PREVIEW_EDGE)
    media_type, data = _encoded(small, as_jpeg=True)
    return _part(media_type, data, part.name, small.size)


def _decoded(data: bytes, name: str) -> "Image":
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
        if image.width * image.height <= GIVEN_PIXELS:
            image.load()
            return image
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        pass
    except (OSError, ValueError, SyntaxError, EOFError, MemoryError) as error:
        # Pillow's readers raise any of these for bytes that are not what their first ones promise.
        raise ImageError(f"{_called(name)} is damaged and cannot be read; send it again.") from error
    raise ImageError(f"{_called(name)} has more than {GIVEN_PIXELS:,} pixels; send a smaller one.")


def _scaled(image: "Image", edge: int) -> "Image":
    from PIL import ImageOps

    # Cameras store the orientation beside the pixels, which a new file would lack.
    turned = ImageOps.exif_transpose(image)
    if turned.mode not in {"RGB", "RGBA", "L"}:
        turned = turned.convert("RGBA" if turned.has_transparency_data else "RGB")
    turned.thumbnail((edge, edge))
    return turned


def _encoded(image: "Image", *, as_jpeg: bool) -> tuple[str, bytes]:
    from PIL import Image

    file = io.BytesIO()
    if not as_jpeg:
        image.save(file, "PNG")
        return "image/png", file.getvalue()
    if image.mode == "RGBA":
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        image = white
    image.save(file, "JPEG", quality=85)
    return "image/jpeg", file.getvalue()


def _part(media_type: str, data: bytes, name: str, size: tuple[int, int]) -> ImagePart:
    return ImagePart(media_type, base64.b64encode(data).decode("ascii"), name, *size)


def _too_large(name: str, size: int) -> ImageError:
    return ImageError(f"{_called(name)} has {size:,} bytes; at most {GIVEN_BYTES:,} can be looked at.")


def _called(name: str) -> str:
    return f"The image {name}" if name else "The image"
