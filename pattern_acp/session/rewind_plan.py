"""What going back would change, worked out before anything is changed.

Owns: which files would get which state, which of them others changed since, and what becomes of memory. Must not know:
how it is carried out, or who asked.

Only what the session changed is put back: a file gets the state that it had before the session's first change behind
the moment. A file counts as changed by others when it is not what the session left, now or between two of its changes.
One that is too large to be kept is in conflict too, since going back has to be something that can be undone.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.errors import JournalError
from pattern_acp.domain.file_states import MISSING, FileChange, FileState
from pattern_acp.domain.paths import is_within
from pattern_acp.domain.tool_calls import DiffContent
from pattern_acp.journal.ancestry import read_history, read_lineage
from pattern_acp.journal.events import BlockCommitted, BlockDeleted, CheckpointTaken, TurnStarted
from pattern_acp.journal.file_contents import read_content
from pattern_acp.journal.reader import Recorded
from pattern_acp.memory.forgotten import lost_words
from pattern_acp.session.rewind_memory import BlockPlan, plan_blocks
from pattern_acp.session.rewind_points import Target, turns_between
from pattern_acp.workspace.snapshots import capture_in_place, is_repository, place_of

if TYPE_CHECKING:
    from pattern_acp.session.session import Session

_REPOSITORY = "it is a git repository, submodule or worktree of its own, and those are not kept"
NAMELESS = "its name was forgotten or redacted, so nobody knows which file it is"
_LINKED = "a folder on the way to it is a link now"

DIFF_BYTES = 200_000
"""Most bytes of a file's two states together of which a preview shows the difference."""


class PlannedFile(Struct, frozen=True):
    """One file: what it is now, what it would be, why it is better left alone, or why it cannot be put back."""

    path: str
    now: FileState
    then: FileState
    conflict: str = ""
    problem: str = ""

    @property
    def kind(self) -> str:
        """What would happen to it: `delete`, `create`, `mode` or `modify`."""
        if self.then.kind == "missing":
            return "delete"
        if self.now.kind == "missing":
            return "create"
        same = self.now.kind == self.then.kind and self.now.digest == self.then.digest
        return "mode" if same else "modify"


class RewindPlan(Struct, frozen=True):
    """All that going back to `target` would change. `lost` and `regained` are turns, with their numbers."""

    target: Target
    lost: tuple[str, ...]
    regained: tuple[str, ...]
    files: tuple[PlannedFile, ...]
    blocks: tuple[BlockPlan, ...]
    left_out: tuple[str, ...] = ()
    """What the session changed and no checkpoint holds, with the reason."""

    def chosen(self, *, overwrite: bool) -> tuple[FileChange, ...]:
        """The changes of files that would be made, in their order; those in conflict only with `overwrite`."""
        chosen = [file for file in self.files if not file.problem and (overwrite or not file.conflict)]
        # What goes makes room first, inner ones before outer ones: a file may come where a folder is, and the reverse.
        chosen.sort(key=lambda file: -len(Path(file.path).parts) if file.then.kind == "missing" else 0)
        return tuple(FileChange(file.path, file.now, file.then) for file in chosen)

    @property
    def conflicts(self) -> tuple[PlannedFile, ...]:
        """The files that others changed, or that an undo could not bring back."""
        return tuple(file for file in self.files if file.conflict and not file.problem)


async def recorded_of(session: "Session") -> list[Recorded]:
    """The session's whole stream, behind what it shares with the session that it was forked from.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    return await session.constellation.database.read(lambda tx: read_history(tx, session.session_id))


async def listed_of(session: "Session") -> list[Recorded]:
    """As `recorded_of`, with the checkpoint of the turn behind which a fork began, which stands behind what is shared.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    recorded = await recorded_of(session)
    shared = [entry for entry in recorded if not entry.session_seq]
    if not shared:
        return recorded
    turns = {entry.event.turn_id for entry in shared if isinstance(entry.event, TurnStarted)}
    known = {entry.seq for entry in recorded}
    lineage = await session.constellation.database.read(lambda tx: read_lineage(tx, session.session_id))
    closing = [
        replace(entry, session_seq=0)
        for entry in lineage
        if isinstance(entry.event, CheckpointTaken) and entry.event.turn_id in turns and entry.seq not in known
    ]
    return [*sorted([*shared, *closing], key=lambda entry: entry.seq), *recorded[len(shared) :]]


async def plan_rewind(session: "Session", recorded: Sequence[Recorded], target: Target) -> RewindPlan:
    """What going back to `target` would change now.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    lost, regained = turns_between(recorded, target.position)
    if target.fork_behind is not None:
        lost, regained = [], []
        database = session.constellation.database
        recorded = await database.read(lambda tx: read_lineage(tx, session.session_id))
    behind = [e.event for e in recorded if e.seq > target.files_from]
    taken = [event for event in behind if isinstance(event, CheckpointTaken)]
    files = await anyio.to_thread.run_sync(_plan_files, taken, session.state.policy.roots)
    left_out = {left.path: left.why for event in taken for left in event.left_out}
    return RewindPlan(
        target,
        tuple(lost),
        tuple(regained),
        tuple(files),
        await plan_blocks(session, _labels(recorded, target.memory_from), target.memory_from),
        tuple(f"{path}: {why}" for path, why in left_out.items()),
    )


async def diff_of(session: "Session", change: FileChange) -> DiffContent | None:
    """How a file would change; None when one side is no text, too long to show, or cannot be read.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    if change.before.size + change.after.size > DIFF_BYTES or "link" in {change.before.kind, change.after.kind}:
        return None
    captured = await anyio.to_thread.run_sync(capture_in_place, change.path)
    digest = change.after.digest

    def read(tx: Transaction) -> bytes | None:
        return read_content(tx, digest) if digest else None

    try:
        then = await session.constellation.database.read(read)
        old = None if captured.content is None else captured.content.decode("utf-8")
        new = "" if then is None else then.decode("utf-8")
    except (UnicodeDecodeError, JournalError):
        return None
    return DiffContent(change.path, old, new)


def _plan_files(taken: Sequence[CheckpointTaken], roots: Sequence[str]) -> list[PlannedFile]:
    first: dict[str, FileState] = {}
    last: dict[str, FileState] = {}
    between: set[str] = set()
    for change in (change for event in taken for change in event.changes):
        if change.path in last and last[change.path] != _as_file(change.before):
            between.add(change.path)
        first.setdefault(change.path, change.before)
        last[change.path] = _as_file(change.after)
    planned = (
        _plan_file(path, then, last[path], roots, changed_between=path in between) for path, then in first.items()
    )
    files = [file for file in planned if file is not None]
    making_way = {file.path for file in files if file.now.kind == "link" and file.then.kind == "missing"}
    making_way -= {file.path for file in files if file.problem or file.conflict}
    return [
        replace(file, problem="") if file.problem == _LINKED and _behind(file.path) in making_way else file
        for file in files
    ]


def _behind(path: str) -> str:
    """The first link on the way to a path; empty when there is none."""
    return next((str(above) for above in reversed(Path(path).parents) if above.is_symlink()), "")


def _as_file(state: FileState) -> FileState:
    """A state with a folder as no file, as which a command's changes have it; what is in it says itself whose it is."""
    return MISSING if state.is_folder else state


def _plan_file(
    path: str, then: FileState, left: FileState, roots: Sequence[str], *, changed_between: bool
) -> PlannedFile | None:
    if lost_words(path):
        return PlannedFile(path, MISSING, then, problem=NAMELESS)
    now = capture_in_place(path).state
    if then.is_folder:
        # What was in it is put back by itself, as far as it is known.
        then = now if now.is_folder else MISSING
    if now == then:
        return None
    plan = partial(PlannedFile, path, now, then)
    if problem := _problem(path, then, now, roots):
        return plan(problem=problem)
    if _as_file(now) != left:
        return plan(conflict="it was changed since the session left it")
    if changed_between:
        return plan(conflict="it was changed by others between the session's changes")
    if not now.is_kept and not now.is_folder:
        return plan(conflict=f"an undo could not bring back what it holds: {now.why_not}")
    return plan()


def _problem(path: str, then: FileState, now: FileState, roots: Sequence[str]) -> str:
    """Why a path cannot be put back, in a clause; empty when it can."""
    if not is_within(path, roots):
        return "it lies outside the session's folders"
    if place_of(path) != path:
        return _LINKED
    if now.is_folder and is_repository(path):
        return _REPOSITORY
    return "" if then.is_kept else f"its content was not kept: {then.why_not}"


def _labels(recorded: Sequence[Recorded], memory_from: int) -> tuple[str, ...]:
    """The labels of the blocks that the session wrote behind an event."""
    written = (e.event for e in recorded if e.seq > memory_from)
    return tuple(dict.fromkeys(e.label for e in written if isinstance(e, BlockCommitted | BlockDeleted)))
