"""Our tools under the names that scripts for Claude Code know.

Owns: the two tables. Must not know: what tools do. A tool without an obvious equal keeps its own name.
"""

import re
from collections.abc import Mapping

from pattern_acp.domain.canonical import Json, JsonObject

TOOL_NAMES: Mapping[str, str] = {
    "run_command": "Bash",
    "edit_file": "Edit",
    "apply_patch": "Edit",
    "write_file": "Write",
    "read_file": "Read",
    "search_text": "Grep",
    "find_files": "Glob",
    "list_directory": "LS",
    "update_plan": "TodoWrite",
    "fetch_url": "WebFetch",
    "delegate": "Task",
}
"""Our name to theirs."""

ARGUMENT_NAMES: Mapping[str, Mapping[str, str]] = {
    "edit_file": {"path": "file_path"},
    "write_file": {"path": "file_path"},
    "read_file": {"path": "file_path", "start_line": "offset", "line_count": "limit"},
}
"""Our arguments to theirs; those of one name in both are not listed."""


def theirs(tool: str) -> str:
    """The name a hook is told: of an MCP server's tool `mcp__server__tool`, as Claude Code writes it."""
    if tool in TOOL_NAMES:
        return TOOL_NAMES[tool]
    return f"mcp__{tool}" if "__" in tool else tool


def matches(matcher: str, tool: str) -> bool:
    """Whether a matcher, a regular expression over the whole name, means the tool, by our name or theirs."""
    return not matcher or any(re.fullmatch(matcher, name) for name in (tool, theirs(tool)))


def input_for_hook(tool: str, arguments: JsonObject, folder: str) -> dict[str, Json]:
    """Arguments with our names and theirs side by side; a file's path is absolute under `file_path`."""
    told: dict[str, Json] = dict(arguments)
    for ours, other in ARGUMENT_NAMES.get(tool, {}).items():
        if ours in arguments:
            told[other] = arguments[ours]
    path = told.get("file_path")
    if isinstance(path, str) and not path.startswith(("/", "~", "file:")) and path[1:2] != ":":
        told["file_path"] = f"{folder}/{path}"
    edits = arguments.get("edits")
    if tool == "edit_file" and isinstance(edits, list | tuple) and len(edits) == 1 and isinstance(edits[0], Mapping):
        # Theirs knows one passage a call.
        told["old_string"] = edits[0].get("old_text", "")
        told["new_string"] = edits[0].get("new_text", "")
    return told


def input_from_hook(tool: str, before: JsonObject, told: JsonObject, answered: JsonObject) -> JsonObject:
    """The arguments after a hook changed them; `told` is what it was given. Whichever spelling it changed counts."""
    changed: dict[str, Json] = dict(before)
    back = {other: ours for ours, other in ARGUMENT_NAMES.get(tool, {}).items()}
    for name, value in answered.items():
        ours = back.get(name, name)
        if value != told.get(name) and (ours in before or name not in back or ours not in answered):
            changed[ours] = value
    old, new = changed.pop("old_string", None), changed.pop("new_string", None)
    if tool == "edit_file" and (old is not None or new is not None):
        old = told.get("old_string", "") if old is None else old
        new = told.get("new_string", "") if new is None else new
        changed["edits"] = [{"old_text": old, "new_text": new}]
    return changed
