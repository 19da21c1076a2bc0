"""What a session changed in files, from its journal.

Owns: putting the recorded changes of each file together. Must not know: how the journal is read, or what is on
the disk.
"""

import difflib
from collections.abc import Iterable
from dataclasses import replace

from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.lazy_dataclass import dataclass
from pattern_acp.domain.tool_calls import DiffContent, ToolCallStatus
from pattern_acp.journal.events import Event, ToolCallFinished, ToolCallStarted
from pattern_acp.journal.subagents import with_threads
from pattern_acp.tools.delegation import DELEGATE
from pattern_acp.tools.line_match import split_lines
from pattern_acp.tools.text_limits import DIFFED_LINES

MEMORY_TOOLS = "memory_"
"""Start of the names of tools whose diffs are of memory, under paths that are no files."""


@dataclass(frozen=True, slots=True)
class Passage:
    """What became of a text: None before is a file that was not there. Of a large file it is one place."""

    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One file and its changes in their order; edits that follow on each other are one passage."""

    path: str
    passages: tuple[Passage, ...]
    edits: int

    @property
    def is_new(self) -> bool:
        """Whether it was not there before."""
        return self.passages[0].before is None

    def unified(self, shown: str) -> str:
        """The unified diff under the path `shown`."""
        head = f"--- {'/dev/null' if self.is_new else f'a/{shown}'}\n+++ b/{shown}\n"
        return head + "".join(_hunks(passage, shown) for passage in self.passages)


def changed_files(events: Iterable[Event]) -> tuple[ChangedFile, ...]:
    """The files that completed calls changed, in the order of their first change.

    Those that were changed back are left out, and so are those that were made and taken away again.

    What subagents changed is in the calls of their threads; the call that they ran for repeats it.
    """
    names: dict[ToolCallId, str] = {}
    files: dict[str, ChangedFile] = {}
    for event in with_threads(events):
        if isinstance(event, ToolCallStarted):
            names[event.call.call_id] = event.call.name
        if not isinstance(event, ToolCallFinished) or event.status is not ToolCallStatus.COMPLETED:
            continue
        name = names.get(event.call_id, "")
        if name == DELEGATE or name.startswith(MEMORY_TOOLS):
            continue
        for item in event.content:
            if isinstance(item, DiffContent):
                known = files.get(item.path, ChangedFile(item.path, (), 0))
                files[item.path] = ChangedFile(item.path, _joined(known.passages, item), known.edits + 1)
    changed = (
        replace(file, passages=tuple(p for p in file.passages if p.before != p.after)) for file in files.values()
    )
    return tuple(file for file in changed if file.passages and not _is_gone_again(file))


def _is_gone_again(file: ChangedFile) -> bool:
    # A diff has no word for a deletion: what was new and is empty after further changes has nothing to show either way.
    return file.is_new and file.edits > 1 and not any(passage.after for passage in file.passages)


def _joined(passages: tuple[Passage, ...], diff: DiffContent) -> tuple[Passage, ...]:
    if passages and passages[-1].after == (diff.old_text or ""):
        return (*passages[:-1], Passage(passages[-1].before, diff.new_text))
    # Another place of a large file, or somebody else changed the file in between.
    return (*passages, Passage(diff.old_text, diff.new_text))


def _hunks(passage: Passage, shown: str) -> str:
    old, new = split_lines(passage.before or ""), split_lines(passage.after)
    if len(old) + len(new) > DIFFED_LINES:
        return f"({shown} is too long to compare: {len(old):,} lines before, {len(new):,} after)\n"
    lines = list(difflib.unified_diff(old, new))[2:]
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
