"""Typed reading of a row's columns.

Owns: the check that a column holds what its STRICT table says. Must not know: any table.
"""

from pattern_acp.db.raw import SqlValue


def integer(value: SqlValue) -> int:
    """An INTEGER column. Raises TypeError where it is another one: the statement and its reader disagree."""
    if not isinstance(value, int):
        raise TypeError(f"An INTEGER column gave {type(value).__name__}.")
    return value


def text(value: SqlValue) -> str:
    """A TEXT column; see `integer`."""
    if not isinstance(value, str):
        raise TypeError(f"A TEXT column gave {type(value).__name__}.")
    return value


def data(value: SqlValue) -> bytes:
    """A BLOB column; see `integer`."""
    if not isinstance(value, bytes):
        raise TypeError(f"A BLOB column gave {type(value).__name__}.")
    return value
