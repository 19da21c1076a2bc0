"""Contents of files for checkpoints, by their hash.

Owns: the table `file_contents`: each content once, compressed. Must not know: which file had it, or when.
"""

from collections.abc import Callable, Sequence

from pattern_acp.db.columns import data, text
from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.journal.errors import DamagedEventError
from pattern_acp.journal.packing import PackedError, pack, unpack

QUERIES = load_queries("pattern_acp.journal")


def store_content(tx: Transaction, digest: str, content: bytes, *, seq: int) -> None:
    """Keep `content`, whose SHA-256 is `digest`, unless it is there; `seq` is the event that names it (rule R1)."""
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
    """The content with this SHA-256; None when it is not kept any more.

    Raises:
        DamagedEventError: what is stored is not what was kept.
    """
    row = tx.one(QUERIES["read_file_content"], {"hash": digest})
    if row is None:
        return None
    try:
        content = unpack(text(row[0]), data(row[1]))
    except (PackedError, TypeError) as error:
        raise DamagedEventError("A kept file cannot be unpacked; run pattern-acp doctor.") from error
    if sha256_hex(content) != digest:
        raise DamagedEventError("A kept file is not what it was; run pattern-acp doctor.")
    return content


def contents_with(tx: Transaction, holds: Callable[[str], bool]) -> tuple[str, ...]:
    """The digests of the contents whose text holds something; one that cannot be read counts as holding it."""
    digests = [text(row[0]) for row in tx.all(QUERIES["file_content_hashes"])]
    return tuple(digest for digest in digests if _holds(tx, digest, holds))


def drop_contents(tx: Transaction, digests: Sequence[str]) -> None:
    """Keep these contents no longer: files are not brought back to them any more."""
    for digest in digests:
        tx.execute(QUERIES["drop_file_content"], {"hash": digest})


def _holds(tx: Transaction, digest: str, holds: Callable[[str], bool]) -> bool:
    try:
        content = read_content(tx, digest)
    except DamagedEventError:
        return True
    return content is not None and holds(content.decode("utf-8", "replace"))
