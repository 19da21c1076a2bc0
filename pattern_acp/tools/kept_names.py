"""What stays in the journal whatever words are taken out of it: folders of sessions, and parameters of our tools.

Owns: finding both. Must not know: which words, or how they are recognised (`memory.forgotten`).
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.canonical import Json
from pattern_acp.journal.sessions import session_folders
from pattern_acp.memory.forgotten import Forgotten


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
