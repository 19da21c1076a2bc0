"""Verbs on sessions, for /rename, /archive, /fork, /search, /undelete and `pattern-acp sessions`; /merge and /discard.

Owns: each verb, with its arguments read already, and its answer; what becomes of memory that was forked with a
conversation: what is asked, what is shown before, and which memory the session continues with. Must not know: where it
was typed, how a session is stored (session/stored.py) or searched (session/searching.py), or how memory is forked or
merged (memory/service/forking.py). When memory changed before the answer, nothing is done.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.document import Column, ItemList, Paragraph, Part, Result, Table, as_result
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.config.settings import Settings
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import Clock, IdFactory, SessionId, ToolCallId, local_minute, utc_second
from pattern_acp.domain.text_limits import fenced, one_line, plural, short_diff
from pattern_acp.domain.tool_calls import TextContent, ToolCallView, ToolContent, ToolKind
from pattern_acp.journal import sessions
from pattern_acp.journal.codec import MissingSessionError
from pattern_acp.journal.events import SessionTitled
from pattern_acp.journal.leases import this_process
from pattern_acp.journal.sessions import ListedSession, SessionStatus, cwd_key, with_details
from pattern_acp.memory import forks
from pattern_acp.memory.blocks import MemoryFork
from pattern_acp.memory.diffs import Side
from pattern_acp.memory.errors import StaleProposalError
from pattern_acp.memory.service.forking import MergeResult, discard_fork, is_untouched, merge_fork, preview_merge
from pattern_acp.memory.service.scope import PERSON, WriteContext
from pattern_acp.memory.templates import NO_TEMPLATES
from pattern_acp.policy.decision import ApprovalOption, PermissionAnswer
from pattern_acp.rewind.forks import ForkingMemory, fork_session
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.session.opening import memory_rules
from pattern_acp.session.ports import ask_recorded
from pattern_acp.session.searching import search_sessions
from pattern_acp.session.stored import (
    DAY_MS,
    archive_session,
    clean_title,
    delete_session,
    project_of_folder,
    rename_session,
    restore_session,
)
from pattern_acp.tools.base import SessionHit
from pattern_acp.turn.recorder import NewEvent

if TYPE_CHECKING:
    from pattern_acp.session.session import Session


FOUND = 10
"""Most sessions that a slash command names."""

PAGE = 200
"""Sessions that a terminal lists: the newest; older ones are found by `search`."""

HITS = 30
"""Passages that a terminal shows."""

SHOWN_TEXT = 120
"""Characters of a passage that a line shows."""


class SessionDesk(Struct, frozen=True):
    """Dependencies of every verb."""

    database: Database
    clock: Clock
    ids: IdFactory
    deleted_days: int
    """Days for which a deleted session can be brought back."""
    folder: str = ""
    """The folder whose sessions are listed and searched; empty for those of every folder."""
    session: "Session | None" = None
    """The open session in which the command was typed; it is meant where none is named."""
    full_id: Callable[[Database, str], Awaitable[str]] | None = None
    """Completes an id of which only the first characters were typed."""

    async def id_of(self, named: str) -> str:
        """The session that is meant."""
        if self.session is not None and not named:
            return self.session.session_id
        return named if self.full_id is None else await self.full_id(self.database, named)


def desk_of(session: "Session") -> SessionDesk:
    """Dependencies of the verbs in an open session."""
    shared = session.constellation
    return SessionDesk(
        shared.database, shared.clock, shared.ids, shared.settings.retention.deleted_days, session=session
    )


class SessionList(Result, frozen=True):
    """Sessions of a list; `empty` is what to say when there is none."""

    sessions: tuple[ListedSession, ...] = ()
    empty: str = ""
    head: str = ""

    @property
    def document(self) -> Sequence[Part]:
        """A line for each, below its folder."""
        if not self.sessions:
            return (Paragraph(self.empty),)
        columns = (
            Column("Session", "cyan", code=True),
            Column("Updated", "dim"),
            Column("Status", "green", usual=SessionStatus.IDLE.value),
            Column("Title"),
            Column("Folder", heads=True),
        )
        usual = Settings().persona
        others = [one.row.persona for one in self.sessions if one.row.persona != usual]
        if others:
            columns = (*columns[:3], Column("Persona", "magenta", usual=usual), *columns[3:])
        rows = tuple(
            (
                one.row.session_id,
                local_minute(one.row.updated_ms),
                one.status.value,
                *((one.row.persona,) if others else ()),
                one.row.title or "untitled",
                one.row.cwd,
            )
            for one in self.sessions
        )
        return (*((Paragraph(self.head),) if self.head else ()), Table(columns, rows, "lines"))

    @property
    def value(self) -> object:
        """The facts of each; a time is ISO 8601 in UTC."""
        return [
            {
                "id": one.row.session_id,
                "title": one.row.title,
                "cwd": one.row.cwd,
                "updated": utc_second(one.row.updated_ms),
                "status": one.status.value,
                "messages": one.row.message_count,
                "preview": one.preview,
                "archived": one.row.archived,
                "persona": one.row.persona,
                "parent": one.row.parent,
            }
            for one in self.sessions
        ]


def no_sessions(folder: str) -> SessionList:
    """The empty list of a folder, or of all."""
    if not folder:
        return SessionList(empty="No sessions anywhere yet.")
    return SessionList(empty="No sessions here yet. `pattern-acp sessions list --all` lists those of every folder.")


class PassagePage(Result, frozen=True):
    """Passages that a search found; `empty` is the text when there are none."""

    hits: tuple[SessionHit, ...]
    empty: str

    @property
    def document(self) -> Sequence[Part]:
        """Each with its session, and below that what was said."""
        if not self.hits:
            return (Paragraph(self.empty),)
        columns = (
            Column("Session", "cyan", code=True),
            Column("Turn", form="turn {}"),
            Column("Day", "dim"),
            Column("Title", link=True),
            Column("By"),
            Column("Text", below=True),
        )
        rows = tuple(
            (
                hit.session_id,
                str(hit.turn),
                hit.day,
                " ".join(hit.title.split()) or "untitled",
                hit.speaker,
                one_line(hit.text, SHOWN_TEXT),
            )
            for hit in self.hits
        )
        return (Table(columns, rows, "lines", tuple(hit.uri for hit in self.hits)),)

    @property
    def value(self) -> object:
        """The facts of each; a day is that of the machine's zone."""
        return [{"id": h.session_id, "title": h.title, "turn": h.turn, "at": h.day, "text": h.text} for h in self.hits]


_MEMORY_OF_FORKS = {
    "shared": "Both use the same memory: what one learns, the other knows.",
    "forked": (
        "Its memory is a fork: what it learns stays there until `/merge` in it brings it back, or `/discard` drops it."
    ),
}


class SessionChanged(Result, frozen=True, omit_defaults=True):
    """Change of a session; `fork` is the session that was forked from it, and `memory` what it has of memory."""

    id: str
    done: str
    title: str | None = None
    fork: str | None = None
    memory: str | None = None
    turns: int | None = None
    here: bool = False
    """It is the one in which the command was typed."""

    @property
    def document(self) -> Sequence[Part]:
        """The change, and the way to undo it."""
        name = "This session" if self.here else self.id
        match self.done:
            case "rename":
                text = f"{name} is now called “{self.title}”."
            case "adopt":
                text = f"{name} continues with today's persona and instruction files."
            case "archive":
                text = f"{name} is archived: lists leave it out until its next prompt, and a search still finds it."
            case "unarchive":
                text = f"{name} is back in the list."
            case "undelete":
                text = f"{name} “{self.title or 'Untitled'}” is back in the list."
            case "fork":
                text = (
                    f"“{self.title}” begins with {plural(self.turns or 0, 'turn')} of "
                    f"{'this session' if self.here else self.id}: `{self.fork}`. Open it from the list of sessions, or "
                    f"in a terminal: `pattern-acp chat --session {self.fork}`. The other one continues as it is. "
                    f"{_MEMORY_OF_FORKS[self.memory or 'shared']}"
                )
            case _:
                text = f"Deleted {self.id}; `pattern-acp sessions undelete {self.id}` brings it back."
        return (Paragraph(text),)


async def list_sessions(desk: SessionDesk, *, archived: bool) -> SessionList:
    """The newest sessions."""
    holder, now = this_process(desk.ids.new("cli")), desk.clock.now_ms()

    def read(tx: Transaction) -> list[ListedSession]:
        rows, _ = sessions.list_sessions(tx, cwd=desk.folder or None, cursor=None, limit=PAGE, archived=archived)
        return with_details(tx, rows, holder, now)

    listed = await desk.database.read(read)
    return SessionList(tuple(listed)) if listed else no_sessions(desk.folder)


async def search(desk: SessionDesk, text: str) -> PassagePage:
    """Find what was said."""
    most = HITS if desk.session is None else FOUND
    hits = await search_sessions(desk.database, text, most, now=desk.clock.now_ms())
    if not desk.folder:
        return PassagePage(hits, f"No session has anything about “{text}”.")
    here = cwd_key(desk.folder)
    found = tuple(hit for hit in hits if cwd_key(hit.cwd) == here)
    return PassagePage(found, f"No session here has anything about “{text}”; `--all` searches those of every folder.")


async def rename(desk: SessionDesk, text: str, session: str = "") -> SessionChanged:
    """Give a session another title; the editor of an open one learns it at once."""
    meant, own = await desk.id_of(session), desk.session
    if own is None:
        title = await rename_session(desk.database, meant, text, now=desk.clock.now_ms())
    else:
        title = clean_title(text)
        await own.recorder.record(NewEvent(SessionTitled(title), Actor.HUMAN, Origin.PERSON))
        own.state.title = title
    return SessionChanged(meant, "rename", title, here=own is not None)


async def archive(desk: SessionDesk, session: str = "") -> SessionChanged:
    """Put a session away."""
    meant = await desk.id_of(session)
    await archive_session(desk.database, meant, archived=True, now=desk.clock.now_ms())
    return SessionChanged(meant, "archive", here=desk.session is not None)


async def unarchive(desk: SessionDesk, session: str) -> SessionChanged:
    """Put a session back in the list."""
    meant = await desk.id_of(session)
    await archive_session(desk.database, meant, archived=False, now=desk.clock.now_ms())
    return SessionChanged(meant, "unarchive")


async def delete(desk: SessionDesk, session: str) -> SessionChanged:
    """Delete a session.

    Raises:
        UnknownSessionError: there is none.
        LeaseHeldError: another process works on it.
    """
    meant, holder = await desk.id_of(session), this_process(desk.ids.new("cli"))
    if not await delete_session(desk.database, meant, holder, now=desk.clock.now_ms()):
        raise MissingSessionError(meant)
    return SessionChanged(meant, "delete")


async def undelete(desk: SessionDesk, session: str) -> Result:
    """Bring a deleted session back, or list those that can be."""
    now = desk.clock.now_ms()
    if session:
        meant = session if desk.full_id is None else await desk.full_id(desk.database, session)
        await restore_session(desk.database, meant, now=now, days=desk.deleted_days)
        row = await desk.database.read(lambda tx: sessions.get_session(tx, SessionId(meant)))
        return SessionChanged(meant, "undelete", None if row is None else row.title)
    most = PAGE if desk.session is None else FOUND
    since = now - desk.deleted_days * DAY_MS
    rows = await desk.database.read(lambda tx: sessions.deleted_sessions(tx, since_ms=since, limit=most))
    return SessionList(
        tuple(ListedSession(row, SessionStatus.IDLE, "") for row in rows),
        f"No session was deleted in the last {desk.deleted_days} days.",
        "Deleted, newest first; `/undelete ID` brings one back:",
    )


async def fork(desk: SessionDesk, text: str, session: str = "", memory: str = "") -> Result:
    """Begin another session with the history of one; the user is asked about memory that says something.

    Raises:
        InvalidRequestError: there is no such turn, or the memory to fork is a fork.
        BlockError: the history of a block that is to be forked cannot be read.
    """
    meant = await desk.id_of(session)
    if not memory and desk.session is not None:
        memory = await choose_memory(desk.session)
        if not memory:
            return SessionList(empty="Nothing was forked.")
    forking = await _forking(desk, meant) if memory == "forked" else None
    made = await fork_session(desk.database, meant, text, clock=desk.clock, ids=desk.ids, forking=forking)
    done = SessionChanged(meant, "fork", made.title, made.session_id, memory or "shared", made.turns)
    return replace(done, here=desk.session is not None)


async def _forking(desk: SessionDesk, session_id: str) -> ForkingMemory:
    if desk.session is not None:
        return ForkingMemory(desk.session.state.project_key, desk.session.constellation.peer)
    row = await desk.database.read(lambda tx: sessions.get_session(tx, SessionId(session_id)))
    if row is None:
        raise MissingSessionError(session_id)
    return ForkingMemory(await anyio.to_thread.run_sync(project_of_folder, row.cwd), desk.ids.peer())


FORK_CALL = "memory_fork"
"""Name of the calls that show these questions."""

MOST_DIFF = 6_000
"""Characters of the difference of a block that are shown."""

MOST_FACTS = 30
"""Facts that are shown one by one."""

FORKED = "Fork memory: what the fork learns stays in it until /merge"
SHARED = "Share memory: what one conversation learns, the other knows"
NEITHER = "Do not fork"

SIDES: Mapping[str, Side] = {"both": "both", "fork": "ours", "target": "theirs"}
"""Whose lines a merge has where both sides changed them, as in `pattern-acp merge --conflicts`."""


async def choose_memory(session: "Session") -> str:
    """Ask what a fork of the session has of memory: `shared` or `forked`; empty to fork nothing.

    Without a question, memory that says nothing yet is shared, and so is forked memory.
    """
    owner = memory_owner(session.state)
    if owner.fork is not None or await session.constellation.database.read(lambda tx: is_untouched(tx, owner)):
        return "shared"
    options = (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, SHARED),
        ApprovalOption(PermissionAnswer.ALLOW_ALWAYS, FORKED),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, NEITHER),
    )
    reason = "The new conversation can share memory with this one, or have a fork of it, which /merge brings back."
    answer = await _ask(session, "Fork this conversation: what about memory?", reason, options, ())
    if not answer.allows:
        return ""
    return "forked" if answer is PermissionAnswer.ALLOW_ALWAYS else "shared"


async def run_merge(session: "Session", argument: str) -> Result:
    """Bring back what forked memory learned, after the user has seen it.

    Raises:
        CommandMisusedError: memory is not forked here, or the argument is no side of `SIDES`.
        BlockError: nothing was changed, and why.
    """
    side = SIDES.get(argument or "both")
    if side is None:
        raise CommandMisusedError(
            "/merge takes a side for lines that were changed on both: fork, target (outside of it), or both."
        )
    fork = _fork_of(session.state.memory_fork, "merge")
    found = await preview_merge(session.constellation.database, fork, _writing(session), side)
    if found.is_empty:
        await _end(session, lambda tx: merge_fork(tx, fork, _writing(session)))
        return as_result(
            "The fork learned nothing. From here on this conversation uses the memory that it was forked from."
        )
    options = (
        ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Bring it back, and end the fork"),
        ApprovalOption(PermissionAnswer.REJECT_ONCE, "Leave everything as it is"),
    )
    what = counted(found)
    reason = f"{what} would come back to the memory that this was forked from"
    reason += ", each with who wrote it and when." if found.blocks or found.facts else "."
    if found.places:
        reason += " For one side alone, leave everything as it is, and type /merge fork or /merge target."
    answer = await _ask(session, "Merge the memory of this fork?", reason, options, shown(found))
    if not answer.allows:
        return as_result("Nothing was merged; the fork stays.")

    def merge(tx: Transaction) -> MergeResult:
        done = merge_fork(tx, fork, _writing(session), side)
        if done.stamp != found.stamp:
            raise StaleProposalError(next((one.label for one in done.blocks), "memory"))
        return done

    done = await _end(session, merge)
    said = f"Merged: {counted(done)}." if done.blocks or done.facts else "Nothing came back."
    notes = (*(f"`{block.label}`: {note}" for block in done.blocks for note in block.notes), *done.left)
    went_on = f"{said} From here on this conversation uses the memory that it was forked from."
    return as_result(went_on, *((ItemList(notes),) if notes else ()))


async def run_discard(session: "Session") -> Result:
    """Drop what forked memory learned, after a question.

    Raises:
        CommandMisusedError: memory is not forked here.
        BlockError: nothing was changed, and why.
    """
    fork = _fork_of(session.state.memory_fork, "discard")
    found = await preview_merge(session.constellation.database, fork, _writing(session))
    if not found.is_empty:
        options = (
            ApprovalOption(PermissionAnswer.ALLOW_ONCE, "Drop it for good"),
            ApprovalOption(PermissionAnswer.REJECT_ONCE, "Leave everything as it is"),
        )
        reason = f"{counted(found)} would be gone for good; the memory that this was forked from stays as it is."
        answer = await _ask(session, "Drop the memory of this fork?", reason, options, shown(found))
        if not answer.allows:
            return as_result("Nothing was dropped; the fork stays.")
    await _end(session, lambda tx: discard_fork(tx, fork, _writing(session)))
    return as_result(
        "The fork's memory is gone. From here on this conversation uses the memory that it was forked from."
    )


async def leave_ended_fork(session: "Session") -> None:
    """Continue with the memory that the session's was forked from, once another session has merged or discarded it.

    Raises:
        DatabaseError: the constellation cannot be read.
    """
    fork = session.state.memory_fork
    if fork is None:
        return
    outcome = await session.constellation.database.read(lambda tx: forks.outcome_of(tx, fork.id))
    if outcome != "open":
        _go_on(session)
        session.state.notices.append(
            f"The forked memory of this conversation was {outcome} by another one that used it, too; this one "
            "continues with the memory that it was forked from."
        )


_Done = TypeVar("_Done")


async def _end(session: "Session", work: Callable[[Transaction], _Done]) -> _Done:
    """End the fork as `work` does, and continue with the memory that it was forked from."""
    done = await session.constellation.database.write(work)
    _go_on(session)
    return done


def _go_on(session: "Session") -> None:
    session.state.memory_fork = session.state.shown = None
    session.dialogue.memory.follow_persona()


def _fork_of(fork: MemoryFork | None, verb: str) -> MemoryFork:
    if fork is None:
        raise CommandMisusedError(
            f"There is nothing to {verb}: this conversation's memory is no fork. /fork --memory forked begins one."
        )
    return fork


def _writing(session: "Session") -> WriteContext:
    """The user's writes to the memory that the session's was forked from."""
    shared = session.constellation
    return WriteContext(
        memory_owner(session.state).lasting,
        PERSON,
        memory_rules(shared, session.state.settings),
        shared.ids,
        shared.peer,
        shared.clock.now_ms(),
        NO_TEMPLATES,
        session.person_memory.turn_id,
    )


def counted(found: MergeResult) -> str:
    """The size of a merge in words."""
    parts = [plural(len(found.blocks), "block")] if found.blocks else []
    parts += [plural(len(found.facts), "fact")] if found.facts else []
    return " and ".join(parts) or "Nothing"


def shown(found: MergeResult) -> tuple[ToolContent, ...]:
    """Changes by a merge, block by block and fact by fact."""
    parts = [
        "\n\n".join(
            (
                f"`{block.label}`",
                fenced(short_diff(block.before, block.after, MOST_DIFF), "diff"),
                *block.notes,
            )
        )
        for block in found.blocks
    ]
    parts += [f"Fact: {one_line(fact)}" for fact in found.facts[:MOST_FACTS]]
    more = len(found.facts) - MOST_FACTS
    parts += [f"and {plural(more, 'fact')} more"] if more > 0 else []
    return tuple(TextContent(part) for part in (*parts, *found.left))


async def _ask(
    session: "Session", title: str, reason: str, options: Sequence[ApprovalOption], content: tuple[ToolContent, ...]
) -> PermissionAnswer:
    """Ask the user, and record the question with what it shows, and the answer."""
    turn_id = session.turn_id
    call = ToolCallView(
        ToolCallId(session.constellation.ids.new("call")), FORK_CALL, title, ToolKind.EDIT, {}, content=content
    )
    return await ask_recorded(session.dialogue, turn_id, call, reason, options)
