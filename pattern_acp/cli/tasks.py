"""`pattern-acp tasks`: what its verbs work with in a terminal, the user's editor, and files to import and export."""

import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import anyio.to_thread
from msgspec import field

from pattern_acp.bootstrap.constellation import read_persona
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.cli.memory import edit_text, read_edited
from pattern_acp.cli.output import write_error
from pattern_acp.commands.document import Fence, Part, Result, as_result
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.commands.task_actions import MOST_LISTED, TaskChanged, TaskList, TasksTaken, TaskVerbs
from pattern_acp.commands.tasks import TASK_VERBS
from pattern_acp.db.connection import Database, open_for_reading
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.domain.text_limits import plural
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.block_files import MARKDOWN, EditableText
from pattern_acp.memory.blocks import Scope, project_key
from pattern_acp.memory.service.scope import MemoryScope
from pattern_acp.tasks.interchange import TaskFormat, read_tasks, write_tasks
from pattern_acp.tasks.model import OPEN, GraphQuery, TaskFilter, TaskNotFoundError
from pattern_acp.tasks.service import TaskDesk, Tasks
from pattern_acp.tasks.task_files import TaskFileError, read_task_file, text_of_task, write_task_file
from pattern_acp.workspace.git import git_facts

LARGEST_IMPORT = 16 * 1024 * 1024
"""Bytes of a file that is imported."""


class TerminalTasks(TaskVerbs, frozen=True):
    """The services of the verbs that only a terminal has."""

    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str = ""
    project: str = ""


class ExportedTasks(Result, frozen=True):
    """Tasks in the form of another program, for stdout."""

    tasks: str

    @property
    def document(self) -> tuple[Part, ...]:
        """The text as it is."""
        return (Fence(self.tasks),)


@asynccontextmanager
async def open_tasks(call: TypedCommand, process: Process) -> AsyncGenerator[TerminalTasks, None]:
    """Open the services of the verbs, for the project around the current directory.

    Raises:
        PatternError: the constellation cannot be used.
    """
    reads = call.command in {verb.name for verb in TASK_VERBS if verb.reads}
    clock = SystemClock()
    opened = open_for_reading(process.constellation_path, clock=clock) if reads else open_for_command(process)
    async with opened as database:
        desk = await anyio.to_thread.run_sync(_desk, call, process, database, clock)
        yield desk
        if process.loaded.settings.tasks.files and not reads:
            # Late: most users keep no files.
            from pattern_acp.session.task_commands import renew_task_files

            for sentence in await renew_task_files(database, desk.cwd, desk.project):
                write_error(sentence)


def without_constellation(call: TypedCommand) -> Result:
    """Return the answer while nothing is recorded. Raises TaskNotFoundError where a task was named."""
    if task := call.values.get("task"):
        raise TaskNotFoundError(str(task))
    return as_result("There are no tasks to export yet.") if call.command == "export" else TaskList()


async def edit(desk: TerminalTasks, task: str, file: str = "") -> Result:
    """Open a task in the user's editor, or take it from a file, and merge what was edited.

    Raises:
        PatternError: it cannot be edited, or the text cannot be read; the sentence says where the text is.
    """
    graph = await desk.tasks.graph(GraphQuery(task, "forward", depth=1))
    before = graph.nodes[0]
    base = text_of_task(before, {one.id: str(one.number) for one in graph.nodes})
    written = EditableText(write_task_file(before.number, base), MARKDOWN)
    name = f"task-{before.number}"
    if file:
        edited = await anyio.to_thread.run_sync(read_edited, Path(file), written.text)
        text = read_task_file("stdin" if file == "-" else file, edited, before.number)
        after = await desk.tasks.edit(before.id, base, text)
    else:
        made = await anyio.to_thread.run_sync(edit_text, written, name, desk.environ)
        try:
            text = read_task_file(str(made.path), made.text, before.number)
            after = await desk.tasks.edit(before.id, base, text)
        except PatternError as error:
            if isinstance(error, TaskFileError):
                raise
            sentence = f"{error.sentence} Your text is in {made.path}."
            raise PatternError(sentence, failure_code=error.failure_code) from error
        made.discard()
    if after == before:
        return as_result(f"Nothing of the task {before.ref} was changed.")
    return TaskChanged(after, "Edited")


async def import_tasks(desk: TerminalTasks, file: str, scope: str = "") -> TasksTaken:
    """Make tasks of the entries of a file; entries that were imported before are found again.

    Raises:
        TaskImportError: it is of no form that is known.
        PatternError: it cannot be read.
    """
    name, text = await anyio.to_thread.run_sync(_read, file, desk.cwd)
    drafts = await anyio.to_thread.run_sync(read_tasks, name, text)
    return TasksTaken(await desk.tasks.import_drafts(drafts, scope=Scope(scope or "project")))


async def export_tasks(
    desk: TerminalTasks, file: str = "", form: str = "", *, everything: bool = False, replace: bool = False
) -> Result:
    """Write tasks into a file, or to stdout.

    Raises:
        PatternError: the file is there already, or cannot be written.
    """
    rows = await desk.tasks.list(TaskFilter(None if everything else OPEN, limit=100 * MOST_LISTED))
    tasks = sorted((row.task for row in rows), key=lambda task: task.number)
    text = await anyio.to_thread.run_sync(write_tasks, tasks, cast("TaskFormat", form or _form_of(file)))
    if file in {"", "-"}:
        return ExportedTasks(text.rstrip("\n"))
    await anyio.to_thread.run_sync(_write, Path(file), text, replace)
    return as_result(f"Wrote {plural(len(tasks), 'task')} into {file}.")


def _form_of(file: str) -> TaskFormat:
    name = Path(file).name.casefold()
    return "github" if name.endswith(".json") else "todo" if name == "todo.md" else "checklist"


def _read(file: str, cwd: str) -> tuple[str, str]:
    """The name by which entries of a file are known, and its text."""
    if file == "-":
        return "stdin", sys.stdin.read()
    path = Path(file)
    try:
        with path.open("rb") as opened:
            content = opened.read(LARGEST_IMPORT + 1)
    except OSError as error:
        raise PatternError(
            f"{file} cannot be read ({error.strerror}); name a file to import.", failure_code="cli.file-unusable"
        ) from error
    if len(content) > LARGEST_IMPORT:
        sentence = f"{file} is longer than 16 MB; import it in parts."
        raise PatternError(sentence, failure_code="cli.file-unusable")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        sentence = f"{file} is no UTF-8 text; save it as UTF-8 and import it again."
        raise PatternError(sentence, failure_code="cli.file-unusable") from error
    whole = Path(resolve_path(str(path.absolute())))
    return (whole.relative_to(cwd).as_posix() if whole.is_relative_to(cwd) else path.name), text


def _write(path: Path, text: str, replaces: bool) -> None:  # noqa: FBT001  called in a thread
    try:
        if replaces:
            part = path.with_name(f".{path.name}.part")
            part.write_text(text, encoding="utf-8", newline="")
            part.replace(path)
        else:
            with path.open("x", encoding="utf-8", newline="") as opened:
                opened.write(text)
    except FileExistsError as error:
        sentence = f"{path} is there already; say --replace to write over it."
        raise PatternError(sentence, failure_code="cli.file-unusable") from error
    except OSError as error:
        sentence = f"{path} cannot be written ({error.strerror}); name a file in a folder of yours."
        raise PatternError(sentence, failure_code="cli.file-unusable") from error


def _desk(call: TypedCommand, process: Process, database: Database, clock: SystemClock) -> TerminalTasks:
    """The tasks of the persona and of the project around a directory. Reads files."""
    cwd = resolve_path(str(Path(str(call.shared["cwd"]) or ".").absolute()))
    persona = read_persona(process, process.loaded.settings.persona).name
    ids, key = RandomIds(), project_key(git_facts(cwd).common_dir, cwd)
    owners = MemoryScope(persona, key, SessionId(CONSTELLATION_STREAM)).owners
    tasks = Tasks(database, TaskDesk(owners, CONSTELLATION_STREAM), clock=clock, ids=ids, peer=ids.peer())
    return TerminalTasks(tasks, environ=process.environ, cwd=cwd, project=key)
