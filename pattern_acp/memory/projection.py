"""Memory as files: one file a block, Markdown, or TOML where the block has typed fields.

Owns: the form of a file, its name, and the rows that say which write each file was made from. Must not know: where the
folder is, or when files are written and read. A file is a projection (rule R3): it can be deleted, and is made again.
"""

import re

from msgspec import Struct

from pattern_acp.db import columns
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.errors import BlockError
from pattern_acp.memory.block_files import MARKDOWN, TOML, EditableText

_QUERIES = load_queries("pattern_acp.memory")

MOST_BYTES = 256 * 1024
"""Limit for a file that is read: the longest block in the widest characters is half of it."""

_HEAD = re.compile(r"---\n(?P<head>(?:[^\n]*\n)*?)---\n\n?(?P<text>.*)", re.DOTALL)
_KNOWN = frozenset({"label", "limit", "description"})
_UNSAFE = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


class MemoryFileError(BlockError):
    """A file of memory cannot be used; it was left as it is."""

    failure_code = "memory.file-unusable"

    def __init__(self, file: str, problem: str) -> None:
        """`problem` completes "… was not taken in and was left as it is: …"."""
        super().__init__(f"The memory file {file} was not taken in and was left as it is: {problem}")


class MemoryFile(Struct, frozen=True):
    """A file as it was written: its name, from which write of which block, and the SHA-256 of its bytes."""

    block_id: str
    file: str
    version: int
    file_hash: str


def file_content(label: str, description: str, limit: int, editable: EditableText) -> str:
    """The file of a block. It says nothing that changes without the block, so that its diffs are those of memory.

    What is known of the block stands before its text: between lines of dashes, or in TOML as comments.
    """
    known = (f"label: {label}", f"limit: {limit}", f"description: {' '.join(description.split())}")
    text = editable.text
    body = text if text.endswith("\n") or not text else f"{text}\n"
    if editable.suffix == TOML:
        return "".join(f"# {line}\n" for line in known) + f"\n{body}"
    return "\n".join(("---", *known, "---", "", body))


def text_in_file(file: str, content: bytes, label: str, *, known: str) -> str:
    """The block's text in a file that a user edited; `known` is its text as the file was written.

    The line end that every file ends with is not the block's own, unless the block had one. A TOML file is written
    whole, since what is before its fields are comments.

    Raises:
        MemoryFileError: it is not of the form in which it was written.
    """
    if len(content) > MOST_BYTES:
        raise MemoryFileError(file, f"it is longer than {MOST_BYTES} bytes; shorten it.")
    try:
        decoded = content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise MemoryFileError(file, "it is not UTF-8; save it as UTF-8.") from error
    if file.endswith(TOML):
        if not decoded.startswith(f"# label: {label}\n"):
            raise MemoryFileError(file, f"its head is not the one it was written with; begin it with # label: {label}.")
        return decoded
    found = _HEAD.fullmatch(decoded)
    if found is None or f"label: {label}\n" not in found["head"]:
        raise MemoryFileError(
            file, f"its head is not the one it was written with; let it begin with ---, label: {label} and ---."
        )
    text = found["text"]
    return text if known.endswith("\n") else text.rstrip("\n")


def told_by_file(content: str) -> tuple[dict[str, str], str]:
    """Values in the head of a file (`label`, `limit`, `description`), and the text behind it.

    A file without such a head is all text.
    """
    found = _HEAD.fullmatch(content.replace("\r\n", "\n"))
    if found is None:
        return {}, content
    pairs = (line.partition(": ") for line in found["head"].splitlines())
    return {name: value for name, _, value in pairs if name in _KNOWN}, found["text"]


def file_name(label: str, taken: frozenset[str], suffix: str = MARKDOWN) -> str:
    """The name of a block's file on every platform, other than those `taken`, which are in lower case."""
    plain = _UNSAFE.sub("-", label).strip(".-") or "block"
    plain = f"_{plain}" if _RESERVED.fullmatch(plain) else plain
    name, number = f"{plain}{suffix}", 2
    while name.lower() in taken:
        name, number = f"{plain}-{number}{suffix}", number + 1
    return name


def content_hash(content: bytes) -> str:
    """SHA-256 of a file's bytes."""
    return sha256_hex(content)


def files_in(tx: Transaction, folder: str) -> dict[str, MemoryFile]:
    """The files that were written into a folder, by the id of their block."""
    rows = tx.all(_QUERIES["memory_files"], {"folder": folder})
    found = (
        MemoryFile(columns.text(row[0]), columns.text(row[1]), columns.integer(row[2]), columns.text(row[3]))
        for row in rows
    )
    return {one.block_id: one for one in found}


def note_file(tx: Transaction, folder: str, written: MemoryFile) -> None:
    """A file was written."""
    tx.execute(
        _QUERIES["note_memory_file"],
        {
            "folder": folder,
            "block_id": written.block_id,
            "file": written.file,
            "version": written.version,
            "file_hash": written.file_hash,
        },
    )


def drop_file(tx: Transaction, folder: str, block_id: str) -> None:
    """A file is no longer stored."""
    tx.execute(_QUERIES["drop_memory_file"], {"folder": folder, "block_id": block_id})
