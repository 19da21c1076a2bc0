"""`pattern-acp sessions`: what its verbs work with, and showing a whole session."""

import platform
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec
from msgspec.structs import replace

from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_OK
from pattern_acp.cli.command_runner import full_id, open_for_command
from pattern_acp.cli.output import printable, write_failure, write_json, write_line
from pattern_acp.commands.document import HtmlPage, Result
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.commands.sessions import SESSION_VERBS
from pattern_acp.db.connection import open_for_reading
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.domain.errors import DatabaseError
from pattern_acp.journal import sessions as store
from pattern_acp.journal.codec import MissingSessionError
from pattern_acp.journal.events import Event, InstructionsCompiled, SessionConfigured
from pattern_acp.journal.history import active_events, read_history, readable_history
from pattern_acp.journal.reader import Recorded
from pattern_acp.session.session_commands import PassagePage, SessionChanged, SessionDesk, no_sessions

if TYPE_CHECKING:
    from pattern_acp.cli.chat.transcript import Transcript
    from pattern_acp.db.connection import Database, Transaction
    from pattern_acp.definitions.personas import Persona


class TerminalDesk(SessionDesk, frozen=True):
    """The services of the verbs that only a terminal has."""

    process: Process | None = None
    json: bool = False


@asynccontextmanager
async def open_sessions(call: TypedCommand, process: Process) -> AsyncGenerator[SessionDesk, None]:
    """Open the services of the verbs."""
    clock, reads = SystemClock(), {verb.name for verb in SESSION_VERBS if verb.reads}
    is_read = call.command in reads
    path = process.constellation_path
    async with open_for_reading(path, clock=clock) if is_read else open_for_command(process) as database:
        yield TerminalDesk(
            database,
            clock,
            RandomIds(),
            process.loaded.settings.retention.deleted_days,
            "" if call.shared["everywhere"] else str(Path.cwd()),
            full_id=full_id,
            process=process,
            json=call.json,
        )


def without_constellation(call: TypedCommand) -> Result:
    """Return the answer while nothing is recorded. Raises UnknownSessionError where a session was named."""
    if session := call.values.get("session"):
        raise MissingSessionError(str(session))
    here = "" if call.shared["everywhere"] else str(Path.cwd())
    if call.command == "search":
        return PassagePage((), f"No session has anything about “{call.values['text']}”.")
    return no_sessions(here)


async def show(desk: TerminalDesk, session: str, html: str = "") -> Result | int:
    """Write a session as `pattern-acp chat` shows it, as a page, or as JSON lines: the updates that a replay sends.

    Raises:
        UnknownSessionError: there is no such session.
        DatabaseError: nothing of it can be read.
    """
    meant = SessionId(await desk.id_of(session))
    row = await desk.database.read(lambda tx: store.get_session(tx, meant))
    if row is None:
        raise MissingSessionError(session)
    recorded = await _recorded(desk.database, meant)
    if html:
        from pattern_acp.session.transcript import conversation_html

        about = (("Session", meant), ("Folder", row.cwd), ("Model", row.model))
        page = conversation_html(recorded, title=row.title or "Untitled", about=about)
        return HtmlPage(page, f"session-{meant[:12]}.html")
    events = [item.event for item in recorded]
    if desk.json:
        from pattern_acp.acp.updates import replay_updates

        for update in replay_updates(events):
            write_json(msgspec.to_builtins(update))
    else:
        _print_transcript(row, events)
    return EXIT_OK


ENDS = {
    "closed": "No process has this session open any more.",
    "interrupted": "The process that had this session open ended in the middle of a turn.",
    "deleted": "The session was deleted.",
}
"""The last line of `sessions watch`, by the reason."""


async def watch(desk: TerminalDesk, session: str) -> int:
    """Write a session as `show` does, and continue until nobody has it open, or until interrupted.

    As JSON lines they are the updates, and at last `done` with its reason.

    Raises:
        MissingSessionError: there is no such session.
    """
    from pattern_acp.acp.updates import FollowedUpdates
    from pattern_acp.journal.leases import this_process
    from pattern_acp.session.watching import SessionWatch

    meant = SessionId(await desk.id_of(session))
    row = await desk.database.read(lambda tx: store.get_session(tx, meant))
    if row is None:
        raise MissingSessionError(session)
    watched = SessionWatch(desk.database, meant, this_process(desk.ids.new("run")), desk.clock)
    transcript, updates = None if desk.json else _transcript(row), FollowedUpdates()
    seen = await watched.begin()
    while True:
        for update in (update for event in seen.events for update in updates.updates_of(event)):
            if transcript is None:
                write_json(msgspec.to_builtins(update))
            else:
                transcript.show(update)
        if transcript is not None:
            transcript.settle()
        if seen.end:
            break
        seen = await watched.next()
    if transcript is None:
        write_json({"done": seen.end})
    else:
        write_line(ENDS[seen.end])
    return EXIT_OK


async def adopt(desk: TerminalDesk, session: str) -> Result:
    """Let a session continue with today's persona and instruction files, also when the recorded ones are damaged.

    Raises:
        MissingSessionError: there is no such session.
        LeaseHeldError: a window has it open; `/definitions adopt` does the same there.
    """
    meant, process = SessionId(await desk.id_of(session)), desk.process
    row = await desk.database.read(lambda tx: store.get_session(tx, meant))
    if row is None or process is None:
        raise MissingSessionError(session)
    from pattern_acp.bootstrap.constellation import PERSONAS
    from pattern_acp.context.instructions import known_personas
    from pattern_acp.definitions.identity import drop_damaged_sources, encoded, keep_source
    from pattern_acp.definitions.personas import is_typed
    from pattern_acp.journal import leases
    from pattern_acp.journal.writer import append

    now, configured = desk.clock.now_ms(), None
    if is_typed(row.persona, known_personas(process.loaded.paths.config / PERSONAS)):
        # Nothing can bring it back, so that the user's own persona answers from now on.
        configured = SessionConfigured("persona", process.loaded.settings.persona, "client")
        row = replace(row, persona=configured.value)
    compiled, persona = await anyio.to_thread.run_sync(_compiled_now, process, desk.database, row)

    def write(tx: "Transaction") -> None:
        leases.refuse_if_held(tx, meant, leases.this_process(desk.ids.new("run")), now)
        if configured is not None:
            changed = append(tx, meant, configured, actor=Actor.HUMAN, origin=Origin.EDITOR, at_ms=now)
            store.set_option(tx, meant, "persona", configured.value, seq=changed.seq, at_ms=now)
        appended = append(tx, meant, compiled, actor=Actor.HUMAN, origin=Origin.WORKSPACE, at_ms=now)
        # Its skills and commands are those of today, which are stored when it is opened.
        drop_damaged_sources(tx)
        keep_source(tx, persona.identity, persona.symbol, encoded(persona.sources), seq=appended.seq)

    await desk.database.write(write)
    return SessionChanged(meant, "adopt")


def _compiled_now(
    process: Process, database: "Database", row: store.SessionRow
) -> "tuple[InstructionsCompiled, Persona]":
    """Instructions without the facts of an editor, which only a session that it opens has."""
    from pattern_acp.bootstrap.constellation import digest_agreed_to, read_persona
    from pattern_acp.context.instructions import (
        NAMES,
        Environment,
        own_instructions,
        project_instructions,
        system_prompt,
    )
    from pattern_acp.session.opening import instruction_files
    from pattern_acp.workspace.git import git_facts

    git, persona = git_facts(row.cwd), read_persona(process, row.persona, partial(digest_agreed_to, database))
    found = (
        *project_instructions(row.cwd, git.root),
        *own_instructions(process.loaded.paths.config / NAMES[0]),
    )
    where = Environment(
        cwd=row.cwd,
        additional_directories=row.additional_directories,
        platform=f"{platform.system()} {platform.release()}",
        editor="",
        capabilities=(),
    )
    system, files = system_prompt(persona, where, found), instruction_files(found)
    return InstructionsCompiled(system, persona.identity, files, (), persona.symbol), persona


async def _recorded(database: "Database", session_id: SessionId) -> list[Recorded]:
    try:
        recorded = await database.read(lambda tx: read_history(tx, session_id))
    except DatabaseError as error:
        if not database.damage:
            raise
        write_failure(error.failure_code, f"pattern-acp: only a part can be read. {error.sentence}")
        recorded = await database.read(lambda tx: readable_history(tx, session_id))
    return active_events(recorded)


def _print_transcript(row: store.SessionRow, events: Iterable[Event]) -> None:
    from pattern_acp.acp.updates import replay_updates

    transcript = _transcript(row)
    for update in replay_updates(events):
        transcript.show(update)
    transcript.settle()


def _transcript(row: store.SessionRow) -> "Transcript":
    """A transcript below the heading of a session."""
    from rich.rule import Rule
    from rich.text import Text

    from pattern_acp.cli.chat.events import SessionInfo
    from pattern_acp.cli.chat.output import reading_stage
    from pattern_acp.cli.chat.transcript import Transcript

    stage = reading_stage()
    heading = f"{printable(row.title) or 'Untitled'} {stage.marks.dot} {printable(row.cwd)}"
    stage.screen.print(Rule(Text(" ".join(heading.split()), style="bold")))
    return Transcript(
        stage.screen, stage.answer, stage.marks, SessionInfo(row.cwd), lambda _: "", SystemClock().monotonic
    )
