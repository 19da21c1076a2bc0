"""What became of paths from the first state that a session met to the last that it left.

Owns: putting the states of checkpoints and rewinds together, and the words for them: made, deleted, renamed, another
mode. Must not know: texts, or what is on the disk now. Commands are among the session's changes, as far as checkpoints
hold what they did.
"""

from collections.abc import Callable, Collection, Iterable, Mapping

from pattern_acp.domain.file_states import FileChange
from pattern_acp.journal.events import CheckpointTaken, Event, RewindStarted

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
    """Which permission bits became which others; "" where they did not, or do not count."""
    old, new = change.before.mode, change.after.mode
    return f"mode {old:03o} to {new:03o}" if old and new and old != new else ""


def sentence_of(changes: Mapping[str, FileChange], shown: Callable[[str], str]) -> str:
    """What commands made of these paths, each kind once; "" of none. `shown` gives a path for the reader."""
    changes = {path: change for path, change in changes.items() if change.before != change.after}
    renamed = _renamed(changes)
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


def _renamed(changes: Mapping[str, FileChange]) -> dict[str, str]:
    """Paths that are gone, with the new ones that hold the very same."""
    made = {change.after.digest: path for path, change in changes.items() if change.before.kind == "missing"}
    gone = {change.before.digest: path for path, change in changes.items() if change.after.kind == "missing"}
    return {path: made[digest] for digest, path in gone.items() if digest and digest in made}


def _listed(named: Collection[str]) -> str:
    more = len(named) - PATHS_NAMED
    return ", ".join(list(named)[:PATHS_NAMED]) + (f" and {more} more" if more > 0 else "")
