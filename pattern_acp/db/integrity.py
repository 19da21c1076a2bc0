"""Checks of the file itself, for `doctor` and after a crash.

Owns: SQLite's own checks. Must not know: what the rows mean; the journal verifies its chain itself.
"""

from typing import LiteralString

from pattern_acp.db.transaction import Transaction

_MOST_PROBLEMS = 20


def quick_check(tx: Transaction) -> tuple[str, ...]:
    """Problems of the file's structure and of its foreign keys, at most 20 of each; empty when it is sound.

    Raises:
        DatabaseError: the file cannot be read at all.
    """
    return _check(tx, "PRAGMA quick_check(20)")


def full_check(tx: Transaction) -> tuple[str, ...]:
    """Problems as of `quick_check`, and of indexes that differ from their table; takes several times as long.

    Raises:
        DatabaseError: the file cannot be read at all.
    """
    return _check(tx, "PRAGMA integrity_check(20)")


def _check(tx: Transaction, pragma: LiteralString) -> tuple[str, ...]:
    structure = [str(row[0]) for row in tx.all(pragma) if row[0] != "ok"]
    references = [
        f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is missing"
        for row in tx.all("PRAGMA foreign_key_check")
    ]
    return (*structure, *references[:_MOST_PROBLEMS])
