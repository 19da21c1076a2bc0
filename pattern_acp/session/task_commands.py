"""/tasks, /task and /board: tasks that outlive a session and the sessions that work on them; and tasks as files.

Owns: what the user typed, whose tasks a session sees, when the plan panel is shown a task; which tasks have files
(`.pattern/tasks/N.md`, when the user has asked for that), when these are written and when edits in them are taken in.
Must not know: how tasks and claims are stored, their words, the form of a file, or how an edit is merged
(`tasks/task_files.py`). As with memory's files, nothing watches the folder, and a file is a projection: one of an open
task that is deleted is made again; one of a task that is over stays away then.

A row says what was written. It is noted before the file, with the hash that the file is going to have, and again behind
it: wherever the process is killed, a file is never taken for one that the user edited.
"""

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.commands.board import Board
from pattern_acp.commands.document import Result, as_result
from pattern_acp.commands.parameters import CommandMisusedError, first_word
from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.access import Actor, Origin
from pattern_acp.domain.canonical import sha256_hex
from pattern_acp.domain.clock import TurnId
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.text_limits import one_line, plural
from pattern_acp.journal.events import Event, PlanUpdated
from pattern_acp.memory.block_files import MOST_BYTES
from pattern_acp.memory.blocks import Scope
from pattern_acp.session.memory_context import memory_owner
from pattern_acp.session.memory_files import leads_elsewhere, report_once
from pattern_acp.tasks import claims, store
from pattern_acp.tasks.claims import read_board
from pattern_acp.tasks.model import Task, TaskRow, task_line
from pattern_acp.tasks.service import TaskDesk, Tasks
from pattern_acp.tasks.store import TaskFile
from pattern_acp.tasks.task_files import TaskFileError, TaskText, read_task_file, text_of_task, write_task_file
from pattern_acp.turn.recorder import NewEvent
from pattern_acp.workspace.files import fingerprint

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.session import Session
    from pattern_acp.session.state import SessionState


TASKS_USAGE = (
    "`/tasks` lists what is open, `/tasks all` everything, `/tasks WORDS` what has the words; `/tasks add TITLE` adds "
    "a task, `/tasks keep TITLE` makes the plan of this session one."
)

TASK_USAGE = (
    "`/task N` shows a task, `/task N graph` what it hangs together with; `start`, `done`, `drop`, `block` and `todo` "
    "change its state, `comment TEXT` adds a comment."
)

MOST_LISTED = 100
"""Tasks of a list in a session."""


def tasks_of_agent(dialogue: "Dialogue", turn_id: TurnId) -> Tasks:
    """Tasks as the agent sees and changes them in a turn."""
    tasks = _tasks(dialogue, dialogue.state.persona.name, Actor.PERSONA, Origin.MODEL)
    tasks.turn_id = turn_id
    tasks.read = dialogue.state.policy.read_before
    return tasks


async def run_tasks(session: "Session", argument: str) -> Result:
    """List tasks, add one, or make the session's plan one."""
    # Late: most sessions ask for no task.
    from pattern_acp.commands import task_actions

    verb, rest = first_word(argument)
    desk = task_actions.TaskVerbs(tasks_of_user(session.dialogue), MOST_LISTED)
    match verb:
        case "add":
            if not rest.strip():
                raise CommandMisusedError(f"Write the title behind it. {TASKS_USAGE}")
            added = await task_actions.add(desk, rest)
            session.state.has_tasks = True
            return added
        case "keep":
            return as_result(await _keep(session.dialogue, rest.strip() or session.state.title))
        case "" | "all":
            listed = await task_actions.list_tasks(desk, everything=verb == "all")
            return listed if verb else as_result(*listed.document, TASKS_USAGE, facts=listed.value)
        case _:
            return await task_actions.list_tasks(desk, argument, everything=True)


async def run_task(session: "Session", argument: str) -> Result:
    """Show one task, or change it."""
    from pattern_acp.commands import task_actions

    ref, rest = first_word(argument)
    verb, words = first_word(rest)
    if not ref:
        raise CommandMisusedError(f"Name a task by its number. {TASK_USAGE}")
    tasks = tasks_of_user(session.dialogue)
    desk = task_actions.TaskVerbs(tasks)
    match verb:
        case "":
            return await task_actions.show(desk, ref)
        case "graph":
            return await task_actions.graph(desk, ref)
        case "comment":
            return await task_actions.comment(desk, ref, words)
        case "start" | "done" | "drop" | "block" | "todo":
            own = await tasks.is_own(await tasks.get(ref))
            change = {
                "start": task_actions.start,
                "done": task_actions.done,
                "drop": task_actions.drop,
                "block": task_actions.block,
                "todo": task_actions.todo,
            }[verb]
            changed = await change(desk, ref)
            session.state.has_tasks = True
            if own or await tasks.is_own(changed.task):
                await _record_plan(session.dialogue, changed.task)
            return changed
        case _:
            raise CommandMisusedError(TASK_USAGE)


async def show_task(dialogue: "Dialogue", replayed: Sequence[Event] = ()) -> None:
    """Show the steps of the session's task to the editor, unless the replayed events end with them.

    Another window may have changed them since; so this is not recorded, only shown.
    """
    dialogue.state.has_tasks = True
    task = await tasks_of_user(dialogue).active()
    last = next((event.plan for event in reversed(replayed) if isinstance(event, PlanUpdated)), None)
    if task is not None and task.plan != last:
        await dialogue.view.show(PlanUpdated(TurnId(""), task.plan))


async def _keep(dialogue: "Dialogue", title: str) -> str:
    # Late: only this asks for the plan of before.
    from pattern_acp.journal.reader import read_stream

    database = dialogue.shared.database
    recorded = await database.read(lambda tx: read_stream(tx, dialogue.session_id, kinds=(PlanUpdated,)))
    plan = next((entry.event.plan for entry in reversed(recorded) if isinstance(entry.event, PlanUpdated)), None)
    if plan is None or not plan.entries:
        raise CommandMisusedError(f"This session has no plan yet. {TASKS_USAGE}")
    task = await tasks_of_user(dialogue).show_plan(plan, title or plan.entries[0].content)
    dialogue.state.has_tasks = True
    if task is None:
        raise CommandMisusedError(TASKS_USAGE)
    line = one_line(task_line(TaskRow(task)))
    return f"Stored `{line}`. From now on the plan of this session is its steps."


async def _record_plan(dialogue: "Dialogue", task: Task) -> None:
    turn_id = dialogue.memory.persona.turn_id
    await dialogue.recorder.record(NewEvent(PlanUpdated(turn_id or TurnId(""), task.plan), Actor.HUMAN, Origin.PERSON))


def tasks_of_user(dialogue: "Dialogue") -> Tasks:
    """Tasks as the user of a session sees and changes them."""
    return _tasks(dialogue, "user", Actor.HUMAN, Origin.PERSON)


def _tasks(dialogue: "Dialogue", author: str, actor: Actor, origin: Origin) -> Tasks:
    shared = dialogue.shared
    desk = TaskDesk(
        memory_owner(dialogue.state).lasting.owners,
        dialogue.session_id,
        dialogue.session_id,
        author,
        actor,
        origin,
        shared.holder,
    )
    tasks = Tasks(shared.database, desk, clock=shared.clock, ids=shared.ids, peer=shared.peer)
    tasks.turn_id = dialogue.memory.persona.turn_id
    return tasks


logger = logging.getLogger(__name__)

FOLDER = (".pattern", "tasks")

MOST_FILES = 1_000
"""Most tasks with files: all of these are read at each turn."""


class _Kept(Struct, frozen=True):
    """A task that has a file, or is going to."""

    task: Task
    text: TaskText
    file: TaskFile | None
    """The file as it was written; None for one that never was."""
    there: bytes | None
    """The file as it is; None for none."""

    @property
    def name(self) -> str:
        """The file's name: the number alone, so that it stays when the title changes."""
        return f"{self.task.number}.md"

    @property
    def content(self) -> bytes:
        """The file as it should be."""
        return write_task_file(self.task.number, self.text).encode("utf-8", "replace")

    @property
    def is_edited(self) -> bool:
        """True if somebody else wrote what is there."""
        if self.there is None or self.there == self.content:
            return False
        return self.file is None or sha256_hex(self.there) not in {self.file.file_hash, self.file.next_hash}


async def exchange_task_files(dialogue: "Dialogue") -> None:
    """Take in what was edited in the files, then bring them up to date. Nothing here ever stops a turn.

    Files that cannot be used are left alone and named to the user, once for each state they are in.
    """
    state, database = dialogue.state, dialogue.shared.database
    root = state.policy.roots[0]
    folder = Path(root).joinpath(*FOLDER)
    try:
        if await anyio.to_thread.run_sync(leads_elsewhere, folder, root):
            report_once(state, str(folder), "The folder .pattern/tasks leads out of the project, so it is not used.")
            return
        kept = await _read(database, folder, state.project_key)
        if await _take_in(dialogue, folder, kept):
            kept = await _read(database, folder, state.project_key)
        for name in await _write(database, folder, kept):
            report_once(
                state, f"task {name}", f"{name} in .pattern/tasks is not a file of this task list; move it away."
            )
    except PatternError as error:
        logger.warning("tasks were not written as files: %s", type(error).__name__)
    except OSError as error:
        report_once(state, str(folder), _unusable(folder, error))


async def renew_task_files(database: Database, root: str, project: str) -> tuple[str, ...]:
    """Bring the files of the project at `root` up to date after a change outside any session; what is to be reported.

    Only a session begins to keep files: where none did, nothing is written. Edits wait for a session.

    Raises:
        DatabaseError: the constellation cannot be read or written.
    """
    folder = Path(root).joinpath(*FOLDER)
    if not await database.read(lambda tx: store.has_task_files(tx, str(folder))):
        return ()
    try:
        if not await anyio.to_thread.run_sync(leads_elsewhere, folder, root):
            await _write(database, folder, await _read(database, folder, project))
    except OSError as error:
        return (_unusable(folder, error),)
    return ()


async def _read(database: Database, folder: Path, project: str) -> list[_Kept]:
    owners = ((Scope.PROJECT, project),)

    def read(tx: Transaction) -> list[tuple[Task, TaskText, TaskFile | None]]:
        found = store.tasks_in_files(tx, str(folder), *owners[0], most=MOST_FILES)
        names = store.numbers_of(tx, owners, [link.target for task, _ in found for link in task.links])
        return [(task, text_of_task(task, names), file) for task, file in found]

    found = await database.read(read)
    names = [f"{task.number}.md" for task, _, _ in found]
    contents = await anyio.to_thread.run_sync(_contents, folder, names)
    return [_Kept(*one, contents[name]) for one, name in zip(found, names, strict=True)]


async def _take_in(dialogue: "Dialogue", folder: Path, kept: Sequence[_Kept]) -> bool:
    """Merge edited files; says whether there was one."""
    took = False
    for one in kept:
        if not one.is_edited or one.file is None or one.there is None:
            continue
        number, file = one.task.number, one.file
        try:
            if len(one.there) > MOST_BYTES:
                raise TaskFileError(one.name, 1, f"it is longer than {MOST_BYTES} bytes; shorten it.")
            content = one.there.decode("utf-8", "replace")
            base = read_task_file(one.name, file.base, number)
            edited = read_task_file(one.name, content, number)
            noted = replace(file, base=write_task_file(number, edited), file_hash=sha256_hex(one.there), next_hash="")

            def note(tx: Transaction, task_id: str = one.task.id, noted: TaskFile = noted) -> None:
                store.note_task_file(tx, str(folder), task_id, noted)

            # What the agent wrote into the file, which the user allowed, is the agent's and not the user's.
            seen = dialogue.state.fingerprints.get(str(folder / one.name))
            by_agent = seen is not None and seen == fingerprint(content)
            turn_id = dialogue.memory.persona.turn_id
            tasks = tasks_of_agent(dialogue, turn_id) if by_agent and turn_id is not None else tasks_of_user(dialogue)
            await tasks.edit(one.task.id, base, edited, note=note)
            dialogue.state.has_tasks = took = True
        except PatternError as error:
            report_once(dialogue.state, f"task {one.name} {sha256_hex(one.there)}", error.sentence)
    return took


async def _write(database: Database, folder: Path, kept: Sequence[_Kept]) -> list[str]:
    """Write what changed; the names of files that are in the way. Those that were edited wait for the next turn."""
    away = [one for one in kept if one.there is None and one.file is not None and not one.task.status.is_open]
    in_the_way = [one.name for one in kept if one.is_edited and one.file is None]
    due = [one for one in kept if one not in away and not one.is_edited and _is_due(one)]
    if not (due or away):
        return in_the_way

    def announce(tx: Transaction) -> None:
        for one in away:
            store.drop_task_file(tx, str(folder), one.task.id)
        for one in due:
            base = one.content.decode("utf-8")
            known = one.file or TaskFile(base, "")
            store.note_task_file(tx, str(folder), one.task.id, replace(known, next_hash=sha256_hex(one.content)))

    def note(tx: Transaction) -> None:
        for one in due:
            written = TaskFile(one.content.decode("utf-8"), sha256_hex(one.content))
            store.note_task_file(tx, str(folder), one.task.id, written)

    await database.write(announce)
    changed = [(one.name, one.content) for one in due if one.there != one.content]
    if changed:
        await anyio.to_thread.run_sync(_write_all, folder, changed)
    if due:
        await database.write(note)
    return in_the_way


def _is_due(one: _Kept) -> bool:
    """True if the file, or what is noted of it, is not as it should be."""
    return one.there != one.content or one.file != TaskFile(one.content.decode("utf-8"), sha256_hex(one.content))


def _contents(folder: Path, names: Sequence[str]) -> dict[str, bytes | None]:
    contents: dict[str, bytes | None] = {}
    for name in names:
        path = folder / name
        contents[name] = None
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                contents[name] = file.read(MOST_BYTES + 1)
    return contents


def _write_all(folder: Path, changed: Sequence[tuple[str, bytes]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in changed:
        part = folder / f".{name}.{os.getpid()}.part"
        part.write_bytes(content)
        part.replace(folder / name)


def _unusable(folder: Path, error: OSError) -> str:
    return f"Tasks could not be written as files ({error.strerror}); fix {folder}."


BOARD_USAGE = (
    "`/board` shows the open sessions; `/board claim PATH` claims a file, a folder (`src/`) or a pattern (`*.sql`) for "
    "this one, `/board take PATH` takes a claim over or asks the session that has it, `/board release [PATH]` gives "
    "this session's claims back."
)


async def run_board(session: "Session", argument: str) -> Result:
    """Show the open sessions with their tasks and claims; claim a path, take one over, or give claims back."""
    shared = session.constellation
    verb, words = first_word(argument)
    match verb, words.strip():
        case "", "":
            now_ms = shared.clock.now_ms()
            budget = session.state.settings.budget.session
            rows = await shared.database.read(lambda tx: read_board(tx, now_ms=now_ms, budget=budget))
            return Board(rows, now_ms)
        case "release", path:
            return as_result(await _release(shared, session.state, path))
        case "claim" | "take", path if path:
            target = await _target(session.state.cwd, path)
            return as_result(await (_claim if verb == "claim" else _take)(shared, session.state, target))
        case _:
            raise CommandMisusedError(BOARD_USAGE)


async def _target(cwd: str, path: str) -> claims.ClaimTarget:
    return await anyio.to_thread.run_sync(claims.target_of, path, cwd)


async def _release(shared: "Constellation", state: "SessionState", path: str) -> str:
    session_id, known = state.session_id, state.claims
    target = await _target(state.cwd, path) if path else None
    named, now_ms = target.path if target is not None else "", shared.clock.now_ms()
    count = await shared.database.write(lambda tx: claims.release_claims(tx, session_id, named, now_ms=now_ms))
    if target is None:
        known.clear()
    else:
        known.pop(target.path, None)
    return f"Gave back {plural(count, 'claim')}."


async def _claim(shared: "Constellation", state: "SessionState", target: claims.ClaimTarget) -> str:
    session_id, now_ms = state.session_id, shared.clock.now_ms()
    met = await shared.database.read(lambda tx: claims.overlapping(tx, session_id, [target], now_ms=now_ms))
    await shared.database.write(lambda tx: claims.take_claims(tx, session_id, [target], now_ms=now_ms))
    state.claims[target.path] = now_ms
    said = f"Claimed the {target.kind} `{target.shown}` for this session, for 15 minutes behind its last turn."
    others = "; ".join(f"{one.who} `{one.target.shown}`" for one in met)
    return f"{said} Another session has a claim there already: {others}." if met else said


async def _take(shared: "Constellation", state: "SessionState", target: claims.ClaimTarget) -> str:
    session_id, now_ms = state.session_id, shared.clock.now_ms()
    ended, asked = await shared.database.write(lambda tx: claims.take_over(tx, session_id, target, now_ms=now_ms))
    lines = [f"Took `{one.target.shown}` over from {one.who}, whose claim is {one.state}." for one in ended]
    lines += [
        f"Asked {one.who} for `{one.target.shown}`. Its user sees a notice with the next prompt there, and "
        "`/board release` there gives it to you; until then its work is left alone."
        for one in asked
    ]
    if not asked:
        state.claims[target.path] = now_ms
        lines += [] if ended else [f"Nobody else claims `{target.shown}`; it is claimed for this session now."]
    return "\n\n".join(lines)
