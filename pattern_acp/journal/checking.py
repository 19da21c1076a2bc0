"""Checking all that the journal keeps, for `doctor --verify`.

Owns: going through every stream and every stored content. Must not know: what a sound chain is (journal/reader.py), or
what follows from damage.
"""

from pattern_acp.db.columns import integer, text
from pattern_acp.db.connection import Transaction
from pattern_acp.db.queries import load_queries
from pattern_acp.domain.canonical import canonical_json, sha256_hex
from pattern_acp.journal.contents import read_content
from pattern_acp.journal.errors import DamagedEventError
from pattern_acp.journal.events import ArchiveImported
from pattern_acp.journal.reader import ChainReport, read_everywhere, verify_stream

QUERIES = load_queries("pattern_acp.journal")


def broken_streams(tx: Transaction) -> tuple[int, tuple[tuple[str, ChainReport], ...]]:
    """Count the streams, and find those whose chain is broken, with where and why.

    Raises:
        DatabaseError: the file cannot be read.
    """
    streams = [text(row[0]) for row in tx.all(QUERIES["all_streams"])]
    reports = ((stream, verify_stream(tx, stream)) for stream in streams)
    return len(streams), tuple((stream, report) for stream, report in reports if not report.ok)


def wrong_origins(tx: Transaction) -> tuple[str, ...]:
    """A sentence for each import whose rows about where events came from are not what its event says.

    Raises:
        DatabaseError: the file cannot be read.
        JournalError: the event of an import cannot be understood.
    """
    wrong: list[str] = []
    for entry in read_everywhere(tx, ArchiveImported):
        rows = [list(row) for row in tx.all(QUERIES["origins_of"], {"last_seq": entry.seq})]
        if isinstance(entry.event, ArchiveImported) and sha256_hex(canonical_json(rows)) != entry.event.origins_hash:
            wrong.append(f"the import of event {entry.seq} says another origin of its events")
    return tuple(wrong)


def damaged_contents(tx: Transaction) -> tuple[int, tuple[str, ...]]:
    """Count the stored contents of files, with a sentence for each that is not what it was.

    Raises:
        DatabaseError: the file cannot be read.
    """
    hashes = [text(row[0]) for row in tx.all(QUERIES["file_content_hashes"])]
    damaged: list[str] = []
    for digest in hashes:
        try:
            read_content(tx, digest)
        except DamagedEventError:
            damaged.append(f"the stored file {digest[:12]} is not what it was")
    return len(hashes), tuple(damaged)


def newest_times(tx: Transaction) -> tuple[int, int]:
    """The time of the newest event, and the latest time of the newest 10,000; in ms since 1970, 0 without one."""
    row = tx.one(QUERIES["newest_times"])
    return (0, 0) if row is None or row[0] is None else (integer(row[0]), integer(row[1]))


def count_events(tx: Transaction, *, upto: int) -> int:
    """Count the events up to the one of a number.

    Raises:
        DatabaseError: the file cannot be read.
    """
    row = tx.one(QUERIES["count_events"], {"upto": upto})
    return 0 if row is None else integer(row[0])
