"""Checkpoints of one session: what it changed in files, and the moments to which it can go back.

Owns: saving the state of a file before the session changes it, what the session left it as, which files a command
changed as the user is shown them, and the event that closes an interval. Must not know: how going back works
(`rewind/execution.py`).

A state is stored before the change is made (`FilesSaved`), so that a crash between loses nothing: the next start finds
files that were saved and never checkpointed (`recover`). Every turn ends with a checkpoint: in the transaction of its
end when it changed no file, else right behind it, once the files are read.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

import anyio
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.definitions.collection import is_learned
from pattern_acp.domain.access import Access, Actor, CallServer, Origin, RunCommand, WritePath
from pattern_acp.domain.clock import Clock, IdFactory, SessionId, TurnId
from pattern_acp.domain.errors import DatabaseError, PatternError
from pattern_acp.domain.paths import is_within, resolve_path
from pattern_acp.domain.tool_calls import (
    ChangedPath,
    FileChange,
    FilesChanged,
    FileSide,
    FileState,
    SavedFile,
    UnsavedFile,
)
from pattern_acp.journal import leases
from pattern_acp.journal.codec import CHECKPOINTS
from pattern_acp.journal.contents import store_content
from pattern_acp.journal.events import (
    CheckpointTaken,
    Event,
    FilesSaved,
    LandingEnded,
    LandingStarted,
    RewindStarted,
    SessionRewound,
)
from pattern_acp.journal.leases import Holder
from pattern_acp.journal.reader import Recorded, read_item, recorded_here, stream_position
from pattern_acp.journal.writer import append
from pattern_acp.memory.service.scope import MemoryScope
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.policy.paths import is_windows_path, protection
from pattern_acp.tools.base import CodeAccess
from pattern_acp.workspace.snapshots import AFTER_SECONDS, Captured, canonical_path, capture_all

if TYPE_CHECKING:
    from pattern_acp.memory.service.history import HistoryScope
    from pattern_acp.turn.permissions import PolicyState
    from pattern_acp.workspace.folder_changes import FolderChanges, FolderLook


T = TypeVar("T", bound=Event)

INTERVAL_BYTES = 100_000_000
"""Most bytes of files that are stored between two checkpoints; what is beyond is named and left out."""

TOO_MUCH = f"more than {INTERVAL_BYTES // 1_000_000} MB of files were changed since the checkpoint before"

MOST_LEFT_OUT = 50
"""Most paths that a checkpoint names as left out."""

CANCELLED = "what a command changed there before it was cancelled could not be found in time"


class RewindScope(Struct, frozen=True):
    """The parts of a session that checkpoints and rewinds need."""

    session_id: SessionId
    database: Database
    clock: Clock
    ids: IdFactory
    holder: Holder
    policy: "PolicyState"
    """Its roots bound what goes back."""
    memory: ConstellationMemory
    """The agent's memory, which knows the running turn."""
    owner: MemoryScope
    history: "Callable[[], HistoryScope]"
    """Memory's past as the user may change it, under the current settings."""
    folder_changes: "FolderChanges | None" = None
    code: CodeAccess | None = None

    @property
    def turn_id(self) -> TurnId:
        """The running turn; empty between turns."""
        return self.memory.turn_id or TurnId("")


class _Open(Struct):
    """A change since the last checkpoint. `after` is what the session left; None while that is not known."""

    path: str
    before: FileState
    after: FileState | None = None


class CheckpointFacts(Struct, frozen=True):
    """Facts of a checkpoint that are known before the transaction that takes it."""

    checkpoint_id: str
    turn_id: TurnId
    cause: str
    name: str = ""
    changes: tuple[FileChange, ...] = ()
    left_out: tuple[UnsavedFile, ...] = ()


def append_checkpoint(tx: Transaction, scope: RewindScope, facts: CheckpointFacts, *, at_ms: int) -> int:
    """Append the event of a checkpoint, with where the journal and memory are now; the number of the event.

    The one who writes the transaction makes sure that the session is this process's.
    """
    from pattern_acp.memory.sharing import block_points

    where = stream_position(tx, scope.session_id)
    points = block_points(tx, scope.owner.owners)
    event = CheckpointTaken(
        facts.checkpoint_id,
        facts.turn_id,
        facts.cause,
        facts.name,
        where.session_seq,
        where.hash,
        where.global_seq,
        facts.changes,
        facts.left_out,
        points,
    )
    return append(tx, scope.session_id, event, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=at_ms).seq


class _HeldContents:
    """File contents in memory until they are recorded with the event that names them; at most `INTERVAL_BYTES`."""

    def __init__(self) -> None:
        self._contents: dict[str, bytes] = {}
        self._bytes = 0

    def hold(self, captured: Captured) -> FileState:
        """The state as it is recorded; one without its content where there is no more space."""
        state, content = captured.state, captured.content
        if content is None or state.digest in self._contents:
            return state
        if self._bytes + len(content) > INTERVAL_BYTES:
            return replace(state, digest="", why_not=TOO_MUCH)
        self._bytes += len(content)
        self._contents[state.digest] = content
        return state

    def of(self, states: Iterable[FileState]) -> dict[str, bytes]:
        """The contents of these states that are held, by their digests."""
        digests = {state.digest for state in states}
        return {digest: self._contents[digest] for digest in digests if digest in self._contents}

    def clear(self) -> None:
        """Let go of all: it is stored."""
        self._contents.clear()
        self._bytes = 0


class Checkpoints:
    """The changes of one session since its last checkpoint; takes the next one."""

    def __init__(self, scope: RewindScope) -> None:
        self.rewinding = False
        """True while the session goes back, and after an error interrupted that."""
        self.scope = scope
        self._open: list[_Open] = []
        self._newest: dict[str, _Open] = {}
        """The last of `_open` for each path."""
        self._own = (resolve_path(str(scope.database.path.parent)),)
        self._left_out: dict[str, str] = {}
        self._held = _HeldContents()
        self._turn_id = TurnId("")
        """The turn in which the interval's first change was made."""

    @property
    def is_clean(self) -> bool:
        """True when the session changed no file since the last checkpoint."""
        return not self._open and not self._left_out

    @asynccontextmanager
    async def around(
        self, turn_id: TurnId, accesses: Sequence[Access], *, found: dict[str, None] | None = None
    ) -> "AsyncGenerator[ShownChanges | None, None]":
        """Around the effect of a tool call: a checkpoint before a risky one, and a look for what a command changed.

        `found` gets the paths of what a command changed.

        Raises:
            DatabaseError: the state before could not be stored; the call must not run.
        """
        runs = any(_may_change_files(access) for access in accesses)
        if self._open and (runs or sum(isinstance(access, WritePath) for access in accesses) > 1):
            await self.take("tool")
        changes = self.scope.folder_changes
        if not runs or changes is None:
            yield None
            return
        # Late: most turns run no command that may change files.

        shown = ShownChanges()
        before = await changes.look(self.scope.policy.roots)
        try:
            yield shown
            await self._find(turn_id, changes, before, found, shown)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True), anyio.move_on_after(AFTER_SECONDS) as scope:
                await self._find(turn_id, changes, before, found)
            if scope.cancelled_caught:
                self._left_out.setdefault(self.scope.policy.roots[0], CANCELLED)
            raise
        except DatabaseError:
            raise
        except Exception:
            await self._find(turn_id, changes, before, found)
            raise

    async def _find(
        self,
        turn_id: TurnId,
        changes: "FolderChanges",
        looks: "Sequence[FolderLook]",
        told: dict[str, None] | None,
        shown: "ShownChanges | None" = None,
    ) -> None:
        found = await changes.compare(looks)
        for path, why in found.problems:
            self._left_out.setdefault(path, why)
        saved: list[SavedFile] = []
        for path, before, after in found.files:
            place = self._place(path)
            if not place or before.state == after.state:
                continue
            known = self._newest.get(place)
            if known is not None and known.after == after.state:
                # A file tool, or a command beside this one, was seen to leave it so.
                continue
            if told is not None:
                told[place] = None
            if shown is not None:
                shown.add(place, before, after)
            if known is not None and known.after == before.state:
                known.after = self._held.hold(after)
                continue
            state = self._held.hold(before)
            saved.append(SavedFile(place, state))
            self._add(_Open(place, state, self._held.hold(after)))
        if saved:
            await self._record_saved(turn_id, saved)

    async def before_change(self, paths: Sequence[str]) -> None:
        """Keep what is at these paths, which are about to be changed.

        Raises:
            DatabaseError: it could not be stored; the change must not be made.
        """
        wanted = [place for place in self._places(paths) if place]
        saved: list[SavedFile] = []
        for place, captured in zip(wanted, await capture_all(wanted), strict=True):
            known = self._newest.get(place)
            if known is not None and known.after == captured.state:
                continue
            state = self._held.hold(captured)
            saved.append(SavedFile(place, state))
            self._add(_Open(place, state))
        if saved:
            await self._record_saved(self.scope.turn_id, saved)

    async def after_change(self, paths: Sequence[str]) -> None:
        """Note what these paths were left as."""
        changed = [known for place in self._places(paths) if (known := self._newest.get(place)) is not None]
        for known, captured in zip(changed, await capture_all([each.path for each in changed]), strict=True):
            known.after = self._held.hold(captured)

    async def take(self, cause: str, name: str = "") -> str:
        """Close the interval; the id of the checkpoint. With `tool`, a change that is being made stays open.

        Raises:
            DatabaseError: it could not be recorded; the interval stays open.
        """
        closing = [change for change in self._open if change.after is not None or cause != "tool"]
        unknown = [change for change in closing if change.after is None]
        for change, captured in zip(unknown, await capture_all([each.path for each in unknown]), strict=True):
            change.after = self._held.hold(captured)
        return await self._record(cause, name, closing)

    def not_held(self, paths: Sequence[str]) -> list[str]:
        """Those of some paths of which a checkpoint cannot hold what is there."""
        return [path for path, place in zip(paths, self._places(paths), strict=True) if not place]

    def at_end(self, turn_id: TurnId) -> Callable[[Transaction], object]:
        """A function that appends the checkpoint after a turn, for the transaction that ends it.

        It does nothing while files were changed: reading them may take long, and `close_turn` does it afterwards.
        """
        if not self.is_clean:
            return lambda _: None
        scope, facts = self.scope, CheckpointFacts(self.scope.ids.new("chk"), turn_id, "turn")
        now = scope.clock.now_ms()
        return lambda tx: append_checkpoint(tx, scope, facts, at_ms=now)

    async def close_turn(self) -> None:
        """The checkpoint of files that a turn changed and that have none yet."""
        if not self.is_clean:
            await self.take("turn")

    async def recover(
        self,
        *,
        turn_ended: bool = False,
        undo: Callable[[RewindScope, LandingStarted], Awaitable[None]] | None = None,
    ) -> RewindStarted | None:
        """Checkpoint what a process saved and did not checkpoint before it ended; the rewind that it left half done.

        `turn_ended` says that a turn was only now ended, which has no checkpoint therefore. `undo` is called with a
        landing that was cut off.
        """
        scope = self.scope

        def read(tx: Transaction) -> list[Recorded]:
            # What was cut off on another machine changed files there, and nothing of it is done or undone here.
            return recorded_here(tx, read_item(tx, scope.session_id, CHECKPOINTS))

        entries = await scope.database.read(read)
        landing = _cut_off(entries, LandingStarted, LandingEnded)
        if landing is not None and undo is not None:
            await undo(scope, landing)
        saved = _not_checkpointed(entries)
        for file in saved:
            if file.path not in self._newest:
                self._add(_Open(file.path, file.state))
        if saved or turn_ended:
            await self.take("recovered")
        return _cut_off(entries, RewindStarted, SessionRewound)

    async def _record(self, cause: str, name: str, closing: Sequence[_Open]) -> str:
        scope = self.scope
        checkpoint_id = scope.ids.new("chk")
        turn_id, self._turn_id = self._turn_id or scope.turn_id, TurnId("")
        changes = tuple(
            FileChange(each.path, each.before, each.after)
            for each in closing
            if each.after is not None and each.after != each.before
        )
        told = list(self._left_out.items())
        left_out = tuple(UnsavedFile(path, why) for path, why in told[:MOST_LEFT_OUT])
        contents = self._held.of(change.after for change in changes)
        now = scope.clock.now_ms()

        def write(tx: Transaction) -> None:
            leases.require(tx, scope.session_id, scope.holder)
            facts = CheckpointFacts(checkpoint_id, turn_id, cause, name, changes, left_out)
            seq = append_checkpoint(tx, scope, facts, at_ms=now)
            for digest, content in contents.items():
                store_content(tx, digest, content, seq=seq)

        await scope.database.write(write)
        self._forget(closing, told)
        return checkpoint_id

    def _forget(self, closed: Sequence[_Open], told: Sequence[tuple[str, str]]) -> None:
        """Drop the recorded changes from the open ones; other calls may have opened more meanwhile."""
        known = {id(change) for change in closed}
        self._open = [change for change in self._open if id(change) not in known]
        self._newest = {change.path: change for change in self._open}
        for path, _ in told:
            self._left_out.pop(path, None)
        if not self._open:
            self._held.clear()

    async def _record_saved(self, turn_id: TurnId, saved: Sequence[SavedFile]) -> None:
        scope = self.scope
        self._turn_id = self._turn_id or turn_id
        contents = self._held.of(file.state for file in saved)
        now = scope.clock.now_ms()

        def write(tx: Transaction) -> None:
            leases.require(tx, scope.session_id, scope.holder)
            event = FilesSaved(turn_id, tuple(saved))
            seq = append(tx, scope.session_id, event, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=now).seq
            for digest, content in contents.items():
                store_content(tx, digest, content, seq=seq)

        await scope.database.write(write)

    def _add(self, change: _Open) -> None:
        self._open.append(change)
        self._newest[change.path] = change

    def _places(self, paths: Iterable[str]) -> list[str]:
        """The names of paths here; empty for those that are left out."""
        folders: dict[str, str] = {}
        places: list[str] = []
        for path in paths:
            try:
                places.append(self._place(canonical_path(path, folders)))
            except PatternError:
                places.append("")
        return places

    def _place(self, place: str) -> str:
        roots = self.scope.policy.roots
        if is_within(place, self._own):
            # Our own memory and journal may lie in a project; to put them back by their bytes would destroy them.
            return ""
        if not is_within(place, roots):
            self._left_out.setdefault(place, "it lies outside the session's folders")
            return ""
        guard = protection(place, roots)
        # A skill that the agent proposed is its own work, and the user agreed to it knowing that it can be taken back.
        if guard is not None and not is_learned(place):
            self._left_out.setdefault(place, f"it {guard.reason}")
            return ""
        return place


def _not_checkpointed(entries: Sequence[Recorded]) -> list[SavedFile]:
    saved: list[SavedFile] = []
    for entry in entries:
        if isinstance(entry.event, FilesSaved):
            saved += entry.event.files
        elif isinstance(entry.event, CheckpointTaken):
            closed = {change.path for change in entry.event.changes}
            # One that is taken before a tool leaves open what is being changed beside it.
            saved = [file for file in saved if file.path not in closed] if entry.event.cause == "tool" else []
    return saved


def _cut_off(entries: Sequence[Recorded], begin: type[T], end: type[Event]) -> T | None:
    """The last event of the kind `begin` that none of the kind `end` follows."""
    started: T | None = None
    for entry in entries:
        if isinstance(entry.event, begin):
            started = entry.event
        elif isinstance(entry.event, end):
            started = None
    return started


def _may_change_files(access: Access) -> bool:
    from pattern_acp.policy.reading import changes_nothing

    match access:
        case RunCommand(line=line, cwd=cwd, git_setting=git_setting):
            return bool(git_setting) or not changes_nothing(line, windows=is_windows_path(cwd))
        case CallServer(read_only=read_only):
            return not read_only
        case _:
            return False


MOST_FILES = 50
"""Most files that one call shows; a checkout changes thousands."""

MOST_BYTES = 100_000
"""Most bytes of texts that one call shows, as the journal keeps them."""


class ShownChanges:
    """The changes of one command, as they are found."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Captured, Captured]] = {}

    def add(self, path: str, before: Captured, after: Captured) -> None:
        """Take note of a change."""
        self._found[path] = (before, after)

    def content(self) -> FilesChanged | None:
        """See `turn.tool_runner.FoundFiles`."""
        if not self._found:
            return None
        moved = self._moved()
        files: list[ChangedPath] = []
        room = MOST_BYTES
        for path, (before, after) in self._found.items():
            if path in moved.values() or len(files) == MOST_FILES:
                continue
            source = moved.get(path, "")
            was = self._found[source][0] if source else before
            size = len(was.content or b"") + len(after.content or b"")
            with_texts = size <= room
            room -= size if with_texts else 0
            files.append(
                ChangedPath(path, _side(was, with_text=with_texts), _side(after, with_text=with_texts), source)
            )
        return FilesChanged(tuple(files), len(self._found) - len(moved) - len(files))

    def _moved(self) -> dict[str, str]:
        """New paths, with those that are gone and held the very same."""
        gone = {
            before.state.digest: path for path, (before, after) in self._found.items() if after.state.kind == "missing"
        }
        made = {
            after.state.digest: path for path, (before, after) in self._found.items() if before.state.kind == "missing"
        }
        return {path: gone[digest] for digest, path in made.items() if digest and digest in gone}


def _side(captured: Captured, *, with_text: bool) -> FileSide:
    state = captured.state
    if state.kind == "missing":
        return FileSide("missing")
    if state.kind == "link":
        return FileSide("link", state.digest)
    if captured.content is None:
        return FileSide("file", mode=state.mode)
    try:
        text = captured.content.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    is_binary = "\0" in text
    return FileSide("file", text if with_text and not is_binary else None, state.mode, is_binary)
