"""Files that a session changed, from its journal.

Owns: putting the recorded changes of each file together, and telling which were deleted or renamed. Must not know: how
the journal is read, or what is on the disk.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.text_limits import DIFFED_LINES, plural
from pattern_acp.domain.tool_calls import DiffContent, FileChange, ToolCallStatus
from pattern_acp.journal.events import CheckpointTaken, Event, RewindStarted, ToolCallFinished, ToolCallStarted
from pattern_acp.journal.history import with_subagent_events
from pattern_acp.tools.base import DELEGATE
from pattern_acp.tools.edit_file import split_lines
from pattern_acp.turn.checks import CHECK_CALL

PATHS_NAMED = 20
"""Most paths of one kind that a sentence names."""


def net_changes(events: Iterable[Event]) -> dict[str, FileChange]:
    """The paths that were changed, with their first state and their last, in the order of first changes."""
    known: dict[str, FileChange] = {}
    for event in events:
        changes: tuple[FileChange, ...] = ()
        if isinstance(event, CheckpointTaken):
            changes = event.changes
        elif isinstance(event, RewindStarted):
            changes = event.files
        for change in changes:
            first = known.get(change.path, change).before
            known[change.path] = FileChange(change.path, first, change.after)
    return known


def mode_words(change: FileChange) -> str:
    """Change of the permission bits, in words; "" when there is none, or it does not count."""
    old, new = change.before.mode, change.after.mode
    return f"mode {old:03o} to {new:03o}" if old and new and old != new else ""


def sentence_of(changes: Mapping[str, FileChange], shown: Callable[[str], str]) -> str:
    """Describe the changes that commands made to these paths, each kind once; "" of none. `shown` formats a path."""
    changes = {path: change for path, change in changes.items() if change.before != change.after}
    renamed = _as_renames(changes)
    taken = {*renamed, *renamed.values()}
    kinds: dict[str, list[str]] = {"deleted": [], "renamed": [], "made": [], "changed": []}
    kinds["renamed"] = [f"`{shown(old)}` to `{shown(new)}`" for old, new in renamed.items()]
    for path, change in changes.items():
        if path in taken:
            continue
        mode = mode_words(change)
        named = f"`{shown(path)}`" + (f" ({mode})" if mode else "")
        kinds[
            "deleted" if change.after.kind == "missing" else "made" if change.before.kind == "missing" else "changed"
        ].append(named)
    parts = [f"{kind} {_listed(named)}" for kind, named in kinds.items() if named]
    return f"Commands of this session {'; '.join(parts)}." if parts else ""


def _as_renames(changes: Mapping[str, FileChange]) -> dict[str, str]:
    """Paths that are gone, with the new ones that hold the very same."""
    made = {change.after.digest: path for path, change in changes.items() if change.before.kind == "missing"}
    gone = {change.before.digest: path for path, change in changes.items() if change.after.kind == "missing"}
    return {path: made[digest] for digest, path in gone.items() if digest and digest in made}


def _listed(named: Collection[str]) -> str:
    more = len(named) - PATHS_NAMED
    return ", ".join(list(named)[:PATHS_NAMED]) + (f" and {more} more" if more > 0 else "")


MEMORY_TOOLS = "memory_"
"""Start of the names of tools whose diffs are of memory, under paths that are no files."""


ALIKE = 0.5
"""Share of its lines that a file keeps to count as renamed, as git counts it."""

COMPARED = 20
"""Most deleted files that new ones are compared with."""


class Passage(Struct, frozen=True):
    """Change of a text; `before` is None when the file was not there. In a large file it covers one place."""

    before: str | None
    after: str


class ChangedFile(Struct, frozen=True):
    """One file and its changes in their order; edits that follow on each other are one passage."""

    path: str
    passages: tuple[Passage, ...]
    edits: int
    change: FileChange | None = None
    """The first and the last of its states, where checkpoints hold them."""
    renamed_from: str = ""

    @property
    def is_new(self) -> bool:
        """True when the file is new."""
        return self.passages[0].before is None

    @property
    def is_deleted(self) -> bool:
        """True when the file was deleted."""
        return not self.is_new and self.change is not None and self.change.after.kind == "missing"

    def words(self, shown: Callable[[str], str]) -> str:
        """Describe the change in a clause; `shown` formats a path for the reader."""
        what = plural(self.edits, "edit")
        if self.renamed_from:
            what = f"renamed from {shown(self.renamed_from)}"
        elif self.is_deleted:
            what = "deleted"
        elif self.is_new:
            what = "new"
        mode = mode_words(self.change) if self.change is not None else ""
        return f"{what}, {mode}" if mode else what

    def unified(self, shown: str, shown_before: str = "") -> str:
        """The unified diff under the path `shown`, which was `shown_before`."""
        old = "/dev/null" if self.is_new else f"a/{shown_before or shown}"
        head = f"--- {old}\n+++ {'/dev/null' if self.is_deleted else f'b/{shown}'}\n"
        return head + "".join(_hunks(passage, shown) for passage in self.passages)


def changed_files(events: Iterable[Event]) -> tuple[ChangedFile, ...]:
    """The files that completed calls changed, in the order of their first change.

    Those that were changed back are left out, and so are those that were made and removed again.

    What a formatter among the checks made of them counts, and is no edit. What subagents changed is in the calls of
    their threads; the call that they ran for repeats it.
    """
    names: dict[ToolCallId, str] = {}
    files: dict[str, ChangedFile] = {}
    for event in with_subagent_events(events):
        if isinstance(event, ToolCallStarted):
            names[event.call.call_id] = event.call.name
        if not isinstance(event, ToolCallFinished):
            continue
        name = names.get(event.call_id, "")
        if name == DELEGATE or name.startswith(MEMORY_TOOLS):
            continue
        # A formatter that fails, as when it cannot repair all, has changed the files all the same.
        if event.status is not ToolCallStatus.COMPLETED and name != CHECK_CALL:
            continue
        for item in event.content:
            if isinstance(item, DiffContent):
                known = files.get(item.path, ChangedFile(item.path, (), 0))
                files[item.path] = ChangedFile(
                    item.path, _joined(known.passages, item), known.edits + (name != CHECK_CALL)
                )
    changed = (
        replace(file, passages=tuple(p for p in file.passages if p.before != p.after)) for file in files.values()
    )
    return tuple(file for file in changed if file.passages and not _is_gone_again(file))


def with_states(
    files: Sequence[ChangedFile], changes: Mapping[str, FileChange], place_of: Callable[[str], str]
) -> tuple[ChangedFile, ...]:
    """The files with what became of them; one that was renamed stands for both of its names.

    `changes` are by the path that `place_of` gives for a file's.
    """
    known = [replace(file, change=changes.get(place_of(file.path))) for file in files]
    gone = [file for file in known if file.is_deleted and len(file.passages) == 1][:COMPARED]
    found: dict[str, ChangedFile] = {}
    for file in known:
        origin = _origin_of(file, gone) if file.is_new and len(file.passages) == 1 else None
        if origin is not None:
            gone.remove(origin)
            found[origin.path] = file
            found[file.path] = origin
    return tuple(
        _renamed(file, found[file.path]) if file.is_new and file.path in found else file
        for file in known
        if not (file.is_deleted and file.path in found)
    )


def _origin_of(file: ChangedFile, gone: Sequence[ChangedFile]) -> ChangedFile | None:
    """Find the deleted file that became this new one: the most alike, of which half has to be the same."""
    alike = [(_likeness(one.passages[0].before or "", file.passages[0].after), one) for one in gone]
    best, origin = max(alike, key=lambda pair: pair[0], default=(0.0, file))
    return origin if best >= ALIKE else None


def _likeness(old: str, new: str) -> float:
    if old == new:
        return 1.0
    before, after = split_lines(old), split_lines(new)
    if len(before) + len(after) > DIFFED_LINES:
        return 0.0
    return difflib.SequenceMatcher(None, before, after).ratio()


def _renamed(file: ChangedFile, origin: ChangedFile) -> ChangedFile:
    change = None
    if file.change is not None and origin.change is not None:
        change = FileChange(file.path, origin.change.before, file.change.after)
    passage = Passage(origin.passages[0].before, file.passages[0].after)
    return ChangedFile(file.path, (passage,), file.edits, change, origin.path)


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
