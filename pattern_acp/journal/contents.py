"""Large contents, stored packed: payloads of events, and contents of files for checkpoints.

Owns: the encodings that a column `encoding` names, and which of them is written; the table `file_contents`, with each
content once by its hash. Must not know: which file had it, or when. Hashes are always of the plain bytes. `raw` is the
bytes themselves, `zstd` is RFC 8878, and `zlib` is RFC 1950, which was written before schema version 16 and stays
readable. See docs/adr/0023-zstd.md.
"""

import sys
import zlib
from collections.abc import Callable, Sequence
from types import ModuleType

from pattern_acp.db.columns import data, text
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.journal.codec import DamagedEventError

_LEVEL = 3
"""zstd's own default. It packs under the write lock, and level 6 takes nearly three times as long for a twentieth
less."""


class PackedError(ValueError):
    """Packed bytes that cannot be unpacked: they are damaged, or their encoding is not known."""


def pack(content: bytes) -> tuple[str, bytes]:
    """The encoding that makes `content` smallest, and the packed bytes."""
    packed: bytes = _zstd().compress(content, _LEVEL)
    return ("zstd", packed) if len(packed) < len(content) else ("raw", content)


def unpack(encoding: str, packed: bytes) -> bytes:
    """The content that `pack` packed.

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


QUERIES = load_queries("pattern_acp.journal")


def store_content(tx: Transaction, digest: str, content: bytes, *, seq: int) -> None:
    """Store `content`, whose SHA-256 is `digest`, unless it is there; `seq` is the event that names it (rule R1)."""
    if tx.one(QUERIES["has_file_content"], {"hash": digest}):
        return
    encoding, packed = pack(content)
    row: dict[str, SqlValue] = {
        "hash": digest,
        "size": len(content),
        "encoding": encoding,
        "content": packed,
        "last_seq": seq,
    }
    tx.execute(QUERIES["store_file_content"], row)


def read_content(tx: Transaction, digest: str) -> bytes | None:
    """The content with this SHA-256; None when it is no longer stored.

    Raises:
        DamagedEventError: the stored bytes are not what was stored once.
    """
    row = tx.one(QUERIES["read_file_content"], {"hash": digest})
    if row is None:
        return None
    try:
        content = unpack(text(row[0]), data(row[1]))
    except (PackedError, TypeError) as error:
        raise DamagedEventError("A stored file cannot be unpacked; run pattern-acp doctor.") from error
    if sha256_hex(content) != digest:
        raise DamagedEventError("A stored file is not what it was; run pattern-acp doctor.")
    return content


def contents_with(tx: Transaction, holds: Callable[[str], bool]) -> tuple[str, ...]:
    """The digests of the contents whose text holds something; one that cannot be read counts as having it."""
    digests = [text(row[0]) for row in tx.all(QUERIES["file_content_hashes"])]
    return tuple(digest for digest in digests if _holds(tx, digest, holds))


def drop_contents(tx: Transaction, digests: Sequence[str]) -> None:
    """Delete these contents: files are not brought back to them any more."""
    for digest in digests:
        tx.execute(QUERIES["drop_file_content"], {"hash": digest})


def _holds(tx: Transaction, digest: str, holds: Callable[[str], bool]) -> bool:
    try:
        content = read_content(tx, digest)
    except DamagedEventError:
        return True
    return content is not None and holds(content.decode("utf-8", "replace"))
