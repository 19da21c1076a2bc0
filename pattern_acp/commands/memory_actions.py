"""Actions of the commands about memory, in an editor and in a terminal alike.

Owns: each verb, with its arguments read already. Must not know: where it was typed, or how a result is shown. Blocks
and their history are stored by memory and its service.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct, field

from pattern_acp.commands import memory_results as results
from pattern_acp.commands.document import Column, Fence, ItemList, Paragraph, Part, Result, Table, as_result, columns
from pattern_acp.commands.memory import NOTED_USAGE
from pattern_acp.commands.parameters import CommandMisusedError
from pattern_acp.domain.errors import BlockError, PatternError
from pattern_acp.domain.globs import split_patterns
from pattern_acp.domain.paths import absolute_path, resolve_path
from pattern_acp.memory.archive import WARNING_KINDS, NoteKind, PathNote, Status, entries_about, relative_names
from pattern_acp.memory.block_files import TOML, EditableText, editable_text, text_of_edited
from pattern_acp.memory.blocks import Isolation, Permission, Scope, project_key
from pattern_acp.memory.diffs import unified_diff
from pattern_acp.memory.service.access import ARCHIVE, MemoryEdit, MemoryFilter, MemoryHit
from pattern_acp.memory.service.forget import ForgettingPreview, MemoryForgetting
from pattern_acp.memory.service.history import MemoryHistory
from pattern_acp.memory.service.search import narrowing_of, without_repeats
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.service.share import MemorySetup
from pattern_acp.memory.service.undo import MemoryReverts
from pattern_acp.memory.sharing import Attachment
from pattern_acp.memory.templates import load_templates
from pattern_acp.memory.undo import plan_merge, plan_redo, plan_rollback, plan_undo
from pattern_acp.workspace.git import git_facts

RECALL_LIMIT = 8
"""Results of a search that are shown."""

PAGE_LENGTH = 200
"""Writes that a page shows: each is compared with the one before."""

RECALLED_FROM = 40
"""Results that are looked at, since the same thing may have been said many times."""

Search = Callable[[str, int, MemoryFilter], Awaitable[Sequence[MemoryHit]]]


class UserEdit(Struct, frozen=True):
    """A text that the user edited, the name of the file that holds it, and what throws that file away."""

    text: str
    file: str
    suffix: str
    discard: Callable[[], None]


class Desk(Struct, frozen=True):
    """The services of every verb."""

    history: MemoryHistory
    reverts: MemoryReverts
    forgetting: MemoryForgetting
    setup: MemorySetup
    memory: ConstellationMemory
    """The user's."""
    cwd: str
    """The folder that paths start from."""
    templates: Path | None
    isolation: Isolation
    find: Search
    confirm: Callable[[ForgettingPreview], Awaitable[bool]]
    """Asks the user whether to forget it."""
    log_length: int = 30
    """Writes that a history shows at a time."""
    edited: Callable[[str, EditableText, str], Awaitable[UserEdit]] | None = None
    """Lets the user edit a text in an editor, or in the file that is named; None where there is no editor."""
    imports: ConstellationMemory | None = None
    """The same memory, whose writes count as an import."""
    recalled: Callable[[Sequence[int]], None] | None = None
    """Counts what a search shows."""
    read_passage: Callable[[], str] = field(default_factory=lambda: str)
    """Reads a passage that is no argument, for `-`."""

    @property
    def now_ms(self) -> int:
        """The time."""
        return self.setup.now_ms()


async def list_blocks(desk: Desk) -> Result:
    """All blocks; what was damaged is repaired first."""
    healed = await desk.reverts.heal()
    history = desk.history
    blocks, deleted, elsewhere = await history.blocks(), await history.deleted(), await history.elsewhere()
    return results.blocks_listed(blocks, deleted, healed, elsewhere, await history.damaged(), desk.isolation)


async def show(desk: Desk, label: str, version: int | None) -> Result:
    """A block, or an older version of it."""
    return results.version_shown(await desk.history.show(label, version), now_ms=desk.now_ms)


async def log(desk: Desk, label: str, before: int | None, html: str = "") -> Result:
    """The writes of a block; as a page, with what each changed and who wrote which line."""
    limit = PAGE_LENGTH if html else desk.log_length
    writes = await desk.history.log(label, before=before, limit=limit)
    rows = tuple(results.write_row(write) for write in writes)
    if not html:
        return results.Log(label, rows)
    from pattern_acp.commands.pages import block_page

    diffs = {row.number: await _difference(desk, label, row.number) for row in rows}
    return block_page(label, rows, diffs, results.lines_blamed(await desk.history.blame(label)).rows)


async def _difference(desk: Desk, label: str, number: int) -> str | None:
    """Compare a write with the one before, in the unified format; None where that cannot be said any more."""
    try:
        if number > 1:
            return results.versions_compared(await desk.history.compare(label, number - 1, number), words=False).diff
        text = (await desk.history.show(label, number)).text
    except BlockError:
        return None
    return unified_diff("", text, before_name="0", after_name="1")


async def compare(desk: Desk, label: str, old: int | None, new: int | None, *, words: bool) -> Result:
    """Two versions; without numbers the newest write."""
    if old is None:
        old = max(1, (await desk.history.show(label)).block.head_update - 1)
    return results.versions_compared(await desk.history.compare(label, old, new), words=words)


async def blame(desk: Desk, label: str, characters: str) -> Result:
    """Who wrote each line, or these characters."""
    if not characters:
        return results.lines_blamed(await desk.history.blame(label))
    start, _, end = characters.partition("-")
    return results.range_blamed(await desk.history.blame_range(label, int(start), int(end)))


async def undo(desk: Desk, label: str, number: int | None, reason: str = "") -> Result:
    """Take back a write."""
    return results.block_changed(await desk.reverts.change(label, partial(plan_undo, number=number), reason))


async def redo(desk: Desk, label: str, number: int | None, reason: str = "") -> Result:
    """Take back an undo."""
    return results.block_changed(await desk.reverts.change(label, partial(plan_redo, number=number), reason))


async def roll_back(desk: Desk, label: str, version: int, reason: str = "") -> Result:
    """Make a block read as a version did."""
    return results.block_changed(await desk.reverts.change(label, partial(plan_rollback, number=version), reason))


async def delete(desk: Desk, label: str, reason: str) -> Result:
    """Delete a block."""
    await desk.reverts.delete(label, reason)
    return results.Deleted(label)


async def restore(desk: Desk, label: str, number: int | None, reason: str) -> Result:
    """Bring back a deleted block."""
    block = await desk.reverts.restore(label, reason, number=number or 1)
    return results.Restored(label, len(block.text))


async def edit(desk: Desk, label: str, text: str = "", file: str = "", reason: str = "") -> Result:
    """Change a block to a text: the one that is passed, or what the user makes of it in an editor or a file."""
    opened = await desk.history.show(label)
    schema = opened.block.schema
    edited: UserEdit | None = None
    if desk.edited is not None:
        edited = await desk.edited(label, editable_text(schema, opened.text), file)
    elif not text.strip():
        return _how_to_edit(label, editable_text(schema, opened.text))
    keeps = bool(file)
    try:
        wanted = (
            text_of_edited(label, schema, text.strip("\n"), opened.text)
            if edited is None
            else text_of_edited(label, schema, edited.text, opened.text, edited.suffix)
        )
        if edited is not None and wanted == opened.text:
            return results.Unchanged(label)
        plan = partial(plan_merge, opened=opened.write.number, text=wanted)
        return results.block_changed(await desk.reverts.change(label, plan, reason))
    except BlockError as error:
        if edited is None:
            raise
        keeps = True
        return results.EditRefused(error.sentence, edited.file)
    finally:
        if edited is not None and not keeps:
            edited.discard()


class _HowToEdit(Result, frozen=True):
    label: str
    text: str
    language: str

    @property
    def document(self) -> Sequence[Part]:
        """The two ways, and the text as it reads now."""
        label = self.label
        return (
            Paragraph(
                f"Run `pattern-acp memory edit {label}` in a terminal in this folder to open it in your editor, or "
                f"send `/memory edit {label}` with the whole new text behind it. It reads now:"
            ),
            Fence(self.text, self.language),
        )


def _how_to_edit(label: str, editable: EditableText) -> Result:
    return _HowToEdit(label, editable.text.rstrip(), "toml" if editable.suffix == TOML else "")


async def create(desk: Desk, label: str, template: str, scope: str, text: str, description: str) -> Result:
    """Make a block; without a label, list the templates."""
    if not label and not (template or scope or text):
        templates = await anyio.to_thread.run_sync(load_templates, desk.templates)
        rows = tuple((name, one.description) for name, one in templates.usable.items())
        notes = (Paragraph(error.sentence, "note") for error in templates.broken.values())
        how = "`/memory create LABEL --template NAME` makes a block of one of these:"
        return as_result(how, Table(columns(Column("Template", code=True), "What for"), rows), *notes)
    if not label:
        raise CommandMisusedError("Say how to call it: /memory create LABEL [--template NAME] DESCRIPTION.")
    reason = "The user asked for it."
    edit = MemoryEdit(label, "create", text, reason=reason, template=template, description=description, scope=scope)
    change = await desk.memory.commit(edit, None)
    where = f". {change.notes[0]}" if change.notes else "."
    typed = f'"{change.label}"' if re.search(r"\s", change.label) else change.label
    return as_result(f"The block `{change.label}` is there{where} `/memory set {typed}` tells its settings.")


async def set_up(desk: Desk, label: str, setting: str, value: str) -> Result:
    """Change a setting of a block; without one, tell them."""
    if setting:
        block = await desk.setup.configure(label, setting.lower(), value)
        return as_result(f"`{block.key.label}`: {setting.lower()} is {value} now.")
    for block in await desk.memory.blocks():
        if block.label == label:
            rows = (
                ("description", block.description),
                ("limit", f"{block.limit:,}"),
                ("permission", block.permission),
                *await _placing(desk, label),
                ("in context now", "yes" if block.in_context else "no"),
                ("holds", block.form or "Free text."),
            )
            return as_result(Table(columns("Setting", "Value"), rows))
    raise CommandMisusedError(f"There is no memory block {label!r}; /memory lists them.")


async def _placing(desk: Desk, label: str) -> tuple[tuple[str, str], ...]:
    """Return the facts that only the owner of a block sets; none for one that is attached here."""
    try:
        block = await desk.setup.own(label)
    except BlockError:
        return ()
    return ("scope", block.key.scope.value), ("tier", block.tier.value), ("pinned", "yes" if block.pinned else "no")


async def share(desk: Desk, label: str, target: str, permission: str) -> Result:
    """Share a block; alone, tell with whom it is shared."""
    if not target:
        shares = await desk.setup.shares(label)
        lines = tuple(f"{share.scope} `{share.owner}`: {share.permission}" for share in shares)
        return as_result(ItemList(lines) if lines else f"`{label}` is shared with nobody.")
    scope, owner = await _target(desk, target)
    try:
        allowed = Permission(permission.lower() or Permission.READ_ONLY)
    except ValueError:
        raise CommandMisusedError(f"A permission is one of {', '.join(Permission)}.") from None
    await desk.setup.share(label, Attachment(scope, owner, allowed))
    return as_result(f"`{label}` is shared with the {scope} `{owner}` now, with the permission {allowed}.")


async def unshare(desk: Desk, label: str, target: str) -> Result:
    """Share a block no longer."""
    scope, owner = await _target(desk, target)
    await desk.setup.unshare(label, scope, owner)
    return as_result(f"`{label}` is not shared any more with the {scope} `{owner}`.")


async def _target(desk: Desk, text: str) -> tuple[Scope, str]:
    kind, colon, name = text.partition(":")
    if colon and name and kind == Scope.PERSONA.value:
        return Scope.PERSONA, name
    if colon and name and kind == Scope.PROJECT.value:
        return Scope.PROJECT, await anyio.to_thread.run_sync(_project, name, desk.cwd)
    raise CommandMisusedError("Share with persona:NAME or project:FOLDER.")


def _project(folder: str, cwd: str) -> str:
    place = resolve_path(absolute_path(folder, cwd))
    return project_key(git_facts(place).common_dir, place)


async def search(
    desk: Desk, query: str, kinds: tuple[str, ...] = (), scope: str = "", since: str = "", until: str = ""
) -> Result:
    """Search memory and past sessions; one result stands for all that say the same."""
    narrowing = narrowing_of(kinds, scope, since, until)
    found = without_repeats(await desk.find(query, RECALLED_FROM, narrowing))[:RECALL_LIMIT]
    if desk.recalled is not None:
        desk.recalled([hit.entry for hit in found])
    return results.hits_found(query, found, narrowed=narrowing != MemoryFilter())


async def archive(desk: Desk) -> Result:
    """The archival entries."""
    return results.entries_archived(await desk.history.archive(), now_ms=desk.now_ms)


async def verify(desk: Desk) -> Result:
    """Check what is stored of each block."""
    return results.VerifiedBlocks(tuple(await desk.history.verify()))


async def list_traps(desk: Desk, path: str) -> Result:
    """List the notes, valid ones first; with a path, those that the agent gets before it edits that file."""
    bound, now_ms = await desk.setup.bound(), desk.now_ms
    path = path.strip('"')
    if path:
        isolated = desk.isolation is not Isolation.NONE
        heard = [one for one in bound if not (isolated and one.entry.scope is Scope.PERSONA)]
        bound = await anyio.to_thread.run_sync(_about, heard, path, desk.cwd, now_ms)
    noted = sorted(bound, key=lambda one: one.status(now_ms) is not Status.ACTIVE)
    return results.traps_noted(path, noted, NOTED_USAGE, now_ms=now_ms)


def _about(bound: Sequence[PathNote], path: str, cwd: str, now_ms: int) -> tuple[PathNote, ...]:
    root = git_facts(cwd).root or resolve_path(cwd)
    try:
        names = relative_names([resolve_path(absolute_path(path, cwd))], root)
    except PatternError as error:
        raise CommandMisusedError(error.sentence) from error
    active = [one for one in bound if one.status(now_ms) is Status.ACTIVE]
    return tuple(meant.bound for meant in entries_about(active, names, root))


async def note_trap(desk: Desk, **noted: str) -> Result:
    """Note a trap."""
    return await _note(desk, NoteKind.TRAP, **noted)


async def note_constraint(desk: Desk, **noted: str) -> Result:
    """Note a constraint."""
    return await _note(desk, NoteKind.CONSTRAINT, **noted)


async def note_decision(desk: Desk, **noted: str) -> Result:
    """Note a decision."""
    return await _note(desk, NoteKind.DECISION, **noted)


async def note_runtime(desk: Desk, **noted: str) -> Result:
    """Note what runs on this machine for a while."""
    return await _note(desk, NoteKind.RUNTIME, **noted)


async def note_machine(desk: Desk, **noted: str) -> Result:
    """Note what is so on this machine alone."""
    return await _note(desk, NoteKind.MACHINE, **noted)


async def _note(  # noqa: PLR0913  the parameters of three rows
    desk: Desk,
    kind: NoteKind,
    *,
    text: str,
    paths: str,
    severity: str,
    until: str,
    check: str,
    reason: str,
    scope: str,
) -> Result:
    globs = tuple(path.strip() for path in split_patterns(paths) if path.strip())
    edit = MemoryEdit(
        ARCHIVE,
        "append",
        text,
        reason=reason,
        check=check,
        scope=scope,
        kind=kind.value,
        paths=globs,
        severity=severity,
        until=until,
    )
    change = await desk.memory.commit(edit, None)
    if kind in WARNING_KINDS and len(change.notes) == 1:
        return as_result(f"{change.notes[0]} The agent reads it before it edits these files.")
    return as_result(" ".join(change.notes))


async def resolve(desk: Desk, entry: str, reason: str) -> Result:
    """An entry holds no longer."""
    return await _set_status(desk, "resolve", entry, reason)


async def reopen(desk: Desk, entry: str, reason: str) -> Result:
    """An entry holds again."""
    return await _set_status(desk, "reopen", entry, reason)


async def _set_status(desk: Desk, operation: str, entry: str, reason: str) -> Result:
    why = reason or "The user said so."
    change = await desk.memory.commit(MemoryEdit(ARCHIVE, operation, "", old_text=entry, reason=why), None)
    return as_result(change.notes[0])


async def forget(desk: Desk, label: str, passage: str | None, *, whole: bool, sure: bool, reason: str = "") -> Result:
    """Forget a passage, or a whole block, everywhere and for good."""
    if passage == "-" and desk.edited is not None:
        passage = (await anyio.to_thread.run_sync(desk.read_passage)).strip("\n")
    wanted = None if whole else passage
    if not sure and not await desk.confirm(await desk.forgetting.preview(label, wanted)):
        return results.NotForgotten(label)
    return results.ForgetResult(await desk.forgetting.forget(label, wanted, reason))
