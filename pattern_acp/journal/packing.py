"""Packing what is large: payloads of events, and contents of files.

Owns: the encodings that a column `encoding` names, and which of them is written. Must not know: what is packed, or any
hash of it; hashes are always of the plain bytes. `raw` is the bytes themselves, `zstd` is RFC 8878, and `zlib` is RFC
1950, which was written before schema version 16 and stays readable. See docs/adr/0023-zstd.md.
"""

import sys
import zlib
from types import ModuleType

_LEVEL = 3
"""zstd's own default. It packs under the write lock, and level 6 takes nearly three times as long for a twentieth
less."""


class PackedError(ValueError):
    """What was packed cannot be unpacked: it is damaged, or its encoding is not known."""


def pack(content: bytes) -> tuple[str, bytes]:
    """The encoding that makes `content` smallest, and the packed bytes."""
    packed: bytes = _zstd().compress(content, _LEVEL)
    return ("zstd", packed) if len(packed) < len(content) else ("raw", content)


def unpack(encoding: str, packed: bytes) -> bytes:
    """What `pack` was given.

    Raises:
        PackedError: see there.
    """
    match encoding:
        case "raw":
            return packed
        case "zlib":
            try:
                return zlib.decompress(packed)
            except zlib.error as error:
                raise PackedError("the packed bytes are damaged") from error
        case "zstd":
            zstd = _zstd()
            try:
                content: bytes = zstd.decompress(packed)
            except zstd.ZstdError as error:
                raise PackedError("the packed bytes are damaged") from error
            return content
        case _:
            raise PackedError(f"the encoding {encoding[:20]!r} is not known")


def _zstd() -> ModuleType:
    # Late: a start reads and writes nothing large.
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
