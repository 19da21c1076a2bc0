"""Memory stored as files in a project, `.pattern/memory/LABEL.md` or `.toml`, when the user has asked for that.

Owns: when files are written and when edits in them are taken in; `notes.md` and `handoffs.md` beside them, which nobody
reads back (rule R3): an edit of them is written over, and says so at their top. Must not know: the form of blocks
(`memory/block_files.py`), or how texts are merged. Nothing watches the folder: files are written in the operation that
changed a block, after its commit, and read at the next turn. An edit is the user's, merged with what others wrote since
the file was made.
"""

import logging
import os
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct

from pattern_acp.db.connection import Database, Transaction
from pattern_acp.domain.clock import day_of, local_minute
from pattern_acp.domain.errors import BlockError, PatternError
from pattern_acp.domain.text_limits import one_line
from pattern_acp.journal.handoffs import STATES, Handoff, handoffs_since
from pattern_acp.memory.archive import OF_MACHINE, NoteKind, PathNote, Status, bound_entries, last_day
from pattern_acp.memory.block_files import (
    MARKDOWN,
    MOST_BYTES,
    EditableText,
    MemoryFile,
    MemoryFileError,
    content_hash,
    drop_file,
    editable_text,
    file_content,
    file_name,
    files_in,
    note_file,
    text_in_file,
    text_of_edited,
)
from pattern_acp.memory.blocks import Scope
from pattern_acp.memory.history import read_history, text_of_version
from pattern_acp.memory.schemas.types import BlockSchema
from pattern_acp.memory.service.access import MemoryBlockView, MemoryEdit
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.sharing import sound_blocks
from pattern_acp.workspace.files import fingerprint

if TYPE_CHECKING:
    from pattern_acp.session.constellation import Constellation
    from pattern_acp.session.ports import Dialogue
    from pattern_acp.session.state import SessionState


logger = logging.getLogger(__name__)

FOLDER = (".pattern", "memory")

_IGNORED = ".gitignore"

_OTHER_FILES = ("notes.md", "handoffs.md")
"""Files of `note_files`, which no block gets."""


class _OnDisk(Struct, frozen=True):
    """Contents of the files that were written to a folder: bytes by name; a missing file is absent."""

    contents: dict[str, bytes]


async def exchange_files(dialogue: "Dialogue") -> None:
    """Take in what was edited in the files, then bring them up to date. Nothing here ever stops a turn.

    Files that cannot be used are left alone and named to the user, once for each state they are in.
    """
    await _guarded(dialogue, takes_in=True)


async def write_files(dialogue: "Dialogue") -> None:
    """Bring the files up to date after a write; those that were edited meanwhile wait for the next turn."""
    await _guarded(dialogue, takes_in=False)


async def renew_files(database: Database, root: str, memory: ConstellationMemory, *, now_ms: int) -> tuple[str, ...]:
    """Bring the files of the project at `root` up to date after a write outside any session; what is to be reported.

    Only a session begins to keep files: where none did, nothing is written.

    Raises:
        DatabaseError: the constellation cannot be read or written.
    """
    folder = Path(root).joinpath(*FOLDER)
    if not await database.read(lambda tx: files_in(tx, str(folder))):
        return ()
    try:
        if await anyio.to_thread.run_sync(leads_elsewhere, folder, root):
            return ()
        views = await memory.blocks()
        owner = memory.owner
        about = {"project": owner.project_key, "persona": owner.persona, "cwd": root}
        told = await _bring_up_to_date(database, folder, views, _kept(memory))
        return tuple(sentence for _, sentence in (*told, *await _write_notes(database, folder, about, now_ms)))
    except OSError as error:
        return (_not_kept(folder, error),)


async def _guarded(dialogue: "Dialogue", *, takes_in: bool) -> None:
    folder = _folder(dialogue.state)
    try:
        if await anyio.to_thread.run_sync(leads_elsewhere, folder, dialogue.state.policy.roots[0]):
            report_once(
                dialogue.state,
                str(folder),
                "The folder .pattern/memory leads out of the project, so it is not used.",
            )
            return
        views = await dialogue.memory.persona.blocks()
        if takes_in and await _take_in(dialogue, folder, views):
            views = await dialogue.memory.persona.blocks()
        database, kept = dialogue.shared.database, _kept(dialogue.memory.persona)
        for name, sentence in await _bring_up_to_date(database, folder, views, kept):
            report_once(dialogue.state, name, sentence)
        state, now_ms = dialogue.state, dialogue.shared.clock.now_ms()
        about = {"project": state.project_key, "persona": state.persona.name, "cwd": state.cwd}
        for name, sentence in await _write_notes(database, folder, about, now_ms):
            report_once(state, name, sentence)
    except PatternError as error:
        logger.warning("memory was not stored as files: %s", type(error).__name__)
    except OSError as error:
        report_once(dialogue.state, str(folder), _not_kept(folder, error))


async def _write_notes(
    database: Database, folder: Path, about: Mapping[str, str], now_ms: int
) -> list[tuple[str, str]]:
    """Bring the files of notes and handoffs up to date; those in the way, each with a sentence."""

    def read(tx: Transaction) -> dict[str, str]:
        # Blocks of such a name had their files first.
        blocks = {one.file for one in files_in(tx, str(folder)).values()}
        files = note_files(tx, now_ms=now_ms, **about)
        return {name: text for name, text in files.items() if name not in blocks}

    files = await database.read(read)
    strange = await anyio.to_thread.run_sync(write_note_files, folder, files)
    return [(name, MemoryFileError(name, "this memory did not write it; move it away.").sentence) for name in strange]


async def _take_in(dialogue: "Dialogue", folder: Path, views: Sequence[MemoryBlockView]) -> bool:
    """Merge edited files; says whether there was one."""
    written = await dialogue.shared.database.read(lambda tx: files_in(tx, str(folder)))
    disk = await anyio.to_thread.run_sync(_read_all, folder, [one.file for one in written.values()])
    labels = {view.block_id: view.label for view in views}
    took = False
    for one in written.values():
        content = disk.contents.get(one.file)
        if content is None or content_hash(content) == one.file_hash or one.block_id not in labels:
            continue
        try:
            took = await _merge(dialogue, folder, one, content, labels[one.block_id]) or took
            await _note(dialogue.shared, folder, one, content)
        except BlockError as error:
            sentence = error if isinstance(error, MemoryFileError) else MemoryFileError(one.file, error.sentence)
            report_once(dialogue.state, one.file + content_hash(content), sentence.sentence)
    return took


async def _merge(dialogue: "Dialogue", folder: Path, one: MemoryFile, content: bytes, label: str) -> bool:
    schema, base = await dialogue.shared.database.read(lambda tx: _text_then(tx, dialogue.state, one))
    edited = text_in_file(one.file, content, label, known=base)
    text = text_of_edited(label, schema, edited, base, Path(one.file).suffix)
    if text == base:
        return False
    edit = MemoryEdit(label, "rewrite", text, reason=f"Edited in .pattern/memory/{one.file}.", base=base)
    # What the agent wrote into the file, which the user allowed, is the agent's and not the user's.
    seen = dialogue.state.fingerprints.get(str(folder / one.file))
    by_agent = seen is not None and seen == fingerprint(content.decode("utf-8", "replace"))
    await (dialogue.memory.persona if by_agent else dialogue.memory.person).commit(edit, None)
    return True


def _text_then(tx: Transaction, state: "SessionState", one: MemoryFile) -> tuple[BlockSchema, str]:
    """The block's schema, and its text as the file was made of it."""
    owners = (Scope.PERSONA, state.persona.name), (Scope.PROJECT, state.project_key)
    block = next(seen.block for seen in sound_blocks(tx, owners)[0] if seen.block.id == one.block_id)
    if block.head_update == one.version:
        return block.schema, block.text
    return block.schema, text_of_version(read_history(tx, block), one.version)


async def _note(shared: "Constellation", folder: Path, one: MemoryFile, content: bytes) -> None:
    """The edited file counts as written, so that it is brought up to date like the others."""
    known = MemoryFile(one.block_id, one.file, one.version, content_hash(content))
    await shared.database.write(lambda tx: note_file(tx, str(folder), known))


async def _bring_up_to_date(
    database: Database, folder: Path, views: Sequence[MemoryBlockView], kept: Set[str]
) -> list[tuple[str, str]]:
    """Write what changed; the files that are in the way, each with a sentence.

    Files of the blocks `kept` stay as they are.
    """
    written = await database.read(lambda tx: files_in(tx, str(folder)))
    reported: list[tuple[str, str]] = []
    names = _names(views, written)
    disk = await anyio.to_thread.run_sync(_read_all, folder, [*names.values(), *(one.file for one in written.values())])
    new: list[tuple[MemoryFile, bytes]] = []
    for view in views:
        if view.block_id not in names:
            continue
        name, known = names[view.block_id], written.get(view.block_id)
        editable = _editable(view, Path(name).suffix)
        content = file_content(view.label, view.description, view.limit, editable).encode("utf-8", "replace")
        there = disk.contents.get(name)
        if there is not None and there != content and (known is None or content_hash(there) != known.file_hash):
            if known is None:
                reported.append((name, MemoryFileError(name, "this memory did not write it; move it away.").sentence))
            continue
        row = MemoryFile(view.block_id, name, view.version, content_hash(content))
        if there != content or known != row:
            new.append((row, content))
    gone = [one for block_id, one in written.items() if block_id not in names and block_id not in kept]
    unedited = [one.file for one in gone if content_hash(disk.contents.get(one.file, b"")) == one.file_hash]
    if not (new or gone):
        return reported
    changed = [(row.file, content) for row, content in new if disk.contents.get(row.file) != content]
    private = sorted(names[view.block_id] for view in views if view.block_id in names and view.scope == Scope.PERSONA)
    await anyio.to_thread.run_sync(_write_all, folder, changed, unedited, private)

    def note(tx: Transaction) -> None:
        for row, _ in new:
            note_file(tx, str(folder), row)
        for one in gone:
            drop_file(tx, str(folder), one.block_id)

    await database.write(note)
    return reported


def _kept(memory: ConstellationMemory) -> Set[str]:
    """The ids of blocks that cannot be read: their files may be all that is left of them."""
    return {one.visible.block.id for one in memory.damaged}


def _names(views: Sequence[MemoryBlockView], written: dict[str, MemoryFile]) -> dict[str, str]:
    """The file of each own block: the one it has, or a free name."""
    own = [view for view in views if not view.shared_from]
    names = {view.block_id: written[view.block_id].file for view in own if view.block_id in written}
    there = [one.file for one in written.values()]
    for view in own:
        if view.block_id not in names:
            taken = frozenset(name.lower() for name in (*there, *names.values(), *_OTHER_FILES))
            names[view.block_id] = file_name(view.label, taken, _editable(view).suffix)
    return names


def _editable(view: MemoryBlockView, suffix: str = "") -> EditableText:
    """The block's text in the form of its file; a file that was begun as Markdown stays Markdown."""
    if view.schema is None or suffix == MARKDOWN:
        return EditableText(view.text, MARKDOWN)
    return editable_text(view.schema, view.text)


def _folder(state: "SessionState") -> Path:
    return Path(state.policy.roots[0]).joinpath(*FOLDER)


def leads_elsewhere(folder: Path, root: str) -> bool:
    """Return whether a folder is a link out of the project. Blocks."""
    return not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(root))


def _read_all(folder: Path, names: Sequence[str]) -> _OnDisk:
    contents: dict[str, bytes] = {}
    for name in names:
        path = folder / name
        if path.is_symlink() or not path.is_file():
            continue
        with path.open("rb") as file:
            contents[name] = file.read(MOST_BYTES + 1)
    return _OnDisk(contents)


def _write_all(folder: Path, changed: Sequence[tuple[str, bytes]], gone: Sequence[str], private: Sequence[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    ignored = folder / _IGNORED
    if not ignored.exists() and private:
        # What a persona knows of a user is for no repository; who wants it there takes the line out.
        ignored.write_text("\n".join([*private, ""]), encoding="utf-8")
    for name, content in changed:
        part = folder / f".{name}.{os.getpid()}.part"
        part.write_bytes(content)
        part.replace(folder / name)
    for name in gone:
        (folder / name).unlink(missing_ok=True)


def _not_kept(folder: Path, error: OSError) -> str:
    return f"Memory could not be stored as files ({error.strerror}); fix {folder}."


def report_once(state: "SessionState", key: str, sentence: str) -> None:
    """Tell the user of something that is wrong with a file, once for each `key`."""
    if key not in state.reported_files:
        state.reported_files.add(key)
        state.notices.append(sentence)


NOTES, HANDOFFS = "notes.md", "handoffs.md"

SHOWN = 5
"""Handoffs that /handoff and the file show."""

_HEADS = {
    NOTES: "<!-- pattern-acp writes this file from its memory; `/memory traps` lists its notes. -->",
    HANDOFFS: "<!-- pattern-acp writes this file from its journal; `/handoff` leaves one. -->",
}

_SECTIONS = {
    NoteKind.TRAP: "Traps",
    NoteKind.CONSTRAINT: "Constraints",
    NoteKind.DECISION: "Decisions",
}


def note_files(tx: Transaction, *, project: str, persona: str, cwd: str, now_ms: int) -> dict[str, str]:
    """The files by name; an empty text for one that has nothing to say.

    Raises:
        JournalError: an event cannot be understood.
        DatabaseError: the constellation cannot be read.
    """
    notes = bound_entries(tx, ((Scope.PROJECT, project),))
    return {
        NOTES: notes_text([one for one in notes if one.status(now_ms) is Status.ACTIVE]),
        HANDOFFS: handoffs_text(handoffs_since(tx, persona, cwd, 0, limit=SHOWN)),
    }


def notes_text(notes: Sequence[PathNote]) -> str:
    """The notes of a project that hold, by kind; what is about one machine is nothing for the others."""
    parts = [_HEADS[NOTES]]
    for kind, title in _SECTIONS.items():
        lines = [_fresh_note(one) for one in notes if one.terms.kind is kind and one.terms.kind not in OF_MACHINE]
        parts += [f"# {title}\n\n" + "\n".join(lines)] if lines else []
    return "\n\n".join(parts) + "\n" if parts[1:] else ""


def handoffs_text(handoffs: Sequence[Handoff]) -> str:
    """The last handoffs of a folder, the newest first."""
    return "\n\n".join([_HEADS[HANDOFFS], *map(handoff_text, handoffs)]) + "\n" if handoffs else ""


def write_note_files(folder: Path, files: Mapping[str, str]) -> tuple[str, ...]:
    """Bring the files up to date; the names of those in the way, which this program did not write. Blocks."""
    strange: list[str] = []
    for name, text in files.items():
        path, content = folder / name, text.encode("utf-8", "replace")
        there = path.read_bytes() if path.is_file() and not path.is_symlink() else None
        if there == content or (there is None and not text and not path.is_symlink()):
            continue
        if path.is_symlink() or (there is not None and not there.startswith(_HEADS[name].encode())):
            strange += [name] if text else []
        elif text:
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f".{name}.part"
            part.write_bytes(content)
            part.replace(path)
        else:
            path.unlink()
    return tuple(strange)


def _fresh_note(note: PathNote) -> str:
    entry, terms = note.entry, note.terms
    facts = [", ".join(f"`{path}`" for path in terms.paths)] if terms.paths else []
    facts += [f"{terms.severity} severity"] if terms.kind is not NoteKind.DECISION else []
    facts += [f"until {last_day(terms.until_ms)}"] if terms.until_ms is not None else []
    facts += [f"check: `{one_line(entry.check_command, 200)}`"] if entry.check_command else []
    facts += [f"verified {day_of(entry.verified_ms)}"] if entry.verified_ms is not None else []
    facts.append(f"{entry.actor.value}, {day_of(entry.at_ms)}, {entry.id}")
    text = "\n  ".join(entry.text.splitlines())
    why = f"\n  Why: {one_line(entry.reason, 300)}" if entry.reason else ""
    return f"- {text}\n  ({'; '.join(facts)}){why}"


def handoff_text(handoff: Handoff) -> str:
    """A handoff as Markdown."""
    left = handoff.left
    lines = [
        f"**{handoff.title or 'A session'}** ({local_minute(handoff.at_ms)}, {STATES.get(left.state, left.state)})"
    ]
    lines.append(f"- Last asked: {left.request}")
    lines += [f"- Open: {step}" for step in left.steps]
    if left.files:
        more = f" ({len(left.files)} of {left.files_in_all})" if left.files_in_all > len(left.files) else ""
        lines.append(f"- Changed: {', '.join(f'`{path}`' for path in left.files)}{more}")
    lines += [f"- Ended with it: `{line}`" for line in left.commands]
    return "\n".join((lines[0], "", *lines[1:]))
