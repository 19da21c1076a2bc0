"""Going back: files, memory and conversation, in steps that an end of the process cannot leave half done.

Owns: the order of the steps. What is to be done is recorded first (`RewindStarted`, with the content of every file that
will be overwritten), each step can be done twice, and the conversation goes back with the last event
(`SessionRewound`). A rewind that was cut off is finished when the session is next opened. Must not know: how a user
chose.
"""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import MessageId
from pattern_acp.domain.errors import JournalError, WorkspaceError
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.tool_calls import FileChange
from pattern_acp.journal import leases
from pattern_acp.journal.contents import read_content, store_content
from pattern_acp.journal.events import MessageRecorded, RewindStarted, SessionRewound
from pattern_acp.journal.writer import append
from pattern_acp.memory.forgotten import lost_words
from pattern_acp.rewind.checkpoints import CheckpointFacts, Checkpoints, RewindScope, append_checkpoint
from pattern_acp.rewind.plan import NAMELESS, RewindPlan, take_back
from pattern_acp.workspace.errors import EditorRefusedError
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.snapshots import (
    Captured,
    capture_all,
    capture_in_place,
    put_back,
    refuse_links,
    remove_empty_folders,
    set_mode,
)


class Rewound(Struct, frozen=True):
    """Result of a rewind: files and blocks that were put back, and sentences about the rest."""

    files: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


async def start_rewind(
    scope: RewindScope, plan: RewindPlan, parts: Sequence[str], *, overwrite: bool, before: int
) -> RewindStarted:
    """Record what is about to be done, with the content of the files as they are now.

    `before` is the event of the session behind which an undo of this begins.

    Raises:
        DatabaseError: nothing was recorded, and nothing may be done.
    """
    wanted = plan.chosen(overwrite=overwrite) if "files" in parts else ()
    found = await capture_all([change.path for change in wanted])
    files = tuple(FileChange(change.path, now.state, change.after) for change, now in zip(wanted, found, strict=True))
    blocks = tuple(block.label for block in plan.blocks if block.changes) if "memory" in parts else ()
    started = RewindStarted(
        scope.ids.new("rwd"),
        scope.turn_id,
        plan.target.position,
        before,
        tuple(parts),
        files,
        blocks,
        plan.target.memory_from,
    )
    now_ms = scope.clock.now_ms()

    def write(tx: Transaction) -> None:
        leases.require(tx, scope.session_id, scope.holder)
        seq = append(tx, scope.session_id, started, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now_ms).seq
        for captured in found:
            if captured.content is not None:
                store_content(tx, captured.state.digest, captured.content, seq=seq)

    await scope.database.write(write)
    return started


async def put_everything_back(
    scope: RewindScope, started: RewindStarted, files: FileSystem | None, *, again: bool = False
) -> Rewound:
    """Put files and memory back, each as far as it can be. Text goes through `files`, the editor, where there is one.

    With `again`, a rewind that was cut off is finished: what is neither as it was nor as it should be is left alone.
    """
    done: list[str] = []
    problems: list[str] = []
    for change in started.files:
        try:
            if await put_file_back(scope, change, files, again=again):
                done.append(change.path)
            if change.after.kind == "missing":
                roots = scope.policy.roots
                await anyio.to_thread.run_sync(remove_empty_folders, change.path, roots)
        except (WorkspaceError, JournalError) as error:
            problems.append(error.sentence)
    problems += await take_back(scope, started.blocks, started.memory_from)
    if scope.code is not None and done:
        scope.code.note_changed(done)
    return Rewound(tuple(done), started.blocks, tuple(problems))


async def end_rewind(scope: RewindScope, started: RewindStarted, done: Rewound, *, note: str = "") -> None:
    """Record that it is done, with a checkpoint of its own; from here on, the conversation is the earlier one.

    `note` is what the user reads of it in the conversation, when nothing else says so.

    Raises:
        DatabaseError: it could not be recorded; the next opening of the session finishes it.
    """
    changes = [
        FileChange(change.path, change.before, (await anyio.to_thread.run_sync(capture_in_place, change.path)).state)
        for change in started.files
    ]
    changed = tuple(change for change in changes if change.before != change.after)
    back_to = started.position if "conversation" in started.parts else None
    rewound = SessionRewound(started.rewind_id, started.turn_id, started.before, started.parts, back_to, done.problems)
    facts = CheckpointFacts(scope.ids.new("chk"), started.turn_id, "rewind", changes=changed)
    message = Message(MessageId(scope.ids.new("msg")), Role.ASSISTANT, (TextPart(note),))
    now_ms = scope.clock.now_ms()

    def write(tx: Transaction) -> None:
        leases.require(tx, scope.session_id, scope.holder)
        append_checkpoint(tx, scope, facts, at_ms=now_ms)
        append(tx, scope.session_id, rewound, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now_ms)
        if note:
            said = MessageRecorded(started.turn_id, message, for_model=False)
            append(tx, scope.session_id, said, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=now_ms)

    await scope.database.write(write)


async def carry_out(
    checkpoints: Checkpoints,
    plan: RewindPlan,
    parts: Sequence[str],
    *,
    overwrite: bool,
    before: int,
    files: FileSystem | None,
    note: Callable[[Rewound], str] | None = None,
    after_files: Callable[[Rewound], Awaitable[None]] | None = None,
) -> Rewound:
    """All steps. `after_files` is called before the conversation goes back. Not to be cancelled once begun.

    Raises:
        DatabaseError: a step could not be recorded; the next turn, or opening the session again, finishes it.
    """
    scope = checkpoints.scope
    started = await start_rewind(scope, plan, parts, overwrite=overwrite, before=before)
    checkpoints.rewinding = True
    done = await put_everything_back(scope, started, files)
    if after_files is not None:
        await after_files(done)
    await end_rewind(scope, started, done, note=note(done) if note is not None else "")
    checkpoints.rewinding = False
    return done


async def finish_rewind(scope: RewindScope, started: RewindStarted) -> None:
    """Finish a rewind that an error or an end of the process cut off."""
    # Without the editor: it does not know the session yet.
    done = await put_everything_back(scope, started, None, again=True)
    await end_rewind(scope, started, done, note="> A rewind that was cut off has been finished.")


async def put_file_back(scope: RewindScope, change: FileChange, files: FileSystem | None, *, again: bool) -> bool:
    """Put a file back; True when it is now as it should be. Raises WorkspaceError where it stays as it is, and why."""
    if lost_words(change.path):
        raise WorkspaceError(f"{change.path} was not put back: {NAMELESS}.")
    roots, then = scope.policy.roots, change.after
    now = await anyio.to_thread.run_sync(capture_in_place, change.path)
    if now.state == then:
        return True
    # A folder goes with the last that was in it.
    emptied = now.state.kind == "missing" and change.before.is_folder
    if again and now.state != change.before and not emptied:
        raise WorkspaceError(f"{change.path} was changed meanwhile and is left as it is.")
    content = None
    if then.kind == "file":
        content = await scope.database.read(lambda tx: read_content(tx, then.digest))
        if content is None:
            raise WorkspaceError(f"{change.path} was not put back: its content is not stored any more.")
    if files is not None:
        now = await _through_editor(files, change, now, content, roots)
        if now.state == then:
            return True
        if now.state.digest == then.digest and now.state.kind == then.kind == "file":
            await anyio.to_thread.run_sync(set_mode, change.path, then.mode, roots)
            return True
    await anyio.to_thread.run_sync(put_back, change.path, then, content, roots)
    return True


async def _through_editor(
    files: FileSystem, change: FileChange, now: Captured, content: bytes | None, roots: Sequence[str]
) -> Captured:
    """Let the editor do what it can, so that its buffer follows; what the file is then."""
    try:
        await anyio.to_thread.run_sync(refuse_links, change.path, roots)
        if change.after.kind == "missing" and now.state.kind == "file":
            await files.remove_file(change.path)
        elif content is not None and now.state.kind != "link":
            await files.write_text_file(change.path, content.decode("utf-8"))
    except EditorRefusedError:
        raise
    except (WorkspaceError, UnicodeDecodeError):
        # Binary, read-only or unknown to the editor: the disk can do it.
        pass
    return await anyio.to_thread.run_sync(capture_in_place, change.path)
