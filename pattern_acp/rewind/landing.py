"""Landing: the changes of workers become the user's files, all of them or none.

Owns: putting the workers' changes together in an order that no arrival changes, the merge with what changed meanwhile,
and the steps that neither an error nor an end of the process can leave half done: what is about to be written is
recorded first (`LandingStarted`, with all contents that it replaces), then every file is written through the editor,
then the end is recorded (`LandingEnded`) with one checkpoint, and what the workers learned is merged with it. A landing
without an end is undone when the session is next opened. Must not know: what the user was asked.
"""

import heapq
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import ToolCallId
from pattern_acp.domain.errors import BlockError, JournalError, PatternError, WorkspaceError, unwrap_exception_group
from pattern_acp.domain.text_limits import one_line
from pattern_acp.domain.tool_calls import MISSING, FileChange, FileState
from pattern_acp.journal import leases
from pattern_acp.journal.contents import store_content
from pattern_acp.journal.events import JobReported, LandingEnded, LandingStarted
from pattern_acp.journal.writer import append
from pattern_acp.processes.groups import quiet_creation_flags
from pattern_acp.rewind.checkpoints import Checkpoints, RewindScope
from pattern_acp.rewind.execution import put_file_back
from pattern_acp.workspace.errors import FileMissingError, NotTextError
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.overlay import Content, OverlayChange, OverlayFileSystem, content_of
from pattern_acp.workspace.snapshots import (
    Captured,
    capture_all,
    capture_in_place,
    put_back,
    remove_empty_folders,
    set_mode,
)

AT_ONCE = 32
"""Files that are written side by side. Each waits for the editor and for the disk, which makes those that wait together
durable in one go; the rest of anyio's 40 threads is left to others."""

MERGE_SECONDS = 10.0
"""Longest time for the merge of one file."""

GIT_FAILED = 128
"""Exit codes of git from here on say that it failed; below, that many places do not fit together."""

MOMENT_CHARACTERS = 60
"""Length of the name of the moment before a landing, to which `/rewind` goes back."""

LANDED, FAILED, UNDONE = "landed", "failed", "undone"
"""Outcomes of a landing."""


class WorkerChanges(Struct, frozen=True):
    """The changes of one worker, by the name that orders it among others; `needs` are those that it started from."""

    name: str
    changes: tuple[OverlayChange, ...]
    needs: tuple[str, ...] = ()


class LandingConflict(Struct, frozen=True):
    """A file whose changes do not fit together. `text` has both sides, marked; empty where they are no text."""

    path: str
    workers: tuple[str, ...]
    """Those that changed it, at least one."""
    text: str = ""

    @property
    def sentence(self) -> str:
        """The file and who changed it."""
        if len(self.workers) > 1:
            return f"{self.path} was changed by {' and '.join(self.workers)} in ways that do not fit together."
        return f"{self.path} was changed since {' '.join(self.workers)} began, in a way that does not fit its changes."


class LandingPlan(Struct, frozen=True):
    """The writes of a landing, and the conflicts for which there can be none."""

    workers: tuple[str, ...]
    writes: tuple[OverlayChange, ...]
    """From what the editor has to what it is to have, in the order of the paths."""
    conflicts: tuple[LandingConflict, ...] = ()
    merged: tuple[str, ...] = ()
    """Paths of which several changes were put together."""


class NotLandedError(WorkspaceError):
    """A landing was not carried out; every file is as it was."""

    failure_code = "workspace.not-landed"


def in_order(needs: Mapping[str, Collection[str]]) -> list[str]:
    """Names, each behind those that it needs, and otherwise sorted; what is in a circle is left out."""
    waiting = {name: {each for each in needed if each in needs} for name, needed in needs.items()}
    ready = [name for name, needed in waiting.items() if not needed]
    heapq.heapify(ready)
    found: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        found.append(name)
        for other, needed in waiting.items():
            if name in needed:
                needed.remove(name)
                if not needed:
                    heapq.heappush(ready, other)
    return found


async def plan_landing(
    files: FileSystem, workers: Sequence[WorkerChanges], *, environment: Mapping[str, str]
) -> LandingPlan:
    """Put the changes of workers together with what the editor has now, in the order of `in_order`.

    Raises:
        WorkspaceError: a file cannot be read.
    """
    by_name = {worker.name: worker for worker in workers}
    ordered = [by_name[name] for name in in_order({worker.name: worker.needs for worker in workers})]
    now: dict[str, Content] = {}
    then: dict[str, OverlayChange] = {}
    touched: dict[str, list[str]] = {}
    conflicts: dict[str, LandingConflict] = {}
    merged: dict[str, None] = {}
    for worker in ordered:
        for change in worker.changes:
            path = change.path
            if path not in now:
                now[path] = await _content(files, path)
            names = touched.setdefault(path, [])
            names.append(worker.name)
            present = then[path].after if path in then else now[path]
            result: Content = change.after
            if present not in (change.before, change.after):
                both = await _merged(change, present, environment)
                if not isinstance(both, str):
                    conflicts[path] = LandingConflict(path, tuple(names), both.text if both is not None else "")
                    continue
                merged[path] = None
                result = both
            mode = change.mode or (then[path].mode if path in then else 0)
            then[path] = OverlayChange(path, now[path], result, mode)
    writes = [one for _, one in sorted(then.items()) if one.before != one.after or one.mode]
    return LandingPlan(
        tuple(one.name for one in ordered),
        tuple(one for one in writes if one.path not in conflicts),
        tuple(conflict for _, conflict in sorted(conflicts.items())),
        tuple(sorted(merged)),
    )


async def land_in_overlay(
    overlay: OverlayFileSystem, plan: LandingPlan, then: Callable[[], Awaitable[object]] | None = None
) -> None:
    """Carry a plan out in the view of another worker, whose own landing is still to come, and do `then`.

    Raises:
        WorkspaceError: a file cannot be written so; the view is as it was.
        BlockError: what they learned cannot be merged; the view is as it was.
        DatabaseError: what they learned cannot be recorded; the view is as it was.
    """
    done: list[OverlayChange] = []
    try:
        for write in plan.writes:
            await overlay.put(write.path, write.after, write.mode)
            done.append(write)
        if then is not None:
            await then()
    except PatternError:
        for write in reversed(done):
            await overlay.put(write.path, write.before)
        raise


async def land(
    checkpoints: Checkpoints,
    files: FileSystem,
    plan: LandingPlan,
    call_id: ToolCallId,
    merge: Callable[[Transaction], object] | None = None,
) -> None:
    """Write all files of a plan through `files`, the editor, or none. Not cancelled once begun.

    `merge` brings back what the workers learned, in the transaction that records the end.

    Raises:
        NotLandedError: nothing was changed, or all of it was put back, and why.
        DatabaseError: it could not be recorded; what was written is undone when the session is next opened.
    """
    if plan.conflicts:
        raise NotLandedError(" ".join(conflict.sentence for conflict in plan.conflicts))
    with anyio.CancelScope(shield=True):
        scope, paths = checkpoints.scope, [write.path for write in plan.writes]
        # A moment of its own, to which `/rewind` goes back.
        await checkpoints.take("tool", one_line(f"before {', '.join(plan.workers)} landed", MOMENT_CHARACTERS))
        captured = await capture_all(paths)
        _refuse_unkept(checkpoints, paths, captured)
        started = LandingStarted(
            scope.ids.new("land"),
            scope.turn_id,
            call_id,
            plan.workers,
            tuple(
                FileChange(write.path, before.state, _state_after(write, before))
                for write, before in zip(plan.writes, captured, strict=True)
            ),
        )
        contents = [(one.state.digest, one.content) for one in captured if one.content is not None]
        await record_with_contents(scope, started, contents)
        await checkpoints.before_change(paths)
        written: list[OverlayChange] = []
        problem = await _write_all(scope, files, plan.writes, written)
        if not problem:
            await checkpoints.after_change(paths)
            landed = LandingEnded(started.landing_id, started.turn_id, LANDED)
            try:
                await record_with_contents(scope, landed, beside=merge)
            except BlockError as error:
                problem = error.sentence
        if not problem:
            await checkpoints.take("tool")
            if scope.code is not None:
                scope.code.note_changed(paths)
            return
        left = await _restore_through(scope, started, files, written)
        await checkpoints.after_change(paths)
        ended = LandingEnded(started.landing_id, started.turn_id, FAILED, " ".join((problem, *left)))
        await record_with_contents(scope, ended)
        rest = f" {' '.join(left)}" if left else " All files are as they were."
        raise NotLandedError(f"Nothing was landed: {problem}{rest}")


async def undo_landing(scope: RewindScope, started: LandingStarted) -> None:
    """Put back what a landing wrote that was cut off, and record its end."""
    left: list[str] = []
    for change in started.files:
        now = (await anyio.to_thread.run_sync(capture_in_place, change.path)).state
        if now == change.before:
            continue
        if (now.kind, now.digest) != (change.after.kind, change.after.digest):
            left.append(f"{change.path} was changed since and is left as it is.")
            continue
        try:
            # Without the editor: it does not know the session yet.
            await _put_back(scope, change.path, change.before, None)
        except (WorkspaceError, JournalError) as error:
            left.append(error.sentence)
    await record_with_contents(scope, LandingEnded(started.landing_id, started.turn_id, UNDONE, " ".join(left)))


async def _content(files: FileSystem, path: str) -> Content:
    try:
        return (await files.read_text_file(path)).text
    except FileMissingError:
        return None
    except NotTextError:
        return await anyio.to_thread.run_sync(Path(path).read_bytes)


async def _merged(change: OverlayChange, present: Content, environment: Mapping[str, str]) -> "str | _Marked | None":
    """Both changes in one text, or with marks where they do not fit; None for what cannot be merged at all."""
    if not (isinstance(change.before, str) and isinstance(change.after, str) and isinstance(present, str)):
        return None
    texts = (present, change.before, change.after)
    return await anyio.to_thread.run_sync(_merge, texts, environment)


class _Marked(Struct, frozen=True):
    text: str


def _merge(texts: Sequence[str], environment: Mapping[str, str]) -> str | _Marked | None:
    with TemporaryDirectory(prefix="pattern-acp-merge-", ignore_cleanup_errors=True) as folder:
        names = ("yours", "before", "workers")
        for name, text in zip(names, texts, strict=True):
            Path(folder, name).write_bytes(text.encode("utf-8", "surrogatepass"))
        clean = {name: value for name, value in environment.items() if not name.upper().startswith("GIT_")}
        git = shutil.which("git", path=clean.get("PATH", "")) or "git"
        labels = ("-L", "yours", "-L", "before", "-L", "the worker's")
        try:
            done = subprocess.run(  # noqa: S603  # fixed words
                (
                    git,
                    "merge-file",
                    "-p",
                    "--diff3",
                    *labels,
                    *names,
                ),
                cwd=folder,
                env=clean,
                capture_output=True,
                timeout=MERGE_SECONDS,
                check=False,
                creationflags=quiet_creation_flags(),
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
    text = done.stdout.decode("utf-8", "surrogatepass")
    if done.returncode == 0:
        return text
    return _Marked(text) if 0 < done.returncode < GIT_FAILED else None


def _refuse_unkept(checkpoints: Checkpoints, paths: Sequence[str], captured: Sequence[Captured]) -> None:
    """Refuse a landing on anything that could not be put back. Raises NotLandedError where there is such a path."""
    for path in checkpoints.not_held(paths):
        raise NotLandedError(f"{path} is protected or lies outside the session's folders, so nothing was landed.")
    for path, before in zip(paths, captured, strict=True):
        if not before.state.is_kept:
            raise NotLandedError(f"{path} could not be put back ({before.state.why_not}), so nothing was landed.")


def _state_after(write: OverlayChange, before: Captured) -> FileState:
    """The state that a write leaves, as far as it can be known: an editor may format what it saves."""
    if write.after is None:
        return MISSING
    data = write.after if isinstance(write.after, bytes) else write.after.encode("utf-8", "surrogatepass")
    return FileState("file", write.mode or before.state.mode, len(data), sha256_hex(data))


async def _write_all(
    scope: RewindScope, files: FileSystem, writes: Sequence[OverlayChange], written: list[OverlayChange]
) -> str:
    """Write the files, several at once; the sentence of the first failure, empty when all are written.

    `written` gets each write that was begun.
    """
    failures: list[str] = []
    left = iter(writes)

    async def write_some() -> None:
        for write in left:
            if failures:
                return
            try:
                if await _content(files, write.path) != write.before:
                    failures.append(f"{write.path} was changed while it was about to be written.")
                    return
                written.append(write)
                await _write(scope, files, write)
            except PatternError as error:
                failures.append(error.sentence)

    try:
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(write_some)
    except BaseExceptionGroup as errors:
        raise unwrap_exception_group(errors) from errors
    return failures[0] if failures else ""


async def _write(scope: RewindScope, files: FileSystem, write: OverlayChange) -> None:
    path, roots = write.path, scope.policy.roots
    if write.after is None:
        await files.remove_file(path)
    elif isinstance(write.after, bytes):
        mode = write.mode or (await anyio.to_thread.run_sync(_mode_now, path))
        state = FileState("file", mode, len(write.after), sha256_hex(write.after))
        await anyio.to_thread.run_sync(put_back, path, state, write.after, roots)
    elif write.before != write.after:
        await files.write_text_file(path, write.after)
    if write.mode and write.after is not None:
        await anyio.to_thread.run_sync(set_mode, path, write.mode, roots)


def _mode_now(path: str) -> int:
    try:
        return os.stat(path).st_mode & 0o7777  # noqa: PTH116  a Path costs as much as the look
    except OSError:
        return 0o644


async def _restore_through(
    scope: RewindScope, started: LandingStarted, files: FileSystem, written: Sequence[OverlayChange]
) -> list[str]:
    """Put back what was written; sentences about files that stay as they are."""
    left: list[str] = []
    before = {change.path: change.before for change in started.files}
    for write in written:
        try:
            await _put_back(scope, write.path, before[write.path], files)
            now = await anyio.to_thread.run_sync(capture_in_place, write.path)
            if isinstance(write.before, str) and content_of(now.content or b"") != write.before:
                # The editor had a text that was not saved; on the disk it is at least not lost.
                await files.write_text_file(write.path, write.before)
        except (WorkspaceError, JournalError) as error:
            left.append(error.sentence)
    return left


async def _put_back(scope: RewindScope, path: str, before: FileState, files: FileSystem | None) -> None:
    now = (await anyio.to_thread.run_sync(capture_in_place, path)).state
    if now != before:
        await put_file_back(scope, FileChange(path, now, before), files, again=False)
        if before.kind == "missing":
            await anyio.to_thread.run_sync(remove_empty_folders, path, scope.policy.roots)


async def record_with_contents(
    scope: RewindScope,
    event: LandingStarted | LandingEnded | JobReported,
    contents: Iterable[tuple[str, bytes]] = (),
    beside: Callable[[Transaction], object] | None = None,
) -> None:
    """Record an event with the contents that it names, by their SHA-256, and do `beside` in the same transaction.

    Raises:
        BlockError: `beside` cannot be done; nothing was recorded.
    """
    now = scope.clock.now_ms()

    def write(tx: Transaction) -> None:
        leases.require(tx, scope.session_id, scope.holder)
        seq = append(tx, scope.session_id, event, actor=Actor.SYSTEM, origin=Origin.AGENT, at_ms=now).seq
        for digest, content in contents:
            store_content(tx, digest, content, seq=seq)
        if beside is not None:
            beside(tx)

    await scope.database.write(write)
