"""Titles of calls that could not be prepared: what they name, in the words that a call of the tool would have.

Must not know: why a call failed.
"""

from collections.abc import Mapping

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.text_limits import SHOWN_NAME, one_line

SHOWN_TITLE = 120
"""Most characters of a title."""

WORDS: Mapping[str, str] = {
    "apply_patch": "Edit",
    "edit_file": "Edit",
    "find_files": "Find",
    "list_directory": "List",
    "memory_read": "Read memory:",
    "memory_search": "Search memory:",
    "memory_write": "Write memory:",
    "read_file": "Read",
    "run_command": "",
    "search_text": "Search",
    "session_search": "Search sessions:",
    "write_file": "Write",
}
"""The words that introduce a tool's arguments in a title; other tools are called by their name."""

_NAMING = ("path", "command", "pattern", "query", "label")
"""The arguments that say what a call is about, the most telling first."""


def failed_title(name: str, arguments: JsonObject) -> str:
    """A short title for a call of the tool `name`, which there may not be, with arguments that may not fit it."""
    for key in _NAMING:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            words = WORDS.get(name, name[:SHOWN_NAME])
            return one_line(f"{words} {value.strip().splitlines()[0]}".strip(), SHOWN_TITLE)
    return name[:SHOWN_NAME] or "unnamed tool"
