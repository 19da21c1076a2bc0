"""Content-addressed archives: CAR version 1 with blocks of DAG-CBOR and CIDs of version 1 (ipld.io/specs).

Owns: the bytes of such a file. Must not know: what its blocks say. Bytes that are no link must not begin as a CID does;
those of an archive of ours are Loro documents and JSON, which never do.
"""

import os
from hashlib import sha256
from typing import BinaryIO, TypeAlias, TypeVar, cast

import libipld
import msgspec

from pattern_acp.domain.errors import PatternError

Node: TypeAlias = "bool | int | str | bytes | list[Node] | dict[str, Node] | None"
"""The content of a block. A link is the bytes of a CID."""

T = TypeVar("T")

CID_BYTES = 36
_CID = b"\x01\x71\x12\x20"
"""CID version 1, DAG-CBOR, SHA-256 of 32 bytes; the digest follows."""

BLAKE3_CID = b"\x01\x71\x1e\x20"
"""The same with BLAKE3, which Pattern writes."""

MOST_BLOCK_BYTES = 64_000_000
"""The largest block that is read: more than any is that we write."""


class ArchiveDamagedError(PatternError):
    """A file is no archive, or a block of it is not what its CID says."""

    failure_code = "carry.damaged"


def cid_text(cid: bytes) -> str:
    """The usual spelling of a CID, `bafyrei…`."""
    return libipld.encode_cid(cid)


class ArchiveWriter:
    """Writes an archive, block by block; the same blocks in the same order give the same bytes."""

    def __init__(self, file: BinaryIO, kind: bytes = _CID) -> None:
        """Begin at the start of `file`, which can seek; `kind` begins each CID."""
        self._file = file
        self._kind = kind
        self._known: set[bytes] = set()
        self._file.write(_header(kind + bytes(32)))

    def add(self, node: Node) -> bytes:
        """Write a block unless it is there already; its CID. Raises OSError where the file cannot be written."""
        content = libipld.encode_dag_cbor(node)
        cid = self._kind + _digest(self._kind, content, 0)
        if cid not in self._known:
            self._known.add(cid)
            self._file.write(_varint(CID_BYTES + len(content)) + cid + content)
        return cid

    def finish(self, node: Node) -> bytes:
        """Write the last block, which is the root; its CID. Raises OSError where the file cannot be written."""
        root = self.add(node)
        self._file.seek(0)
        # As long as the one that was written first.
        self._file.write(_header(root))
        return root


class ArchiveReader:
    """Reads an archive whose every block was compared with its CID before."""

    def __init__(self, file: BinaryIO, places: dict[bytes, tuple[int, int]], root: bytes) -> None:
        """Read from an open file, with the place and length of the content of each block."""
        self._file = file
        self._places = places
        self.root = root

    def read(self, cid: bytes, form: type[T]) -> T:
        """A block, as a value of the type `form`.

        Raises:
            ArchiveDamagedError: the block is missing, or is not of this form.
        """
        try:
            at, length = self._places[cid]
            self._file.seek(at)
            return msgspec.convert(libipld.decode_dag_cbor(self._file.read(length)), form)
        except KeyError:
            raise ArchiveDamagedError(f"The archive lacks the block {_spelled(cid)}.") from None
        except (ValueError, RecursionError, msgspec.ValidationError) as error:
            raise ArchiveDamagedError(
                f"The block {_spelled(cid)} of the archive is not in the form that it should have ({error})."
            ) from error


def read_archive(file: BinaryIO) -> ArchiveReader:
    """Return a reader of an archive, after comparing every block with its CID.

    Memory: some 100 bytes a block, and the largest one.

    Raises:
        ArchiveDamagedError: it is none, is cut short, or a block is not what its CID says.
        OSError: it cannot be read.
    """
    size = file.seek(0, os.SEEK_END)
    if not size:
        raise ArchiveDamagedError("The file is empty.")
    file.seek(0)
    root, places = _root(file, size), dict[bytes, tuple[int, int]]()
    while (length := _read_varint(file)) is not None:
        at = file.tell()
        if not CID_BYTES < length <= MOST_BLOCK_BYTES or at + length > size:
            raise ArchiveDamagedError(f"The archive is cut short, or damaged at byte {at:,}.")
        cid, content = file.read(CID_BYTES), file.read(length - CID_BYTES)
        if _digest(cid[: len(_CID)], content, at) != cid[len(_CID) :]:
            raise ArchiveDamagedError(f"The block {_spelled(cid)} was changed: its content has another hash.")
        places[cid] = (at + CID_BYTES, length - CID_BYTES)
    if root not in places:
        raise ArchiveDamagedError("The archive lacks its root; it is cut short.")
    return ArchiveReader(file, places, root)


def _digest(kind: bytes, content: bytes, at: int) -> bytes:
    if kind == _CID:
        return sha256(content).digest()
    if kind != BLAKE3_CID:
        raise ArchiveDamagedError(f"The block at byte {at:,} of the archive is of a kind that is not known.")
    try:
        # An extra: exports of Pattern alone need it.
        from blake3 import blake3
    except ImportError as error:
        raise PatternError(
            'A file of Pattern needs the extra [pattern]; run: pip install "pattern-acp[pattern]".',
            failure_code="carry.foreign",
        ) from error
    return blake3(content).digest()


def _header(root: bytes) -> bytes:
    content = libipld.encode_dag_cbor({"roots": [root], "version": 1})
    return _varint(len(content)) + content


def _root(file: BinaryIO, size: int) -> bytes:
    length = _read_varint(file)
    if length is None or not 0 < length <= min(size, 1_000):
        raise ArchiveDamagedError("The file is not an archive that pattern-acp export wrote.")
    try:
        match cast("object", libipld.decode_dag_cbor(file.read(length))):
            case {"version": 1, "roots": [bytes() as root]}:
                return root
            case _:
                pass
    except (ValueError, RecursionError):
        pass
    raise ArchiveDamagedError("The file is not an archive that pattern-acp export wrote.")


def _spelled(cid: bytes) -> str:
    try:
        return cid_text(cid)
    except ValueError:
        return cid.hex()


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _read_varint(file: BinaryIO) -> int | None:
    """The next number; None at the end of the file."""
    number = shift = 0
    while byte := file.read(1):
        number |= (byte[0] & 0x7F) << shift
        shift += 7
        if byte[0] < 0x80:
            return number
        if shift > 63:
            break
    if not shift:
        return None
    raise ArchiveDamagedError(f"The archive is cut short, or damaged at byte {file.tell():,}.")
