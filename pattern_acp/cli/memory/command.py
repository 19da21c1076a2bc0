"""Carrying out `pattern-acp memory`.

Owns: opening the constellation and what each verb does. Must not know: how results look (`pages.py`, `values.py`).
"""

import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from msgspec import Struct

from pattern_acp.bootstrap.constellation import TEMPLATES, read_persona
from pattern_acp.bootstrap.process import Process
from pattern_acp.cli.arguments import EXIT_CANCELLED, EXIT_ERROR, EXIT_OK
from pattern_acp.cli.memory import pages, values
from pattern_acp.cli.memory.editing import EditedText, edit_text, read_edited
from pattern_acp.cli.memory.importing import import_file, read_import
from pattern_acp.cli.memory.lines import Part, line
from pattern_acp.cli.memory.paging import show_lines
from pattern_acp.cli.memory.searching import search_memory
from pattern_acp.cli.memory_arguments import Memory
from pattern_acp.cli.opening import constellation_path, open_for_command, refuse_if_lost
from pattern_acp.cli.output import OutputClosed, write_error, write_failure, write_json
from pattern_acp.db.connection import Database
from pattern_acp.domain.canonical import Json
from pattern_acp.domain.clock import SystemClock
from pattern_acp.domain.errors import BlockError, PatternError
from pattern_acp.domain.ids import RandomIds, SessionId
from pattern_acp.journal.writer import CONSTELLATION_STREAM
from pattern_acp.memory.block_files import editable_text, text_of_edited
from pattern_acp.memory.bound import BoundKind
from pattern_acp.memory.guards import SecretRule
from pattern_acp.memory.permissions import Isolation, isolation_sentence
from pattern_acp.memory.project import project_key
from pattern_acp.memory.undo import plan_merge, plan_redo, plan_rollback, plan_undo
from pattern_acp.session.memory_files import renew_files
from pattern_acp.session.memory_markdown import forgetting_question, verified_table
from pattern_acp.session.memory_setup import SetupPlace, create_block, set_up_block, share_block, unshare_block
from pattern_acp.session.memory_traps import note_as, noted_about, set_status_to, traps_table
from pattern_acp.tools.base import MemoryHit
from pattern_acp.tools.memory_access import PERSON, ConstellationMemory, MemoryOwner, MemoryRules
from pattern_acp.tools.memory_forgetting import MemoryForgetting
from pattern_acp.tools.memory_history import HistoryScope, MemoryHistory
from pattern_acp.tools.memory_reverts import HistoryChange, MemoryReverts
from pattern_acp.tools.memory_scope import IMPORT
from pattern_acp.tools.memory_sharing import MemorySetup
from pattern_acp.workspace.git import git_facts
from pattern_acp.workspace.paths import resolve_path

LOG_LENGTH = 50
"""Writes that history shows at a time; BEFORE shows older ones."""


class Answer(Struct, frozen=True):
    """What a verb gives: lines for a person, a value for a program, and the exit code."""

    lines: Sequence[Part]
    value: Json
    code: int = EXIT_OK


class Desk(Struct, frozen=True):
    """What every verb works with."""

    arguments: Memory
    process: Process
    history: MemoryHistory
    reverts: MemoryReverts
    forgetting: MemoryForgetting
    memory: ConstellationMemory
    importing: ConstellationMemory
    """The same memory, whose writes count as an import."""
    search: Callable[[], Awaitable[tuple[MemoryHit, ...]]]
    place: SetupPlace


def run_memory(arguments: Memory, process: Process) -> int:
    """Carry out the verb and print what it gives; 1 when it could not be done.

    Raises:
        PatternError: it could not be done, and why.
    """
    path = constellation_path(process)
    try:
        if arguments.verb not in _BEGINNING:
            refuse_if_lost(path)
            if not path.exists():
                return _without_constellation(arguments, process)
        answer = anyio.run(_answer, arguments, process)
        _print(answer, arguments, process)
    except OutputClosed:
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_CANCELLED
    return answer.code


def _print(answer: Answer, arguments: Memory, process: Process) -> None:
    if arguments.json:
        write_json(answer.value)
    else:
        show_lines(answer.lines, process.environ, pager=arguments.pager)


def _without_constellation(arguments: Memory, process: Process) -> int:
    if arguments.verb == "list":
        _print(Answer(pages.list_page((), ()), values.list_value((), ())), arguments, process)
        return EXIT_OK
    write_failure(
        "memory.block-missing", f"There is no memory block named {arguments.label!r}, since nothing is remembered yet."
    )
    return EXIT_ERROR


async def _answer(arguments: Memory, process: Process) -> Answer:
    async with open_for_command(process) as database:
        desk = await anyio.to_thread.run_sync(open_desk, arguments, process, database)
        answer = await _VERBS[arguments.verb](desk)
        if process.loaded.settings.memory.files and arguments.verb not in _LOOKING:
            await _renew_files(desk, database)
        return answer


async def _renew_files(desk: Desk, database: Database) -> None:
    """Bring memory that is kept as files up to date; what is in the way never undoes what was done."""
    try:
        told = await renew_files(database, desk.place.cwd, desk.memory)
    except PatternError as error:
        told = (error.sentence,)
    for sentence in told:
        write_error(sentence)


def open_desk(arguments: Memory, process: Process, database: Database) -> Desk:
    """The persona's memory and that of the project around the current directory. Reads files."""
    cwd = resolve_path(str(Path(arguments.cwd or ".").absolute()))
    persona = read_persona(process).name
    owner = MemoryOwner(persona, project_key(git_facts(cwd).common_dir, cwd), SessionId(CONSTELLATION_STREAM))
    clock, ids = SystemClock(), RandomIds()
    settings = process.load_project(cwd).settings.memory
    secrets, isolated = SecretRule(settings.secrets), settings.isolation != Isolation.NONE
    scope = HistoryScope(owner.owners, CONSTELLATION_STREAM, PERSON.actor, PERSON.origin, ids.peer(), secrets)
    templates = process.loaded.paths.config / TEMPLATES
    rules = MemoryRules(secrets=secrets, templates=templates)
    memory, importing = (
        ConstellationMemory(database, owner, clock=clock, ids=ids, peer=scope.peer, writer=writer, rules=rules)
        for writer in (PERSON, IMPORT)
    )
    return Desk(
        arguments,
        process,
        MemoryHistory(database, scope.owners),
        MemoryReverts(database, scope, clock=clock),
        MemoryForgetting(database, scope, clock=clock),
        memory,
        importing,
        partial(search_memory, arguments, process, database, owner),
        SetupPlace(MemorySetup(database, owner, clock=clock), memory, cwd, templates, isolated),
    )


async def _list(desk: Desk) -> Answer:
    healed = await desk.reverts.heal()
    blocks, deleted = await desk.history.blocks(), await desk.history.deleted()
    found = (blocks, deleted, healed, await desk.history.elsewhere(), await desk.history.damaged())
    isolation = await anyio.to_thread.run_sync(_isolation, desk)
    return Answer(pages.list_page(*found, isolation_sentence(isolation)), values.list_value(*found, isolation.value))


def _isolation(desk: Desk) -> Isolation:
    """How far a session in this directory would keep the project apart; its own file may narrow it."""
    loaded = desk.process.load_project(desk.place.cwd)
    return Isolation(loaded.settings.memory.isolation)


async def _show(desk: Desk) -> Answer:
    version = await desk.history.show(desk.arguments.label, _first(desk))
    return Answer(pages.version_page(version, now_ms=SystemClock().now_ms()), values.version_value(version))


async def _log(desk: Desk) -> Answer:
    writes = await desk.history.log(desk.arguments.label, before=_first(desk), limit=LOG_LENGTH)
    return Answer(pages.log_page(writes), values.log_value(writes))


async def _diff(desk: Desk) -> Answer:
    label, numbers, words = desk.arguments.label, desk.arguments.numbers, desk.arguments.words
    old = numbers[0] if numbers else max(1, (await desk.history.show(label)).block.head_update - 1)
    versions = await desk.history.compare(label, old, numbers[1] if len(numbers) == 2 else None)
    return Answer(pages.diff_page(versions, words=words), values.diff_value(versions, words=words))


async def _blame(desk: Desk) -> Answer:
    label, numbers = desk.arguments.label, desk.arguments.numbers
    if numbers:
        spans = await desk.history.blame_range(label, *numbers)
        return Answer(pages.range_page(spans), values.range_value(spans))
    blamed = await desk.history.blame(label)
    return Answer(pages.blame_page(blamed), values.blame_value(blamed))


async def _undo(desk: Desk) -> Answer:
    plan = partial(plan_undo, number=_first(desk))
    return _changed(await desk.reverts.change(desk.arguments.label, plan, desk.arguments.reason))


async def _redo(desk: Desk) -> Answer:
    plan = partial(plan_redo, number=_first(desk))
    return _changed(await desk.reverts.change(desk.arguments.label, plan, desk.arguments.reason))


async def _rollback(desk: Desk) -> Answer:
    plan = partial(plan_rollback, number=desk.arguments.numbers[0])
    return _changed(await desk.reverts.change(desk.arguments.label, plan, desk.arguments.reason))


def _changed(change: HistoryChange) -> Answer:
    return Answer(pages.change_page(change), values.change_value(change))


async def _delete(desk: Desk) -> Answer:
    label = desk.arguments.label
    await desk.reverts.delete(label, desk.arguments.reason)
    return Answer(
        [line(f"{label} is deleted; `pattern-acp memory restore {label}` brings it back.")], {"deleted": label}
    )


async def _restore(desk: Desk) -> Answer:
    label = desk.arguments.label
    block = await desk.reverts.restore(label, desk.arguments.reason, number=_first(desk) or 1)
    lines = [line(f"{label} is back with {len(block.text):,} characters and its whole history.")]
    return Answer(lines, {"restored": label})


async def _edit(desk: Desk) -> Answer:
    arguments = desk.arguments
    # The default blocks exist from the first look at memory on, so that one can be written before any session.
    await desk.memory.blocks()
    opened = await desk.history.show(arguments.label)
    schema = opened.block.schema
    editable = editable_text(schema, opened.text)
    if arguments.file:
        edited = EditedText(read_edited(Path(arguments.file), editable.text), Path(arguments.file))
    else:
        edited = await anyio.to_thread.run_sync(edit_text, editable, arguments.label, desk.process.environ)
    kept = bool(arguments.file)
    # A file of the person's own may be of either form.
    suffix = "" if arguments.file else editable.suffix
    try:
        text = text_of_edited(arguments.label, schema, edited.text, opened.text, suffix)
        if text == opened.text:
            return Answer([line("Nothing was changed.")], {"label": arguments.label, "changed": False})
        plan = partial(plan_merge, opened=opened.write.number, text=text)
        return _changed(await desk.reverts.change(arguments.label, plan, arguments.reason))
    except BlockError as error:
        kept = True
        where = "" if arguments.file == "-" else f" Your text is kept in {edited.path}."
        sentence = f"{error.sentence}{where}"
        return Answer([line((sentence, "red"))], {"error": error.sentence, "file": str(edited.path)}, EXIT_ERROR)
    finally:
        if not kept:
            edited.discard()


async def _import(desk: Desk) -> Answer:
    arguments = desk.arguments
    file = await anyio.to_thread.run_sync(read_import, Path(arguments.file), arguments.label)
    reason = arguments.reason or f"Imported from {file.name}."
    imported = await import_file(desk.importing, desk.place, file, reason)
    return Answer(pages.imported_page(imported), values.imported_value(imported))


async def _forget(desk: Desk) -> Answer:
    arguments = desk.arguments
    passage = arguments.passage
    if passage == "-":
        passage = (await anyio.to_thread.run_sync(sys.stdin.read)).strip("\n")
    wanted = None if arguments.whole else passage
    if not arguments.assume_yes:
        if not sys.stdin.isatty():
            write_failure("cli.not-confirmed", "Forgetting cannot be taken back; say --yes when nobody can be asked.")
            return _not_forgotten(arguments)
        taken = await desk.forgetting.preview(arguments.label, wanted)
        question = forgetting_question(taken).replace("`", "")
        if not await anyio.to_thread.run_sync(_confirmed, question):
            return _not_forgotten(arguments)
    report = await desk.forgetting.forget(arguments.label, wanted, arguments.reason)
    return Answer(pages.forgotten_page(report), values.forgotten_value(report))


def _not_forgotten(arguments: Memory) -> Answer:
    return Answer([line("Nothing was forgotten.")], {"label": arguments.label, "forgotten": False}, EXIT_ERROR)


def _confirmed(question: str) -> bool:
    sys.stderr.write(f"{question} Forget? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


async def _search(desk: Desk) -> Answer:
    hits = await desk.search()
    return Answer(pages.hits_page(desk.arguments.passage, hits), values.hits_value(hits))


async def _archive(desk: Desk) -> Answer:
    await desk.memory.blocks()
    entries, now_ms = await desk.history.archive(), SystemClock().now_ms()
    return Answer(pages.archive_page(entries, now_ms=now_ms), values.archive_value(entries, now_ms=now_ms))


async def _traps(desk: Desk) -> Answer:
    await desk.memory.blocks()
    path = desk.arguments.rest
    noted, now_ms = await noted_about(desk.place, path), desk.place.setup.now_ms()
    told = pages.traps_page(noted, now_ms=now_ms)
    if not noted:
        nothing = traps_table(noted, path, now_ms=now_ms).replace("/memory ", "pattern-acp memory ")
        told = pages.markdown_page(nothing)
    return Answer(told, values.traps_value(noted, now_ms=now_ms))


async def _verify(desk: Desk) -> Answer:
    checked = await desk.history.verify()
    code = EXIT_ERROR if any(one.problems for one in checked) else EXIT_OK
    return Answer(pages.markdown_page(verified_table(checked)), values.verified_value(checked), code)


def _set_up(verb: Callable[[SetupPlace, str], Awaitable[str]]) -> Callable[[Desk], Awaitable[Answer]]:
    async def run(desk: Desk) -> Answer:
        # The default blocks are made when memory is first looked at.
        await desk.memory.blocks()
        answer = await verb(desk.place, desk.arguments.rest)
        told = answer.replace("/memory ", "pattern-acp memory ")
        return Answer(pages.markdown_page(told), {"answer": told.replace("`", "")})

    return run


def _first(desk: Desk) -> int | None:
    return desk.arguments.numbers[0] if desk.arguments.numbers else None


_VERBS: dict[str, Callable[[Desk], Awaitable[Answer]]] = {
    "list": _list,
    "show": _show,
    "history": _log,
    "diff": _diff,
    "blame": _blame,
    "undo": _undo,
    "redo": _redo,
    "rollback": _rollback,
    "delete": _delete,
    "restore": _restore,
    "edit": _edit,
    "import": _import,
    "search": _search,
    "archive": _archive,
    "traps": _traps,
    "trap": _set_up(note_as(BoundKind.TRAP)),
    "constraint": _set_up(note_as(BoundKind.CONSTRAINT)),
    "decision": _set_up(note_as(BoundKind.DECISION)),
    "resolve": _set_up(set_status_to("resolve")),
    "reopen": _set_up(set_status_to("reopen")),
    "verify": _verify,
    "create": _set_up(create_block),
    "set": _set_up(set_up_block),
    "share": _set_up(share_block),
    "unshare": _set_up(unshare_block),
    "forget": _forget,
}

_LOOKING = frozenset({"list", "show", "history", "diff", "blame", "search", "archive", "traps", "verify"})
"""Verbs that change no block."""

_BEGINNING = frozenset(
    {
        *("edit", "import", "create", "set", "share", "search", "archive", "verify"),
        *("traps", "trap", "constraint", "decision"),
    }
)
"""Verbs that may be the first ones ever: they make the constellation, or need no block."""
