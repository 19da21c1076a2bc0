"""Carrying out `pattern-acp memory`.

Owns: opening the constellation, what the verbs of memory work with in a terminal, the user's editor, and how a file
becomes blocks. Must not know: what the verbs do (`commands.memory_actions`), or how results look.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.bootstrap.constellation import TEMPLATES
from pattern_acp.bootstrap.constellation_choice import is_per_project
from pattern_acp.bootstrap.embedding import MODELS, open_embedder
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.command_runner import open_for_command
from pattern_acp.cli.output import agreed, write_error
from pattern_acp.commands.memory import VERBS
from pattern_acp.commands.memory_actions import Desk, UserEdit
from pattern_acp.commands.memory_results import Blocks, Imported, forgetting_question
from pattern_acp.commands.parameters import TypedCommand
from pattern_acp.db.connection import Database
from pattern_acp.domain.clock import RandomIds, SessionId, SystemClock
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.paths import resolve_path
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.block_files import TOML, EditableText, told_by_file
from pattern_acp.memory.blocks import DEFAULT_LIMIT, MOST_LIMIT, Isolation, project_key
from pattern_acp.memory.errors import DuplicateFoundError, LimitExceededError, UnusableEditError
from pattern_acp.memory.indexer import Indexer
from pattern_acp.memory.schemas.types import TextSchema
from pattern_acp.memory.search_terms import block_passages
from pattern_acp.memory.service.access import MemoryEdit, MemoryFilter, MemoryHit
from pattern_acp.memory.service.forget import ForgettingPreview, MemoryForgetting, Tell
from pattern_acp.memory.service.history import HistoryScope, MemoryHistory
from pattern_acp.memory.service.scope import IMPORT, PERSON, MemoryRules, MemoryScope
from pattern_acp.memory.service.search import SessionSearch
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.share import MemorySetup
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.write_validation import SecretRule, plain
from pattern_acp.session.memory_files import renew_files
from pattern_acp.session.redaction import KEPT_SOURCES
from pattern_acp.tasks.forget import FORGETTING
from pattern_acp.tools.registry import parameter_names
from pattern_acp.workspace.git import git_facts


class FileToImport(Struct, frozen=True):
    """The content of a file: its text, and the label, description and limit of its block where its head names them."""

    name: str
    text: str
    label: str
    description: str
    limit: int


def read_import(path: Path, label: str) -> FileToImport:
    """Read a file. Its block is `label`, else the one its head names, else one named like the file.

    Raises:
        EditingError: it cannot be read, or is no UTF-8.
        UnusableEditError: there is no text in it, or it holds fields and not text.
    """
    is_stdin = str(path) == "-"
    if is_stdin and not label:
        raise UnusableEditError("-", "say which block: memory import - LABEL.")
    head, text = told_by_file(read_edited(path, "\n"))
    wanted = label or head.get("label", "") or path.stem
    if path.suffix == TOML:
        problem = f"{path.name} holds fields; make the block, then: memory edit {wanted} --file {path.name}."
        raise UnusableEditError(wanted, problem)
    if not text.strip():
        raise UnusableEditError(wanted, f"there is no text in {path.name}.")
    limit = head.get("limit", "")
    name = "stdin" if is_stdin else path.name
    description = head.get("description", "") or f"What {name} says."
    return FileToImport(name, text.strip("\n"), wanted, description, int(limit) if limit.isdecimal() else 0)


async def import_into_memory(desk: Desk, file: str, label: str, reason: str) -> Imported:
    """Add to a block what it, and the rest of memory, does not say already; make the block if there is none.

    A block that needs more space than usual gets it as the user's setting; the text counts as an import.

    Raises:
        EditingError: the file cannot be read.
        BlockError: it cannot be stored, and why: a secret in it, the limit, a block that holds fields.
    """
    read = await anyio.to_thread.run_sync(read_import, Path(file), label)
    memory = desk.imports or desk.memory
    return await _import(memory, desk, read, reason or f"Imported from {read.name}.")


async def _import(memory: ConstellationMemory, desk: Desk, file: FileToImport, reason: str) -> Imported:
    view = next((view for view in await memory.blocks() if view.label == file.label), None)
    if view is not None and not isinstance(view.schema, TextSchema | None):
        problem = f"it holds fields, so edit it: memory edit {file.label} --file {file.name}."
        raise UnusableEditError(file.label, problem)
    create = MemoryEdit(file.label, "create", "", description=file.description, reason=reason)
    making = (create,) if view is None else ()
    before = "" if view is None else view.text
    text, known = await _news(memory, making, file, before)
    if not text:
        return Imported(file.label, is_new=False, before=before, after=before, known=known)
    if len(text) > MOST_LIMIT and view is None:
        raise LimitExceededError(file.label, current=0, limit=MOST_LIMIT, wanted=len(text))
    if view is None and max(file.limit, len(text)) > DEFAULT_LIMIT:
        # Looked at before there is a block, so that a refusal leaves none.
        with suppress(LimitExceededError):
            await memory.preview(replace(create, text=text))
        await memory.commit(create, None)
        await desk.setup.configure(file.label, "limit", str(min(max(file.limit, len(text)), MOST_LIMIT)))
        making = ()
    edit = MemoryEdit(file.label, "append", text, reason=reason)
    change = (await memory.commit_all((*making, edit), None))[-1]
    return Imported(file.label, view is None, change.before, change.after, known)


async def _news(
    memory: ConstellationMemory, making: tuple[MemoryEdit, ...], file: FileToImport, before: str
) -> tuple[str, int]:
    """Return the part of the file to add, and the number of its passages that memory already has."""

    async def is_known(text: str) -> bool:
        try:
            await memory.preview_all((*making, MemoryEdit(file.label, "append", text)))
        except DuplicateFoundError:
            return True
        except LimitExceededError:
            # Told when all of it is stored; repeats are looked for first.
            return False
        return False

    there = {plain(passage).casefold() for passage in block_passages(before)}
    passages = block_passages(file.text)
    new = [passage for passage in passages if plain(passage).casefold() not in there]
    # As it is written, with its empty lines, where nothing of it is known.
    text = file.text if len(new) == len(passages) else "\n".join(new)
    if new and await is_known(text):
        new = [passage for passage in new if not await is_known(passage)]
        text = "\n".join(new)
    return (text if new else ""), len(passages) - len(new)


_FALLBACKS = ("notepad",) if sys.platform == "win32" else ("vi", "nano")


class EditingError(PatternError):
    """The text could not be edited; nothing was changed."""

    failure_code = "memory.editing-stopped"


class EditedText(Struct, frozen=True):
    """A text that the user edited, and its file until that is discarded."""

    text: str
    path: Path

    def discard(self) -> None:
        """Delete the file with its folder."""
        shutil.rmtree(self.path.parent, ignore_errors=True)


def edit_text(editable: EditableText, label: str, environ: Mapping[str, str]) -> EditedText:
    """Open a text in the editor as a file of this user alone, and wait for the editor to end.

    Raises:
        EditingError: there is no editor, it failed, or the file is no text afterwards; the sentence names the file.
    """
    command = editor_command(environ)
    # mkdtemp makes a folder that no other user can look into.
    folder = Path(tempfile.mkdtemp(prefix="pattern-acp-memory-"))
    path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '-', label) or 'block'}{editable.suffix}"
    path.write_text(editable.text, encoding="utf-8", newline="")
    try:
        ended = subprocess.run([*command, str(path)], env=dict(environ), check=False)  # noqa: S603  # the user's own editor
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EditingError(
            f"The editor {command[0]} cannot be started ({error.strerror}); set VISUAL or EDITOR to another one."
        ) from error
    if ended.returncode != 0:
        raise EditingError(f"The editor ended with {ended.returncode}, so nothing was changed; your text is in {path}.")
    return EditedText(read_edited(path, editable.text), path)


def read_edited(path: Path, original: str) -> str:
    """The text of a file that was edited, `-` for stdin; the line end that editors put at the end is left out.

    Raises:
        EditingError: the file is gone, or no UTF-8 text.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise EditingError(f"The file {path} cannot be read ({error.strerror}); nothing was changed.") from error
    except UnicodeDecodeError as error:
        raise EditingError(f"The file {path} is no UTF-8 text, so nothing was changed; it was left there.") from error
    # Line ends of a pipe come as they were written.
    text = text.replace("\r\n", "\n")
    return text if original.endswith("\n") else text.removesuffix("\n")


def editor_command(environ: Mapping[str, str]) -> list[str]:
    """The user's editor: VISUAL, EDITOR, else the first usual one that is there.

    Raises:
        EditingError: there is none, or only a usual one and no terminal to show it in.
    """
    for name in ("VISUAL", "EDITOR"):
        if chosen := environ.get(name, "").strip():
            return shlex.split(chosen, posix=sys.platform != "win32")
    if sys.platform != "win32" and not (sys.stdin.isatty() and sys.stdout.isatty()):
        # What nobody chose would wait for keys that nobody can press.
        raise EditingError("There is no terminal to edit in; set VISUAL or EDITOR, or give the new text with --file.")
    for name in _FALLBACKS:
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    raise EditingError("No editor was found; set VISUAL or EDITOR, or give the new text with --file.")


LOG_LENGTH = 50
"""Writes that history shows at a time; BEFORE shows older ones."""


@asynccontextmanager
async def open_memory(call: TypedCommand, process: Process) -> AsyncGenerator[Desk, None]:
    """Open the services of the verbs; memory's files are updated after each change.

    Raises:
        PatternError: the constellation cannot be used.
    """
    verb = VERBS[call.command]
    async with open_for_command(process) as database:
        desk = await anyio.to_thread.run_sync(_open_desk, call, process, database)
        if verb.begins:
            # The default blocks are made when memory is first looked at.
            await desk.memory.blocks()
        yield desk
        if process.loaded.settings.memory.files and not verb.reads:
            await _renew_files(desk, database)


def without_constellation(call: TypedCommand) -> Blocks:
    """Return the answer while nothing is recorded. Raises PatternError where a block was named."""
    if call.command == "list":
        return Blocks()
    label = call.values.get("label") or call.values.get("entry")
    sentence = f"There is no memory block named {label!r}, since nothing is remembered yet."
    raise PatternError(sentence, failure_code="memory.block-missing")


async def _renew_files(desk: Desk, database: Database) -> None:
    """Bring memory that is stored as files up to date; what is in the way never undoes what was done."""
    try:
        told = await renew_files(database, desk.cwd, desk.memory, now_ms=desk.now_ms)
    except PatternError as error:
        told = (error.sentence,)
    for sentence in told:
        write_error(sentence)


def _open_desk(arguments: TypedCommand, process: Process, database: Database) -> Desk:
    """The persona's memory and that of the project around the current directory. Reads files."""
    cwd = resolve_path(str(Path(str(arguments.shared["cwd"]) or ".").absolute()))
    owner = MemoryScope(
        process.loaded.settings.persona,
        project_key(git_facts(cwd).common_dir, cwd),
        SessionId(CONSTELLATION_STREAM),
    )
    clock, ids = SystemClock(), RandomIds()
    # The project's own file may narrow it.
    settings = process.load_project(cwd).settings.memory
    secrets = SecretRule(settings.secrets)
    scope = HistoryScope(owner.owners, CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, ids.peer(), secrets)
    templates = process.loaded.paths.config / TEMPLATES
    rules = MemoryRules(secrets=secrets, templates=templates)
    memory, imports = (
        ConstellationMemory(database, owner, clock=clock, ids=ids, peer=scope.peer, writer=writer, rules=rules)
        for writer in (PERSON, IMPORT)
    )

    async def find(query: str, limit: int, narrowing: MemoryFilter) -> Sequence[MemoryHit]:
        # Isolation hides nothing from the user.
        async with _searching(process, database, owner) as searching:
            return (await searching.search(query, limit, narrowing))[:limit]

    async def edited(label: str, editable: EditableText, file: str) -> UserEdit:
        if file:
            # A file of the user's own may be of either form.
            return UserEdit(read_edited(Path(file), editable.text), file, "", lambda: None)
        made = await anyio.to_thread.run_sync(edit_text, editable, label, process.environ)
        return UserEdit(made.text, str(made.path), editable.suffix, made.discard)

    return Desk(
        MemoryHistory(database, scope.owners),
        MemoryReverts(database, scope, clock=clock),
        MemoryForgetting(
            database,
            scope,
            clock=clock,
            parameters=parameter_names,
            tasks=FORGETTING,
            sources=KEPT_SOURCES,
            telling=_telling(process),
        ),
        MemorySetup(database, owner, clock=clock),
        memory,
        cwd,
        templates,
        Isolation(settings.isolation),
        find,
        _confirm,
        LOG_LENGTH,
        edited,
        imports,
        read_passage=sys.stdin.read,
    )


def _telling(process: Process) -> Callable[[], Awaitable[Tell]] | None:
    if not process.loaded.settings.sync.url and not is_per_project(process.loaded):
        return None
    # Late: most verbs forget nothing.
    from pattern_acp.bootstrap.replicas import telling_of

    return telling_of(process)


@asynccontextmanager
async def _searching(process: Process, database: Database, owner: MemoryScope) -> AsyncGenerator[SessionSearch, None]:
    clock = SystemClock()
    async with open_embedder(process.loaded.settings, clock, process.loaded.paths.cache / MODELS) as chosen:
        indexer = Indexer(database, chosen.embedder, clock)
        yield SessionSearch(database, owner.owners, owner.session_id, clock=clock, indexer=indexer)


async def _confirm(taken: ForgettingPreview) -> bool:
    question = f"{forgetting_question(taken).replace('`', '')} Forget?"
    unasked = "Forgetting cannot be taken back; say --yes when nobody can be asked."
    return await anyio.to_thread.run_sync(agreed, question, unasked, sys.stderr)
