"""What stays whatever words are forgotten: folders of sessions and parameters of our tools, and where else words are.

Owns: finding them. Must not know: which words, or how they are recognised (`memory.forgotten`).
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence, Set

from msgspec.structs import replace

from pattern_acp.db.connection import SqlValue, Transaction
from pattern_acp.db.table_rows import all_rows, tables_of_state, text_columns
from pattern_acp.domain.canonical import Json
from pattern_acp.journal.redact import find_events, plan_redaction
from pattern_acp.journal.sessions import session_folders
from pattern_acp.memory.forgotten import Forgotten

_NAMES = frozenset({"additional_directories", "cwd", "label", "name", "owner", "path", "persona", "root", "server"})
"""Keys of events under which people's own names for things stay: other records point to things by them."""

_PLACES = {
    "archival_entries": "archived fact",
    "blocks": "description of a memory block",
    "block_updates": "reason in the history of a block",
    "bound_entries": "pattern or reason of a trap",
    "folder_trust": "decision about a folder",
    "grants": "standing permission",
    "mcp_pins": "definition of a tool of an MCP server",
    "memory_files": "name of a memory file",
    "search_entries": "passage of the search index",
    "sessions": "row of a session, such as its title or folder",
    "usage": "row of what requests cost",
}
"""What a row of a table is called, where it may hold words; other tables have the name that they have."""

_CLASSIFYING = frozenset(
    {
        *("actor", "origin", "operation", "kind", "scope", "status", "status_actor", "severity", "effect", "decision"),
        *(
            "permission",
            "tier",
            "schema",
            "mode",
            "thought_level",
            "encoding",
            "hash",
            "id",
            "source",
            "item",
            "prices",
        ),
    }
)
"""Columns that hold one of a fixed set of values, or an id: never anybody's words."""

_OF_BLOCKS = ("id", "block_id", "source")
"""Columns that say which block a row is of."""


def with_names(tx: Transaction, words: Forgotten) -> Forgotten:
    """The same words, which leave alone what names things.

    Raises:
        DatabaseError: the file cannot be read.
    """
    # Late: the tools are many, and one of them forgets.
    from pattern_acp.tools.registry import default_tools

    folders = session_folders(tx)
    parameters = frozenset(name for tool in default_tools() for name in _parameters(tool.spec.input_schema))
    # Files are recorded where links lead to.
    return replace(words, folders=tuple({*folders, *map(os.path.realpath, folders)}), parameters=parameters)


def places_with(tx: Transaction, words: Forgotten, known: Set[str]) -> tuple[str, ...]:
    """Where `words` are, a clause each, apart from histories and the rows of the blocks whose ids are `known`.

    Every table and every column that the schema has is looked at, so that a new one cannot be missed.

    Raises:
        DatabaseError: the file cannot be read.
    """
    found: list[str] = []
    seqs = find_events(tx, words.is_in)
    if held := len(plan_redaction(tx, seqs, with_names(tx, words).mask_json)):
        found.append(_counted(held, "recorded event"))
    if named := len(find_events(tx, lambda payload: words.is_in(payload) and _names_something(payload, words))):
        found.append(
            f"{_counted(named, 'recorded event')} that the name of a folder, file, block, tool or server is in"
        )
    for table in tables_of_state(tx):
        columns = text_columns(tx, table)
        rows = (dict(zip(columns, row, strict=True)) for row in all_rows(tx, table, columns)) if columns else ()
        if count := sum(_row_holds(row, words) for row in rows if not known & {row.get(key) for key in _OF_BLOCKS}):
            found.append(_counted(count, _PLACES.get(table, f"row of `{table}`")))
    return tuple(found)


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _row_holds(row: Mapping[str, SqlValue], words: Forgotten) -> bool:
    return any(
        isinstance(value, str) and name not in _CLASSIFYING and words.holds(value) for name, value in row.items()
    )


def _names_something(payload: str, words: Forgotten) -> bool:
    return any(key in _NAMES and words.holds(text) for key, text in _texts("", json.loads(payload)))


def _texts(key: str, value: Json) -> Iterator[tuple[str, str]]:
    """Every text of a value, with the key that it or its list stands under."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for inner, item in value.items():
            yield from _texts(inner, item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _texts(key, item)


def _parameters(schema: Json) -> Iterator[str]:
    """The names of what a schema describes, at any depth."""
    if isinstance(schema, Mapping):
        properties = schema.get("properties")
        yield from properties if isinstance(properties, Mapping) else ()
        for inner in schema.values():
            yield from _parameters(inner)
    elif isinstance(schema, Sequence) and not isinstance(schema, str):
        for inner in schema:
            yield from _parameters(inner)
