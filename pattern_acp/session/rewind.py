"""Going back: files, memory and conversation, in steps that an end of the process cannot leave half done.

Owns: the order of the steps. What is to be done is recorded first (`RewindStarted`, with the content of every file that
will be overwritten), each step can be done twice, and the conversation goes back with the last event
(`SessionRewound`). A rewind that was cut off is finished when the session is next opened. Must not know: how a person
chose.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.db.connection import Transaction
from pattern_acp.domain.errors import JournalError, WorkspaceError
from pattern_acp.domain.file_states import FileChange, SavedFile
from pattern_acp.domain.ids import MessageId, TurnId
from pattern_acp.domain.messages import Message, Role, TextPart
from pattern_acp.domain.origin import Actor, Origin
from pattern_acp.journal import leases
from pattern_acp.journal.events import CheckpointTaken, FilesSaved, MessageRecorded, RewindStarted, SessionRewound
from pattern_acp.journal.file_contents import read_content, store_content
from pattern_acp.journal.items import CHECKPOINTS
from pattern_acp.journal.reader import Recorded, read_item
from pattern_acp.journal.writer import append
from pattern_acp.memory.forgotten import lost_words
from pattern_acp.session.checkpoints import CheckpointFacts, append_checkpoint
from pattern_acp.session.context_figure import show_context
from pattern_acp.session.recorded import reload_history
from pattern_acp.session.rewind_memory import take_back
from pattern_acp.session.rewind_plan import NAMELESS, RewindPlan
from pattern_acp.workspace.errors import EditorRefusedError
from pattern_acp.workspace.files import FileSystem
from pattern_acp.workspace.snapshots import (
    Captured,
    capture_in_place,
    put_back,
    refuse_links,
    remove_empty_folders,
    set_mode,
)

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


class Rewound(Struct, frozen=True):
    """What was done: files put back, blocks put back, and sentences about what was not."""

    files: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


async def start_rewind(
    session: "Session", plan: RewindPlan, parts: Sequence[str], *, overwrite: bool, before: int
) -> RewindStarted:
    """Record what is about to be done, with the content of the files as they are now.

    `before` is the event of the session behind which an undo of this begins.

    Raises:
        DatabaseError: nothing was recorded, and nothing may be done.
    """
    shared = session.constellation
    wanted = plan.chosen(overwrite=overwrite) if "files" in parts else ()
    found = [await anyio.to_thread.run_sync(capture_in_place, change.path) for change in wanted]
    files = tuple(FileChange(change.path, now.state, change.after) for change, now in zip(wanted, found, strict=True))
    blocks = tuple(block.label for block in plan.blocks if block.changes) if "memory" in parts else ()
    started = RewindStarted(
        shared.ids.new("rwd"),
        session.memory.turn_id or TurnId(""),
        plan.target.position,
        before,
        tuple(parts),
        files,
        blocks,
        plan.target.memory_from,
    )
    now_ms = shared.clock.now_ms()

    def write(tx: Transaction) -> None:
        leases.require(tx, session.session_id, shared.holder)
        seq = append(tx, session.session_id, started, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now_ms).seq
        for captured in found:
            if captured.content is not None:
                store_content(tx, captured.state.digest, captured.content, seq=seq)

    await shared.database.write(write)
    return started


async def put_everything_back(
    session: "Session", started: RewindStarted, files: FileSystem | None, *, again: bool = False
) -> Rewound:
    """Put files and memory back, each as far as it can be. Text goes through `files`, the editor, where there is one.

    With `again`, a rewind that was cut off is finished: what is neither as it was nor as it should be is left alone.

    Raises:
        DatabaseError: the constellation cannot be read or written.
    """
    done: list[str] = []
    problems: list[str] = []
    for change in started.files:
        try:
            if await _put_file_back(session, change, files, again=again):
                done.append(change.path)
            if change.after.kind == "missing":
                roots = session.state.policy.roots
                await anyio.to_thread.run_sync(remove_empty_folders, change.path, roots)
        except (WorkspaceError, JournalError) as error:
            problems.append(error.sentence)
    problems += await take_back(session, started.blocks, started.memory_from)
    code = session.constellation.code
    if code is not None and done:
        code.note_changed(done)
    return Rewound(tuple(done), started.blocks, tuple(problems))


async def end_rewind(session: "Session", started: RewindStarted, done: Rewound, *, note: str = "") -> None:
    """Record that it is done, with a checkpoint of its own; from here on, the conversation is the earlier one.

    `note` is what the person reads of it in the conversation, when nothing else says so.

    Raises:
        DatabaseError: it could not be recorded; the next opening of the session finishes it.
    """
    shared = session.constellation
    changes = [
        FileChange(change.path, change.before, (await anyio.to_thread.run_sync(capture_in_place, change.path)).state)
        for change in started.files
    ]
    changed = tuple(change for change in changes if change.before != change.after)
    back_to = started.position if "conversation" in started.parts else None
    rewound = SessionRewound(started.rewind_id, started.turn_id, started.before, started.parts, back_to, done.problems)
    facts = CheckpointFacts(shared.ids.new("chk"), started.turn_id, "rewind", changes=changed)
    message = Message(MessageId(shared.ids.new("msg")), Role.ASSISTANT, (TextPart(note),))
    now_ms = shared.clock.now_ms()

    def write(tx: Transaction) -> None:
        leases.require(tx, session.session_id, shared.holder)
        append_checkpoint(tx, session.checkpoints.scope, facts, at_ms=now_ms)
        append(tx, session.session_id, rewound, actor=Actor.HUMAN, origin=Origin.PERSON, at_ms=now_ms)
        if note:
            said = MessageRecorded(started.turn_id, message, for_model=False)
            append(tx, session.session_id, said, actor=Actor.SYSTEM, origin=Origin.WORKSPACE, at_ms=now_ms)

    await shared.database.write(write)
    await reload_history(session)
    # What the model does not know any more, or knows in another state, it must read again before it edits.
    session.state.fingerprints.clear()
    session.state.waiting.clear()
    if back_to is not None:
        await show_context(session)


async def carry_out(
    session: "Session",
    plan: RewindPlan,
    parts: Sequence[str],
    *,
    overwrite: bool,
    before: int,
    note: Callable[[Rewound], str] | None = None,
    after_files: Callable[[Rewound], Awaitable[None]] | None = None,
) -> Rewound:
    """All steps; once begun, they are not cancelled. `after_files` is called before the conversation goes back.

    Raises:
        DatabaseError: a step could not be recorded; the next turn, or opening the session again, finishes it.
    """
    done = Rewound()
    with anyio.CancelScope(shield=True):
        started = await start_rewind(session, plan, parts, overwrite=overwrite, before=before)
        session.checkpoints.rewinding = True
        done = await put_everything_back(session, started, session.workbench.files)
        if after_files is not None:
            await after_files(done)
        await end_rewind(session, started, done, note=note(done) if note is not None else "")
        session.checkpoints.rewinding = False
    return done


async def finish_left_over(session: "Session") -> None:
    """Finish a rewind of this process that an error cut off; before anything else is done in the session.

    Raises:
        DatabaseError: the constellation still cannot be written.
    """
    if session.checkpoints.rewinding:
        await finish_cut_off(session)
        session.checkpoints.rewinding = False


async def finish_cut_off(session: "Session", *, interrupted: bool = False) -> bool:
    """Finish a rewind, and checkpoint a turn, that an end of the process cut off; whether there was a rewind.

    `interrupted` says that a turn was only now ended, which has no checkpoint therefore.

    Raises:
        DatabaseError: the constellation cannot be read or written.
    """
    database, stream = session.constellation.database, session.session_id
    entries = await database.read(lambda tx: read_item(tx, stream, CHECKPOINTS))
    saved = _not_checkpointed(entries)
    started = _not_ended(entries)
    if saved or interrupted:
        session.checkpoints.recover(saved)
        await session.checkpoints.take("recovered")
    if started is None:
        return False
    # Without the editor: it does not know the session yet.
    done = await put_everything_back(session, started, None, again=True)
    await end_rewind(session, started, done, note="> A rewind that was cut off has been finished.")
    return True


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


def _not_ended(entries: Sequence[Recorded]) -> RewindStarted | None:
    started: RewindStarted | None = None
    for entry in entries:
        if isinstance(entry.event, RewindStarted):
            started = entry.event
        elif isinstance(entry.event, SessionRewound):
            started = None
    return started


async def _put_file_back(session: "Session", change: FileChange, files: FileSystem | None, *, again: bool) -> bool:
    """Whether the file is as it should be now."""
    if lost_words(change.path):
        raise WorkspaceError(f"{change.path} was not put back: {NAMELESS}.")
    roots, then = session.state.policy.roots, change.after
    now = await anyio.to_thread.run_sync(capture_in_place, change.path)
    if now.state == then:
        return True
    # A folder goes with the last that was in it.
    emptied = now.state.kind == "missing" and change.before.is_folder
    if again and now.state != change.before and not emptied:
        raise WorkspaceError(f"{change.path} was changed meanwhile and is left as it is.")
    content = None
    if then.kind == "file":
        content = await session.constellation.database.read(lambda tx: read_content(tx, then.digest))
        if content is None:
            raise WorkspaceError(f"{change.path} was not put back: its content is no longer kept.")
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
