"""Checks of the file itself, for `doctor` and after a crash.

Owns: SQLite's own checks. Must not know: what the rows mean; the journal verifies its chain itself.
"""

from pattern_acp.db.transaction import Transaction

_MOST_PROBLEMS = 20


def quick_check(tx: Transaction) -> tuple[str, ...]:
    """Problems of the file's structure and of its foreign keys, at most 20 of each; empty when it is sound.

    Raises:
        DatabaseError: the file cannot be read at all.
    """
    structure = [str(row[0]) for row in tx.all("PRAGMA quick_check(20)") if row[0] != "ok"]
    references = [
        f"row {row[1]} of {row[0]} refers to a row of {row[2]} that is missing"
        for row in tx.all("PRAGMA foreign_key_check")
    ]
    return (*structure, *references[:_MOST_PROBLEMS])
