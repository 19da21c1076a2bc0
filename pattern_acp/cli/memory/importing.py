"""Taking a file into memory: `pattern-acp memory import FILE [LABEL]`.

Owns: which block a file becomes, and that nothing is stored twice. Must not know: how results look. A file of another
agent (`CLAUDE.md`, notes) is all text; one that this program wrote (`.pattern/memory/`) names its block in its head.
What a block says already is never changed, so that taking a file in again adds only what is new in it.
"""

from contextlib import suppress
from pathlib import Path

import anyio.to_thread
from msgspec import Struct
from msgspec.structs import replace

from pattern_acp.cli.memory.command import read_edited
from pattern_acp.commands.memory_actions import Desk
from pattern_acp.commands.memory_results import Imported
from pattern_acp.memory.block_files import TOML
from pattern_acp.memory.blocks import DEFAULT_LIMIT, MOST_LIMIT
from pattern_acp.memory.errors import DuplicateFoundError, LimitExceededError, UnusableEditError
from pattern_acp.memory.passages import block_passages
from pattern_acp.memory.projection import told_by_file
from pattern_acp.memory.schemas.types import TextSchema
from pattern_acp.memory.service.access import MemoryEdit
from pattern_acp.memory.service.session_memory import ConstellationMemory
from pattern_acp.memory.write_validation import plain


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

    A block that needs more room than usual gets it as the user's setting; the text counts as an import.

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
