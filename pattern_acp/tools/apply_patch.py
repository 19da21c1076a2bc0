"""The tool apply_patch: one patch over any number of files, all of them or none.

Owns: what each section of a patch means for the files as they are. Must not know: the grammar (patch_format.py), where
a hunk fits (patch_text.py), how changes are written (file_changes.py).
"""

from functools import partial
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from msgspec import Meta, Struct

from pattern_acp.domain.canonical import JsonObject
from pattern_acp.domain.errors import PatternError
from pattern_acp.domain.ids import ToolCallId
from pattern_acp.domain.tool_calls import ToolKind
from pattern_acp.providers.base import ToolSpec
from pattern_acp.tools.base import PreparedCall, TargetMissingError, ToolContext, ToolFailedError, WrongTargetError
from pattern_acp.tools.file_changes import FileChange, prepared_changes, read_if_there, require_current
from pattern_acp.tools.patch_format import AddFile, DeleteFile, Section, UpdateFile, parse_patch
from pattern_acp.tools.patch_text import PatchedText, apply_hunks
from pattern_acp.tools.read_file import text_lines
from pattern_acp.tools.schema import input_schema, parse_arguments
from pattern_acp.tools.targets import Target, find_target, missing_sentence
from pattern_acp.tools.text_limits import one_line, plural
from pattern_acp.workspace.files import TextFile

LINES_NAMED = 10
"""Line numbers that a result lists for one file."""


class ApplyPatchArguments(Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of apply_patch."""

    input: Annotated[str, Meta(min_length=1, description="The whole patch, from *** Begin Patch to *** End Patch.")]


class ApplyPatch:
    """Applies a patch, all of its files or none."""

    spec = ToolSpec(
        "apply_patch",
        "Edit, add, move and delete files with a patch. When one hunk does not fit exactly, nothing is changed.",
        input_schema(ApplyPatchArguments),
        free_form="input",
    )
    kind = ToolKind.EDIT
    changes_things = True

    async def prepare(self, arguments: JsonObject, _call_id: ToolCallId, context: ToolContext) -> PreparedCall:
        """See `Tool.prepare`."""
        return await prepare_patch(parse_arguments(arguments, ApplyPatchArguments).input, context)


async def prepare_patch(patch: str, context: ToolContext) -> PreparedCall:
    """The call that applies the patch text, with the diffs of all its files as the preview.

    Raises:
        PatchSyntaxError: the text is no patch.
        ToolFailedError: it does not fit the files as they are.
        WorkspaceError: a file could not be read.
    """
    sections = parse_patch(patch)
    named = [(section, *await _targets_of(section, context)) for section in sections]
    targets = [target for _, target, to in named for target in (target, to) if target is not None]
    title = one_line(", ".join(_title(section, target, to) for section, target, to in named))
    _require_distinct(targets)
    changes = [await _plan(section, target, to, context) for section, target, to in named]
    return prepared_changes(title, changes, context)


async def _targets_of(section: Section, context: ToolContext) -> tuple[Target, Target | None]:
    target = await find_target(section.path, context)
    move_to = section.move_to if isinstance(section, UpdateFile) else ""
    if not move_to:
        return target, None
    to = await find_target(move_to, context)
    return target, None if to.path == target.path else to


def _title(section: Section, target: Target, to: Target | None) -> str:
    match section:
        case AddFile():
            return f"Create {target.shown}"
        case DeleteFile():
            return f"Delete {target.shown}"
        case UpdateFile():
            return f"Edit {target.shown}" if to is None else f"Move {target.shown} to {to.shown}"


def _require_distinct(targets: list[Target]) -> None:
    seen: set[str] = set()
    for target in targets:
        if target.resolved in seen:
            raise ToolFailedError(
                f"The patch names {target.shown} more than once; put all its hunks into one section. "
                "Nothing was changed."
            )
        seen.add(target.resolved)


async def _plan(section: Section, target: Target, to: Target | None, context: ToolContext) -> FileChange:
    before = await read_if_there(target, context)
    if isinstance(section, AddFile):
        return _addition(section, target, before)
    if before is None:
        raise TargetMissingError(f"{await missing_sentence(target)} Nothing was changed.")
    is_known = require_current(target, before, context)
    if isinstance(section, DeleteFile) or to is not None:
        await _require_no_link(target)
    if isinstance(section, DeleteFile):
        return FileChange(target, before, None, f"Deleted {target.shown}.")
    if to is not None and await _exists(to):
        raise WrongTargetError(f"{to.shown} exists already, so nothing is moved there. Nothing was changed.")
    patched = await _patched(section, target, before)
    summary = _summary(target, to, patched)
    line = patched.lines[0] if patched.lines else 1
    return FileChange(target, before, patched.text, summary, line, is_known, to)


def _addition(section: AddFile, target: Target, before: TextFile | None) -> FileChange:
    if before is not None:
        raise WrongTargetError(
            f"{target.shown} exists already; change it with `*** Update File: {target.shown}`. Nothing was changed."
        )
    lines = plural(len(text_lines(section.text)), "line")
    return FileChange(target, None, section.text, f"Created {target.shown} ({lines}).", knows_text=True)


async def _patched(section: UpdateFile, target: Target, before: TextFile) -> PatchedText:
    if not section.hunks:
        return PatchedText(before.text, ())
    try:
        return await anyio.to_thread.run_sync(partial(apply_hunks, before.text, section.hunks))
    except PatternError as error:
        raise ToolFailedError(f"{target.shown}: {error.sentence}", failure_code=error.failure_code) from error


async def _require_no_link(target: Target) -> None:
    if await anyio.to_thread.run_sync(Path(target.path).is_symlink):
        raise WrongTargetError(
            f"{target.shown} is a symbolic link; name the file that it leads to, or use a command. Nothing was changed."
        )


async def _exists(target: Target) -> bool:
    return await anyio.to_thread.run_sync(Path(target.path).exists)


def _summary(target: Target, to: Target | None, patched: PatchedText) -> str:
    sentences: list[str] = []
    if to is not None:
        sentences.append(f"Moved {target.shown} to {to.shown}.")
    if patched.lines:
        lines = ", ".join(str(line) for line in patched.lines[:LINES_NAMED])
        more = ", ..." if len(patched.lines) > LINES_NAMED else ""
        where = f"{'line' if len(patched.lines) == 1 else 'lines'} {lines}{more}"
        sentences.append(f"Edited {(to or target).shown}: {plural(len(patched.lines), 'hunk')} at {where}.")
    return " ".join([*sentences, *patched.notes])
