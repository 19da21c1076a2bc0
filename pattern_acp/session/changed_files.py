"""What a session changed in files, from its journal.

Owns: putting the recorded changes of each file together. Must not know: how the journal is read, or what is on
the disk.
"""

import difflib
from collections.abc import Iterable

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.tool_calls import DiffContent, ToolCallStatus
from pattern_acp.journal.events import Event, ToolCallFinished, ToolCallStarted
from pattern_acp.tools.text_limits import DIFFED_LINES

MEMORY_TOOLS = "memory_"
"""Start of the names of tools whose diffs are of memory, under paths that are no files."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file: its text before the session's first change of it (None: it was not there) and after the last."""

    path: str
    before: str | None
    after: str
    changes: int

    def unified(self, shown: str) -> str:
        """The unified diff under the path `shown`; empty when the text is again what it was."""
        old, new = (self.before or "").splitlines(keepends=True), self.after.splitlines(keepends=True)
        if len(old) + len(new) > DIFFED_LINES:
            return f"({shown} is too long to compare: {len(old):,} lines before, {len(new):,} now)"
        name_before = "/dev/null" if self.before is None else f"a/{shown}"
        lines = difflib.unified_diff(old, new, name_before, f"b/{shown}")
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def changed_files(events: Iterable[Event]) -> tuple[ChangedFile, ...]:
    """The files that completed calls changed, in the order of their first change; those changed back are left out."""
    names: dict[ToolCallId, str] = {}
    files: dict[str, ChangedFile] = {}
    for event in events:
        if isinstance(event, ToolCallStarted):
            names[event.call.call_id] = event.call.name
        if not isinstance(event, ToolCallFinished) or event.status is not ToolCallStatus.COMPLETED:
            continue
        if names.get(event.call_id, "").startswith(MEMORY_TOOLS):
            continue
        for item in event.content:
            if isinstance(item, DiffContent):
                known = files.get(item.path, ChangedFile(item.path, item.old_text, "", 0))
                files[item.path] = ChangedFile(item.path, known.before, item.new_text, known.changes + 1)
    return tuple(file for file in files.values() if file.before is None or file.before != file.after)
